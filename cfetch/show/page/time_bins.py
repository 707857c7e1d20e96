"""Sums over time in bins whose number is bounded: when they do not suffice, their width doubles.

So one pass over the records of a run of unknown length needs bounded memory, and the order of the records
does not matter.
"""

import numpy as np
from numpy.typing import NDArray

FIRST_WIDTH_S = 2.0**-10  # a run of half a second has 512 bins
BINS = 1024  # more than a chart has pixels to tell apart


class TimeBins:
    """Amounts spread over time. Negative times count as 0."""

    def __init__(self) -> None:
        self.width_s = FIRST_WIDTH_S
        self._sums = np.zeros(BINS)

    def spread(self, from_s: float, to_s: float, amount: float) -> None:
        """Add ``amount``, evenly spread over the time between ``from_s`` and ``to_s``."""
        from_s = max(from_s, 0.0)
        to_s = max(to_s, from_s)
        self._widen_to(to_s)
        first, last = int(from_s / self.width_s), min(int(to_s / self.width_s), BINS - 1)
        if first >= last:
            self._sums[min(first, last)] += amount
            return
        density = amount / (to_s - from_s)
        self._sums[first] += density * ((first + 1) * self.width_s - from_s)
        self._sums[first + 1 : last] += density * self.width_s
        self._sums[last] += density * (to_s - last * self.width_s)

    def sums(self, width_s: float, number: int) -> NDArray[np.float64]:
        """The amounts in the first ``number`` bins of ``width_s``, a power of two times this width or more.

        Every answer has ``number`` bins, so that those of several hosts can be added: a host whose last byte
        came early has zeros after it.
        """
        together = min(round(width_s / self.width_s), BINS)  # a power of two, so it divides BINS
        merged = self._sums.reshape(-1, together).sum(axis=1)
        sums = np.zeros(number)
        shown = min(number, len(merged))
        sums[:shown] = merged[:shown]
        return sums

    def copy(self) -> "TimeBins":
        """Bins with the same amounts."""
        copy = TimeBins()
        copy.width_s, copy._sums = self.width_s, self._sums.copy()
        return copy

    @property
    def used(self) -> int:
        """The number of bins up to the last one that has an amount; at least 1."""
        return int(self._sums.nonzero()[0].max(initial=0)) + 1

    @property
    def total(self) -> float:
        """Everything that was added."""
        return float(self._sums.sum())

    def _widen_to(self, to_s: float) -> None:
        while to_s > BINS * self.width_s:
            self._sums[: BINS // 2] = self._sums.reshape(-1, 2).sum(axis=1)
            self._sums[BINS // 2 :] = 0.0
            self.width_s *= 2
