"""The room on a fake disk, stopped and killed everywhere: K1 to K9 hold, and bad designs are caught.

Nodes run on different hosts unless a test says otherwise, so nobody can be proved dead.
A stopped node is *frozen*: its own clocks stand still too, as on a suspended machine, so that nothing but the
fences keeps it from harm when it wakes up. Every node is careless: it never asks whether it was superseded.
"""

import contextlib
import itertools
import random
from typing import Any

import pytest

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.timeline.archive import read_archive
from cfetch.timeline.attempts import Attempts
from cfetch.timeline.states import Kind, State, Transition
from cfetch.timeline.table import Table, find
from cfetch.timeline.tidying import ORPHAN_AGE_S
from tests.timeline.world import DELAY_S, FILES, Violation, World, clean_up, execute, whole

LOCK_OPERATIONS = 40  # K8: under the lock, with few instants on the timeline, whatever their plans hold
GONE_S = 100.0  # more than any heartbeat takes to expire


def completes(world, instant):
    """K2, K5 to K9: whatever has happened, a healthy executor completes it, and clean leaves no debris."""
    world.advance(GONE_S)
    healthy = world.node("healthy", host="another")
    outcome = world.finish(healthy.begin(execute, instant))
    if instant not in world.committed:
        raise Violation(f"K9: {outcome!r}")
    world.check_files()
    is_tidy(world, healthy)


def is_tidy(world, healthy):
    """K6, K7, K8: a clean leaves nothing that nobody owns, and a second one changes nothing."""
    world.finish(healthy.begin(clean_up))
    world.advance(ORPHAN_AGE_S + GONE_S)
    world.finish(healthy.begin(clean_up))
    once = dict(world.disk.bound)
    debris = [
        path for path in once if path.startswith(("attempts/", "heartbeats/", "lock")) or ".tmp" in path
    ]
    if debris:
        raise Violation(f"K6: {debris}")
    world.finish(healthy.begin(clean_up))
    if world.disk.bound != once:
        raise Violation("K7: the second clean changed something")
    if world.longest_lock > LOCK_OPERATIONS:
        raise Violation(f"K8: {world.longest_lock} operations under the lock")


def died_at_work(world, instant):
    """An executor that is killed with one file published and a part of the other."""
    node = world.node("dead", host="gone")
    node.begin(execute, instant)
    while "out/a" not in world.disk.bound or f"attempts/{instant}/1/b" not in world.disk.bound:
        world.run(node, 1)
    world.run(node, 3)
    world.kill(node)
    world.advance(GONE_S)


def stop_and_go(
    first, second, i, j, *, before=None, kind=Kind.IMMUTABLE, table=Table, setup=lambda world: None
):
    """``first`` stops after i operations, ``second`` after j; ``first`` goes on to its end, then ``second``.

    Whether each had ended before it was to stop, and what they came to.
    """
    world = World()
    setup(world)
    try:
        instant = world.schedule(kind)
        if before is not None:
            before(world, instant)
        x = world.node("x", host="x", table=table)
        y = world.node("y", host="y", table=table)
        x.begin(*first(instant))
        x_ended = world.run(x, i)
        x.frozen = True
        world.advance(GONE_S)
        y.begin(*second(instant))
        y_ended = world.run(y, j)
        y.frozen = not y_ended
        world.finish(x)
        world.finish(y)
        if kind is Kind.IMMUTABLE:
            completes(world, instant)
        else:
            world.advance(DELAY_S + GONE_S)
            healthy = world.node("healthy", host="another")
            world.finish(healthy.begin(clean_up))
            if (instant in world.committed) == (instant in world.removed):
                raise Violation("K4, K9: neither executed nor rolled back, or both")
            is_tidy(world, healthy)
    except Violation as violation:
        violation.add_note(f"stops: {i}, {j}; x: {x.outcome!r}, y: {y.outcome!r}")
        raise
    finally:
        world.close()
    return x_ended, y_ended, (x.outcome, y.outcome)


def all_stops(first, second, *, stride, start=0, **how):
    """Every stop of the first, from ``start`` on, each ``stride``-th of the second; how runs ended."""
    outcomes = set()
    runs, i = 0, start
    x_ended = False
    while not x_ended:
        i += 1
        j, y_ended = i % stride, False
        while not y_ended:
            j += stride
            x_ended, y_ended, both = stop_and_go(first, second, i, j, **how)
            outcomes.add(tuple(one if isinstance(one, str) else type(one) for one in both))
            runs += 1
    return outcomes, runs


def executor(instant):
    return execute, instant


def cleaner(instant):
    return (clean_up,)


CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "a new plan": (25, {}),
    "a dead attempt": (61, {"before": died_at_work}),
    "a removable plan": (22, {"kind": Kind.REMOVABLE}),
}
ENDS = {"committed 1", "committed 2", "committed 3", "completed before", Held, LocalFault, UsageError, "done"}


@pytest.mark.parametrize(("stride", "case"), CASES.values(), ids=CASES)
def test_two_executors_stopped_everywhere(stride, case):
    """K1 to K9: refusals and one commit, wherever the first stops, and the second at places that vary."""
    outcomes, runs = all_stops(executor, executor, stride=stride, **case)
    assert runs > 100
    assert {one for both in outcomes for one in both} <= ENDS


def test_nothing_is_published_after_the_commit():
    """K2: not even by an executor that fetches what is in place, as it does where nothing vouches for it."""
    all_stops(executor, executor, stride=15, setup=lambda world: setattr(world, "skips", False))


@pytest.mark.parametrize("order", [(executor, cleaner), (cleaner, executor), (cleaner, cleaner)])
def test_an_executor_and_a_cleaner_stopped_everywhere(order):
    """RD5, K4: an old removable plan is executed or rolled back; there is no third outcome."""
    first, second = order
    outcomes, _ = all_stops(first, second, stride=29, kind=Kind.REMOVABLE, before=grows_old)
    assert {one for both in outcomes for one in both} <= ENDS


def grows_old(world, instant):
    world.advance(DELAY_S + GONE_S)


def test_a_claim_that_is_overtaken_by_a_rollback():
    """K4: three stops. The executor has claimed, and nothing more; the cleaner is stopped in its rollback."""
    for j, k in itertools.product(range(0, 24, 3), range(1, 24, 3)):
        world = World()
        world.skips = False
        try:
            instant = world.schedule(Kind.REMOVABLE)
            grows_old(world, instant)
            x, y = world.node("x", host="x"), world.node("y", host="y")
            x.begin(execute, instant)
            while f"heartbeats/{instant}.json" not in world.disk.bound or "lock" in world.disk.bound:
                world.run(x, 1)
            x.frozen = True
            world.advance(GONE_S)
            y.begin(clean_up)
            while not any(".rollback.inflight" in path for path in world.disk.bound):
                world.run(y, 1)
            world.run(y, j)
            world.run(x, k)
            world.finish(y)
            world.finish(x)
            if (instant in world.committed) == (instant in world.removed):
                raise Violation("K4: neither executed nor rolled back, or both")
        finally:
            world.close()


def read_timeline(table):
    return [(entry, table.store.read_plan(entry)) for entry in table.store.entries()]


def test_an_archive_has_the_whole_record_of_a_plan_that_is_just_completed():
    """Its owner adds to the record after the rename that completes it; the cleaner is stopped everywhere."""
    for i, j, k in itertools.product(range(3), range(0, 20, 2), range(1, 24)):
        world = World()
        try:
            instant = world.schedule()
            x, y = world.node("x", host="x"), world.node("y", host="y")
            x.begin(execute, instant)
            while not all(f"out/{name}" in world.disk.bound for name in FILES):
                world.run(x, 1)
            y.begin(clean_up, -1.0)
            world.run(y, j)
            while not any(path.endswith(".download.completed") for path in world.disk.bound):
                world.run(x, 1)
            world.run(x, i)
            world.run(y, k)
            world.finish(x)
            world.finish(y)
            table = y.make_table()
            y.begin(lambda _, table=table: [*read_archive(table), *read_timeline(table)])
            records = [record for _, record in world.finish(y)]
            if [record.completion is None for record in records] != [False]:
                raise Violation(f"stops: {i}, {j}, {k}: {records}")
        finally:
            world.close()


def test_killed_at_every_operation_twice():
    """K3, K9: the first is killed at each operation, its successor at every eleventh; a third completes."""
    i, ended = 0, False
    while not ended:
        i += 1
        for j in range(i % 11, 100, 11):
            world = World()
            try:
                instant = world.schedule()
                for name, operations in (("x", i), ("y", j)):
                    node = world.node(name, host="one")  # the same machine: the dead are known at once
                    node.begin(execute, instant)
                    died = not world.run(node, operations)
                    world.kill(node)
                    ended = ended or (name == "x" and not died)
                completes(world, instant)
            finally:
                world.close()


def test_a_power_cut_at_every_operation():
    """K2, K3: names and bytes that were not flushed may be lost; what was committed stays."""
    for seed in range(3):
        i, ended = 0, False
        while not ended:
            i += 1
            chance = random.Random(seed * 1000 + i).random
            world = World()
            try:
                instant = world.schedule()
                node = world.node("x", host="one").begin(execute, instant)
                ended = world.run(node, i)
                world.power_cut(chance)
                world.check_files()
                completes(world, instant)
            finally:
                world.close()


class OneDirectory(Attempts):
    """Known bad: what is rolled back is the directory that all epochs share, the data's own."""

    def make(self, instant, epoch):
        """There is none of its own."""

    def exist(self, instant, below):
        return False

    def roll_back(self, instant, below, *, salvage=None, gone_epoch=None, needs_all=True):
        files = self._volumes[0]
        for name in FILES:
            with contextlib.suppress(FileNotFoundError):
                files.unlink(f"out/{name}")


class NoFence(Attempts):
    """Known bad: dead attempts are left as they are."""

    def roll_back(self, instant, below, *, salvage=None, gone_epoch=None, needs_all=True):
        """Later, perhaps."""


class AlwaysMoves(Attempts):
    """Known bad: parts of owners that may live are moved, with files that those may have open."""

    def roll_back(self, instant, below, *, salvage=None, gone_epoch=None, needs_all=True):
        super().roll_back(instant, below, salvage=salvage, gone_epoch=below - 1, needs_all=needs_all)


def with_attempts(kind):
    def table(files, volumes, *rest, **how):
        made = Table(files, volumes, *rest, **how)
        made.attempts = kind(volumes)
        return made

    return table


def into_the_open(node, execution, name):
    """A download of ``OneDirectory``: whole files, by rename, but all epochs in one place."""
    path = f"out/.{execution.epoch}{name}"
    node.files.create(path, whole(name, node.name), flush=True)
    node.files.rename(path, f"out/{name}")


def commits_after_looking(execution, **_):
    """Known bad: looks before the lock whether the plan is its own, commits what it finds under it."""
    execution.check()
    store, table = execution._table.store, execution._table
    entry = find(store.entries(), execution.instant)
    if entry != execution._entry:
        raise Held("checked before the lock")
    with table.lock.hold():
        entry = find(store.entries(), execution.instant)
        if entry is not None and entry.state is State.INFLIGHT:
            with contextlib.suppress(FileNotFoundError):
                store.move(entry, Transition.COMMIT, Kind.IMMUTABLE)


BAD = {
    "one data directory": (
        "K2",
        (into_the_open,),
        {"table": with_attempts(OneDirectory), "before": died_at_work},
    ),
    "check before the lock": ("K1", (None, commits_after_looking), {"start": 40}),
    "no fence": ("K2: epoch 1 published", (), {"table": with_attempts(NoFence), "start": 2}),
    "moves open parts": (
        "K2",
        (),
        {
            "table": with_attempts(AlwaysMoves),
            "start": 2,
            "setup": lambda world: setattr(world, "starts_over", lambda: True),
        },
    ),
}


@pytest.mark.parametrize(("said", "how", "case"), BAD.values(), ids=BAD)
def test_the_simulation_catches_a_bad_design(said, how, case):
    """Each of these loses data, or commits twice, in some schedule, and the oracle says which rule broke."""

    def bad_executor(instant):
        return execute, instant, *how

    with pytest.raises(Violation, match=said):
        all_stops(bad_executor, bad_executor, **{"stride": 1} | case)


def test_the_good_design_withstands_what_the_bad_ones_do_not():
    """With a server that has new versions all the time, and parts that are begun anew in place."""
    all_stops(executor, executor, stride=24, setup=lambda world: setattr(world, "starts_over", lambda: True))


class Chaos:
    """A world in which two to five nodes do what dice say: the seed is the whole story."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.world = World()
        self.world.starts_over = lambda: self.dice.random() < 0.5
        self.world.skips = self.dice.random() < 0.5
        self.instants = []
        self.names = 0

    def node(self):
        self.names += 1
        return self.world.node(
            f"n{self.names}",
            host=self.dice.choice(["one", "two"]),
            offset_s=self.dice.uniform(-600, 600),
            rate=self.dice.uniform(0.999, 1.001),
            careless=self.dice.random() < 0.5,
        )

    def run(self, steps):
        """Then let everybody end, and see whether all comes right."""
        try:
            nodes = [self.node() for _ in range(self.dice.randint(2, 5))]
            for _ in range(steps):
                self.step(nodes)
            for node in nodes:
                if self.dice.random() < 0.5:
                    self.world.kill(node)
            self.world.finish(*nodes)
            self.comes_right()
        finally:
            self.world.close()

    def step(self, nodes):
        what = self.dice.random()
        place = self.dice.randrange(len(nodes))
        node = nodes[place]
        if what < 0.03:
            self.world.kill(node)
            nodes[place] = self.node()
        elif what < 0.035:
            self.world.power_cut(self.dice.random)
            nodes[:] = [self.node() for _ in nodes]
        elif what < 0.10:
            node.frozen = self.dice.random() < 0.5
            self.world.advance(self.dice.choice([1.0, 15.0, GONE_S, DELAY_S]))
        elif what < 0.12:
            node.offset_s = self.dice.uniform(-600, 600)
        elif what < 0.17 and len(self.instants) < 3:
            self.instants.append(self.world.schedule(self.dice.choice(list(Kind)), by=self.node()))
        elif node.program is None:
            program = self.dice.random()
            if self.instants and program < 0.8:
                node.begin(execute, self.dice.choice(self.instants))
            else:
                node.begin(clean_up)
        else:
            self.world.run(node, self.dice.choice([1, 2, 5, 20, 60]))

    def comes_right(self):
        world = self.world
        world.advance(DELAY_S + 1300.0)  # what wall clocks differ, too
        healthy = self.world.node("healthy", host="another")
        world.finish(healthy.begin(clean_up))
        for instant in set(self.instants):
            outcome = world.finish(healthy.begin(execute, instant))
            kind = world.kinds[instant]
            if kind is Kind.IMMUTABLE and instant not in world.committed:
                raise Violation(f"K9: {instant} {outcome!r}")
            if kind is Kind.REMOVABLE and (instant in world.committed) == (instant in world.removed):
                raise Violation(f"K4: {instant} {outcome!r}")
        world.check_files()
        is_tidy(world, healthy)


@pytest.mark.parametrize("seed", range(20))
def test_chaos(seed):
    """K1 to K9 for two to five nodes with wrong clocks, kills, stops and power cuts."""
    Chaos(seed).run(200)
