"""A task of ``cfetch metrics load``: one chunk of a metrics file becomes Parquet files. Uses no Spark.

A file gets its name, which contains run, load and chunk, when it is whole and on disk. No reader uses it
before its run's own row names the load (``store.py``); so a task may be repeated, run twice, or die.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from cfetch.records import EndRecord, EventRecord, FileRecord
from cfetch.report.counts import Counts, retries
from cfetch.report.metrics import RunHeader
from cfetch.report.wasted_bytes import received_bytes, wasted_by_attempt, wasted_bytes
from cfetch.secret import printable
from cfetch.spark.tables.chunks import Chunk, parse_start, read_lines
from cfetch.spark.tables.columns import table_schema
from cfetch.storage.files import USERS, open_replacement

FLUSH_FILES = 8192  # in memory at a time; with samples some 20 MB
MOST_REJECTED = 1000  # rejected lines of a source that are kept; a wrong file has a million similar ones


class ChunkWork(msgspec.Struct, frozen=True):
    """The work on one chunk. ``load``: the command's unique name, with the source's number."""

    number: int
    chunk: Chunk
    load: str


class Rejected(msgspec.Struct, frozen=True):
    """A line that is no metrics."""

    line: int
    instant: str | None
    reason: str


class Segment(msgspec.Struct):
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
    segments: list[Segment] = msgspec.field(default_factory=list)
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
            rows = files.enter_context(_Rows(work, to, work.chunk.header, work.chunk.header_line, report))
        for line in read_lines(work.chunk):
            content = line.content
            if isinstance(content, RunHeader):
                files.close()  # the run before has ended
                rows = files.enter_context(_Rows(work, to, content, line.number, report))
            elif isinstance(content, str):
                if rows is None or not line.torn:  # the torn last line of a killed run is no fault
                    _note_rejected(report, None if rows is None else rows.segment, line.number, content)
            elif rows is None:
                _note_rejected(
                    report, None, line.number, "no run header (schema cfetch.run/1) comes before it"
                )
            elif isinstance(content, EventRecord):
                rows.add_event(line.number, content)
            elif content.instant != rows.segment.header.instant:
                _note_rejected(
                    report, rows.segment, line.number, "its instant is not the one of its run's header"
                )
            elif isinstance(content, EndRecord):
                rows.segment.end = content
            else:
                rows.add(line.number, content)


def _note_rejected(report: ChunkReport, segment: Segment | None, line: int, reason: str) -> None:
    report.rejected_total += 1
    if segment is not None:
        segment.rejected += 1
    if len(report.rejected) < MOST_REJECTED:
        instant = segment.header.instant if segment else None
        report.rejected.append(Rejected(line, instant, printable(reason, 300)))


_OUT_OF_RANGE = "a number or a text in it is out of range"


class _Rows:
    """Collects the rows of one segment of a chunk, and writes a file for each table that has rows."""

    def __init__(self, work: ChunkWork, to: Path, header: RunHeader, line: int, report: ChunkReport) -> None:
        self.segment = Segment(load=f"{work.load}-{line}", header=header, line=line)
        report.segments.append(self.segment)
        self._report = report
        self._at = parse_start(header)
        name = f"{make_run_key(header)}-{self.segment.load}-{work.number}.parquet"
        self._paths = {
            table: to / table / f"day={self._at.date()}" / name for table in ("files", "attempts", "events")
        }
        self._waiting: list[tuple[int, FileRecord]] = []
        self._events: list[tuple[int, EventRecord]] = []
        self._files = ExitStack()
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._files.__exit__(kind, error, trace)
            return
        with self._files:
            self._write_rows(self._waiting)
            self._write_events()

    def add(self, line: int, record: FileRecord) -> None:
        self._waiting.append((line, record))
        if len(self._waiting) >= FLUSH_FILES:
            waiting, self._waiting = self._waiting, []
            self._write_rows(waiting)

    def add_event(self, line: int, record: EventRecord) -> None:
        self._events.append((line, record))
        if len(self._events) >= FLUSH_FILES:
            self._write_events()

    def _write_events(self) -> None:
        import pyarrow as pa

        events, self._events = self._events, []
        run = (self.segment.header.instant, self._at, self.segment.load)
        rows = []
        for line, record in events:
            row = run + _make_event_row(record)
            try:
                _make_batch("events", [row])
            except (ValueError, OverflowError, pa.ArrowException):
                _note_rejected(self._report, self.segment, line, _OUT_OF_RANGE)
                continue
            rows.append(row)
        if rows:
            self._open_writer("events").write_batch(_make_batch("events", rows))

    def _write_rows(self, waiting: list[tuple[int, FileRecord]]) -> None:
        """Write ``waiting``; records that do not fit a column are found by bisection."""
        import pyarrow as pa

        run = (self.segment.header.instant, self._at, self.segment.load)
        try:
            batches = {
                "files": _make_batch("files", [run + _make_file_row(record) for _, record in waiting]),
                "attempts": _make_batch(
                    "attempts", [run + row for _, record in waiting for row in _make_attempt_rows(record)]
                ),
            }
        except (ValueError, OverflowError, pa.ArrowException):
            if len(waiting) == 1:
                _note_rejected(self._report, self.segment, waiting[0][0], _OUT_OF_RANGE)
                return
            middle = len(waiting) // 2
            self._write_rows(waiting[:middle])
            self._write_rows(waiting[middle:])
            return
        for table, batch in batches.items():
            if batch.num_rows:
                self._open_writer(table).write_batch(batch)
        for _, record in waiting:
            self.segment.counts.add(record)
        self.segment.attempts += batches["attempts"].num_rows

    def _open_writer(self, table: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        if table not in self._writers:
            import pyarrow.parquet as pq

            file = self._files.enter_context(open_table(self._paths[table]))
            writer = pq.ParquetWriter(file, table_schema(table), compression="zstd")
            self._writers[table] = self._files.enter_context(writer)
        return self._writers[table]


def _make_batch(table: str, rows: list[tuple[object, ...]]) -> Any:  # noqa: ANN401 - pyarrow is not typed
    import pyarrow as pa

    schema = table_schema(table)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _make_event_row(record: EventRecord) -> tuple[object, ...]:
    return (
        *(record.t_s, record.kind, record.host, record.volume, record.id, record.path),
        *(record.places, record.before, record.seconds, record.reason),
    )


def _make_file_row(record: FileRecord) -> tuple[object, ...]:
    return (
        *(record.id, record.path, record.host, record.size_bytes, record.offset, record.batch, record.volume),
        *(record.status, record.verified, record.bytes, received_bytes(record), wasted_bytes(record)),
        *(record.queued_s, record.start_s, record.end_s, record.rate_bps),
        *(len(record.attempts), retries(record), record.stragglers, record.error_kind, record.error),
        None if record.executor is msgspec.UNSET else record.executor,
        None if record.task is msgspec.UNSET else record.task,
    )


def _make_attempt_rows(record: FileRecord) -> Iterator[tuple[object, ...]]:
    entry = (record.id, record.path, record.host, record.size_bytes)
    for attempt, wasted in zip(record.attempts, wasted_by_attempt(record), strict=True):
        yield (
            *entry,
            *(attempt.mirror, attempt.n, attempt.outcome, attempt.http_status, attempt.error, attempt.peer),
            *(attempt.start_s, attempt.first_byte_s, attempt.end_s, attempt.from_byte, attempt.bytes, wasted),
            *(attempt.median_bps, attempt.expected_s, attempt.samples),
            *(attempt.projected_s, attempt.to_byte, attempt.helper, attempt.held_s, attempt.saved_s),
            attempt.content_type,
        )


@contextmanager
def open_table(path: Path) -> Iterator[BinaryIO]:
    """Write a file of a table, and make its directory. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_replacement(path, mode=USERS) as file:  # Spark skips the temporary name, which has a dot
        yield file
