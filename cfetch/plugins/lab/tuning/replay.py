"""Replays a recorded run as it would have been under other settings: pure arithmetic over columns.

`prepare_group` prepares a run's columns once; `replay` then plays many runs under many settings side by side,
one step a file. A run is scheduled anew on as many workers as it had, its files in the order in which they
were started. Files are flagged by the detector's rule: ``multiplier * size / median + padding``, with the
median of the files that had finished by then, at a check, once enough have finished. A flagged attempt is
replaced by a fresh one, whose time is the file's own if it was rescued in the record, or else that of a
normal attempt of its size.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfetch.plugins.lab.tuning.history import CUT, ERRORS_ONLY, STALLED, WHOLE, Column, History
from cfetch.plugins.lab.views.tuning_document import Estimates
from cfetch.straggler.baseline import RunningQuantile, count_required

BLOCK = 1024  # files whose limits are in memory at once: 10 MB with 30 runs and 40 settings
NEIGHBOURS = 64  # attempts of nearest size that a fresh one is drawn from
NORMAL = 3.0  # times the median of the neighbours: an attempt that took longer is not normal
_GOLDEN = 2_654_435_761  # Knuth's multiplier: spreads consecutive numbers evenly, without random numbers


class Setting(NamedTuple):
    """One point of the grid; ``padding_s`` infinite means no mitigation."""

    multiplier: float
    quantile: float
    padding_s: float


class ReplayGroup(NamedTuple):
    """One run ready for replay, its files by start. ``alone_s``: the judged attempt, left alone.

    ``tail_s`` follows if it stalls; ``share``: the part of its bytes that it brings. ``medians``: the run's
    median after each number of finished files, at ``ends_s``. ``own``: the run's own setting.
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
    estimates: Estimates
    recorded_s: float


class Scores(NamedTuple):
    """A run's scores by setting. False alarms: flagged files that would have ended sooner if left alone."""

    makespan_s: Column
    flagged: Column
    false_alarms: Column
    twice_bytes: Column
    own_makespan_s: float


def prepare_group(history: History, *, workers: int, tick_s: float, own: Setting) -> ReplayGroup | None:
    """Prepare the run's files for replay; None if no file of it finished.

    ``workers``: the number that the run was allowed; the replay uses at most as many as were ever busy at
    once. ``tick_s``: between two checks.
    """
    run = history.select(np.argsort(history.start_s, kind="stable"))
    done = np.isfinite(run.end_s)
    whole = (run.ended == WHOLE) & (run.size_bytes > 0)
    if not whole.any():
        return None
    rest_s, drawn = _draw_rest_s(run, whole)
    fresh_s = _draw_fresh_s(run, whole)
    known = run.kept[np.isfinite(run.kept)]
    kept = np.where(np.isfinite(run.kept), run.kept, float(known.size > 0 and known.mean() >= 0.5))
    alone_s = run.seen_s + rest_s
    share = np.ones(len(alone_s))
    stalls = run.ended == STALLED
    share[stalls] = run.got_bytes[stalls] / np.maximum(run.size_bytes[stalls], 1)
    order = np.argsort(run.end_s[done], kind="stable")
    cut = run.ended == CUT
    return ReplayGroup(
        workers=max(1, min(workers or len(alone_s), _count_busiest(run))),
        tick_s=tick_s,
        own=own,
        start_s=run.start_s,
        before_s=run.before_s,
        size_bytes=run.size_bytes,
        alone_s=alone_s,
        tail_s=np.where(stalls, fresh_s * (1 - kept * share), 0.0),
        fresh_s=fresh_s,
        kept=kept,
        share=share,
        finishes=run.ended != ERRORS_ONLY,
        ends_s=run.end_s[done][order],
        medians=_compute_medians(run.sample_bps[done][order]),
        estimates=Estimates(
            by_rate=int(cut.sum()) - drawn, by_stall_rule=int((stalls & (rest_s > 0)).sum()), drawn=drawn
        ),
        recorded_s=float(np.nanmax(np.where(done, run.end_s, run.start_s)) - run.start_s[0]),
    )


def _draw_rest_s(run: History, whole: NDArray[np.bool_]) -> tuple[Column, int]:
    """Estimate the rest of the attempts that show nothing about it. Also returns their number.

    The method is Kaplan and Meier's: each is taken to last like the attempts that were as slow for their size
    and lasted longer; the median of these attempts is used.
    """
    rest_s, open_ = run.rest_s.copy(), np.isnan(run.rest_s)
    if open_.any():
        per_byte = np.sort(run.seen_s[whole] / run.size_bytes[whole])
        seen = run.seen_s[open_] / np.maximum(run.size_bytes[open_], 1)
        first = np.searchsorted(per_byte, seen, side="right")
        middle = np.minimum((first + len(per_byte)) // 2, len(per_byte) - 1)
        rest_s[open_] = np.maximum(per_byte[middle] * run.size_bytes[open_] - run.seen_s[open_], 0.0)
    return rest_s, int(open_.sum())


def _draw_fresh_s(run: History, whole: NDArray[np.bool_]) -> Column:
    """How long a fresh attempt at each file takes: the recorded one, else like whole ones of its size."""
    rows = np.nonzero(whole)[0]
    rows = rows[np.argsort(run.size_bytes[rows], kind="stable")]
    sizes, seconds = run.size_bytes[rows], run.seen_s[rows]
    normal: list[Column] = []
    for low in range(0, len(rows), NEIGHBOURS):
        per_byte = seconds[low : low + NEIGHBOURS] / sizes[low : low + NEIGHBOURS]
        normal.append(np.sort(per_byte[per_byte <= NORMAL * np.median(per_byte)]))
    chunk = np.minimum(np.searchsorted(sizes, run.size_bytes), len(rows) - 1) // NEIGHBOURS
    lengths = np.array([len(rates) for rates in normal])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    luck = (np.arange(len(run.start_s), dtype=np.uint64) * _GOLDEN % 2**32) / 2**32
    drawn = np.concatenate(normal)[starts[chunk] + (luck * lengths[chunk]).astype(int)] * run.size_bytes
    with np.errstate(invalid="ignore"):
        own = run.size_bytes / run.fresh_bps
    fresh = np.where(np.isfinite(own), own, drawn)
    return np.where(run.size_bytes > 0, fresh, np.median(seconds))


def _compute_medians(samples_bps: Column) -> Column:
    """The run's median after 0, 1, 2, … finished files; NaN before the first sample."""
    running, medians = RunningQuantile(), np.empty(len(samples_bps) + 1)
    medians[0] = np.nan
    value: float | None = None
    for count, sample in enumerate(samples_bps.tolist(), start=1):
        if sample > 0:  # False for NaN
            running.add(sample)
            value = running.value
        medians[count] = np.nan if value is None else value
    return medians


def _count_busiest(run: History) -> int:
    """The most files under way at once."""
    times = np.concatenate((run.start_s, run.start_s + run.busy_s))
    steps = np.repeat((1, -1), len(run.start_s))
    return int(np.cumsum(steps[np.lexsort((steps, times))]).max())


def _count_needed(group: ReplayGroup, quantile: float) -> int:
    """How many files have to finish before any is judged, while workers are busy: a fixed point."""
    files, finished = int(group.finishes.sum()), 0
    while (more := count_required(finished + min(group.workers, files - finished), quantile)) > finished:
        finished = more
    return finished


def _find_times_reached(group: ReplayGroup, counts: list[int]) -> dict[int, float]:
    """The time at which each number of files has finished; before the time, no file is flagged."""
    wanted, reached_s = sorted(set(counts), reverse=True), {}
    lasts = (group.before_s + group.alone_s + group.tail_s).tolist()
    ends: list[tuple[float, int]] = []
    finished = 0
    for number, lasting_s in enumerate(lasts):
        begin_s = 0.0
        if number >= group.workers:
            begin_s, ended = heapq.heappop(ends)
            finished += bool(group.finishes[ended])
            while wanted and finished >= wanted[-1]:
                reached_s[wanted.pop()] = begin_s
            if not wanted:
                break
        heapq.heappush(ends, (begin_s + lasting_s, number))
    for end_s, ended in sorted(ends) if wanted else ():
        finished += bool(group.finishes[ended])
        while wanted and finished >= wanted[-1]:
            reached_s[wanted.pop()] = end_s
    return {count: reached_s.get(count, float("inf")) for count in counts}


def replay(groups: Sequence[ReplayGroup], settings: Sequence[Setting]) -> list[Scores]:
    """Replay every group under every setting. The scores of a group do not depend on the other groups."""
    return _Replay(groups, settings).run()


class _Replay:
    """A schedule for each run and setting, the run's own setting last; arrays are (runs, settings)."""

    def __init__(self, groups: Sequence[ReplayGroup], settings: Sequence[Setting]) -> None:
        self._groups = groups
        self._rules = [np.array([*settings, group.own], dtype=float).reshape(-1, 3).T for group in groups]
        shape = (len(groups), len(settings) + 1)
        self._needed = [
            [_count_needed(group, quantile) for quantile in rule[1]]
            for group, rule in zip(groups, self._rules, strict=True)
        ]
        reached = [
            _find_times_reached(group, needed) for group, needed in zip(groups, self._needed, strict=True)
        ]
        self._from_s = np.array(
            [[when[n] for n in needed] for when, needed in zip(reached, self._needed, strict=True)]
        )
        self._tick_s = np.array([[group.tick_s] for group in groups])
        most = max(group.workers for group in groups)
        busy = np.array([[worker >= group.workers for worker in range(most)] for group in groups])
        self._free = np.repeat(np.where(busy, np.inf, 0.0), shape[1], axis=0)
        self._rows = np.arange(len(self._free))
        self._shape = shape
        self._last, self._flagged, self._alarms, self._twice = (np.zeros(shape) for _ in range(4))

    def run(self) -> list[Scores]:
        with np.errstate(invalid="ignore"):  # schedules that flag no file compute with infinity
            for low in range(0, max(len(group.alone_s) for group in self._groups), BLOCK):
                self._replay_block(low)
        return [
            Scores(last[:-1], flagged[:-1], alarms[:-1], twice[:-1], float(last[-1]))
            for last, flagged, alarms, twice in zip(
                self._last, self._flagged, self._alarms, self._twice, strict=True
            )
        ]

    def _replay_block(self, low: int) -> None:
        def column(name: str) -> Column:
            parts = [getattr(group, name)[low : low + BLOCK] for group in self._groups]
            wide = np.zeros((max(map(len, parts)), len(parts), 1))  # padding files that take no time
            for index, part in enumerate(parts):
                wide[: len(part), index, 0] = part
            return wide

        before_s, alone_s, tail_s = column("before_s"), column("alone_s"), column("tail_s")
        fresh_s, kept, share, size = column("fresh_s"), column("kept"), column("share"), column("size_bytes")
        limits, judged = self._compute_limits(low, len(alone_s))
        for file in range(len(alone_s)):
            worker = self._free.argmin(axis=1)
            start_s = self._free[self._rows, worker].reshape(self._shape) + before_s[file]
            alone_end_s = start_s + alone_s[file]
            end_s = alone_end_s + tail_s[file]
            if judged[file]:
                flag_s = np.maximum(start_s + limits[file], self._from_s)
                flag_s = (np.floor(flag_s / self._tick_s) + 1) * self._tick_s
                hit = flag_s < alone_end_s
                if hit.any():
                    done = share[file] * (flag_s - start_s) / alone_s[file]
                    rescued_s = flag_s + fresh_s[file] * (1 - kept[file] * done)
                    self._flagged += hit
                    self._alarms += hit & (end_s <= rescued_s)
                    self._twice += np.where(hit, size[file] * done * (1 - kept[file]), 0.0)
                    end_s = np.where(hit, rescued_s, end_s)
            np.maximum(self._last, end_s, out=self._last)
            self._free[self._rows, worker] = end_s.ravel()

    def _compute_limits(self, low: int, files: int) -> tuple[Column, list[bool]]:
        """The limits (files, runs, settings), infinite where no file can be flagged; the files to judge."""
        limits = np.full((files, *self._shape), np.inf)
        for index, (group, rule, needed) in enumerate(
            zip(self._groups, self._rules, self._needed, strict=True)
        ):
            multiplier, _, padding_s = rule
            size, alone_s = group.size_bytes[low : low + BLOCK], group.alone_s[low : low + BLOCK]
            slow = np.nonzero((size > 0) & (alone_s > padding_s.min()))[0]
            if not slow.size:
                continue
            normal = multiplier * size[slow, None]
            begun_s = (group.start_s + group.before_s)[low : low + BLOCK][slow, None]
            by_s = begun_s + normal / group.medians[-1] + padding_s  # the last median suffices for the count
            finished = np.searchsorted(group.ends_s, by_s, side="right")
            finished = np.clip(finished, needed, len(group.ends_s))
            seconds = normal / group.medians[finished] + padding_s
            limits[slow, index] = np.where(np.isnan(seconds), np.inf, seconds)
        return limits, np.isfinite(limits).any(axis=(1, 2)).tolist()
