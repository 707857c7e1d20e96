"""Idle workers wait in a queue: each wake reaches one that can use it, and none is woken twice for one."""

import asyncio

from cfetch.base.virtual_clock import run_virtual
from cfetch.engine.idle_workers import IdleWorkers


async def wait_all(idle, *timeouts_s):
    """Begin so many waits; the list gets the numbers of those that have ended, in order."""
    ended: list[int] = []

    async def wait(number, timeout_s):
        await idle.wait(timeout_s)
        ended.append(number)

    tasks = [asyncio.ensure_future(wait(number, timeout_s)) for number, timeout_s in enumerate(timeouts_s)]
    await asyncio.sleep(0)
    return tasks, ended


async def end(tasks):
    """Cancel those that still wait."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_the_one_that_has_waited_longest_is_woken_and_no_other():
    """Several wakes before anyone runs reach several workers; a wake too many does nothing."""

    async def main():
        idle = IdleWorkers()
        tasks, ended = await wait_all(idle, None, None, None)
        idle.wake_one()
        idle.wake_one()
        await asyncio.sleep(0.1)
        assert (ended, idle.count) == ([0, 1], 1)
        for _ in range(3):
            idle.wake_one()
        await asyncio.sleep(0.1)
        again, ended_again = await wait_all(idle, None)
        await asyncio.sleep(0.1)
        assert (ended, ended_again, idle.count) == ([0, 1, 2], [], 1)  # a wake is not kept for later
        await end(tasks + again)

    run_virtual(main())


def test_one_whose_time_is_over_takes_no_wake_of_another():
    """Its wait ends by itself; a wake at that moment goes to the next one in the queue."""

    async def main():
        idle = IdleWorkers()
        tasks, ended = await wait_all(idle, 1.0, None, 5.0)
        await asyncio.sleep(1.5)
        assert (ended, idle.count) == ([0], 2)
        idle.wake_one()
        await asyncio.sleep(0.1)
        assert (ended, idle.count) == ([0, 1], 1)
        await asyncio.sleep(5.0)
        assert (ended, idle.count) == ([0, 1, 2], 0)
        await end(tasks)

    run_virtual(main())


def test_one_that_is_cancelled_in_the_same_turn_passes_its_wake_on():
    """Whether it was cancelled before or after the wake, somebody is up for the work."""

    async def main(*, wakes_first):
        idle = IdleWorkers()
        tasks, ended = await wait_all(idle, None, None)
        for step in (idle.wake_one, tasks[0].cancel)[:: 1 if wakes_first else -1]:
            step()
        await asyncio.sleep(0.1)
        assert (tasks[0].cancelled(), ended, idle.count) == (True, [1], 0)
        await end(tasks)

    run_virtual(main(wakes_first=True))
    run_virtual(main(wakes_first=False))
