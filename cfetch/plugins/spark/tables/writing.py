"""A task of ``cfetch metrics load``: a metrics file becomes Parquet files, for each run and table one.

They go into the load's own folder, where no reader looks, so a task may be repeated, run twice, or die
(``store.py`` puts them where readers look). A task writes while it reads. It uses no Spark.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cfetch.base.errors import CfetchError
from cfetch.base.records import AttemptRecord, EndRecord, EventRecord, FileRecord
from cfetch.base.secret import printable
from cfetch.plugins.spark.tables.columns import ENTRY, RUN, TABLES, table_schema
from cfetch.show.analysis import run_line
from cfetch.show.counts import Counts, retries
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MetricsLine, read_lines
from cfetch.show.wasted_bytes import received_bytes, wasted_by_attempt, wasted_bytes
from cfetch.storage.files import USERS, open_replacement, writing

WRITE_ROWS = 8192  # of a table in memory at a time; attempts with samples some 20 MB
MOST_REJECTED = 1000  # rejected lines of a source that are kept; a wrong file has a million similar ones
SHOWN_REJECTED = 20  # of them in the document
_MOST = (1 << 63) - 1

AddRow = Callable[[str, object], None]
"""Adds a row to the table of a name: what the getters of its columns read."""


class SourceWork(msgspec.Struct, frozen=True):
    """The work on one metrics file. ``load``: the unique name of the command, and the file's number in it."""

    source: str
    load: str
    folder: str
    loaded_at: datetime


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is no metrics."""

    source: str
    line: int
    reason: str


class LoadedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was loaded into the tables; ``replaced``: it was there before."""

    instant: str
    wall_start: str
    source: str
    files: int
    attempts: int
    rejected: int
    complete: bool
    replaced: bool = False


class RunCopy(msgspec.Struct, frozen=True):
    """The copy of a run in one source: its rows are in files ``<load>.<table>``. ``key`` is the run's own."""

    key: str
    start: datetime
    load: str
    tables: list[str]
    run: LoadedRun


class SourceReport(msgspec.Struct):
    """A task's report to the driver. ``fault``: this executor could not work; nothing counts then."""

    source: str
    load: str
    copies: list[RunCopy] = msgspec.field(default_factory=list)
    first_rejected: list[RejectedLine] = msgspec.field(default_factory=list)
    rejected: int = 0
    fault: str | None = None


def _parse_start(header: RunHeader) -> datetime:
    """Parse when the run started, in UTC. Raises ValueError: the header does not state it."""
    try:
        start = datetime.fromisoformat(header.wall_start)
        if start.tzinfo is not None:
            return start.astimezone(UTC)
    except (ValueError, OverflowError):  # OverflowError: in the year 1, east of Greenwich
        pass
    raise ValueError("wall_start is no time with a time zone, such as 2026-01-01T00:00:00Z")


def write_source(work: SourceWork) -> SourceReport:
    """Write the rows of one metrics file, and report them."""
    report = SourceReport(work.source, work.load)
    try:
        shared = {"source": work.source, "loaded_at": work.loaded_at}
        with writing(Path(work.folder)), _open_tables(work, work.load, shared) as add:
            _write_runs(work, report, add)
    except CfetchError as error:
        report.fault = f"{error} on {os.uname().nodename}"
    return report


@contextmanager
def _open_tables(work: SourceWork, load: str, shared: Mapping[str, object]) -> Iterator[AddRow]:
    """Write rows to tables; each gets its file with its first rows, under its name when it is whole.

    ``shared``: columns that have one value in all rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    waiting: defaultdict[str, list[object]] = defaultdict(list)
    writers: dict[str, Any] = {}
    with ExitStack() as files:

        def flush(table: str) -> None:
            if table not in writers:
                file = files.enter_context(open_replacement(Path(work.folder, f"{load}.{table}"), mode=USERS))
                writer = pq.ParquetWriter(file, table_schema(table), compression="zstd")
                writers[table] = files.enter_context(writer)
            rows = waiting.pop(table)
            columns: dict[str, list[object]] = {name: [value] * len(rows) for name, value in shared.items()}
            columns |= {name: list(map(get, rows)) for name, get in _GETTERS[table].items()}
            writers[table].write_batch(pa.RecordBatch.from_pydict(columns, schema=table_schema(table)))

        def add(table: str, row: object) -> None:
            rows = waiting[table]
            rows.append(row)
            if len(rows) >= WRITE_ROWS:
                flush(table)

        yield add
        for table in list(waiting):
            flush(table)


def _write_runs(work: SourceWork, report: SourceReport, add: AddRow) -> None:
    def reject(line: int, instant: str | None, why: str) -> None:
        report.rejected += 1
        rejected = RejectedLine(source=work.source, line=line, reason=printable(why, 300))
        if report.rejected <= MOST_REJECTED:
            add("rejected", msgspec.structs.asdict(rejected) | {"instant": instant})
        if report.rejected <= SHOWN_REJECTED:
            report.first_rejected.append(rejected)

    lines = map(_check_start, read_lines(Path(work.source)))
    line = next(lines, None)
    while line is not None:
        if isinstance(line.content, RunHeader):
            line = _write_run(work, line.number, line.content, lines, report, reject)
            continue
        why = "no run header (schema cfetch.run/1) comes before it"
        reject(line.number, None, line.content if isinstance(line.content, str) else why)
        line = next(lines, None)


def _check_start(line: MetricsLine) -> MetricsLine:
    try:
        if isinstance(line.content, RunHeader):
            _parse_start(line.content)
    except ValueError as error:
        return MetricsLine(line.number, str(error))
    return line


def _write_run(
    work: SourceWork,
    number: int,
    header: RunHeader,
    lines: Iterator[MetricsLine],
    report: SourceReport,
    reject: Callable[[int, str | None, str], None],
) -> MetricsLine | None:
    """Write the run of ``header`` up to the next header, and return that."""
    load, start = f"{work.load}-{number}", _parse_start(header)
    counts, attempts, events, rejected = Counts(), 0, 0, 0
    end: EndRecord | None = None
    following = None
    with _open_tables(work, load, {"instant": header.instant, "wall_start": start, "load": load}) as add:
        for line in lines:
            content = line.content
            if isinstance(content, RunHeader):
                following = line
                break
            if isinstance(content, EventRecord):
                add("events", content)
                events += 1
            elif isinstance(content, str) or content.instant != header.instant:
                if not line.is_torn:  # the torn last line of a killed run is no fault
                    why = "its instant is not the one of its run's header"
                    reject(line.number, header.instant, content if isinstance(content, str) else why)
                    rejected += 1
            elif isinstance(content, EndRecord):
                end = content
            else:
                counts.add(content)
                attempts += len(content.attempts)
                add("files", content)
                for attempt, wasted in zip(content.attempts, wasted_by_attempt(content), strict=True):
                    add("attempts", _Try(content, attempt, min(wasted, _MOST)))
        row = _make_run_row(work, header, counts, end) | {"rejected": rejected}
        add("runs", row)
    run = LoadedRun(
        instant=header.instant,
        wall_start=header.wall_start,
        source=work.source,
        files=counts.ended,
        attempts=attempts,
        rejected=rejected,
        complete=bool(row["complete"]),
    )
    key = hashlib.sha256(f"{header.instant}\n{start.isoformat()}".encode()).hexdigest()[:20]
    sizes = {"files": run.files, "attempts": attempts, "events": events}
    report.copies.append(RunCopy(key, start, load, [table for table, rows in sizes.items() if rows], run))
    return following


def _make_run_row(
    work: SourceWork, header: RunHeader, counts: Counts, end: EndRecord | None
) -> dict[str, object]:
    return msgspec.structs.asdict(run_line(work.source, header, counts)) | {
        "wasted_bytes": min(counts.wasted_bytes, _MOST),
        "bytes": min(counts.fetched_bytes, _MOST),
        "destination": header.destination,
        "settings": msgspec.json.encode(header.settings).decode(),
        "bytes_known": header.bytes_known,
        "sizes_unknown": header.sizes_unknown,
        "policy": None if end is None else end.policy,  # killed, or of an older version
        "exit_code": None if end is None else end.exit_code,
        "saved_s": None if end is None else end.saved_s,
        "set_by": None if end is None else end.tail.bound,
        "set_s": None if end is None else end.tail.seconds,
        "set_path": None if end is None else end.tail.path,
        "set_host": None if end is None else end.tail.host,
        "loaded_at": work.loaded_at,
    }


class _Try(NamedTuple):
    """A row of the table of attempts."""

    record: FileRecord
    attempt: AttemptRecord
    wasted_bytes: int


def _name_columns(table: str) -> list[str]:
    return [column.name for column in TABLES[table] if column not in RUN]


_GETTERS: dict[str, dict[str, Callable[[Any], object]]] = {
    "files": {name: attrgetter(name) for name in _name_columns("files")}
    | {
        "attempts": lambda record: len(record.attempts),
        "retries": retries,
        "received_bytes": lambda record: min(received_bytes(record), _MOST),
        "wasted_bytes": lambda record: min(wasted_bytes(record), _MOST),
        "executor": lambda record: None if record.executor is msgspec.UNSET else record.executor,
        "task": lambda record: None if record.task is msgspec.UNSET else record.task,
    },
    "attempts": {name: attrgetter(f"attempt.{name}") for name in _name_columns("attempts")}
    | {column.name: attrgetter(f"record.{column.name}") for column in ENTRY}
    | {"wasted_bytes": attrgetter("wasted_bytes")},
    "events": {name: attrgetter(name) for name in _name_columns("events")},
    "runs": {name: itemgetter(name) for name in _name_columns("runs")},
    "rejected": {name: itemgetter(name) for name in ("line", "instant", "reason")},
}
"""How to get a column's value of a row, for the columns that rows do not share."""
