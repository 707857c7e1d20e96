"""The driver's side of ``cfetch.feed``: its offsets, the lines that a trigger takes, and their partitions.

Spark runs it in a process of its own beside the driver, for as long as the query lives.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.plugins.spark.frames.feed_pull import FeedPuller, name_manifest, parse_number
from cfetch.plugins.spark.frames.feed_spans import Feed, FeedSpan, locate_receipts, read_span
from cfetch.plugins.spark.frames.manifest_directory import START, DirectoryPosition, advance, list_manifests
from cfetch.tasks.hub.leases import divide_fairly

SPAN_LINES = 200  # 0.6 s with 50 ms each, 16 at a time: a task's own 50 ms are little beside it
Offset = dict[str, list[int]]  # lines and bytes by the manifest's name, in JSON's types


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``most``: the most files of a trigger; None: all."""

    def __init__(self, feed: Feed, most: int | None) -> None:
        self._feed = feed
        self._most = most
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - as all of these, Spark's name
        """The offset before any line was read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a trigger in rows: a row is a file."""
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run: lines that come later are the next run's. Raises LocalFault."""
        self._target = list_manifests(self._feed.path)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far a trigger goes from ``start``. Raises UsageError, LocalFault."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        sizes = self._target if self._target is not None else list_manifests(self._feed.path)
        ends = {
            name: self._advance(name, _position_in(start, name), size, most) for name, size in sizes.items()
        }
        new = {name: end.lines - _position_in(start, name).lines for name, end in ends.items()}
        if most is not None:
            new = divide_fairly(new, most, sorted(new, key=new.__getitem__))
            ends = {
                name: self._advance(name, _position_in(start, name), sizes[name], new[name]) for name in new
            }
        return start | {name: list(end) for name, end in ends.items() if new[name]}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The partitions between two offsets, always the same ones. Raises UsageError, LocalFault."""
        return [
            span
            for name in end
            for span in self._cut_spans(name, _position_in(start, name), _position_in(end, name))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Bring a span and return its rows: ``read_span``."""
        assert isinstance(partition, FeedSpan)
        return read_span(self._feed, partition)

    def commit(self, end: Offset) -> None:
        """Remove the receipts of all before ``end``: Spark does not repeat it any more."""
        for name in end:
            with suppress(OSError):
                for path in list(locate_receipts(self._feed, name).iterdir()):
                    if int(path.name.partition("-")[2]) <= _position_in(end, name).bytes:
                        shutil.rmtree(path, ignore_errors=True)

    def _advance(
        self, name: str, begin: DirectoryPosition, end_bytes: int, most: int | None
    ) -> DirectoryPosition:
        return advance(self._feed.path / name, begin, end_bytes, most)

    def _cut_spans(self, name: str, begin: DirectoryPosition, end: DirectoryPosition) -> Iterator[FeedSpan]:
        while begin.bytes < end.bytes:
            middle = self._advance(name, begin, end.bytes, SPAN_LINES)
            if middle == begin:
                shown = printable(str(Path(self._feed.path, name)))
                raise UsageError(f"{shown} has lost lines that a trigger was to read; put them back")
            yield FeedSpan(name, begin, middle)
            begin = middle


class PulledReader(FeedReader):
    """A reader of a feed: a trigger is one manifest, which ``FeedPuller`` makes when Spark asks for it."""

    def __init__(self, feed: Feed, most: int | None, puller: FeedPuller) -> None:
        super().__init__(feed, most)
        self._puller = puller
        self._is_bounded = False
        self._is_over = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let this run end at the first time that the feed has nothing new."""
        self._is_bounded = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The offset one manifest further. Raises SourceError, FeedError, Held, LocalFault."""
        if self._is_over:
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        number = self._puller.pull_next(_find_trigger(start), most)
        if number is None:
            self._is_over = self._is_bounded
            return start
        name = name_manifest(number)
        end = advance(self._feed.path / name, START, (self._feed.path / name).stat().st_size, None)
        return {name: list(end)}

    def commit(self, end: Offset) -> None:
        """Remove the receipts and manifests of all before ``end``."""
        super().commit(end)
        self._puller.forget(_find_trigger(end))


def _find_trigger(offset: Offset) -> int:
    return max(map(parse_number, offset), default=0)


def _position_in(offset: Offset, name: str) -> DirectoryPosition:
    return DirectoryPosition(*offset.get(name, START))
