"""What mitigation may cost, and what it has brought: limits that tighten or relax by their own record.

As in the retry timer of the AWS CRT: the bar rises when mitigations turn out badly and comes back slowly
(additive decrease, multiplicative increase).
"""

from collections import deque

__all__ = ["Budget", "Feedback"]

WORSE = 1.5  # the bar's factor for each mitigation that took longer than leaving it alone
BETTER = 0.05  # what a good one takes off: one bad in ten keeps the bar where it is
LOWEST = 0.8  # a little below the start: 1.2 instead of 1.5 times the normal duration
HIGHEST = 16.0  # nobody but the silent is found beyond it; a dozen good verdicts do not undo it, as meant

FREE_BYTES = 64 << 20  # may be lost whatever is done: a run's first files have nothing to be measured by
WASTED_SHARE = 0.05  # of all bytes; the extra load that Dean and Barroso (The Tail at Scale) allow hedging
WINDOW_S = 30.0  # mitigations and completions are counted over as long
MITIGATED_SHARE = 0.5  # of completions; above it the network, not single connections, is ill


class Feedback:
    """Compares each mitigated entry's end with what was foretold of it. ``leniency`` multiplies the bar."""

    def __init__(self) -> None:
        self.leniency = 1.0
        self._foretold: dict[int, float] = {}

    def mitigated(self, key: int, projected_s: float) -> None:
        """It would have ended at ``projected_s``; of several times the first counts."""
        self._foretold.setdefault(key, projected_s)

    def finished(self, key: int, now_s: float) -> None:
        """An entry is there; if it was mitigated, this is the verdict."""
        projected_s = self._foretold.pop(key, None)
        if projected_s is None:
            return
        if now_s > projected_s:
            self.leniency = min(self.leniency * WORSE, HIGHEST)
        else:
            self.leniency = max(self.leniency - BETTER, LOWEST)

    def failed(self, key: int) -> None:
        """An entry was given up: no verdict."""
        self._foretold.pop(key, None)


class Budget:
    """How many more attempts may be broken off now, and how many more bytes may be lost by it."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._ended: deque[float] = deque(maxlen=max(1024, 8 * concurrency))
        self._mitigated: deque[float] = deque(maxlen=max(1024, 8 * concurrency))
        self._bytes = 0
        self._wasted = 0

    def finished(self, now_s: float, size_bytes: int) -> None:
        """An attempt completed."""
        self._ended.append(now_s)
        self._bytes += size_bytes

    def mitigated(self, now_s: float) -> None:
        """An attempt is broken off."""
        self._mitigated.append(now_s)

    def wasted(self, wasted_bytes: int) -> None:
        """So many bytes were lost by breaking it off."""
        self._wasted += wasted_bytes

    def allows_bytes(self, wasted_bytes: int, running_bytes: int) -> bool:
        """Whether so many more may be lost; ``running_bytes`` have come for those under way."""
        return self._wasted + wasted_bytes <= max(FREE_BYTES, WASTED_SHARE * (self._bytes + running_bytes))

    def allowed(self, now_s: float) -> int:
        """How many may be broken off at this check: a quarter of all at most, at least two."""
        for times in (self._ended, self._mitigated):
            while times and times[0] < now_s - WINDOW_S:
                times.popleft()
        most = max(self._concurrency, MITIGATED_SHARE * len(self._ended))
        return max(0, min(max(2, self._concurrency // 4), int(most) - len(self._mitigated)))
