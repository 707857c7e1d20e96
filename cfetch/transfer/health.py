"""Watches the volumes: how fast they are, how much room they have, and whether they still answer."""

import asyncio
from collections.abc import Callable, Sequence

from cfetch.clock import Clock
from cfetch.errors import VolumeFault
from cfetch.placement.placer import Placer
from cfetch.transfer.lane import Lane
from cfetch.transfer.staging import Staging

__all__ = ["Health"]

TICK_S = 0.5  # between looks at speeds and at calls that do not come back
FIRST_TICK_S = 0.1  # until all speeds are known: a volume gets no second batch before that
ROOM_S = 2.0  # between looks at free space
RESERVE_BYTES = 16 << 20  # of a volume; cfetch's own files need room too
RESERVE_SHARE = 0.01  # but of a small one not more than this


class Health:
    """Tells the placer what it finds, and ``gone`` of volumes that say no or nothing for ``patience_s``.

    ``landed`` says how many bytes have come for a volume until now, ``here`` what is being staged on it.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        placer: Placer,
        clock: Clock,
        *,
        patience_s: float,
        landed: Callable[[int], int],
        here: Callable[[int], Sequence[Staging]],
        gone: Callable[[int, VolumeFault], None],
    ) -> None:
        self._volumes = lanes
        self._placer = placer
        self._clock = clock
        self._patience_s = patience_s
        self._landed = landed
        self._here = here
        self._gone = gone
        self._opened = asyncio.Event()
        self.free_bytes: list[int | None] = [None] * len(lanes)

    async def opened(self) -> None:
        """Wait until each volume has been looked at once, or has failed."""
        await self._opened.wait()

    async def watch(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            await asyncio.gather(*map(self._open, range(len(self._volumes))))
            self._opened.set()
            for at in range(len(self._volumes)):
                group.create_task(self._ask_room(at))

    async def _open(self, at: int) -> None:
        try:
            await self._volumes[at].open()
            await self._look_at_room(at)
        except VolumeFault as fault:
            self._gone(at, fault)

    async def _ask_room(self, at: int) -> None:
        while True:
            await self._clock.sleep(ROOM_S)
            try:
                await self._look_at_room(at)
            except VolumeFault as fault:
                self._gone(at, fault)

    async def _look_at_room(self, at: int) -> None:
        """Ask for the free space, and add what has landed of the batches that count as load."""
        free_bytes = self.free_bytes[at] = await self._volumes[at].free_bytes()
        if free_bytes is None:
            return
        landed = sum(one.staged_bytes + sum(job.part.position for job in one.jobs) for one in self._here(at))
        reserve = min(RESERVE_BYTES, int(RESERVE_SHARE * (free_bytes + landed)))
        self._placer.room(at, max(0, free_bytes - reserve) + landed)

    def _taken(self, at: int) -> int:
        written_bytes = self._volumes[at].written_bytes
        return self._landed(at) if written_bytes is None else written_bytes

    async def _tick(self) -> None:
        volumes = range(len(self._volumes))
        before_s, taken = self._clock.monotonic(), list(map(self._taken, volumes))
        busy = [False for _ in volumes]
        while True:
            known = all(self._placer.view(at).speed_bps for at in volumes)
            await self._clock.sleep(TICK_S if known else FIRST_TICK_S)
            now_s, now = self._clock.monotonic(), list(map(self._taken, volumes))
            is_busy = [any(one.jobs for one in self._here(at)) for at in volumes]
            for at in volumes:
                if busy[at] and is_busy[at] and now_s > before_s:
                    self._placer.measured(at, max(0, now[at] - taken[at]), now_s - before_s)
                if now[at] > taken[at]:
                    for staging in self._here(at):
                        self._placer.taken(staging.batch.number)
                self._look_whether_it_hangs(at, now_s)
            before_s, taken, busy = now_s, now, is_busy

    def _look_whether_it_hangs(self, at: int, now_s: float) -> None:
        lane = self._volumes[at]
        if lane.oldest_s(now_s) > self._patience_s:
            why = f"{lane.name} has not answered for {self._patience_s:g} s; see whether it is still there"
            lane.abandon(why)
            self._gone(at, VolumeFault(why))
        elif lane.is_stuck:  # no probe before what was abandoned has come back
            self._gone(at, VolumeFault(f"{lane.name} has not answered yet"))
