"""Which bytes of which attempt stand on disk at the end, and which were received in vain.

An attempt writes from ``from_byte`` on and so replaces whatever an earlier one had there. Walking back from
the last attempt, each keeps what lies before all that came after it. The same rule serves every status,
because ``FileRecord.bytes`` is what stands on disk: the final file when done, the kept part when failed or
cancelled (0 when it was discarded).
"""

from cfetch.events import FileRecord

__all__ = ["received_bytes", "wasted_by_attempt", "wasted_bytes"]


_APART = {"lost", "moved"}


def wasted_by_attempt(record: FileRecord) -> list[int]:
    """Bytes of each attempt that are not in the result, in the attempts' order.

    The loser of a hedged pair (``lost``) wrote to a part of its own, and one whose batch went to another
    volume (``moved``) to another volume: they keep nothing.
    """
    end = record.bytes
    wasted = []
    for attempt in reversed(record.attempts):
        kept = 0
        if attempt.outcome not in _APART:
            kept = max(0, min(attempt.from_byte + attempt.bytes, end) - attempt.from_byte)
            end = min(end, attempt.from_byte)
        wasted.append(attempt.bytes - kept)
    return wasted[::-1]


def wasted_bytes(record: FileRecord) -> int:
    """Bytes that were received for this entry and are not in the result."""
    attempts = record.attempts
    if len(attempts) == 1 and record.bytes == attempts[0].from_byte + attempts[0].bytes:
        return 0  # nearly every entry
    return sum(wasted_by_attempt(record))


def received_bytes(record: FileRecord) -> int:
    """Bytes that came over the wire for this entry, useful or not."""
    return sum(attempt.bytes for attempt in record.attempts)
