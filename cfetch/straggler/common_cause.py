"""Decides whether slow attempts are stragglers, or all attempts are slow for one reason.

A connection is to blame only if other attempts at the same host are fast at the same time. Two kinds of
witness show this: attempts under way that run at their normal pace, and files that began after this attempt
became slow and have ended normally. If the others are slow too, an attempt is compared with them, not with
the past.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from cfetch.base.backoff import double

LATELY_S = 1.0  # the short window: an attempt that is slow over it was slow for most of that time
LEAST_CROWD = 4  # attempts show the speed of the network; the median of three depends on one attempt
NORMAL = 2 / 3  # of the usual pace makes a witness: one divided by the default multiplier of 1.5
CLEAR = 3  # witnesses for each suspect: only a quarter of the attempts is slow, so the network is not slow
A_QUARTER = 1 / 4  # of the attempts at the normal pace: a slow network would slow all of them
CRAWLS = 1 / 4  # an attempt whose excuse is at most this is far slower than the usual spread explains
TRY_S = 6.0  # three times HOLD_S: if all stay slow, only a fresh attempt can show why
MOST_TRY_S = 60.0  # between two trials, while none has helped
HOLD_S = 2.0  # twice the short window: by then a change of the network shows in all attempts


class Suspect(NamedTuple):
    """An attempt that is far too slow since ``since_s`` or earlier; a check first saw that at ``seen_s``.

    ``excuse``: the attempt is excused while the network has at most this share of its usual pace.
    ``confirm_s``: seconds for which it must stay too slow before it is cancelled. ``is_free``: its
    cancellation is allowed and loses no byte. ``may_wait``: it delays nothing if it is cancelled later.
    """

    key: int
    excuse: float
    since_s: float
    seen_s: float
    confirm_s: float
    is_free: bool = True
    crawls: bool = False
    may_wait: bool = False


class Crowd(NamedTuple):
    """The attempts of one host. ``paces``: each attempt's, over several windows; 1 is normal.

    ``began_s``: the start of each file that has recently ended normally.
    """

    paces: Sequence[Sequence[float]]
    began_s: Sequence[float]

    def network(self, others: int) -> float:
        """The share of its usual pace that the network has now, at most 1; ``others`` files ended normally.

        It is the median over the attempts, as up to half of them may be stragglers. The slowest window
        counts: a change shows first in the shortest window, and an attempt that began after the change must
        not be measured by the time before it.
        """
        count = len(self.paces)
        if count < LEAST_CROWD or others >= count:
            return 1.0
        middle = (count + others) // 2
        paces: list[float] = [sorted(window)[middle] for window in zip(*self.paces, strict=True)]
        return min(1.0, *paces)

    def witnesses(self, pace: float) -> int:
        """The number of attempts under way that run well over every window."""
        return sum(min(windows) >= NORMAL * pace for windows in self.paces)


class Ruling(NamedTuple):
    """The verdict on one host's suspects.

    ``guilty``: keys of the attempts to cancel now. ``test``: the key of an attempt that may be cancelled as a
    test, as its guilt is in doubt. ``excused``: the number of suspects that are not cancelled, as the network
    may be slow. ``probe``: an excused attempt that may be tried if there is none to test.
    """

    guilty: list[int]
    test: int | None
    excused: int
    probe: int | None = None


class Trials:
    """Spaces the trials: the next one comes after some time, or once the last one, ``key``, runs well."""

    def __init__(self) -> None:
        self.key: int | None = None
        self._tested_s = -math.inf
        self._did_well = False
        self._probe_s = TRY_S
        self._most_s = MOST_TRY_S

    def choose(self, ruling: Ruling, now_s: float, runs_well: bool) -> list[int]:
        """The key to try now, if any; ``runs_well``: whether the attempt after the last trial runs well.

        While no trial helps, the network is slow: each probe waits twice as long as the one before, up to a
        minute. Once a trial has helped, a probe waits at most ``TRY_S``.
        """
        self._did_well |= runs_well
        key, wait_s = (ruling.probe, self._probe_s) if ruling.test is None else (ruling.test, HOLD_S)
        if key is None or (now_s - self._tested_s < wait_s and not self._did_well):
            return []
        if self._did_well:
            self._probe_s, self._most_s = HOLD_S, TRY_S
        elif ruling.test is None:
            self._probe_s = double(self._probe_s, self._most_s)
        self.key, self._tested_s, self._did_well = key, now_s, False
        return [key]
