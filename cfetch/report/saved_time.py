"""What breaking off an attempt was worth: seconds saved, bytes received in vain.

Left alone it would have been done at its projection; what came instead is the end of its range, or the next
cancelled attempt's projection, so that the savings of one file add up and nothing is counted twice.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from cfetch.records import AttemptRecord, FileRecord
from cfetch.report.wasted_bytes import wasted_by_attempt

__all__ = ["Verdict", "judged", "running_rate_bps", "verdicts"]


class Verdict(NamedTuple):
    """On one attempt that was cancelled as a straggler, or (in older metrics) lost to a second stream.

    ``rate_bps``: at which it was running at its end. ``projected_s``: when it would have been done, by the
    policy that cancelled it, else by that rate; None: nobody knows. ``saved_s``: None where that is so, or
    the file never came; 0 of a second stream that lost.
    """

    attempt: AttemptRecord
    rate_bps: float
    projected_s: float | None
    saved_s: float | None
    wasted_bytes: int


def judged(record: FileRecord, *, stall_timeout_s: float) -> FileRecord:
    """The record, with the verdict on each cancelled attempt in it.

    One that stood still would have been ended by the stall rule, ``stall_timeout_s`` after its last byte, and
    what came instead would have come so much later: that is its projection. But if what followed on one
    without any byte waited for its first byte as long as that one had, the file was late, not the connection:
    left alone it would have come sooner, by as much as it had been asked for sooner.
    """
    if all(one.outcome not in _CANCELLED for one in record.attempts):
        return record
    found = {id(one.attempt): one for one in _verdicts(record, stall_timeout_s)}
    attempts = [
        msgspec.structs.replace(
            one,
            projected_s=_rounded(told.projected_s),
            saved_s=_rounded(told.saved_s),
            wasted_bytes=told.wasted_bytes,
        )
        if (told := found.get(id(one)))
        else one
        for one in record.attempts
    ]
    return msgspec.structs.replace(record, attempts=attempts)


def verdicts(record: FileRecord) -> list[Verdict]:
    """On each cancelled attempt of ``record``, the last one first."""
    return _verdicts(record, None)


_CANCELLED = {"straggler", "lost"}


def _verdicts(record: FileRecord, stall_timeout_s: float | None) -> list[Verdict]:
    finish_s = record.end_s if record.status == "done" else None
    has_helpers = any(one.helper for one in record.attempts)
    in_stead: dict[int | None, float | None] = {}  # by the end of the range
    found = []
    wasted = wasted_by_attempt(record)
    for at in reversed(range(len(record.attempts))):
        attempt = record.attempts[at]
        if attempt.outcome not in _CANCELLED:
            continue
        rate_bps = running_rate_bps(attempt)
        if attempt.helper and attempt.outcome == "lost":  # the stream that it should have replaced won
            saved_s = None if finish_s is None else 0.0
            found.append(Verdict(attempt, rate_bps, attempt.projected_s, saved_s, wasted[at]))
            continue
        range_s = _range_end_s(record, at) if has_helpers and finish_s is not None else finish_s
        instead_s = in_stead.get(attempt.to_byte, range_s)
        if instead_s is not None and (lost_s := _asked_in_vain_s(record.attempts, at)):
            projected_s: float | None = instead_s - lost_s
        else:
            projected_s = _projected_s(record, attempt, rate_bps, instead_s, stall_timeout_s)
        saved_s = None if projected_s is None or instead_s is None else projected_s - instead_s
        found.append(Verdict(attempt, rate_bps, projected_s, saved_s, wasted[at]))
        if projected_s is not None and instead_s is not None:
            in_stead[attempt.to_byte] = projected_s
    return found


def running_rate_bps(attempt: AttemptRecord) -> float:
    """The rate at which ``attempt`` was running when it ended.

    Taken over the later half of its time on the wire, the silence after its last sample included.
    """
    if attempt.first_byte_s is None or not attempt.bytes:
        return 0.0
    middle = (attempt.first_byte_s + attempt.end_s) / 2
    before = [(at, number) for at, number in attempt.samples if at <= middle]
    at, number = before[-1] if before else (attempt.first_byte_s, 0)
    return max(0.0, (attempt.bytes - number) / max(attempt.end_s - at, 0.001))


def _projected_s(
    record: FileRecord,
    attempt: AttemptRecord,
    rate_bps: float,
    instead_s: float | None,
    stall_timeout_s: float | None,
) -> float | None:
    if attempt.projected_s is not None:
        return attempt.projected_s
    if rate_bps <= 0:
        if stall_timeout_s is None or instead_s is None:
            return None
        last_s = attempt.samples[-1][0] if attempt.samples else attempt.start_s
        return max(attempt.end_s, last_s + stall_timeout_s) + instead_s - attempt.end_s
    size_bytes = record.size_bytes
    if size_bytes is None:
        size_bytes = record.bytes if record.status == "done" else None
    end = size_bytes if attempt.to_byte is None else attempt.to_byte
    if end is None:
        return None
    return attempt.end_s + max(0, end - attempt.from_byte - attempt.bytes) / rate_bps


def _asked_in_vain_s(attempts: Sequence[AttemptRecord], at: int) -> float:
    """By how much an attempt without any byte was asked for sooner than its successor that waited as long."""
    silent = attempts[at]
    after = next((one for one in attempts[at + 1 :] if one.start_s >= silent.end_s and not one.helper), None)
    if silent.first_byte_s is not None or after is None:
        return 0.0
    waited_s = (after.end_s if after.first_byte_s is None else after.first_byte_s) - after.start_s
    return after.start_s - silent.start_s if waited_s >= silent.end_s - silent.start_s else 0.0


def _range_end_s(record: FileRecord, at: int) -> float:
    """When the last byte came of what the attempt had left; the others' ranges are not its matter."""
    attempt = record.attempts[at]
    start = attempt.from_byte + attempt.bytes
    end = record.bytes if attempt.to_byte is None else attempt.to_byte
    after = [
        one.end_s
        for one in record.attempts
        if one.end_s >= attempt.end_s
        and one is not attempt
        and one.from_byte < end
        and one.from_byte + one.bytes > start
    ]
    return max(after, default=record.end_s)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
