"""A volume that keeps only numbers, and takes bytes at a steady speed."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import cast

from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Digest, Entry
from cfetch.storage import volume
from cfetch.storage.guarded_disk import MOST_UNWRITTEN_BYTES
from cfetch.storage.held_ranges import HeldRanges, Segment
from cfetch.storage.part import Part, SegmentSink
from cfetch.storage.volume_values import BatchRecord, Ended, Holding, Standing


class SimPart:
    """Implements ``volume.PartPort``."""

    has_rest = False

    def __init__(self, disk: "SimDisk") -> None:
        self._disk = disk
        self.position = 0
        self.validator: str | None = None
        self.stated: Digest | None = None
        self.last_modified: str | None = None
        self.total_bytes: int | None = None
        self.ranges: HeldRanges | None = None
        self.segment: Segment | None = None

    def write(self, data: Bytes) -> None:
        """Take the bytes; only their number matters."""
        if self.segment is not None:
            self.write_at(self.segment, data)
            return
        self.position += len(data)
        self._disk.take(len(data))

    def write_at(self, segment: Segment, data: Bytes) -> None:
        """Take the next bytes of a segment; bytes that are held are not written again."""
        if self.ranges is not None and segment.left_bytes:
            before = self.ranges.held_bytes
            self.ranges.advance(segment, len(data))
            self.position = self.ranges.held_bytes
            self._disk.take(self.position - before)

    def can_split(self, size_bytes: int) -> bool:
        """Whether it can be split now: its server gave a strong ETag, and bytes are missing."""
        return self.validator is not None and self.ranges is None and self.position < size_bytes

    def split_into_ranges(self, size_bytes: int) -> HeldRanges:
        """Count bytes by ranges from now on, instead of in order."""
        self.total_bytes = size_bytes
        self.ranges = HeldRanges(size_bytes, [(0, self.position)] if self.position else ())
        self.segment = self.ranges.take_first()
        return self.ranges

    def open_segment(self, segment: Segment, *, same_source: bool = True) -> volume.Sink:
        """Open a real ``SegmentSink``, which needs only members of a part that this class has."""
        assert self.ranges is not None
        validator = self.validator if same_source else None
        return SegmentSink(cast("Part", self), self.ranges, segment, validator)

    def open_second(self) -> "SimPart":
        """Make another part."""
        return SimPart(self._disk)

    def forget(self, segment: Segment) -> None:
        """Forget the bytes that one segment has brought."""
        if self.ranges is not None:
            self.ranges.forget(segment)
            self.position = self.ranges.held_bytes

    async def hash_rest(self) -> None:
        """Do nothing: there is no hash."""

    def release_segment(self) -> None:
        """Give the segment of its own attempt back."""
        if self.ranges is not None and self.segment is not None:
            self.ranges.give_back(self.segment)
        self.segment = None

    @property
    def must_wait(self) -> bool:
        """Call ``SimDisk.must_wait``."""
        return self._disk.must_wait

    async def wait_for_room(self) -> None:
        """Wait for the disk."""
        await self._disk.wait_for_room()

    def restart(self) -> None:
        """Forget the bytes."""
        if self.ranges is not None:
            self.ranges.abandon()
            self.ranges = self.segment = None
        self.position, self.validator, self.total_bytes = 0, None, None

    def change_source(self, *, mirror: bool) -> None:  # noqa: ARG002
        """Note that the next bytes come from another source."""
        self.validator = None

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:  # noqa: ARG002
        """Hash nothing: the engine has compared the sizes."""
        return "size"

    def close(self) -> None:
        """Do nothing: no file is open."""

    def finish(self) -> None:
        """Do nothing: no file is open."""

    def keep_leftover(self, *, whole: bool = False, even_small: bool = False) -> int:  # noqa: ARG002
        """Keep nothing: no later run continues it."""
        return self.position

    def discard(self) -> None:
        """Do nothing: there is no file."""


class SimDisk:
    """Writes ``rate_bps``, one byte after another; ``written_s``: when all that was taken is written."""

    def __init__(self, rate_bps: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.rate_bps = rate_bps
        self.taken_bytes = 0
        self.written_s = 0.0

    def take(self, size_bytes: int) -> None:
        """Append ``size_bytes`` to the bytes that are being written."""
        self.taken_bytes += size_bytes
        if self.rate_bps < math.inf:
            self.written_s = max(self.written_s, self._loop.time()) + size_bytes / self.rate_bps

    @property
    def unwritten_bytes(self) -> float:
        """The bytes that were taken and are not written yet."""
        if self.rate_bps == math.inf:
            return 0.0
        return max(0.0, self.written_s - self._loop.time()) * self.rate_bps

    @property
    def must_wait(self) -> bool:
        """Whether as much is unwritten as a real volume allows."""
        return self.unwritten_bytes > MOST_UNWRITTEN_BYTES

    async def wait_for_room(self) -> None:
        """Wait until as little is unwritten as a real volume allows."""
        while (more := self.unwritten_bytes - MOST_UNWRITTEN_BYTES) > 0:  # noqa: ASYNC110 - it is known when; more may come
            await asyncio.sleep(max(more / self.rate_bps, 1e-6))


class SimVolume:
    """Implements ``volume.Volume``. Make it inside the virtual loop.

    ``rate_bps``: the bytes that it writes a second; infinite: it is never behind. ``done_files`` and
    ``done_bytes`` count the published files.
    """

    def __init__(self, name: str, rate_bps: float = math.inf) -> None:
        self.search: volume.Search | None = None
        self.loans: volume.Loans | None = None
        self.name = name
        self.done_bytes = self.done_files = 0
        self.left_behind = 0
        self.has_parts = self.is_full = False
        self.is_stuck = False
        self._loop = asyncio.get_running_loop()
        self._disk = SimDisk(rate_bps)
        self._pending: deque[tuple[float, Sequence[volume.PartPort], Ended]] = deque()
        self._work = asyncio.Event()
        self._draining = False

    async def open(self) -> None:
        """Do nothing: no earlier run has left anything."""

    def new_part(self, entry: Entry) -> volume.PartPort:  # noqa: ARG002
        """Make a new, empty part."""
        return SimPart(self._disk)

    def has_nothing_of(self, entry: Entry) -> bool:  # noqa: ARG002
        """True: no earlier run has left anything."""
        return True

    async def verify_existing(self, entry: Entry) -> Standing | None:  # noqa: ARG002
        """None: no file is there."""
        return None

    async def adopt_leftover(self, entry: Entry, part: volume.PartPort) -> None:
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

    def publish(
        self,
        parts: Sequence[volume.PartPort],
        ended: Ended,
        record: BatchRecord | None = None,  # noqa: ARG002 - as the port
    ) -> None:
        """Publish the parts as soon as everything is written that was taken before."""
        report = partial(self._note_published, parts, ended)
        if self._disk.rate_bps == math.inf:
            report()
            return
        self._pending.append((self._disk.written_s, parts, ended))
        self._work.set()

    def _note_published(self, parts: Sequence[volume.PartPort], ended: Ended) -> None:
        self.done_files += len(parts)
        self.done_bytes += sum(part.position for part in parts)
        ended(None)

    def remove_older(self, entry: Entry) -> None:
        """Do nothing: there is no older file."""

    def withdraw_batch(self, batch: str, parts: Sequence[volume.PartPort]) -> None:  # noqa: ARG002
        """Take back a batch that goes to another volume."""
        self.done_files -= len(parts)
        self.done_bytes -= sum(part.position for part in parts)

    async def run(self) -> None:
        """Implements ``Volume.run``."""
        while True:
            while not self._pending:
                if self._draining:
                    return
                self._work.clear()
                await self._work.wait()
            due_s, parts, ended = self._pending.popleft()
            await asyncio.sleep(max(0.0, due_s - self._loop.time()))
            self._note_published(parts, ended)

    def drain(self) -> None:
        """Implements ``Volume.drain``."""
        self._draining = True
        self._work.set()

    async def wait_for_room(self) -> None:
        """Do nothing: it is never full."""

    async def free_bytes(self) -> int | None:
        """None: there is no bound."""
        return None

    @property
    def written_bytes(self) -> int | None:
        """The bytes written so far; None if it is never behind."""
        disk = self._disk
        return None if disk.rate_bps == math.inf else int(disk.taken_bytes - disk.unwritten_bytes)

    @property
    def is_behind(self) -> bool:
        """Whether bytes are unwritten."""
        return self._disk.unwritten_bytes > 0

    def oldest_s(self, now_s: float) -> float:  # noqa: ARG002
        """Always 0: it always answers."""
        return 0.0

    def abandon(self, why: str) -> None:
        """Never called: it always answers."""
        raise NotImplementedError(f"a simulated volume does not hang: {why}")

    async def close(self) -> None:
        """Do nothing: no file is open."""
