"""The index of a feed that is kept as segments: its ranges, and which file has which LSNs.

docs/feed-segments.md defines its form. A segment is *closed* when its last LSN, length and hash are stated;
it never changes again. The last segment of a live range may be open, and only its whole lines count.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from cfetch.base.errors import HostileFeed
from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entry import SafePath
from cfetch.manifest.faults import UrlError
from cfetch.manifest.fields import FieldError, check_path
from cfetch.manifest.urls import resolve_url
from cfetch.plugins.follow.protocol import (
    check_id,
    check_members,
    decode_document,
    format_keys,
    parse_keys,
    parse_lsn,
)
from cfetch.plugins.follow.ranges import KeyRange

INDEX_NAME = "index.json"
FORMAT = "cfetch.segments/1"
SEGMENTS = "segments/"
MAX_SEGMENT_BYTES = 64 << 20  # a segment is read as a whole, as its hash is of the whole
MAX_RANGES = 100_000  # sixteen rounds of splits make some 65,000 ranges of one
MAX_SEGMENTS = 1_000_000  # with 4 MiB each these are 4 TiB of rows
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RANGE_KEYS = ("id", "keys", "ancestors", "first", "kept_from", "segments")
T = TypeVar("T")


class SegmentFile(NamedTuple):
    """A file of change rows with rising LSNs from ``first`` on.

    ``last`` and ``sha256`` are None while it is open. ``size_bytes`` of an open segment: its length when its
    writer ended in good order; None while there may be more.
    """

    path: SafePath
    first: int
    last: int | None = None
    size_bytes: int | None = None
    sha256: str | None = None


class IndexedRange(NamedTuple):
    """A range, live or closed. ``kept_from``: the first LSN that has not been dropped by age."""

    id: str
    keys: KeyRange
    ancestors: frozenset[str]
    first: int
    last: int | None
    kept_from: int
    segments: tuple[SegmentFile, ...]


class SegmentIndex(NamedTuple):
    """``base_url``: the base of relative URLs in rows; None: the place that the index itself came from."""

    feed: str
    base_url: str | None
    ranges: Mapping[str, IndexedRange]

    def live(self) -> list[IndexedRange]:
        """The live ranges by key."""
        return sorted(
            (live for live in self.ranges.values() if live.last is None), key=lambda live: live.keys
        )

    def encode(self) -> bytes:
        """Encode the index as a file; ``parse_index`` decodes it."""
        own: dict[str, object] = {"format": FORMAT, "feed": self.feed}
        if self.base_url is not None:
            own["base_url"] = self.base_url
        own["ranges"] = [_encode_range(indexed) for indexed in self.ranges.values()]
        return msgspec.json.encode(own) + b"\n"


def _encode_range(indexed: IndexedRange) -> dict[str, object]:
    fields: dict[str, object] = {
        "id": indexed.id,
        "keys": format_keys(indexed.keys),
        "ancestors": sorted(indexed.ancestors),
        "first": indexed.first,
        "kept_from": indexed.kept_from,
        "segments": [_encode_segment(segment) for segment in indexed.segments],
    }
    return fields if indexed.last is None else {**fields, "last": indexed.last}


def _encode_segment(segment: SegmentFile) -> dict[str, object]:
    fields = {
        "path": segment.path,
        "first": segment.first,
        "last": segment.last,
        "bytes": segment.size_bytes,
        "sha256": segment.sha256,
    }
    return {key: value for key, value in fields.items() if value is not None}


def parse_index(data: bytes) -> SegmentIndex:
    """Decode an index, which is not trusted.

    Raises:
        HostileFeed: it is not JSON, is incomplete, or contradicts itself.
    """
    what = INDEX_NAME
    top = check_members(decode_document(data, what), what, ("format", "feed", "ranges"), ("base_url",))
    if top["format"] != FORMAT:
        raise HostileFeed(f"{what} is not of the format {FORMAT!r}, which this cfetch reads")
    try:
        feed = check_id(top["feed"])
        base_url = top.get("base_url")
        if base_url is not None:
            if type(base_url) is not str:
                raise FieldError("base_url must be a string")
            base_url = resolve_url(base_url, lambda: None)
        rows = _check_array(top["ranges"], MAX_RANGES)
    except (FieldError, UrlError) as error:
        raise HostileFeed(f"{what}: {error}") from None
    ranges: dict[str, IndexedRange] = {}
    paths: set[str] = set()
    for number, row in enumerate(rows):
        indexed = _parse_range(row, f"{what}: ranges[{number}]", paths)
        if ranges.setdefault(indexed.id, indexed) is not indexed:
            raise HostileFeed(f"{what} has two ranges {indexed.id!r}")
    return SegmentIndex(feed, base_url, ranges)


def _parse_range(row: object, what: str, paths: set[str]) -> IndexedRange:
    fields = check_members(row, what, _RANGE_KEYS, ("last",))
    try:
        last = fields.get("last")
        indexed = IndexedRange(
            check_id(fields["id"]),
            parse_keys(fields["keys"]),
            frozenset(check_id(name) for name in _check_array(fields["ancestors"], MAX_RANGES)),
            parse_lsn(fields["first"]),
            None if last is None else _parse_end(last),
            parse_lsn(fields["kept_from"]),
            tuple(
                _parse_segment(segment_row, what)
                for segment_row in _check_array(fields["segments"], MAX_SEGMENTS - len(paths))
            ),
        )
        _check_order(indexed)
    except FieldError as error:
        raise HostileFeed(f"{what}: {error}") from None
    before = len(paths)
    paths.update(segment.path for segment in indexed.segments)
    if len(paths) != before + len(indexed.segments):
        raise HostileFeed(f"{what} names a segment twice")
    return indexed


def _parse_end(value: object) -> int:
    """Parse a last LSN, which may be one below the first: -1 for a range from 0 on without entries."""
    return -1 if type(value) is int and value == -1 else parse_lsn(value)


def _parse_segment(row: object, what: str) -> SegmentFile:
    fields = check_members(row, f"{what}: a segment", ("path", "first"), ("last", "bytes", "sha256"))
    path = check_path(fields["path"])
    if not path.startswith(SEGMENTS):
        raise FieldError(f"the path of a segment does not begin with {SEGMENTS!r}")
    last, size_bytes, sha256 = (fields.get(key) for key in ("last", "bytes", "sha256"))
    if last is not None or sha256 is not None:
        last = parse_lsn(last)
        if type(sha256) is not str or not _SHA256.fullmatch(sha256):
            raise FieldError("the sha256 of a closed segment must be 64 hex digits in lower case")
        if size_bytes is None:
            raise FieldError("a closed segment has no bytes")
    if size_bytes is not None and parse_lsn(size_bytes) > MAX_SEGMENT_BYTES:
        raise FieldError(f"a segment has more than {MAX_SEGMENT_BYTES} bytes")
    return SegmentFile(path, parse_lsn(fields["first"]), last, size_bytes, sha256)


def _check_order(indexed: IndexedRange) -> None:
    """Check that segments follow each other within the range; only the last of a live range may be open."""
    if indexed.last is not None and indexed.last < indexed.first - 1:
        raise FieldError("last is below first")
    end = indexed.last
    if indexed.kept_from < indexed.first or (end is not None and indexed.kept_from > end + 1):
        raise FieldError("kept_from is outside of the range")
    for segment in indexed.segments:
        if segment.last is not None and segment.last < segment.first:
            raise FieldError("a segment ends before it begins")
        if segment.first < indexed.kept_from or (
            end is not None and (segment.last is None or segment.last > end)
        ):
            raise FieldError("a segment lies outside of what the range keeps")
    for before, segment in itertools.pairwise(indexed.segments):
        if before.last is None or segment.first <= before.last:
            raise FieldError("segments are out of order, or overlap")


def _check_array(value: object, most: int) -> list[Any]:
    if type(value) is not list or len(value) > most:
        raise FieldError(f"it must be an array of at most {most} elements")
    return value


class _Lsn(msgspec.Struct):
    lsn: int


_LSN = msgspec.json.Decoder(_Lsn)


def read_lsn(line: bytes, path: str) -> int:
    """The LSN of a line, thirty times faster than a full check. Raises HostileFeed: it has none."""
    try:
        return _LSN.decode(line).lsn
    except NOT_DECODED:
        raise HostileFeed(f"{path} has a line that is no change with an LSN") from None
