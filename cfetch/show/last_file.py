"""Why other slots had no work while the last entries of a run came. Pure."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import median

import msgspec

from cfetch.base.records import AttemptRecord, FileRecord, Tail

SLOW = 0.5  # a slow file has less than this share of the usual rate of its host
NO_FASTER = 1.5  # up to this multiple of the first attempt's rate, a fresh attempt was no faster
OLD_S = 0.3  # a younger attempt may still be connecting
WAITED = 3  # entries: if this many begin in the tail, they had waited for a slot
AT_ONCE = 0.1  # share of the tail: entries that begin earlier may have begun together


def find_tail_cause(
    latest: Sequence[FileRecord],
    began_s: float,
    end_s: float,
    paused_s: Mapping[str, float],
    slots: int,
    segments: int,
) -> Tail:
    """Find what the tail from ``began_s`` to the last byte at ``end_s`` waited for, by the latest entries.

    ``paused_s``: the pauses of hosts; ``slots``: of the run; ``segments``: connections for one file at most.
    """
    seconds = end_s - began_s
    last = max(latest, key=lambda record: max(attempt.end_s for attempt in record.attempts))
    if last.status == "skipped":
        return Tail()  # its server was only asked whether it has changed: it has no rate, and no advice
    busy_s = sum(_overlap_s(record, began_s, end_s) for record in latest)
    middle_s = (began_s + end_s) / 2
    host = last.attempts[-1].mirror or last.host
    common = Tail(
        seconds=round(seconds, 3),
        idle_places=round(max(0.0, slots - busy_s / seconds), 1),
        files=sum(record.start_s <= middle_s <= record.end_s for record in latest),
        id=last.id,
        path=last.path,
        host=host,
        volume=last.volume,
        size_bytes=last.known_size_bytes,
        segments=segments,
    )
    begun = [record for record in latest if record.start_s > began_s + AT_ONCE * seconds]
    if sum((record.attempts[-1].mirror or record.host) == host for record in begun) >= WAITED:
        limit = max(1, round(busy_s / seconds))
        return msgspec.structs.replace(common, bound="host limit", limit=limit, id=None, path=None)
    waited_s = seconds - _overlap_s(last, began_s, end_s)
    is_paused = paused_s.get(host, 0.0) > 0
    if waited_s > seconds / 2 and not is_paused and len(last.attempts) == 1:
        # It was never tried before: it waited for another one, as for the first answer of their host.
        last = max(latest, key=lambda record: _overlap_s(record, began_s, end_s))
        common = msgspec.structs.replace(
            common, id=last.id, path=last.path, volume=last.volume, size_bytes=last.known_size_bytes
        )
    elif waited_s > seconds / 2:
        failed = [attempt.error for attempt in last.attempts if attempt.error]
        return msgspec.structs.replace(
            common, bound="pause" if is_paused else "retry", reason=failed[-1] if failed else None
        )
    return _explain_file(common, last, latest, began_s)


def _overlap_s(record: FileRecord, from_s: float, to_s: float) -> float:
    """The time between two times in which attempts were at the record's file."""
    return sum(
        max(0.0, min(attempt.end_s, to_s) - max(attempt.start_s, from_s)) for attempt in record.attempts
    )


def _explain_file(common: Tail, last: FileRecord, latest: Sequence[FileRecord], began_s: float) -> Tail:
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
