"""Me or the network: whether those that are far too slow are stragglers, or all are slow for one reason.

A connection is to blame only if others of the same host do well at the same time: attempts under way that run
at their normal pace, and files that began since it has been slow and have ended normally. Where the others
are slow too, each is compared with them instead of with better times.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Crowd", "Ruling", "Suspect", "Trials", "rule"]

LEAST_CROWD = 4  # attempts that tell how fast the network is: the median of three is one attempt's word
NORMAL = 2 / 3  # of the usual pace, and a witness runs well; so the multiplier of the formula, turned round
CLEAR = 3  # witnesses for each suspect: at most a quarter is slow, which is no matter of the network
TRY_S = 6.0  # three times HOLD_S: where all are slow and stay so, only a fresh attempt can tell why
MOST_TRY_S = 60.0  # from one try to the next, where none has helped
HOLD_S = 2.0  # twice the short window: a change of the network has reached all by then


class Suspect(NamedTuple):
    """An attempt that is far too slow, since ``since_s`` at the latest, as was first seen at ``seen_s``.

    ``excuse``: it is none where the network has less than this share of its usual pace. ``confirm_s``: for so
    long it has to be seen before it is broken off. ``is_free``: breaking it off
    is allowed, and loses no byte.
    """

    key: int
    excuse: float
    since_s: float
    seen_s: float
    confirm_s: float
    is_free: bool = True


class Crowd(NamedTuple):
    """One host's attempts under way: each one's pace (1 is normal) by several windows, the suspects' too.

    ``began_s``: when each of the files began that ended normally of late.
    """

    paces: Sequence[Sequence[float]]
    began_s: Sequence[float]

    def network(self, others: int) -> float:
        """The share of its usual pace that the network has now, at most 1; ``others`` ended normally.

        The median, as up to half may be stragglers; the slowest of all windows, as a change is seen first
        in the shortest, and an attempt that began after it must not be measured by the time before.
        """
        count = len(self.paces)
        if count < LEAST_CROWD or others >= count:
            return 1.0
        at = (count + others) // 2
        paces: list[float] = [sorted(of_all)[at] for of_all in zip(*self.paces, strict=True)]
        return min(1.0, *paces)

    def witnesses(self, pace: float) -> int:
        """Attempts under way that run well, by all windows."""
        return sum(min(of_one) >= NORMAL * pace for of_one in self.paces)


class Ruling(NamedTuple):
    """Keys of those who may be broken off now, and of one that may be as a test; how many are excused.

    ``probe``: one of the excused that may be tried where there is nobody to test.
    """

    guilty: list[int]
    test: int | None
    excused: int
    probe: int | None = None


def rule(suspects: Iterable[Suspect], crowd: Crowd, now_s: float) -> Ruling:
    """Who of one host's suspects is to blame.

    Few among many are so at once. Half of all are, once they have been slow for ``HOLD_S`` while as many
    others do well. If there are fewer others, one may be tried; so may one of those who excuse one another
    for ``TRY_S``, the slowest, if that loses no byte.
    """
    began_s = sorted(crowd.began_s)
    accused: list[tuple[Suspect, int]] = []
    excused: list[Suspect] = []
    by_others: dict[int, tuple[float, int]] = {}
    for suspect in suspects:
        others = len(began_s) - bisect_left(began_s, suspect.since_s)
        if others not in by_others:
            pace = crowd.network(others)
            by_others[others] = pace, others + crowd.witnesses(pace)
        pace, witnesses = by_others[others]
        if pace > suspect.excuse:
            accused.append((suspect, witnesses))
        else:
            excused.append(suspect)
    guilty: list[int] = []
    doubtful: list[Suspect] = []
    for suspect, witnesses in accused:
        seen_for_s = now_s - suspect.seen_s
        waited = seen_for_s >= HOLD_S
        if seen_for_s < suspect.confirm_s:
            continue
        if witnesses >= CLEAR * len(accused) or (witnesses >= len(accused) and (waited or len(accused) == 1)):
            guilty.append(suspect.key)
        elif waited:
            doubtful.append(suspect)
    test = min(doubtful, key=lambda suspect: (suspect.seen_s, suspect.key)).key if doubtful else None
    patient = [suspect for suspect in excused if suspect.is_free and now_s - suspect.seen_s >= TRY_S]
    probe = min(patient, key=lambda suspect: (suspect.excuse, suspect.key)).key if patient else None
    return Ruling(
        guilty, test, len(excused) + len(accused) - len(guilty), None if test is not None else probe
    )


class Trials:
    """When one may be tried: after some time, or once the one before, ``key``, runs well."""

    def __init__(self) -> None:
        self.key: int | None = None
        self._tested_s = -math.inf
        self._did_well = False
        self._probe_s = TRY_S
        self._most_s = MOST_TRY_S

    def of(self, ruling: Ruling, now_s: float, runs_well: bool) -> list[int]:
        """The key to be tried, if any; ``runs_well``: what followed on the last one does.

        While none helps it is the network: probes become half as frequent each time, to one a minute;
        once one has helped, to one in ``TRY_S``.
        """
        self._did_well |= runs_well
        key, wait_s = (ruling.probe, self._probe_s) if ruling.test is None else (ruling.test, HOLD_S)
        if key is None or (now_s - self._tested_s < wait_s and not self._did_well):
            return []
        if self._did_well:
            self._probe_s, self._most_s = HOLD_S, TRY_S
        elif ruling.test is None:
            self._probe_s = min(2 * self._probe_s, self._most_s)
        self.key, self._tested_s, self._did_well = key, now_s, False
        return [key]
