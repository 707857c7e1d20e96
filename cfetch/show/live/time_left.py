"""How long a run still takes: a function of the run's numbers at one moment. Pure.

Two things bound the end from below: all missing bytes at the present rate, and the slowest file under way.
The later of them is the estimate; while others wait, a large file may hope for segments, as it will get
them. A file under way ends at its own rate, unless its attempt will be cancelled as a straggler: then the
rest of its limit and a fresh attempt are left. Only an attempt that may still be cancelled gets that hope.
One that is spared, has long passed its limit, is a second restart, or runs during a slowdown gets none,
because the same hope would be repeated until the end.
"""

import math
from typing import NamedTuple

from cfetch.base.events import ActiveAttempt

LEAST_BPS = 1.0  # an average that sinks towards 0 B/s stands for an attempt that brings nothing
OVERDUE = 1.5  # of its limit; a policy that wanted to cancel an attempt would have done so before
MOST_RESTARTS = 2  # if two restarts did not make a file faster, a third one is no plan


class TimeLeft(NamedTuple):
    """Seconds until the end; ``is_rough``: by counting files, or by hoping for a restart."""

    seconds: float
    is_rough: bool


class Rest(NamedTuple):
    """The part of a run that is not done: ``waiting`` files were not begun, ``left_bytes`` are missing.

    ``left_bytes`` None: sizes are unknown, and ``left_files`` at ``files_per_s`` decide instead.
    ``median_bps``: the normal speed of one file, where known. ``cancels``: whether slow attempts are
    cancelled now, which they are not without mitigation and during a slowdown.
    """

    active: list[ActiveAttempt]
    waiting: int
    left_bytes: int | None
    rate_bps: float
    left_files: int
    files_per_s: float
    median_bps: float | None
    cancels: bool
    is_rough: bool = False  # left_bytes is an estimate
    connections: int = 1  # that a large file may have once nothing else waits


def estimate_time_left(rest: Rest) -> TimeLeft | None:
    """Seconds left; None if there is no data for an estimate, or if something stands still."""
    slowest = _slowest_file(rest)
    if slowest is None:
        return None
    if not rest.waiting and rest.active:
        return slowest if slowest.seconds > 0 else None
    work = _whole_work(rest)
    if work is None:
        return None
    if slowest.seconds > work.seconds and rest.connections > 1:
        # once nothing waits, idle slots bring segments of the file that would be last
        helped_s = work.seconds + (slowest.seconds - work.seconds) / rest.connections
        return TimeLeft(helped_s, True)
    return max(work, slowest, key=lambda left: left.seconds)


def _whole_work(rest: Rest) -> TimeLeft | None:
    if rest.left_bytes is None:
        return TimeLeft(rest.left_files / rest.files_per_s, True) if rest.files_per_s > 0 else None
    return TimeLeft(rest.left_bytes / rest.rate_bps, rest.is_rough) if rest.rate_bps >= LEAST_BPS else None


def _slowest_file(rest: Rest) -> TimeLeft | None:
    """The file under way that ends last; None if one of them would never end."""
    slowest = TimeLeft(0.0, False)
    is_rough = False
    for attempt in rest.active:
        left = _one_file(attempt, rest.median_bps if rest.cancels else None)
        if left is None:
            is_rough = True  # its size is not known
        elif math.isinf(left.seconds):
            return None
        else:
            slowest = max(slowest, left, key=lambda known: known.seconds)
    return TimeLeft(slowest.seconds, slowest.is_rough or is_rough)


def _one_file(attempt: ActiveAttempt, fresh_bps: float | None) -> TimeLeft | None:
    if attempt.size_bytes is None:
        return None
    left_bytes = max(0, attempt.size_bytes - attempt.bytes)
    if not left_bytes:
        return TimeLeft(0.0, False)
    alone_s = left_bytes / attempt.rate_bps if attempt.rate_bps >= LEAST_BPS else math.inf
    limit_s = attempt.expected_s
    is_hopeless = attempt.is_spared or attempt.n > MOST_RESTARTS
    if not fresh_bps or limit_s is None or is_hopeless or attempt.elapsed_s > OVERDUE * limit_s:
        return TimeLeft(alone_s, False)
    restarted_s = max(0.0, limit_s - attempt.elapsed_s) + attempt.size_bytes / fresh_bps
    return TimeLeft(alone_s, False) if alone_s <= restarted_s else TimeLeft(restarted_s, True)
