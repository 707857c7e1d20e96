"""ADR 19's conformance table, B1 to B22, over several tasks, of which one dies at each of its words.

Each row is a run: the real dealer gives its batches to tasks (``placed_world.py``). Without a death the
batches have to stand where the row says. Then the row is played again for each word of it, and one task dies
there, in each of four ways. After that every batch is whole on exactly one volume, each file stands once, and
the batches stand where the row says all the same: a death gives a share to another task, not to another
volume. Only if the driver dies with all tasks, volumes may change: what has not begun is placed anew.

B19 (no volume) ends before there are tasks: the command refuses a run that no volume takes. B20 (no items):
no manifest can state a batch without files, so the row is a batch of which nothing is to be brought where it
was placed. B14 has an end that no driver can prevent: a process dies while the kernel has a put of its own on
a disk that hangs, and that one file lands.

Items are files of one byte, in tens where the row has only tens.
"""

import random
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from cfetch.engine.placement.chooser import Mode
from cfetch.tasks.shares.task import EntryList
from tests.engine.drive import entry_of
from tests.tasks.shares.placed_world import DRIVER, FOR_EVER, LOST, REAPED, SILENT, SILENT_S, play

FINISH, COUNT = Mode.FINISH, Mode.COUNT
NONE: Mapping[int, Any] = MappingProxyType({})


class Row(NamedTuple):
    """A row. ``loads``: what each volume bears at the start; ``sizes``: of the batches, in their order.

    ``homes``: the volume of each batch at the end. ``well``: when broken volumes take something again;
    ``breaks``: the words after which they break; ``hangs``: until when volumes answer no put.
    ``is_one_by_one``: a batch is brought before the next arrives; ``is_in_turn``: a task works only while
    those before it have nothing to do. ``sees``: the volumes that the first of them sees. ``story``: what
    else happens, each step as soon as it returns True. ``takes_over``: a volume takes batches that wait for
    another. ``stands``: where batches stand already; ``blocks``: where something else is in the place of one
    of their files. ``silent_homes``: where batches may also stand if a task stands still.
    """

    name: str
    loads: tuple[int, ...]
    sizes: tuple[int, ...]
    homes: tuple[int | None, ...]
    mode: Mode = COUNT
    well: Mapping[int, float] = NONE
    hangs: Mapping[int, float] = NONE
    breaks: Mapping[int, str] = NONE
    rooms: tuple[int | None, ...] = ()
    is_one_by_one: bool = False
    is_in_turn: bool = False
    sees: tuple[int, ...] | None = None
    takes_over: bool = False
    deadline_s: float = 300.0
    processes: int = 3
    story: tuple[Any, ...] = ()
    stands: Mapping[int, int] = NONE
    blocks: Mapping[int, int] = NONE
    is_named: bool = True
    silent_homes: tuple[int | None, ...] = ()

    @property
    def plan(self):
        """Its entries."""
        return _plan_of(self.sizes, self.is_named)


@cache
def _plan_of(sizes, is_named):
    names = [(f"b{number}", n) for number, size in enumerate(sizes) for n in range(size)]
    entries = [
        entry_of(index, f"{name}/{n}", b"x", batch=name if is_named else None)
        for index, (name, n) in enumerate(names)
    ]
    plan: Any = EntryList(entries, ())
    plan.all = entries
    return plan


def recovers_empty(world):
    """Volume 0 has failed; what it bore is written meanwhile, and its pause is over."""
    placer = world.placer
    placer.submit(-9, 1, 1, world.now(), home=0)
    placer.assign(world.now())
    placer.begin(0, world.now())
    placer.fail(-9, world.now(), of=0, reason="broken")
    placer.cancel(-9)
    world.wait(1.0)
    return placer.finish(-1, world.now(), of=0)


ROWS = [
    Row("B1 the least loaded takes the whole batch", (0, 0, 0, 0), (5, 3, 10), (0, 1, 2)),
    Row("B2 each choice sees the one before", (5, 3, 10, 0), (2, 10, 10), (3, 3, 1)),
    Row("B3 then the first is the least", (50, 130, 100, 120), (1,), (0,)),
    Row("B4 equal batches alternate", (0, 0), (1,) * 5, (0, 1, 0, 1, 0)),
    Row("B5 the lowest index wins a tie", (0, 0), (2, 2, 1), (0, 1, 0)),
    Row("B6 the largest first", (0, 0, 0, 0), (5, 3, 10), (1, 2, 0), mode=FINISH),
    Row("B7 the largest first is more even", (5, 3, 10, 0), (2, 10, 10), (0, 3, 1), mode=FINISH),
    Row("B8 a failed batch goes elsewhere whole", (0, 0, 0, 0), (5, 3, 10), (0, 3, 2), well={1: FOR_EVER}),
    Row("B8 in the middle of its commit", (0, 0, 0, 0), (5, 3, 10), (0, 3, 2), breaks={1: "put"}),
    Row("B8 before its receipt", (0, 0, 0, 0), (5, 3, 10), (0, 3, 2), breaks={1: "recorded"}),
    Row("B8 after its receipt", (0, 0, 0, 0), (5, 3, 10), (0, 1, 2), breaks={1: "reported"}),
    Row(
        "B9 the same, when each is written before the next arrives",
        (0, 0, 0, 0),
        (5, 3, 10),
        (0, 2, 3),
        well={1: FOR_EVER},
        is_one_by_one=True,
        silent_homes=(0, 3, 2),  # the third arrives while the second waits for its copy: row B8
    ),
    Row("B10 all that had not begun leaves", (5, 3, 10, 0), (2, 10, 10), (0, 0, 1), well={3: FOR_EVER}),
    Row("B11 when all failed it waits", (0, 0), (1,), (1,), well={0: FOR_EVER, 1: 4.0}, deadline_s=5.0),
    Row("B12 then it is given up", (0, 0), (1,), (None,), well={0: FOR_EVER, 1: FOR_EVER}, deadline_s=5.0),
    Row("B13 what hangs loses the batch", (0, 0), (2,), (1,), hangs={0: FOR_EVER}, deadline_s=10.0),
    Row("B14 nothing lands after the answer", (0,), (2,), (None,), hangs={0: FOR_EVER}, deadline_s=2.0),
    Row("B15 a failure outranks the load", (5, 7), (2, 1), (1, 1), well={0: FOR_EVER}),
    Row("B16 fewer failures are not health", (0, 0), (1, 1), (0, 0), well={0: 2.0, 1: FOR_EVER}),
    Row(
        "B17 after a recovery the load is what is there",
        (40, 10),
        (3, 10),
        (0, 0),
        is_one_by_one=True,
        story=(recovers_empty,),
        silent_homes=(0, 1),  # the probe is silent, and the other volume is well
    ),
    Row("B18 one volume works too", (0,), (3, 3), (0, 0)),
    Row(
        "B20 what stands elsewhere makes no share here", (0, 0), (2, 2), (1, 0), stands={0: 1}, is_named=False
    ),
    Row("what stands in the way sends a batch elsewhere", (0, 0), (2, 2), (1, 0), blocks={0: 0}),
    Row("what stands in the way everywhere does not", (0,), (2,), (0,), blocks={0: 0}),
    Row("B21 what fits nowhere is refused", (0, 0), (11, 10), (None, 1), rooms=(9, 10)),
    Row(
        "B22 who has nothing to do relieves the most loaded",
        (0, 0),
        (3, 3, 3, 3),
        (0, 1, 0, 0),
        mode=FINISH,
        processes=2,
        is_in_turn=True,
        sees=(0,),
        takes_over=True,
        silent_homes=(0, 1, 0, 1),  # it has something to do
    ),
]
WAYS = [REAPED, LOST, SILENT, DRIVER]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_holds_over_tasks_whichever_of_them_dies_at_whichever_word(row):
    """The volumes that the row states; every batch whole on one of them, its files once."""
    whole = play(row, {})
    assert tuple(whole.homes()) == row.homes
    assert bool(whole.failed) == (None in row.homes)
    assert bool(whole.taken_over) == row.takes_over
    for way in WAYS:
        for dies, word in enumerate(whole.words):
            world = play(row, {dies: way})
            where = f"one died {way} at word {dies}, {word!r}: {world.words}"
            homes = tuple(world.homes())
            assert not world.strays or (row.hangs and word in ("hanging", "refused")), where
            is_well = not (row.well or row.breaks or row.hangs)
            assert world.ended_s < SILENT_S or not is_well, where  # a copy was faster
            if way == DRIVER:
                assert [home is None for home in homes] == [home is None for home in row.homes], where
            else:
                assert homes == row.homes or (way == SILENT and homes == row.silent_homes), where


def test_several_deaths_in_one_run_leave_every_batch_whole_on_one_volume():
    """Random rows, words and ways."""
    answering = [row for row in ROWS if not row.hangs]
    for seed in range(100):
        dice = random.Random(seed)
        row = dice.choice(answering)
        deaths = {dice.randrange(40): dice.choice(WAYS) for _ in range(dice.randrange(2, 6))}
        homes = play(row, deaths).homes()
        assert [home is None for home in homes] == [home is None for home in row.homes], (row.name, deaths)
