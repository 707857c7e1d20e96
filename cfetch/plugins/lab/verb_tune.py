"""``cfetch tune``: the best straggler options for runs like those that are recorded."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.cli.output import print_message, print_progress, print_tables
from cfetch.cli.verb_options import HtmlOption, JsonOption

if TYPE_CHECKING:
    from cfetch.plugins.lab.views.tuning_document import Tuning


class TunedPolicy(StrEnum):
    """The policy whose options are tuned."""

    adaptive = "adaptive"
    cloudfetch = "cloudfetch"


class ReplayEngine(StrEnum):
    """Where the replay runs."""

    local = "local"
    spark = "spark"


Metrics = Annotated[
    list[Path],
    typer.Argument(help="Metrics files of three runs or more.", metavar="METRICS...", show_default=False),
]
Grid = Annotated[
    Path | None,
    typer.Option(
        help="YAML lists of values to try: multiplier, and for cloudfetch also quantile and padding.",
        metavar="FILE",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Write the values to this file, for --config.", metavar="FILE", show_default=False),
]
Whose = Annotated[
    TunedPolicy | None,
    typer.Option(
        help="Tune this policy (default: the one that the runs had; where they had none, adaptive).",
        show_default=False,
    ),
]
Where = Annotated[
    ReplayEngine, typer.Option(help="In this process, or on Spark (extra `spark`); both answer alike.")
]
Master = Annotated[
    str | None,
    typer.Option(help="Spark's address (default: local[*]).", metavar="URL", show_default=False),
]


def tune(
    *,
    metrics: Metrics,
    grid: Grid = None,
    policy: Whose = None,
    out: Out = None,
    engine: Where = ReplayEngine.local,
    spark_master: Master = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Recommend options by the metrics of past runs; these are replayed with other options of their policy.

    The values are chosen on some runs and checked on the others. Where they gain no more than noise, or there
    is too little data, the command says so, leaves the default and writes no file.

    Examples:

      cfetch tune data/ --out tuned.yaml

      cfetch download manifest.json --config tuned.yaml

      cfetch tune *.jsonl --json | jq .choice
    """
    from cfetch.base.clock import SystemClock
    from cfetch.base.errors import UsageError
    from cfetch.plugins.lab.tuning.use_case import TuneOptions
    from cfetch.plugins.lab.tuning.use_case import tune as run_tune
    from cfetch.storage.outputs import find_output

    if spark_master is not None and engine is ReplayEngine.local:
        raise UsageError("--spark-master is for --engine spark")
    for path in (out, html):
        if path is not None:
            find_output(path)  # before the work, which may take minutes
    options = TuneOptions(
        metrics=tuple(metrics),
        grid=grid,
        policy=None if policy is None else policy.value,
        engine=engine.value,
        spark_master=spark_master,
    )
    clock = SystemClock()
    tuning = run_tune(options, clock, print_progress)
    if out is not None:
        _write_values(tuning, out, clock.wall())
    if html is not None:
        from cfetch.plugins.lab.pages.tuning_page import make_tuning_page
        from cfetch.show.page.html import write_html

        write_html(make_tuning_page(tuning), html)
    from cfetch.plugins.lab.views.tune_view import view

    written = None if out is None or tuning.leave else str(out)
    print_tables(tuning, lambda tuning: view(tuning, written), json=json)


def _write_values(tuning: "Tuning", out: Path, wall_s: float) -> None:
    """Write the recommended values, or say why there are none."""
    from datetime import UTC, datetime

    from cfetch.base.secret import printable
    from cfetch.plugins.lab.tuning.recommendation import format_config, write_config

    if tuning.leave:
        print_message(f"nothing is written to {printable(str(out))}: {tuning.leave}")
    else:
        write_config(out, format_config(tuning, datetime.fromtimestamp(wall_s, UTC).date().isoformat()))
