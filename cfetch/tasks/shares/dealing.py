"""Deals the units of a plan out to tasks, by the state table of ``protocol.py``.

``Units`` are the states of all shares, for every source of shares, and ``ShareGiver`` is what all have in
common who give shares out: to processes, or to tasks of Spark. ``OwnShares`` is for a driver whose tasks
are its own children: it learns of their deaths for certain, and their signs of life renew their leases. A
child that stands still keeps its share from nobody: once everything else has been dealt out, an idle child
brings a copy of what it has not reported.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import NamedTuple, Protocol

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.events import Event, VolumeView
from cfetch.manifest.plan import Plan
from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares.protocol import (
    MOST_HOLDERS,
    Action,
    Claimed,
    Committed,
    Fenced,
    Grant,
    Phase,
    Renewed,
    Settle,
    Unit,
    restore,
    step,
)
from cfetch.tasks.shares.protocol import Event as UnitEvent
from cfetch.tasks.shares.work import Share, Turn

MOST_DEATHS = 4  # over one share without progress: then the share itself seems to kill its tasks
TURNS = 2  # of the driver, after which it has read all receipts that were there before
LEASE_S = 10.0  # ten signs of life; a task that is only slow does no harm to its copy
TICK_S = 2.0  # of the clock of leases: if this process itself stood still, tasks are blamed for one tick only


class ShareSource(Protocol):
    """Says which share comes next. Thread-safe. Its methods raise LocalFault.

    What it says of volumes and batches by itself is right where there is one volume.
    """

    @property
    def fault(self) -> LocalFault | None:
        """The fault with which the run ends when all shares are over."""
        return None

    def fill(self, turn: Turn) -> Share:
        """The content of a share that was just taken: what is left of it."""

    def take(self) -> Turn | None:
        """Take the next share; None: there is none now."""

    def take_again(self, turn: Turn) -> Turn | None:
        """Take the same share anew, as the task has died; None: another task brings it, or has brought it."""

    def renew(self, turn: Turn) -> None:
        """Note that the task is alive."""

    def end(self, turn: Turn) -> None:
        """Note that the task has brought its share to its end."""

    def move(self, turn: Turn, fault: VolumeFault) -> bool:  # noqa: ARG002 - no other volume takes it
        """Give up the share, as its volume refuses it: others may take it. False: there are none."""
        return False

    def is_mine(self, turn: Turn) -> bool:
        """Whether the share is still this machine's to bring."""

    def is_over(self) -> bool:
        """Whether ``take`` will never have one again."""

    def take_events(self) -> list[Event]:
        """What the source has to say about batches and volumes since the last call."""
        return []

    def views(self) -> list[VolumeView]:
        """The volumes at this moment, if there are several: the run's own figures are those of a lone one."""
        return []

    def find_volume(self, task: int) -> int | None:  # noqa: ARG002 - a lone one has no number
        """The volume of a task's share, if there are several."""
        return None

    @property
    def is_whole(self) -> bool:
        """Whether all shares have come to their end, and not only the part of this machine."""
        return self.is_over()

    def close(self) -> None:
        """Let go of what it uses: the run is over."""


class BuryTask(Protocol):
    """Keeps the parts of a dead task for the next one."""

    def __call__(self, task: int, *, moves: bool = True) -> None:
        """``moves``: nothing of the task can write any more; otherwise its parts are copied."""


class ShareGiver:
    """Gives the shares of a source to tasks, until the run stops. Thread-safe.

    ``failure``: with what the run ends early.
    """

    def __init__(self, source: ShareSource) -> None:
        self._source = source
        self._changed = threading.Condition()
        self._driver_turns = 0
        self._is_stopping = False
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """Give no further share."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """End the run early with this error, unless another one has ended it."""
        with self._changed:
            self.failure = self.failure or error
            self.stop()

    def note_driver_turn(self) -> None:
        """Note that the driver has read the receipts that were there, and does so again."""
        with self._changed:
            self._driver_turns += 1
            self._changed.notify_all()

    def wait_for_receipts(self) -> None:
        """Wait until the driver has read what a task has left."""
        with self._changed:
            end = self._driver_turns + TURNS
            self._changed.wait_for(lambda: self._driver_turns >= end or self._is_stopping)


class Units:
    """The states of all shares of a run. Its keeper lets one thread at a time use it.

    Leases are measured in seconds in which this process was at work: ``now_s``, a monotonic clock, counts for
    at most ``TICK_S`` between two readings.
    """

    def __init__(self, now_s: Callable[[], float], units: int = 0) -> None:
        self._units = [Unit() for _ in range(units)]
        self._held: set[int] = set()
        self._now_s = now_s
        self._read_s = now_s()
        self._passed_s = 0.0
        self.left = units

    def __getitem__(self, share: int) -> Unit:
        return self._units[share]

    def add(self, volume: int) -> int:
        """Add the unit of a new share, for one volume. Returns the share's number."""
        self._units.append(Unit(volume=volume))
        self.left += 1
        return len(self._units) - 1

    def step(self, share: int, event: UnitEvent) -> tuple[Action, ...]:
        """Take a step of one unit. Returns what its keeper has to do."""
        self._units[share], actions = step(self._units[share], event)
        self.left -= any(isinstance(action, Settle) for action in actions)
        (self._held.add if self._units[share].phase is Phase.HELD else self._held.discard)(share)
        return actions

    def settle(self, share: int) -> None:
        """Note that the unit's record stands, whichever task has put it there."""
        self.left -= not self._units[share].is_over
        self._units[share] = restore(stands=True)
        self._held.discard(share)

    def claim(self, share: int, task: int) -> Turn | None:
        """Let the task have the share, perhaps as a copy; None: it may not."""
        for action in self.step(share, self.make_claim(share, task)):
            if isinstance(action, Grant):
                return Turn(share, task, int(action.is_copy))
        return None

    def make_claim(self, share: int, task: int) -> Claimed:
        """The wish of a task to have the share now."""
        now_s = self._advance_clock()
        return Claimed(task, self._units[share].volume, now_s, now_s + LEASE_S)

    def renew(self, share: int, task: int) -> None:
        """Lengthen the task's lease, as it has been heard."""
        self.step(share, Renewed(task, self._advance_clock() + LEASE_S))

    def find_silent(self, volumes: Collection[int] | None = None) -> int | None:
        """Find a share whose task has not been heard, and which has no copy yet; ``volumes``: for these."""
        now_s = self._advance_clock()
        silent = (
            share
            for share in self._held
            for unit in (self._units[share],)
            if unit.is_free(now_s) and len(unit.holders) < MOST_HOLDERS
            if volumes is None or unit.volume in volumes
        )
        return min(silent, default=None)

    def list_held(self) -> list[int]:
        """The shares that tasks have."""
        return sorted(self._held)

    def _advance_clock(self) -> float:
        """Let pass what has passed, but no more than ``TICK_S`` at once. Returns this clock, in seconds."""
        now_s = self._now_s()
        self._passed_s += min(now_s - self._read_s, TICK_S)
        self._read_s = now_s
        return self._passed_s


class CutShares(NamedTuple):
    """The shares into which a plan was cut: its entries by share. ``sharers`` as in ``Share``."""

    plan: Plan
    members: Sequence[Sequence[int]]
    sharers: Sequence[int]

    def fill(self, share: int, account: Account) -> Share:
        """A share's entries that have not ended, and all entries of a named batch that is not over."""
        entries = list(map(self.plan.entry, self.members[share]))
        left = {entry.id for entry in entries if entry.id not in account}
        batches = {entry.batch for entry in entries if entry.id in left and entry.batch is not None}
        entries = [entry for entry in entries if entry.id in left or entry.batch in batches]
        return Share(entries, self.sharers[share])


class OwnShares(ShareSource):
    """Implements ``ShareSource`` for a run that has all shares of its plan for itself.

    ``stands``: whether a share has its receipt. ``now_s``: a monotonic clock.
    """

    def __init__(
        self, cut: CutShares, account: Account, stands: Callable[[int], bool], now_s: Callable[[], float]
    ) -> None:
        self._cut = cut
        self._account = account
        self._units = Units(now_s, len(cut.members))
        self._open = deque(range(len(cut.members)))
        self._stands = stands
        self._tasks = count(1)
        self._lock = threading.Lock()

    def take(self) -> Turn | None:
        """Take the shares in their order; when all are taken, one whose task stands still."""
        with self._lock:
            share = self._open.popleft() if self._open else self._units.find_silent()
            return None if share is None else self._units.claim(share, next(self._tasks))

    def fill(self, turn: Turn) -> Share:
        """The entries that have not ended."""
        return self._cut.fill(turn.share, self._account)

    def take_again(self, turn: Turn) -> Turn | None:
        """Take the same share as another task: this one has been reaped, so it is past the fence."""
        with self._lock:
            self._units.step(turn.share, Fenced(turn.task, stands=self._stands(turn.share)))
            return self._units.claim(turn.share, next(self._tasks))

    def renew(self, turn: Turn) -> None:
        """Lengthen the task's lease."""
        with self._lock:
            self._units.renew(turn.share, turn.task)

    def end(self, turn: Turn) -> None:
        """Count the share, unless a copy of the task was faster."""
        with self._lock:
            self._units.step(turn.share, Committed(turn.task))

    def is_mine(self, turn: Turn) -> bool:
        """Whether no copy of the task has brought the share."""
        with self._lock:
            return not self._units[turn.share].is_over

    def is_over(self) -> bool:
        """Whether all shares have been brought."""
        return not self._units.left

    def close(self) -> None:
        """Nothing: it uses nothing."""
