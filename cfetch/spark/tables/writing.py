"""A task of ``cfetch metrics load``: one chunk of a metrics file becomes Parquet files. No Spark in it.

A file gets its name, which says whose it is, when it is whole and on disk. No reader counts it before its
run's own row names the load (``store.py``); so a task may be repeated, run twice, or die.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from cfetch.records import FileRecord
from cfetch.report.counts import Counts, retries
from cfetch.report.metrics import RunHeader
from cfetch.report.wasted_bytes import received_bytes, wasted_by_attempt, wasted_bytes
from cfetch.secret import printable
from cfetch.spark.tables.chunks import Chunk, lines_of, started
from cfetch.spark.tables.columns import TABLES, arrow_schema
from cfetch.storage.files import USERS, open_replacement

__all__ = ["MOST_REJECTED", "Rejected", "Segment", "Told", "Work", "open_table", "run_key", "write_chunk"]

FLUSH_FILES = 8192  # in memory at a time; with samples some 20 MB
MOST_REJECTED = 1000  # of a source that are kept with their reasons; a wrong file has a million, all alike


class Work(msgspec.Struct, frozen=True):
    """What one task is to do. ``load``: the command's own name, with the source's number."""

    number: int
    chunk: Chunk
    load: str


class Rejected(msgspec.Struct, frozen=True):
    """A line that is no metrics."""

    line: int
    instant: str | None
    reason: str


class Segment(msgspec.Struct):
    """What a chunk holds of one run: the records that follow the header on ``line``."""

    load: str
    header: RunHeader
    line: int
    counts: Counts = msgspec.field(default_factory=Counts)
    attempts: int = 0
    rejected: int = 0


class Told(msgspec.Struct):
    """What a task tells the driver. ``fault``: this executor could not work; nothing counts then."""

    number: int
    segments: list[Segment] = msgspec.field(default_factory=list)
    rejected: list[Rejected] = msgspec.field(default_factory=list)
    rejected_total: int = 0
    fault: str | None = None


def run_key(header: RunHeader) -> str:
    """The name of a run's files: a plan may have several runs, each with a start of its own."""
    return hashlib.sha256(f"{header.instant}\n{started(header).isoformat()}".encode()).hexdigest()[:20]


def write_chunk(work: Work, to: Path) -> Told:
    """Write the rows of one chunk below ``to``, and tell what they were."""
    told = Told(work.number)
    try:
        _write(work, to, told)
    except OSError as error:
        where = f" {printable(str(error.filename))}" if error.filename else ""
        told.fault = f"{error.strerror or type(error).__name__}{where} on {os.uname().nodename}"
    return told


def _write(work: Work, to: Path, told: Told) -> None:
    with ExitStack() as files:
        rows: _Rows | None = None
        if work.chunk.header is not None:
            rows = files.enter_context(_Rows(work, to, work.chunk.header, work.chunk.header_line, told))
        for line in lines_of(work.chunk):
            held = line.holds
            if isinstance(held, RunHeader):
                files.close()  # the run before is whole
                rows = files.enter_context(_Rows(work, to, held, line.number, told))
            elif isinstance(held, str):
                if rows is None or not line.torn:  # the torn last line of a run that was killed is no fault
                    _reject(told, None if rows is None else rows.segment, line.number, held)
            elif rows is None:
                _reject(told, None, line.number, "no run header (schema cfetch.run/1) comes before it")
            elif held.instant != rows.segment.header.instant:
                _reject(told, rows.segment, line.number, "its instant is not the one of its run's header")
            else:
                rows.add(line.number, held)


def _reject(told: Told, segment: Segment | None, line: int, reason: str) -> None:
    told.rejected_total += 1
    if segment is not None:
        segment.rejected += 1
    if len(told.rejected) < MOST_REJECTED:
        instant = segment.header.instant if segment else None
        told.rejected.append(Rejected(line, instant, printable(reason, 300)))


class _Rows:
    """The rows of one segment of a chunk, on their way into a file for each table that has some."""

    def __init__(self, work: Work, to: Path, header: RunHeader, line: int, told: Told) -> None:
        self.segment = Segment(load=f"{work.load}-{line}", header=header, line=line)
        told.segments.append(self.segment)
        self._told = told
        self._at = started(header)
        name = f"{run_key(header)}-{self.segment.load}-{work.number}.parquet"
        self._paths = {table: to / table / f"day={self._at.date()}" / name for table in ("files", "attempts")}
        self._waiting: list[tuple[int, FileRecord]] = []
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
            self._put(self._waiting)

    def add(self, line: int, record: FileRecord) -> None:
        self._waiting.append((line, record))
        if len(self._waiting) >= FLUSH_FILES:
            waiting, self._waiting = self._waiting, []
            self._put(waiting)

    def _put(self, waiting: list[tuple[int, FileRecord]]) -> None:
        """Write ``waiting``; records that no column takes are found by halving."""
        import pyarrow as pa

        run = (self.segment.header.instant, self._at, self.segment.load)
        try:
            batches = {
                "files": _batch("files", [run + _file_row(record) for _, record in waiting]),
                "attempts": _batch(
                    "attempts", [run + row for _, one in waiting for row in _attempt_rows(one)]
                ),
            }
        except (ValueError, OverflowError, pa.ArrowException):
            if len(waiting) == 1:
                _reject(self._told, self.segment, waiting[0][0], "a number or a text in it is out of range")
                return
            middle = len(waiting) // 2
            self._put(waiting[:middle])
            self._put(waiting[middle:])
            return
        for table, batch in batches.items():
            if batch.num_rows:
                self._writer(table).write_batch(batch)
        for _, record in waiting:
            self.segment.counts.add(record)
        self.segment.attempts += batches["attempts"].num_rows

    def _writer(self, table: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        if table not in self._writers:
            import pyarrow.parquet as pq

            file = self._files.enter_context(open_table(self._paths[table]))
            writer = pq.ParquetWriter(file, arrow_schema(TABLES[table]), compression="zstd")
            self._writers[table] = self._files.enter_context(writer)
        return self._writers[table]


def _batch(table: str, rows: list[tuple[object, ...]]) -> Any:  # noqa: ANN401 - pyarrow is not typed
    import pyarrow as pa

    schema = arrow_schema(TABLES[table])
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _file_row(record: FileRecord) -> tuple[object, ...]:
    return (
        *(record.id, record.path, record.host, record.size_bytes, record.offset, record.batch, record.volume),
        *(record.status, record.verified, record.bytes, received_bytes(record), wasted_bytes(record)),
        *(record.queued_s, record.start_s, record.end_s, record.rate_bps),
        *(len(record.attempts), retries(record), record.stragglers, record.error_kind, record.error),
    )


def _attempt_rows(record: FileRecord) -> Iterator[tuple[object, ...]]:
    entry = (record.id, record.path, record.host, record.size_bytes)
    for one, wasted in zip(record.attempts, wasted_by_attempt(record), strict=True):
        yield (
            *entry,
            *(one.mirror, one.n, one.outcome, one.http_status, one.error, one.peer),
            *(one.start_s, one.first_byte_s, one.end_s, one.from_byte, one.bytes, wasted),
            *(one.median_bps, one.expected_s, one.samples),
            *(one.projected_s, one.to_byte, one.helper, one.saved_s),
        )


@contextmanager
def open_table(path: Path) -> Iterator[BinaryIO]:
    """Write a file of a table, and make its directory. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_replacement(path, mode=USERS) as file:  # Spark passes over its temporary name, which has a dot
        yield file
