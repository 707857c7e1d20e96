"""A further stream's way into a part that is in ranges."""

from typing import TYPE_CHECKING

from cfetch.storage.held_ranges import Ranges, Stretch

if TYPE_CHECKING:
    from cfetch.storage.part import Part

__all__ = ["StretchWriter"]


class StretchWriter:
    """See ``lane.Sink``. What this stream meets concerns its stretch only, never the part as a whole."""

    __slots__ = ("_part", "_ranges", "_stretch", "stretch", "total_bytes", "validator")

    def __init__(self, part: "Part", ranges: Ranges, stretch: Stretch, validator: str | None) -> None:
        """``validator``: of the bytes that are there, if this stream's must have the same."""
        self._part = part
        self._ranges = ranges
        self._stretch = stretch
        self.stretch: Stretch | None = stretch
        self.validator = validator
        self.total_bytes: int | None = ranges.size_bytes

    @property
    def position(self) -> int:
        """Of the next byte."""
        return self._stretch.position

    def write(self, data: bytes) -> None:
        """See ``Part.write_at``."""
        self._part.write_at(self._stretch, data)

    @property
    def must_wait(self) -> bool:
        """See ``Part.must_wait``."""
        return self._part.must_wait

    async def room(self) -> None:
        """See ``Part.room``."""
        await self._part.room()

    def restart(self) -> None:
        """Forget what this stream has brought; the others' bytes stay."""
        self._part.forget(self._stretch)

    def release(self) -> None:
        """What has not come is missing again."""
        self._ranges.give_back(self._stretch)
