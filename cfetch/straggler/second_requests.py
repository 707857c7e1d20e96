"""Decides which files get a second request for the whole file beside the first one; the faster one wins.

A second request is for a file that cannot be split, if a slot is idle. Its gain is *sure* if the usual pace
is known, others keep it, and the first request is far behind. Otherwise the file, the host or this one
connection may be slow. Then the second request is a *trial*: one at a time at a host, and it is ended as soon
as it has shown that it would not end clearly sooner.
"""

from cfetch.straggler.attempt_limits import PADDING_S
from cfetch.straggler.common_cause import LATELY_S
from cfetch.straggler.feedback import Budget
from cfetch.straggler.suspects import SuspectJudge
from cfetch.straggler.watched_attempts import JudgedAttempt, WatchedAttempts

TRIED_S = 10.0  # the least rest that is worth a trial: on a full link a trial costs the first some 0.3 s
TRIED_UNSIZED_S = 3.0  # the least age for a trial if the size is unknown: the rest may be as long again
SHOWS_S = 0.6  # its bytes must have flowed for so long: two windows show its rate
MOST_SILENT_S = 5.0  # a trial without a first byte for so long is ended
SOONER = 0.8  # of the first request's rest: less gain is not worth the bytes
FASTER = 2.0  # times the first request's rate, if the size is unknown
AGAIN = 3.0  # times the age at the last trial is the age at the next: after 1, 3, 10, 30 s
TRIAL_BYTES = 4 << 20  # the budget's charge for a trial: it seldom brings more before it ends or wins


class SecondRequestChooser:
    """The second requests of one run."""

    def __init__(self, watch: WatchedAttempts, court: SuspectJudge, budget: Budget) -> None:
        self._watch = watch
        self._court = court
        self._budget = budget
        self._tried_s: dict[int, float] = {}  # the age at which an entry's attempt was last tried

    def is_sure(self, key: int) -> bool:
        """Implements ``policy.SecondRequests``."""
        attempt = self._watch.live.get(key)
        if attempt is None or attempt.flagged or not attempt.size_bytes:
            return False
        limit_s = self._limit_s(attempt)
        if limit_s is None or not self._court.is_behind(attempt, limit_s):
            return False
        if not self._budget.allows_second(attempt.size_bytes):
            return False
        attempt.spared_until_s = self._watch.now_s + limit_s
        return True

    def is_trial(self, key: int) -> bool:
        """Implements ``policy.SecondRequests``."""
        attempt = self._watch.live.get(key)
        if attempt is None or attempt.flagged or attempt.column is None or attempt.first_s is None:
            return False
        evidence, column = self._watch.find_evidence(attempt)
        age_s = evidence.age_s(column)
        begins_s = LATELY_S + attempt.first_s if attempt.size_bytes else TRIED_UNSIZED_S
        begins_s = max(begins_s, AGAIN * self._tried_s.get(key, 0.0))
        if age_s < begins_s or evidence.accelerates(column):
            return False
        usual_s = self._limit_s(attempt) if self._watch.bars.fresh.is_measured(attempt.host) else None
        if attempt.size_bytes and evidence.rest_s(column) < max(TRIED_S, usual_s or 0.0):
            return False
        if not self._budget.allows_second(TRIAL_BYTES):
            return False
        self._tried_s[key] = age_s
        return True

    def is_worth(self, key: int, second: int) -> bool:
        """Implements ``policy.SecondRequests``."""
        first, other = self._watch.live.get(key), self._watch.live.get(second)
        if first is None or other is None or first.column is None or other.column is None:
            return True
        evidence, column = self._watch.find_evidence(other)
        age_s = evidence.age_s(column)
        if other.first_s is None:
            return age_s < MOST_SILENT_S
        if age_s - other.first_s < SHOWS_S or evidence.accelerates(column):
            return True
        if first.size_bytes and other.size_bytes:
            return evidence.rest_s(column) < SOONER * evidence.rest_s(first.column)
        return evidence.lately_bps(column) > FASTER * evidence.lately_bps(first.column)

    def _limit_s(self, attempt: JudgedAttempt) -> float | None:
        """Seconds that the whole file may take over another connection; None if unknown."""
        fit = self._watch.bars.fresh.of(attempt.host, attempt.size_bytes) if attempt.size_bytes else None
        if fit is None or not attempt.size_bytes:
            return None
        return self._watch.bars.multiplier * fit.fresh_s(attempt.size_bytes) + PADDING_S
