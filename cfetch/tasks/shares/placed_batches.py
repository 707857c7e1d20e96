"""The batches of a run whose tasks write to several volumes: where their files stand, and who gets which.

It is used in one event loop, as volumes may hang. The placer decides; this carries its decisions to shares,
and brings back what became of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import msgspec

from cfetch.base.breaker import BreakerState
from cfetch.base.config.engine import PlacementOptions
from cfetch.base.errors import CfetchError, LocalFault, Vanished, VolumeFault
from cfetch.base.events import EntryFinished, Event
from cfetch.engine.batches.arrivals import Arrivals
from cfetch.engine.batches.staging import Batch, BatchSize
from cfetch.engine.batches.waiting import WaitingBatches
from cfetch.engine.entry_records import make_skipped_record
from cfetch.engine.placement.chooser import Earlier, Mode
from cfetch.engine.placement.placer import NOTHING_EARLIER, Placer
from cfetch.manifest.plan import Plan
from cfetch.manifest.urls import host_of
from cfetch.storage.volume import Volume
from cfetch.storage.volume_values import batch_id
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.task_volumes import Landed, TaskVolumes, call_for, tidy


class Placing(NamedTuple):
    """What the placer of a run needs.

    ``open_volumes`` makes the volumes in an event loop; ``note_files``: tasks have put files on a volume.
    """

    options: PlacementOptions
    open_volumes: Callable[[], Sequence[Volume]]
    note_files: Callable[[int], None]
    earlier: Earlier | None
    pace: ExpectedPace
    slots: int
    instant: str


class Begun(NamedTuple):
    """A batch that begins on a volume; ``members``: the entries of it that go there."""

    number: int
    members: tuple[int, ...]
    missing_bytes: int


class PlacedBatches:
    """``has_ended``: whether an entry has, by its index. ``events`` gets what people are told.

    ``waiting``: the batches that are not over.
    ``fault``: with what the run ends, if batches were given up, or files have gone.
    """

    def __init__(
        self,
        plan: Plan,
        placing: Placing,
        has_ended: Callable[[int], bool],
        now_s: Callable[[], float],
        events: deque[Event],
    ) -> None:
        self._plan = plan
        self._placing = placing
        self._has_ended = has_ended
        self._now_s = now_s
        self._events = events
        self._next = count(len(plan))  # numbers of batches that are not of the cut
        self._batches: dict[int, Batch] = {}
        self._settled: list[tuple[Batch, int]] = []  # batches that may have copies on other volumes
        self.fault: LocalFault | None = None
        options = placing.options
        mode = Mode(options.mode)
        volumes = self._volumes = list(placing.open_volumes())
        self._names = [volume.name for volume in volumes]
        self._arrivals = Arrivals(
            plan, volumes, fraction=options.batch_share, largest_first=mode is Mode.FINISH
        )
        self._placer = Placer(
            len(volumes),
            mode=mode,
            deadline_s=options.deadline_s,
            earlier=placing.earlier or NOTHING_EARLIER,
        )
        self.watch = TaskVolumes(volumes, self._placer, events, now_s, placing.note_files, options)
        self.waiting = WaitingBatches(
            self._arrivals,
            self._placer,
            self._batches,
            self._names,
            now_s,
            events.append,
            self._fail,
            self.watch.lose,
        )

    async def open(self, find_landed: Landed) -> None:
        """Look at each volume, and follow them from now on."""
        await self.watch.open()
        self.watch.follow(find_landed)

    @property
    def volumes(self) -> range:
        """The numbers of the volumes."""
        return range(len(self._volumes))

    def may_go_on(self, volume: int) -> bool:
        """Whether a share for this volume may become longer if further batches arrive."""
        is_used = self._placer.view(volume).breaker is BreakerState.CLOSED
        return is_used and not self._arrivals.is_over

    def assign(self) -> None:
        """Give volumes to the batches that wait, and give up those that have waited for too long."""
        self.waiting.assign()
        self.waiting.give_up_overdue()

    async def begin(self, volume: int) -> Begun | None:
        """Begin the next batch on a volume; None: it has none now."""
        while (begun := self.waiting.begin(volume)) is not None:
            batch, _ = begun
            if members := tuple(self._split(batch, volume)):
                return Begun(batch.number, members, batch.missing_bytes)
            await self.finish(volume, [(batch.number, ())])
        return None

    async def finish(self, volume: int, batches: Iterable[tuple[int, Sequence[int]]]) -> None:
        """Note that batches are over on their volume, unless a copy of their task has said so before."""
        ids: list[str] = []
        for number, members in batches:
            batch = self._batches.pop(number, None)
            if batch is None:
                continue
            self._placer.add_held(volume, batch.missing_bytes, len(batch.entries) - len(batch.standing))
            self._placer.finish(number, self._now_s(), of=volume)
            self.watch.note_done(volume, len(members))
            if members:
                ids.append(batch_id([self._plan.entry(index) for index in members]))
            if batch.copies or batch.recorded - {volume}:
                self._settled.append((batch, volume))
        await self.watch.note_records(volume, ids)

    async def refuse(
        self, volume: int, batches: Iterable[tuple[int, tuple[int, ...]]], fault: VolumeFault
    ) -> None:
        """Take back, from a volume that refuses them, those of the batches that are not in place."""
        before = self._placer.view(volume).breaker
        for number, members in batches:
            if all(map(self._has_ended, members)):
                await self.finish(volume, [(number, members)])
                continue
            batch = self._batches.get(number)
            if batch is None:  # a copy of the task has brought it meanwhile
                continue
            batch.moves += 1
            batch.recorded.add(volume)  # a task may have died there in the middle of its commit
            for index in members:
                batch.copies.setdefault(index, []).append(volume)
            self._placer.fail(
                number,
                self._now_s(),
                of=volume,
                reason=str(fault),
                no_room=fault.no_room,
                for_good=fault.no_room and batch.joined_bytes > 0,
            )
            if batch.name is not None and batch.home not in (None, volume):
                batch.home = None
        if fault.no_room:
            self._placer.set_room(volume, self._placer.view(volume).load_bytes)
        if self._placer.view(volume).breaker is not before:
            self.watch.in_use.pause(volume)

    async def confirm(self, fault: Vanished | None = None, volume: int | None = None) -> None:
        """Look whether the files of all tasks still stand; ``fault``: what a task has seen on a volume."""
        for index in self.watch.list_used() if volume is None else [volume]:
            self._blame(await self.watch.confirm(index, fault))

    def _split(self, batch: Batch, volume: int) -> list[int]:
        """The entries of a batch that go to its volume: without those that stand elsewhere and may stay."""
        if batch.name is not None:
            return list(batch.entries)
        elsewhere: dict[int, list[int]] = {}
        for index, other in batch.standing.items():
            if other != volume:
                elsewhere.setdefault(other, []).append(index)
        for other, indexes in elsewhere.items():
            self._submit_standing(batch, other, sorted(indexes))
        return [index for index in batch.entries if batch.standing.get(index, volume) == volume]

    def _submit_standing(self, batch: Batch, volume: int, indexes: list[int]) -> None:
        """Let the entries that stand on another volume be checked there, as a batch of their own."""
        entries = [self._plan.entry(index) for index in indexes]
        sizes = [entry.size_bytes for entry in entries if entry.size_bytes is not None]
        size = BatchSize(sum(sizes), len(entries) - len(sizes))
        other = Batch(next(self._next), batch_id(entries), None, indexes, size)
        other.home, other.standing = volume, dict.fromkeys(indexes, volume)
        other.copies, other.blocked = batch.copies, batch.blocked
        self.waiting.add(other)

    def _fail(self, batch: Batch, fault: VolumeFault) -> None:
        """Fail the entries of a batch that no volume takes; the run ends with that fault."""
        now_s = self._now_s()
        for index in batch.entries:
            entry = self._plan.entry(index)
            if self._has_ended(index):
                continue
            blank = make_skipped_record(
                entry,
                self._placing.instant,
                host=host_of(entry.url.value),
                verified="none",
                volume=self._names[0],
                now_s=now_s,
            )
            record = msgspec.structs.replace(
                blank, status="failed", bytes=0, error_kind=fault.kind, error=str(fault), batch=batch.name
            )
            self._events.append(EntryFinished(t_s=now_s, record=record))
        del self._batches[batch.number]
        self._blame(fault)

    def _blame(self, fault: LocalFault | None) -> None:
        self.fault = self.fault or fault

    async def close(self) -> None:
        """Remove what other volumes have of batches that are whole, and let go of the volumes."""
        self.watch.leave()
        options, earlier = self._placing.options, self._placing.earlier
        for batch, volume in self._settled:
            if self._volumes[volume].is_stuck:  # each batch would be waited for
                continue
            entries = [self._plan.entry(index) for index in batch.entries]
            with suppress(CfetchError, TimeoutError):
                await call_for(options.write_timeout_s, tidy(self._volumes, batch, entries, volume))
        if Mode(options.mode) is Mode.ROUND_ROBIN and earlier is not None:
            earlier.keep_turn(self._placer.turn)
        await asyncio.gather(*(volume.close() for volume in self._volumes))
        self.watch.close()
