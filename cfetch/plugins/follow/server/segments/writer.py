"""Publishes a feed as segments in a directory, for static storage to serve (docs/feed-segments.md).

Every change of shape is one replacement of the index, and every other step is either before it, where no
reader sees it, or after it, where none needs it. So a writer that dies anywhere leaves a whole feed.

An LSN that a reader may have seen is never given to another change. Readers see written lines before they are
flushed, and a power cut may lose these lines. So after a writer that was not closed in good order, the next
one leaves ``SKIPPED_LSNS`` out and begins a new segment.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from cfetch.base.errors import HostileFeed, LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.manifest.entry import safe_path
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.protocol import ANY_BASE_URL, parse_change
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Range
from cfetch.plugins.follow.server.segments.disk import SegmentDisk
from cfetch.plugins.follow.server.segments.index import (
    INDEX_NAME,
    SEGMENTS,
    IndexedRange,
    SegmentFile,
    SegmentIndex,
    parse_index,
    read_lsn,
)

ROLL_BYTES = 4 << 20  # a reader fetches a segment at once, and again if it reads it at two places
MAX_LINE_BYTES = 1 << 20  # as in manifests
SKIPPED_LSNS = 10_000  # at most so many changes are written without a flush between them
FIRST_LSN = 1  # readers use 0 for the oldest kept entry


class _Line(NamedTuple):
    lsn: int
    data: bytes


class SegmentWriter:
    """The one writer of a directory, as a context manager. A directory without a feed becomes one.

    All methods raise LocalFault, after which only ``close`` may be called. An unfinished change of shape then
    exists as a whole or not at all; of unfinished rows the first ones may exist. ``Held``: another process
    writes to the directory.
    """

    def __init__(
        self,
        root: Path,
        *,
        base_url: str | None = None,
        roll_bytes: int = ROLL_BYTES,
        disk: SegmentDisk | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        """``base_url`` is for a new feed's index. ``new_id`` names a new feed, never the same twice."""
        self._root = root
        self._disk = disk or SegmentDisk()
        self._roll_bytes = roll_bytes
        self._next: dict[str, int] = {}
        self._size: dict[str, int] = {}
        self._is_broken = False
        self._lock = self._disk.lock(root / ".writer.lock")
        try:
            data = self._disk.read(root / INDEX_NAME)
            if data is not None:
                self._index = parse_index(data)
            elif any(self._disk.below(root / SEGMENTS)):
                raise UsageError(
                    f"{printable(str(root))} has segments but no {INDEX_NAME}; remove them first"
                )
            else:
                self._index = SegmentIndex(new_id(), base_url, {})
                self._publish({"0": IndexedRange("0", ALL_KEYS, frozenset(), FIRST_LSN, None, FIRST_LSN, ())})
            self._recover()
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End in good order, unless a step had failed: the next writer continues where this one ended."""
        try:
            sized = {live.id: self._state_size(live) for live in self._index.live()}
            if not self._is_broken and any(self._index.ranges[name] != live for name, live in sized.items()):
                self._publish(sized)
        finally:
            os.close(self._lock)

    def ranges(self) -> list[Range]:
        """The live ranges by key."""
        return [Range(live.id, live.keys, live.ancestors) for live in self._index.live()]

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Publish new versions of files: rows of a manifest, each with a ``path`` and maybe a ``key``.

        They are on disk when it returns.

        Raises:
            UsageError: a row is faulty; nothing was published.
        """
        self._write([{"op": "upsert", **row} for row in rows])

    def delete(self, paths: Iterable[str]) -> None:
        """Publish that files have gone, like ``append``, which takes deletes with keys of their own."""
        self._write([{"op": "delete", "path": path} for path in paths])

    def roll(self) -> None:
        """Close all open segments that have lines, so that they count as kept for ever."""
        self._publish({live.id: self._roll_range(live) for live in self._index.live()})

    def split(self, of: str, key: int | None = None) -> tuple[str, str]:
        """Split a live range before ``key``, by default its middle. Returns the ids of its children.

        Raises:
            UsageError: there is no such live range, or the key is not within it.
        """
        parent = self._find_live(of)
        key = (parent.keys.low + parent.keys.high) // 2 if key is None else key
        if not parent.keys.low < key < parent.keys.high:
            raise UsageError(f"range {of} cannot be split there: both parts need a key")
        parts = (KeyRange(parent.keys.low, key), KeyRange(key, parent.keys.high))
        lower, other = self._replace_ranges([parent], parts)
        return lower, other

    def merge(self, name: str, other: str) -> str:
        """Merge two live neighbours. Returns the new range's id. Raises UsageError: they are not such."""
        left, right = sorted((self._find_live(name), self._find_live(other)), key=lambda live: live.keys)
        if left.keys.high != right.keys.low:
            raise UsageError(f"ranges {name} and {other} are not neighbours")
        (merged,) = self._replace_ranges([left, right], (KeyRange(left.keys.low, right.keys.high),))
        return merged

    def retire(self, before_s: float) -> None:
        """Drop closed segments that were last written before that time, in seconds since 1970.

        A follower that has not read them by then cannot continue. A range's segments are dropped only after
        all segments of its ancestors.
        """
        kept: dict[str, IndexedRange] = {}
        dropped: list[SegmentFile] = []
        for indexed in sorted(self._index.ranges.values(), key=lambda indexed: len(indexed.ancestors)):
            if any(kept[name].segments for name in indexed.ancestors):
                kept[indexed.id] = indexed
                continue
            old = self._find_old_segments(indexed, before_s)
            dropped += old
            kept[indexed.id] = _drop_segments(indexed, old)
        if dropped:
            self._publish(kept)
            for segment in dropped:
                self._disk.remove(self._root / segment.path)

    def _find_old_segments(self, indexed: IndexedRange, before_s: float) -> list[SegmentFile]:
        old = []
        for segment in indexed.segments:
            if segment.last is None or self._disk.age(self._root / segment.path) >= before_s:
                break
            old.append(segment)
        return old

    def _find_live(self, of: str) -> IndexedRange:
        indexed = self._index.ranges.get(of)
        if indexed is None or indexed.last is not None:
            raise UsageError(f"there is no live range {of!r}; live are {', '.join(self._next)}")
        return indexed

    def _write(self, rows: list[dict[str, object]]) -> None:
        for of, lines in self._number_lines(rows).items():
            for chunk in _split_lines(lines, self._roll_bytes):
                self._append(of, chunk)

    def _number_lines(self, rows: list[dict[str, object]]) -> dict[str, list[_Line]]:
        """Make the lines for each range. Their LSNs are used up only when the lines are written."""
        live = self._index.live()
        following = dict(self._next)
        lines: dict[str, list[_Line]] = {}
        document = Document(base_url=ANY_BASE_URL)
        for number, row in enumerate(rows):
            try:
                key = parse_change({"lsn": 0, **row}, document, f"row {number}").key
            except HostileFeed as error:
                raise UsageError(f"{error}; nothing was published") from None
            of = next(live_range.id for live_range in live if live_range.keys.holds(key))
            data = msgspec.json.encode({"lsn": following[of], **row}) + b"\n"
            if len(data) > MAX_LINE_BYTES:
                raise UsageError(f"row {number} has more than {MAX_LINE_BYTES} bytes; nothing was published")
            lines.setdefault(of, []).append(_Line(following[of], data))
            following[of] += 1
        return lines

    def _append(self, of: str, lines: list[_Line]) -> None:
        indexed = self._index.ranges[of]
        opened = _find_open_segment(indexed)
        if opened is None:
            self._publish({of: _add_segment(indexed, self._next[of])})
        elif opened.size_bytes is not None:  # from now on the segment may grow
            self._publish({of: _replace_last(indexed, opened._replace(size_bytes=None))})
        data = b"".join(line.data for line in lines)
        with self._guard_step():
            self._disk.append(self._root / self._index.ranges[of].segments[-1].path, data)
        self._next[of] = lines[-1].lsn + 1
        self._size[of] += len(data)
        if self._size[of] >= self._roll_bytes:
            self._publish({of: self._roll_range(self._index.ranges[of])})

    def _publish(self, changed: Mapping[str, IndexedRange]) -> None:
        """Replace the index by one with these changed or new ranges."""
        index = self._index._replace(ranges={**self._index.ranges, **changed})
        with self._guard_step():
            self._disk.replace(self._root / INDEX_NAME, index.encode())
        self._index = index
        for indexed in changed.values():
            if indexed.last is not None:
                self._next.pop(indexed.id, None)
            elif _find_open_segment(indexed) is None:
                self._size[indexed.id] = 0

    @contextmanager
    def _guard_step(self) -> Iterator[None]:
        """Refuse steps after a failed one: the state on disk is unknown until the directory is reopened."""
        if self._is_broken:
            raise LocalFault(f"writing to {printable(str(self._root))} has failed before; open it again")
        self._is_broken = True
        yield
        self._is_broken = False

    def _roll_range(self, indexed: IndexedRange) -> IndexedRange:
        """The range with its open segment closed, if that segment has lines."""
        opened = _find_open_segment(indexed)
        if opened is None or not self._size[indexed.id]:
            return indexed
        return _replace_last(
            indexed, _close_segment(opened, self._disk.read(self._root / opened.path) or b"")
        )

    def _state_size(self, indexed: IndexedRange) -> IndexedRange:
        """The range with the length of its open segment."""
        opened = _find_open_segment(indexed)
        return (
            indexed
            if opened is None
            else _replace_last(indexed, opened._replace(size_bytes=self._size[indexed.id]))
        )

    def _replace_ranges(self, parents: list[IndexedRange], parts: tuple[KeyRange, ...]) -> list[str]:
        """Replace live ranges by new ones. Returns the new ids."""
        first = max(self._next[parent.id] for parent in parents)
        ancestors = frozenset().union(*({parent.id, *parent.ancestors} for parent in parents))
        ranges: dict[str, IndexedRange] = {}
        for parent in parents:
            closed = self._roll_range(parent)
            if _find_open_segment(closed) is not None:  # the open segment has no lines
                closed = _replace_last(closed, None)
            ranges[parent.id] = closed._replace(last=self._next[parent.id] - 1)
        ids = [str(len(self._index.ranges) + number) for number in range(len(parts))]
        for name, keys in zip(ids, parts, strict=True):
            ranges[name] = IndexedRange(name, keys, ancestors, first, None, first, ())
        self._publish(ranges)
        self._next |= dict.fromkeys(ids, first)
        return ids

    def _recover(self) -> None:
        """Continue where the last writer ended, however it ended."""
        ranges = dict(self._index.ranges)
        for indexed in self._index.live():
            self._size[indexed.id] = 0
            opened = _find_open_segment(indexed)
            if opened is None:
                self._next[indexed.id] = _find_next_lsn(indexed)
                continue
            data = self._disk.read(self._root / opened.path) or b""
            closed = _close_segment(opened, data)
            after = opened.first if closed is None or closed.last is None else closed.last + 1
            if len(data) == opened.size_bytes:
                self._next[indexed.id], self._size[indexed.id] = after, len(data)
            else:
                self._next[indexed.id] = after + SKIPPED_LSNS
                ranges[indexed.id] = _add_segment(_replace_last(indexed, closed), after + SKIPPED_LSNS)
        if ranges != self._index.ranges:
            self._publish(ranges)
        named = {self._root / segment.path for indexed in ranges.values() for segment in indexed.segments}
        for path in self._disk.below(self._root / SEGMENTS):
            if path not in named and path.suffix == ".jsonl":
                self._disk.remove(path)


def _find_open_segment(indexed: IndexedRange) -> SegmentFile | None:
    return indexed.segments[-1] if indexed.segments and indexed.segments[-1].last is None else None


def _find_next_lsn(indexed: IndexedRange) -> int:
    """The next LSN of a live range whose segments are all closed."""
    last = indexed.segments[-1].last if indexed.segments else None
    return max(indexed.first, indexed.kept_from) if last is None else last + 1


def _add_segment(indexed: IndexedRange, first: int) -> IndexedRange:
    """The range with a new segment."""
    path = safe_path(f"{SEGMENTS}{indexed.id}/{first}.jsonl")
    return indexed._replace(segments=(*indexed.segments, SegmentFile(path, first)))


def _replace_last(indexed: IndexedRange, last: SegmentFile | None) -> IndexedRange:
    """The range with another last segment, or with one segment less."""
    rest = indexed.segments[:-1]
    return indexed._replace(segments=rest if last is None else (*rest, last))


def _drop_segments(indexed: IndexedRange, dropped: list[SegmentFile]) -> IndexedRange:
    if not dropped or dropped[-1].last is None:
        return indexed
    return indexed._replace(kept_from=dropped[-1].last + 1, segments=indexed.segments[len(dropped) :])


def _close_segment(segment: SegmentFile, data: bytes) -> SegmentFile | None:
    """Close a segment, without a last line that is not whole; None if it has no whole line."""
    whole = data[: data.rfind(b"\n") + 1]
    if not whole:
        return None
    last = read_lsn(whole[whole.rfind(b"\n", 0, -1) + 1 :], segment.path)
    return segment._replace(last=last, size_bytes=len(whole), sha256=hashlib.sha256(whole).hexdigest())


def _split_lines(lines: list[_Line], most_bytes: int) -> Iterator[list[_Line]]:
    """Split lines into chunks that are each written at once and then flushed."""
    chunk: list[_Line] = []
    size = 0
    for line in lines:
        if chunk and (len(chunk) == SKIPPED_LSNS or size + len(line.data) > most_bytes):
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line.data)
    if chunk:
        yield chunk
