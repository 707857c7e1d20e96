"""The state table of a unit, in a world where anything may stand still or die between any two steps."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from cfetch.tasks.shares.protocol import (
    Claimed,
    Committed,
    Failed,
    Fence,
    Fenced,
    Grant,
    LetGo,
    Phase,
    Renewed,
    Settle,
    Unit,
    restore,
    step,
)

LEASE_S = 1.0
LIVE_S, LAPSED_S = 0.0, 2.0  # when a claim may come: who stands still has not renewed its lease
FILES = ("a", "b")
PUT = {"staged": "a", "a": "b", "b": "record"}
NEXT = {"parts": "staged", "staged": "a", "a": "b", "b": "tidy"}


class Task(NamedTuple):
    """What it does next, in its turn ``number``, which no other turn has.

    ``closed``: the directory of its parts is gone; ``is_old``: its driver is dead.
    """

    doing: str = "idle"
    number: int = 0
    volume: int = 0
    closed: bool = False
    frozen: bool = False
    ended: bool = False
    is_old: bool = False


class World(NamedTuple):
    """``fencing``: turns to close and look after; ``words``: on their way to the driver.

    ``turns``: how many have begun, of ``most_turns``. ``kept``: volumes that have all parts of a dead task.
    ``cut``: somebody died before it had tidied up.
    """

    unit: Unit
    tasks: tuple[Task, ...]
    driver: str = "up"
    disk: frozenset[tuple[int, str]] = frozenset()
    kept: frozenset[int] = frozenset()
    fencing: tuple[tuple[int, bool], ...] = ()
    words: tuple[Any, ...] = ()
    turns: int = 0
    most_turns: int = 0
    settled: int = 0
    faults: int = 0
    cut: bool = False

    def with_task(self, place: int, **changes: Any) -> "World":
        """The same with another state of one task."""
        task = self.tasks[place]._replace(**changes)
        return self._replace(tasks=(*self.tasks[:place], task, *self.tasks[place + 1 :]))

    def with_turn(self, number: int, **changes: Any) -> "World":
        """The same with another state of the task that has this turn, if it has it still."""
        places = [place for place, task in enumerate(self.tasks) if task.number == number]
        return self.with_task(places[0], **changes) if places else self

    def stands(self) -> bool:
        """Whether the record is there."""
        return any(piece == "record" for _, piece in self.disk)


def tell(world: World, event: Any, place: int = 0) -> World:
    """Let the driver take an event in, and carry its actions out; ``place``: of a task that claims."""
    unit, actions = step(world.unit, event)
    world = world._replace(unit=unit)
    for action in actions:
        match action:
            case Grant(number):
                begins = "staged" if event.volume in world.kept else "parts"
                task = Task(begins, number, event.volume)
                world = world.with_task(place, **task._asdict())._replace(turns=number)
            case Fence(number) if number not in [each for each, _ in world.fencing]:
                world = world._replace(fencing=(*world.fencing, (number, False)))
            case LetGo(number):
                world = world.with_turn(number, ended=True)
            case Settle():
                world = world._replace(settled=world.settled + 1)
    return world


def say(world: World, task: Task, word: Any) -> World:
    """Let a task say something to its driver."""
    return world if task.is_old else world._replace(words=(*world.words, word))


def claim(world: World, place: int, volume: int, now_s: float) -> World:
    """Let an idle task ask for the unit."""
    return tell(world, Claimed(world.turns + 1, volume, now_s, LEASE_S), place)


def work(world: World, place: int) -> Iterator[World]:
    """What a task may do next."""
    task = world.tasks[place]
    if task.doing == "dead" or task.frozen:
        return
    idle = world.with_task(place, **Task()._asdict())
    if task.doing == "idle":
        if world.driver == "up":
            for volume in (0, 1):
                for now_s in (LIVE_S, LAPSED_S):
                    yield claim(world, place, volume, now_s)
        return
    if task.ended and task.doing != "tidy":  # it hears of it now, or later
        yield idle
    if task.closed and task.doing != "tidy":  # the kernel refuses it
        yield say(idle, task, Failed(task.number))
        return
    if task.doing == "tidy":
        mine = frozenset(piece for piece in world.disk if piece[0] == task.volume)
        yield say(idle._replace(disk=mine), task, Committed(task.number))
        return
    later = world.with_task(place, doing=NEXT[task.doing])
    if task.doing == "parts":
        yield later
        if world.faults:  # the volume refuses the batch
            yield say(idle._replace(faults=world.faults - 1), task, Failed(task.number))
    else:
        yield later._replace(disk=world.disk | {(task.volume, PUT[task.doing])})


def bury(world: World, place: int) -> World:
    """Let a task die; its parent, if there is one, knows for certain."""
    task = world.tasks[place]
    world = world._replace(cut=world.cut or task.doing == "tidy", faults=world.faults - 1)
    if task.doing == "staged" and not task.closed:
        world = world._replace(kept=world.kept | {task.volume})
    if world.driver == "up" and not task.is_old and task.number not in [each for each, _ in world.fencing]:
        world = world._replace(fencing=(*world.fencing, (task.number, False)))
    return world.with_task(place, **Task("dead", task.number, is_old=task.is_old)._asdict())


def serve(world: World) -> Iterator[World]:
    """What the driver may do next."""
    if world.driver == "down":
        fenced = tuple(
            task._replace(closed=True, is_old=True) if task.number else task for task in world.tasks
        )
        yield world._replace(tasks=fenced, driver="has fenced")
        return
    if world.driver == "has fenced":
        unit = restore(stands=world.stands())
        yield world._replace(unit=unit, driver="up", settled=int(world.stands()))
        return
    for index, (number, is_closed) in enumerate(world.fencing):
        others = world.fencing[:index] + world.fencing[index + 1 :]
        if not is_closed:
            closed = world.with_turn(number, closed=True)
            yield closed._replace(fencing=(*others, (number, True)))
        else:
            yield tell(world._replace(fencing=others), Fenced(number, stands=world.stands()))
    heard = set()
    for index, word in enumerate(world.words):
        if word.task not in heard:  # the words of a task keep their order
            heard.add(word.task)
            yield tell(world._replace(words=world.words[:index] + world.words[index + 1 :]), word)


def follow(world: World) -> Iterator[World]:
    """All worlds that may come next."""
    yield from serve(world)
    for place, task in enumerate(world.tasks):
        if task.doing == "dead":
            yield world.with_task(place, **Task()._asdict())  # another process in its place
            continue
        if task.doing != "idle" or world.turns < world.most_turns:
            yield from work(world, place)
        if task.frozen:
            yield world.with_task(place, frozen=False)
        if world.faults and task.doing != "idle":
            yield bury(world, place)
            if not task.frozen:
                yield world.with_task(place, frozen=True)._replace(faults=world.faults - 1)
    if world.faults and world.driver == "up":
        yield world._replace(driver="down", words=(), fencing=(), faults=world.faults - 1)


def check(world: World) -> None:
    """What holds at every moment."""
    records = [volume for volume, piece in world.disk if piece == "record"]
    assert len(records) <= 1, world
    assert world.settled <= 1
    assert all((volume, name) in world.disk for volume in records for name in FILES)
    if world.driver == "up":
        if world.unit.phase is Phase.COMMITTED:
            assert records
        for task in world.tasks:
            can_commit = task.doing in ("parts", "staged", "a", "b") and not task.closed
            if can_commit and not task.ended and not world.unit.is_over:
                assert world.unit.has(task.number)
                assert task.volume == world.unit.volume


def finish(world: World) -> World:
    """What becomes of it if nothing fails from now on, and who stands still never moves again."""
    world = world._replace(faults=0)
    for _ in range(60):
        moves = list(serve(world))
        if not moves:
            tasks = enumerate(world.tasks)
            able = [place for place, task in tasks if not (task.frozen or task.doing == "dead")]
            if not able:
                world = world._replace(tasks=(*world.tasks, Task()))
                continue
            busy = [place for place in able if world.tasks[place].doing != "idle"]
            if not busy and world.unit.is_over:
                return world
            moves = list(work(world, busy[0] if busy else able[0]))[-1:]
        if not moves:
            return world
        world = moves[0]
        check(world)
    return world


def begin(tasks: int, *, faults: int, turns: int) -> World:
    """A unit that nobody has."""
    return World(Unit(), (Task(),) * tasks, faults=faults, most_turns=turns)


def sort(world: World) -> World:
    """The same world, in the one order of its tasks that counts."""
    return world._replace(tasks=tuple(sorted(world.tasks)))


def judge(world: World) -> None:
    """Every way goes on to one commit, and leaves the files once unless somebody died before it tidied up."""
    done = finish(world)
    assert done.unit.phase is Phase.COMMITTED, world
    assert done.stands(), world
    is_untidy = done.cut or any(task.doing == "tidy" for task in done.tasks)
    assert is_untidy or len({volume for volume, _ in done.disk}) == 1, world


@pytest.mark.parametrize(("tasks", "faults", "turns"), [(1, 1, 2), (2, 0, 2)])
def test_a_unit_is_committed_once_whatever_comes_between_any_two_steps(tasks, faults, turns):
    """All interleavings of claims, leases that end, words that come late, deaths, and a driver's restart."""
    first = begin(tasks, faults=faults, turns=turns)
    seen, left = {first}, [first]
    while left:
        here = left.pop()
        check(here)
        judge(here)
        new = {sort(there) for there in follow(here)} - seen
        seen |= new
        left += new
    assert any(world.unit.phase is Phase.COMMITTED for world in seen)


def test_many_tasks_and_faults_do_not_change_that():
    """Random walks through worlds that are too many to be visited."""
    for seed in range(120):
        dice = random.Random(seed)
        world = begin(3, faults=dice.randrange(6), turns=9)
        for _ in range(dice.randrange(80)):
            ways = list(follow(world))
            if not ways:
                break
            world = dice.choice(ways)
            check(world)
        judge(world)


def test_a_lease_is_renewed_copied_on_its_volume_and_lost_when_the_unit_is_over():
    """A final failure counts only when no other task has the unit."""
    unit, _ = step(Unit(), Claimed(1, 0, 0.0, 1.0))
    unit, _ = step(unit, Renewed(1, 5.0))
    assert step(unit, Claimed(2, 0, 4.0, 9.0)) == (unit, ())
    assert step(unit, Renewed(7, 9.0)) == (unit, (LetGo(7),))
    copied, granted = step(unit, Claimed(2, 0, 6.0, 9.0))
    assert granted == (Grant(2, is_copy=True),)
    assert step(unit, Claimed(2, 1, 6.0, 9.0)) == (unit, (Fence(1),))
    left, nothing = step(copied, Failed(1, is_final=True))
    assert (left.phase, nothing) == (Phase.HELD, ())
    assert step(left, Failed(2, is_final=True))[1] == (Settle(is_committed=False),)
    over, actions = step(copied, Committed(2))
    assert (over.phase, actions) == (Phase.COMMITTED, (Settle(is_committed=True), LetGo(1)))
    assert step(over, Committed(1)) == step(over, Claimed(3, 0, 9.0, 10.0)) == (over, ())
    assert step(over, Renewed(1, 9.0)) == (over, (LetGo(1),))
