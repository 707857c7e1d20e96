"""The loop that keeps the volumes at work: batches arrive, get a volume, and are begun.

A round runs whenever something has changed, and every half second. Its steps are those of ``waiting.py``.
"""

import asyncio
from contextlib import suppress

from cfetch.base.breaker import BreakerState
from cfetch.base.errors import VolumeFault
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.batches.arrivals import Arrivals
from cfetch.engine.batches.borne import Borne
from cfetch.engine.batches.completion import BatchCompletion
from cfetch.engine.batches.staging import Batch, BatchStaging
from cfetch.engine.batches.stagings import Stagings
from cfetch.engine.batches.volume_events import explain_placement
from cfetch.engine.batches.volume_watch import VolumeWatch
from cfetch.engine.batches.waiting import WaitingBatches
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.placement.placer import Placer
from cfetch.engine.placement.volume_slots import VolumeSlots
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.schedule import Schedule
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer

TICK_S = 0.5  # between rounds in which nothing has happened
SHORTEST_WAIT_S = 0.01


class Rounds:
    """``slots``: how many entries may be under way, by volume; together as many as the hosts bear now."""

    def __init__(
        self,
        arrivals: Arrivals,
        placer: Placer,
        stagings: Stagings,
        completion: BatchCompletion,
        watch: VolumeWatch,
        in_flight: AttemptsUnderWay,
        switch: StopSwitch,
        outside: PoolInputs,
        *,
        concurrency: int,
        borne: Borne | None,
    ) -> None:
        self._names = stagings.names
        self._arrivals = arrivals
        self._placer = placer
        self._stagings = stagings
        self._completion = completion
        self._watch = watch
        self._in_flight = in_flight
        self._switch = switch
        self._clock = outside.clock
        self._waiting = WaitingBatches(
            arrivals,
            placer,
            stagings.batches,
            stagings.names,
            outside.clock.now,
            outside.emit,
            self._fail,
            watch.leave_all,
        )
        self._shares = VolumeSlots(concurrency, len(stagings.names))
        self._borne = borne
        self.slots = [concurrency] * len(stagings.names)

    @property
    def is_over(self) -> bool:
        """Whether all batches are over, or the run is stopping."""
        return self._switch.is_stopping or self._waiting.is_over

    async def run(self, schedule: Schedule[Transfer], idle: IdleWorkers) -> None:
        """Go on until all batches are over; wake the workers after each round."""
        await self._watch.health.wait_until_open()
        while not self.is_over:
            self._stagings.changed.clear()
            await self._round()
            schedule.reopen_shut()
            idle.wake_one()  # this worker wakes another one if more may start
            now_s = self._clock.now()
            wait_s = min(TICK_S, self._placer.next_s(now_s) - now_s)
            if not self.is_over:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stagings.changed.wait(), max(wait_s, SHORTEST_WAIT_S))
        schedule.reopen_shut()
        idle.wake_all()

    async def _round(self) -> None:
        began = True
        while began and not self.is_over:
            while self._waiting.wants_more():
                await self._waiting.arrive()
            unassigned = self._watch.take_short_of_room() - self._waiting.assign()
            for number in unassigned & self._stagings.batches.keys():
                # the parts kept for it may take the room that it needs
                self._stagings.give_up_kept(self._stagings.batches[number])
            self._divide_slots()
            began = self._begin_batches()
        self._waiting.give_up_overdue()

    def _divide_slots(self) -> None:
        now_s, running = self._clock.now(), self._watch.health.running
        volumes = range(len(self._names))
        self._shares.note_waits(now_s, [self._in_flight.held_s(index, now_s) for index in volumes])
        has_work = [self._has_work(index) for index in volumes]
        most = None if self._borne is None else self._borne.count(now_s)
        self.slots = self._shares.divide(has_work, running, most, is_last=self._arrivals.is_over)

    def _has_work(self, index: int) -> bool:
        """Whether entries are under way to the volume or wait for a slot. It may be full, or paused."""
        unhanded = sum(staging.unhanded for staging in self._stagings.here(index))
        return bool(self._placer.view(index).queued or unhanded or self._watch.health.running[index])

    def _begin_batches(self) -> bool:
        """Begin the batches for which volumes have slots. Returns whether any was begun."""
        began = False
        for volume_index in range(len(self._names)):
            while self._wants_batch(volume_index) and (begun := self._waiting.begin(volume_index)):
                began = True
                batch, placed = begun
                staging = self._stagings.open(
                    batch, placed.volume, explain_placement(batch, placed, self._names)
                )
                self._completion.settle_if_ended(staging)
        return began

    def _wants_batch(self, volume_index: int) -> bool:
        here = self._stagings.here(volume_index)
        if here and self._placer.goes_by_speed and self._watch.health.is_new(volume_index):
            return False  # else the first and largest batches fill a volume that may be slow
        slots = self.slots[volume_index]
        return sum(staging.unhanded for staging in here) < slots and len(here) < 2 * slots + 2

    def _fail(self, batch: Batch, fault: VolumeFault) -> None:
        """Fail the entries of a batch that no volume takes; if all volumes are out of use, end the run."""
        now_s, nowhere = self._clock.now(), BatchStaging(batch, 0, "")
        for index in batch.entries:
            if not batch.is_settled(index):
                transfer = self._stagings.transfer(index, nowhere, now_s)
                self._stagings.finish(transfer, "failed", error=fault)
        self._stagings.forget(batch)
        self._stagings.changed.set()
        self._switch.blame(fault)
        views = map(self._placer.view, range(len(self._names)))
        if all(view.breaker is BreakerState.OPEN for view in views):
            self._switch.fail(fault)
