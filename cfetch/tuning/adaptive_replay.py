"""A recorded run as it would have been under another multiplier of the adaptive policy. Pure.

The policy itself judges, ``straggler.adaptive``, at its own pace, over the recorded progress: nothing of it
is imitated. Files are scheduled in the order of their starts on as many places as were ever busy at once,
each after the time that a place stood empty between two files of the run. A cancelled attempt is followed by
the file's own next one, where the record has it, else by an attempt that another file of that host and about
that size really had, slow ones included.
"""

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from cfetch.config.straggler import StragglerConfig
from cfetch.straggler.adaptive import Adaptive
from cfetch.straggler.knowledge import NOTHING
from cfetch.tuning.curves import Curve, RecordedFile, make_line
from cfetch.tuning.history import MIN_TAIL_BYTES

NEIGHBOURS = 64  # attempts of nearest size that a fresh one is drawn from
_GOLDEN = 2_654_435_761  # Knuth's multiplier: spreads consecutive numbers evenly, and is no dice
_BEGINS, _ENDS, _STALLS = range(3)


class Stage(NamedTuple):
    """A run ready for replay: its files by start, its places, and what a place loses between two files.

    ``tail_s``: from the last byte until the last file was in place.
    """

    files: Sequence[RecordedFile]
    places: int
    gap_s: float
    stall_timeout_s: float
    resumes: bool
    attempts: dict[str, list[tuple[int, float, float]]]  # by host, sorted: size, first byte, s per byte
    tail_s: float
    recorded_s: float


class Played(NamedTuple):
    """What came of it. False alarms: flagged attempts that would have ended before the file did."""

    makespan_s: float
    flagged: int
    false_alarms: int
    twice_bytes: int


def prepare_stage(files: Sequence[RecordedFile], *, concurrency: int, stall_timeout_s: float) -> Stage | None:
    """A run ready for replay; None where no attempt of it was whole."""
    attempts: dict[str, list[tuple[int, float, float]]] = {}
    for file in files:
        for curve in file.curves:
            if (pace := _measure_pace(curve)) is not None:
                attempts.setdefault(file.host, []).append((file.size_bytes, *pace))
    if not attempts:
        return None
    for of_host in attempts.values():
        of_host.sort()
    places = _count_places(files)
    known = [file.resumes for file in files if file.resumes is not None]
    first_s = min(file.start_s for file in files)
    return Stage(
        files=files,
        places=max(1, min(places, concurrency or places)),
        gap_s=_measure_gap_s(files, places),
        stall_timeout_s=stall_timeout_s,
        resumes=sum(known) * 2 >= len(known),
        attempts=attempts,
        tail_s=max(file.in_place_s for file in files) - max(file.end_s for file in files),
        recorded_s=max(file.in_place_s for file in files) - first_s,
    )


def play(stage: Stage, multiplier: float | None) -> Played:
    """The run under the adaptive policy with ``multiplier``; None: nothing is mitigated."""
    return _Play(stage, multiplier).run()


def _measure_pace(curve: Curve) -> tuple[float, float] | None:
    """First byte and seconds per byte after it; None where too little came to say."""
    received, lasted_s = curve.sizes[-1], curve.times_s[-1]
    if not received or not math.isfinite(curve.first_byte_s):
        return None
    if curve.is_cut:
        return (curve.first_byte_s, 1 / curve.rest_bps) if curve.rest_bps > 0 else None
    return curve.first_byte_s, max(0.0, lasted_s - curve.first_byte_s) / received


def _count_places(files: Sequence[RecordedFile]) -> int:
    """The most files under way at once."""
    steps = sorted([(file.start_s, 1) for file in files] + [(file.end_s, -1) for file in files])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def _measure_gap_s(files: Sequence[RecordedFile], places: int) -> float:
    """What a place loses between two files, on average, as long as there are files to start."""
    first_s, last_s = files[0].start_s, files[-1].start_s
    busy_s = sum(min(file.end_s, last_s) - file.start_s for file in files)
    return max(0.0, (places * (last_s - first_s) - busy_s) / len(files))


class _Attempt:
    """An attempt under way, as the policy sees it; it brings ``wanted`` bytes after ``base``."""

    is_held = False
    first_byte_s: float | None = None

    def __init__(
        self, key: int, curve: Curve, start_s: float, base: int, wanted: int, *, resumable: bool
    ) -> None:
        self.key = key
        self.curve = curve
        self.start_s = start_s
        self.base = base
        self.wanted = wanted
        self.resumable = resumable
        self.received = 0

    def held_s(self, now_s: float) -> float:  # noqa: ARG002 - our own side holds nothing in a replay
        """None."""
        return 0.0

    def look(self, now_s: float) -> None:
        """What has come by now."""
        age_s = now_s - self.start_s
        self.received = self.curve.count_bytes(age_s, self.wanted)
        if self.first_byte_s is None and self.curve.first_byte_s <= age_s:
            self.first_byte_s = self.start_s + self.curve.first_byte_s


class _Play:
    def __init__(self, stage: Stage, multiplier: float | None) -> None:
        self._stage = stage
        self._policy = multiplier and Adaptive(
            StragglerConfig(multiplier=multiplier), concurrency=stage.places, knowledge=NOTHING, wall_s=0.0
        )
        self._running: dict[int, _Attempt] = {}
        self._events: list[tuple[float, int, int, int]] = []  # when, what, file, attempt of it
        self._tried = [0] * len(stage.files)
        self._mitigations = [0] * len(stage.files)
        self._alone_s: dict[int, list[float]] = {}  # when flagged attempts would have ended
        self._next = 0
        self._last_s = 0.0
        self._flagged = self._alarms = self._twice = 0

    def run(self) -> Played:
        for _ in range(self._stage.places):
            self._take_next(0.0, 0.0)
        tick_s = self._policy.tick_s if self._policy else math.inf
        check_s = tick_s
        while self._events:
            now_s, what, key, tried = self._events[0]
            if check_s < now_s and self._running:
                self._check(check_s)
                check_s += tick_s
                continue
            heapq.heappop(self._events)
            if check_s < now_s:
                check_s += math.ceil((now_s - check_s) / tick_s) * tick_s
            if tried == self._tried[key]:
                self._meet(now_s, what, key)
        return Played(self._last_s + self._stage.tail_s, self._flagged, self._alarms, self._twice)

    def _take_next(self, now_s: float, gap_s: float) -> None:
        """A place is free: the next file begins after what the place loses between two."""
        if self._next < len(self._stage.files):
            file = self._stage.files[self._next]
            heapq.heappush(self._events, (now_s + gap_s + file.lead_s, _BEGINS, self._next, 0))
            self._next += 1

    def _meet(self, now_s: float, what: int, key: int) -> None:
        file = self._stage.files[key]
        if what == _BEGINS and file.curves:
            self._begin(now_s, key, base=0)
        elif what == _STALLS:
            attempt = self._drop(now_s, key)
            if self._policy:
                self._policy.note_pause(key)
            self._begin(now_s, key, base=self._keep(attempt))
        else:
            self._finish(now_s, key)

    def _begin(self, now_s: float, key: int, *, base: int) -> None:
        file = self._stage.files[key]
        tried = self._tried[key] = self._tried[key] + 1
        wanted = file.size_bytes - base
        curve = file.curves[tried - 1] if tried <= len(file.curves) else None
        if curve is None or curve.sizes[-1] + base > file.size_bytes or (tried > 1 and not curve.is_cut):
            curve = self._draw(key, curve)
        resumable = self._stage.resumes if file.resumes is None else file.resumes
        self._running[key] = _Attempt(key, curve, now_s, base, wanted, resumable=resumable)
        if self._policy:
            mitigations = self._mitigations[key]
            self._policy.note_start(
                key, wanted or None, now_s, host=file.host,
                immune=self._policy.must_spare(file.host, mitigations), mitigations=mitigations,
            )  # fmt: skip
        end_s = curve.compute_end_s(wanted)
        silent_s = curve.silent_since_s + self._stage.stall_timeout_s
        event = (end_s, _ENDS) if math.isfinite(end_s) else (silent_s, _STALLS)
        heapq.heappush(self._events, (now_s + event[0], event[1], key, tried))

    def _draw(self, key: int, own: Curve | None) -> Curve:
        """A fresh attempt: the file's own, at its pace for what is left now, or one that the run had."""
        pace = None if own is None else _measure_pace(own)
        if pace is None:
            file = self._stage.files[key]
            of_host = self._stage.attempts.get(file.host) or next(iter(self._stage.attempts.values()))
            middle = bisect_left(of_host, (file.size_bytes, 0.0, 0.0))
            low = max(0, min(middle - NEIGHBOURS // 2, len(of_host) - NEIGHBOURS))
            near = of_host[low : low + NEIGHBOURS]
            luck = (key * 8 + self._tried[key]) * _GOLDEN % 2**32 / 2**32
            _, *pace_of_other = near[int(luck * len(near))]
            pace = pace_of_other[0], pace_of_other[1]
        return make_line(*pace)

    def _check(self, now_s: float) -> None:
        assert self._policy
        attempts = list(self._running.values())
        for attempt in attempts:
            attempt.look(now_s)
        for flagged in self._policy.check(now_s, attempts).stragglers:
            key = flagged.id
            attempt = self._drop(now_s, key)
            kept = self._keep(attempt)
            alone_s = attempt.start_s + attempt.curve.compute_end_s(attempt.wanted)
            self._alone_s.setdefault(key, []).append(alone_s)
            self._policy.note_cancellation(key, now_s, 0 if attempt.resumable else attempt.received)
            self._flagged += 1
            self._mitigations[key] += 1
            self._begin(now_s, key, base=kept)

    def _drop(self, now_s: float, key: int) -> _Attempt:
        attempt = self._running.pop(key)
        attempt.look(now_s)
        return attempt

    def _keep(self, attempt: _Attempt) -> int:
        """Bytes of the file that the next attempt need not fetch."""
        if attempt.resumable:
            return attempt.base + attempt.received
        self._twice += attempt.base + attempt.received
        return 0

    def _finish(self, now_s: float, key: int) -> None:
        attempt = self._running.pop(key, None)
        if attempt is not None and self._policy:
            attempt.look(now_s)
            is_tail = attempt.base > 0 and attempt.wanted < MIN_TAIL_BYTES
            sample = None if is_tail else attempt.wanted
            self._policy.note_finish(key, sample, now_s, first_byte_s=attempt.first_byte_s)
        self._tried[key] = -1
        self._alarms += sum(alone_s <= now_s for alone_s in self._alone_s.pop(key, ()))
        self._last_s = max(self._last_s, now_s)
        self._take_next(now_s, self._stage.gap_s)
