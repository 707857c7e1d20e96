"""A volume that keeps files in memory, until their reader takes them: for ``stream``.

Nothing is there before a run, and nothing is left after it. How much is held is the concern of ``room``,
which counts each entry by its index.

Files of a middle size are in memory that is mapped for each, and that goes back to the system at once. Of
blocks of such sizes, which are freed in another order than they were taken, C's allocator keeps what it
cannot use: a process whose files had 64 MiB had 145. Larger blocks it maps itself.
"""

import asyncio
import io
import mmap
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from cfetch.base.errors import Corrupt
from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Digest, Entry
from cfetch.storage.part import SegmentSink
from cfetch.storage.part_state import PartHash, PartState
from cfetch.storage.resume import proof_of
from cfetch.storage.volume_values import BatchRecord, Ended, Holding, Standing

if TYPE_CHECKING:
    from cfetch.storage.held_ranges import HeldRanges, Segment
    from cfetch.storage.part import Part as FilePart
    from cfetch.storage.volume import Loans, PartPort, Search, Sink

MAPPED_FROM_BYTES = 128 << 10  # smaller files would need more mappings than a process may have
MAPPED_TO_BYTES = 32 << 20  # glibc maps what is larger; and these are copied when they are taken
HASHED_BYTES = 16 << 20  # at a time in a thread, before the loop looks whether the run is over


Take = Callable[[], bytes]
"""Takes the bytes of a file, once; they are held no longer then."""


class Room(Protocol):
    """Counts the bytes that are held; ``engine.stream_window.Window`` implements it."""

    def note_size(self, index: int, size_bytes: int) -> bool:
        """Note the size that an entry turns out to have. Returns whether others may begin now."""

    def note_bytes(self, index: int, size_bytes: int) -> None:
        """Note that so many bytes of an entry have come."""

    def must_wait(self, index: int) -> bool:
        """Whether the entry's further bytes have to wait."""

    def lend(self, size_bytes: int) -> bool:
        """Take memory for a second copy of an entry, if there is room for it."""

    def give_back(self, size_bytes: int) -> None:
        """Give back what ``lend`` has lent."""


class MemoryPart(PartState):
    """Implements ``volume.Part``; ``index`` is the entry's."""

    __slots__ = (
        "_buffer",
        "_lent_bytes",
        "_volume",
        "index",
    )

    def __init__(self, volume: "MemoryVolume", entry: Entry, index: int, *, lent_bytes: int = 0) -> None:
        super().__init__(entry)
        self._volume = volume
        self._lent_bytes = lent_bytes  # it is a second part: the first counts for the entry
        self._buffer: io.BytesIO | mmap.mmap = io.BytesIO()
        self.index = index

    def write(self, data: Bytes) -> None:
        """Take the next bytes."""
        if self.ranges is not None:
            assert self.segment is not None
            self.write_at(self.segment, data)
            return
        if not self.position:
            self._begin()
        if isinstance(self._buffer, mmap.mmap) and self.position + len(data) > len(self._buffer):
            self._grow()
        self._buffer.seek(self.position)
        self._buffer.write(data)
        if self._hash.running is not None:
            self._hash.running.update(data)
        self.position += len(data)
        if self.entry.size_bytes is None:
            self._volume.room.note_bytes(self.index, self.position)

    def _begin(self) -> None:
        """Begin the hash, and take the memory of a file of known size at once: growing would copy it."""
        if self.stated is not None:
            self._hash.begin(self.stated)
        size_bytes = self.entry.size_bytes or self.total_bytes
        if not size_bytes or size_bytes > self._volume.most_bytes:  # a server may claim any size
            return
        if self.entry.size_bytes is None and self._volume.room.note_size(self.index, size_bytes):
            self._volume.tell_room()
        if MAPPED_FROM_BYTES <= size_bytes < MAPPED_TO_BYTES:
            self._buffer = mmap.mmap(-1, size_bytes)
        else:
            self._buffer.seek(size_bytes - 1)
            self._buffer.write(b"\0")

    def _grow(self) -> None:
        """Let more bytes come than the manifest states; they are refused when all have come."""
        assert isinstance(self._buffer, mmap.mmap)
        grown = io.BytesIO(self._buffer[: self.position])
        self._buffer.close()
        self._buffer = grown

    def write_at(self, segment: "Segment", data: Bytes) -> None:
        """Take the next bytes of ``segment``; bytes that are held are not written again."""
        ranges, offset = self.ranges, segment.position
        if ranges is None:
            return
        for start, end in ranges.unheld(offset, min(offset + len(data), segment.end)):
            self._buffer.seek(start)
            self._buffer.write(data[start - offset : end - offset])
        ranges.advance(segment, len(data))
        self.position = ranges.held_bytes

    @property
    def must_wait(self) -> bool:
        """Whether the memory is full of other entries' bytes, which the reader needs first."""
        return self._volume.room.must_wait(self.index)

    async def wait_for_room(self) -> None:
        """Wait until it is not."""
        while self.must_wait:
            await self._volume.wait_for_change()

    def can_split(self, size_bytes: int) -> bool:
        """Whether bytes are missing, and a strong ETag or the manifest's hash will prove that they fit."""
        may_join = self.validator is not None or self.entry.digest is not None
        return may_join and self.ranges is None and 0 < self.position < size_bytes

    def split_into_ranges(self, size_bytes: int) -> "HeldRanges":
        """Implements ``volume.Part.split_into_ranges``. The hash is computed when all bytes are there."""
        from cfetch.storage.held_ranges import HeldRanges  # only a file of several streams is in ranges

        self.ranges = HeldRanges(size_bytes, [(0, self.position)] if self.position else ())
        self._hash.seen_bytes = self.position
        self.total_bytes = size_bytes
        self.segment = self.ranges.take_first()
        return self.ranges

    def open_segment(self, segment: "Segment", *, same_source: bool = True) -> "Sink":
        """Open a real ``SegmentSink``, which needs only members of a part that this class has."""
        assert self.ranges is not None
        return SegmentSink(
            cast("FilePart", self), self.ranges, segment, self.validator if same_source else None
        )

    def open_second(self) -> "PartPort | None":
        """Make another part, if there is memory for a second copy of the file."""
        size_bytes = self.entry.size_bytes or self.total_bytes
        if size_bytes is None or not self._volume.room.lend(size_bytes):
            return None
        return type(self)(self._volume, self.entry, self.index, lent_bytes=size_bytes)

    async def hash_rest(self) -> None:
        """Hash the bytes that the hash has not seen. Raises OSError: they cannot be read."""
        if not self.has_rest:
            return
        self._hash.begin(self.stated)
        running = self._hash.running
        assert running is not None
        while self._hash.seen_bytes < self.position:
            begin, end = self._hash.seen_bytes, min(self.position, self._hash.seen_bytes + HASHED_BYTES)
            await asyncio.to_thread(lambda: running.update(self._read(begin, end)))  # noqa: B023 - it is awaited
            self._hash.seen_bytes = end

    def _read(self, begin: int, end: int) -> bytes:
        """A copy of some of the bytes."""
        buffer = self._buffer
        with memoryview(buffer) if isinstance(buffer, mmap.mmap) else buffer.getbuffer() as view:
            return bytes(view[begin:end])

    def change_source(self, *, mirror: bool) -> None:  # noqa: ARG002 - no later run gets the validator
        """Note that the next bytes come from another source."""
        self.validator = None
        self.total_bytes = None if self.ranges is None else self.ranges.size_bytes

    def restart(self) -> None:
        """Forget the bytes, and end the helpers' segments."""
        ranges, self.ranges, self.segment = self.ranges, None, None
        if ranges is not None:
            ranges.abandon()
        self._drop()
        self._hash = PartHash(self.entry)
        self.position = 0
        self.validator = self.stated = None

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """Verify the bytes, see ``proof_of``. Raises Corrupt; then the part is empty."""
        ranges, running = self.ranges, self._hash.running
        is_seen = running is None or self._hash.seen_bytes == self.position
        assert ranges is None or is_seen, "hash_rest comes first"
        try:
            known = ranges.size_bytes if size_bytes is None and ranges is not None else size_bytes
            proof = proof_of(self.position, running, known, digest, self.stated)
        except Corrupt:
            self.restart()
            raise
        if ranges is not None:
            self.ranges = self.segment = None
            ranges.abandon()
        return proof

    def close(self) -> None:
        """Do nothing: no file is open."""

    def finish(self) -> None:
        """Do nothing: no file is open."""

    def hand_over(self) -> Take:
        """A function that takes the bytes, which the part itself holds no longer."""
        buffer, self._buffer = self._buffer, io.BytesIO()
        self.discard()
        return partial(_take, buffer, self.position)

    def keep_leftover(self, *, whole: bool = False, even_small: bool = False) -> int:  # noqa: ARG002
        """Keep nothing: there is no later run."""
        self.discard()
        return 0

    def discard(self) -> None:
        """Let go of the bytes."""
        ranges, self.ranges, self.segment = self.ranges, None, None
        if ranges is not None:
            ranges.abandon()
        self._drop()
        lent_bytes, self._lent_bytes = self._lent_bytes, 0
        if lent_bytes:
            self._volume.room.give_back(lent_bytes)

    def _drop(self) -> None:
        if isinstance(self._buffer, mmap.mmap):
            self._buffer.close()
        self._buffer = io.BytesIO()


def _take(buffer: io.BytesIO | mmap.mmap, size_bytes: int) -> bytes:
    if isinstance(buffer, io.BytesIO):
        buffer.truncate(size_bytes)
        return buffer.getvalue()  # not a copy, as nothing else uses the buffer
    with buffer:
        return buffer[:size_bytes]


class MemoryVolume:
    """Implements ``volume.Volume``; ``deliver`` gets each file that is whole and verified."""

    search: "Search | None" = None
    loans: "Loans | None" = None
    left_behind = 0
    has_parts = is_full = is_stuck = is_behind = False
    written_bytes: int | None = None

    def __init__(
        self, name: str, room: Room, deliver: Callable[[int, Entry, Take], None], *, most_bytes: int
    ) -> None:
        """``most_bytes``: of a file whose memory is taken at once."""
        self.name = name
        self.room = room
        self.most_bytes = most_bytes
        self._deliver = deliver
        self.tell_room: Callable[[], None] = lambda: None  # called when further entries may begin
        self._change = asyncio.Event()
        self._is_draining = asyncio.Event()

    def new_part(self, entry: Entry) -> MemoryPart:
        """Make a part of the entry with this id; ``open_part`` where ids are not indexes."""
        return self.open_part(entry, entry.id)

    def open_part(self, entry: Entry, index: int) -> MemoryPart:
        """Make a new, empty part."""
        return MemoryPart(self, entry, index)

    def note_change(self) -> None:
        """Let the parts that wait for room look again."""
        self._change.set()
        self._change = asyncio.Event()

    async def wait_for_change(self) -> None:
        """Wait for ``note_change``."""
        await self._change.wait()

    async def open(self) -> None:
        """Do nothing: no earlier run has left anything."""

    def has_nothing_of(self, entry: Entry) -> bool:  # noqa: ARG002 - the port's
        """True: no earlier run has left anything."""
        return True

    async def verify_existing(self, entry: Entry) -> Standing | None:  # noqa: ARG002 - the port's
        """None: no file is there."""
        return None

    async def adopt_leftover(self, entry: Entry, part: "PartPort") -> None:
        """Do nothing: no earlier run has left anything."""

    def remove_leftovers(self, entries: Sequence[Entry]) -> None:
        """Do nothing: no earlier run has left anything."""

    async def inspect_batches(self, batches: Sequence[tuple[str, Sequence[Entry]]]) -> list[Holding]:
        """Empty holdings: no file is there."""
        return [Holding() for _ in batches]

    def mark_batch(self, batch: str) -> None:
        """Do nothing: no later run comes."""

    def unmark_batch(self, batch: str) -> None:
        """Do nothing: no later run comes."""

    def publish(self, parts: Sequence["PartPort"], ended: Ended, record: BatchRecord | None = None) -> None:  # noqa: ARG002 - the port's
        """Hand the parts over."""
        for part in parts:
            assert isinstance(part, MemoryPart)
            self._deliver(part.index, part.entry, part.hand_over())
        ended(None)

    def remove_older(self, entry: Entry) -> None:
        """Do nothing: there is no older file."""

    def withdraw_batch(self, batch: str, parts: Sequence["PartPort"]) -> None:
        """Never called: there is no other volume."""
        raise NotImplementedError(batch)

    async def run(self) -> None:
        """Wait for ``drain``: files are handed over at once."""
        await self._is_draining.wait()

    def drain(self) -> None:
        """Note that no more parts will come."""
        self._is_draining.set()

    async def wait_for_room(self) -> None:
        """Do nothing: it is never full."""

    async def free_bytes(self) -> int | None:
        """None: what is held is bounded by ``room``."""
        return None

    def oldest_s(self, now_s: float) -> float:  # noqa: ARG002 - the port's
        """Always 0: it always answers."""
        return 0.0

    def abandon(self, why: str) -> None:
        """Never called: it always answers."""
        raise NotImplementedError(why)

    async def close(self) -> None:
        """Do nothing: no file is open."""
