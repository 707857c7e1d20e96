"""Computes the effect of a cancelled attempt: seconds saved, bytes wasted.

The saving is the difference of two times. The projection is the time at which the attempt would have been
done without the cancellation. The replacement is the time at which its range was really done; or, if the next
attempt was cancelled too, the projection of that attempt. Attempts are judged from the last to the first, so
the savings of one file add up and nothing is counted twice.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from cfetch.base.records import CANCELLED, AttemptRecord, FileRecord
from cfetch.show.wasted_bytes import wasted_by_attempt
from cfetch.straggler.handshake import next_syn_s

MOST_JUDGED = 1000  # attempts of one file; each is compared with all others
SETTLED = 4  # waits for a first byte; after fewer, the doubling in slow start may not show in two halves
GROWS = 1.15  # times the average rate; in slow start the later half is about twice as fast as all


class SavingVerdict(NamedTuple):
    """The verdict on one attempt that was cancelled as a straggler, or (in older metrics) lost a race.

    ``rate_bps``: its rate when it ended. ``projected_s``: the time at which it would have been done, by the
    estimate of the policy that cancelled it, or else by that rate; None: nothing foretells it. ``saved_s``:
    None if the projection is unknown or the file never came; 0 for a second stream that lost.
    """

    attempt: AttemptRecord
    rate_bps: float
    projected_s: float | None
    saved_s: float | None
    wasted_bytes: int


def add_verdicts(record: FileRecord) -> FileRecord:
    """The record, with a verdict on each cancelled attempt."""
    if CANCELLED.isdisjoint([attempt.outcome for attempt in record.attempts]):
        return record
    verdicts = {id(verdict.attempt): verdict for verdict in list_verdicts(record)}
    attempts = [
        msgspec.structs.replace(
            attempt,
            projected_s=_round(verdict.projected_s),
            saved_s=_round(verdict.saved_s),
            wasted_bytes=verdict.wasted_bytes,
        )
        if (verdict := verdicts.get(id(attempt)))
        else attempt
        for attempt in record.attempts
    ]
    return msgspec.structs.replace(record, attempts=attempts)


def list_verdicts(record: FileRecord) -> list[SavingVerdict]:
    """The verdicts on the cancelled attempts of ``record``, the last one first.

    An attempt whose rate foretells nothing (``shows_its_rate``) has no projection, even if one is recorded.
    There is one exception: the attempt got no byte, and its successor waited for its first byte at least as
    long. Then the server was slow with the file, not the connection, and the first request would have been
    answered sooner, as it was sent sooner. If no one had answered the handshake, the kernel would have asked
    again, so the gain is the time until then at most.
    """
    finish_s = record.end_s if record.status == "done" else None
    has_helpers = any(attempt.helper for attempt in record.attempts)
    projected_by_end: dict[int | None, float | None] = {}  # of later attempts, by end of range
    verdicts: list[SavingVerdict] = []
    wasted = wasted_by_attempt(record)
    for index in reversed(range(len(record.attempts))):
        attempt = record.attempts[index]
        if attempt.outcome not in CANCELLED:
            continue
        rate_bps = running_rate_bps(attempt)
        if len(verdicts) >= MOST_JUDGED:
            verdicts.append(SavingVerdict(attempt, rate_bps, attempt.projected_s, None, wasted[index]))
            continue
        if attempt.helper and attempt.outcome == "lost":  # the attempt that it raced has won
            saved_s = None if finish_s is None else 0.0
            verdicts.append(SavingVerdict(attempt, rate_bps, attempt.projected_s, saved_s, wasted[index]))
            continue
        range_s = _range_end_s(record, index) if has_helpers and finish_s is not None else finish_s
        instead_s = projected_by_end.get(attempt.to_byte, range_s)
        projected_s: float | None
        if attempt.unanswered:
            projected_s = _projected_by_kernel(record.attempts, index, instead_s)
        elif instead_s is not None and (lost_s := _wasted_wait_s(record.attempts, index)):
            projected_s = instead_s - lost_s
        else:
            projected_s = _projected_s(record, attempt, rate_bps)
        saved_s = None if projected_s is None or instead_s is None else projected_s - instead_s
        verdicts.append(SavingVerdict(attempt, rate_bps, projected_s, saved_s, wasted[index]))
        if projected_s is not None and instead_s is not None:
            projected_by_end[attempt.to_byte] = projected_s
    return verdicts


def running_rate_bps(attempt: AttemptRecord) -> float:
    """The rate of ``attempt`` when it ended.

    The rate is measured over the second half of the time since the first byte, including silence at the end.
    """
    if attempt.first_byte_s is None or not attempt.bytes:
        return 0.0
    middle = (attempt.first_byte_s + attempt.end_s) / 2
    before = [(sampled_s, received) for sampled_s, received in attempt.samples if sampled_s <= middle]
    sampled_s, received = before[-1] if before else (attempt.first_byte_s, 0)
    return max(0.0, (attempt.bytes - received) / max(attempt.end_s - sampled_s, 0.001))


def shows_its_rate(attempt: AttemptRecord) -> bool:
    """Whether the rate of ``attempt`` when it ended foretells when it would have ended by itself.

    Silence foretells nothing: the next packet may come at once, as after a lost one. Neither does the start
    of a connection, whose rate doubles with each round trip (RFC 5681, 3.1). The wait for the first byte is
    at least one round trip, so the rate counts after a few of these waits, and only if it does not grow.
    """
    rate_bps = running_rate_bps(attempt)
    if attempt.first_byte_s is None or rate_bps <= 0:
        return False
    flowed_s = attempt.end_s - attempt.first_byte_s
    if attempt.samples and attempt.samples[-1][0] < attempt.end_s - flowed_s / 2:
        return False  # silent since then: the bytes after the last sample came at once
    waited_s = attempt.first_byte_s - attempt.start_s
    return flowed_s >= SETTLED * waited_s and rate_bps * flowed_s <= GROWS * attempt.bytes


def _projected_s(record: FileRecord, attempt: AttemptRecord, rate_bps: float) -> float | None:
    if not shows_its_rate(attempt):
        return None
    if attempt.projected_s is not None:
        return attempt.projected_s
    size_bytes = record.size_bytes
    if size_bytes is None:
        size_bytes = record.bytes if record.status == "done" else None
    end = size_bytes if attempt.to_byte is None else attempt.to_byte
    if end is None:
        return None
    return attempt.end_s + max(0, end - attempt.from_byte - attempt.bytes) / rate_bps


def _wasted_wait_s(attempts: Sequence[AttemptRecord], index: int) -> float:
    """Seconds by which an attempt without any byte began before its successor; 0 if that waited less."""
    silent, successor = attempts[index], _find_successor(attempts, index)
    if silent.first_byte_s is not None or successor is None:
        return 0.0
    waited_s = (
        successor.end_s if successor.first_byte_s is None else successor.first_byte_s
    ) - successor.start_s
    return successor.start_s - silent.start_s if waited_s >= silent.end_s - silent.start_s else 0.0


def _find_successor(attempts: Sequence[AttemptRecord], index: int) -> AttemptRecord | None:
    """The attempt of the entry's own that began when this one was over."""
    end_s = attempts[index].end_s
    later = (attempt for attempt in attempts[index + 1 :] if attempt.start_s >= end_s and not attempt.helper)
    return next(later, None)


def _projected_by_kernel(
    attempts: Sequence[AttemptRecord], index: int, instead_s: float | None
) -> float | None:
    """When an attempt would have been done, if the kernel's next SYN had been answered.

    From then on it takes as long as its successor does from its own connection on; None: that is unknown.
    """
    attempt, successor = attempts[index], _find_successor(attempts, index)
    if instead_s is None or successor is None:
        return None
    return _connected_s(attempt) + instead_s - _connected_s(successor)


def _connected_s(attempt: AttemptRecord) -> float:
    """When its connection was made, or would have been if the kernel's next SYN had been answered."""
    connect_s = attempt.connect_s or 0.0
    if not attempt.unanswered:
        return attempt.start_s + connect_s
    return attempt.end_s - connect_s + next_syn_s(connect_s)


def _range_end_s(record: FileRecord, index: int) -> float:
    """The time of the last byte in the attempt's unfinished range; other ranges of the file do not count."""
    attempt = record.attempts[index]
    start = attempt.from_byte + attempt.bytes
    end = record.bytes if attempt.to_byte is None else attempt.to_byte
    ends_s = [
        other.end_s
        for other in record.attempts
        if other.end_s >= attempt.end_s
        and other is not attempt
        and other.from_byte < end
        and other.from_byte + other.bytes > start
    ]
    return max(ends_s, default=record.end_s)


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
