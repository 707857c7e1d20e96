"""The rules that need no baseline: for an attempt that has stopped, and a check that came too late.

The stall rule works from the first file on, when there is no median yet: for a single file, or for all
connections stuck at once.
"""

from collections.abc import Iterable
from typing import Protocol

MAX_GAP_S = 5.0  # ten of the engine's half-second ticks: only a stopped machine is so late, not a busy loop


class Watched(Protocol):
    """The facts of an attempt in flight for the stall rule; times are seconds on the monotonic clock."""

    @property
    def key(self) -> int:
        """The key of the attempt: its entry's id, or a negative number for a helper."""

    @property
    def request_s(self) -> float:
        """When the request was sent."""

    @property
    def last_byte_s(self) -> float | None:
        """When the reply's latest byte (head or body) arrived; None while there is no reply."""


def find_stalled(
    attempts: Iterable[Watched], now_s: float, *, stall_timeout_s: float, reply_timeout_s: float
) -> tuple[int, ...]:
    """The keys of the attempts that got no byte for ``stall_timeout_s``, or no reply for ``reply_timeout_s``.

    The caller leaves out attempts that our own side holds back (a full disk buffer, a rate limit): their
    silence is ours. A silence as long as the time-out is not yet too long; ``math.inf`` switches a rule off.
    """
    return tuple(
        attempt.key
        for attempt in attempts
        if (
            now_s - attempt.request_s > reply_timeout_s
            if attempt.last_byte_s is None
            else now_s - attempt.last_byte_s > stall_timeout_s
        )
    )


def gap_s(previous_s: float | None, now_s: float) -> float:
    """Seconds lost between two checks if they are further apart than ``MAX_GAP_S``, else 0.

    A suspended machine, a stopped process or a blocked loop makes all servers look slow: a check after a gap
    flags no attempt.
    """
    lost_s = 0.0 if previous_s is None else now_s - previous_s
    return lost_s if lost_s > MAX_GAP_S else 0.0
