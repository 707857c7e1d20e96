"""Computes how much shorter mitigation has made a run, by a replay of the run without mitigation.

Files come at the same time, so the seconds saved on files do not add up to seconds of the run. The replay
computes the makespan. It takes the entries in the order of their starts and gives each to the slot that is
free first (list scheduling; R. L. Graham, 1966), twice:

- as it was: an entry holds its slot for as long as its own attempts and the wait for its helpers took;
- left alone: an entry whose attempt was cancelled holds its slot until that attempt would have ended by its
  projection, and there are no helpers.

The difference of the two makespans is the time that mitigation has saved; below 0, the time that it has cost.
Both replays have as many slots as were in use at once. Both leave out waits before a retry, pauses of hosts
and limits of single hosts, so these cancel out.

``left_alone.py`` says how long an entry would have held its slot. If that is unknown, or the entry is not
done, it counts as it was in both replays. The run's own control limits what is claimed: if attempts that
nobody cancelled stood nearly still and came back by themselves, a slow rate foretells little. So no entry
counts for more than ``AS_LONG_AGAIN`` times its real time, or than that and the longest of these fades.

Memory is bounded: beyond ``MOST_JOBS`` entries the older entries are merged, a few neighbours into one that
takes as long as all of them; the latest stay unmerged, since they decide when the run ends. Pure.
"""

from collections.abc import Iterable
from heapq import heapify, heapreplace
from itertools import starmap
from math import inf
from typing import NamedTuple

from cfetch.base.records import Digest, FileRecord

MOST_JOBS = 1 << 16  # some 10 MiB
FEW = 64  # merged jobs of one report of a task
FADES = 2  # one may be chance
FADE_S = 1.0  # of a silence, or nearly, within one attempt; a lost packet costs less
AS_LONG_AGAIN = 2.0  # a wait that has lasted some time ends, in the median, after as long again
ROUNDING_S = 2e-6  # recorded times are rounded by up to this


class ReplayedFile(NamedTuple):
    """A job that holds a slot from ``start_s`` on for ``took_s``; without mitigation for ``alone_s``."""

    start_s: float
    took_s: float
    alone_s: float


class Makespan:
    """The replay of one run; ``add`` its records in any order."""

    def __init__(self) -> None:
        self._merged: list[ReplayedFile] = []
        self._jobs: list[ReplayedFile] = []  # the latest
        self._merges = 2  # entries in one merged job
        self._peak = 1
        self.has_mitigated = False
        self.fades_s: list[float] = []  # of attempts that nearly stood still and came back; the longest two

    def add(self, record: FileRecord) -> None:
        """Add an entry that has ended."""
        if not record.attempts:
            return
        jobs = list_jobs(record)
        self._jobs += jobs
        firsts = ((each, each.first_byte_s) for each in record.attempts)
        flows = [each for each, first_s in firsts if first_s is not None and each.end_s - first_s > FADE_S]
        if flows:
            from cfetch.show.left_alone import find_fade_s  # small files have none

            self._note_fades(find_fade_s(each, FADE_S) for each in flows)
        if len(record.attempts) > 1:  # few entries have more than one
            self.has_mitigated |= any(job.alone_s != job.took_s for job in jobs)
        if len(self._jobs) > MOST_JOBS:
            self._merge_older_half()

    def include(self, digest: Digest) -> None:
        """Add the jobs of many entries that have ended."""
        self._jobs += starmap(ReplayedFile, digest.jobs)
        self._merged += starmap(ReplayedFile, digest.merged_jobs)
        self._peak = max(self._peak, digest.peak)
        self.has_mitigated |= digest.is_mitigated
        self._note_fades(digest.fades_s)
        if len(self._jobs) > MOST_JOBS or len(self._merged) > MOST_JOBS:
            self._merge_older_half()

    def divide(self, latest: int) -> tuple[list[ReplayedFile], list[ReplayedFile]]:
        """The ``latest`` jobs and all that mitigation has changed; and the others, merged into a few."""
        jobs = sorted(self._jobs)
        older, kept = jobs[:-latest], jobs[-latest:]
        plain = [job for job in older if job.alone_s == job.took_s]
        changed = [job for job in older if job.alone_s != job.took_s]
        return changed + kept, self._merged + _merge_jobs(plain, max(1, -(-len(plain) // FEW)))

    @property
    def peak(self) -> int:
        """The most jobs at a time, as far as they were not merged."""
        return max(self._peak, count_peak(self._jobs))

    def saved_s(self) -> float:
        """Seconds that mitigation has made the run shorter; below 0: longer."""
        if not self.has_mitigated:
            return 0.0
        slots = self.peak
        jobs = sorted(self._merged + self._jobs)
        most, longest_s = (AS_LONG_AGAIN, self.fades_s[0]) if len(self.fades_s) == FADES else (inf, inf)
        alone = (min(job.alone_s, most * job.took_s, longest_s + job.took_s) for job in jobs if job.alone_s)
        left_alone_s = schedule_jobs(alone, slots)
        return left_alone_s - schedule_jobs((job.took_s for job in jobs), slots)

    def _note_fades(self, fades_s: Iterable[float]) -> None:
        self.fades_s = sorted([*self.fades_s, *filter(None, fades_s)], reverse=True)[:FADES]

    def _merge_older_half(self) -> None:
        self._jobs.sort()
        self._peak = self.peak
        self._merged += _merge_jobs(self._jobs[: MOST_JOBS // 2], self._merges)
        del self._jobs[: MOST_JOBS // 2]
        if len(self._merged) >= MOST_JOBS:
            self._merged = _merge_jobs(self._merged, 2)
            self._merges *= 2


def _merge_jobs(jobs: list[ReplayedFile], number: int) -> list[ReplayedFile]:
    """Merge each ``number`` of neighbours into one job that takes as long as all of them."""
    groups = (jobs[start : start + number] for start in range(0, len(jobs), number))
    return [
        ReplayedFile(group[0].start_s, sum(job.took_s for job in group), sum(job.alone_s for job in group))
        for group in groups
    ]


def schedule_jobs(durations_s: Iterable[float], slots: int) -> float:
    """The end of the last job, if each job in turn gets the slot that is free first."""
    free_s = [0.0] * max(1, slots)
    heapify(free_s)
    for duration_s in durations_s:
        heapreplace(free_s, free_s[0] + duration_s)
    return max(free_s)


def count_peak(jobs: Iterable[ReplayedFile]) -> int:
    """The most jobs that held a slot at the same time; an end counts before a start at the same moment."""
    spans = list(jobs)
    ends_s = sorted(start_s + took_s for start_s, took_s, _ in spans)
    peak = ended = 0
    for begun, start_s in enumerate(sorted(job[0] for job in spans), start=1):
        while ends_s[ended] <= start_s + ROUNDING_S and ended < begun - 1:
            ended += 1
        peak = max(peak, begun - ended)
    return peak


def list_jobs(record: FileRecord) -> list[ReplayedFile]:
    """The jobs of one entry: its own, and one for each helper; none if it has no attempts of its own."""
    attempts = record.attempts
    if len(attempts) == 1:  # nearly every entry
        start_s = attempts[0].start_s
        took_s = attempts[0].end_s - start_s
        return [ReplayedFile(start_s, took_s, took_s)]
    own = [attempt for attempt in attempts if not attempt.helper]
    if not own:
        return []
    from cfetch.show.left_alone import find_left_alone, held_s  # in most runs no entry has a second attempt

    helpers = [attempt for attempt in attempts if attempt.helper]
    last_s = max(attempt.end_s for attempt in attempts)
    took_s = sum(map(held_s, own, own[1:])) + last_s - own[-1].start_s
    alone = find_left_alone(record, own, helpers) if record.status == "done" else None
    alone_s, keeps_helpers = alone or (took_s, True)
    jobs = [ReplayedFile(own[0].start_s, took_s, alone_s)]
    for helper in helpers:
        helped_s = helper.end_s - helper.start_s
        jobs.append(ReplayedFile(helper.start_s, helped_s, helped_s if keeps_helpers else 0.0))
    return jobs
