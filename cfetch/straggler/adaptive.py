"""Judges attempts by their live progress, against the time that a fresh attempt would need.

An attempt is a straggler when, at its present rate, its rest takes longer than ``multiplier`` times the time
that a fresh attempt would need for the bytes it would have to fetch, plus the cost of connecting and a
padding that grows with the usual spread. Other attempts must do well at the same time (``court``), and the
record of earlier mitigations must allow it (``feedback``).

At each check: ``watch`` writes down the progress of the attempts, ``court`` names the stragglers among them,
and this module flags as many of those as the budget allows.
"""

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.attempt_figures import MIN_ELAPSED_S
from cfetch.straggler.baseline import RunningQuantile
from cfetch.straggler.check import Check, Flagged
from cfetch.straggler.common_cause import NORMAL
from cfetch.straggler.entries import EntryHistory
from cfetch.straggler.feedback import Budget, Feedback
from cfetch.straggler.fresh_attempt import LEAST, BroughtFile, FreshAttempts
from cfetch.straggler.knowledge import Knowledge, age_knowledge
from cfetch.straggler.regime import Regimes
from cfetch.straggler.stall import gap_s
from cfetch.straggler.suspects import SuspectJudge
from cfetch.straggler.watched_attempts import TICK_S, Bars, JudgedAttempt, WatchedAttempts
from cfetch.straggler.ways_to_ask import MUCH, WayToAsk

if TYPE_CHECKING:
    from cfetch.straggler.policy import Live
    from cfetch.straggler.rescues import Rescues
    from cfetch.straggler.second_requests import SecondRequestChooser

LATE_TICKS = 3  # if a check is later, our own process stood still, and did not read either
STALL_S = 30.0  # by default, after this the engine itself ends a silent attempt


class Adaptive:
    """Implements ``Policy``.

    ``concurrency``: how many attempts run at a time; ``wall_s``: now, since 1970.
    """

    sequential = False

    def __init__(
        self, config: StragglerConfig, *, concurrency: int, knowledge: Knowledge, wall_s: float
    ) -> None:
        self.tick_s = TICK_S
        known = age_knowledge(knowledge, wall_s)
        self._fresh = FreshAttempts(known)
        self._feedback = Feedback({name for name, host in known.hosts.items() if host.serves})
        self._budget = Budget(concurrency)
        self._rescues: Rescues | None = None  # most runs need none
        self._median = RunningQuantile()
        self._entries = EntryHistory()
        self._counted: set[int] = set()
        self._watch = WatchedAttempts(Bars(config.multiplier, self._fresh, self._feedback))
        self._live = self._watch.live
        self._court = SuspectJudge(self._watch, self._entries)
        self._seconds: SecondRequestChooser | None = None
        self._regimes = Regimes(self._watch, self._fresh, known)
        self._checked_s: float | None = None
        self._lost_s = 0.0  # seconds for which our own process stood still

    @property
    def seconds(self) -> "SecondRequestChooser":
        """Which files are asked for twice at a time."""
        if self._seconds is None:
            from cfetch.straggler.second_requests import SecondRequestChooser  # few runs have such files

            self._seconds = SecondRequestChooser(self._watch, self._court, self._budget)
        return self._seconds

    @property
    def known(self) -> int:
        """Entries in flight, between two attempts, or finished."""
        return self._entries.in_flight + self._entries.paused + self.total_finished

    @property
    def total_finished(self) -> int:
        """Entries that have finished."""
        return self._entries.finished

    @property
    def required(self) -> int:
        """Samples needed before finished files judge an attempt; attempts under way may suffice earlier."""
        return min(self.known, LEAST)

    @property
    def median_bps(self) -> float | None:
        """Normal speed of one file, latency included; None before the first sample."""
        return self._median.value

    @property
    def total_stragglers(self) -> int:
        """Entries that were ever flagged in this run."""
        return len(self._counted)

    def use_median(self, median_bps: float | None) -> None:
        """Take the speed that other machines have measured, for hosts about which nothing is known here."""
        self._fresh.use_median(median_bps)

    def note_start(
        self,
        key: int,
        size_bytes: int | None,
        now_s: float,
        *,
        host: str,
        immune: bool,
        mitigations: int,
        asks: int = 1,
    ) -> WayToAsk:
        """Note that a new attempt begins to fetch ``size_bytes`` (None: not known) from ``host``.

        ``asks``: how often its object was asked for, this time included. Returns how it should ask.
        """
        if key in self._live:
            self._end(key)
        self._entries.forget(key)
        self._watch.expect_change()
        self._entries.in_flight += key >= 0
        attempt = self._live[key] = JudgedAttempt(
            key, size_bytes, now_s, now_s - self._lost_s, host=host, immune=immune, mitigations=mitigations
        )
        cure = self._regimes.choose_cure(host, attempt.start_s, is_first=asks == 1 and key >= 0)
        attempt.asks = asks + cure.warms
        return cure

    def note_size(self, key: int, size_bytes: int) -> None:
        """Note how many bytes the attempt in flight has to fetch."""
        attempt = self._live.get(key)
        if attempt is not None:
            attempt.size_bytes, attempt.is_size_supposed = size_bytes, False
            self._watch.judge(attempt)

    def note_finish(
        self,
        key: int,
        size_bytes: int | None,
        now_s: float,
        *,
        first_byte_s: float | None,
        carried_bytes: int = 0,
    ) -> None:
        """Note that the attempt completed; it is a sample, unless ``size_bytes`` is None."""
        attempt = self._live.get(key)
        if attempt is None:
            return
        slow = attempt.is_fresh and self._watch.bars.is_exceeded(attempt, now_s)
        if self._budget.control is not None and not slow:
            self._budget.control.note_finish(attempt.host, key, now_s - self._lost_s)
        self._end(key)
        if key >= 0:
            self._entries.finish(key)
        first_s = None if first_byte_s is None else max(first_byte_s - attempt.began_s, 0.0)
        self._feedback.note_finish(key, now_s, first_s, is_proven=carried_bytes > 0)
        self._budget.note_finish(now_s, size_bytes or 0)
        if attempt.is_fresh:
            self._of_rescues().note(attempt.host, slow=slow)
            if not slow:
                self._budget.note_rescue(now_s)
        if size_bytes and attempt.is_sample:
            self._learn(attempt, size_bytes, now_s, first_s)
            self._regimes.note_reply(attempt, size_bytes, carried_bytes, first_s or 0.0, now_s - self._lost_s)

    def note_pause(self, key: int) -> None:
        """Note that the attempt is over and another follows after back-off: the entry stays known."""
        if self._end(key) is not None and key >= 0:
            self._entries.pause(key)

    def note_cancellation(self, key: int, now_s: float, wasted_bytes: int) -> None:  # noqa: ARG002 - flagged then
        """Note that the attempt was cancelled as a straggler; another follows. ``wasted_bytes`` are lost."""
        self._budget.note_waste(wasted_bytes)
        self.note_pause(key)

    def note_failure(self, key: int) -> None:
        """Note that the entry is given up: it is no longer known."""
        self._end(key)
        self._entries.forget(key)
        self._feedback.note_failure(key)

    def must_spare(self, host: str, mitigations: int) -> bool:
        """Whether an entry that was rescued so often is slow itself, rather than its connections."""
        return self._of_rescues().are_over(host, mitigations)

    def _of_rescues(self) -> "Rescues":
        if self._rescues is None:
            from cfetch.straggler.rescues import Rescues

            self._rescues = Rescues()
        return self._rescues

    def expected_s(self, key: int) -> float | None:
        """Seconds after which the attempt in flight counts as slow, for views and for its volume."""
        attempt = self._live.get(key)
        return None if attempt is None else self._watch.bars.expected_s(attempt)

    def remaining_s(self, key: int) -> float | None:
        """Seconds that the attempt still needs at its present rate; None until it is watched."""
        return self._watch.remaining_s(self._live.get(key))

    def fresh_s(self, host: str, size_bytes: int) -> float | None:
        """Seconds that a fresh attempt would need for ``size_bytes`` of ``host``; None if unknown."""
        fit = self._fresh.of(host, size_bytes)
        return None if fit is None else fit.fresh_s(size_bytes)

    def collect_knowledge(self, wall_s: float) -> Knowledge:
        """Collect what this run has learned about its hosts, for the next run."""
        return self._regimes.collect_knowledge(wall_s)

    def check(self, now_s: float, attempts: "Collection[Live]" = ()) -> Check:
        """Look at all attempts in flight; each is flagged at most once. Call every ``tick_s``."""
        late_s = now_s - self._checked_s if self._checked_s is not None else 0.0
        lost_s = gap_s(self._checked_s, now_s)
        self._checked_s = now_s
        if late_s > LATE_TICKS * TICK_S:
            self._lose(late_s - TICK_S, now_s)
        stragglers: list[Flagged] = []
        held_back = None
        lame: list[int] = []
        own_s = now_s - self._lost_s
        if not lost_s and self._watch.note_progress(now_s, own_s, attempts):
            stragglers = self._regimes.flag_after_blackout(own_s, now_s, attempts)
            keys, held_back = self._court.rule(own_s, attempts)
            anew = self._regimes.learn_from(attempts, own_s)
            self._court.tried += anew.witnesses
            if self._budget.control is not None:
                self._budget.control.judge_all(self._watch.short_paces, own_s)
            stragglers += self._flag(anew.keys, now_s, attempts, most=len(anew.keys), pace=MUCH)
            most = self._budget.count_allowed(now_s)
            stragglers += self._flag(keys, now_s, attempts, most=most, pace=NORMAL)
            lame = self._court.find_lame()
        return Check(
            stragglers=tuple(stragglers),
            median_bps=self.median_bps,
            finished=self.total_finished,
            required=self.required,
            active=len(self._live),
            fell_back=False,
            gap_s=lost_s,
            held_back=held_back,
            is_general=held_back is not None and self._court.is_general,
            lame=tuple(lame),
        )

    def _lose(self, lost_s: float, now_s: float) -> None:
        """Note that our own process stood still; attempts that began in that time are no samples."""
        self._lost_s += lost_s
        own_s = now_s - self._lost_s
        for attempt in self._live.values():
            if attempt.start_s > own_s:
                attempt.start_s, attempt.is_sample = own_s, False

    def _flag(
        self, keys: Iterable[int], now_s: float, attempts: "Collection[Live]", *, most: int, pace: float
    ) -> list[Flagged]:
        """Flag ``most`` of ``keys``, within the budget of bytes; the attempts with the longest rest first.

        ``pace``: how fast the fresh attempts have to be to show that this helps (``own_control.py``).
        """
        left = []
        for key in keys:
            attempt, remaining_s = self._live[key], self.remaining_s(key)
            if not (attempt.immune or attempt.flagged or attempt.spared_until_s > self._watch.now_s):
                left.append((math.inf if remaining_s is None else remaining_s, key))
        flagged: list[Flagged] = []
        lost_bytes = 0  # lost by the cancellations of this check
        seen = {live.key: live for live in attempts} if left else {}
        running = sum(live.received for live in seen.values())
        left.sort(key=lambda pair: (-pair[0], pair[1]))  # of two equally slow ones, the lower key
        for remaining_s, key in left:
            if len(flagged) >= most:
                break
            attempt, live = self._live[key], seen[key]
            own_bytes = 0 if live.resumable else live.received
            if not self._budget.allows_bytes(lost_bytes + own_bytes, running):
                continue
            # a probe is rare, and the only way out where all stand still: it needs no proof
            fades = self._watch.fade_s(attempt.host) > 0 and key not in self._court.tried
            # a run that waits only for bytes of a connection that stands still asks again
            fades &= live.slack_s >= 0 or (live.received > 0 and remaining_s < math.inf)
            group = attempt.host, not live.received
            if not self._budget.may_mitigate(group, key, self._watch.now_s, pace, fades=fades):
                continue
            lost_bytes += own_bytes
            self._budget.note_mitigation(now_s)
            flagged.append(self._flag_attempt(attempt, live, remaining_s, now_s))
        return flagged

    def _flag_attempt(
        self, attempt: JudgedAttempt, live: "Live", remaining_s: float, now_s: float
    ) -> Flagged:
        attempt.flagged = True
        if attempt.key >= 0:
            self._counted.add(attempt.key)
        if attempt.is_fresh:
            self._of_rescues().note(attempt.host, slow=True)
        evidence, column = self._watch.find_evidence(attempt)
        size_bytes, terms = attempt.size_bytes or 0, evidence.terms(column)
        expected_s = terms.limit_s + size_bytes * terms.limit_s_per_byte
        if math.isnan(expected_s):  # no file has ended yet; a witness was faster
            expected_s = now_s - attempt.began_s
        fresh_s = self.fresh_s(attempt.host, size_bytes) or 0.0
        elapsed_s = now_s - attempt.began_s - live.held_s(now_s)
        if self._watch.fade_s(attempt.host) and not self._budget.stays_slow(attempt.host):
            remaining_s = min(
                remaining_s, evidence.slow_s(column) + fresh_s
            )  # a fade foretells as much again
        projected_s = now_s + remaining_s if live.received and math.isfinite(remaining_s) else None
        foretold_s = now_s + STALL_S + fresh_s if live.received and projected_s is None else projected_s
        if live.connecting_since_s is not None:  # the kernel would have asked again: no verdict on the object
            from cfetch.straggler.handshake import next_syn_s

            since_s = live.connecting_since_s
            foretold_s = since_s + next_syn_s(now_s - since_s) + fresh_s
        self._feedback.note_mitigation(attempt.key, attempt.host, foretold_s, elapsed_s)
        is_probe = attempt.key in self._court.tried
        return Flagged(attempt.key, elapsed_s, expected_s, projected_s, is_probe)

    def _learn(self, attempt: JudgedAttempt, size_bytes: int, now_s: float, first_s: float | None) -> None:
        """Take the file as a sample, and as a witness if it was normal."""
        end_s = now_s - self._lost_s
        duration_s = max(end_s - attempt.start_s, MIN_ELAPSED_S)
        self._median.add(size_bytes / duration_s)
        fresh_s = self.fresh_s(attempt.host, size_bytes)
        if fresh_s is None or duration_s <= self._watch.bars.multiplier * fresh_s:
            self._court.add_witness(attempt.host, attempt.start_s, duration_s)
        first_s = None if first_s is None else min(first_s, duration_s)
        if self._fresh.add(attempt.host, BroughtFile(size_bytes, duration_s, first_s, end_s)):
            self._watch.expect_news()

    def _end(self, key: int) -> JudgedAttempt | None:
        """Take the attempt out of the live ones; None if it is not among them."""
        attempt = self._live.pop(key, None)
        if attempt is not None:
            self._watch.expect_change()
            self._entries.in_flight -= key >= 0
            self._watch.drop(attempt)
            if self._budget.control is not None:
                self._budget.control.note_gone(attempt.host, key)
        return attempt
