"""What a recorded run would have been like under other settings: pure arithmetic over columns, no clock.

`group` makes a run's columns ready once; `replay` then carries many runs through many settings side by side,
one step a file. A run is scheduled anew on as many workers as it had, its files in the order in which they
were started. Who is flagged, and when, is the detector's rule: ``multiplier * size / median + padding``, with
the median of what had finished by then, at a check, once enough have finished. A flagged attempt is replaced
by a fresh one, whose time is the file's own where it was rescued in the record, else that of a normal attempt
of its size.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfetch.straggler.baseline import RunningMedian, required
from cfetch.tuning.history import CUT, ERRORS_ONLY, STALLED, WHOLE, Column, History

__all__ = ["Censored", "Group", "Scores", "Setting", "group", "replay"]

BLOCK = 1024  # files whose limits stand in memory at once: 10 MB with 30 runs and 40 settings
NEIGHBOURS = 64  # attempts of nearest size that a fresh one is drawn from
NORMAL = 3.0  # a neighbour that took more than so many times their median is no normal attempt
_GOLDEN = 2_654_435_761  # Knuth's multiplier: spreads consecutive numbers evenly, and is no dice


class Setting(NamedTuple):
    """One point of the grid; ``padding_s`` infinite means no mitigation."""

    multiplier: float
    quantile: float
    padding_s: float


class Censored(NamedTuple):
    """Attempts whose true time nobody saw, by how the rest was estimated."""

    by_rate: int
    by_stall_rule: int
    drawn: int


class Group(NamedTuple):
    """One run ready for replay, its files by start. ``alone_s``: the judged attempt, left alone.

    ``tail_s`` comes after that where it stalls; ``share``: the part of its bytes that it brings. ``medians``:
    the run's median after so many files had finished, at ``ends_s``. ``own``: the run's own setting.
    """

    workers: int
    tick_s: float
    own: Setting
    start_s: Column
    before_s: Column
    size_bytes: Column
    alone_s: Column
    tail_s: Column
    fresh_s: Column
    kept: Column
    share: Column
    finishes: NDArray[np.bool_]
    ends_s: Column
    medians: Column
    censored: Censored
    recorded_s: float


class Scores(NamedTuple):
    """Of one run, one entry a setting. False alarms: flagged, but alone they would have ended sooner."""

    makespan_s: Column
    flagged: Column
    false_alarms: Column
    twice_bytes: Column
    own_makespan_s: float


def group(history: History, *, workers: int, tick_s: float, own: Setting) -> Group | None:
    """The run's files ready for replay; None where no file of it finished.

    ``workers`` is what the run was allowed; it counts as having had as many as were ever busy at once.
    ``tick_s``: between two checks.
    """
    one = history.only(np.argsort(history.start_s, kind="stable"))
    done = np.isfinite(one.end_s)
    whole = (one.ended == WHOLE) & (one.size_bytes > 0)
    if not whole.any():
        return None
    rest_s, drawn = _drawn_rest_s(one, whole)
    fresh_s = _fresh_s(one, whole)
    known = one.kept[np.isfinite(one.kept)]
    kept = np.where(np.isfinite(one.kept), one.kept, float(known.size > 0 and known.mean() >= 0.5))
    alone_s = one.seen_s + rest_s
    share = np.ones(len(alone_s))
    stalls = one.ended == STALLED
    share[stalls] = one.got_bytes[stalls] / np.maximum(one.size_bytes[stalls], 1)
    order = np.argsort(one.end_s[done], kind="stable")
    cut = one.ended == CUT
    return Group(
        workers=max(1, min(workers or len(alone_s), _busiest(one))),
        tick_s=tick_s,
        own=own,
        start_s=one.start_s,
        before_s=one.before_s,
        size_bytes=one.size_bytes,
        alone_s=alone_s,
        tail_s=np.where(stalls, fresh_s * (1 - kept * share), 0.0),
        fresh_s=fresh_s,
        kept=kept,
        share=share,
        finishes=one.ended != ERRORS_ONLY,
        ends_s=one.end_s[done][order],
        medians=_medians(one.sample_bps[done][order]),
        censored=Censored(
            by_rate=int(cut.sum()) - drawn, by_stall_rule=int((stalls & (rest_s > 0)).sum()), drawn=drawn
        ),
        recorded_s=float(np.nanmax(np.where(done, one.end_s, one.start_s)) - one.start_s[0]),
    )


def _drawn_rest_s(one: History, whole: NDArray[np.bool_]) -> tuple[Column, int]:
    """What is left of attempts that say nothing themselves, and how many those are.

    As Kaplan and Meier have it: such an attempt shares the fate of those that were as slow for their size and
    lasted longer; of these the middle one is taken.
    """
    rest_s, open_ = one.rest_s.copy(), np.isnan(one.rest_s)
    if open_.any():
        per_byte = np.sort(one.seen_s[whole] / one.size_bytes[whole])
        seen = one.seen_s[open_] / np.maximum(one.size_bytes[open_], 1)
        first = np.searchsorted(per_byte, seen, side="right")
        at = np.minimum((first + len(per_byte)) // 2, len(per_byte) - 1)
        rest_s[open_] = np.maximum(per_byte[at] * one.size_bytes[open_] - one.seen_s[open_], 0.0)
    return rest_s, int(open_.sum())


def _fresh_s(one: History, whole: NDArray[np.bool_]) -> Column:
    """How long a fresh attempt at each whole file takes."""
    at = np.nonzero(whole)[0]
    at = at[np.argsort(one.size_bytes[at], kind="stable")]
    sizes, seconds = one.size_bytes[at], one.seen_s[at]
    normal: list[Column] = []
    for low in range(0, len(at), NEIGHBOURS):
        per_byte = seconds[low : low + NEIGHBOURS] / sizes[low : low + NEIGHBOURS]
        normal.append(np.sort(per_byte[per_byte <= NORMAL * np.median(per_byte)]))
    chunk = np.minimum(np.searchsorted(sizes, one.size_bytes), len(at) - 1) // NEIGHBOURS
    lengths = np.array([len(one) for one in normal])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    luck = (np.arange(len(one.start_s), dtype=np.uint64) * _GOLDEN % 2**32) / 2**32
    drawn = np.concatenate(normal)[starts[chunk] + (luck * lengths[chunk]).astype(int)] * one.size_bytes
    with np.errstate(invalid="ignore"):
        own = one.size_bytes / one.fresh_bps
    fresh = np.where(np.isfinite(own), own, drawn)
    return np.where(one.size_bytes > 0, fresh, np.median(seconds))


def _medians(samples_bps: Column) -> Column:
    """The run's median after 0, 1, 2, … finished files; NaN before the first sample."""
    running, found = RunningMedian(), np.empty(len(samples_bps) + 1)
    found[0] = np.nan
    value: float | None = None
    for at, sample in enumerate(samples_bps.tolist(), start=1):
        if sample > 0:  # NaN is not
            running.add(sample)
            value = running.value
        found[at] = np.nan if value is None else value
    return found


def _busiest(one: History) -> int:
    """The most files under way at once."""
    times = np.concatenate((one.start_s, one.start_s + one.busy_s))
    steps = np.repeat((1, -1), len(one.start_s))
    return int(np.cumsum(steps[np.lexsort((steps, times))]).max())


def _needed(group_: Group, quantile: float) -> int:
    """How many files have to finish before anybody is judged, while workers are busy: a fixed point."""
    files, finished = int(group_.finishes.sum()), 0
    while (more := required(finished + min(group_.workers, files - finished), quantile)) > finished:
        finished = more
    return finished


def _reached_s(group_: Group, counts: list[int]) -> dict[int, float]:
    """When so many files have finished; nobody is flagged before, so this follows from the files alone."""
    wanted, found = sorted(set(counts), reverse=True), {}
    lasts = (group_.before_s + group_.alone_s + group_.tail_s).tolist()
    ends: list[tuple[float, int]] = []
    finished = 0
    for at, lasting_s in enumerate(lasts):
        begin_s = 0.0
        if at >= group_.workers:
            begin_s, ended = heapq.heappop(ends)
            finished += bool(group_.finishes[ended])
            while wanted and finished >= wanted[-1]:
                found[wanted.pop()] = begin_s
            if not wanted:
                break
        heapq.heappush(ends, (begin_s + lasting_s, at))
    for end_s, ended in sorted(ends) if wanted else ():
        finished += bool(group_.finishes[ended])
        while wanted and finished >= wanted[-1]:
            found[wanted.pop()] = end_s
    return {count: found.get(count, float("inf")) for count in counts}


def replay(groups: Sequence[Group], settings: Sequence[Setting]) -> list[Scores]:
    """Every group under every setting. No group's scores depend on the others that are replayed with it."""
    return _Lanes(groups, settings).run()


class _Lanes:
    """One lane for each pair of run and setting, the run's own setting last; arrays are (runs, settings)."""

    def __init__(self, groups: Sequence[Group], settings: Sequence[Setting]) -> None:
        self._groups = groups
        self._rules = [np.array([*settings, one.own], dtype=float).reshape(-1, 3).T for one in groups]
        shape = (len(groups), len(settings) + 1)
        self._needed = [
            [_needed(one, quantile) for quantile in rule[1]]
            for one, rule in zip(groups, self._rules, strict=True)
        ]
        reached = [_reached_s(one, needed) for one, needed in zip(groups, self._needed, strict=True)]
        self._from_s = np.array(
            [[when[n] for n in needed] for when, needed in zip(reached, self._needed, strict=True)]
        )
        self._tick_s = np.array([[one.tick_s] for one in groups])
        most = max(one.workers for one in groups)
        busy = np.array([[worker >= one.workers for worker in range(most)] for one in groups])
        self._free = np.repeat(np.where(busy, np.inf, 0.0), shape[1], axis=0)
        self._rows = np.arange(len(self._free))
        self._shape = shape
        self._last, self._flagged, self._alarms, self._twice = (np.zeros(shape) for _ in range(4))

    def run(self) -> list[Scores]:
        with np.errstate(invalid="ignore"):  # lanes that flag nobody compute with infinity
            for low in range(0, max(len(one.alone_s) for one in self._groups), BLOCK):
                self._block(low)
        return [
            Scores(last[:-1], flagged[:-1], alarms[:-1], twice[:-1], float(last[-1]))
            for last, flagged, alarms, twice in zip(
                self._last, self._flagged, self._alarms, self._twice, strict=True
            )
        ]

    def _block(self, low: int) -> None:
        def column(name: str) -> Column:
            parts = [getattr(one, name)[low : low + BLOCK] for one in self._groups]
            wide = np.zeros((max(map(len, parts)), len(parts), 1))  # a file that takes no time ends no run
            for at, part in enumerate(parts):
                wide[: len(part), at, 0] = part
            return wide

        before_s, alone_s, tail_s = column("before_s"), column("alone_s"), column("tail_s")
        fresh_s, kept, share, size = column("fresh_s"), column("kept"), column("share"), column("size_bytes")
        limits, judged = self._limits(low, len(alone_s))
        for at in range(len(alone_s)):
            worker = self._free.argmin(axis=1)
            start_s = self._free[self._rows, worker].reshape(self._shape) + before_s[at]
            alone_end_s = start_s + alone_s[at]
            end_s = alone_end_s + tail_s[at]
            if judged[at]:
                flag_s = np.maximum(start_s + limits[at], self._from_s)
                flag_s = (np.floor(flag_s / self._tick_s) + 1) * self._tick_s
                hit = flag_s < alone_end_s
                if hit.any():
                    done = share[at] * (flag_s - start_s) / alone_s[at]
                    rescued_s = flag_s + fresh_s[at] * (1 - kept[at] * done)
                    self._flagged += hit
                    self._alarms += hit & (end_s <= rescued_s)
                    self._twice += np.where(hit, size[at] * done * (1 - kept[at]), 0.0)
                    end_s = np.where(hit, rescued_s, end_s)
            np.maximum(self._last, end_s, out=self._last)
            self._free[self._rows, worker] = end_s.ravel()

    def _limits(self, low: int, files: int) -> tuple[Column, list[bool]]:
        """(files, runs, settings) seconds; infinite where nobody can be flagged. Which files to look at."""
        limits = np.full((files, *self._shape), np.inf)
        for at, (one, rule, needed) in enumerate(zip(self._groups, self._rules, self._needed, strict=True)):
            multiplier, _, padding_s = rule
            size, alone_s = one.size_bytes[low : low + BLOCK], one.alone_s[low : low + BLOCK]
            slow = np.nonzero((size > 0) & (alone_s > padding_s.min()))[0]
            if not slow.size:
                continue
            normal = multiplier * size[slow, None]
            begun_s = (one.start_s + one.before_s)[low : low + BLOCK][slow, None]
            by_s = begun_s + normal / one.medians[-1] + padding_s  # the last median will do to find the count
            finished = np.searchsorted(one.ends_s, by_s, side="right")
            finished = np.clip(finished, needed, len(one.ends_s))
            found = normal / one.medians[finished] + padding_s
            limits[slow, at] = np.where(np.isnan(found), np.inf, found)
        return limits, np.isfinite(limits).any(axis=(1, 2)).tolist()
