"""What normal speed is: the median throughput of every entry that finished in this run.

The median, not the mean: one absurd sample must not move what counts as normal. The samples live as long as
the run; forgetting them early would leave a last, slow file without anything to be compared with.
"""

import heapq
import math


def count_required(known: int, quantile: float) -> int:
    """How many of ``known`` entries must have finished before anyone is judged: ``ceil(quantile * known)``.

    Exact where the product is whole: 0.55 of 100 is 55, though in binary floating point it lies just above.
    """
    return math.ceil(quantile * known - 1e-9)


class RunningMedian:
    """The median of all numbers added so far: O(log n) to add, O(1) to ask.

    Two heaps hold the lower and the upper half. Exact up to ``MAX_SAMPLES`` numbers; from there every second
    one kept is let go and only every second new one taken (then every fourth, and so on): an even sample of
    the whole run, so that ten million files cost no more memory than one million.
    """

    MAX_SAMPLES = 1 << 20  # about 36 MB; a median of half as many is good to 0.1 % of rank

    def __init__(self) -> None:
        self._lower: list[float] = []  # negated: heapq knows smallest-first only; holds the odd one
        self._upper: list[float] = []
        self._stride = 1
        self._skipped = 0

    def __len__(self) -> int:
        return len(self._lower) + len(self._upper)

    def add(self, value: float) -> None:
        """Take one more number into account."""
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        lower, upper = self._lower, self._upper
        if len(lower) == len(upper):
            heapq.heappush(lower, -heapq.heappushpop(upper, value))
        else:
            heapq.heappush(upper, -heapq.heappushpop(lower, -value))
            if 2 * len(upper) >= self.MAX_SAMPLES:
                self._thin()

    @property
    def value(self) -> float | None:
        """The middle number, or the mean of the two middle ones; None while there is none."""
        if len(self._lower) > len(self._upper):
            return -self._lower[0]
        return (self._upper[0] - self._lower[0]) / 2 if self._upper else None

    def _thin(self) -> None:
        self._stride *= 2
        self._lower = self._lower[::2]  # keeps both roots, so the median itself does not jump
        self._upper = self._upper[::2]
        heapq.heapify(self._lower)
        heapq.heapify(self._upper)
