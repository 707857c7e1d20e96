"""Computes which bytes of an attempt are on disk at the end, and which were thrown away.

Each byte of the result is credited to one attempt: the last to end of all attempts that received it, because
it overwrote the others. So the attempts claim their ranges from the last end to the first, and a byte that is
claimed already is waste. If two attempts raced for the same bytes, as in older versions, the loser (``lost``)
claims after all attempts of its time. The rule fits every status, because ``FileRecord.bytes`` is the size on
disk: the final file when done, the kept part when failed or cancelled (0 when discarded).
"""

import math
from bisect import bisect_left, bisect_right
from operator import itemgetter

from cfetch.base.records import AttemptRecord, FileRecord


def wasted_by_attempt(record: FileRecord) -> list[int]:
    """The bytes of each attempt that are not in the result, in the attempts' order.

    An attempt whose batch was ``moved`` to another volume wrote to the old volume. Those of its bytes that no
    later attempt brought were copied, and are no waste.
    """
    attempts = record.attempts
    wasted = [attempt.bytes for attempt in attempts]
    end = record.bytes
    if end and record.status != "done" and any(attempt.helper for attempt in attempts):  # a part with gaps
        end = max(attempt.from_byte + attempt.bytes for attempt in attempts)
    taken: list[tuple[int, int]] = []
    for index in sorted(
        range(len(attempts)), key=lambda index: (_claim_s(attempts[index]), index), reverse=True
    ):
        attempt = attempts[index]
        brought = attempt.from_byte + attempt.bytes
        until = min(brought, end) if attempt.to_byte is None else min(brought, end, attempt.to_byte)
        wasted[index] -= _take_range(taken, attempt.from_byte, until)
    return wasted


def wasted_bytes(record: FileRecord) -> int:
    """Bytes that were received for the entry and are not in the result."""
    attempts = record.attempts
    if len(attempts) == 1 and record.bytes == attempts[0].from_byte + attempts[0].bytes:
        return 0  # nearly every entry
    return sum(wasted_by_attempt(record))


def received_bytes(record: FileRecord) -> int:
    """Bytes that came over the wire for the entry, useful or not."""
    attempts = record.attempts
    return attempts[0].bytes if len(attempts) == 1 else sum(attempt.bytes for attempt in attempts)


def _claim_s(attempt: AttemptRecord) -> float:
    """The time that orders the claims, the latest first: the end; for a lost attempt, its start.

    Attempts on a volume that was left claim only bytes that no other attempt has brought.
    """
    if attempt.outcome == "moved":
        return -math.inf
    return attempt.start_s if attempt.outcome == "lost" else attempt.end_s


def _take_range(taken: list[tuple[int, int]], start: int, end: int) -> int:
    """Claim the free bytes of the range and return their number. ``taken``: disjoint ranges, in order."""
    if end <= start:
        return 0
    first = bisect_left(taken, start, key=itemgetter(1))
    after = bisect_right(taken, end, key=itemgetter(0))
    merged = taken[first:after]
    low = min(start, merged[0][0]) if merged else start
    high = max(end, merged[-1][1]) if merged else end
    taken[first:after] = [(low, high)]
    return high - low - sum(span[1] - span[0] for span in merged)
