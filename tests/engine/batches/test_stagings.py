"""Batches that go from volume to volume and back, and the workers that still have their former transfers."""

import asyncio
from types import SimpleNamespace
from typing import Any

from cfetch.engine.batches.stagings import Stagings


def make(**fields) -> Any:
    """Whatever has these fields."""
    return SimpleNamespace(**fields)


class Shelf:
    """A volume that notes in ``told`` what it is asked."""

    is_stuck = False
    has_parts = True

    def __init__(self, name, told):
        self.name = name
        self.told = told
        self.loans = self

    async def adopt_leftover(self, *_):
        self.told.append(("adopt", self.name))

    async def lend(self, *_):
        self.told.append(("lend", self.name))

    def keep(self, *_, **__):
        self.told.append(("keep", self.name))

    def unmark_batch(self, _):
        pass


async def test_a_batch_comes_back_while_a_worker_copies_what_stood_there():
    """The copy has to end before the volume goes on with that, as a second file would have its name."""
    told: list[tuple[str, str]] = []
    volumes: list[Any] = [Shelf("first", told), Shelf("second", told)]
    queues = make(of_batch=lambda _: ())
    stagings = Stagings(make(entry=lambda _: None), volumes, queues, make(withdraw=lambda _: ()), make())
    batch = make(number=0, id="b", moves=0)
    former = make(index=7, task=None, part=None, attempts=[], moved=False)
    away = make(batch=batch, volume_index=1, staged=[], transfers=[former], is_over=False)
    former.staging = away
    stagings.batches[0], stagings.under_way[0] = batch, away
    stagings.withdraw(away)
    back = make(batch=batch, volume_index=0)
    anew = make(index=7, entry=None, part=None, staging=back)
    beginning = asyncio.create_task(stagings.adopt_and_borrow(anew, back))
    await asyncio.sleep(0)
    stagings.drop(former)
    await beginning
    assert told == [("keep", "second"), ("adopt", "first"), ("lend", "second")]
