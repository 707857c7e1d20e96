"""Which bytes of which attempt stand on disk at the end, and which were received in vain.

Every byte of the result is one attempt's: of those that brought it, the one that ended last, as it replaced
what an earlier one had there. Attempts at ranges of one file may run side by side; where two brought the same
bytes on purpose, as older versions did, the loser (``lost``) keeps only what no other attempt of its time
brought. The same rule serves every status, because ``FileRecord.bytes`` is what stands on disk: the final
file when done, the kept part when failed or cancelled (0 when it was discarded).
"""

from cfetch.records import AttemptRecord, FileRecord

__all__ = ["received_bytes", "wasted_by_attempt", "wasted_bytes"]


def wasted_by_attempt(record: FileRecord) -> list[int]:
    """Bytes of each attempt that are not in the result, in the attempts' order.

    One whose batch went to another volume (``moved``) wrote to that volume: it keeps nothing.
    """
    attempts = record.attempts
    wasted = [one.bytes for one in attempts]
    end = record.bytes
    if end and record.status != "done" and any(one.helper for one in attempts):  # a part with gaps
        end = max(one.from_byte + one.bytes for one in attempts)
    taken: list[tuple[int, int]] = []
    for at in sorted(range(len(attempts)), key=lambda at: (_claims_s(attempts[at]), at), reverse=True):
        one = attempts[at]
        if one.outcome == "moved":
            continue
        brought = one.from_byte + one.bytes
        until = min(brought, end) if one.to_byte is None else min(brought, end, one.to_byte)
        wasted[at] -= _take(taken, one.from_byte, until)
    return wasted


def wasted_bytes(record: FileRecord) -> int:
    """Bytes that were received for this entry and are not in the result."""
    attempts = record.attempts
    if len(attempts) == 1 and record.bytes == attempts[0].from_byte + attempts[0].bytes:
        return 0  # nearly every entry
    return sum(wasted_by_attempt(record))


def received_bytes(record: FileRecord) -> int:
    """Bytes that came over the wire for this entry, useful or not."""
    return sum(attempt.bytes for attempt in record.attempts)


def _claims_s(attempt: AttemptRecord) -> float:
    """Later ones take their bytes first. A loser comes after all that ran beside it, before those gone by."""
    return attempt.start_s if attempt.outcome == "lost" else attempt.end_s


def _take(taken: list[tuple[int, int]], start: int, end: int) -> int:
    """Take what is still free of the range; how much that was. ``taken``: ranges, none touching another."""
    if end <= start:
        return 0
    merged = [one for one in taken if one[1] >= start and one[0] <= end]
    low = min([start, *(one[0] for one in merged)])
    high = max([end, *(one[1] for one in merged)])
    taken[:] = [one for one in taken if one not in merged] + [(low, high)]
    return high - low - sum(one[1] - one[0] for one in merged)
