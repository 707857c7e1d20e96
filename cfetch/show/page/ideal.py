"""The ideal of a run: how long the same files need if nothing holds them back. Pure, in one pass.

Two bounds, of which the longer counts:

- slots: each file takes as long as is usual at its host (the median wait for a first byte, then the median
  rate), or as long as it took if that was less; the slots, as many as were in use at once, are never idle;
- the link: all bytes that are in files come at the highest rate that the run kept for a tenth of its time.

The run itself takes at least as long as either, so it is never better than its ideal.
"""

from array import array

import numpy as np

from cfetch.base.records import FileRecord
from cfetch.show.makespan import ROUNDING_S, list_jobs
from cfetch.show.page.time_bins import TimeBins
from cfetch.show.wasted_bytes import received_bytes, wasted_bytes

KEPT = 10  # the link's rate is the highest that was kept for this part of the run
LEAST_S = 1e-3


class _Host:
    """The files of one host: how long each held its slots, its bytes, and its wait for a first byte."""

    def __init__(self) -> None:
        self.held_s, self.bytes, self.waited_s = array("d"), array("d"), array("d")

    def usual_s(self) -> float:
        """The time that all files together need, each at the usual rate or faster."""
        held_s, size, waited_s = map(np.frombuffer, (self.held_s, self.bytes, self.waited_s))
        known = waited_s >= 0
        first_s = float(np.median(waited_s[known])) if known.any() else 0.0
        came = (size > 0) & (held_s - waited_s > ROUNDING_S) & known
        if not came.any():
            return float(held_s.sum())
        usual_bps = float(np.median(size[came] / (held_s - waited_s)[came]))
        return float(np.minimum(held_s, first_s + size / usual_bps).sum())


class IdealBuilder:
    """``add`` the records of entries; ``ideal_s`` may be asked at any time."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self._spans: array[float] = array("d")  # start and end of each attempt
        self._came = TimeBins()
        self._useful_bytes = 0

    def add(self, record: FileRecord) -> None:
        """Add an entry that has ended."""
        if not record.attempts:
            return
        host = self._hosts.setdefault(record.host, _Host())
        last = record.attempts[-1]
        waited_s = -1.0 if last.first_byte_s is None else max(0.0, last.first_byte_s - last.start_s)
        host.held_s.append(sum(max(0.0, job.took_s) for job in list_jobs(record)))
        host.bytes.append(record.bytes if record.status == "done" else 0)
        host.waited_s.append(waited_s)
        self._useful_bytes += received_bytes(record) - wasted_bytes(record)
        for attempt in record.attempts:
            self._spans.extend((attempt.start_s, attempt.end_s))
            if attempt.bytes:
                first_s = attempt.start_s if attempt.first_byte_s is None else attempt.first_byte_s
                self._came.spread(first_s, attempt.end_s, attempt.bytes)

    def ideal_s(self, elapsed_s: float) -> float | None:
        """The ideal of a run that took ``elapsed_s``; None if nothing came."""
        if self._useful_bytes <= 0 or elapsed_s < LEAST_S:
            return None
        ideal_s = max(self._by_slots_s(), self._by_link_s(elapsed_s))
        return max(LEAST_S, min(ideal_s, elapsed_s))

    def _by_slots_s(self) -> float:
        return sum(host.usual_s() for host in self._hosts.values()) / _count_at_once(self._spans)

    def _by_link_s(self, elapsed_s: float) -> float:
        """All windows of a tenth of the run; those that reach beyond its end are counted too."""
        sums = self._came.sums(self._came.width_s, self._came.used)
        bins = max(1, round(elapsed_s / KEPT / self._came.width_s))
        windows = np.convolve(sums, np.ones(bins))
        rate_bps = float(windows.max()) / (bins * self._came.width_s)
        return self._useful_bytes / rate_bps if rate_bps > 0 else 0.0


def _count_at_once(spans: "array[float]") -> int:
    """The most attempts at the same time; at least 1."""
    starts_s, ends_s = np.sort(np.frombuffer(spans)[::2]), np.sort(np.frombuffer(spans)[1::2])
    begun = np.arange(1, len(starts_s) + 1)
    return max(1, int((begun - np.searchsorted(ends_s, starts_s + ROUNDING_S, side="right")).max()))
