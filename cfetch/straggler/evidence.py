"""Holds the bytes over time of all watched attempts, and finds those that are far too slow.

The bytes are in a ring of numpy rows: one column for each watched attempt, one row for each check.
A rate over a window is then one subtraction of rows. Cost matters here more than anywhere else in this room:
a thousand attempts are looked at ten times a second.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfetch.straggler.attempt_figures import MIN_ELAPSED_S
from cfetch.straggler.attempt_limits import NO_TERMS, AttemptLimits

Floats = npt.NDArray[np.float64]

SHORT_S = 1.0  # an attempt that recovers is cleared within this time; the bursts of TCP are shorter
LONG_S = 3.0  # a shorter pause is no offence: two lost retransmissions of TCP take as long
INSTANT_S = 0.3  # three checks: a change of the network shows in all attempts before one is suspected
GROWS = 1.15  # in slow start the rate doubles with each round trip; a crawling attempt stays at its average
GRAIN_S = 1e-6  # tolerance: times are sums of tenths, which are inexact
FAST, FALLEN = 0.75, 0.5  # of its own best rate: at it, and clearly below
FALLEN_S = 0.2  # two checks
CALM_S = (
    2 * INSTANT_S
)  # without a hold: first the bytes are read that had come during it, then a window is full
HELD_SHARE = 0.1  # of a window: a few slow writes hardly change its rate
DIP_S = 0.35  # a shorter dip may be only the two ends of the shortest window
HALF = 0.5  # of the usual rate
DEPTH = 32  # rows: 3 s of ten checks a second, and two more
FIRST_SLOTS = 16
# the rows of the facts about each attempt; those from _LIMIT_S to _PACE_S are its ``AttemptLimits``
_SIZE, _START_S, _LIMIT_S, _LIMIT_S_PER_BYTE, _GUARD_S, _SILENT_S, _PACE_S, _RECEIVED, _HELD_S, _FLOWS_S = (
    range(10)
)
# the rows about the shortest window: the best rate; bytes, time and rate when it was last about reached
_BEST_BPS, _MARKED, _MARKED_S, _MARKED_BPS = range(4)


class Fall(NamedTuple):
    """An attempt became slow for good after ``received`` bytes, at ``fell_s``."""

    received: int
    fell_s: float


class Evidence:
    """The watched attempts. Times leave out the seconds for which this process stood still."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._row = -1
        self._free: list[int] = []
        self._was_held = False
        self._present: Floats | None = None
        self.dips: list[tuple[int, float]] = []  # columns that are fast again, and after how many seconds
        self._ring: Floats = np.zeros((DEPTH, 0))
        self._held: Floats = np.zeros((DEPTH, 0))
        self._facts: Floats = np.zeros((10, 0))
        self._bests: Floats = np.zeros((4, 0))

    def watch(self, start_s: float) -> int:
        """Give a column to an attempt that started at ``start_s``; the caller then calls ``judge``."""
        if not self._free:
            self._grow()
        if not self._times:  # the first row has no bytes, so that the first look has a rate
            self._row, self._times = 0, [start_s]
        column = self._free.pop()
        self._ring[:, column] = 0.0
        self._held[:, column] = 0.0
        self._facts[:, column] = (math.nan, start_s, *NO_TERMS, 0.0, 0.0, start_s)
        self._bests[:, column] = (0.0, 0.0, start_s, 0.0)
        return column

    def judge(self, column: int, size_bytes: float, terms: AttemptLimits | None) -> None:
        """Set the bytes that the attempt has to fetch (nan: unknown) and the terms that it is judged by."""
        self._facts[_SIZE, column] = size_bytes
        self._facts[_LIMIT_S : _PACE_S + 1, column] = terms or NO_TERMS

    def terms(self, column: int) -> AttemptLimits:
        """The terms that the attempt is judged by."""
        return AttemptLimits(*self._facts[_LIMIT_S : _PACE_S + 1, column].tolist())

    def flows(self, column: int, first_byte_s: float) -> None:
        """Note that the first byte came at ``first_byte_s``: rates count from then."""
        self._facts[_FLOWS_S, column] = first_byte_s

    def drop(self, column: int) -> None:
        """Free the column of an attempt that is over."""
        self.judge(column, math.nan, None)
        self._free.append(column)

    def observe(
        self, now_s: float, columns: Sequence[int], received: Sequence[int], held_s: Sequence[float]
    ) -> None:
        """Write down bytes that have come for ``columns``, and the seconds that our own side held them."""
        self._present = None
        self._row = (self._row + 1) % DEPTH
        self._times.append(now_s)
        if len(self._times) > DEPTH:
            del self._times[0]
        facts = self._facts
        facts[_RECEIVED, columns] = received
        self._ring[self._row] = facts[_RECEIVED]
        if self._was_held or any(held_s):
            self._was_held = True
            facts[_HELD_S, columns] = held_s
            self._held[self._row] = facts[_HELD_S]
        self._note_bests(now_s)

    def _note_bests(self, now_s: float) -> None:
        """Note the attempts that run about as fast as they ever did, once the shortest window is full."""
        facts, bests = self._facts, self._bests
        rate = self.instant_bps()
        rate[now_s - facts[_FLOWS_S] < INSTANT_S - GRAIN_S] = 0.0
        if self._was_held:  # our own side's rate is no evidence, and neither is a change of rate meanwhile
            is_held = self._was_held_within(CALM_S)
            rate[is_held] = 0.0
            bests[_MARKED, is_held] = 0.0
        np.maximum(bests[_BEST_BPS], rate, out=bests[_BEST_BPS])
        is_fast = rate >= FAST * bests[_BEST_BPS]
        back = is_fast & (now_s - bests[_MARKED_S] >= DIP_S - GRAIN_S) & (bests[_MARKED] > 0)
        self.dips = [
            (column, now_s - float(bests[_MARKED_S, column])) for column in np.flatnonzero(back).tolist()
        ]
        bests[_MARKED:, is_fast] = np.stack([facts[_RECEIVED], np.full_like(rate, now_s), rate])[:, is_fast]

    def _was_held_within(self, window_s: float) -> npt.NDArray[np.bool_]:
        """Columns that our own side held within the window, for more than a small share of the shortest."""
        row, _ = self._back(window_s)
        is_held: npt.NDArray[np.bool_] = self._facts[_HELD_S] - self._held[row] > HELD_SHARE * INSTANT_S
        return is_held

    def falls(self) -> dict[int, Fall]:
        """The columns whose rate has fallen below half of their best rate, each with its fall.

        Both rates are those of times in which our own side read, so a fall is the network's.
        """
        facts, now_s, rate = self._facts, self._times[-1], self.instant_bps()
        best, marked, marked_s, marked_bps = self._bests
        is_fallen = (rate < FALLEN * best) & (now_s - marked_s >= FALLEN_S - GRAIN_S) & (marked > 0)
        slow = self.rate_bps(FALLEN_S / 2)
        falls = {}
        for column in np.flatnonzero(is_fallen).tolist():
            fast_bps, slow_bps = float(best[column]), min(float(slow[column]), FALLEN * float(best[column]))
            before_s = (fast_bps - float(marked_bps[column])) * INSTANT_S / (fast_bps - slow_bps)
            since_s = now_s - float(marked_s[column])
            came = float(facts[_RECEIVED, column] - marked[column])
            after_s = max(0.0, (came - slow_bps * since_s) / (fast_bps - slow_bps))
            fell_bytes = float(marked[column]) - slow_bps * before_s + fast_bps * after_s
            falls[column] = Fall(int(fell_bytes), float(marked_s[column]) - before_s + after_s)
        return falls

    def best_bps(self) -> Floats:
        """The best rate of each column over the shortest window, so far."""
        best: Floats = self._bests[_BEST_BPS]
        return best

    @property
    def now_s(self) -> float:
        """The time of the last observation."""
        return self._times[-1]

    def rate_bps(self, window_s: float) -> Floats:
        """Bytes a second of each column over the window, or since the start; held time does not count."""
        now_s, facts = self._times[-1], self._facts
        row, then_s = self._back(window_s)
        span: Any = now_s - np.maximum(facts[_FLOWS_S], then_s)
        if self._was_held:
            span = span - (facts[_HELD_S] - self._held[row])
        rate: Floats = (facts[_RECEIVED] - self._ring[row]) / np.maximum(span, MIN_ELAPSED_S)
        return rate

    def instant_bps(self) -> Floats:
        """Bytes a second of each column over the shortest window."""
        return self.rate_bps(INSTANT_S)

    def present_bps(self) -> Floats:
        """The largest rate of each column over all windows, so that no single slow window makes a suspect.

        The shortest window is there for TCP's slow start, in which the rate doubles with each round trip.
        """
        if self._present is None:
            rate = np.maximum(self.rate_bps(SHORT_S), self.rate_bps(LONG_S))
            self._present = np.maximum(rate, self.rate_bps(INSTANT_S), out=rate)
        return self._present

    def suspects(self) -> list[int]:
        """The columns of the attempts that are far too slow over every window."""
        size, start, limit_s, s_per_byte, guard_s, silent_s, _, received, held_s, first = self._facts
        now_s, rest = self._times[-1], size - received
        allowed_s = limit_s + s_per_byte * rest
        slow = rest > self.rate_bps(SHORT_S) * allowed_s
        if not slow.any():  # the usual case; the other windows can only excuse
            return []
        slow = rest > self.present_bps() * allowed_s
        slow &= now_s - start - held_s > np.where(received > 0, guard_s, silent_s)
        slow &= (now_s - first > INSTANT_S) | (received == 0)
        return np.flatnonzero(slow).tolist()

    def lame(self) -> list[int]:
        """The columns of the attempts that have had less than half the usual rate since their first byte.

        They are late by more than a new connection costs, and were never about as fast as usual: an attempt
        that only pauses gets to speed again.
        """
        *_, guard_s, _, pace_s, received, held_s, first_s = self._facts
        flowed_s = self._times[-1] - first_s - held_s
        lame = (received > 0) & (flowed_s > guard_s) & (received * pace_s < HALF * flowed_s)
        return np.flatnonzero(lame & (self._bests[_BEST_BPS] * pace_s < FAST)).tolist()

    def age_s(self, column: int) -> float:
        """Seconds since the attempt began, without those for which our own side held it."""
        return float(self._times[-1] - self._facts[_START_S, column] - self._facts[_HELD_S, column])

    def remaining_s(self, column: int) -> float:
        """Seconds that the rest needs at the present rate; infinity if the attempt stands still."""
        rest = float(self._facts[_SIZE, column] - self._facts[_RECEIVED, column])
        rate_bps = float(self.present_bps()[column])
        return rest / rate_bps if rate_bps > 0 else math.inf

    def rest_s(self, column: int) -> float:
        """Seconds that the rest needs at the rate of the last second, or of its end if that is higher."""
        rate_bps = self.lately_bps(column)
        return (
            float(self._facts[_SIZE, column] - self._facts[_RECEIVED, column]) / rate_bps
            if rate_bps > 0
            else math.inf
        )

    def lately_bps(self, column: int) -> float:
        """Bytes a second over the last second, or over its end if that is higher."""
        return max(float(self.rate_bps(SHORT_S)[column]), float(self.instant_bps()[column]))

    def accelerates(self, column: int) -> bool:
        """Whether bytes come clearly faster than over the long window, as in TCP's slow start.

        One piece after a silence is no sign of that: an attempt that brings one piece a second crawls. Of
        bytes that have flowed for less than two short windows, the later half is compared with all.
        """
        window_s = min(INSTANT_S, (self._times[-1] - float(self._facts[_FLOWS_S, column])) / 2)
        (lately, _), (before, _) = self._back(window_s), self._back(SHORT_S)
        if self._ring[lately, column] == self._ring[before, column]:
            return False
        return float(self.rate_bps(window_s)[column]) > GROWS * float(self.rate_bps(LONG_S)[column])

    def paces(self) -> list[tuple[float, ...] | None]:
        """The present pace of each column over three windows, 1 being normal; None while it is not known."""
        facts = self._facts
        # false for those without terms
        old = self._times[-1] - facts[_START_S] - facts[_HELD_S] > facts[_GUARD_S]
        windows = [
            (self.rate_bps(window_s) * facts[_PACE_S]).tolist() for window_s in (INSTANT_S, SHORT_S, LONG_S)
        ]
        paces = zip(*windows, strict=True)
        return [pace if is_old else None for pace, is_old in zip(paces, old.tolist(), strict=True)]

    def short_paces(self) -> list[float | None]:
        """The pace of each column over the last second, 1 being normal; None while it is not known."""
        facts = self._facts
        old = self._times[-1] - facts[_START_S] - facts[_HELD_S] > facts[_GUARD_S]
        paces = (self.rate_bps(SHORT_S) * facts[_PACE_S]).tolist()
        return [pace if is_old else None for pace, is_old in zip(paces, old.tolist(), strict=True)]

    def slow_s(self, column: int) -> float:
        """Seconds for which the attempt has been slow: since it was last about as fast as ever, or usual."""
        facts, best = self._facts, self._bests
        is_from_start = best[_BEST_BPS, column] * facts[_PACE_S, column] < FAST
        since_s = facts[_START_S, column] if is_from_start else best[_MARKED_S, column]
        return float(self._times[-1] - since_s)

    def _back(self, window_s: float) -> tuple[int, float]:
        """The row from ``window_s`` ago, or the oldest row, and its time."""
        age = max(bisect_right(self._times, self._times[-1] - window_s + GRAIN_S) - 1, 0)
        return (self._row - (len(self._times) - 1 - age)) % DEPTH, self._times[age]

    def _grow(self) -> None:
        old = self._facts.shape[1]
        new = max(FIRST_SLOTS, old)
        self._ring = np.hstack([self._ring, np.zeros((DEPTH, new))])
        self._held = np.hstack([self._held, np.zeros((DEPTH, new))])
        facts = np.zeros((10, new))
        facts[[_SIZE, *range(_LIMIT_S, _PACE_S + 1)]] = math.nan
        self._facts = np.hstack([self._facts, facts])
        self._bests = np.hstack([self._bests, np.zeros((4, new))])
        self._present = None
        self._free.extend(range(old + new - 1, old - 1, -1))
