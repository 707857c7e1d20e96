"""``cfetch report``: analyse the metrics of past runs."""

from pathlib import Path
from typing import Annotated

import typer

from cfetch.base.secret import printable
from cfetch.cli.output import print_message, print_tables
from cfetch.cli.verb_options import HtmlOption, JsonOption


def report(
    *,
    metrics: Annotated[
        list[Path],
        typer.Argument(
            help="Metrics files of one or several runs, or directories with them.",
            metavar="METRICS...",
            show_default=False,
        ),
    ],
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Explain how long a run took: its last files, slow hosts, and what restarts saved.

    Each run has its own headline; everything else covers the files of all runs together.

    Examples:

      cfetch report data/

      cfetch report run.jsonl --json | jq .mitigations

      cfetch report before.jsonl after.jsonl --html report.html
    """
    if html is not None:
        _write_page(metrics, html)
        return
    from cfetch.show.analysis import analyse
    from cfetch.show.metrics_reading import expand_metrics, read_metrics
    from cfetch.show.tables import ReportTables

    print_tables(analyse(read_metrics(expand_metrics(metrics, print_message))), ReportTables, json=json)


def _write_page(metrics: list[Path], html: Path) -> None:
    from cfetch.show.metrics_reading import expand_metrics, read_metrics
    from cfetch.show.page.html import write_html
    from cfetch.show.page.runs_page import make_runs_page

    write_html(make_runs_page(read_metrics(expand_metrics(metrics, print_message))), html)
    print_message(f"the page is in {printable(str(html), 1000)}; open it in a browser")
