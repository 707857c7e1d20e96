"""The bytes of each attempt of a run over time, as curves, since the adaptive policy judges live progress.

A cancelled attempt shows only the bytes until its end. Its curve continues at its last rate; if that was 0,
it stays silent, and the stall rule would have ended it. Attempts of helpers have no curve here: the replay
sends helpers of its own.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from cfetch.base.records import AttemptRecord, FileRecord
from cfetch.plugins.lab.tuning.history import is_judged
from cfetch.show.saved_time import running_rate_bps

OVERTAKEN = "not needed any more"  # the error of a slow attempt whose bytes helpers have brought


class TuningCurve(NamedTuple):
    """One attempt: ``sizes`` bytes were there ``times_s`` after its request; then it goes on at ``rest_bps``.

    ``first_byte_s``: infinite if none came. ``is_cut``: it was cancelled, so the rest is an estimate.
    """

    times_s: tuple[float, ...]
    sizes: tuple[int, ...]
    first_byte_s: float
    rest_bps: float
    is_cut: bool = False

    def count_bytes(self, age_s: float, wanted: int) -> int:
        """Bytes of ``wanted`` that are there after ``age_s``."""
        index = bisect_right(self.times_s, age_s) - 1
        if index + 1 < len(self.times_s):
            (then_s, next_s), (then, after) = self.times_s[index : index + 2], self.sizes[index : index + 2]
            received = then + (after - then) * (age_s - then_s) / (next_s - then_s)
        elif math.isinf(self.rest_bps):
            return wanted
        else:
            received = self.sizes[-1] + self.rest_bps * (age_s - self.times_s[-1])
        return min(wanted, int(received))

    @property
    def silent_since_s(self) -> float:
        """When its last byte came; 0 if none did."""
        return self.times_s[self.sizes.index(self.sizes[-1])] if self.sizes[-1] else 0.0

    def compute_end_s(self, wanted: int) -> float:
        """Seconds until ``wanted`` bytes are there; infinite if they never come."""
        if self.sizes[-1] >= wanted:
            index = bisect_left(self.sizes, wanted)
            if not index:
                return self.times_s[0]
            (then_s, after_s), (then, after) = (
                self.times_s[index - 1 : index + 1],
                self.sizes[index - 1 : index + 1],
            )
            return then_s + (after_s - then_s) * (wanted - then) / (after - then)
        rest = wanted - self.sizes[-1]
        return self.times_s[-1] + rest / self.rest_bps if self.rest_bps > 0 else math.inf


class RecordedFile(NamedTuple):
    """A file's attempts that a policy judges, in order; none if all of them failed.

    ``end_s``: of its last attempt; from ``in_place_s`` on it had its name. ``lead_s``: seconds from its start
    to the first of these attempts. ``resumes``: whether a later attempt continued where the one before stood;
    None: there was no such case.
    """

    start_s: float
    end_s: float
    in_place_s: float
    lead_s: float
    size_bytes: int
    host: str
    curves: tuple[TuningCurve, ...]
    resumes: bool | None


def record_curves(records: Iterable[FileRecord]) -> list[RecordedFile]:
    """The files that were tried, in the order of their starts."""
    files = [_make_file(record) for record in records if record.attempts]
    return sorted(files, key=lambda file: file.start_s)


def make_line(first_byte_s: float, s_per_byte: float) -> TuningCurve:
    """An attempt at a steady rate."""
    rest_bps = 1 / s_per_byte if s_per_byte > 0 else math.inf
    return TuningCurve((0.0, first_byte_s), (0, 0), first_byte_s, rest_bps)


def _make_file(record: FileRecord) -> RecordedFile:
    attempts = [attempt for attempt in record.attempts if not attempt.helper and attempt.outcome != "lost"]
    judged = [attempt for attempt in attempts if is_judged(attempt) or attempt.error == OVERTAKEN]
    if not judged:  # it occupied its slot, but no policy judged it
        last_s = max(attempt.end_s for attempt in record.attempts)
        return RecordedFile(record.start_s, last_s, last_s, last_s - record.start_s, 0, record.host, (), None)
    first, *later = judged
    size = record.size_bytes if record.size_bytes is not None else record.bytes
    size = size if size else sum(attempt.bytes for attempt in judged)
    return RecordedFile(
        start_s=attempts[0].start_s,
        end_s=judged[-1].end_s,
        in_place_s=max(record.end_s, judged[-1].end_s),
        lead_s=first.start_s - attempts[0].start_s,
        size_bytes=max(0, size - first.from_byte),
        host=record.host,
        curves=tuple(map(_make_curve, judged)),
        resumes=later[0].from_byte > first.from_byte if later and first.bytes else None,
    )


def _make_curve(attempt: AttemptRecord) -> TuningCurve:
    lasted_s = max(attempt.end_s - attempt.start_s, 1e-6)
    first_s = math.inf if attempt.first_byte_s is None else attempt.first_byte_s - attempt.start_s
    points = {0.0: 0}
    if first_s < lasted_s:
        points[first_s] = 0
    for sampled_s, received in attempt.samples:
        points[min(sampled_s - attempt.start_s, lasted_s)] = received
    points[lasted_s] = attempt.bytes
    times_s = tuple(sorted(time_s for time_s in points if time_s >= 0))
    is_cut = attempt.outcome != "done" or attempt.to_byte is not None
    return TuningCurve(
        times_s,
        tuple(points[time_s] for time_s in times_s),
        first_s,
        running_rate_bps(attempt) if is_cut else 0.0,
        is_cut,
    )
