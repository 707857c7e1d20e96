"""Replays a recorded run as it would have been under another multiplier of the adaptive policy. Pure.

The real policy, ``straggler.adaptive``, judges the recorded progress at its own ticks; it is not imitated.
Files are scheduled in the order of their starts on as many slots as were ever busy at once, each after the
time for which a slot was empty between two files of the run. A cancelled attempt is followed by the file's
own next one, if the record has it, or else by a recorded attempt, perhaps a slow one, of another file of that
host and about that size. Slots that are idle at the end help as in the engine, by the same pure
``engine.segment_split``.
"""

import heapq
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from cfetch.base.config.straggler import StragglerConfig
from cfetch.engine.segment_split import Candidate, choose, estimate_sure_bytes
from cfetch.plugins.lab.tuning.curves import RecordedFile, TuningCurve, make_line
from cfetch.plugins.lab.tuning.history import MIN_TAIL_BYTES
from cfetch.straggler.adaptive import Adaptive
from cfetch.straggler.knowledge import NOTHING

MOST_JUDGED = 100_000  # attempts at checks, before checks become rarer: some seconds of work
CHECK_WORTH = 4  # a check costs as much as to judge so many attempts, also where one file is under way
LEAST_JUDGED = 100  # between two times that checks become rarer
NEIGHBOURS = 64  # attempts of nearest size that a fresh one is drawn from
_GOLDEN = 2_654_435_761  # Knuth's multiplier: spreads consecutive numbers evenly, without random numbers
_BEGINS, _ENDS, _STALLS = range(3)


class Stage(NamedTuple):
    """A run ready for replay: its files by start, its slots, and the time a slot loses between two files.

    ``tail_s``: from the last byte until the last file was in place.
    """

    files: Sequence[RecordedFile]
    slots: int
    gap_s: float
    stall_timeout_s: float
    resumes: bool
    attempts: dict[str, list[tuple[int, float, float]]]  # by host, sorted: size, first byte, s per byte
    tail_s: float
    recorded_s: float
    segments: int = 16


class ReplayResult(NamedTuple):
    """The result of a replay. False alarms: flagged attempts that would have ended before the file did."""

    makespan_s: float
    flagged: int
    false_alarms: int
    twice_bytes: int


def prepare_stage(
    files: Sequence[RecordedFile], *, stall_timeout_s: float, segments: int = 16
) -> Stage | None:
    """Prepare a run for replay; None if no attempt of it shows a rate."""
    attempts: dict[str, list[tuple[int, float, float]]] = {}
    for file in files:
        for curve in file.curves:
            if (pace := _measure_pace(curve)) is not None:
                attempts.setdefault(file.host, []).append((file.size_bytes, *pace))
    if not attempts:
        return None
    for of_host in attempts.values():
        of_host.sort()
    slots = _count_slots(files)
    known = [file.resumes for file in files if file.resumes is not None]
    first_s = min(file.start_s for file in files)
    return Stage(
        files=files,
        slots=slots,
        gap_s=_measure_gap_s(files, slots),
        stall_timeout_s=stall_timeout_s,
        resumes=sum(known) * 2 >= len(known),
        attempts=attempts,
        tail_s=max(file.in_place_s for file in files) - max(file.end_s for file in files),
        recorded_s=max(file.in_place_s for file in files) - first_s,
        segments=segments,
    )


def play(stage: Stage, multiplier: float | None) -> ReplayResult:
    """Replay the run under the adaptive policy with ``multiplier``; None: nothing is mitigated."""
    return _Play(stage, multiplier).run()


def _measure_pace(curve: TuningCurve) -> tuple[float, float] | None:
    """First byte and seconds per byte after it; None if too few bytes came."""
    received, lasted_s = curve.sizes[-1], curve.times_s[-1]
    if not received or not math.isfinite(curve.first_byte_s):
        return None
    if curve.is_cut:
        return (curve.first_byte_s, 1 / curve.rest_bps) if curve.rest_bps > 0 else None
    return curve.first_byte_s, max(0.0, lasted_s - curve.first_byte_s) / received


def _count_slots(files: Sequence[RecordedFile]) -> int:
    """The most files under way at once."""
    steps = sorted([(file.start_s, 1) for file in files] + [(file.end_s, -1) for file in files])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def _measure_gap_s(files: Sequence[RecordedFile], slots: int) -> float:
    """The mean seconds that a slot loses between two files, as long as there are files to start."""
    first_s, last_s = files[0].start_s, files[-1].start_s
    busy_s = sum(min(file.end_s, last_s) - file.start_s for file in files)
    return max(0.0, (slots * (last_s - first_s) - busy_s) / len(files))


@dataclass(eq=False)
class _Attempt:
    """An attempt under way, as the policy sees it; it brings ``wanted`` bytes after ``base``."""

    key: int
    file: int
    curve: TuningCurve
    start_s: float
    base: int
    wanted: int
    resumable: bool
    received: int = 0
    first_byte_s: float | None = None
    is_held: ClassVar = False  # our own side holds nothing back in a replay
    carried_bytes: ClassVar = 0
    connecting_since_s: ClassVar = None
    handshake_s: ClassVar = 0.0
    slack_s: ClassVar = 0.0

    def held_s(self, now_s: float) -> float:  # noqa: ARG002 - the port has it
        """Always 0: our own side holds nothing back in a replay."""
        return 0.0

    def packet_age_s(self) -> float | None:
        """None: the metrics do not tell."""
        return None

    def has_lost_packets(self) -> bool:
        """False: the metrics do not tell."""
        return False

    def advance(self, now_s: float) -> None:
        """Update the bytes that have come by now."""
        age_s = now_s - self.start_s
        self.received = self.curve.count_bytes(age_s, self.wanted)
        if self.first_byte_s is None and self.curve.first_byte_s <= age_s:
            self.first_byte_s = self.start_s + self.curve.first_byte_s


class _Play:
    def __init__(self, stage: Stage, multiplier: float | None) -> None:
        self._stage = stage
        self._policy = multiplier and Adaptive(
            StragglerConfig(multiplier=multiplier), concurrency=stage.slots, knowledge=NOTHING, wall_s=0.0
        )
        self._running: dict[int, _Attempt] = {}  # helpers have negative keys
        self._events: list[tuple[float, int, int, int]] = []  # when, what, key, of which plan for that key
        self._plans: Counter[int] = Counter()  # by key; only the latest plan of an attempt's end is valid
        self._tried: Counter[int] = Counter()  # by file, helpers included
        self._mitigations: Counter[int] = Counter()
        self._alone_s: dict[int, list[float]] = {}  # when flagged attempts would have ended
        self._next = 0
        self._helpers = 0
        self._starting = 0  # files that have a slot, and wait for their start
        self._last_s = 0.0
        self._flagged = self._alarms = self._twice = 0

    def run(self) -> ReplayResult:
        for _ in range(self._stage.slots):
            self._take_next(0.0, 0.0)
        tick_s = self._policy.tick_s if self._policy else math.inf
        check_s = tick_s
        judged, most_judged, rarer = 0, MOST_JUDGED, 2.0
        while self._events:
            now_s, what, key, plan = self._events[0]
            if check_s < now_s and self._running:
                judged += CHECK_WORTH + len(self._running)
                if judged > most_judged:  # a replay of weeks, or of damaged times, is twice the work at most
                    judged, tick_s, rarer = 0, rarer * tick_s, 2 * rarer
                    most_judged = max(LEAST_JUDGED, most_judged // 2)
                self._check(check_s)
                check_s = max(check_s + tick_s, math.nextafter(check_s, math.inf))
                continue
            heapq.heappop(self._events)
            if check_s < now_s:
                check_s += math.ceil((now_s - check_s) / tick_s) * tick_s
            if plan == self._plans[key]:
                self._meet(now_s, what, key)
        return ReplayResult(self._last_s + self._stage.tail_s, self._flagged, self._alarms, self._twice)

    def _take_next(self, now_s: float, gap_s: float) -> None:
        """Let the next file begin on a free slot, after the time that the slot loses between two files."""
        if self._next < len(self._stage.files):
            file = self._stage.files[self._next]
            heapq.heappush(self._events, (now_s + gap_s + file.lead_s, _BEGINS, self._next, 0))
            self._next += 1
            self._starting += 1

    def _meet(self, now_s: float, what: int, key: int) -> None:
        if what == _BEGINS:
            self._starting -= 1
            file = self._stage.files[key]
            if file.curves:
                self._begin(now_s, key, key, 0, file.size_bytes)
            else:
                self._finish(now_s, key)
        elif what == _STALLS:
            attempt = self._drop(now_s, key)
            if self._policy:
                self._policy.note_pause(key)
            self._begin(now_s, key, attempt.file, self._keep(attempt), attempt.base + attempt.wanted)
        else:
            self._end(now_s, key)

    def _begin(self, now_s: float, key: int, number: int, base: int, end: int) -> None:
        """Begin an attempt at bytes ``base`` to ``end`` of file ``number``."""
        file, wanted = self._stage.files[number], end - base
        tried = self._tried[number] = self._tried[number] + 1
        own = file.curves[tried - 1] if tried <= len(file.curves) and key >= 0 else None
        is_first = tried == 1 and own is not None
        curve = own if is_first and own is not None else self._draw(number, own)
        resumable = self._stage.resumes if file.resumes is None else file.resumes
        self._running[key] = _Attempt(key, number, curve, now_s, base, wanted, resumable=resumable)
        if self._policy:
            mitigations = self._mitigations[number]
            self._policy.note_start(
                key, wanted or None, now_s, host=file.host,
                immune=key >= 0 and self._policy.must_spare(file.host, mitigations), mitigations=mitigations,
            )  # fmt: skip
        self._plan_end(self._running[key])

    def _plan_end(self, attempt: _Attempt) -> None:
        curve, key = attempt.curve, attempt.key
        plan = self._plans[key] = self._plans[key] + 1
        end_s = curve.compute_end_s(attempt.wanted)
        silent_s = curve.silent_since_s + self._stage.stall_timeout_s
        after_s, what = (end_s, _ENDS) if math.isfinite(end_s) else (silent_s, _STALLS)
        heapq.heappush(self._events, (attempt.start_s + after_s, what, key, plan))

    def _draw(self, number: int, own: TuningCurve | None) -> TuningCurve:
        """A fresh attempt: the file's own, at its pace for the bytes left now, or another recorded one."""
        pace = None if own is None else _measure_pace(own)
        if pace is None:
            file = self._stage.files[number]
            of_host = self._stage.attempts.get(file.host) or next(iter(self._stage.attempts.values()))
            middle = bisect_left(of_host, (file.size_bytes, 0.0, 0.0))
            low = max(0, min(middle - NEIGHBOURS // 2, len(of_host) - NEIGHBOURS))
            near = of_host[low : low + NEIGHBOURS]
            luck = (number * 8 + self._tried[number]) * _GOLDEN % 2**32 / 2**32
            _, first_byte_s, s_per_byte = near[int(luck * len(near))]
            pace = first_byte_s, s_per_byte
        return make_line(*pace)

    def _check(self, now_s: float) -> None:
        assert self._policy
        attempts = list(self._running.values())
        for attempt in attempts:
            attempt.advance(now_s)
        for flagged in self._policy.check(now_s, attempts).stragglers:
            key = flagged.id
            attempt = self._drop(now_s, key)
            alone_s = attempt.start_s + attempt.curve.compute_end_s(attempt.wanted)
            self._alone_s.setdefault(attempt.file, []).append(alone_s)
            self._policy.note_cancellation(key, now_s, 0 if attempt.resumable else attempt.received)
            self._flagged += 1
            self._mitigations[attempt.file] += key >= 0
            self._begin(now_s, key, attempt.file, self._keep(attempt), attempt.base + attempt.wanted)
        if self._next == len(self._stage.files):
            self._help(now_s)

    def _help(self, now_s: float) -> None:
        """Let idle slots bring parts of the files that are still under way, as the engine chooses them."""
        assert self._policy
        idle = self._stage.slots - len(self._running) - self._starting
        at_work = Counter(attempt.file for attempt in self._running.values())
        candidates = [
            Candidate(
                attempt.key, self._stage.files[attempt.file].host, attempt.wanted - attempt.received, left_s,
                at_work[attempt.file], estimate_sure_bytes(attempt, now_s),
            )
            for attempt in self._running.values()
            if attempt.resumable and attempt.received < attempt.wanted
            and (left_s := self._policy.remaining_s(attempt.key)) is not None and 0 < left_s < math.inf
        ]  # fmt: skip
        if idle <= 0 or not candidates:
            return
        splits = choose(
            candidates, idle=idle, fresh_s=self._policy.fresh_s, most_attempts=self._stage.segments
        )
        for split in splits:
            attempt = self._running[split.key]
            end = attempt.base + attempt.wanted
            attempt.wanted = attempt.received + split.keeps_bytes
            self._policy.note_size(attempt.key, attempt.wanted)
            self._plan_end(attempt)
            begin = attempt.base + attempt.wanted
            for part in range(split.fresh_attempts):
                self._helpers += 1
                low = begin + (end - begin) * part // split.fresh_attempts
                high = begin + (end - begin) * (part + 1) // split.fresh_attempts
                self._begin(now_s, -self._helpers, attempt.file, low, high)

    def _drop(self, now_s: float, key: int) -> _Attempt:
        attempt = self._running.pop(key)
        attempt.advance(now_s)
        return attempt

    def _keep(self, attempt: _Attempt) -> int:
        """Bytes of the file that the next attempt need not fetch."""
        if attempt.resumable:
            return attempt.base + attempt.received
        self._twice += attempt.base + attempt.received
        return 0

    def _end(self, now_s: float, key: int) -> None:
        """End an attempt that has brought its bytes; its file is whole if no other attempt brings parts."""
        attempt = self._drop(now_s, key)
        if self._policy:
            is_tail = attempt.base > 0 and attempt.wanted < MIN_TAIL_BYTES
            sample = None if is_tail else attempt.wanted
            self._policy.note_finish(key, sample, now_s, first_byte_s=attempt.first_byte_s)
        if all(other.file != attempt.file for other in self._running.values()):
            self._finish(now_s, attempt.file)

    def _finish(self, now_s: float, number: int) -> None:
        self._alarms += sum(alone_s <= now_s for alone_s in self._alone_s.pop(number, ()))
        self._last_s = max(self._last_s, now_s)
        self._take_next(now_s, self._stage.gap_s)
