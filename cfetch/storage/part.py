"""A partial file: its bytes, a running hash, and the one step that makes it a final file."""

import contextlib
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from cfetch.base.errors import Corrupt, LocalFault
from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Digest, Entry
from cfetch.storage.directory import Directory
from cfetch.storage.disk import INLINE, Disk
from cfetch.storage.part_file import PartFile, PartNotes
from cfetch.storage.part_state import PartHash, PartState
from cfetch.storage.resume import WORTH_KEEPING_BYTES, Note, must_ask, proof_of
from cfetch.storage.spare_memory import keep_piece
from cfetch.storage.staging import Leftover

if TYPE_CHECKING:
    from cfetch.storage.held_ranges import HeldRanges, Segment

NOTE_EVERY_BYTES = 2 << 20  # in ranges: the most that kill -9 loses; a note takes 0.1 ms, 1 % at 200 MB/s
NOTE_SHARE, NOTE_LEAST_BYTES = 16, 256 << 10  # a smaller file loses a sixteenth; its notes cost 0.5 ms a MiB


class Part(PartState):
    """One entry's bytes on their way. ``disk`` carries out all steps on the file, in order.

    ``entry`` is the entry of the bytes, ``file`` is their file. ``position`` is the number of bytes held, and
    the hash covers exactly these. ``validator`` is their strong ETag: only bytes with the same ETag may
    follow them.

    If the entry has a hash, a later run needs only the part's name to continue it; another part gets a note
    when it is ``WORTH_KEEPING_BYTES`` long (``resume``).

    After ``split_into_ranges`` the part is in ``ranges``: several streams bring it, each a ``Segment``; the
    owner's stream goes through ``write`` as before. The hash then covers the held bytes from the beginning
    on, or fewer, and ``hash_rest`` reads the rest. Held bytes are not written again, so the hash has seen the
    same bytes as the file. If the server states a hash when bytes are there already, it has seen none.
    """

    is_joined: ClassVar[Literal[False]] = False  # for the publisher: it is no file of several parts

    __slots__ = (
        "_is_over",
        "_line",
        "_notes",
        "_volume",
        "disk",
        "file",
    )

    def __init__(
        self,
        volume: Directory,
        entry: Entry,
        disk: Disk = INLINE,
        *,
        is_second: bool = False,
        keeps_time: bool = True,
    ) -> None:
        """``keeps_time``: the file gets the time of its last change that the server states."""
        super().__init__(entry)
        self._volume = volume
        self.disk = disk
        self._line = disk.line
        self.file = PartFile(volume, entry, raises=disk is INLINE, is_second=is_second, keeps_time=keeps_time)
        self._notes = PartNotes(entry, self.file, disk)
        self._is_over = False  # no more bytes are to be written

    def write(self, data: Bytes) -> None:
        """Append bytes. Raises LocalFault if the disk refuses them, or has refused earlier bytes."""
        if self.ranges is not None:
            assert self.segment is not None
            self.write_at(self.segment, data)
            return
        self.check()
        if self.stated is not None and not self.position:
            self._hash.begin(self.stated)
        stated_bytes = self.total_bytes if self.entry.size_bytes is None else self.entry.size_bytes
        _put(self.disk, self.file.append, data, stated_bytes)
        if self._hash.running is not None:
            self._hash.running.update(data)
        self.position += len(data)
        if self.position > WORTH_KEEPING_BYTES and not self._notes.is_noted:
            self._notes.note_source(self.validator)

    def write_at(self, segment: "Segment", data: Bytes) -> None:
        """Take the next bytes of ``segment``; bytes beyond its end are dropped. Raises LocalFault."""
        self.check()
        ranges, offset = self.ranges, segment.position
        if ranges is None:
            return
        for start, end in ranges.unheld(offset, min(offset + len(data), segment.end)):
            piece = data[start - offset : end - offset]
            _put(self.disk, partial(self.file.write_at, start), piece)
            self._notes.unnoted_bytes += len(piece)
            if self._hash.running is not None and start == self._hash.seen_bytes:
                self._hash.running.update(piece)
                self._hash.seen_bytes = end
        ranges.advance(segment, len(data))
        self.position = ranges.held_bytes
        if self._notes.unnoted_bytes >= _choose_note_bytes(ranges.size_bytes):
            self._notes.note_ranges(ranges, self.validator)

    def check(self) -> None:
        """Raise LocalFault if the part can no longer be completed."""
        fault = self.file.fault or self._line.fault
        if fault is not None:
            raise fault

    @property
    def must_wait(self) -> bool:
        """Whether the disk is behind, so that callers with more bytes have to await ``wait_for_room``."""
        return self.disk.must_wait

    async def wait_for_room(self) -> None:
        """Wait for the disk. Raises LocalFault."""
        await self.disk.wait_for_room()
        self.check()

    def can_split(self, size_bytes: int) -> bool:
        """Whether bytes are missing, and a strong ETag or the manifest's hash will prove that they fit."""
        may_join = self.validator is not None or self.entry.digest is not None
        is_well = self.file.fault is None and self._line.fault is None and not self._is_over
        return may_join and is_well and self.ranges is None and self.position < size_bytes

    def split_into_ranges(self, size_bytes: int) -> "HeldRanges":
        """Let several streams bring the file; the stream under way goes on with all missing bytes.

        Raises LocalFault.
        """
        from cfetch.storage.held_ranges import (
            HeldRanges,  # only a file that several streams bring is in ranges
        )

        assert self.can_split(size_bytes)
        ranges = HeldRanges(size_bytes, [(0, self.position)] if self.position else ())
        note = self._notes.encode_ranges(ranges, self.validator)
        self.disk.do(self.file.split_into_ranges, note)
        self._notes.is_noted = note is not None
        self._hash.begin(None if self.position else self.stated)
        self._hash.seen_bytes = self.position
        self.total_bytes = size_bytes
        self.ranges = ranges
        self.segment = ranges.take_first()
        return ranges

    def open_segment(self, segment: "Segment", *, same_source: bool = True) -> "SegmentSink":
        """Implements ``volume.Part.open_segment``."""
        assert self.ranges is not None
        return SegmentSink(self, self.ranges, segment, self.validator if same_source else None)

    def open_second(self) -> "Part":
        """Implements ``volume.Part.open_second``."""
        keeps_time = self.file.keeps_time
        return Part(self._volume, self.entry, self.disk, is_second=True, keeps_time=keeps_time)

    def forget(self, segment: "Segment") -> None:
        """Drop the bytes of ``segment``, on the disk too."""
        if self.ranges is not None and segment.start != segment.position:
            super().forget(segment)
            self._notes.note_ranges(self.ranges, self.validator)

    async def hash_rest(self) -> None:
        """Read the bytes that the hash has not seen; needed before ``verify``. Raises LocalFault."""
        if not self.has_rest:
            return
        if self._hash.running is not None:
            seen, running = self._hash.seen_bytes, self._hash.running.copy()
        else:  # the server has stated the hash when bytes of an earlier run were there already
            assert self.stated is not None
            from cfetch.manifest.hashing import new_hash

            seen, running = 0, new_hash(self.stated.algorithm)
        from cfetch.storage.file_hash import read_and_close  # most parts are hashed as their bytes come

        descriptor = await self.disk.call(lambda: self.file.reader(seen), undo=os.close)
        await read_and_close(descriptor, running, self.entry.path, self.disk)
        self._hash.running, self._hash.seen_bytes = running, self.position

    async def adopt(self, leftover: Leftover, note: Note | None) -> None:
        """Continue a dead run's part that ``fits``. Raises LocalFault.

        If the part is whole, but the server has to confirm it, its last byte is fetched again: by the ETag of
        that reply, the other bytes are still the same or not.

        There are two kinds. A part in segments has gaps: only its note says which bytes it holds, and
        ``position`` counts them. Any other part has no gap: the length of its file says how far it is, and
        ``position`` is its end.
        """
        if not await self.disk.call(lambda: self.file.take_over(leftover)):
            return
        self._notes.is_noted = bool(leftover.note)
        if note is not None and note.identity == self.file.identity:
            self.validator = note.validator
        # None: the hash in the manifest proves the bytes, so that the server need not confirm them
        last_byte = (self.entry.size_bytes or 0) - 1 if must_ask(self.entry) else None
        if note is not None and note.held and note.total_bytes:
            from cfetch.storage.held_ranges import HeldRanges  # the same

            self.ranges = HeldRanges(note.total_bytes, note.held)
            if self.ranges.is_whole and last_byte is not None:
                # all but the last byte: a part with nothing left to ask for would send no request
                self.ranges = HeldRanges(note.total_bytes, [(0, last_byte)])
            self.position, self.total_bytes = self.ranges.held_bytes, note.total_bytes
            if self.ranges.is_whole:
                await self.hash_rest()
            return
        # the running hash must have met the bytes that are there before the next ones are appended
        if self._hash.running is not None:
            from cfetch.storage.file_hash import read_and_close  # few parts are of earlier runs

            await read_and_close(os.dup(self.file.fd), self._hash.running, self.entry.path, self.disk)
        self.position = await self.disk.call(lambda: self.file.end(last_byte))

    def change_source(self, *, mirror: bool) -> None:
        """Note that the next bytes come from another source, whose validator is not known yet."""
        self._notes.is_mirrored = mirror
        self.validator = None
        self.total_bytes = None if self.ranges is None else self.ranges.size_bytes

    def restart(self) -> None:
        """Forget the bytes, and end the helpers' segments."""
        if self.position == 0 and self.ranges is None:
            return
        ranges, self.ranges, self.segment = self.ranges, None, None
        if ranges is not None:
            ranges.abandon()
        self._notes.is_noted, self._notes.unnoted_bytes = False, 0
        self.disk.do(self.file.empty)
        self.position = 0
        self.validator = self.stated = None
        self._hash = PartHash(self.entry)

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """Verify the bytes, see ``proof_of``. Raises Corrupt; then the part is empty."""
        ranges = self.ranges
        running = self._hash.running
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
            self._notes.is_noted, self._notes.unnoted_bytes = False, 0
            self.disk.do(self.file.join_ranges)
            if must_ask(self.entry):  # while it waits for the other pieces, only its ETag can prove it
                self._notes.note_source(self.validator)
        return proof

    def close(self) -> None:
        """Close the file; a later write appends to it.

        Raises LocalFault: a network file system may report only now that it is full.
        """
        self.disk.do(self.file.close)

    @property
    def is_in_memory(self) -> bool:
        """Whether the whole file is only in memory until ``finish``; never if a thread writes it."""
        return self.disk.is_prompt and bool(self.file.unwritten)

    def finish(self) -> None:
        """Note that the part is whole and verified. Raises LocalFault.

        If the entry has no hash, its source is noted on the file: see ``Sources.note``.
        """
        self.check()
        self.disk.do(self.file.finish, self._notes.leave_out_mirror(self.validator), self.last_modified)

    def publish(self) -> None:
        """Give the verified part its final name. This is a step that the disk carries out.

        Raises LocalFault, Blocked.
        """
        self.file.check()
        if not self.file.is_finished:
            self.file.finish(self._notes.leave_out_mirror(self.validator), self.last_modified)
        self.check()  # the disk may be abandoned now, after other parts of the batch were published
        self.file.publish()

    def unpublish(self) -> None:
        """Undo ``publish``. This is a step; it raises LocalFault."""
        self.file.unpublish()

    def keep_leftover(
        self, *, whole: bool = False, even_small: bool = False, is_leaving: bool = False
    ) -> int:
        """Keep the part if a later run can continue it, else remove it; return the number of bytes kept.

        ``whole``: the part is verified, so its size and its name are proof enough on this boot.
        ``even_small``: keep what kill -9 would leave, a part of any size that its name is enough to prove.
        ``is_leaving``: another part begins with its bytes at once, and finds out how many there are.
        """
        least = 0 if even_small else WORTH_KEEPING_BYTES
        is_proved = self.entry.digest is not None and self.position > least
        fault = self._line.fault if is_leaving else self.file.fault
        has_skipped = fault is not None and self.disk is not INLINE
        lost = self.file.lost or has_skipped or self._volume.lost_writes
        if lost or not (self._notes.is_noted or is_proved or whole):
            self.discard()
            return 0
        with contextlib.suppress(LocalFault):  # a later run looks at the real file
            if self.ranges is not None:
                self.ranges.abandon()
                self._notes.note_ranges(self.ranges, self.validator)
        with contextlib.suppress(LocalFault):
            self.disk.do(partial(self.file.close, is_kept=True))
        return self.position

    def discard(self) -> None:
        """Remove the part, if possible; harmless after ``publish``.

        A fault of the removal is ignored: a later run cleans up.
        """
        self._is_over = True
        ranges, self.ranges, self.segment = self.ranges, None, None
        if ranges is not None:
            ranges.abandon()
        self.disk.tidy(self.file.remove)


def _choose_note_bytes(size_bytes: int) -> int:
    return min(NOTE_EVERY_BYTES, max(NOTE_LEAST_BYTES, size_bytes // NOTE_SHARE))


def _put(disk: Disk, write: Callable[..., None], data: Bytes, *more: int | None) -> None:
    """Have the data written; copy it if it is written later, as the caller uses its memory again."""
    if disk.is_prompt:
        write(data, *more)
    else:
        disk.do(write, keep_piece(data), *more, size_bytes=len(data))


class SegmentSink:
    """The sink of a further stream for a part that is in ranges: see ``volume.Sink``.

    A failure of this stream affects only its segment, never the part as a whole.
    """

    __slots__ = (
        "_part",
        "_ranges",
        "_segment",
        "last_modified",
        "segment",
        "stated",
        "total_bytes",
        "validator",
    )

    def __init__(self, part: Part, ranges: "HeldRanges", segment: "Segment", validator: str | None) -> None:
        """``validator``: the ETag of the present bytes, if this stream's bytes must have the same."""
        self._part = part
        self._ranges = ranges
        self._segment = segment
        self.segment: Segment | None = segment
        self.validator = validator
        self.last_modified: str | None = None
        self.stated = part.stated
        self.total_bytes: int | None = ranges.size_bytes

    @property
    def position(self) -> int:
        """The position of the next byte."""
        return self._segment.position

    def write(self, data: Bytes) -> None:
        """Call ``Part.write_at``."""
        self._part.write_at(self._segment, data)

    @property
    def must_wait(self) -> bool:
        """Passes on ``Part.must_wait``."""
        return self._part.must_wait

    async def wait_for_room(self) -> None:
        """Call ``Part.wait_for_room``."""
        await self._part.wait_for_room()

    def restart(self) -> None:
        """Forget the bytes of this stream; the bytes of other streams stay."""
        self._part.forget(self._segment)

    def release_segment(self) -> None:
        """End the segment: bytes that have not come are missing again.

        The part takes over the hash that this stream's server has stated, as it is of the whole file.
        """
        if self._part.ranges is self._ranges:
            self._part.stated = self._part.stated or self.stated
        self._ranges.give_back(self._segment)
