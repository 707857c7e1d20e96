"""Each file's first judged attempt, as columns of numbers made from a run's metrics.

An attempt that was broken off, by mitigation or by a person, does not show how long it would have taken, only
that it would have taken at least as long as was seen. Such attempts are never dropped, as they are the slow
ones. The missing time follows from their last rate; if they were silent, from the stall rule, which would
have ended them. If nothing had come yet when a person stopped the run, it stays open (NaN), and
`replay.prepare_group` draws it from the run's attempts that lasted longer.
"""

from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfetch.base.records import AttemptRecord, FileRecord
from cfetch.show.saved_time import running_rate_bps

Column = NDArray[np.float64]

MIN_TAIL_BYTES = 64 << 10  # a shorter rest of a resumed file shows the server's latency, not its speed
WHOLE, STALLED, CUT, ERRORS_ONLY = range(4)  # how the judged attempt ended
_PREAMBLE = {"error", "expired", "moved"}  # no policy judges these, but they occupied a worker
_NAN = float("nan")


class History(NamedTuple):
    """One entry a file, in any order; times are seconds, sizes bytes. NaN: not known.

    The judged attempt is the first that did not fail. ``start_s``: the file's first attempt; ``busy_s``: all
    its attempts; ``end_s``: of a file that is done, else NaN; ``before_s``: attempts that failed before the
    judged one. For the judged attempt: ``size_bytes`` to fetch (0: unknown, not judged), ``seen_s``,
    ``got_bytes``, ``rest_s`` (how much longer it would have lasted), ``ended``: `WHOLE`, `STALLED`, `CUT`,
    `ERRORS_ONLY`. For the attempt after it: ``fresh_bps``, and ``kept``: 1 if it resumed, else 0.
    ``sample_bps``: the file's sample for the median. ``host``: a number for its host.
    """

    start_s: Column
    busy_s: Column
    end_s: Column
    before_s: Column
    size_bytes: Column
    seen_s: Column
    got_bytes: Column
    rest_s: Column
    ended: Column
    fresh_bps: Column
    kept: Column
    sample_bps: Column
    host: Column

    def select(self, rows: NDArray[Any]) -> "History":
        """The files that ``rows`` (a mask or indices) selects."""
        return History(*(column[rows] for column in self))


def build_history(records: Iterable[FileRecord], *, stall_timeout_s: float) -> tuple[History, list[str]]:
    """Columns of the files that were tried, and the names of their hosts by number."""
    rows = array("d")
    hosts: dict[str, int] = {}
    for record in records:
        if record.attempts:
            rows.extend(_make_row(record, stall_timeout_s))
            rows.append(hosts.setdefault(record.host, len(hosts)))
    wide = len(History._fields)
    table = np.frombuffer(rows).reshape(-1, wide) if rows else np.empty((0, wide))
    return History(*np.ascontiguousarray(table.T)), list(hosts)


def _make_row(record: FileRecord, stall_timeout_s: float) -> tuple[float, ...]:
    attempts = record.attempts
    if len(attempts) == 1 and attempts[0].outcome == "done" and record.status == "done":
        return _make_plain_row(record, attempts[0])  # nearly every file
    attempts = [
        attempt for attempt in attempts if attempt.outcome != "lost" and not attempt.helper
    ] or attempts
    start_s, busy_s = attempts[0].start_s, sum(attempt.end_s - attempt.start_s for attempt in attempts)
    done = record.status == "done"
    end_s = record.end_s if done else _NAN
    index = next((i for i, attempt in enumerate(attempts) if is_judged(attempt)), None)
    sample_bps = _measure_rate_bps(attempts[-1]) if done else _NAN
    if index is None:
        return (start_s, busy_s, end_s, busy_s, 0, 0, 0, 0, ERRORS_ONLY, _NAN, _NAN, sample_bps)
    judged, before_s = attempts[index], sum(attempt.end_s - attempt.start_s for attempt in attempts[:index])
    size = record.size_bytes if record.size_bytes is not None else record.bytes if done else 0
    size = max(0, size - judged.from_byte)
    ended, rest_s = _estimate_end(judged, size, stall_timeout_s)
    after = attempts[index + 1] if index + 1 < len(attempts) else None
    fresh_bps = _measure_rate_bps(after) if after is not None and after.outcome == "done" else _NAN
    kept = float(after.from_byte > judged.from_byte) if after is not None and judged.bytes else _NAN
    seen_s = judged.end_s - judged.start_s
    got = min(judged.bytes, size)
    return (
        start_s, busy_s, end_s, before_s, size, seen_s, got, rest_s, ended, fresh_bps, kept, sample_bps
    )  # fmt: skip


def _make_plain_row(record: FileRecord, only: AttemptRecord) -> tuple[float, ...]:
    """The row of a file with one whole attempt: the same as from `_make_row`, but faster."""
    seen_s = only.end_s - only.start_s
    size = max(0, (record.bytes if record.size_bytes is None else record.size_bytes) - only.from_byte)
    got = min(only.bytes, size)
    rate_bps = _measure_rate_bps(only)
    return (only.start_s, seen_s, record.end_s, 0, size, seen_s, got, 0, WHOLE, _NAN, _NAN, rate_bps)


def is_judged(attempt: AttemptRecord) -> bool:
    """Whether a policy judges the attempt: it did not fail, or only because a person ended it."""
    return attempt.outcome not in _PREAMBLE or _was_interrupted(attempt)


def _was_interrupted(attempt: AttemptRecord) -> bool:
    return attempt.outcome == "error" and attempt.error == "interrupted"


def _measure_rate_bps(attempt: AttemptRecord) -> float:
    """Measure the rate as the detector does: no sample without a body, and none for a short rest."""
    if not attempt.bytes or (attempt.from_byte and attempt.bytes < MIN_TAIL_BYTES):
        return _NAN
    return attempt.bytes / max(attempt.end_s - attempt.start_s, 0.001)


def _estimate_end(attempt: AttemptRecord, size_bytes: int, stall_timeout_s: float) -> tuple[int, float]:
    """How the attempt ended, and how much longer it would have lasted without being broken off."""
    if attempt.outcome == "done":
        return WHOLE, 0.0
    if attempt.outcome == "stalled":
        return STALLED, 0.0
    rate_bps = running_rate_bps(attempt)
    if rate_bps > 0:
        return CUT, max(0, size_bytes - attempt.bytes) / rate_bps
    if _was_interrupted(attempt):
        return CUT, _NAN
    last_s = attempt.samples[-1][0] if attempt.samples and attempt.bytes else attempt.start_s
    return STALLED, max(0.0, last_s + stall_timeout_s - attempt.end_s)
