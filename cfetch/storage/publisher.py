"""Gives verified parts their final names, in an order that survives a power cut.

Durable (``--durability power``): parts are flushed, then renamed, and the renames are flushed before files
are reported as done (Pillai et al., OSDI 2014: neither order nor rename is durable by itself). A flush takes
milliseconds for any number of files, so parts are published in groups: one flush makes a group's bytes
durable, and also the names of the previous group, whose files are reported as done only then. Workers do not
wait for it. A batch does not wait for others: those that come during a flush are the next group. Small files
whose bytes are still in memory are written ``WRITTEN_FILES`` at a time.

Not durable (``crash``): parts are renamed as soon as they are written. A killed process loses nothing by
that; a power cut may lose files.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 - else it is loaded at the first flush, when descriptors may be few
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.errors import Blocked, CfetchError, LocalFault
from cfetch.storage.directory import Directory
from cfetch.storage.disk import INLINE, Disk
from cfetch.storage.volume_values import BatchRecord, Ended

if TYPE_CHECKING:
    from cfetch.storage.joining import Publishable

WRITTEN_FILES = 16  # kill -9 loses at most these and the downloads under way; 64 took as much time a file
WRITTEN_S = 0.05  # the longest time that a file waits in memory for so many
GROUP_S = 4 * WRITTEN_S  # the longest time that a file waits for a flush; four or five flushes a second
NAMED_FILES = 128  # files at a time that get their names, and are reported: a few ms of the event loop
GROUP_FILES = 1024  # flushing so many small files takes well under a second, and so does renaming them
MAX_PENDING_FILES = 4096  # some 3 KiB of memory each, of twice as many; only a slow disk reaches this
MAX_PENDING_BYTES = 256 << 20  # bounds a flush; the kernel's own limit for unwritten pages is usually higher


class _Pending(msgspec.Struct, frozen=True):
    parts: "tuple[Publishable, ...]"
    ended: Ended
    record: BatchRecord | None


class Publisher:
    """Publishes parts. ``run`` is its task, which ends after ``drain``, when all files are reported."""

    def __init__(self, volume: Directory, *, durable: bool, disk: Disk = INLINE) -> None:
        self._volume = volume
        self._disk = disk
        self._durable = durable
        self._unwritten: list[_Pending] = []
        self._pending: list[_Pending] = []
        self._pending_files = self._pending_bytes = 0
        self._unflushed_records = False
        self.left_behind = 0  # files that could not be unpublished
        self._work = asyncio.Event()
        self._full = asyncio.Event()  # the group need not wait for more parts
        self._room = asyncio.Event()
        self._draining = False

    def add(self, parts: "Sequence[Publishable]", ended: Ended, record: BatchRecord | None = None) -> None:
        """Take over verified parts: publish all of them or none, then write the record."""
        self._unwritten.append(_Pending(tuple(parts), ended, record))
        self._work.set()
        # hundreds of parts may be pending, and descriptors are few
        if len(self._unwritten) >= WRITTEN_FILES or len(parts) != 1 or not parts[0].is_in_memory:
            self._write_parts()

    def _write_parts(self) -> None:
        """Write parts that are still in memory, close open files, publish parts that need no group."""
        unwritten, self._unwritten = self._unwritten, []
        waits = self._durable or not self._disk.is_prompt
        ready = [pending for pending in unwritten if not waits and pending.record is None]
        if ready:  # else the directories, whose lock a hanging disk may hold, are not touched
            for pending, error in zip(ready, self._publish_all(ready), strict=True):
                self._end(pending, error)
        for pending in unwritten:
            if waits or pending.record is not None:
                self._put_into_group(pending)

    def _put_into_group(self, pending: _Pending) -> None:
        size_bytes = 0
        try:
            for part in pending.parts:
                part.finish()
                size_bytes += part.position
        except LocalFault as fault:
            self._end(pending, fault)
            return
        self._pending.append(pending)
        self._pending_files += len(pending.parts)
        self._pending_bytes += size_bytes
        is_full = self._pending_files >= GROUP_FILES or self._pending_bytes >= MAX_PENDING_BYTES
        if is_full or pending.record is not None:
            self._full.set()

    @property
    def is_full(self) -> bool:
        """Whether so many parts are pending that workers have to wait."""
        return self._pending_files >= MAX_PENDING_FILES or self._pending_bytes >= MAX_PENDING_BYTES

    async def wait_for_room(self) -> None:
        """Wait while ``is_full``."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def run(self) -> None:
        """Publish group after group, until drained."""
        named: deque[_Pending] = deque()
        while True:
            if not (self._unwritten or self._pending or named):
                if self._draining:
                    break
                self._work.clear()
                await self._work.wait()
            # until a batch is reported, its volume begins no other
            is_batch = bool(named) and named[-1].record is not None
            if (self._durable or self._unwritten) and not is_batch:
                await self._wait_for_more()
            self._write_parts()
            group, self._pending = self._pending, []
            self._pending_files = self._pending_bytes = 0
            if not self._draining:
                self._full.clear()
            self._room.set()
            named = await self._publish_group(group, named)
        if self._unflushed_records and self._durable:
            await self._disk.beside(self._volume.flush)  # the plan's record comes after those of its batches

    async def _wait_for_more(self) -> None:
        """Wait until the group is full or old enough, and meanwhile write what waits in memory."""
        for _ in range(round(GROUP_S / WRITTEN_S) if self._durable else 1):
            self._write_parts()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), WRITTEN_S)
                break

    def drain(self) -> None:
        """Note that no more parts will come: ``run`` publishes the pending parts, then ends."""
        self._draining = True
        self._work.set()
        self._full.set()

    async def _publish_group(self, group: list[_Pending], named: deque[_Pending]) -> deque[_Pending]:
        """Flush and publish a group; report the previous group, ``named``, as done after the flush."""
        group = [pending for pending in group if await self._join(pending)]
        errors: list[CfetchError | None] = []
        try:
            if self._durable:
                await self._disk.beside(self._volume.flush)
            await self._tell(named)
            for start in range(0, len(group), NAMED_FILES):
                some = group[start : start + NAMED_FILES]
                errors += await self._disk.call(
                    partial(self._publish_all, some), undo=partial(self._undo, some)
                )
                await asyncio.sleep(0)
        except LocalFault as fault:  # the bytes may be lost although they were written: never publish them
            self._disk.tidy(partial(self._undo, group[: len(errors)], errors))
            self._give_up(group, named, fault)
            return deque()
        for pending, error in zip(group, errors, strict=True):
            if error is not None:
                self._end(pending, error)
        fine = deque(pending for pending, error in zip(group, errors, strict=True) if error is None)
        if self._durable:
            return fine
        for pending in fine:
            try:
                if pending.record is not None:
                    await self._put_record(pending.record)
            except LocalFault as fault:
                self._withdraw_pending(pending, fault)
            else:
                pending.ended(None)
        return deque()

    async def _join(self, pending: _Pending) -> bool:
        """Join the files that were brought in pieces; False: this failed, and has been reported."""
        joined = [part for part in pending.parts if part.is_joined]
        try:
            for file in joined:
                await self._disk.beside(file.join)
        except (Blocked, LocalFault) as error:
            for file in joined:
                file.keep_pieces()
            for part in pending.parts:
                if not part.is_joined:
                    part.keep_leftover(whole=True)
            pending.ended(error)
            return False
        return True

    async def _tell(self, named: deque[_Pending]) -> None:
        """Report parts whose names are flushed as done, and remove them from ``named`` one by one."""
        while named:
            for _ in range(min(len(named), NAMED_FILES)):
                if named[0].record is not None:
                    await self._put_record(named[0].record)
                named.popleft().ended(None)
            await asyncio.sleep(0)

    def _give_up(self, group: Sequence[_Pending], named: Iterable[_Pending], fault: LocalFault) -> None:
        """End a group, and the rest of the previous group, with the fault of their flush."""
        for part in (part for pending in group for part in pending.parts):
            part.discard()
        for pending in named:
            self._withdraw_pending(pending, fault)
        for pending in group:
            pending.ended(fault)

    def _withdraw_pending(self, pending: _Pending, fault: LocalFault) -> None:
        """Remove the names that were not flushed, so that batch and parts can go to another volume."""
        if pending.record is not None:
            self._disk.tidy(lambda: self._unpublish(pending.parts))
            for part in pending.parts:
                if part.is_joined:
                    part.discard()
        pending.ended(fault)

    def withdraw(self, parts: "Sequence[Publishable]") -> None:
        """Remove the names and files of the parts, soon."""
        self._disk.tidy(lambda: self._unpublish(parts))
        for part in parts:
            part.discard()

    async def _put_record(self, record: BatchRecord) -> None:
        text = msgspec.json.encode(record)
        await self._disk.call(
            lambda: self._volume.records.put(record.id, text),
            undo=lambda _: self._volume.records.remove(record.id),
        )
        self._unflushed_records = True

    def _publish_all(self, group: list[_Pending]) -> list[CfetchError | None]:
        """Give all parts of a group their names; return the error of each, if any. This is a step."""
        with self._volume.one_look():
            return [self._publish_parts(pending) for pending in group]

    def _publish_parts(self, pending: _Pending) -> CfetchError | None:
        """Give all parts their names, or none; return the error, if any. This is a step."""
        done: list[Publishable] = []
        for part in pending.parts:
            try:
                part.publish()
            except (Blocked, LocalFault) as error:
                self._unpublish(done)
                return error
            done.append(part)
        return None

    def _undo(self, group: list[_Pending], errors: list[CfetchError | None]) -> None:
        """Remove names that were given when the caller no longer waited. This is a step."""
        for pending, error in zip(group, errors, strict=True):
            if error is None:
                self._unpublish(pending.parts)

    def _unpublish(self, parts: "Iterable[Publishable]") -> None:
        """Remove final names. This is a step. A file that cannot be removed stays, without a record."""
        for part in parts:
            try:
                part.unpublish()
            except LocalFault:
                self.left_behind += 1

    @staticmethod
    def _end(pending: _Pending, error: CfetchError | None) -> None:
        """Report the end. After an error, the caller that gave a record decides about the batch's parts."""
        for part in pending.parts if error is not None else ():
            if pending.record is None:
                part.discard()
            elif part.is_joined:
                part.keep_pieces()
        pending.ended(error)
