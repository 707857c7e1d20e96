"""Decides which attempts idle workers help while the last files are on their way. Pure.

An attempt that has much left is split: it continues to the byte at which it and a fresh attempt would be done
at the same time, and the fresh one brings the bytes beyond. Nothing is fetched twice, so no budget is needed.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from cfetch.straggler.attempt_limits import MIN_SEGMENT_BYTES

MIN_GAIN_S = 0.2  # of the projected end, beyond the cost of a request: rates are not known better than that
LEAST_KEPT = 1 / 4  # share of a rest below the least segment; an attempt that would keep less keeps one byte
SMALL_PIECES = 2  # times the least segment: it hardly matters which attempt brings pieces as small as this
SMALL_BYTES, SMALL_GAIN_S = 1 << 20, 0.5  # a small rest must gain more: else many requests bring its end


class Candidate(NamedTuple):
    """An attempt in flight that may be helped.

    ``left_bytes`` of its range are still to come, in ``remaining_s`` at its present rate; ``attempts`` bring
    its entry just now. ``sure_bytes``: the bytes that it brings until a fresh one begins, at its mean rate.
    """

    key: int
    host: str
    left_bytes: int
    remaining_s: float
    attempts: int
    sure_bytes: int


class Split(NamedTuple):
    """The split of the candidate ``key``: it keeps the first ``keeps_bytes`` of the rest of its range.

    The bytes beyond are divided evenly among ``fresh_attempts``.
    """

    key: int
    keeps_bytes: int
    fresh_attempts: int


class EntryProgress(Protocol):
    """The progress of an attempt."""

    @property
    def start_s(self) -> float:
        """When the attempt began."""

    @property
    def received(self) -> int:
        """The bytes that have come since then."""

    @property
    def first_byte_s(self) -> float | None:
        """When the first byte came."""


def estimate_sure_bytes(attempt: EntryProgress, now_s: float) -> int:
    """The bytes that the attempt brings while a fresh one waits for its first byte, as long as it waited.

    Its rate is the mean over all of its time: a first piece that has just come shows no better one.
    """
    if attempt.first_byte_s is None:
        return 0
    return int(attempt.received * (attempt.first_byte_s - attempt.start_s) / (now_s - attempt.start_s))


def choose(
    candidates: Iterable[Candidate],
    *,
    idle: int,
    fresh_s: Callable[[str, int], float | None],
    most_attempts: int,
) -> list[Split]:
    """Choose the attempts that ``idle`` workers help: those that will be done last, if they gain by it.

    ``fresh_s``: the seconds in which a fresh attempt would bring so many bytes from a host.
    ``most_attempts``: how many attempts may bring one entry at a time.
    """
    splits: list[Split] = []
    last_first = sorted(candidates, key=lambda candidate: -candidate.remaining_s)
    for place, candidate in enumerate(last_first):
        share = -(-idle // (len(last_first) - place))
        split = _split(candidate, fresh_s, min(share, most_attempts - candidate.attempts))
        if split is not None:
            splits.append(split)
            idle -= split.fresh_attempts
    return splits


def _split(candidate: Candidate, fresh_s: Callable[[str, int], float | None], most: int) -> Split | None:
    """Split so that all attempts end at ``t``: rate * t + n * new_rate * (t - latency) = left."""
    left = candidate.left_bytes
    n = min(most, max(1, left // MIN_SEGMENT_BYTES - 1))
    if n < 1 or left <= n:
        return None
    rate_bps = left / candidate.remaining_s if candidate.remaining_s > 0 else math.inf
    whole_s, latency_s = fresh_s(candidate.host, left), fresh_s(candidate.host, 0)
    if whole_s is None or latency_s is None:  # no file has finished: expect the same rate of a fresh attempt
        new_bps, latency_s = rate_bps, 0.0
    else:
        new_bps = left / max(whole_s - latency_s, 1e-6)
    # an attempt that stands still is the policy's matter
    if not (0 < new_bps < math.inf and 0 < rate_bps < math.inf):
        return None
    together_s = (left + n * new_bps * latency_s) / (rate_bps + n * new_bps)
    gain_s = MIN_GAIN_S if left >= SMALL_BYTES else SMALL_GAIN_S
    if candidate.remaining_s - together_s < gain_s + latency_s:
        return None
    if whole_s is None and left <= SMALL_PIECES * (n + 1) * MIN_SEGMENT_BYTES:
        return Split(candidate.key, max(candidate.sure_bytes, 1), n)  # fresh ones may be far faster
    keeps_bytes = min(max(int(rate_bps * together_s), 1), left - n * min(MIN_SEGMENT_BYTES, left // (n + 1)))
    if left < MIN_SEGMENT_BYTES and keeps_bytes < LEAST_KEPT * left:
        keeps_bytes = 1  # one request brings the rest; a slow end would need another request later
    return Split(candidate.key, keeps_bytes, n)
