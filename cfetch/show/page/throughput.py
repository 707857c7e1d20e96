"""The throughput of a run by host, and how many attempts were under way. Pure, in one pass.

The bytes of an attempt are spread between its samples, so a stall or a dip of the network shows at its time.
"""

from collections.abc import Sequence

import numpy as np

from cfetch.base.events import ActiveAttempt
from cfetch.base.records import AttemptRecord, EventRecord, FileRecord
from cfetch.base.secret import printable
from cfetch.show.event_records import describe_event
from cfetch.show.format import duration, plural, rate
from cfetch.show.page.document import Layer, Moment, Throughput
from cfetch.show.page.time_bins import TimeBins

SHOWN_HOSTS = 6  # more layers cannot be told apart
KEPT_HOSTS = 64  # bins in memory; further hosts count as others
OTHERS = "other hosts"
MOMENTS = 300
POINTS = 60  # of the small curve beside a host
MOST_BINS = 128  # so that a bin is some pixels wide, on a phone too


class ThroughputBuilder:
    """``add`` the records of entries, ``note`` the events; ``section`` may be asked at any time."""

    def __init__(self) -> None:
        self._hosts: dict[str, TimeBins] = {}
        self._active = TimeBins()
        self._moments: list[Moment] = []
        self._unshown = 0

    def add(self, record: FileRecord) -> None:
        """Add an entry that has ended."""
        for attempt in record.attempts:
            self._active.spread(attempt.start_s, attempt.end_s, attempt.end_s - attempt.start_s)
            self._add_bytes(self._bins_of(attempt.mirror or record.host), attempt)

    def note(self, event: EventRecord) -> None:
        """Add an event that affected the speed."""
        if len(self._moments) < MOMENTS:
            self._moments.append(Moment(t_s=round(event.t_s, 3), text=describe_event(event)))
        else:
            self._unshown += 1

    def _bins_of(self, host: str) -> TimeBins:
        if host not in self._hosts and len(self._hosts) >= KEPT_HOSTS:
            host = OTHERS
        return self._hosts.setdefault(host, TimeBins())

    def _add_bytes(self, bins: TimeBins, attempt: AttemptRecord) -> None:
        if not attempt.bytes:
            return
        before_s = attempt.start_s if attempt.first_byte_s is None else attempt.first_byte_s
        before = 0
        for sampled_s, received in attempt.samples:
            if received > before:
                bins.spread(before_s, sampled_s, received - before)
            before_s, before = max(before_s, sampled_s), max(before, received)
        if attempt.bytes > before:
            bins.spread(before_s, attempt.end_s, attempt.bytes - before)

    def with_active(self, now_s: float, active: Sequence[ActiveAttempt]) -> "ThroughputBuilder":
        """The same with the attempts that are under way: their bytes spread evenly over their time so far."""
        if not active:
            return self
        present = ThroughputBuilder()
        present._moments, present._unshown = self._moments, self._unshown
        present._hosts = {name: bins.copy() for name, bins in self._hosts.items()}
        present._active = self._active.copy()
        for attempt in active:
            since_s = max(0.0, now_s - attempt.elapsed_s)
            present._active.spread(since_s, now_s, now_s - since_s)
            if received := received_by(attempt):
                present._bins_of(attempt.host).spread(since_s, now_s, received)
        return present

    def section(self, end_s: float) -> Throughput:
        """The section of a run that has lasted ``end_s``."""
        width_s = max([self._active.width_s, *(bins.width_s for bins in self._hosts.values())])
        while end_s > MOST_BINS * width_s:
            width_s *= 2
        number = max(1, int(np.ceil(end_s / width_s)))
        ranked = sorted(self._hosts.items(), key=lambda item: (item[0] == OTHERS, -item[1].total))
        shown = ranked if len(ranked) <= SHOWN_HOSTS + 1 else ranked[:SHOWN_HOSTS]
        layers = [(name, bins.sums(width_s, number) / width_s) for name, bins in shown]
        rest = ranked[len(shown) :]
        if rest:
            others = np.sum([bins.sums(width_s, number) for _, bins in rest], axis=0)
            layers.append((OTHERS, others / width_s))
        active = self._active.sums(width_s, number) / width_s
        total = np.sum([rates for _, rates in layers], axis=0) if layers else np.zeros(number)
        peak = int(total.argmax())
        more = f"; {plural(self._unshown, 'event')} more are not shown" if self._unshown else ""
        return Throughput(
            title="Throughput and slots in use",
            note=f"bytes per second by host, in bins of {duration(width_s)}; ▼ marks an event{more}",
            summary=f"The most was {rate(float(total[peak]))} after {duration(peak * width_s)}, "
            f"with up to {plural(max(1, round(float(active.max()))), 'attempt')} at a time.",
            width_s=width_s,
            end_s=round(end_s, 3),
            layers=[
                Layer(name=printable(name), rates_bps=np.round(rates).tolist()) for name, rates in layers
            ],
            active=np.round(active, 2).tolist(),
            moments=self._moments,
        )

    def host_lines(self) -> dict[str, list[float]]:
        """The throughput of each host as a small curve of up to ``POINTS`` values between 0 and 1."""
        lines = {}
        for name, bins in self._hosts.items():
            sums = bins.sums(bins.width_s, bins.used)
            together = -(-bins.used // POINTS)
            curve = np.add.reduceat(sums, np.arange(0, bins.used, together))
            lines[name] = np.round(curve / max(float(curve.max()), 1.0), 3).tolist()
        return lines


def received_by(attempt: ActiveAttempt) -> int:
    """The bytes that an attempt under way has received itself."""
    return max(0, attempt.bytes - attempt.from_byte)
