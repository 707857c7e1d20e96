"""Knows which bytes of a file are held while several streams bring them. Pure.

A stream has a ``Segment``: the bytes from its position to its end are taken. The segment's end may move
nearer while its stream runs: when another stream that joined for the bytes beyond (``join``) has begun to
bring them, or has brought them. Until then both segments have these bytes, so a stream that never begins
costs nothing. Bytes that are neither held nor taken are missing. A stream that ends early gives back the
bytes that it has not brought.

So two streams may bring the same bytes. The later stream has to catch up; when it has passed the earlier one,
the earlier one is over. Bytes that came twice are counted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable


class Segment:
    """The bytes from ``position`` to ``end`` (exclusive) for one stream, which began at ``start``.

    ``is_owners``: the stream belongs to the worker that has the entry; other streams are helpers.
    """

    __slots__ = ("end", "is_owners", "position", "start")

    def __init__(self, start: int, end: int, *, is_owners: bool = False) -> None:
        self.start = self.position = start
        self.end = end
        self.is_owners = is_owners

    @property
    def left_bytes(self) -> int:
        """The number of bytes that are still to come; 0: the segment is over."""
        return self.end - self.position

    def __repr__(self) -> str:
        return f"Segment({self.start}:{self.position}:{self.end})"


class HeldRanges:
    """The bytes of a file of ``size_bytes`` that are held.

    ``held`` has pairs of first byte and end, in order.

    ``held_bytes``: how many bytes are held. ``twice_bytes``: how many bytes came again, or came beyond the
    end of their segment. ``out``: the segments under way, in the order in which they joined.
    ``on_over`` is called with a segment that is over because of another one: its stream can stop. ``on_cut``
    is called with a segment that became shorter because others have begun, with ``begun_bytes`` brought.
    """

    __slots__ = (
        "_held",
        "begun_bytes",
        "held_bytes",
        "on_cut",
        "on_over",
        "out",
        "size_bytes",
        "twice_bytes",
    )

    def __init__(self, size_bytes: int, held: Iterable[tuple[int, int]] = ()) -> None:
        self.size_bytes = size_bytes
        self._held: list[tuple[int, int]] = []
        for start, end in held:
            self._hold(start, end)
        self.held_bytes = sum(end - start for start, end in self._held)
        self.twice_bytes = 0
        self.begun_bytes = 1
        self.out: list[Segment] = []
        self.on_over: Callable[[Segment], None] = lambda _: None
        self.on_cut: Callable[[Segment], None] = lambda _: None

    @property
    def held(self) -> tuple[tuple[int, int], ...]:
        """Pairs of first byte and end, in order; no two touch."""
        return tuple(self._held)

    @property
    def is_whole(self) -> bool:
        """Whether every byte is held."""
        return self.held_bytes == self.size_bytes

    @property
    def missing(self) -> list[tuple[int, int]]:
        """The ranges that are neither held nor taken, in order; no two touch."""
        taken = [(segment.position, segment.end) for segment in self.out if segment.left_bytes]
        away = sorted(self._held + taken)
        gaps, position = [], 0
        for start, end in away:
            if start > position:
                gaps.append((position, start))
            position = max(position, end)
        if position < self.size_bytes:
            gaps.append((position, self.size_bytes))
        return gaps

    def unheld(self, start: int, end: int) -> list[tuple[int, int]]:
        """The ranges from ``start`` to ``end`` that are not held, in order."""
        gaps = []
        for first, last in self._held[bisect_right(self._held, start, key=lambda pair: pair[1]) :]:
            if first >= end:
                break
            if first > start:
                gaps.append((start, first))
            start = last
        if start < end:
            gaps.append((start, end))
        return gaps

    def find_untended(self, segment: Segment) -> tuple[int, int]:
        """The first bytes that only ``segment`` is to bring: not held, and no later segment has them.

        If there are none, both numbers are its position.
        """
        since = self.out[self.out.index(segment) + 1 :] if segment.left_bytes else []
        away = sorted((other.position, other.end) for other in since)
        for position, end in self.unheld(segment.position, segment.end):
            start = position
            for first, last in [*away, (end, end)]:
                if start < min(first, end):
                    return start, min(first, end)
                start = max(start, last)
        return segment.position, segment.position

    def take_first(self) -> Segment | None:
        """Take the first missing bytes for the entry's owner, and give back its earlier segment."""
        for segment in [segment for segment in self.out if segment.is_owners]:
            self.give_back(segment)
        missing = self.missing
        return self._join(*missing[0], is_owners=True) if missing else None

    def join(self, start: int, end: int) -> Segment:
        """Add a segment for one more stream that brings these bytes.

        The stream that has them already goes on until the new one has begun.

        Raises ValueError: there are no such bytes.
        """
        if not 0 <= start < end <= self.size_bytes:
            raise ValueError(f"no bytes from {start} to {end}")
        return self._join(start, end)

    def _join(self, start: int, end: int, *, is_owners: bool = False) -> Segment:
        segment = Segment(start, end, is_owners=is_owners)
        self.out.append(segment)
        return segment

    def advance(self, segment: Segment, size_bytes: int) -> None:
        """Note bytes that have come for ``segment`` and are written.

        Bytes beyond its end count as brought twice.
        """
        surplus = max(0, size_bytes - segment.left_bytes)
        position = segment.position + size_bytes - surplus
        had_begun = self._has_begun(segment)
        new_bytes = sum(end - start for start, end in self.unheld(segment.position, position))
        self.twice_bytes += size_bytes - new_bytes
        self.held_bytes += new_bytes
        if new_bytes:
            self._hold(segment.position, position)
        segment.position = position
        if len(self.out) > 1 and self._has_begun(segment) and not had_begun:
            self._yield()
        if len(self.out) > 1 or len(self._held) > 1:
            self._shorten(segment)

    def _yield(self) -> None:
        """Shorten a segment if others have begun to bring its end: it then ends where they began."""
        begun = sorted(filter(self._has_begun, self.out), key=lambda segment: segment.start)
        for segment in self.out:
            others = [other for other in begun if other is not segment]
            for start in [other.start for other in others if segment.position < other.start < segment.end]:
                if self._is_covered(start, segment.end, others):
                    segment.end = start
                    self.on_cut(segment)
                    break

    def _has_begun(self, segment: Segment) -> bool:
        brought_bytes = segment.position - segment.start
        return brought_bytes >= self.begun_bytes or (brought_bytes > 0 and not segment.left_bytes)

    def _is_covered(self, start: int, end: int, by: list[Segment]) -> bool:
        """Whether every byte is held, or will be brought by one of the segments ``by``."""
        for first, last in self.unheld(start, end):
            position = first
            for segment in sorted(by, key=lambda segment: segment.position):
                if segment.position <= position < segment.end:
                    position = segment.end
            if position < last:
                return False
        return True

    def _shorten(self, by: Segment) -> None:
        """Shorten segments whose last bytes are held, or will come sooner from a later segment."""
        for number, segment in enumerate(self.out):
            if not segment.left_bytes:
                continue
            index = bisect_left(self._held, segment.end, key=lambda pair: pair[1])
            if index < len(self._held) and self._held[index][0] < segment.end:
                segment.end = max(self._held[index][0], segment.position)
            later = self.out[number + 1 :]
            if any(
                other.start <= segment.position < other.position and other.end >= segment.end
                for other in later
            ):
                segment.end = segment.position
            if not segment.left_bytes and segment is not by:
                self.on_over(segment)

    def give_back(self, segment: Segment) -> None:
        """End a segment: bytes that its stream has not brought are missing again. May be repeated."""
        if segment in self.out:
            self.out.remove(segment)
            segment.end = segment.position

    def forget(self, segment: Segment) -> None:
        """End a segment, and drop its bytes, as they cannot be trusted."""
        self.give_back(segment)
        if segment.start == segment.position:
            return
        kept: list[tuple[int, int]] = []
        for start, end in self._held:
            for first, last in ((start, min(end, segment.start)), (max(start, segment.position), end)):
                if first < last:
                    kept.append((first, last))
        self._held = kept
        self.held_bytes = sum(end - start for start, end in kept)

    def abandon(self) -> None:
        """End all segments, as the file is no longer written; call ``on_over`` for helpers."""
        out, self.out = self.out, []
        for segment in out:
            was_over, segment.end = not segment.left_bytes, segment.position
            if not (was_over or segment.is_owners):
                self.on_over(segment)

    def _hold(self, start: int, end: int) -> None:
        first = bisect_left(self._held, start, key=lambda pair: pair[1])
        last = bisect_right(self._held, end, key=lambda pair: pair[0])
        if first < last:
            start = min(start, self._held[first][0])
            end = max(end, self._held[last - 1][1])
        self._held[first:last] = [(start, end)]
