"""A feed that is kept as files, for publishers who have only static storage (docs/feed-segments.md).

There is no server to ask, so the index answers: it says which ranges are live, which LSNs the closed ones
owned, and which segment has which LSNs. So a reader with an old checkpoint opens only the segments that it
needs.
"""

import hashlib
import sys
from bisect import bisect_left
from collections import OrderedDict
from typing import NamedTuple

from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed, Refused, Transient
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, check_url
from cfetch.plugins.follow.backends.web import open_web
from cfetch.plugins.follow.protocol import decode_document, parse_change
from cfetch.plugins.follow.ranges import KeyRange, Position, Range, Span
from cfetch.plugins.follow.server.segments.files import SegmentFiles, UrlFiles
from cfetch.plugins.follow.server.segments.index import (
    INDEX_NAME,
    MAX_SEGMENT_BYTES,
    IndexedRange,
    SegmentFile,
    SegmentIndex,
    parse_index,
    read_lsn,
)
from cfetch.plugins.follow.source import Change, FeedId, Gone, NotModified, Page, Ranges, Why

MAX_INDEX_BYTES = 256 << 20  # a million segments
MAX_LINES_A_PAGE = 10_000  # lines checked before other tokens get their turn: a tenth of a second
MAX_KEPT_BYTES = 64 << 20  # of segments in memory, so that each page does not fetch its segment again
MISSING_TRIES = 3  # for a missing segment: if it was just retired, the next index says so


class _Lines(NamedTuple):
    """Whole lines of a segment: from ``from_byte`` on, all those whose LSN is above ``after_lsn``."""

    data: bytes
    from_byte: int = 0
    after_lsn: int = -1


class SegmentSource:
    """A ``FeedSource``. A range is gone as soon as the index says so, even if entries are left to read."""

    reads_at_once = 1  # a segment is fetched once for all tokens that are in it, one after the other

    def __init__(self, files: SegmentFiles) -> None:
        self._files = files
        self._index_bytes: bytes | None = None
        self._index = SegmentIndex("", None, {})
        self._etag = ""
        self._kept: OrderedDict[str, _Lines] = OrderedDict()

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """List the live ranges, as ``FeedSource`` says."""
        index = await self._read_index()
        if etag == self._etag:
            return NotModified()
        feed = FeedId(self._files.account, index.feed)
        return Ranges(
            feed, self._etag, tuple(Range(live.id, live.keys, live.ancestors) for live in index.live())
        )

    async def info(self, of: str, via: str) -> Span | Gone:
        """Ask for the LSNs of a range, as ``FeedSource`` says."""
        index = await self._read_index()
        if not _archives(index, via, of):
            return Gone(Why.RANGE_GONE)
        owned = _find_range(index, of)
        return Span(owned.first, owned.last)

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """Read a page of a range, as ``FeedSource`` says. A page comes from one segment."""
        missing = ""
        for _ in range(MISSING_TRIES):
            index = await self._read_index()
            if not _archives(index, via, position.range):
                return Gone(Why.RANGE_GONE)
            owned = _find_range(index, position.range)
            next_lsn = position.next_lsn or owned.kept_from
            if next_lsn < owned.kept_from:
                raise CheckpointExpired(
                    f"range {owned.id} keeps its entries from LSN {owned.kept_from} on; those from "
                    f"{next_lsn} to {owned.kept_from - 1} were dropped by age"
                )
            if owned.last is not None and next_lsn > owned.last:
                return Page((), next_lsn)
            segment = _find_segment(owned, next_lsn)
            if segment is None:
                return NotModified() if owned.last is None else Page((), owned.last + 1)
            lines = await self._read_lines(segment, next_lsn)
            if lines is not None:
                base_url = index.base_url or self._files.base_url
                return _make_page(lines, segment, next_lsn, keys, limit, base_url)
            missing = segment.path
        raise Transient(f"the index names {missing}, which is not there (or not there yet)")

    async def close(self) -> None:
        """Close connections and files, as ``FeedSource`` says."""
        self._kept.clear()
        await self._files.close()

    async def _read_index(self) -> SegmentIndex:
        """Read the index as it is now. Raises FeedReplaced if it belongs to another feed than at first."""
        data = await self._files.fresh(INDEX_NAME, MAX_INDEX_BYTES)
        if data is None:
            if self._etag:
                raise FeedReplaced(f"the feed was deleted: its {INDEX_NAME} is not there any more")
            raise Refused(f"there is no {INDEX_NAME}, so this is no feed of segments")
        if data != self._index_bytes:
            index = parse_index(data)
            if self._etag and index.feed != self._index.feed:
                raise FeedReplaced(
                    f"the feed was made anew: it is {index.feed} now, and was {self._index.feed}"
                )
            self._index_bytes, self._index = data, index
            self._etag = hashlib.sha256(data).hexdigest()
        return self._index

    async def _read_lines(self, segment: SegmentFile, next_lsn: int) -> _Lines | None:
        """Read the segment's lines from ``next_lsn`` on, maybe earlier ones too; None: there is no file."""
        kept = self._kept.pop(segment.path, None)
        if segment.last is not None:
            if kept is None or kept.from_byte or len(kept.data) != segment.size_bytes:
                data = await self._read_closed(segment)
                if data is None:
                    return None
                kept = _Lines(data)
        else:
            if kept is None or kept.after_lsn >= next_lsn:
                kept = _Lines(b"")
            end = kept.from_byte + len(kept.data)
            more = await self._files.tail(segment.path, end, MAX_SEGMENT_BYTES + 1 - len(kept.data))
            whole = kept.data + (more or b"")  # None: the file is made with its first line
            if len(whole) > MAX_SEGMENT_BYTES:
                raise HostileFeed(f"{segment.path} has more than {MAX_SEGMENT_BYTES} bytes")
            kept = _Lines(whole[: whole.rfind(b"\n") + 1], kept.from_byte, kept.after_lsn)
            kept = _trim_lines(kept, next_lsn, segment.path)
        self._keep(segment.path, kept)
        return kept

    async def _read_closed(self, segment: SegmentFile) -> bytes | None:
        assert segment.size_bytes is not None
        data = await self._files.tail(segment.path, 0, segment.size_bytes)
        if data is None:
            return None
        if len(data) < segment.size_bytes:  # static storage may show a new index before a new segment
            raise Transient(f"{segment.path} is shorter than the index says (or not all there yet)")
        if hashlib.sha256(data).hexdigest() != segment.sha256:
            raise HostileFeed(f"{segment.path} is not what the index says: its sha256 differs")
        if not data.endswith(b"\n"):
            raise HostileFeed(f"{segment.path} ends within a line")
        return data

    def _keep(self, path: str, lines: _Lines) -> None:
        self._kept[path] = lines
        total = sum(len(segment.data) for segment in self._kept.values())
        while total > MAX_KEPT_BYTES and len(self._kept) > 1:
            total -= len(self._kept.popitem(last=False)[1].data)


def _archives(index: SegmentIndex, via: str, of: str) -> bool:
    """Whether ``via`` is live and answers for ``of``."""
    live = index.ranges.get(via)
    return live is not None and live.last is None and (of == via or of in live.ancestors)


def _find_range(index: SegmentIndex, of: str) -> IndexedRange:
    indexed = index.ranges.get(of)
    if indexed is None:
        raise CheckpointExpired(f"the feed does not keep range {of} any more")
    return indexed


def _find_segment(owned: IndexedRange, next_lsn: int) -> SegmentFile | None:
    """The segment that has the LSN, or the next one above it."""
    place = bisect_left(
        owned.segments, next_lsn, key=lambda segment: sys.maxsize if segment.last is None else segment.last
    )
    return owned.segments[place] if place < len(owned.segments) else None


def _trim_lines(lines: _Lines, next_lsn: int, path: str) -> _Lines:
    """Drop the lines that were read already: only new lines of an open segment are kept."""
    begin = _find_line(lines.data, next_lsn, path)
    return _Lines(lines.data[begin:], lines.from_byte + begin, next_lsn - 1) if begin else lines


def _find_line(data: bytes, next_lsn: int, path: str) -> int:
    """The byte at which the first line with at least that LSN begins, by bisection, as LSNs rise."""
    low, high = 0, len(data)
    while low < high:
        line = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = data.index(b"\n", line) + 1
        if read_lsn(data[line:end], path) < next_lsn:
            low = end
        else:
            high = line
    return low


def _make_page(
    lines: _Lines, segment: SegmentFile, next_lsn: int, keys: KeyRange, limit: int, base_url: str | None
) -> Page | NotModified:
    """Make a page of the segment's changes from ``next_lsn`` on, at most ``limit``."""
    begin = _find_line(lines.data, next_lsn, segment.path)
    if begin == len(lines.data) and segment.last is None:
        return NotModified()
    document = Document(base_url=base_url)
    changes: list[Change] = []
    for _ in range(MAX_LINES_A_PAGE):
        if begin == len(lines.data) or len(changes) == limit:
            break
        end = lines.data.index(b"\n", begin) + 1
        change = _parse_change(lines.data[begin:end], segment, next_lsn, document)
        if keys.holds(change.key):
            changes.append(change)
        begin, next_lsn = end, change.lsn + 1
    if begin == len(lines.data) and segment.last is not None:
        next_lsn = segment.last + 1
    return Page(tuple(changes), next_lsn)


def _parse_change(line: bytes, segment: SegmentFile, least: int, document: Document) -> Change:
    change = parse_change(
        decode_document(line, f"a line of {segment.path}"), document, f"a change in {segment.path}"
    )
    if change.lsn < least or (segment.last is not None and change.lsn > segment.last):
        raise HostileFeed(f"{segment.path} has LSN {change.lsn} out of order, or beyond its end")
    return change


def _open_segments(name: FeedName, context: FeedContext) -> SegmentSource:
    return SegmentSource(UrlFiles(SecretUrl(check_url(name.url)), open_web(context.network, context.clock)))


FEED = FeedKind("segments+http(s)://…", _open_segments, WEB)
