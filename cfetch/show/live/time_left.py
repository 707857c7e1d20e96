"""How long a run still takes: a function of the run's numbers at one moment. Pure.

Two things bound the end from below: all missing bytes at the present rate, and the slowest file under way.
The later of them is the estimate. While others wait, a large file may hope for segments: the other files
come first, at the rate of all connections but its own, and then idle connections bring its rest. A file
under way ends at its own rate, unless its attempt will be cancelled as a straggler: then the rest of its
limit and a fresh attempt are left. Only an attempt that may still be cancelled gets that hope. One that is
spared, has long passed its limit, is a second restart, or runs during a slowdown gets none, because the
same hope would be repeated until the end.
"""

import math
from typing import NamedTuple

from cfetch.base.events import ActiveAttempt

LEAST_BPS = 1.0  # an average that sinks towards 0 B/s stands for an attempt that brings nothing
OVERDUE = 1.5  # of its limit; a policy that wanted to cancel an attempt would have done so before
SILENT_S = 5.0  # a reply may take as long to begin; an attempt without a rate is not yet stuck before
MOST_RESTARTS = 2  # if two restarts did not make a file faster, a third one is no plan


class TimeLeft(NamedTuple):
    """Seconds until the end; ``is_rough``: by counting files, or by hoping for a restart."""

    seconds: float
    is_rough: bool


class _Slowest(NamedTuple):
    """The file under way that ends last, and its missing bytes."""

    left: TimeLeft
    left_bytes: int


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
        return slowest.left if slowest.left.seconds > 0 else None
    work = _whole_work(rest)
    if work is None:
        return None
    if slowest.left.seconds > work.seconds and rest.connections > 1:
        return TimeLeft(_with_segments(rest, slowest, work.seconds), True)
    return max(work, slowest.left, key=lambda left: left.seconds)


def _with_segments(rest: Rest, slowest: _Slowest, work_s: float) -> float:
    """Seconds left if idle connections bring segments of the slowest file once nothing waits.

    Small files come slower than segments of a large one, as a connection waits for each of their replies. So
    the present rate does not hold for all bytes, and may be much too low for the large file.
    """
    alone_s = slowest.left.seconds
    at_most_s = work_s + (alone_s - work_s) / rest.connections
    own_bps = slowest.left_bytes / alone_s
    others_bps = rest.rate_bps - own_bps
    if rest.left_bytes is None or others_bps < LEAST_BPS:
        return at_most_s
    others_s = max(0, rest.left_bytes - slowest.left_bytes) / others_bps
    return min(at_most_s, others_s + max(0.0, alone_s - others_s) / rest.connections)


def _whole_work(rest: Rest) -> TimeLeft | None:
    if rest.left_bytes is None:
        return TimeLeft(rest.left_files / rest.files_per_s, True) if rest.files_per_s > 0 else None
    return TimeLeft(rest.left_bytes / rest.rate_bps, rest.is_rough) if rest.rate_bps >= LEAST_BPS else None


def _slowest_file(rest: Rest) -> _Slowest | None:
    """The file under way that ends last; None if one of them would never end."""
    slowest = _Slowest(TimeLeft(0.0, False), 0)
    is_rough = False
    for attempt in rest.active:
        left = _one_file(attempt, rest)
        if left is None:
            is_rough = True  # its size is not known
        elif math.isinf(left.seconds):
            return None
        elif left.seconds > slowest.left.seconds:
            slowest = _Slowest(left, (attempt.size_bytes or 0) - attempt.bytes)
    left = slowest.left
    return slowest._replace(left=TimeLeft(left.seconds, left.is_rough or is_rough))


def _one_file(attempt: ActiveAttempt, rest: Rest) -> TimeLeft | None:
    if attempt.size_bytes is None:
        return None
    left_bytes = max(0, attempt.size_bytes - attempt.bytes)
    if not left_bytes:
        return TimeLeft(0.0, False)
    fresh_bps = rest.median_bps if rest.cancels else None
    limit_s = attempt.expected_s
    bps = attempt.rate_bps
    if bps < LEAST_BPS and limit_s is None and attempt.elapsed_s < SILENT_S:
        bps = rest.rate_bps / len(rest.active)  # it has only begun, and may become as fast as the others
    alone_s = left_bytes / bps if bps >= LEAST_BPS else math.inf
    is_hopeless = attempt.is_spared or attempt.n > MOST_RESTARTS
    if not fresh_bps or limit_s is None or is_hopeless or attempt.elapsed_s > OVERDUE * limit_s:
        return TimeLeft(alone_s, False)
    restarted_s = max(0.0, limit_s - attempt.elapsed_s) + attempt.size_bytes / fresh_bps
    return TimeLeft(alone_s, False) if alone_s <= restarted_s else TimeLeft(restarted_s, True)
