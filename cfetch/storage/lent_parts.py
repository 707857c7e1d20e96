"""Lends the parts of batches that have left a volume, so that the next volume copies their bytes.

A part that is lent stays where it is, under its own name: a later run finds it like any part of a dead run.
The same proofs count for both (``fits`` in ``resume.py``), and the parts of dead runs are lent too. The new
part takes the bytes like bytes of a server: it hashes them, and gets notes of its own.

When it fails: if a part cannot be read soon enough, or at all, its bytes are fetched from a server. After
that the volume lends nothing more, so that a run waits only once for a disk that hangs.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from cfetch.base.errors import LocalFault
from cfetch.manifest.entry import Entry
from cfetch.storage import volume
from cfetch.storage.directory import Directory
from cfetch.storage.disk import Disk
from cfetch.storage.file_hash import READ_BYTES
from cfetch.storage.held_ranges import HeldRanges
from cfetch.storage.part import Part
from cfetch.storage.resume import Note, identity_of, must_ask, owner_of
from cfetch.storage.salvage import Salvage
from cfetch.storage.staging import Leftover

T = TypeVar("T")
ANSWER_S = 5.0  # for one read; the entries of a batch wait for it at the same time
SLOWEST_BPS = 4 << 20  # a disk that reads more slowly is no better than most servers


class LentParts:
    """Implements ``volume.Loans`` for a directory."""

    def __init__(self, directory: Directory, disk: Disk, salvage: Salvage) -> None:
        self._directory = directory
        self._disk = disk
        self._salvage = salvage
        self._coming: dict[str, asyncio.Task[None]] = {}  # by owner: parts that are being closed
        self._has_failed = False

    def keep(self, part: volume.PartPort, *, whole: bool) -> None:
        """Implements ``volume.Loans.keep``."""
        assert isinstance(part, Part)
        if self._has_failed or not part.position:
            part.discard()
        elif part.keep_leftover(whole=whole, even_small=True, is_leaving=True):
            self._coming[owner_of(part.entry)] = asyncio.create_task(self._keep(part))

    async def _keep(self, part: Part) -> None:
        try:
            leftover = await self._disk.call(part.file.set_aside)
        except LocalFault:
            leftover = None
        if leftover is not None:
            self._salvage.add(leftover)

    async def lend(self, entry: Entry, part: volume.PartPort) -> None:
        """Implements ``volume.Loans.lend``."""
        await self.wait_for(entry)
        loan = None if self._has_failed else self._salvage.take_best(entry)
        if loan is None or not _adds_to(part, entry, *loan):
            self._salvage.remove_leftovers(entry)
            if loan is not None:
                self._salvage.remove(loan[0])
            return
        try:
            await self._copy(entry, part, *loan)
            if isinstance(part, Part):  # a later run can continue the new part
                await part.disk.call(lambda: None)  # its bytes are written before they go here
                part.check()
        except BaseException:
            self._salvage.add(loan[0])
            raise
        self._salvage.remove(loan[0])

    async def wait_for(self, entry: Entry) -> None:
        """Wait until the entry's part is closed, if it is being closed, but not for long."""
        coming = self._coming.pop(owner_of(entry), None)
        if coming is not None:
            await asyncio.wait([coming], timeout=ANSWER_S)

    def forget(self, entry: Entry) -> None:
        """Implements ``volume.Loans.forget``."""
        coming = self._coming.pop(owner_of(entry), None)
        if coming is not None and not coming.done():
            coming.add_done_callback(lambda _: self._salvage.remove_leftovers(entry))
        else:
            self._salvage.remove_leftovers(entry)

    async def _copy(self, entry: Entry, part: volume.PartPort, leftover: Leftover, note: Note | None) -> None:
        """Copy what is held, in order. Raises LocalFault of the part's own volume, never of this one."""
        if not part.position and note is not None and note.identity == identity_of(entry):
            part.validator = note.validator
        end = leftover.size_bytes if entry.size_bytes is None else entry.size_bytes
        last = end - 1 if must_ask(entry) else end  # the server has to send the last byte of such a part
        held = [(start, min(stop, last)) for start, stop in _find_held(leftover, note)]
        reading = _Reading(self._directory, self._disk, leftover)
        try:
            total_bytes = _find_total(note)
            if part.ranges is None and total_bytes is not None and part.can_split(total_bytes):
                part.split_into_ranges(total_bytes)
                part.release_segment()
            if part.ranges is not None:
                await reading.fill_gaps(part, part.ranges, held)
            elif held[0][0] == 0:
                await reading.copy(part, part.position, held[0][1])
            if part.position == entry.size_bytes:
                await part.hash_rest()
                from email.utils import formatdate  # most runs never copy a part

                part.last_modified = formatdate(await reading.changed_s(), usegmt=True)
        except _CannotRead as error:
            self._has_failed = True
            if not error.is_late:
                part.restart()


def _find_held(leftover: Leftover, note: Note | None) -> Sequence[tuple[int, int]]:
    """The bytes of the file that the leftover has: pairs of first byte and end, in order."""
    if note is None or not isinstance(note.held, tuple):
        return ((0, leftover.size_bytes),)
    return note.held


def _find_total(note: Note | None) -> int | None:
    """The file's size as a note of ranges states it; None: the leftover is in order."""
    return None if note is None or not isinstance(note.total_bytes, int) else note.total_bytes


def _adds_to(part: volume.PartPort, entry: Entry, leftover: Leftover, note: Note | None) -> bool:
    """Whether the leftover has bytes that ``part`` lacks, and that may be joined with those it has."""
    if not part.position:
        return True
    is_same = note is not None and note.validator is not None and note.validator == part.validator
    if entry.digest is None and not is_same:
        return False
    held, ranges = _find_held(leftover, note), part.ranges
    if ranges is None:
        return held[-1][1] > part.position
    if _find_total(note) not in (ranges.size_bytes, None) or held[-1][1] > ranges.size_bytes:
        return False
    return any(ranges.unheld(start, stop) for start, stop in held)


class _CannotRead(Exception):
    """The volume that was left does not give the bytes. ``is_late``: those that have come are right."""

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__()
        self.is_late = is_late


class _Reading:
    """Reads one part, as long as its disk is fast enough."""

    def __init__(self, directory: Directory, disk: Disk, leftover: Leftover) -> None:
        self._staging = directory.staging
        self._disk = disk
        self._leftover = leftover
        self._left_s = ANSWER_S  # how much longer the disk may take

    async def copy(self, sink: volume.Sink, start: int, end: int) -> None:
        """Copy bytes to the sink, at the same place. Raises _CannotRead, or LocalFault of the sink."""
        for offset in range(start, end, READ_BYTES):
            size_bytes = min(READ_BYTES, end - offset)
            read = partial(self._staging.read_leftover, self._leftover, offset, size_bytes)
            data = await self._call(read)
            if len(data) < size_bytes:
                raise _CannotRead
            self._left_s = min(ANSWER_S, self._left_s + size_bytes / SLOWEST_BPS)
            sink.write(data)
            if sink.must_wait:
                await sink.wait_for_room()

    async def fill_gaps(
        self, part: volume.PartPort, ranges: HeldRanges, held: Sequence[tuple[int, int]]
    ) -> None:
        """Copy what the part lacks of the bytes ``held``. Raises as ``copy``."""
        for start, stop in [gap for pair in held for gap in ranges.unheld(*pair)]:
            sink = part.open_segment(ranges.join(start, stop))
            try:
                await self.copy(sink, start, stop)
            finally:
                sink.release_segment()

    async def changed_s(self) -> float:
        """The time of the part's last change. Raises _CannotRead."""
        return await self._call(partial(self._staging.changed_s, self._leftover))

    async def _call(self, step: Callable[[], T]) -> T:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        try:
            async with asyncio.timeout(self._left_s):
                answer = await self._disk.glance(step)
        except TimeoutError:
            raise _CannotRead(is_late=True) from None
        except (OSError, LocalFault):
            raise _CannotRead from None
        self._left_s -= clock() - began_s
        return answer
