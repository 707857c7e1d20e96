"""Who brings a unit of work, and how it comes to be committed once: a state table. Pure.

A *unit* is what one task gets and gives back as a whole: a batch, or lone entries that are dealt out
together (each of them is a batch of one, and is committed by itself). ``step(unit, event)`` gives the unit's
next state and what its keeper has to do. Time comes in the events; a lease is over when its time is over, and
nobody has to say so. ``docs/protocol.md`` tells the whole protocol::

    state       claimed                       renewed    committed   failed, or fenced
    open        held: grant                   end it     -           -
    held        a live lease: nothing         longer     committed   held by the others, or open,
                else a copy on its volume,                           or failed if that is final
                or fence it
    committed   -                             end it     -           -
    failed      -                             end it     -           -

A lease is for one volume, and it is the right to commit there: two holders of a unit on one volume put the
same files under the same names. So a unit goes to another volume only when none of its holders can commit any
more, because each has let go, or was fenced. Fencing closes a task's directory of parts, without which the
kernel refuses its renames, and only then looks whether the unit's record stands.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

MOST_HOLDERS = 2  # of a unit: a third copy would help only if two tasks stood still


class Phase(Enum):
    """The state of a unit."""

    OPEN = "open"
    HELD = "held"
    COMMITTED = "committed"
    FAILED = "failed"


class LeaseHolder(NamedTuple):
    """A task that has the unit, and the end of its lease."""

    task: int
    until_s: float


class Unit(NamedTuple):
    """``volume``: where its holders commit it."""

    phase: Phase = Phase.OPEN
    holders: tuple[LeaseHolder, ...] = ()
    volume: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done about it."""
        return self.phase in (Phase.COMMITTED, Phase.FAILED)

    def has(self, task: int) -> bool:
        """Whether the task is one of its holders."""
        return any(holder.task == task for holder in self.holders)

    def is_free(self, now_s: float) -> bool:
        """Whether no lease is live."""
        return not self.is_over and all(holder.until_s <= now_s for holder in self.holders)


class Claimed(NamedTuple):
    """A task asks for the unit, to commit it on ``volume``."""

    task: int
    volume: int
    now_s: float
    until_s: float


class Renewed(NamedTuple):
    """A task is alive."""

    task: int
    until_s: float


class Committed(NamedTuple):
    """The task has put the unit's files and record in place."""

    task: int


class Failed(NamedTuple):
    """The task has let go of the unit; ``is_final``: no other task could bring it either."""

    task: int
    is_final: bool = False


class Fenced(NamedTuple):
    """The task can commit nothing any more: it is dead, or its directory is closed.

    ``stands``: the unit's record was there when one looked after that.
    """

    task: int
    stands: bool = False


class Grant(NamedTuple):
    """Give the task its lease; ``is_copy``: another task has the unit too."""

    task: int
    is_copy: bool = False


class Fence(NamedTuple):
    """Close the task's directory, look whether the unit's record stands, and report both as ``Fenced``."""

    task: int


class LetGo(NamedTuple):
    """Tell the task that the unit is no longer its own: it lets go of it."""

    task: int


class Settle(NamedTuple):
    """The unit is over: count it, once."""

    is_committed: bool


Event = Claimed | Renewed | Committed | Failed | Fenced
Action = Grant | Fence | LetGo | Settle
Step = tuple[Unit, tuple[Action, ...]]


def step(unit: Unit, event: Event) -> Step:
    """Take one step. What the table does not name changes nothing; a claim without a grant is refused."""
    take = TABLE.get((unit.phase, type(event)))
    return (unit, ()) if take is None else take(unit, event)


def restore(*, stands: bool) -> Unit:
    """The state of a unit for a new driver, who has fenced all tasks of the former one before it looked.

    ``stands``: the unit's record.
    """
    return Unit(Phase.COMMITTED if stands else Phase.OPEN)


def _grant(unit: Unit, event: Claimed) -> Step:
    holder = LeaseHolder(event.task, event.until_s)
    held = unit._replace(phase=Phase.HELD, holders=(*unit.holders, holder), volume=event.volume)
    return held, (Grant(event.task, is_copy=bool(unit.holders)),)


def _claim_held(unit: Unit, event: Claimed) -> Step:
    if unit.has(event.task) or not unit.is_free(event.now_s):
        return unit, ()
    if event.volume == unit.volume and len(unit.holders) < MOST_HOLDERS:
        return _grant(unit, event)
    return unit, tuple(Fence(holder.task) for holder in unit.holders)


def _renew(unit: Unit, event: Renewed) -> Step:
    if not unit.has(event.task):
        return _end(unit, event)
    renewed = LeaseHolder(event.task, event.until_s)
    holders = tuple(renewed if holder.task == event.task else holder for holder in unit.holders)
    return unit._replace(holders=holders), ()


def _end(unit: Unit, event: Renewed) -> Step:
    return unit, (LetGo(event.task),)


def _commit(unit: Unit, event: Committed) -> Step:
    """A late word counts: who is still a holder was not fenced, so its files stand on the unit's volume."""
    return _settle(unit, event.task) if unit.has(event.task) else (unit, ())


def _let_go(unit: Unit, event: Failed | Fenced) -> Step:
    if not unit.has(event.task):
        return unit, ()
    if isinstance(event, Fenced) and event.stands:
        return _settle(unit, event.task)
    others = tuple(holder for holder in unit.holders if holder.task != event.task)
    if others:
        return unit._replace(holders=others), ()
    if isinstance(event, Failed) and event.is_final:
        return unit._replace(phase=Phase.FAILED, holders=()), (Settle(is_committed=False),)
    return unit._replace(phase=Phase.OPEN, holders=()), ()


def _settle(unit: Unit, task: int) -> Step:
    others = tuple(LetGo(holder.task) for holder in unit.holders if holder.task != task)
    over = unit._replace(phase=Phase.COMMITTED, holders=())
    return over, (Settle(is_committed=True), *others)


TABLE: Mapping[tuple[Phase, type], Callable[..., Step]] = {
    (Phase.OPEN, Claimed): _grant,
    (Phase.OPEN, Renewed): _end,
    (Phase.HELD, Claimed): _claim_held,
    (Phase.HELD, Renewed): _renew,
    (Phase.HELD, Committed): _commit,
    (Phase.HELD, Failed): _let_go,
    (Phase.HELD, Fenced): _let_go,
    (Phase.COMMITTED, Renewed): _end,
    (Phase.FAILED, Renewed): _end,
}
