"""A task of ``cfetch metrics load``: one chunk of a metrics file becomes Parquet files. Uses no Spark.

A file gets its name, which contains run, load and chunk, when it is whole and on disk. No reader uses it
before its run's own row names the load (``store.py``); so a task may be repeated, run twice, or die.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from cfetch.base.records import AttemptRecord, EndRecord, EventRecord, FileRecord
from cfetch.base.secret import printable
from cfetch.plugins.spark.tables.chunks import FileChunk, parse_start, read_lines
from cfetch.plugins.spark.tables.columns import ENTRY, RUN, TABLES, table_schema
from cfetch.show.counts import Counts, retries
from cfetch.show.metrics import RunHeader
from cfetch.show.wasted_bytes import received_bytes, wasted_by_attempt, wasted_bytes
from cfetch.storage.files import USERS, open_replacement

FLUSH_RECORDS = 8192  # in memory at a time; with samples some 20 MB
MOST_REJECTED = 1000  # rejected lines of a source that are kept; a wrong file has a million similar ones


class ChunkWork(msgspec.Struct, frozen=True):
    """The work on one chunk. ``load``: the command's unique name, with the source's number."""

    number: int
    chunk: FileChunk
    load: str


class Rejected(msgspec.Struct, frozen=True):
    """A line that is no metrics."""

    line: int
    instant: str | None
    reason: str


class RunInChunk(msgspec.Struct):
    """The part of a run in one chunk: the records that follow the header on ``line``."""

    load: str
    header: RunHeader
    line: int
    counts: Counts = msgspec.field(default_factory=Counts)
    attempts: int = 0
    rejected: int = 0
    end: EndRecord | None = None


class ChunkReport(msgspec.Struct):
    """A task's report to the driver. ``fault``: this executor could not work; nothing counts then."""

    number: int
    segments: list[RunInChunk] = msgspec.field(default_factory=list)
    rejected: list[Rejected] = msgspec.field(default_factory=list)
    rejected_total: int = 0
    fault: str | None = None


def make_run_key(header: RunHeader) -> str:
    """The key in the names of a run's files: a plan may have several runs, with different starts."""
    return hashlib.sha256(f"{header.instant}\n{parse_start(header).isoformat()}".encode()).hexdigest()[:20]


def write_chunk(work: ChunkWork, to: Path) -> ChunkReport:
    """Write the rows of one chunk below ``to``, and report them."""
    report = ChunkReport(work.number)
    try:
        _write(work, to, report)
    except OSError as error:
        where = f" {printable(str(error.filename))}" if error.filename else ""
        report.fault = f"{error.strerror or type(error).__name__}{where} on {os.uname().nodename}"
    return report


def _write(work: ChunkWork, to: Path, report: ChunkReport) -> None:
    with ExitStack() as files:
        rows: _Rows | None = None
        if work.chunk.header is not None:
            rows = files.enter_context(
                _open_rows(work, to, work.chunk.header, work.chunk.header_line, report)
            )
        for line in read_lines(work.chunk):
            content = line.content
            if isinstance(content, RunHeader):
                files.close()  # the run before has ended
                rows = files.enter_context(_open_rows(work, to, content, line.number, report))
            elif isinstance(content, str):
                if rows is None or not line.torn:  # the torn last line of a killed run is no fault
                    _note_rejected(report, None if rows is None else rows.segment, line.number, content)
            elif rows is None:
                _note_rejected(
                    report, None, line.number, "no run header (schema cfetch.run/1) comes before it"
                )
            elif isinstance(content, EventRecord):
                rows.add(line.number, content)
            elif content.instant != rows.segment.header.instant:
                _note_rejected(
                    report, rows.segment, line.number, "its instant is not the one of its run's header"
                )
            elif isinstance(content, EndRecord):
                rows.segment.end = content
            else:
                rows.add(line.number, content)


def _note_rejected(report: ChunkReport, segment: RunInChunk | None, line: int, reason: str) -> None:
    report.rejected_total += 1
    if segment is not None:
        segment.rejected += 1
    if len(report.rejected) < MOST_REJECTED:
        instant = segment.header.instant if segment else None
        report.rejected.append(Rejected(line, instant, printable(reason, 300)))


class _Rows:
    """Collects the records of one segment of a chunk, and writes a file for each table that has rows."""

    def __init__(
        self, files: ExitStack, work: ChunkWork, to: Path, header: RunHeader, line: int, report: ChunkReport
    ) -> None:
        self.segment = RunInChunk(load=f"{work.load}-{line}", header=header, line=line)
        report.segments.append(self.segment)
        self._report = report
        self._at = parse_start(header)
        name = f"{make_run_key(header)}-{self.segment.load}-{work.number}.parquet"
        self._paths = {table: to / table / f"day={self._at.date()}" / name for table in _COLUMNS}
        self._waiting: list[tuple[int, FileRecord | EventRecord]] = []
        self._files = files
        self._writers: dict[str, Any] = {}

    def add(self, line: int, record: FileRecord | EventRecord) -> None:
        self._waiting.append((line, record))
        if len(self._waiting) >= FLUSH_RECORDS:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._write(waiting)

    def _write(self, waiting: list[tuple[int, FileRecord | EventRecord]]) -> None:
        """Write ``waiting``; records that do not fit a column are found by bisection."""
        import pyarrow as pa

        files = [record for _, record in waiting if isinstance(record, FileRecord)]
        events = [record for _, record in waiting if isinstance(record, EventRecord)]
        tries = [
            _Try(record, attempt, wasted)
            for record in files
            for attempt, wasted in zip(record.attempts, wasted_by_attempt(record), strict=True)
        ]
        records: dict[str, Sequence[object]] = {"files": files, "attempts": tries, "events": events}
        run = {"instant": self.segment.header.instant, "wall_start": self._at, "load": self.segment.load}
        try:
            batches = {table: _make_batch(table, run, of_table) for table, of_table in records.items()}
        except (ValueError, OverflowError, pa.ArrowException):
            if len(waiting) == 1:
                reason = "a number or a text in it is out of range"
                _note_rejected(self._report, self.segment, waiting[0][0], reason)
                return
            middle = len(waiting) // 2
            self._write(waiting[:middle])
            self._write(waiting[middle:])
            return
        for table, batch in batches.items():
            if batch.num_rows:
                self._open_writer(table).write_batch(batch)
        for record in files:
            self.segment.counts.add(record)
        self.segment.attempts += len(tries)

    def _open_writer(self, table: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        if table not in self._writers:
            import pyarrow.parquet as pq

            file = self._files.enter_context(open_table(self._paths[table]))
            writer = pq.ParquetWriter(file, table_schema(table), compression="zstd")
            self._writers[table] = self._files.enter_context(writer)
        return self._writers[table]


@contextmanager
def _open_rows(
    work: ChunkWork, to: Path, header: RunHeader, line: int, report: ChunkReport
) -> Iterator[_Rows]:
    with ExitStack() as files:
        rows = _Rows(files, work, to, header, line, report)
        yield rows
        rows.flush()


class _Try(NamedTuple):
    """A row of the table of attempts."""

    record: FileRecord
    attempt: AttemptRecord
    wasted_bytes: int


def _list_getters(table: str, part: str = "") -> dict[str, Callable[[Any], object]]:
    """How to get each column's value of a row, or of a part of it; the columns of the run are left out."""
    return {column.name: attrgetter(part + column.name) for column in TABLES[table][len(RUN) :]}


_COLUMNS = {
    "files": _list_getters("files")
    | {
        "attempts": lambda record: len(record.attempts),
        "retries": retries,
        "received_bytes": received_bytes,
        "wasted_bytes": wasted_bytes,
        "executor": lambda record: None if record.executor is msgspec.UNSET else record.executor,
        "task": lambda record: None if record.task is msgspec.UNSET else record.task,
    },
    "attempts": _list_getters("attempts", "attempt.")
    | {column.name: attrgetter(f"record.{column.name}") for column in ENTRY}
    | {"wasted_bytes": attrgetter("wasted_bytes")},
    "events": _list_getters("events"),
}


def _make_batch(table: str, run: Mapping[str, object], rows: Sequence[object]) -> Any:  # noqa: ANN401
    import pyarrow as pa

    columns: dict[str, list[object]] = {name: [value] * len(rows) for name, value in run.items()}
    columns |= {name: list(map(get, rows)) for name, get in _COLUMNS[table].items()}
    return pa.RecordBatch.from_pydict(columns, schema=table_schema(table))


@contextmanager
def open_table(path: Path) -> Iterator[BinaryIO]:
    """Write a file of a table, and make its directory. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_replacement(path, mode=USERS) as file:  # Spark skips the temporary name, which has a dot
        yield file
