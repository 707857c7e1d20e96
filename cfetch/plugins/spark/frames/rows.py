"""The rows of the data sources: one for each file, as Arrow batches."""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from cfetch.base.errors import Blocked
from cfetch.base.records import FileRecord
from cfetch.base.secret import printable
from cfetch.manifest.entry import Digest, SafePath
from cfetch.plugins.spark.frames.frame_words import MANIFEST_WORDS, put_into_frame_words
from cfetch.plugins.spark.schemas import arrow_schema
from cfetch.storage.directory import Directory
from cfetch.storage.files import local_fault

COLUMNS = {
    "id": "bigint",
    "path": "string",
    "size_bytes": "bigint",
    "hash": "struct<algorithm:string,hex:string>",
    "status": "string",
    "verified": "string",
    "volume": "string",
    "started": "timestamp",
    "ended": "timestamp",
    "elapsed_s": "double",
    "rate_bps": "double",
    "stragglers": "int",
    "attempts": "int",
    "error_kind": "string",
    "error": "string",
}
"""Sizes are bytes, rates bytes per second; ``hash`` is the manifest's."""

ROWS = 1000  # of an Arrow batch; Spark's own limit of records is ten times that
CONTENT_BYTES = 32 << 20  # of an Arrow batch, as several copies of it are in memory


class FileRow(NamedTuple):
    """The facts of one file; ``digest`` is the manifest's."""

    id: int
    digest: Digest | None
    record: FileRecord


def list_columns(*, content: bool) -> dict[str, str]:
    """The columns of a source, and their types as Spark names them."""
    return COLUMNS | ({"content": "binary"} if content else {})


def make_arrow_batches(
    rows: Iterable[FileRow], root: Path, *, content_bytes: int | None
) -> Iterator[pa.RecordBatch]:
    """Make batches. ``content_bytes``: files up to that size have their content; None: no such column.

    Raises:
        LocalFault: a file cannot be read.
    """
    schema = arrow_schema(list_columns(content=content_bytes is not None))
    with closing(Directory(root)) as volume:
        for part in cut_batches(_make_values(row, volume, content_bytes) for row in rows):
            yield pa.RecordBatch.from_pylist(part, schema=schema)


def cut_batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows in parts for Arrow batches: ``ROWS`` of them, or about ``CONTENT_BYTES`` of contents."""
    part: list[dict[str, Any]] = []
    held_bytes = 0
    for row in rows:
        part.append(row)
        held_bytes += len(row.get("content") or b"")
        if len(part) == ROWS or held_bytes >= CONTENT_BYTES:
            yield part
            part, held_bytes = [], 0
    if part:
        yield part


def _make_values(row: FileRow, volume: Directory, content_bytes: int | None) -> dict[str, Any]:
    record = row.record
    is_there = record.is_in_place
    return {
        "id": row.id,
        "path": record.path,
        "size_bytes": find_size(volume, record) if is_there else record.size_bytes,
        "hash": None if row.digest is None else {"algorithm": row.digest.algorithm, "hex": row.digest.hex},
        "status": record.status,
        "verified": record.verified,
        "volume": record.volume,
        "started": datetime.fromtimestamp(record.start_s, UTC),
        "ended": datetime.fromtimestamp(record.end_s, UTC),
        "elapsed_s": record.end_s - record.start_s,
        "rate_bps": record.rate_bps,
        "stragglers": record.stragglers,
        "attempts": len(record.attempts),
        "error_kind": record.error_kind,
        "error": record.error and put_into_frame_words(record.error, MANIFEST_WORDS),
        "content": None if content_bytes is None else read_content(volume, record, content_bytes),
    }


def find_size(volume: Directory | None, record: FileRecord) -> int | None:
    """The size of a file in place; None for the ``volume``: an object of a store, of stated size if any."""
    if record.status == "done":
        return record.bytes
    if volume is None:
        return record.size_bytes
    try:
        return volume.existing(SafePath(record.path))
    except Blocked:  # something else has taken its place since the check
        return record.size_bytes


def read_content(volume: Directory, record: FileRecord | None, most_bytes: int) -> bytes | None:
    """The bytes of a file in place; None if it is not there, or has more than ``most_bytes``.

    Raises LocalFault.
    """
    if record is None or not record.is_in_place:
        return None
    try:
        descriptor = volume.open_existing(SafePath(record.path))
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read() if os.fstat(descriptor).st_size <= most_bytes else None
    except Blocked:
        return None
    except OSError as error:
        raise local_fault(error, f"cannot read {printable(record.path)}") from None
