"""What a worker does next: of those that wait, as many are woken as may start something."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.dispatch import Dispatch
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.schedule import NEVER, Schedule


class World:
    """One host with ``slots``, and entries that are handed out by their numbers.

    ``queues``: as many have one entry each; else one has all. ``later_s``: when a host without slots opens.
    """

    def __init__(self, entries, queues=1, later_s=NEVER):
        self.slots = 0
        self.later_s = later_s
        self.queues = queues
        self.idle = IdleWorkers()
        schedule: Schedule[Any] = Schedule(
            [1] * entries, [n % queues for n in range(entries)], queues, most_put_back=9
        )
        commitment: Any = SimpleNamespace(
            schedule=schedule,
            judges_volumes=False,
            host_of=lambda _: "h",
            hand_out=self._hand_out,
            leave=lambda transfer: schedule.reopen(transfer.queue),
            is_over=False,
        )
        hosts: Any = SimpleNamespace(
            opens_s=lambda _, now_s: now_s if self.slots else self.later_s,
            given_up=lambda *_: None,
            opens_early=False,
        )
        self.hosts = hosts
        fetcher: Any = SimpleNamespace(take_slot=self._place, leave=self._leave)
        segments: Any = SimpleNamespace(is_on=False)
        clock: Any = SimpleNamespace(now=VirtualClock().monotonic)
        self.dispatch = Dispatch(commitment, hosts, fetcher, segments, self.idle, clock, has_mirrors=False)

    def _hand_out(self, index, _):
        entry = SimpleNamespace(mirrors=())
        return SimpleNamespace(index=index, queue=index % self.queues, entry=entry, moved=False)

    def _place(self, *_):
        self.slots -= 1

    def _leave(self, *_):
        self.slots += 1
        self.hosts.opens_early = self.later_s < NEVER

    async def start_workers(self, number):
        """So many wait for something to do."""
        workers = [asyncio.ensure_future(self.dispatch.next()) for _ in range(number)]
        await asyncio.sleep(0)
        assert self.idle.count == number
        return workers


async def count_started(workers):
    """Those that have something in hand; the others are ended."""
    await asyncio.sleep(1)
    started = sum(worker.done() for worker in workers)
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)
    return started


@pytest.mark.parametrize(("slots", "started"), [(0, 0), (1, 1), (2, 2), (5, 3)])
def test_one_that_starts_wakes_the_next_while_there_are_slots(slots, started):
    """A host may bear several more at once; nobody is left asleep beside a free slot."""

    async def main():
        world = World(entries=9)
        workers = await world.start_workers(3)
        world.slots = slots
        world.dispatch._schedule.reopen(0)
        world.idle.wake_one()
        return await count_started(workers)

    assert run_virtual(main()) == started


def test_who_leaves_an_entry_takes_the_next_and_wakes_nobody_for_nothing():
    """The slot that it leaves is its own again."""

    async def main():
        world = World(entries=9)
        world.slots = 1
        mine: Any = await world.dispatch.next()
        workers = await world.start_workers(2)
        world.dispatch.leave(mine)
        after: Any = await world.dispatch.next()
        assert after.index == 1
        assert world.idle.count == 2
        return await count_started(workers)

    assert run_virtual(main()) == 0


def test_a_slot_that_was_kept_opens_for_all_queues_of_the_host():
    """Entries of another batch were told a time at which the slot opens; an attempt has ended before."""

    async def main():
        world = World(entries=3, queues=3, later_s=100.0)
        world.slots = 1
        mine: Any = await world.dispatch.next()
        workers = await world.start_workers(2)
        world.dispatch.leave(mine)
        world.slots = 2
        after: Any = await world.dispatch.next()
        assert after.index == 1
        return await count_started(workers)

    assert run_virtual(main()) == 1


def test_a_helper_that_leaves_opens_all_queues_too():
    """It had the slot next to the one that was kept."""

    async def main():
        world = World(entries=3, queues=3, later_s=100.0)
        workers = await world.start_workers(2)
        world.slots, world.hosts.opens_early = 1, True
        world.dispatch.leave_helper()
        world.idle.wake_one()
        return await count_started(workers), world.hosts.opens_early

    assert run_virtual(main()) == (1, False)


def test_a_cancelled_worker_does_not_swallow_the_wake():
    """The one behind it gets it; none stays in the queue."""

    async def main():
        world = World(entries=9)
        first, second = await world.start_workers(2)
        first.cancel()
        world.slots = 1
        world.dispatch._schedule.reopen(0)
        world.idle.wake_one()
        await asyncio.sleep(1)
        assert (first.cancelled(), second.done(), world.idle.count) == (True, True, 0)

    run_virtual(main())
