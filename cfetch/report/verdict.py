"""What one file's attempts tell: why it was slow, and what cancelling it was worth.

The verdict on a cancelled attempt: its samples tell the rate at which it was running; left alone it would
have finished at ``cancelled + remaining / rate``. What came instead is the file's real finish, or the next
cancelled attempt's projection, so that the savings of one file add up and nothing is counted twice.
"""

from cfetch.events import AttemptRecord, FileRecord
from cfetch.report.document import Mitigation, SlowFile
from cfetch.waste import wasted_by_attempt

__all__ = ["retries", "running_rate_bps", "slow_file", "verdicts"]


def slow_file(record: FileRecord) -> SlowFile:
    """The line of a slow file. It must have at least one attempt."""
    return SlowFile(
        instant=record.instant,
        path=record.path,
        host=record.host,
        size_bytes=record.size_bytes,
        elapsed_s=record.end_s - record.start_s,
        rate_bps=record.rate_bps,
        attempts=len(record.attempts),
        why=_why(record),
    )


def _why(record: FileRecord) -> str:
    """What cost time: earlier attempts by outcome, then waits, then plain slowness."""
    reasons = []
    for outcome, word in _REASONS:
        number = sum(attempt.outcome == outcome for attempt in record.attempts)
        if number:
            reasons.append(word if number == 1 else f"{number}x {word}")
    waited = (record.end_s - record.start_s) - sum(a.end_s - a.start_s for a in record.attempts)
    if waited > 1:
        reasons.append(f"{waited:.0f}s between attempts")
    last = record.attempts[-1]
    if last.first_byte_s is not None and last.first_byte_s - last.start_s > 0.5 * (last.end_s - last.start_s):
        reasons.append("late first byte")
    if last.median_bps and record.rate_bps < last.median_bps / 2 and not reasons:
        reasons.append("below half the median rate")
    return ", ".join(reasons) or "size"


_REASONS = (
    ("straggler", "cancelled as straggler"),
    ("stalled", "stalled"),
    ("expired", "link expired"),
    ("error", "error"),
)


def retries(record: FileRecord) -> int:
    """Attempts that followed a failed one; a cancelled straggler's and a hedge's successor are none."""
    if len(record.attempts) < 2:  # nearly every entry
        return 0
    return sum(one.outcome not in {"straggler", "lost", "moved"} for one in record.attempts[:-1])


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


def verdicts(record: FileRecord) -> list[Mitigation]:
    """What each attempt of ``record`` that was cancelled as a straggler saved or cost, the last one first."""
    finish = record.end_s if record.status == "done" else None
    instead = finish
    found = []
    wasted = wasted_by_attempt(record)
    for attempt, in_vain in zip(reversed(record.attempts), reversed(wasted), strict=True):
        if attempt.outcome != "straggler":
            continue
        rate_bps = running_rate_bps(attempt)
        projected = _projected(record, attempt, rate_bps)
        saved = None if projected is None or instead is None else projected - instead
        found.append(
            Mitigation(
                path=record.path,
                attempt=attempt.n,
                rate_bps=rate_bps,
                elapsed_s=attempt.end_s - attempt.start_s,
                cancelled_s=attempt.end_s,
                projected_s=projected,
                finish_s=finish,
                saved_s=saved,
                wasted_bytes=in_vain,
            )
        )
        if projected is not None and instead is not None:
            instead = projected
    return found


def _projected(record: FileRecord, attempt: AttemptRecord, rate_bps: float) -> float | None:
    size_bytes = record.size_bytes if record.size_bytes is not None else record.bytes
    if rate_bps <= 0 or (record.size_bytes is None and record.status != "done"):
        return None
    remaining = max(0, size_bytes - attempt.from_byte - attempt.bytes)
    return attempt.end_s + remaining / rate_bps
