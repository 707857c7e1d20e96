"""The spans of a feed's manifests: their state on disk, and how a task brings the files of one."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from cfetch.base.records import FileRecord
from cfetch.manifest.entry import Entry
from cfetch.plugins.follow.server.segments.index import INDEX_NAME
from cfetch.plugins.spark.frames.frame import make_frame_directory, make_run_spec, name_frame_directory
from cfetch.plugins.spark.frames.manifest_directory import DirectoryPosition, ManifestLine, read_lines
from cfetch.plugins.spark.frames.once import bring_share_once
from cfetch.plugins.spark.frames.options import Options
from cfetch.plugins.spark.frames.rows import FileRow, make_arrow_batches
from cfetch.storage.files import make_private, on_disk
from cfetch.tasks.hub.messages import HubAddress
from cfetch.tasks.shares.work import RunSpec, Share


class Feed(NamedTuple):
    """A feed as reader and tasks know it: ``path`` holds the manifests, ``directory`` the receipts."""

    path: Path
    directory: Path
    spec: RunSpec
    content_bytes: int | None


class FeedSpan(InputPartition):
    """Lines of a manifest: a share."""

    def __init__(self, manifest: str, begin: DirectoryPosition, end: DirectoryPosition) -> None:
        self.manifest = manifest
        self.begin = begin
        self.end = end


def is_feed(path: str) -> bool:
    """True for the name of a feed, False for a directory of manifests."""
    return "://" in path or (Path(path) / INDEX_NAME).is_file()


def open_feed_state(options: Options, *, slots: int, hub: HubAddress | None = None) -> Feed:
    """Make the directories of a feed's state. Raises LocalFault."""
    directory = name_frame_directory(options, "feeds", options.own["feed"])
    make_frame_directory(options, directory)
    path = directory / "pulled" if is_feed(options.own["feed"]) else Path(options.own["feed"])
    spec = make_run_spec(options, directory, str(path), slots=slots, hub=hub)
    return Feed(path, directory, spec, options.content_bytes)


def locate_receipts(feed: Feed, manifest: str) -> Path:
    """A directory for each span of a manifest: ``<first byte>-<end>``."""
    return feed.directory / hashlib.sha256(manifest.encode()).hexdigest()[:32]


def read_span(feed: Feed, span: FeedSpan) -> Iterator[pa.RecordBatch]:
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
    return make_arrow_batches(
        rows, Path(spec.destination.root), content_bytes=feed.content_bytes, manifest=True
    )


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
