"""Watches the volumes: how fast they are, how much room they have, and whether they still answer."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from cfetch.base.clock import RunClock
from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.batches.stagings import Stagings
from cfetch.engine.batches.volume_events import VolumesInUse
from cfetch.engine.placement.placer import Placer
from cfetch.storage.volume import Volume

TICK_S = 0.5  # between looks at speeds and at calls that do not return
FIRST_TICK_S = 0.1  # until all speeds are known
NEW_TICK_S = 0.02  # in the first second of a volume, which gets no second batch before its speed is known
FIRST_S = 1.0  # seconds of writing over which the first speed is measured
HURRY_S = 5.0  # patience with a volume that hangs while the run is ending
ROOM_S = 2.0  # between questions for the free space


class _First(NamedTuple):
    """The first second of a volume's writing, by which its first speed is measured; when anything began."""

    bytes: int = 0
    writing_s: float = 0.0
    since_s: float | None = None


class Health:
    """Reports the volumes' speed and room to the placer; calls ``gone`` for one that refuses or is silent.

    A volume is silent after ``patience_s``. ``running`` counts the entries under way by volume.
    """

    def __init__(
        self,
        volumes: Sequence[Volume],
        placer: Placer,
        stagings: Stagings,
        in_flight: AttemptsUnderWay,
        clock: RunClock,
        *,
        patience_s: float,
        in_use: VolumesInUse,
        gone: Callable[[int, LocalFault], None],
    ) -> None:
        self._volumes = volumes
        self._in_use = in_use
        self._placer = placer
        self._stagings = stagings
        self._in_flight = in_flight
        self._clock = clock
        self._patience_s = patience_s
        self._gone = gone
        self._opened = asyncio.Event()
        self.running = [0] * len(volumes)
        self._busy_s = [0.0] * len(volumes)  # for how long anything was running
        self._busy_since_s = [0.0] * len(volumes)
        self._first = [_First() for _ in volumes]
        self._ask_now = [asyncio.Event() for _ in volumes]

    def note_start(self, index: int) -> None:
        """Note that an entry is under way to volume ``index``."""
        if not self.running[index]:
            self._busy_since_s[index] = self._clock.now()
            if self._first[index].since_s is None:
                self._first[index] = self._first[index]._replace(since_s=self._busy_since_s[index])
        self.running[index] += 1

    def note_end(self, index: int) -> None:
        """Note that an entry to volume ``index`` is no longer under way."""
        self.running[index] -= 1
        if not self.running[index]:
            self._busy_s[index] += self._clock.now() - self._busy_since_s[index]

    def _busy_until_now_s(self, index: int) -> float:
        since_s = self._clock.now() - self._busy_since_s[index] if self.running[index] else 0.0
        return self._busy_s[index] + since_s

    def is_new(self, index: int) -> bool:
        """Whether its speed is still unknown because it is new, or behind with writing what has come."""
        return self._is_young(index) or (
            not self._placer.view(index).speed_bps and self._volumes[index].is_behind
        )

    def _is_young(self, index: int) -> bool:
        """Whether its speed is still unknown in its first second at work, or before that."""
        since_s = self._first[index].since_s
        waited_s = 0.0 if since_s is None else self._clock.now() - since_s
        return waited_s < FIRST_S and not self._placer.view(index).speed_bps

    def _choose_tick_s(self) -> float:
        if all(self._placer.view(index).speed_bps for index in range(len(self._volumes))):
            return TICK_S
        begun = (index for index, first in enumerate(self._first) if first.since_s is not None)
        return NEW_TICK_S if any(map(self._is_young, begun)) else FIRST_TICK_S

    def note_full(self, index: int) -> None:
        """Note that the volume had no room: nothing more fits until it is asked again, which is soon."""
        self._placer.set_room(index, self._placer.view(index).load_bytes)
        self._ask_now[index].set()

    async def wait_until_open(self) -> None:
        """Wait until each volume has been looked at once, or has failed."""
        await self._opened.wait()

    async def watch(self) -> None:
        """Watch the volumes until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick())
                await asyncio.gather(*map(self._open, range(len(self._volumes))))
                self._opened.set()
                for index in range(len(self._volumes)):
                    group.create_task(self._ask_room(index))
        finally:
            self._opened.set()  # also after an error: whoever waits has to see that the run is stopping

    async def _open(self, index: int) -> None:
        try:
            await self._volumes[index].open()
            await self._in_use.measure_room(index, self._count_landed)
        except LocalFault as fault:
            self._gone(index, fault)

    async def _ask_room(self, index: int) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ask_now[index].wait(), ROOM_S)
            self._ask_now[index].clear()
            if self._volumes[index].is_stuck:
                continue
            try:
                await self._in_use.measure_room(index, self._count_landed)
            except LocalFault as fault:
                self._gone(index, fault)

    def _count_landed(self, index: int) -> int:
        """Count the bytes that batches have on a volume which are not whole there yet."""
        return sum(
            staging.staged_bytes + sum(transfer.part.position for transfer in staging.transfers)
            for staging in self._stagings.here(index)
        )

    def _count_taken_bytes(self, index: int) -> int:
        written_bytes = self._volumes[index].written_bytes
        return self._in_flight.landed_bytes(index) if written_bytes is None else written_bytes

    async def _tick(self) -> None:
        volumes = range(len(self._volumes))
        taken = list(map(self._count_taken_bytes, volumes))
        busy_s = list(map(self._busy_until_now_s, volumes))
        before_s, was_behind = self._clock.now(), [False for _ in volumes]
        while True:
            tick_s = self._choose_tick_s()
            await self._clock.sleep(tick_s)
            now_s, now = self._clock.now(), list(map(self._count_taken_bytes, volumes))
            now_busy_s = list(map(self._busy_until_now_s, volumes))
            is_behind = [volume.is_behind for volume in self._volumes]
            for index in volumes:
                writing_s = now_busy_s[index] - busy_s[index]
                if was_behind[index]:  # it wrote earlier bytes, even if no entry is under way
                    rest_s = now_s - before_s
                    writing_s = rest_s if is_behind[index] or writing_s >= rest_s else 0.0
                self._measure(index, max(0, now[index] - taken[index]), writing_s)
                if now[index] > taken[index]:
                    for staging in self._stagings.here(index):
                        self._placer.note_progress(staging.batch.number)
                # as of when this look was due: if it is late, the loop hung, and has heard no answers since
                self._note_if_hanging(index, before_s + tick_s)
            taken, busy_s, before_s, was_behind = now, now_busy_s, now_s, is_behind

    def _measure(self, index: int, size_bytes: int, writing_s: float) -> None:
        """Report the speed; at first over all of the first second, as its start measures connections only."""
        if writing_s <= 0:
            return
        first = self._first[index]
        if first.writing_s >= FIRST_S:
            self._placer.note_speed(index, size_bytes, writing_s)
            return
        first = first._replace(bytes=first.bytes + size_bytes, writing_s=first.writing_s + writing_s)
        self._first[index] = first
        if first.bytes and not self._placer.view(index).speed_bps:
            self._stagings.changed.set()
        self._placer.note_speed(index, first.bytes, first.writing_s, weight=1.0)

    def hurry(self) -> None:
        """Have less patience with a volume that hangs, as the run is ending."""
        self._patience_s = min(self._patience_s, HURRY_S)

    def _note_if_hanging(self, index: int, now_s: float) -> None:
        volume = self._volumes[index]
        if volume.oldest_s(now_s) > self._patience_s:
            why = f"{volume.name} has not answered for {self._patience_s:g} s; see whether it is still there"
            volume.abandon(why)
            self._gone(index, VolumeFault(why))
        elif volume.is_stuck:  # no probe before the abandoned calls have returned
            self._gone(index, VolumeFault(f"{volume.name} has not answered yet"))
