"""How batches arrive."""

import asyncio
from contextlib import suppress
from typing import Any

from cfetch.bench.simulation.volume import SimVolume
from cfetch.clock import run_virtual
from cfetch.engine.batches.arrivals import LOOK_S, Arrivals
from tests.engine.drive import ListPlan, entry_of


class SlowVolume(SimVolume):
    """Takes two seconds to say what it holds."""

    async def inspect_batch(self, batch, entries):
        await asyncio.sleep(2.0)
        return await super().inspect_batch(batch, entries)


def test_the_last_batch_has_arrived_when_the_volumes_have_answered():
    """Until then something is still to come: a run must not end meanwhile."""

    async def main():
        volume: Any = SlowVolume("v")
        entries: Any = ListPlan([entry_of(0, "f", b"four", batch="b")])
        arrivals = Arrivals(entries, [volume], share=0.0)
        task = asyncio.create_task(arrivals.next(lambda *_: None))
        await asyncio.sleep(1.0)
        assert not arrivals.is_over
        batch = await task
        assert (batch.name, arrivals.is_over) == ("b", True)

    run_virtual(main())


class HangingVolume(SimVolume):
    """Says what it holds when ``answers`` is set, even to those who do not want to know any more."""

    answers: asyncio.Event

    async def inspect_batch(self, batch, entries):
        while not self.answers.is_set():
            with suppress(asyncio.CancelledError):  # like a call that the system does not end
                await self.answers.wait()
        return await super().inspect_batch(batch, entries)


def test_a_volume_that_hangs_is_not_waited_for_with_each_batch():
    """It would stall all the others: with a thousand batches for more than an hour."""

    async def main():
        volumes: Any = [SimVolume("v"), HangingVolume("w")]
        volumes[1].answers = asyncio.Event()
        entries: Any = ListPlan([entry_of(n, f"f{n}", b"four", batch=f"b{n}") for n in range(9)])
        arrivals = Arrivals(entries, volumes, share=0.0)
        names = []
        while not arrivals.is_over:
            names.append((await arrivals.next(lambda *_: None)).name)
        took_s = asyncio.get_running_loop().time()
        volumes[1].answers.set()
        return len(names), took_s

    assert run_virtual(main()) == (9, LOOK_S)
