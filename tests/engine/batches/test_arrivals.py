"""How batches arrive."""

import asyncio
from typing import Any

from cfetch.bench.simulation.volume import SimVolume
from cfetch.clock import run_virtual
from cfetch.engine.batches.arrivals import Arrivals
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
