"""A breaker keeps work away from a failing host or volume, and lets a probe through now and then. Pure.

State by state (M. Nygard, "Release It!", 2nd edition, section 5.2)::

    state       success   failure                           time
    closed      closed    closed; open at the threshold     -
    open        closed    open (a late failure)             half-open when the pause is over
    half-open   closed    open, the pause doubled           -

A breaker is a value: every event makes a new one. ``opened`` counts the pauses since the last success.
"""

from enum import Enum

import msgspec

from cfetch.base.backoff import double_from

THRESHOLD = 8  # failures in a row: half of the usual 16 connections may break together by chance
FIRST_PAUSE_S = 0.5  # a proxy that restarts is back in about a second
LONGEST_PAUSE_S = 30.0  # after a long outage, two probes a minute


class BreakerState(Enum):
    """The state of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker(msgspec.Struct, frozen=True, gc=False):
    """A breaker's state; ``until_s`` is the end of the pause, on the clock of the caller's ``now_s``."""

    position: BreakerState = BreakerState.CLOSED
    failures: int = 0
    opened: int = 0
    until_s: float = 0.0

    def fail(
        self, now_s: float, *, threshold: int = THRESHOLD, longest_s: float = LONGEST_PAUSE_S
    ) -> "Breaker":
        """Count a failure of work that was let through. ``threshold`` failures in a row open the breaker.

        ``longest_s`` bounds the pause.
        """
        match self.position:
            case BreakerState.CLOSED if self.failures + 1 < threshold:
                return Breaker(failures=self.failures + 1)
            case BreakerState.OPEN:
                return self
        pause_s = double_from(FIRST_PAUSE_S, self.opened, longest_s)
        return Breaker(BreakerState.OPEN, self.failures + 1, self.opened + 1, now_s + pause_s)

    def opens_s(self, now_s: float) -> float:
        """The time when work may start: ``now_s``, the end of the pause, or never while a probe runs."""
        match self.position:
            case BreakerState.OPEN:
                return max(now_s, self.until_s)
            case BreakerState.HALF_OPEN:
                return float("inf")
        return now_s

    def admit(self) -> "Breaker":
        """Let work through; the first work after a pause is the probe."""
        if self.position is not BreakerState.OPEN:
            return self
        return msgspec.structs.replace(self, position=BreakerState.HALF_OPEN)

    def end_probe(self, now_s: float) -> "Breaker":
        """End the probe without a result: another may follow at once."""
        if self.position is not BreakerState.HALF_OPEN:
            return self
        return msgspec.structs.replace(self, position=BreakerState.OPEN, until_s=now_s)


CLOSED = Breaker()
