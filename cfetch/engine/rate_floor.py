"""Carries out ``--min-rate``: measures the attempts under way, and breaks off those that are below it."""

from math import inf

from cfetch.base.events import Listener, MinRateWaived
from cfetch.engine.attempt import Attempt, BreakOff, Grounds
from cfetch.engine.attempts_under_way import AttemptsUnderWay, AttemptUnderWay
from cfetch.straggler.min_rate import LOOK_S, Measured, MinRate


class RateFloor:
    """The minimum rate of one run."""

    def __init__(self, min_bps: int, max_attempts: int, in_flight: AttemptsUnderWay, emit: Listener) -> None:
        self._min_bps = min_bps
        self._rule = MinRate(min_bps)
        self._max_attempts = max_attempts
        self._in_flight = in_flight
        self._emit = emit
        self._looked_s = -inf

    def break_off_slow(self, now_s: float) -> None:
        """Break off attempts that are too slow; harmless to call more often than every ``LOOK_S``."""
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        in_flight = [flight for flight in self._in_flight if flight.attempt.reply.response is not None]
        ruling = self._rule.judge([self._measure(flight, now_s) for flight in in_flight])
        for slow in ruling.too_slow:
            attempt = self._in_flight.attempt(slow.key)
            left_bytes = _count_left(attempt)
            expected_s = (attempt.received + (left_bytes or 0)) / self._min_bps
            is_known = left_bytes is not None and slow.rate_bps > 0
            projected_s = round(now_s + (left_bytes or 0) / slow.rate_bps, 4) if is_known else None
            attempt.break_off(BreakOff.BELOW_MIN_RATE, Grounds(round(expected_s, 4), projected_s, None))
        for waived in ruling.waived:
            path = None if waived.key is None else self._in_flight.attempt(waived.key).assignment.entry.path
            self._emit(
                MinRateWaived(
                    t_s=now_s,
                    host=waived.host,
                    path=path,
                    connections=waived.connections,
                    min_rate_bps=self._min_bps,
                )
            )

    def forgive(self) -> None:
        """Begin all windows anew, as our own process stood still."""
        self._rule.forgive()

    def _measure(self, flight: AttemptUnderWay, now_s: float) -> Measured:
        attempt, transfer = flight
        return Measured(
            key=attempt.key,
            entry_id=attempt.id,
            host=attempt.assignment.host,
            start_s=attempt.start_s,
            busy_s=now_s - attempt.start_s - attempt.held_s(now_s),
            received=attempt.received,
            left_bytes=_count_left(attempt),
            may_end=attempt.reason is None
            and not attempt.is_held
            and not transfer.tries.has_one_failure_left(self._max_attempts),
        )


def _count_left(attempt: Attempt) -> int | None:
    end = attempt.size_bytes if attempt.to_byte is None else attempt.to_byte
    return None if end is None else max(0, end - attempt.from_byte - attempt.received)
