"""Decides which attempts that look too slow are stragglers, and which are slow because the network is.

The evidence names suspects. Each must still be too slow if the bytes that its cancellation loses are counted.
Then ``ruling.rule`` compares the suspects of a host with the other attempts of that host. Attempts
that are to blame are named at once; in doubt one at a time is tried; if all are slow together only a probe
is cancelled.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cfetch.straggler.common_cause import LATELY_S, LEAST_CROWD, NORMAL, Crowd, Suspect, Trials
from cfetch.straggler.entries import EntryHistory
from cfetch.straggler.fresh_attempt import MOST_HOSTS
from cfetch.straggler.watched_attempts import REFIT_S, JudgedAttempt, WatchedAttempts

if TYPE_CHECKING:
    from cfetch.straggler.policy import Live

MANY = 64  # excused attempts; while there are more, they are not judged at every check
MOST_OF_IT = 0.75  # of a file's duration
RECENT_NORMAL = 256  # witnesses of a host: its files that ended normally last


class SuspectJudge:
    """The suspects of one run, and since when they are suspect."""

    def __init__(self, watch: WatchedAttempts, entries: EntryHistory) -> None:
        self._watch = watch
        self._entries = entries
        self._suspected: dict[int, float] = {}  # key -> when it was first seen to be too slow
        self._normal: dict[str, deque[float]] = {}  # host -> from when on its normal files are witnesses
        self._trials = Trials()
        self._next_s = -math.inf  # the next look for stragglers
        self._held_back: str | None = None
        self.is_general = False  # whether most attempts of a host were slow at the last look
        self.tried: list[int] = []  # keys cancelled at the last look to see if a fresh attempt is faster

    def add_witness(self, host: str, start_s: float, duration_s: float) -> None:
        """Note that a file of ``host`` that began at ``start_s`` has ended normally after ``duration_s``.

        It is a witness for suspects that became slow in the first quarter of its duration or earlier: had the
        network been slow for the rest (``MOST_OF_IT``), its end would not have been normal.
        """
        normal = self._normal.get(host)
        if normal is None:
            if len(self._normal) >= MOST_HOSTS:
                del self._normal[next(iter(self._normal))]
            normal = self._normal[host] = deque(maxlen=RECENT_NORMAL)
        normal.append(start_s + (1.0 - MOST_OF_IT) * duration_s)

    def rule(self, own_s: float, attempts: "Iterable[Live]") -> tuple[list[int], str | None]:
        """Keys of the attempts to break off, and the reason, in words, why other slow ones are spared."""
        self.tried = []
        if own_s < self._next_s:
            return [], self._held_back
        suspected = self._watch.suspects()
        seen_by_key = {attempt.key: attempt for attempt in attempts} if suspected else {}
        by_host: dict[str, list[Suspect]] = {}
        since: dict[int, float] = {}
        if suspected:
            from cfetch.straggler.suspicion import leave_out_patient, make_suspect  # most checks find none
        for attempt in suspected:
            suspect = make_suspect(attempt, seen_by_key.get(attempt.key), self._watch, own_s)
            if suspect is not None:
                since[attempt.key] = self._suspected.get(attempt.key, own_s)
                by_host.setdefault(attempt.host, []).append(suspect._replace(seen_s=since[attempt.key]))
        self._suspected = since
        by_host = leave_out_patient(by_host, self._watch) if by_host else by_host
        if not by_host:
            return [], None
        from cfetch.straggler.ruling import rule  # most checks find no suspect

        guilty: list[int] = []
        excused: dict[str, int] = {}
        for host, paces in self._watch.paces_by_host(by_host).items():
            ruling = rule(by_host[host], Crowd(paces, self._normal.get(host, ())), own_s)
            guilty += ruling.guilty
            self.tried += self._trials.choose(ruling, own_s, self._runs_well(self._trials.key))
            if ruling.excused:
                excused[host] = ruling.excused
        if sum(excused.values()) > MANY:
            self._next_s = own_s + REFIT_S
        self._held_back = self._explain(excused)
        return guilty + self.tried, self._held_back

    def is_behind(self, attempt: JudgedAttempt, limit_s: float) -> bool:
        """Whether a watched attempt's rest takes longer than ``limit_s`` at the rate of the last second.

        It is not behind while it gets to speed, nor while the other attempts at its host are slow too. This
        is a weaker condition than for a straggler: nothing is cancelled because of it.
        """
        if attempt.column is None or attempt.first_s is None:
            return False
        evidence, column = self._watch.find_evidence(attempt)
        begins_s = max(evidence.terms(column).guard_s, attempt.first_s + LATELY_S)
        if not evidence.age_s(column) >= begins_s or evidence.accelerates(column):
            return False
        if evidence.rest_s(column) <= limit_s:
            return False
        began_s = self._normal.get(attempt.host, ())
        others = sum(then_s >= self._watch.now_s - LATELY_S for then_s in began_s)
        paces = self._watch.paces_by_host([attempt.host])[attempt.host]
        return Crowd(paces, began_s).network(others) >= NORMAL

    def find_lame(self) -> list[int]:
        """Keys of attempts whose connections are slow while the others at their host are not.

        They are not slow enough to be broken off, but a new connection would bring the next file sooner.
        """
        lame = self._watch.lame()
        paces = self._watch.paces_by_host({attempt.host for attempt in lame}) if lame else {}
        good = {
            host
            for host, of_host in paces.items()
            if len(of_host) >= LEAST_CROWD and Crowd(of_host, ()).network(0) >= NORMAL
        }
        return [attempt.key for attempt in lame if attempt.host in good]

    def _runs_well(self, key: int | None) -> bool:
        """Whether the entry has ended or the attempt has its usual pace."""
        if key is None or self._watch.now_s == -math.inf:
            return False
        if self._entries.has_finished(key):
            return True
        pace = self._watch.pace(self._watch.live.get(key))
        return pace is not None and min(pace) >= NORMAL

    def _explain(self, excused: dict[str, int]) -> str | None:
        alive_by_host = (
            Counter(attempt.host for attempt in self._watch.live.values()) if excused else Counter()
        )
        self.is_general = any(2 * slow > alive_by_host[host] for host, slow in excused.items())
        slow = sum(excused.values())
        if slow < 2:
            return None
        if len(excused) == 1:
            (host,) = excused
            alive = alive_by_host[host]
            if alive < len(self._watch.live):
                return f"{slow} of {alive} downloads from {host} are slow at once: the host, not the files"
        return f"{slow} of {len(self._watch.live)} downloads are slow at once: the network, not the files"
