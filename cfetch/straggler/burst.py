"""Finds out whether a host sends only the beginning of each reply fast.

All attempts become slow after the same number of bytes, and those that have brought less are fast meanwhile.
If all attempts have come beyond that byte, so that none is fast, one is asked anew as a witness; but only if
they became slow at different times, which no change of the network explains.
"""

import math
from collections import deque

from cfetch.base.backoff import double
from cfetch.straggler.fresh_attempt import middle
from cfetch.straggler.ways_to_ask import LEAST_FALLEN, MUCH, EndedReply, FlowingAttempt

ALIKE = 0.2  # share of bytes beyond the burst after which an attempt shows as slow, in windows of 0.3 s
NEAR = 0.06  # of the middle byte: falls so near to it are alike; lost packets cause falls anywhere
EXACT = 0.03  # the byte is never known more exactly
MOST = 0.8  # of the attempts beyond the byte are slow; a few exceptions prove nothing
LEAST_CHUNK_BYTES = 256 << 10  # a smaller range is mostly latency
SOONER = 0.75  # of the time that a reply would have taken with bursts
RECENT = 64  # replies
SPREAD_S = 0.3  # falls that are so far apart in time are not explained by a change of the network
REFUTED_S = 1.0  # attempts that are slow for so long within a range of that size refute the size
FIRST_PROBE_S, MOST_PROBE_S = 2.0, 60.0  # between two witnesses


class Bursts:
    """The bursts of one host. ``chunk_bytes``: their size; 0: it sends none. ``rate_bps``: their rate."""

    def __init__(self, chunk_bytes: int = 0) -> None:
        self.chunk_bytes = chunk_bytes
        self.rate_bps = 0.0
        self._since_s = -math.inf
        self._is_refuted = False
        self._replies: deque[EndedReply] = deque(maxlen=RECENT)
        self._probe_s = -math.inf
        self._wait_s = FIRST_PROBE_S

    def learn_from(self, paces: list[FlowingAttempt], now_s: float) -> FlowingAttempt | None:
        """Learn the size of the host's bursts (``chunk_bytes``) from the attempts under way.

        Returns an attempt to be asked anew as a witness, if only that would show the size.

        The attempts that fell at the same byte name the size. Those that are still before that byte must run
        much faster than the others; if there are none, a witness is needed. A size that is known is doubted
        instead, as the host may have changed; once refuted, it is not looked for again in this run.
        """
        if self._is_refuted:
            return None
        if self.chunk_bytes:
            self._doubt(paces, now_s)
            return None
        size_bytes = _find_fall(paces)
        if size_bytes is None or not any(pace.is_free for pace in paces):
            return None  # a file without a validator or hash cannot be asked for in ranges
        slow_bps = middle([pace.rate_bps for pace in paces if pace.fell_bytes is not None])
        within = [pace.rate_bps for pace in paces if pace.received < size_bytes]
        if not within:
            return self._choose_witness(paces, now_s)
        fast_bps = middle(within)
        if not fast_bps:
            return None  # all stand still, those within the burst too
        if fast_bps >= MUCH * slow_bps and not self._is_contradicted(size_bytes, fast_bps, slow_bps):
            self.chunk_bytes, self.rate_bps, self._since_s = _round_down(size_bytes), fast_bps, now_s
        return None

    def _is_contradicted(self, size_bytes: int, fast_bps: float, slow_bps: float) -> bool:
        """Whether longer replies ended much sooner than they would have with such a burst."""
        longer = [reply for reply in self._replies if reply.size_bytes > size_bytes]
        sooner = 0
        for _, _, reply_bytes, rate_bps, *_ in longer:
            expected_s = size_bytes / fast_bps + (reply_bytes - size_bytes) / max(slow_bps, 1.0)
            sooner += reply_bytes < SOONER * expected_s * rate_bps
        return sooner > (1 - MOST) * len(longer)

    def note(self, reply: EndedReply) -> None:
        """Note a reply that came to its end."""
        self._replies.append(reply)

    def is_cured_by(self, pace: FlowingAttempt) -> bool:
        """Whether the attempt, which asked for the whole file, has come beyond the burst."""
        return self.chunk_bytes > 0 and pace.began_s < self._since_s and pace.fell_bytes is not None

    def _doubt(self, paces: list[FlowingAttempt], now_s: float) -> None:
        later = [pace for pace in paces if pace.began_s >= self._since_s and pace.fell_bytes is not None]
        if sum(now_s - pace.fell_s > REFUTED_S for pace in later) >= LEAST_FALLEN:
            self.chunk_bytes, self._is_refuted = 0, True

    def _choose_witness(self, paces: list[FlowingAttempt], now_s: float) -> FlowingAttempt | None:
        fell_s = [pace.fell_s for pace in paces if pace.fell_bytes is not None]
        if now_s < self._probe_s or len(fell_s) < len(paces) or max(fell_s) - min(fell_s) < SPREAD_S:
            return None
        witness = max(
            (pace for pace in paces if pace.is_free), key=lambda pace: pace.left_bytes, default=None
        )
        if witness is not None:
            self._probe_s = now_s + self._wait_s
            self._wait_s = double(self._wait_s, MOST_PROBE_S)
        return witness


def _find_fall(paces: list[FlowingAttempt]) -> int | None:
    """The byte after which the attempts became slow; None if it is not about the same for nearly all."""
    fell = [pace.fell_bytes for pace in paces if pace.fell_bytes is not None]
    if len(fell) < LEAST_FALLEN:
        return None
    usual = middle(fell)
    near = sorted(size_bytes for size_bytes in fell if abs(size_bytes - usual) <= NEAR * usual)
    range_bytes = max(EXACT * usual, near[-1] - near[0])
    fast = [pace.received for pace in paces if pace.fell_bytes is None]
    beyond = sum(received > (1 + ALIKE) * usual for received in fast)
    undecided = sum(received > usual - range_bytes for received in fast) - beyond
    if len(near) < MOST * (len(fell) + beyond) or len(fell) < undecided:
        return None
    least = int(near[len(near) // 4])
    return least if least >= LEAST_CHUNK_BYTES else None


def _round_down(size_bytes: int) -> int:
    """Round to eighths of a power of two, as servers do, mostly down: too much costs more than too little."""
    grain = 1 << max(0, size_bytes.bit_length() - 4)
    return (size_bytes + grain // 4) // grain * grain
