"""``cfetch metrics load``: metrics of many runs as tables."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.cli.output import print_document, progress_printer
from cfetch.cli.verb_options import JsonOption

if TYPE_CHECKING:
    from cfetch.plugins.spark.tables.load import Loaded


app = typer.Typer(help="Put the metrics of many runs into tables.", no_args_is_help=True)

Metrics = Annotated[
    list[str],
    typer.Argument(
        help="Metrics files, also with gzip or zstd; directories of them; patterns.",
        metavar="METRICS...",
        show_default=False,
    ),
]
Tables = Annotated[
    str, typer.Option("--to", help="The directory of the tables.", metavar="DIR", show_default=False)
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Where Spark runs: spark://host:port, sc://host (default: local[*]).",
        metavar="URL",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


@app.command(no_args_is_help=True)
def load(
    *,
    metrics: Metrics,
    to: Tables,
    spark_master: Master = None,
    quiet: Quiet = False,
    json: JsonOption = False,
) -> None:
    """Load metrics into Parquet tables: files, attempts, runs, by day. Spark does it, on one machine or many.

    A run that was loaded before is replaced, so the same directory may be loaded every night. Lines that
    are no metrics go to the table rejected, with reasons, and the exit code is 1. This needs the extra spark
    and Java.

    Examples:

      cfetch metrics load data/.cfetch/metrics/ --to tables/

      cfetch metrics load 'archive/**/*.jsonl.gz' --to tables/ --spark-master spark://head:7077
    """
    from cfetch.plugins.spark.session import mask_master, spark_session
    from cfetch.plugins.spark.tables.load import find_sources
    from cfetch.plugins.spark.tables.load import load as loaded_by
    from cfetch.show.live.open import choose_mode

    sources = find_sources(metrics)
    where = f" at {mask_master(spark_master)}" if spark_master is not None else ""
    progress_printer(quiet=quiet)(f"starting Spark{where}")
    mode = choose_mode(quiet=quiet, progress="auto", terminal=sys.stderr.isatty(), environ=os.environ)
    own_bar = {"spark.ui.showConsoleProgress": "true"} if mode == "live" else {}
    with spark_session(spark_master, settings=own_bar) as spark:
        loaded = loaded_by(sources, Path(to), spark)
    if json:
        print_document(loaded)
    else:
        _print(loaded, to)
    if loaded.rejected:
        raise typer.Exit(1)


def _print(loaded: "Loaded", to: str) -> None:
    from cfetch.base.secret import printable
    from cfetch.show.format import count, plural

    for line in loaded.first_rejected:
        print(f"rejected: {printable(line.source, 1000)}:{line.line}: {line.reason}", file=sys.stderr)
    replaced = sum(run.replaced for run in loaded.runs)
    doubles = f", {plural(loaded.doubles, 'copy')} of runs left out" if loaded.doubles else ""
    print(
        f"{plural(len(loaded.runs), 'run')} ({count(replaced)} replaced{doubles}), "
        f"{plural(loaded.files, 'file')}, {plural(loaded.attempts, 'attempt')}; "
        f"{plural(loaded.rejected, 'line')} rejected; the tables are in {printable(to, 1000)}"
    )
