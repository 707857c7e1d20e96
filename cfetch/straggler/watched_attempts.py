"""Watches the attempts that are old enough to be judged: their progress, and the bars that apply to them.

Most files of a run are small and end before a check; they get no column and cost nothing. An attempt that
is older than ``WATCHED_S`` gets a column in the evidence (numpy columns). Each check writes down the bytes of
all watched attempts. Twice a second the speeds of the attempts under way are learned, and each attempt's bar
is computed again if the normal speed has changed.
"""

import math
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import msgspec

from cfetch.straggler.attempt_figures import WATCHED_S
from cfetch.straggler.attempt_figures import patience as patience_with
from cfetch.straggler.attempt_limits import GUARD_S, AttemptLimits, terms_of
from cfetch.straggler.feedback import Feedback
from cfetch.straggler.fresh_attempt import Fit, FreshAttempts, fit_of_running
from cfetch.straggler.ways_to_ask import LEAST_FALLEN

if TYPE_CHECKING:
    from cfetch.straggler.evidence import Evidence, Fall
    from cfetch.straggler.policy import Live


TICK_S = 0.1  # as long as a small file takes; a thousand attempts cost 1 % of a core at this pace
REFIT_S = 0.5  # normal speed does not change faster
MOST_DOUBLINGS = 2  # of an entry's bar by its rescues: a crawling attempt exceeds even four times the bar
RECENT_DIPS = 8  # dips: this number shows that they are usual for the host's connections
FEW_DIPS = 3  # dips, which are no chance: slow attempts at the host may come back
MOST_FADE_S = 16.0  # TCP's fifth retransmission comes earlier: a longer one is no fade
MOST_DIP_S = 1.5  # lost packets cost as much; a longer dip is a straggler's
REFIT_EACH_S = 0.002  # for each attempt: a thousand are refitted less often, as each costs some 10 µs


class JudgedAttempt(msgspec.Struct, eq=False):
    """One attempt under way; times are on the policy's own clock, ``began_s`` on the run's.

    ``column``: its column in the evidence; None until it is watched. ``judged``: the facts behind its bar.
    ``asks``: how often its object was asked for, this time included. ``is_sample``: its duration is a sample
    of normal speed. It is not cancelled before ``spared_until_s``, as a second request runs beside it.
    """

    key: int
    size_bytes: int | None
    began_s: float
    start_s: float
    host: str = ""
    immune: bool = False
    mitigations: int = 0
    asks: int = 1
    flagged: bool = False
    is_sample: bool = True
    is_size_supposed: bool = False
    spared_until_s: float = -math.inf
    column: int | None = None
    first_s: float | None = None
    judged: tuple[object, ...] = ()

    @property
    def is_fresh(self) -> bool:
        """Whether it has a connection of its own, which no earlier attempt has used."""
        return self.mitigations > 0 or self.key < 0


class Bars:
    """The limits of attempts: the normal duration at their host, times the multiplier, eased by feedback."""

    def __init__(self, multiplier: float, fresh: FreshAttempts, feedback: Feedback) -> None:
        self.multiplier = multiplier
        self.fresh = fresh
        self.feedback = feedback

    def facts(self, attempt: JudgedAttempt) -> tuple[Fit | None, int | None, float, float]:
        """The facts that decide the attempt's terms: with the same facts the terms are the same."""
        size_bytes = attempt.size_bytes
        fit = self.fresh.of(attempt.host, size_bytes) if size_bytes else None
        return fit, size_bytes, self.feedback.leniency, self.patience_s(attempt)

    def patience_s(self, attempt: JudgedAttempt) -> float:
        """Seconds of silence for which the attempt is not cancelled."""
        return self.feedback.patience_s(attempt.host, attempt.key)

    def terms(self, attempt: JudgedAttempt, fit: Fit, size_bytes: float) -> AttemptLimits:
        """The terms for ``size_bytes``, longer for an entry that was rescued and for a cold host."""
        patience = patience_with(min(attempt.mitigations, MOST_DOUBLINGS))
        terms = terms_of(fit, size_bytes, self.multiplier, self.feedback.leniency * patience)
        return terms._replace(silent_s=max(terms.silent_s, self.patience_s(attempt)))

    def expected_s(self, attempt: JudgedAttempt) -> float | None:
        """Seconds after which the whole attempt counts as slow; None while its host is not known."""
        if not attempt.size_bytes:
            return None
        fit = self.fresh.of(attempt.host, attempt.size_bytes)
        if fit is None:
            return None
        terms = self.terms(attempt, fit, attempt.size_bytes)
        return terms.limit_s + attempt.size_bytes * terms.limit_s_per_byte

    def is_exceeded(self, attempt: JudgedAttempt, now_s: float) -> bool:
        """Whether the attempt has taken longer than is expected of it; ``now_s`` is the run's clock."""
        limit_s = self.expected_s(attempt)
        return limit_s is not None and now_s - attempt.began_s > limit_s


class WatchedAttempts:
    """The watched attempts and their evidence. ``own_s``: the clock without our own process's pauses.

    ``live``: all attempts in flight, by key; the policy adds and removes them.
    """

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.live: dict[int, JudgedAttempt] = {}
        self._watched: dict[int, JudgedAttempt] = {}  # by column
        self._keys: list[int] = []  # the keys of the last check's attempts
        self._columns: list[int] = []  # the columns of those attempts that are watched
        self._is_young = True  # whether an attempt was not watched yet, or had no first byte
        self._evidence: Evidence | None = None
        self._refit_s = -math.inf
        self._supposes_sizes = False  # whether any attempt has a supposed size
        self._dips: dict[str, deque[float]] = {}  # by host, the seconds of its last dips
        self._longest_s: dict[str, float] = {}  # by host, those of the longest

    def expect_change(self) -> None:
        """Let the next look go over all attempts, as an attempt began or ended."""
        self._is_young = True

    def expect_news(self) -> None:
        """Make the bars anew at the next look, as the normal speed of a host is known now."""
        self._refit_s = -math.inf

    def note_progress(self, now_s: float, own_s: float, attempts: "Collection[Live]") -> bool:
        """Write down the progress of all attempts that are old enough. Returns whether there are any."""
        keys = [attempt.key for attempt in attempts]
        watched: Collection[Live] = attempts
        if self._is_young or keys != self._keys:
            watched = self._give_columns(own_s, attempts)
            self._keys = keys
        elif len(self._columns) < len(attempts):
            has_column = {attempt.key for attempt in self._watched.values()}
            watched = [attempt for attempt in attempts if attempt.key in has_column]
        if not self._columns or self._evidence is None:
            return False
        received = [attempt.received for attempt in watched]
        if self._supposes_sizes:
            self._correct_supposed_sizes(watched)
        self._evidence.observe(own_s, self._columns, received, [attempt.held_s(now_s) for attempt in watched])
        for column, lasted_s in self._evidence.dips:
            if (attempt := self._watched.get(column)) is not None:
                self._dips.setdefault(attempt.host, deque(maxlen=RECENT_DIPS)).append(lasted_s)
                self._longest_s[attempt.host] = max(lasted_s, self._longest_s.get(attempt.host, 0.0))
        if own_s - self._refit_s >= max(REFIT_S, len(watched) * REFIT_EACH_S):
            self._refit_s = own_s
            self._learn_from_running(own_s, watched)
        return True

    def drop(self, attempt: JudgedAttempt) -> None:
        """Stop watching an attempt that is over."""
        self._is_young = True
        if attempt.column is not None and self._evidence is not None:
            self._evidence.drop(attempt.column)
            del self._watched[attempt.column]

    def judge(self, attempt: JudgedAttempt) -> None:
        """Set the attempt's bar in the evidence, unless the facts behind it are unchanged."""
        if attempt.size_bytes is None:
            self._suppose_size(attempt)
        facts = self.bars.facts(attempt)
        if facts == attempt.judged or self._evidence is None or attempt.column is None:
            return
        attempt.judged = facts
        fit, size_bytes, *_ = facts
        size = math.nan if size_bytes is None else float(size_bytes)
        terms = None if fit is None else self.bars.terms(attempt, fit, size)
        self._evidence.judge(attempt.column, size, terms)

    def _suppose_size(self, attempt: JudgedAttempt) -> None:
        """Suppose that a file of unknown size is as large as the host's files usually are."""
        attempt.size_bytes = self.bars.fresh.usual_bytes(attempt.host)
        if attempt.size_bytes is not None:
            attempt.is_size_supposed = self._supposes_sizes = True

    def _correct_supposed_sizes(self, watched: "Iterable[Live]") -> None:
        """Suppose twice the bytes that have come, if they have reached the supposed size."""
        for seen in watched:
            attempt = self.live[seen.key]
            if attempt.is_size_supposed and seen.received >= (attempt.size_bytes or 0):
                attempt.size_bytes = 2 * seen.received
                self.judge(attempt)

    @property
    def now_s(self) -> float:
        """The time of the last look at the attempts, on the policy's own clock."""
        return -math.inf if self._evidence is None else self._evidence.now_s

    def suspects(self) -> list[JudgedAttempt]:
        """The attempts that are far too slow over every window."""
        if self._evidence is None:
            return []
        return [self._watched[column] for column in self._evidence.suspects()]

    def lame(self) -> list[JudgedAttempt]:
        """The attempts whose connections are slower than usual."""
        return [] if self._evidence is None else [self._watched[column] for column in self._evidence.lame()]

    def find_evidence(self, attempt: JudgedAttempt) -> "tuple[Evidence, int]":
        """The evidence about a watched attempt, and its column there."""
        assert self._evidence is not None
        assert attempt.column is not None
        return self._evidence, attempt.column

    def remaining_s(self, attempt: JudgedAttempt | None) -> float | None:
        """Seconds that the attempt still needs at its present rate; None if that is not known (yet)."""
        if attempt is None or attempt.column is None or attempt.size_bytes is None or self._evidence is None:
            return None
        return self._evidence.remaining_s(attempt.column)

    def dip_s(self, host: str) -> float:
        """Seconds for which attempts at ``host`` are slow now and then, before they are fast again."""
        dips = self._dips.get(host, ())
        return min(max(dips), MOST_DIP_S) if len(dips) == RECENT_DIPS else 0.0

    def fade_s(self, host: str) -> float:
        """The longest time for which an attempt at ``host`` was slow and came back by itself; 0: few have."""
        is_usual = len(self._dips.get(host, ())) >= FEW_DIPS
        return min(self._longest_s[host], MOST_FADE_S) if is_usual else 0.0

    def short_paces(self, host: str) -> dict[int, float]:
        """The paces of the watched attempts of ``host`` over the last second, by key."""
        by_column = [] if self._evidence is None else self._evidence.short_paces()
        return {
            attempt.key: pace
            for column, attempt in self._watched.items()
            if attempt.host == host and (pace := by_column[column]) is not None
        }

    def pace(self, attempt: JudgedAttempt | None) -> tuple[float, ...] | None:
        """The pace of the attempt over three windows, 1 being normal; None if it is not known."""
        if attempt is None or attempt.column is None or self._evidence is None:
            return None
        return self._evidence.paces()[attempt.column]

    def paces_by_host(self, hosts: Collection[str]) -> dict[str, list[tuple[float, ...]]]:
        """The known paces of all watched attempts of these hosts."""
        paces: dict[str, list[tuple[float, ...]]] = {host: [] for host in hosts}
        by_column = [] if self._evidence is None else self._evidence.paces()
        for column, attempt in self._watched.items():
            pace = by_column[column]
            if pace is not None and attempt.host in paces:
                paces[attempt.host].append(pace)
        return paces

    def find_falls(self) -> "tuple[Evidence, dict[int, Fall]] | None":
        """The evidence, and the attempts that became slow, by column.

        None while there is nothing to learn: no later request for an object, and too few that became slow.
        """
        falls = {} if self._evidence is None else self._evidence.falls()
        is_first = len(falls) < LEAST_FALLEN and all(attempt.asks == 1 for attempt in self.live.values())
        return None if self._evidence is None or is_first else (self._evidence, falls)

    def _give_columns(self, own_s: float, attempts: "Iterable[Live]") -> "list[Live]":
        """Give a column to each attempt that has become old enough. Returns those that have one, in order.

        The evidence keeps its numbers in arrays, and a column is an attempt's index there. Young attempts get
        none, because most small files end before they can be judged. ``_columns`` is made anew. ``_is_young``
        says that this has to be done again at the next check, as one is too young or has no first byte yet.
        ``own_s`` is the policy's own clock, which stands still while the process does.
        """
        watched = []
        self._columns.clear()
        self._is_young = False
        for seen in attempts:
            attempt = self.live.get(seen.key)
            if attempt is None:
                continue
            if attempt.column is None and own_s - attempt.start_s >= WATCHED_S:
                self._give_column(attempt)
            if attempt.column is None:
                self._is_young = True
                continue
            if attempt.first_s is None:
                self._is_young = True
                self._note_first_byte(attempt, seen, own_s)
            self._columns.append(attempt.column)
            watched.append(seen)
        return watched

    def _give_column(self, attempt: JudgedAttempt) -> None:
        if self._evidence is None:
            from cfetch.straggler.evidence import Evidence  # numpy takes 0.1 s: not for a run of small files

            self._evidence = Evidence()
        attempt.column = self._evidence.watch(attempt.start_s)
        self._watched[attempt.column] = attempt
        self.judge(attempt)

    def _note_first_byte(self, attempt: JudgedAttempt, seen: "Live", own_s: float) -> None:
        if seen.first_byte_s is None:
            if seen.connecting_since_s is None:  # else nobody has heard the request yet
                self.bars.feedback.note_silence(attempt.key, own_s - attempt.start_s)
            return
        attempt.first_s = max(seen.first_byte_s - attempt.began_s, 0.0)
        self.bars.feedback.note_answer(attempt.key, attempt.first_s, is_proven=seen.carried_bytes > 0)
        evidence, column = self.find_evidence(attempt)
        evidence.flows(column, attempt.start_s + attempt.first_s)

    def _learn_from_running(self, own_s: float, watched: "Iterable[Live]") -> None:
        """Learn the normal speed from the attempts under way, and make their bars anew."""
        rates: dict[str, list[float]] = {}
        firsts: dict[str, list[float]] = {}
        for seen in watched:
            attempt = self.live[seen.key]
            age_s = own_s - attempt.start_s
            if age_s < GUARD_S:
                continue
            if attempt.first_s is not None:
                firsts.setdefault(attempt.host, []).append(attempt.first_s)
            rate_bps = seen.received / max(age_s - (attempt.first_s or 0.0), TICK_S)
            rates.setdefault(attempt.host, []).append(rate_bps)
        fits = {host: fit_of_running(of_host, firsts.get(host, ())) for host, of_host in rates.items()}
        self.bars.fresh.running({host: fit for host, fit in fits.items() if fit is not None})
        for attempt in self._watched.values():
            self.judge(attempt)
