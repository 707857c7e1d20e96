"""A further stream's way into a part that is in ranges."""

from typing import TYPE_CHECKING

from cfetch.storage.held_ranges import HeldRanges, Segment

if TYPE_CHECKING:
    from cfetch.storage.part import Part

__all__ = ["SegmentSink"]


class SegmentSink:
    """See ``volume.Sink``. What this stream meets concerns its segment only, never the part as a whole."""

    __slots__ = ("_part", "_ranges", "_segment", "segment", "total_bytes", "validator")

    def __init__(self, part: "Part", ranges: HeldRanges, segment: Segment, validator: str | None) -> None:
        """``validator``: of the bytes that are there, if this stream's must have the same."""
        self._part = part
        self._ranges = ranges
        self._segment = segment
        self.segment: Segment | None = segment
        self.validator = validator
        self.total_bytes: int | None = ranges.size_bytes

    @property
    def position(self) -> int:
        """Of the next byte."""
        return self._segment.position

    def write(self, data: bytes) -> None:
        """See ``Part.write_at``."""
        self._part.write_at(self._segment, data)

    @property
    def must_wait(self) -> bool:
        """See ``Part.must_wait``."""
        return self._part.must_wait

    async def wait_for_room(self) -> None:
        """See ``Part.wait_for_room``."""
        await self._part.wait_for_room()

    def restart(self) -> None:
        """Forget what this stream has brought; the others' bytes stay."""
        self._part.forget(self._segment)

    def release_segment(self) -> None:
        """What has not come is missing again."""
        self._ranges.give_back(self._segment)
