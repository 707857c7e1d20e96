"""Judges attempts by their live progress, against what a fresh attempt would need.

An attempt is a straggler when, at its present rate, its rest takes longer than ``multiplier`` times what a
fresh attempt would need for what it would have to fetch, plus the cost of connecting and a padding that grows
with the usual spread; if others do well at the same time (``blame``), and if what mitigation has brought
until now allows it (``feedback``).
"""

import math
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from cfetch.config.straggler import StragglerConfig
from cfetch.straggler.baseline import RunningMedian
from cfetch.straggler.blame import NORMAL, Crowd, Suspect, Trials, rule
from cfetch.straggler.entries import Entries
from cfetch.straggler.feedback import Budget, Feedback
from cfetch.straggler.fresh import LEAST, MOST_HOSTS, Fit, Fresh, Sample, fit_of_running
from cfetch.straggler.knowledge import Knowledge, aged
from cfetch.straggler.metrics import MIN_ELAPSED_S, patience
from cfetch.straggler.policy import Check, Flagged, Live
from cfetch.straggler.stall import gap_s
from cfetch.straggler.terms import GUARD_S, Terms, terms_of

if TYPE_CHECKING:
    from cfetch.straggler.evidence import Evidence

__all__ = ["Adaptive"]

TICK_S = 0.1  # a small file takes as long; a thousand attempts cost 1 % of a core at this pace
LATE_TICKS = 3  # a check that is later tells of our own process, which had no time to read either
WATCHED_S = 0.2  # younger ones are not looked at: most small files never are, and cost nothing
REFIT_S = 0.5  # what is normal does not change faster
REFIT_EACH_S = 0.002  # among a thousand it is looked at less often: each costs some 10 µs
MANY = 64  # excused ones; while the network is slow for so many, they are not looked at ten times a second
LATELY_S = 1.0  # the short window: who is slow by it has been so for most of that time
SLOW_FROM_START = 0.25  # of the usual pace on average: it was slow long before a change of the network
SETTLE_SHARE = 0.1  # of the normal duration: a start says little about a minute
MOST_SETTLE_S = 3.0  # the longest window is over by then, and knows no more later
CONFIRM_SHARE = 0.02  # of the normal duration: a minute's download may pause for a second
MOST_CONFIRM_S = 2.0  # with the windows, five seconds of silence at most
STALL_S = 30.0  # by default, after this the engine itself ends a silent attempt
RECENT_NORMAL = 256  # files of a host that ended normally of late, for ``blame``


class _Attempt:
    """One attempt under way; times are on the policy's own clock, ``began_s`` on the run's."""

    __slots__ = (
        "began_s",
        "first_s",
        "flagged",
        "host",
        "immune",
        "is_sample",
        "judged",
        "key",
        "patience",
        "size_bytes",
        "slot",
        "start_s",
    )

    def __init__(self, key: int, size_bytes: int | None, began_s: float, start_s: float) -> None:
        self.key = key
        self.size_bytes = size_bytes
        self.began_s = began_s
        self.start_s = start_s
        self.host = ""
        self.immune = False
        self.patience = 1.0
        self.flagged = False
        self.is_sample = True
        self.slot: int | None = None
        self.first_s: float | None = None
        self.judged: tuple[object, ...] = ()  # by what


class Adaptive:
    """See ``Policy``. ``concurrency``: how many attempts run at a time; ``wall_s``: now, since 1970."""

    sequential = False

    def __init__(
        self, config: StragglerConfig, *, concurrency: int, knowledge: Knowledge, wall_s: float
    ) -> None:
        self.tick_s = TICK_S
        self._config = config
        self._fresh = Fresh(aged(knowledge, wall_s))
        self._feedback = Feedback()
        self._budget = Budget(concurrency)
        self._median = RunningMedian()
        self._live: dict[int, _Attempt] = {}
        self._in_flight = 0  # of them those that are entries
        self._watched: dict[int, _Attempt] = {}  # by slot
        self._entries = Entries()
        self._counted: set[int] = set()
        self._normal: dict[str, deque[float]] = {}
        self._suspected: dict[int, float] = {}
        self._keys: list[int] = []  # of the last check's attempts
        self._slots: list[int] = []  # theirs, those that are watched
        self._is_young = True  # one of them was not watched yet, or had no first byte
        self._evidence: Evidence | None = None
        self._checked_s: float | None = None
        self._lost_s = 0.0  # seconds for which our own process stood still
        self._refit_s = -math.inf
        self._tests = Trials()
        self._next_s = -math.inf  # the next look for stragglers
        self._held_back: str | None = None

    @property
    def known(self) -> int:
        """Entries in flight, between two attempts, or finished."""
        return self._in_flight + self._entries.paused + self.total_finished

    @property
    def total_finished(self) -> int:
        """Entries that have finished."""
        return self._entries.finished

    @property
    def required(self) -> int:
        """Samples before one is judged by what has finished; those under way may tell enough before."""
        return min(self.known, LEAST)

    @property
    def median_bps(self) -> float | None:
        """Normal speed of one file, latency included; None before the first sample."""
        return self._median.value

    @property
    def total_stragglers(self) -> int:
        """Entries that were ever flagged in this run."""
        return len(self._counted)

    def judge_by(self, median_bps: float | None) -> None:
        """What other machines have measured; it counts for hosts that nothing is known of here."""
        self._fresh.judge_by(median_bps)

    def started(
        self, key: int, size_bytes: int | None, now_s: float, *, host: str, immune: bool, mitigations: int
    ) -> None:
        """A new attempt begins to fetch ``size_bytes`` (None: not known) from ``host``."""
        self.failed(key, forget=False)
        self._is_young = True
        self._in_flight += key >= 0
        attempt = self._live[key] = _Attempt(key, size_bytes, now_s, now_s - self._lost_s)
        attempt.host, attempt.immune = host, immune
        attempt.patience = patience(mitigations)

    def sized(self, key: int, size_bytes: int) -> None:
        """The attempt in flight has so much to fetch."""
        attempt = self._live.get(key)
        if attempt is not None:
            attempt.size_bytes = size_bytes
            if attempt.slot is not None:
                self._judge(attempt)

    def finished(self, key: int, size_bytes: int | None, now_s: float, *, first_byte_s: float | None) -> None:
        """The attempt completed: a sample, unless ``size_bytes`` is None."""
        attempt = self._end(key)
        if attempt is None:
            return
        if key >= 0:
            self._entries.finish(key)
        first_s = None if first_byte_s is None else max(first_byte_s - attempt.began_s, 0.0)
        self._feedback.finished(key, now_s, first_s)
        self._budget.finished(now_s, size_bytes or 0)
        if size_bytes and attempt.is_sample:
            self._learn(attempt, size_bytes, now_s, first_s)

    def paused(self, key: int) -> None:
        """The attempt is over and another will follow after back-off: the entry stays known."""
        if self._end(key) is not None and key >= 0:
            self._entries.pause(key)

    def cancelled(self, key: int, now_s: float, wasted_bytes: int) -> None:  # noqa: ARG002 - flagged then
        """The attempt was broken off as a straggler, and another follows; so many bytes are lost by it."""
        self._budget.wasted(wasted_bytes)
        self.paused(key)

    def failed(self, key: int, *, forget: bool = True) -> None:
        """The entry is given up: it is no longer known."""
        self._end(key)
        self._entries.forget(key)
        if forget:
            self._feedback.failed(key)

    def expected_s(self, key: int) -> float | None:
        """Seconds after which the attempt in flight counts as slow, for the eye and for its volume."""
        attempt = self._live.get(key)
        if attempt is None or not attempt.size_bytes:
            return None
        fit = self._fresh.of(attempt.host, attempt.size_bytes)
        if fit is None:
            return None
        terms = self._terms(attempt, fit, attempt.size_bytes)
        return terms.limit_s + attempt.size_bytes * terms.limit_s_per_byte

    def remaining_s(self, key: int) -> float | None:
        """Seconds that the attempt still needs at its present rate; None until it is watched."""
        attempt = self._live.get(key)
        if attempt is None or attempt.slot is None or attempt.size_bytes is None or self._evidence is None:
            return None
        return self._evidence.remaining_s(attempt.slot)

    def fresh_s(self, host: str, size_bytes: int) -> float | None:
        """Seconds in which a fresh attempt would bring so much from ``host``; None where nobody knows."""
        fit = self._fresh.of(host, size_bytes)
        return None if fit is None else fit.first_byte_s + fit.duration_s(size_bytes)

    def learned(self, wall_s: float) -> Knowledge:
        """What this run has learned about its hosts, for the next one."""
        return self._fresh.learned(wall_s)

    def check(self, now_s: float, attempts: Collection[Live] = ()) -> Check:
        """Look at all attempts in flight; each is flagged at most once. Call every ``tick_s``."""
        late_s = now_s - self._checked_s if self._checked_s is not None else 0.0
        lost_s = gap_s(self._checked_s, now_s)
        self._checked_s = now_s
        if lost_s or late_s > LATE_TICKS * TICK_S:
            self._lose(lost_s or late_s - TICK_S, now_s)
        stragglers: list[Flagged] = []
        held_back = None
        if not lost_s and self._watch(now_s, attempts):
            stragglers, held_back = self._stragglers(now_s, attempts)
        return Check(
            stragglers=tuple(stragglers),
            median_bps=self.median_bps,
            finished=self.total_finished,
            required=self.required,
            active=len(self._live),
            fell_back=False,
            gap_s=lost_s,
            held_back=held_back,
        )

    def _lose(self, lost_s: float, now_s: float) -> None:
        """Our own process stood still; of who began in that time nobody knows for how long it did."""
        self._lost_s += lost_s
        own_s = now_s - self._lost_s
        for attempt in self._live.values():
            if attempt.start_s > own_s:
                attempt.start_s, attempt.is_sample = own_s, False

    def _watch(self, now_s: float, attempts: Collection[Live]) -> bool:
        """Take down how far those have come that are old enough; whether there are any."""
        own_s = now_s - self._lost_s
        keys = [live.key for live in attempts]
        watched: Collection[Live] = attempts
        if self._is_young or keys != self._keys:
            watched = self._look_over(own_s, attempts)
            self._keys = keys
        elif len(self._slots) < len(attempts):
            has_slot = {attempt.key for attempt in self._watched.values()}
            watched = [live for live in attempts if live.key in has_slot]
        if not self._slots or self._evidence is None:
            return False
        self._evidence.observe(
            own_s, self._slots, [live.received for live in watched], [live.held_s(now_s) for live in watched]
        )
        if own_s - self._refit_s >= max(REFIT_S, len(watched) * REFIT_EACH_S):
            self._refit_s = own_s
            self._refit(own_s, watched)
        return True

    def _look_over(self, own_s: float, attempts: Iterable[Live]) -> list[Live]:
        """Find the slots of all attempts, in their order, and who has one; the old enough get one."""
        watched = []
        self._slots.clear()
        self._is_young = False
        for live in attempts:
            attempt = self._live.get(live.key)
            if attempt is None:
                continue
            if attempt.slot is None and own_s - attempt.start_s >= WATCHED_S:
                attempt.slot = self._slot(attempt)
            if attempt.slot is None:
                self._is_young = True
                continue
            if attempt.first_s is None:
                self._is_young = True
                if live.first_byte_s is not None:
                    self._flows(attempt, live.first_byte_s)
                else:
                    self._feedback.silent(attempt.key, own_s - attempt.start_s)
            self._slots.append(attempt.slot)
            watched.append(live)
        return watched

    def _slot(self, attempt: _Attempt) -> int:
        if self._evidence is None:
            from cfetch.straggler.evidence import Evidence  # numpy takes 0.1 s: not for a run of small files

            self._evidence = Evidence()
        attempt.slot = self._evidence.watch(attempt.start_s)
        self._watched[attempt.slot] = attempt
        self._judge(attempt)
        return attempt.slot

    def _flows(self, attempt: _Attempt, first_byte_s: float) -> None:
        assert self._evidence is not None
        assert attempt.slot is not None
        attempt.first_s = max(first_byte_s - attempt.began_s, 0.0)
        self._evidence.flows(attempt.slot, attempt.start_s + attempt.first_s)

    def _refit(self, own_s: float, watched: Iterable[Live]) -> None:
        """Take down anew what is normal."""
        rates: dict[str, list[float]] = {}
        firsts: dict[str, list[float]] = {}
        for live in watched:
            attempt = self._live[live.key]
            age_s = own_s - attempt.start_s
            if age_s < GUARD_S:
                continue
            if attempt.first_s is not None:
                firsts.setdefault(attempt.host, []).append(attempt.first_s)
            rate_bps = live.received / max(age_s - (attempt.first_s or 0.0), TICK_S)
            rates.setdefault(attempt.host, []).append(rate_bps)
        fits = {host: fit_of_running(of_host, firsts.get(host, ())) for host, of_host in rates.items()}
        self._fresh.running({host: fit for host, fit in fits.items() if fit is not None})
        for attempt in self._watched.values():
            self._judge(attempt)

    def _judge(self, attempt: _Attempt) -> None:
        """Tell the evidence what the attempt is judged by, unless it knows."""
        size_bytes = attempt.size_bytes
        fit = self._fresh.of(attempt.host, size_bytes) if size_bytes else None
        judged = (fit, size_bytes, self._feedback.leniency, self._feedback.patience_s(attempt.host))
        if judged == attempt.judged or self._evidence is None or attempt.slot is None:
            return
        attempt.judged = judged
        size = math.nan if size_bytes is None else float(size_bytes)
        self._evidence.judge(attempt.slot, size, None if fit is None else self._terms(attempt, fit, size))

    def _terms(self, attempt: _Attempt, fit: Fit, size: float) -> Terms:
        terms = terms_of(fit, size, self._config.multiplier, self._feedback.leniency * attempt.patience)
        return terms._replace(silent_s=max(terms.silent_s, self._feedback.patience_s(attempt.host)))

    def _stragglers(self, now_s: float, live: Iterable[Live]) -> tuple[list[Flagged], str | None]:
        """Who is to be broken off, and in words why some who are too slow are not."""
        assert self._evidence is not None
        if now_s - self._lost_s < self._next_s:
            return [], self._held_back
        slots = self._evidence.suspects()
        attempts = {attempt.key: attempt for attempt in live} if slots else {}
        own_s = now_s - self._lost_s
        by_host: dict[str, list[Suspect]] = {}
        seen: dict[int, float] = {}
        for slot in slots:
            attempt = self._watched[slot]
            suspect = self._suspect(attempt, attempts.get(attempt.key), slot)
            if suspect is not None:
                seen[attempt.key] = self._suspected.get(attempt.key, own_s)
                by_host.setdefault(attempt.host, []).append(suspect._replace(seen_s=seen[attempt.key]))
        self._suspected = seen
        if not by_host:
            return [], None
        found: list[int] = []
        excused: dict[str, int] = {}
        crowds = self._crowds(by_host)
        for host, suspects in by_host.items():
            ruling = rule(suspects, crowds[host], own_s)
            found += ruling.guilty
            found += self._tests.of(ruling, own_s, self._runs_well(self._tests.key))
            if ruling.excused:
                excused[host] = ruling.excused
        if sum(excused.values()) > MANY:
            self._next_s = own_s + REFIT_S
        self._held_back = self._why(excused)
        return self._flag(found, now_s, attempts), self._held_back

    def _runs_well(self, key: int | None) -> bool:
        """Whether the entry has ended or the attempt has its usual pace."""
        if key is None or self._evidence is None:
            return False
        if self._entries.has_finished(key):
            return True
        attempt = self._live.get(key)
        pace = None if attempt is None or attempt.slot is None else self._evidence.paces()[attempt.slot]
        return pace is not None and min(pace) >= NORMAL

    def _suspect(self, attempt: _Attempt, live: Live | None, slot: int) -> Suspect | None:
        """The attempt as a suspect, if it is one still when what is lost by breaking it off counts too."""
        assert self._evidence is not None
        if live is None or live.is_held or attempt.size_bytes is None:
            return None
        terms = self._evidence.terms(slot)
        age_s = self._evidence.age_s(slot)
        own_s = attempt.start_s
        if not live.received:
            return Suspect(attempt.key, terms.silent_s / age_s, own_s, own_s, 0.0, not attempt.immune)
        needed = attempt.size_bytes - (live.received if live.resumable else 0)
        left_s = self._evidence.remaining_s(slot) - terms.limit_s
        fresh_s = terms.limit_s_per_byte * needed
        normal_s = attempt.size_bytes * terms.pace_s
        settle_s = max(terms.guard_s, min(SETTLE_SHARE * normal_s, MOST_SETTLE_S))
        if left_s <= fresh_s or age_s < settle_s:
            return None
        whole_life = live.received * terms.pace_s < age_s * SLOW_FROM_START
        since_s = own_s if whole_life else max(own_s, self._evidence.now_s - LATELY_S)
        confirm_s = min(CONFIRM_SHARE * normal_s - TICK_S, MOST_CONFIRM_S)
        excuse = max(fresh_s / left_s, settle_s / age_s)
        return Suspect(attempt.key, excuse, since_s, own_s, confirm_s, live.resumable and not attempt.immune)

    def _crowds(self, hosts: Collection[str]) -> dict[str, Crowd]:
        assert self._evidence is not None
        paces: dict[str, list[tuple[float, ...]]] = {host: [] for host in hosts}
        of_all = self._evidence.paces()
        for slot, attempt in self._watched.items():
            pace = of_all[slot]
            if pace is not None and attempt.host in paces:
                paces[attempt.host].append(pace)
        return {host: Crowd(of_host, self._normal.get(host, ())) for host, of_host in paces.items()}

    def _why(self, excused: dict[str, int]) -> str | None:
        slow = sum(excused.values())
        if slow < 2:
            return None
        if len(excused) == 1:
            (host,) = excused
            alive = sum(attempt.host == host for attempt in self._live.values())
            if alive < len(self._live):
                return f"{slow} of {alive} downloads from {host} are slow at once: the host, not the files"
        return f"{slow} of {len(self._live)} downloads are slow at once: the network, not the files"

    def _flag(self, keys: Iterable[int], now_s: float, attempts: dict[int, Live]) -> list[Flagged]:
        """Those of ``keys`` that may be flagged within the budget, who have most left to do first."""
        allowed = self._budget.allowed(now_s)
        may = [key for key in keys if not (self._live[key].immune or self._live[key].flagged)]
        left = [(self._left_s(key), key) for key in may]
        flagged = []
        lost_bytes = 0  # by those of this check
        running = sum(live.received for live in attempts.values()) if left else 0
        for remaining_s, key in sorted(left, reverse=True)[:allowed]:
            attempt, live = self._live[key], attempts[key]
            own_bytes = 0 if live.resumable else live.received
            if not self._budget.allows_bytes(lost_bytes + own_bytes, running):
                continue
            lost_bytes += own_bytes
            self._budget.mitigated(now_s)
            flagged.append(self._flagged(attempt, live, remaining_s, now_s))
        return flagged

    def _left_s(self, key: int) -> float:
        remaining_s = self.remaining_s(key)
        return math.inf if remaining_s is None else remaining_s

    def _flagged(self, attempt: _Attempt, live: Live, remaining_s: float, now_s: float) -> Flagged:
        attempt.flagged = True
        if attempt.key >= 0:
            self._counted.add(attempt.key)
        assert attempt.slot is not None
        assert self._evidence is not None
        size_bytes, terms = attempt.size_bytes or 0, self._evidence.terms(attempt.slot)
        expected_s = terms.limit_s + size_bytes * terms.limit_s_per_byte
        fresh_s = self.fresh_s(attempt.host, size_bytes) or 0.0
        elapsed_s = now_s - attempt.began_s - live.held_s(now_s)
        projected_s = None  # of who is silent nobody knows
        if live.received:
            projected_s = now_s + (remaining_s if math.isfinite(remaining_s) else STALL_S + fresh_s)
        self._feedback.mitigated(attempt.key, attempt.host, projected_s, elapsed_s)
        return Flagged(attempt.key, elapsed_s, expected_s, projected_s)

    def _learn(self, attempt: _Attempt, size_bytes: int, now_s: float, first_s: float | None) -> None:
        """A sample; and a witness, if it was normal."""
        end_s = now_s - self._lost_s
        duration_s = max(end_s - attempt.start_s, MIN_ELAPSED_S)
        self._median.add(size_bytes / duration_s)
        fresh_s = self.fresh_s(attempt.host, size_bytes)
        if fresh_s is None or duration_s <= self._config.multiplier * fresh_s:
            normal = self._normal.get(attempt.host)
            if normal is None:
                if len(self._normal) >= MOST_HOSTS:
                    del self._normal[next(iter(self._normal))]
                normal = self._normal[attempt.host] = deque(maxlen=RECENT_NORMAL)
            normal.append(attempt.start_s)
        first_s = None if first_s is None else min(first_s, duration_s)
        self._fresh.add(attempt.host, Sample(size_bytes, duration_s, first_s, end_s))

    def _end(self, key: int) -> _Attempt | None:
        """The attempt in flight, which is over; None where there is none."""
        attempt = self._live.pop(key, None)
        self._in_flight -= attempt is not None and key >= 0
        self._is_young = True
        if attempt is not None and attempt.slot is not None:
            assert self._evidence is not None
            self._evidence.drop(attempt.slot)
            del self._watched[attempt.slot]
        return attempt
