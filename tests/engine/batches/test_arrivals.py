"""How batches arrive."""

import asyncio
from contextlib import suppress
from typing import Any

from cfetch.base.errors import VolumeFault
from cfetch.base.virtual_clock import run_virtual
from cfetch.engine.batches.arrivals import LOOK_S, Arrivals
from cfetch.plugins.lab.bench.simulation.volume import SimVolume
from cfetch.storage.volume_values import Holding, batch_id
from tests.engine.drive import ListPlan, entry_of

HELD: set[str] = set()  # the ids of batches whose first file is in place


class SlowVolume(SimVolume):
    """Takes two seconds to say what it holds."""

    async def inspect_batches(self, batches):
        await asyncio.sleep(2.0)
        return await super().inspect_batches(batches)


def test_the_last_batch_has_arrived_when_the_volumes_have_answered():
    """Until then something is still to come: a run must not end meanwhile."""

    async def main():
        volume: Any = SlowVolume("v")
        entries: Any = ListPlan([entry_of(0, "f", b"four", batch="b")])
        arrivals = Arrivals(entries, [volume], fraction=0.0)
        task = asyncio.create_task(arrivals.next(lambda *_: None))
        await asyncio.sleep(1.0)
        assert not arrivals.is_over
        batch = await task
        assert (batch.name, arrivals.is_over) == ("b", True)

    run_virtual(main())


class HangingVolume(SimVolume):
    """Says what it holds when ``answers`` is set, even to those who do not want to know any more."""

    answers: asyncio.Event

    async def inspect_batches(self, batches):
        while not self.answers.is_set():
            with suppress(asyncio.CancelledError):  # like a call that the system does not end
                await self.answers.wait()
        return await super().inspect_batches(batches)


def test_a_volume_that_hangs_is_not_waited_for_with_each_batch():
    """It would stall all the others: with a thousand batches for more than an hour."""

    async def main():
        volumes: Any = [SimVolume("v"), HangingVolume("w")]
        volumes[1].answers = asyncio.Event()
        entries: Any = ListPlan([entry_of(n, f"f{n}", b"four", batch=f"b{n}") for n in range(9)])
        arrivals = Arrivals(entries, volumes, fraction=0.0)
        names = []
        while not arrivals.is_over:
            names.append((await arrivals.next(lambda *_: None)).name)
        took_s = asyncio.get_running_loop().time()
        volumes[1].answers.set()
        return len(names), took_s

    assert run_virtual(main()) == (9, LOOK_S)


class CountingVolume(SimVolume):
    """Counts the looks."""

    looks = 0

    async def inspect_batches(self, batches):
        self.looks += 1
        return [Holding(same_size=[0]) if batch in HELD else Holding() for batch, _ in batches]


def test_one_look_serves_many_batches():
    """Each look costs every volume a thread's turn, and the workers wait for the next batch meanwhile."""

    async def main():
        volume: Any = CountingVolume("v")
        entries: Any = ListPlan([entry_of(n, f"f{n}", b"four", batch=f"b{n}") for n in range(40)])
        HELD.update(batch_id([entries.entry(n)]) for n in (3, 33))
        arrivals = Arrivals(entries, [volume], fraction=0.0)
        held = []
        while not arrivals.is_over:
            batch = await arrivals.next(lambda *_: None)
            held += [batch.name] * bool(batch.standing)
        assert (held, volume.looks) == (["b3", "b33"], 6)  # at 1, 2, 4, 8, 16 and 9 batches

    run_virtual(main())


def test_a_look_is_at_few_files():
    """An object store may have to be asked for each."""

    async def main():
        volume: Any = CountingVolume("v")
        plan = [entry_of(n, f"f{n}", b"four", batch=f"b{n // 200}") for n in range(600)]
        entries: Any = ListPlan(plan)
        arrivals = Arrivals(entries, [volume], fraction=0.0)
        while not arrivals.is_over:
            await arrivals.next(lambda *_: None)
        assert volume.looks == 3

    run_virtual(main())


class HoldingVolume(SimVolume):
    """Holds the first file of every batch, and takes half a second to look for one batch."""

    async def inspect_batches(self, batches):
        await asyncio.sleep(0.5 * len(batches))
        return [Holding(same_size=[0]) for _ in batches]


def test_what_a_slow_volume_holds_is_seen():
    """A look at many batches at once would take longer than any look may: nothing of it would be seen."""

    async def main():
        volume: Any = HoldingVolume("v")
        entries: Any = ListPlan([entry_of(n, f"f{n}", b"four", batch=f"b{n}") for n in range(40)])
        arrivals = Arrivals(entries, [volume], fraction=0.0)
        return [bool((await arrivals.next(lambda *_: None)).standing) for _ in range(40)]

    assert run_virtual(main()) == [True] * 40


class FailingVolume(HoldingVolume):
    """Fails at the third look, and answers others at once."""

    looks = 0

    async def inspect_batches(self, batches):
        self.looks += 1
        if self.looks == 3:
            raise VolumeFault("v does not answer")
        return [Holding(same_size=[0]) for _ in batches]


def test_a_volume_that_fails_once_is_asked_about_the_other_batches_again():
    """What it holds of them would be fetched once more, to another volume."""

    async def main():
        volume: Any = FailingVolume("v")
        failed: list[int] = []
        entries: Any = ListPlan([entry_of(n, f"f{n}", b"four", batch=f"b{n}") for n in range(40)])
        arrivals = Arrivals(entries, [volume], fraction=0.0)
        batches = [await arrivals.next(lambda index, _: failed.append(index)) for _ in range(40)]
        return failed, [n for n, batch in enumerate(batches) if not batch.standing]

    assert run_virtual(main()) == ([0], [3])


def test_a_volume_that_hangs_for_a_while_is_asked_once_it_answers():
    """Batches that arrive later have their files there: as before, only those are not seen that it kept."""

    async def main():
        volumes: Any = [SimVolume("v"), BusyVolume("w")]
        volumes[1].answers = asyncio.Event()
        entries: Any = ListPlan([entry_of(n, f"f{n}", b"four", batch=f"b{n}") for n in range(9)])
        arrivals = Arrivals(entries, volumes, fraction=0.0)
        homes = [(await arrivals.next(lambda *_: None)).home for _ in range(2)]
        volumes[1].answers.set()
        await asyncio.sleep(0.1)
        return homes + [(await arrivals.next(lambda *_: None)).home for _ in range(7)]

    assert run_virtual(main()) == [None, None] + [1] * 7


class BusyVolume(HangingVolume):
    """Holds the first file of every batch."""

    async def inspect_batches(self, batches):
        await super().inspect_batches(batches)
        return [Holding(same_size=[0]) for _ in batches]
