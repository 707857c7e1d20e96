"""Explains by its attempts why a file was slow, and how much each cancelled straggler saved or cost."""

from cfetch.base.records import FileRecord
from cfetch.show.document import Mitigation, SlowFile
from cfetch.show.saved_time import list_verdicts

LEAST_WAIT_S = 1.0
LEAST_STORED_S = 0.1


def slow_file(record: FileRecord, run: int) -> SlowFile:
    """The line of a slow file of the report's run number ``run``. It must have at least one attempt."""
    return SlowFile(
        instant=record.instant,
        run=run,
        path=record.path,
        host=record.host,
        size_bytes=record.known_size_bytes,
        elapsed_s=record.end_s - record.start_s,
        rate_bps=record.rate_bps,
        attempts=len(record.attempts),
        why=_explain(record),
    )


def _explain(record: FileRecord) -> str:
    """The causes of lost time: attempts by outcome, then waits, then a slow rate."""
    reasons = []
    for outcome, word in _REASONS:
        number = sum(attempt.outcome == outcome for attempt in record.attempts)
        if number:
            reasons.append(word if number == 1 else f"{number}x {word}")
    elapsed_s = record.end_s - record.start_s
    last_s = max(attempt.end_s for attempt in record.attempts)
    waited = (last_s - record.start_s) - sum(a.end_s - a.start_s for a in record.attempts)
    if waited > LEAST_WAIT_S:
        reasons.append(f"{waited:.0f}s between attempts")
    last = record.attempts[-1]
    if last.first_byte_s is not None and last.first_byte_s - last.start_s > 0.5 * elapsed_s:
        reasons.append("late first byte")
    if (stored_s := record.end_s - last_s) > max(0.5 * elapsed_s, LEAST_STORED_S):
        reasons.append(
            "waited to be flushed" if stored_s <= LEAST_WAIT_S else f"{stored_s:.0f}s to be flushed"
        )
    if last.median_bps and record.rate_bps < last.median_bps / 2 and not reasons:
        reasons.append("below half the median rate")
    return ", ".join(reasons) or "size"


_REASONS = (
    ("straggler", "cancelled as straggler"),
    ("lost", "lost to a second stream"),
    ("stalled", "stalled"),
    ("expired", "link expired"),
    ("error", "error"),
)


def mitigations(record: FileRecord) -> list[Mitigation]:
    """The effect of each cancelled attempt of ``record``, the last one first."""
    return [
        Mitigation(
            path=record.path,
            attempt=verdict.attempt.n,
            rate_bps=verdict.rate_bps,
            elapsed_s=verdict.attempt.end_s - verdict.attempt.start_s,
            cancelled_s=verdict.attempt.end_s,
            projected_s=verdict.projected_s,
            finish_s=record.end_s if record.status == "done" else None,
            saved_s=verdict.saved_s,
            wasted_bytes=verdict.wasted_bytes,
        )
        for verdict in list_verdicts(record)
    ]
