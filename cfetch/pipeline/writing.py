"""A task of ``cfetch metrics load``: one chunk of a metrics file becomes Parquet files. Imports nothing of Spark.

The files get their names, which nobody else's have, when they are whole and on disk. No reader counts them before
the run's own row names their load (``load.py``); so a task may be repeated, or run twice, or die.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from cfetch.events import FileRecord
from cfetch.pipeline.chunks import Chunk, lines_of, started
from cfetch.pipeline.columns import arrow_schema
from cfetch.report.analyse import RunCount
from cfetch.report.metrics import RunHeader
from cfetch.report.verdict import retries
from cfetch.secret import printable
from cfetch.waste import received_bytes, wasted_by_attempt

__all__ = ["MOST_REJECTED", "Rejected", "Segment", "Told", "Work", "new_file", "run_key", "write_chunk"]

FLUSH_FILES = 8192  # in memory at a time; with samples some 20 MB
MOST_REJECTED = 1000  # of a source that are kept with their reasons; a wrong file has a million, all alike
_LONG_AGO = date(1970, 1, 1)


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
    count: RunCount = msgspec.field(default_factory=RunCount)
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
    rows: _Rows | None = None
    if work.chunk.header is not None:
        rows = _Rows(work, to, work.chunk.header, work.chunk.header_line, told)
    for line in lines_of(work.chunk):
        held = line.holds
        if isinstance(held, RunHeader):
            if rows is not None:
                rows.close()
            rows = _Rows(work, to, held, line.number, told)
        elif isinstance(held, FileRecord):
            if rows is None:
                _reject(told, None, line.number, "no run header (schema cfetch.run/1) comes before it")
            elif held.instant != rows.segment.header.instant:
                _reject(
                    told, rows.segment, line.number, "its instant is not that of the run header before it"
                )
            else:
                rows.add(line.number, held)
        elif rows is None or not line.torn:  # the torn last line of a run that was killed is no fault
            _reject(told, rows.segment if rows else None, line.number, held)
    if rows is not None:
        rows.close()


def _reject(told: Told, segment: Segment | None, line: int, reason: str) -> None:
    told.rejected_total += 1
    if segment is not None:
        segment.rejected += 1
    if len(told.rejected) < MOST_REJECTED:
        instant = segment.header.instant if segment else None
        told.rejected.append(Rejected(line, instant, printable(reason, 300)))


class _Rows:
    """The rows of one segment of a chunk, on their way into a file for each table."""

    def __init__(self, work: Work, to: Path, header: RunHeader, line: int, told: Told) -> None:
        self.segment = Segment(load=f"{work.load}-{line}", header=header, line=line)
        self._told = told
        told.segments.append(self.segment)
        self._at = started(header)
        self._name = f"{run_key(header)}-{self.segment.load}-{work.number}.parquet"
        self._to = to
        self._waiting: list[tuple[int, FileRecord]] = []
        self._batches: dict[str, list[Any]] = {"files": [], "attempts": []}

    def add(self, line: int, record: FileRecord) -> None:
        self._waiting.append((line, record))
        if len(self._waiting) >= FLUSH_FILES:
            self._flush()

    def close(self) -> None:
        import pyarrow.parquet as pq

        self._flush()
        for table, batches in self._batches.items():
            if not any(batch.num_rows for batch in batches):
                continue
            path = self._to / table / f"day={self._at.date()}" / self._name
            with (
                new_file(path) as file,
                pq.ParquetWriter(file, arrow_schema(table), compression="zstd") as writer,
            ):
                for batch in batches:
                    writer.write_batch(batch)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for line, record in self._converted(waiting):
            self.segment.count.add(record)
            self.segment.attempts += len(record.attempts)
            del line

    def _converted(self, waiting: list[tuple[int, FileRecord]]) -> list[tuple[int, FileRecord]]:
        return waiting


@contextmanager
def new_file(path: Path) -> Iterator[Any]:
    """Write a file that appears at ``path`` when it is whole and on disk, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")  # Spark passes over dots
    try:
        with hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    except BaseException:
        with suppress(OSError):
            hidden.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
