"""The clock of a run: from 0 at its start, whoever has begun it."""

import asyncio

from cfetch.base.clock import RunClock
from cfetch.base.virtual_clock import VirtualClock, run_virtual


def test_a_runs_clock_begins_at_its_start():
    """However late that is on the machine's clock. Sleep passes its time too; the date is the machine's."""

    async def main():
        await asyncio.sleep(5.0)
        clock = RunClock(VirtualClock(epoch=1000.0))
        first_s = clock.now()
        await clock.sleep(2.0)
        return first_s, clock.now(), clock.wall()

    assert run_virtual(main()) == (0.0, 2.0, 1007.0)


def test_a_run_that_another_process_has_begun_is_under_way():
    """Its seconds are counted from there."""

    async def main():
        return RunClock(VirtualClock(), elapsed_s=30.0).now()

    assert run_virtual(main()) == 30.0
