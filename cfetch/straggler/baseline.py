"""Normal speed: the median throughput of all entries that finished in this run, or another quantile.

It is a quantile and not the mean, as one extreme sample must not move the normal speed. The samples live as
long as the run; forgetting them early would leave a last, slow file without anything to be compared with.
"""

import heapq
import math


def count_required(known: int, quantile: float) -> int:
    """How many of ``known`` entries must have finished before any is judged: ``ceil(quantile * known)``.

    It is exact if the product is whole: 0.55 of 100 is 55, though in binary floating point it is just above.
    """
    return math.ceil(quantile * known - 1e-9)


class RunningQuantile:
    """A quantile of all numbers added so far, by default the median: O(log n) to add, O(1) to ask.

    ``share`` of the numbers are below it; between two of them it is interpolated, as numpy does by default.
    One heap holds the numbers up to it, another the numbers above. It is exact up to ``MAX_SAMPLES`` numbers.
    Then every second kept number is dropped, and only every second new one is taken (later every fourth, and
    so on): an even sample of the whole run, so that ten million files cost no more memory than one million.
    """

    MAX_SAMPLES = 1 << 20  # about 36 MB; a median of half as many is good to 0.1 % of rank

    def __init__(self, share: float = 0.5) -> None:
        self._share = share
        self._lower: list[float] = []  # negated, as heapq gives the smallest first
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
        count = len(self._lower) + len(self._upper) + 1
        if len(self._lower) < self._count_lower(count):
            heapq.heappush(self._lower, -heapq.heappushpop(self._upper, value))
        else:
            heapq.heappush(self._upper, -heapq.heappushpop(self._lower, -value))
        if count >= self.MAX_SAMPLES:
            self._thin()

    @property
    def value(self) -> float | None:
        """The number of that rank, or interpolated between the two nearest; None while there is none."""
        if not self._lower:
            return None
        part = self._rank(len(self)) % 1
        low = -self._lower[0]
        return low if not part else (1 - part) * low + part * self._upper[0]

    def _rank(self, count: int) -> float:
        """The quantile's place among ``count`` sorted numbers, from 0 on."""
        return round(self._share * (count - 1), 9)  # 0.95 of 20 is 19, though not in binary floats

    def _count_lower(self, count: int) -> int:
        """How many of ``count`` numbers are up to the quantile; at most one more for each new number."""
        return int(self._share * (count - 1) + 1e-9) + 1  # as in ``_rank``

    def _balance(self) -> None:
        lower, upper = self._lower, self._upper
        most = self._count_lower(len(self))
        while len(lower) > most:
            heapq.heappush(upper, -heapq.heappop(lower))
        while len(lower) < most:
            heapq.heappush(lower, -heapq.heappop(upper))

    def _thin(self) -> None:
        self._stride *= 2
        self._lower = self._lower[::2]  # both roots stay, so that the quantile hardly jumps
        self._upper = self._upper[::2]
        heapq.heapify(self._lower)
        heapq.heapify(self._upper)
        self._balance()
