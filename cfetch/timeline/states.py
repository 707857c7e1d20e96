"""The states of an instant as a table, and their representation in a file's name: pure.

An instant is one file in ``timeline/``, and its name holds all that a decision needs::

    <instant>.download.requested      scheduled; no run has started it
    <instant>.2.download.requested    claimed by epoch 2, which clears up before it works, or has died there
    <instant>.2.download.inflight     epoch 2 is at work, or has died at work
    <instant>.download.completed
    <instant>.rollback.…              the same for rollbacks; their content names the target

Every change of state is one rename of this one file, from a name that holds the old epoch. So if two
processes want to change a state, only one can, whatever locks or clocks say. All other safety depends on it.
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class Action(StrEnum):
    """The kind of work of an instant."""

    DOWNLOAD = "download"
    ROLLBACK = "rollback"


class Kind(StrEnum):
    """What follows when the attempt of a download has died: it is started again, or removed."""

    IMMUTABLE = "immutable"  # it stays until a run completes it, in as many epochs as that takes
    REMOVABLE = "removable"  # it has one attempt; after that, or if no run starts it, it is removed


class State(StrEnum):
    """The state of an instant."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    REMOVED = "removed"  # no file any more


class Transition(StrEnum):
    """The events in the life of an instant."""

    CLAIM = "claim"  # a new owner takes it, in a new epoch
    WORK = "work"  # the owner begins to write files
    COMMIT = "commit"  # the owner has done all of the work
    CONDEMN = "condemn"  # a rollback takes a removable download, in a new epoch, from its holder
    REMOVE = "remove"  # the rollback is over
    ABANDON = "abandon"  # a person says that it is not wanted any more


class InstantFile(NamedTuple):
    """One instant, read from its file's name. ``epoch`` 0: never claimed, or completed."""

    instant: str
    action: Action
    state: State
    epoch: int = 0

    @property
    def name(self) -> str:
        """The file's name in ``timeline/``."""
        epoch = f".{self.epoch}" if self.epoch else ""
        return f"{self.instant}{epoch}.{self.action.value}.{self.state.value}"


_R, _I, _C, _X = State.REQUESTED, State.INFLIGHT, State.COMPLETED, State.REMOVED

_TABLE: dict[tuple[Action, Kind], dict[tuple[State, Transition], State]] = {
    (Action.DOWNLOAD, Kind.IMMUTABLE): {
        (_R, Transition.CLAIM): _R,
        (_R, Transition.WORK): _I,
        (_R, Transition.ABANDON): _X,
        (_I, Transition.CLAIM): _R,
        (_I, Transition.COMMIT): _C,
    },
    (Action.DOWNLOAD, Kind.REMOVABLE): {
        (_R, Transition.CLAIM): _R,
        (_R, Transition.WORK): _I,
        (_R, Transition.CONDEMN): _I,  # no run may start a removable plan in flight
        (_I, Transition.CONDEMN): _I,
        (_I, Transition.COMMIT): _C,
        (_I, Transition.REMOVE): _X,
    },
    (Action.ROLLBACK, Kind.IMMUTABLE): {
        (_R, Transition.CLAIM): _I,
        (_I, Transition.CLAIM): _I,
        (_I, Transition.COMMIT): _C,
        (_R, Transition.REMOVE): _X,  # a rollback that cannot be read: nothing has been done for it yet
    },
}
_NEW_EPOCH = {Transition.CLAIM, Transition.CONDEMN}


def after(entry: InstantFile, event: Transition, kind: Kind = Kind.IMMUTABLE) -> InstantFile:
    """The entry after ``event``. A rollback has no kind of its own: it always has to be finished.

    Raises:
        ValueError: the event is impossible in this state, which is a bug of the caller.
    """
    table = _TABLE[entry.action, kind if entry.action is Action.DOWNLOAD else Kind.IMMUTABLE]
    state = table.get((entry.state, event))
    if state is None:
        raise ValueError(f"{event.value} cannot happen to {entry.name} ({kind.value})")
    epoch = 0 if state is State.COMPLETED else entry.epoch + (event in _NEW_EPOCH)
    return InstantFile(entry.instant, entry.action, state, epoch)


_INSTANT = re.compile(r"[0-9]{8}T[0-9]{9}Z-[0-9a-f]{4,16}")
_EPOCH = re.compile(r"[1-9][0-9]{0,17}")
_ENDS = {
    f"{action.value}.{state.value}": (action, state)
    for action in Action
    for state in State
    if state is not State.REMOVED
}


def is_instant(text: str) -> bool:
    """Whether ``text`` has the form of an instant's id."""
    return _INSTANT.fullmatch(text) is not None


def is_temporary(name: str) -> bool:
    """Whether this is the name under which a file of an instant is written: ``.<instant>.<token>.tmp``."""
    instant = name.removeprefix(".").partition(".")[0]
    return name.startswith(".") and name.endswith(".tmp") and is_instant(instant)


@lru_cache(1 << 16)  # a timeline is listed again and again, and its names stay the same
def parse(name: str) -> InstantFile | None:
    """The entry of a file's name; None for a name that is not one."""
    instant, _, rest = name.partition(".")
    if not is_instant(instant):
        return None
    end = _ENDS.get(rest)
    if end is not None:
        return InstantFile(instant, *end)
    epoch, _, rest = rest.partition(".")
    end = _ENDS.get(rest)
    return InstantFile(instant, *end, int(epoch)) if end is not None and _EPOCH.fullmatch(epoch) else None


def new_instant(wall_s: float, tail: str) -> str:
    """An instant's id: its time in UTC, to sort by, and a random tail of 4 to 16 hex digits."""
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y%m%dT%H%M%S%f")[:-3] + f"Z-{tail}"


def instant_wall_s(instant: str) -> float:
    """When the instant was made: seconds since 1970, by the clock of the machine that made it."""
    return datetime.strptime(instant[:18] + "000+0000", "%Y%m%dT%H%M%S%f%z").timestamp()
