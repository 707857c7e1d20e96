"""How long an entry with several attempts held its slot, and how long it would have if left alone. Pure.

On a full link an attempt that was cancelled counts for twice its time at most, as a slow rate there foretells
no more than as much again. An entry with helpers counts as mitigated only if its own attempt was far slower
than the helpers: the gain of segments over good connections is not due to mitigation. So if an attempt was
cancelled that was about as fast as its helpers, they would have brought their ranges just as they did.
"""

from itertools import pairwise
from statistics import median
from typing import NamedTuple

from cfetch.base.records import CANCELLED, AttemptRecord, FileRecord
from cfetch.show.saved_time import list_verdicts, running_rate_bps, shows_its_rate

FADED = 1 / 8  # of the attempt's mean rate
SLOW = 0.5  # below this share of the helpers' rate, an attempt was rescued, and not only helped


def held_s(attempt: AttemptRecord, after: AttemptRecord) -> float:
    """Seconds for which an attempt held its slot; after a cancelled attempt, up to the next start."""
    end_s = after.start_s if attempt.outcome in CANCELLED else attempt.end_s
    return end_s - attempt.start_s


class LeftAlone(NamedTuple):
    """An entry without mitigation: ``held_s`` in its place; ``keeps_helpers``: they bring what they did."""

    held_s: float
    keeps_helpers: bool


def find_left_alone(
    record: FileRecord, own: list[AttemptRecord], helpers: list[AttemptRecord]
) -> LeftAlone | None:
    """How long the entry would have held its slot without mitigation; None: the same or unknown."""
    before_s = 0.0
    for attempt in own:
        was_rescued = _was_rescued(attempt, helpers)
        if attempt.outcome in CANCELLED or was_rescued:
            end_s = _projected_end_s(record, attempt, brings_all=was_rescued)
            if end_s is None:
                return None
            if attempt.full_link:  # of which it gets more when others end
                end_s = min(end_s, 2 * attempt.end_s - attempt.start_s)
            if not was_rescued:
                end_s = max([end_s, *(helper.end_s for helper in helpers)])
            return LeftAlone(before_s + max(0.0, end_s - attempt.start_s), not was_rescued)
        if (
            attempt.outcome == "done"
        ):  # of its range: alone it would have gone on; helpers brought what follows
            return None
        before_s += attempt.end_s - attempt.start_s
    return None


def _was_rescued(attempt: AttemptRecord, helpers: list[AttemptRecord]) -> bool:
    """Whether helpers have taken over a part of the bytes of an attempt that was slow from its start.

    If it was fast for a while, it shares a link with the helpers, or it only fades; and on a full link it
    would have had the share of the helpers.
    """
    if any(helper.full_link for helper in helpers):
        return False
    rates = [running_rate_bps(helper) for helper in helpers if helper.start_s < attempt.end_s]
    if not rates or not attempt.bytes or attempt.first_byte_s is None:
        return False
    mean_bps = attempt.bytes / max(attempt.end_s - attempt.first_byte_s, 0.001)
    return max(mean_bps, running_rate_bps(attempt)) < SLOW * median(rates)


def _projected_end_s(record: FileRecord, attempt: AttemptRecord, *, brings_all: bool) -> float | None:
    """When ``attempt`` would have completed its range, or the file if it ``brings_all``; None: unknown."""
    rate_bps = running_rate_bps(attempt)
    if attempt.outcome not in CANCELLED:
        left_bytes = record.bytes - attempt.from_byte - attempt.bytes
        return attempt.end_s + left_bytes / rate_bps if shows_its_rate(attempt) else None
    end_s = next(
        (verdict.projected_s for verdict in list_verdicts(record) if verdict.attempt is attempt), None
    )
    if end_s is None or attempt.to_byte is None or not brings_all:
        return end_s
    others_bytes = record.bytes - attempt.to_byte  # helpers had taken them over before
    return end_s + others_bytes / rate_bps if rate_bps > 0 else end_s


def find_fade_s(attempt: AttemptRecord, least_s: float) -> float:
    """The longest time over ``least_s`` for which an attempt stood nearly still and came to its end; or 0."""
    first_s = attempt.first_byte_s
    if attempt.outcome != "done" or first_s is None or attempt.end_s - first_s <= least_s:
        return 0.0
    faded_bps = FADED * attempt.bytes / (attempt.end_s - first_s)
    samples = [point for point in attempt.samples if point[0] > first_s]
    points = [(first_s, 0), *samples, (attempt.end_s, attempt.bytes)]
    return max(
        lasted_s if (lasted_s := later_s - sooner_s) > least_s and more - less < faded_bps * lasted_s else 0.0
        for (sooner_s, less), (later_s, more) in pairwise(points)
    )
