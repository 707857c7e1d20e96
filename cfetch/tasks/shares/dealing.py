"""Deals the units of a plan out to tasks, by the state table of ``protocol.py``.

``OwnShares`` is for a driver whose tasks are its own children: it learns of their deaths for certain, and
their signs of life renew their leases. A child that stands still keeps its share from nobody: once everything
else has been dealt out, an idle child brings a copy of what it has not reported.
"""

import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import NamedTuple, Protocol

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.events import Event, VolumeView
from cfetch.tasks.shares.protocol import (
    MOST_HOLDERS,
    Action,
    Claimed,
    Committed,
    Fenced,
    Grant,
    Renewed,
    Settle,
    Unit,
    step,
)
from cfetch.tasks.shares.protocol import Event as UnitEvent

LEASE_S = 10.0  # ten signs of life; a child that is only slow does no harm to its copy


class Turn(NamedTuple):
    """A share to bring now, as ``task``, a number that no other task of the run has.

    ``is_copy``: another task may be bringing it too.
    """

    share: int
    task: int
    is_copy: bool = False


class ShareSource(Protocol):
    """Says which share comes next. Thread-safe. Its methods raise LocalFault."""

    @property
    def fault(self) -> LocalFault | None:
        """The fault with which the run ends when all shares are over."""

    def take(self) -> Turn | None:
        """Take the next share; None: there is none now."""

    def take_again(self, turn: Turn) -> Turn | None:
        """Take the same share anew, as the task has died; None: another task brings it, or has brought it."""

    def renew(self, turn: Turn) -> None:
        """Note that the task is alive."""

    def end(self, turn: Turn) -> None:
        """Note that the task has brought its share to its end."""

    def move(self, turn: Turn, fault: VolumeFault) -> bool:
        """Give up the share, as its volume refuses it: others may take it. False: there are none."""

    def is_mine(self, turn: Turn) -> bool:
        """Whether the share is still this machine's to bring."""

    def is_over(self) -> bool:
        """Whether ``take`` will never have one again."""

    def take_events(self) -> list[Event]:
        """What the source has to say about batches and volumes since the last call."""

    def views(self) -> list[VolumeView]:
        """The volumes at this moment, if there are several."""


class OneVolume:
    """What a source of shares has to say of volumes if there is one."""

    fault: LocalFault | None = None

    def move(self, turn: Turn, fault: VolumeFault) -> bool:  # noqa: ARG002 - the port's
        """Never: there is no other volume."""
        return False

    def take_events(self) -> list[Event]:
        """Nothing: nothing is placed."""
        return []

    def views(self) -> list[VolumeView]:
        """No views: the figures of the run are those of the volume."""
        return []


class OwnShares(OneVolume):
    """Implements ``ShareSource`` for a run that has all shares of its plan for itself.

    ``stands``: whether a share has its receipt. ``now_s``: a monotonic clock.
    """

    def __init__(self, shares: int, stands: Callable[[int], bool], now_s: Callable[[], float]) -> None:
        self._units = [Unit() for _ in range(shares)]
        self._open = deque(range(shares))
        self._held: set[int] = set()
        self._was_free: set[int] = set()  # at the last look: one look may come after this process stood still
        self._left = shares
        self._stands = stands
        self._now_s = now_s
        self._tasks = count(1)
        self._lock = threading.Lock()

    def take(self) -> Turn | None:
        """Take the shares in their order; when all are taken, one whose tasks stand still."""
        with self._lock:
            if self._open:
                return self._claim(self._open.popleft())
            now_s = self._now_s()
            free = {
                share
                for share in self._held
                if self._units[share].is_free(now_s) and len(self._units[share].holders) < MOST_HOLDERS
            }
            self._was_free, again = free, free & self._was_free
            return self._claim(min(again)) if again else None

    def take_again(self, turn: Turn) -> Turn | None:
        """Take the same share as another task: this one has been reaped, so it is past the fence."""
        with self._lock:
            self._step(turn.share, Fenced(turn.task, stands=self._stands(turn.share)))
            return self._claim(turn.share)

    def renew(self, turn: Turn) -> None:
        """Lengthen the task's lease."""
        with self._lock:
            self._step(turn.share, Renewed(turn.task, self._now_s() + LEASE_S))

    def end(self, turn: Turn) -> None:
        """Count the share, unless a copy of the task was faster."""
        with self._lock:
            self._step(turn.share, Committed(turn.task))

    def is_mine(self, turn: Turn) -> bool:
        """Whether no copy of the task has brought the share."""
        with self._lock:
            return not self._units[turn.share].is_over

    def is_over(self) -> bool:
        """Whether all shares have been brought."""
        return not self._left

    def _claim(self, share: int) -> Turn | None:
        now_s, task = self._now_s(), next(self._tasks)
        for action in self._step(share, Claimed(task, 0, now_s, now_s + LEASE_S)):
            if isinstance(action, Grant):
                self._held.add(share)
                return Turn(share, task, action.is_copy)
        return None

    def _step(self, share: int, event: UnitEvent) -> tuple[Action, ...]:
        self._units[share], actions = step(self._units[share], event)
        if any(isinstance(action, Settle) for action in actions):
            self._left -= 1
            self._held.discard(share)
        return actions
