"""``cfetch report``: analyse the metrics of past runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cfetch.cli.options import JsonOption


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
    json: JsonOption = False,
) -> None:
    """What set the end, slowest files, rates by host, and what each mitigation was worth.

    Each run has its own headline; everything else covers the files of all runs together.

    Examples:

      cfetch report data/.cfetch/metrics/*.jsonl

      cfetch report run.jsonl --json | jq .mitigations
    """
    from cfetch.report.analysis import analyse
    from cfetch.report.metrics import expand_metrics, read_metrics
    from cfetch.secret import encode_json

    document = analyse(read_metrics(expand_metrics(metrics)))
    if json:
        sys.stdout.write(encode_json(document) + "\n")
        return
    from cfetch.report.tables import show, tables

    show(tables(document))
