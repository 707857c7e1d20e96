"""``spark.readStream.format("cfetch.feed")``: a feed, or a directory of manifests, as a stream of files.

An offset states for each manifest how many of its lines, and bytes, were read. A trigger takes all new lines,
or a fair part of them for each manifest; spans of lines are the partitions, and the same offsets give the
same spans. A span is a share that is brought once (``once``), so a trigger that Spark repeats after a crash
downloads nothing again. Its receipt is removed when Spark has committed it.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from cfetch.base.errors import ConfigError
from cfetch.base.records import FileRecord
from cfetch.manifest.entry import Entry
from cfetch.plugins.follow.backends.segment_index import INDEX_NAME
from cfetch.plugins.spark.frames.frame import make_frame_directory, make_run_spec, name_frame_directory
from cfetch.plugins.spark.frames.manifest_directory import ManifestLine, Position, read_lines
from cfetch.plugins.spark.frames.once import bring_share_once
from cfetch.plugins.spark.frames.options import Options, name_source, read_options
from cfetch.plugins.spark.frames.rows import FileRow, list_columns, make_arrow_batches
from cfetch.plugins.spark.schemas import ddl
from cfetch.plugins.spark.session import refuse_older_spark
from cfetch.storage.files import make_private, on_disk
from cfetch.tasks.shares.work import RunSpec, Share

OLDEST_SPARK = (4, 2)  # the first version that limits what a trigger takes from a Python source


class Feed(NamedTuple):
    """A feed as reader and tasks know it: ``path`` holds the manifests, ``directory`` the receipts."""

    path: Path
    directory: Path
    spec: RunSpec
    content_bytes: int | None


class Span(InputPartition):
    """Lines of a manifest: a share."""

    def __init__(self, manifest: str, begin: Position, end: Position) -> None:
        self.manifest = manifest
        self.begin = begin
        self.end = end


class FeedSource(DataSource):
    """The format ``cfetch.feed``, as docs/data-source.md has it. ``slots``: how many tasks run at a time."""

    slots = 2

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "cfetch.feed"

    def schema(self) -> str:
        """The columns. Raises ConfigError."""
        content = self._read_options().content_bytes is not None
        return ddl(list_columns(content=content, manifest=True))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's names
        """Make the reader. Raises UsageError, LocalFault."""
        refuse_older_spark(OLDEST_SPARK, self.name())
        from cfetch.plugins.spark.frames.feed_pull import FeedPuller
        from cfetch.plugins.spark.frames.feed_reader import FeedReader, PulledReader

        options = self._read_options()
        text = options.own.get("maxfilespertrigger")
        most = None if text is None else int(text)
        feed = open_feed_state(options, slots=self.slots)
        if _is_feed(options.own["feed"]):
            puller = FeedPuller(feed.path, options.own["feed"], options.settings, options.env)
            return PulledReader(feed, most, puller)
        return FeedReader(feed, most)

    def _read_options(self) -> Options:
        given = name_source(self.options, "feed", "path")
        options = read_options(given, "maxfilespertrigger", needed="feed")
        most = options.own.get("maxfilespertrigger", "1")
        if not re.fullmatch("[1-9][0-9]{0,8}", most):
            raise ConfigError("option maxFilesPerTrigger must be a whole number from 1")
        if not (options.own["feed"].startswith("/") or _is_feed(options.own["feed"])):
            raise ConfigError(
                "option feed must name a feed, or the absolute path of a directory that all executors see"
            )
        return options


def _is_feed(path: str) -> bool:
    """True for the name of a feed, False for a directory of manifests."""
    return "://" in path or (Path(path) / INDEX_NAME).is_file()


def open_feed_state(options: Options, *, slots: int) -> Feed:
    """Make the directories of a feed's state. Raises LocalFault."""
    directory = name_frame_directory(options, "feeds", options.own["feed"])
    make_frame_directory(options, directory)
    path = directory / "pulled" if _is_feed(options.own["feed"]) else Path(options.own["feed"])
    spec = make_run_spec(options, directory, str(path), slots=slots)
    return Feed(path, directory, spec, options.content_bytes)


def locate_receipts(feed: Feed, manifest: str) -> Path:
    """A directory for each span of a manifest: ``<first byte>-<end>``."""
    return feed.directory / hashlib.sha256(manifest.encode()).hexdigest()[:32]


def read_span(feed: Feed, span: Span) -> Iterator[pa.RecordBatch]:
    """Bring the files of a span, unless that was done, and return their rows; runs on an executor.

    Raises:
        LocalFault: this executor cannot do the work.
    """
    text = read_lines(feed.path / span.manifest, span.begin, span.end, feed.spec.settings.base_url)
    first: dict[str, Entry] = {}  # of several lines that name one file
    for line in text.lines:
        if line.entry is not None:
            first.setdefault(line.entry.path, line.entry)
    receipts = locate_receipts(feed, span.manifest) / f"{span.begin.bytes}-{span.end.bytes}"
    with on_disk(receipts):
        make_private(receipts)
    spec = msgspec.structs.replace(feed.spec, headers=text.headers, receipts=str(receipts))
    task = int(hashlib.sha256(str(receipts).encode()).hexdigest()[:14], 16)  # no other span has it
    records = bring_share_once(spec, Share([*first.values()], spec.at_a_time), 0, task=task)
    rows = _make_rows(span.manifest, text.lines, first, {record.path: record for record in records})
    return make_arrow_batches(rows, Path(spec.place.root), content_bytes=feed.content_bytes, manifest=True)


def _make_rows(
    manifest: str, lines: list[ManifestLine], first: dict[str, Entry], records: dict[str, FileRecord]
) -> Iterator[FileRow]:
    """A row for each line. If several lines name one file, the first one is brought."""
    for line in lines:
        if line.entry is None:
            yield FileRow(line.number, error=line.error, manifest=manifest)
            continue
        entry, other, record = line.entry, first[line.entry.path], records[line.entry.path]
        if other is entry:
            yield FileRow(line.number, entry.digest, record, manifest=manifest)
        elif (entry.size_bytes, entry.digest) == (other.size_bytes, other.digest):
            status = "skipped" if record.status == "done" else record.status
            again = msgspec.structs.replace(record, status=status, size_bytes=record.bytes)
            yield FileRow(line.number, entry.digest, again, manifest=manifest)
        else:
            error = f"line {other.id + 1} states another size or hash for the same path; give it another path"
            yield FileRow(line.number, error=error, manifest=manifest)
