"""Why the last entry of a run took so long: it came slowly, or was only larger than the others. Pure."""

from collections.abc import Sequence
from itertools import accumulate
from statistics import median

import msgspec

from cfetch.base.records import AttemptRecord, FileRecord, Tail

SLOW = 0.5  # a slow file has less than this share of the usual rate of its host
NO_FASTER = 1.5  # up to this multiple of the first attempt's rate, a fresh attempt was no faster
OLD_S = 0.3  # a younger attempt may still be connecting


def explain_file(common: Tail, last: FileRecord, latest: Sequence[FileRecord], began_s: float) -> Tail:
    """Why the tail that began at ``began_s`` waited for ``last``: a slow or a large file, with figures.

    ``common``: what is known of the tail; ``latest``: the run's latest entries, by whose rates it is judged.
    """
    came = sum(
        attempt.bytes
        * max(0.0, attempt.end_s - max(attempt.start_s, began_s))
        / (attempt.end_s - attempt.start_s)
        for attempt in last.attempts
        if attempt.end_s > attempt.start_s
    )
    rate_bps = came / common.seconds
    usual = [
        _rate_bps(record.attempts[-1])
        for record in latest
        if record.host == last.host and record is not last and record.status == "done"
    ]
    usual_bps = median(usual) if usual else None
    is_slow = usual_bps is not None and rate_bps < SLOW * usual_bps
    first, *others = last.attempts
    fresh = sum(
        attempt.end_s - attempt.start_s >= OLD_S and _rate_bps(attempt) <= NO_FASTER * _rate_bps(first)
        for attempt in others
    )
    return msgspec.structs.replace(
        common,
        bound="slow file" if is_slow else "large file",
        rate_bps=round(rate_bps, 1),
        usual_bps=None if usual_bps is None else round(usual_bps, 1),
        fresh=fresh if is_slow else 0,
        helpers=sum(attempt.helper for attempt in last.attempts),
        failed=(last.error_kind or "unknown") if last.status == "failed" else None,
        at_once=_count_at_once(last),
    )


def _count_at_once(record: FileRecord) -> int:
    """The most attempts at the record's file that were under way at the same time."""
    spans = [(attempt.start_s, attempt.end_s) for attempt in record.attempts]
    steps = sorted(step for start_s, end_s in spans for step in ((start_s, 1), (end_s, -1)))
    return max(accumulate(step for _, step in steps), default=0)


def _rate_bps(attempt: AttemptRecord) -> float:
    return attempt.bytes / max(attempt.end_s - attempt.start_s, 0.001)
