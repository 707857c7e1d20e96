"""What mitigation may cost, and what it has brought: limits that tighten or relax by their own record.

As in the retry timer of the AWS CRT: the bar rises when mitigations turn out badly and comes back slowly
(additive decrease, multiplicative increase).
"""

from collections import deque
from typing import NamedTuple

__all__ = ["Budget", "Feedback"]

WORSE = 1.5  # the bar's factor for each mitigation that took longer than leaving it alone
BETTER = 0.05  # what a good one takes off: one bad in ten keeps the bar where it is
LOWEST = 0.8  # a little below the start: 1.2 instead of 1.5 times the normal duration
HIGHEST = 4.0  # a tenth of the usual rate is found still; 16, after seven bad ones, was for good
WEARS_OFF = 0.8  # of the patience with silence, for each good verdict: three good ones undo half of it
MOST_HOSTS = 4096  # that are remembered for their cold objects
SURE_S = 8.0  # a second silence tells no more before its end: connections may stall twice
LONGER = 1.5  # than the wait that was seen, so that the next object that is as cold is waited for

FREE_BYTES = 64 << 20  # may be lost whatever is done: a run's first files have nothing to be measured by
WASTED_SHARE = 0.05  # of all bytes; the extra load that Dean and Barroso (The Tail at Scale) allow
WINDOW_S = 30.0  # mitigations and completions are counted over as long
MITIGATED_SHARE = 0.5  # of completions; above it the network, not single connections, is ill


class _Foretold(NamedTuple):
    """Of a mitigated entry. ``projected_s`` None: the attempt was silent, and had waited for ``waited_s``."""

    host: str
    projected_s: float | None
    waited_s: float


class Feedback:
    """Compares each mitigated entry's end with what was foretold of it. ``leniency`` multiplies the bar.

    Of one that was silent nobody knows when it would have ended. It was broken off in vain if the file's last
    attempt waited at least as long for its first byte: then the file is late, not the connection. The bar for
    silence is the host's own, as such objects are.
    """

    def __init__(self) -> None:
        self.leniency = 1.0
        self._foretold: dict[int, _Foretold] = {}
        self._patience_s: dict[str, float] = {}

    def patience_s(self, host: str) -> float:
        """The seconds of silence that nobody of ``host`` is broken off for."""
        return self._patience_s.get(host, 0.0)

    def mitigated(self, key: int, host: str, projected_s: float | None, waited_s: float) -> None:
        """It would have ended at ``projected_s``, None: was silent; of several times the first counts."""
        self._foretold.setdefault(key, _Foretold(host, projected_s, waited_s))

    def silent(self, key: int, waited_s: float) -> None:
        """No first byte yet: if the entry was mitigated for less, that is a verdict already."""
        foretold = self._foretold.get(key)
        if foretold is not None and foretold.projected_s is None and waited_s >= foretold.waited_s:
            self._wait(foretold.host, min(waited_s, SURE_S))

    def finished(self, key: int, now_s: float, first_s: float | None) -> None:
        """An entry is there, its first byte after ``first_s``; if it was mitigated, this is the verdict."""
        foretold = self._foretold.pop(key, None)
        if foretold is None:
            return
        if foretold.projected_s is None:
            self._judge_silence(foretold, first_s)
        elif now_s > foretold.projected_s:
            self.leniency = min(self.leniency * WORSE, HIGHEST)
        else:
            self.leniency = max(self.leniency - BETTER, LOWEST)

    def _judge_silence(self, foretold: _Foretold, first_s: float | None) -> None:
        host, patience_s = foretold.host, self.patience_s(foretold.host)
        if first_s is not None and first_s >= foretold.waited_s:
            self._wait(host, first_s)
        elif patience_s:
            self._patience_s[host] = WEARS_OFF * patience_s

    def _wait(self, host: str, silent_s: float) -> None:
        if host not in self._patience_s and len(self._patience_s) >= MOST_HOSTS:
            del self._patience_s[next(iter(self._patience_s))]
        self._patience_s[host] = max(self.patience_s(host), LONGER * silent_s)

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
