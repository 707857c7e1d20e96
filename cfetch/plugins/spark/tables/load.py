"""``cfetch metrics load``: turns metrics files into Parquet tables, which many programs can read.

Each of Spark's tasks reads some files whole and writes their rows (``writing.py``); the driver makes each
run's new rows current by one rename (``store.py``).
"""

import glob
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.plugins.spark.tables.store import open_tables, put_rejected, put_run, remove_replaced
from cfetch.plugins.spark.tables.writing import (
    SHOWN_REJECTED,
    LoadedRun,
    RejectedLine,
    RunCopy,
    SourceReport,
    SourceWork,
    write_source,
)
from cfetch.plugins.spark.work import explain_failure, group_into_tasks, run_tasks
from cfetch.show.metrics_reading import expand_metrics
from cfetch.storage.files import input_fault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TASK_BYTES = 64 << 20  # some 100,000 files: a few seconds for a task, which itself costs 50 ms
POLL_S = 0.5  # between looks at another load, which takes some seconds
LONGEST_WAIT_S = 30.0  # for other runs' loads; more than a hundred small runs may end at once

Run = Callable[[Sequence[SourceWork]], list[SourceReport]]


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The document of ``cfetch metrics load --json`` (``cfetch.metrics_load/1``).

    ``rejected`` counts lines that are no metrics; ``first_rejected`` are some of them. ``doubles``: runs with
    several copies, of which the one with most records was taken.
    """

    schema: str = "cfetch.metrics_load/1"
    directory: str
    sources: int
    runs: list[LoadedRun]
    files: int
    attempts: int
    rejected: int
    first_rejected: list[RejectedLine]
    doubles: int


def find_sources(names: Sequence[str]) -> list[Path]:
    """The metrics files for ``names``: files, directories as ``expand_metrics`` takes them, and patterns.

    Raises:
        UsageError: there is no file for a name, or it cannot be read.
    """
    paths: list[str] = []
    for name in names:
        paths += ([] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))) or [name]  # noqa: PTH207 - may be absolute
    sources = dict.fromkeys(path.resolve() for path in expand_metrics(map(Path, paths)))
    for path in sources:
        try:
            str(path).encode()
            path.open("rb").close()
        except UnicodeEncodeError:
            raise UsageError(
                f"{printable(str(path))}: its name is not UTF-8, which tables need; rename it"
            ) from None
        except OSError as error:
            raise input_fault(error, f"{printable(str(path))}: cannot read the metrics") from None
    return list(sources)


def load(sources: Sequence[Path], to: Path, spark: "SparkSession") -> Loaded:
    """Put the runs of ``sources`` into the tables below ``to``; a run that is already there is replaced.

    All executors must see ``sources`` and ``to`` under these names.

    Raises:
        UsageError: ``to`` holds something else.
        LocalFault: a source cannot be read, or the tables cannot be written; they have the old or the new
            version of each run.
        Held: another load writes there.
    """
    return load_by(partial(_run_on_spark, spark), sources, to)


def load_here(source: Path, to: Path) -> Loaded:
    """Do the work of ``load`` for one file of metrics in this process, without Spark. Raises as ``load``.

    Another load there is waited for, as runs end at once.
    """
    until_s = time.monotonic() + LONGEST_WAIT_S
    while True:
        try:
            return load_by(write_sources, [source], to)
        except Held:
            if time.monotonic() > until_s:
                raise
        time.sleep(POLL_S)


def load_by(run: Run, sources: Sequence[Path], to: Path) -> Loaded:
    """Do the work of ``load``; ``run`` does the part of the tasks."""
    to = to.absolute()
    with open_tables(to) as folder:
        now = datetime.now(UTC)
        works = [
            SourceWork(str(source), f"{folder.name}-{number}", str(folder), now)
            for number, source in enumerate(sources)
        ]
        reports = run(works)
        for report in reports:
            if report.fault is not None:
                raise LocalFault(f"a task of the load: {report.fault}; the tables are as they were")
        return _make_current(to, folder, reports)


def write_sources(works: Sequence[SourceWork]) -> list[SourceReport]:
    """Do the work of one task."""
    return [write_source(work) for work in works]


def _run_on_spark(spark: "SparkSession", works: Sequence[SourceWork]) -> list[SourceReport]:
    tasks = group_into_tasks(works, lambda work: Path(work.source).stat().st_size / TASK_BYTES)
    try:
        return list(chain(*run_tasks(spark, tasks, write_sources, list[SourceReport])))
    except Exception as error:  # noqa: BLE001 - Spark's, py4j's and gRPC's have no root in common
        raise explain_failure(error, "finish the job", "and the tables are as they were") from None


def _make_current(to: Path, folder: Path, reports: Sequence[SourceReport]) -> Loaded:
    fullest: dict[str, RunCopy] = {}
    copies = [copy for report in reports for copy in report.copies]
    for copy in copies:
        if copy.key not in fullest or copy.run.files > fullest[copy.key].run.files:
            fullest[copy.key] = copy
    runs = [
        msgspec.structs.replace(copy.run, replaced=put_run(to, folder, copy))
        for copy in sorted(fullest.values(), key=lambda copy: copy.start)
    ]
    for report in reports:
        put_rejected(to, folder, report)
    remove_replaced(to, fullest.values())
    return Loaded(
        directory=str(to),
        sources=len(reports),
        runs=runs,
        files=sum(run.files for run in runs),
        attempts=sum(run.attempts for run in runs),
        rejected=sum(report.rejected for report in reports),
        first_rejected=[line for report in reports for line in report.first_rejected][:SHOWN_REJECTED],
        doubles=len(copies) - len(runs),
    )
