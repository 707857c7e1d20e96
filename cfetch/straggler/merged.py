"""Finds the normal speed over all tasks of a run on many machines, and the machines that are far slower.

Machines are compared only by similar files: files of one host and of similar size. Small files show the
latency and large ones the bandwidth, and a host that is slow for all machines is no evidence against any of
them.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.baseline import RunningQuantile, count_required

RECENT = 32  # samples of one machine and kind that count: it may be slow for a while only
MOST_KINDS = 1024  # hosts times sizes; the oldest is dropped: some 8 MB if 250 machines know all of them
LEAST = 5  # samples before a machine is judged: fewer may be chance


class SpeedSample(NamedTuple):
    """The speed of one file."""

    host: str
    size_bytes: int
    rate_bps: float


_Kind = tuple[str, int]


class Merged:
    """Makes one baseline of the samples of all tasks, and names the slow machines."""

    def __init__(self, config: StragglerConfig) -> None:
        self._config = config
        self._median = RunningQuantile(config.slower_share)
        self._kinds: dict[_Kind, dict[str, deque[float]]] = {}
        self.finished = 0

    def add(self, machine: str, samples: Iterable[SpeedSample], finished: int) -> None:
        """Add ``finished`` entries of a machine since its last report, and samples of some."""
        self.finished += finished
        for sample in samples:
            self._median.add(sample.rate_bps)
            kind = self._kinds.setdefault(_kind(sample), {})
            kind.setdefault(machine, deque(maxlen=RECENT)).append(sample.rate_bps)
        while len(self._kinds) > MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]

    def forget(self, machine: str) -> None:
        """Stop comparing the others with a machine that is gone: the network may have changed since."""
        for rates in self._kinds.values():
            rates.pop(machine, None)

    @property
    def median_bps(self) -> float | None:
        """Normal speed, even if it is not in force; None before the first sample."""
        return self._median.value

    def count_required(self, under_way: int) -> int:
        """Entries that must have finished before any is judged, by the rule of one machine."""
        return count_required(self.finished + under_way, self._config.quantile)

    def in_force_bps(self, under_way: int) -> float | None:
        """The baseline for all tasks, once enough entries have finished."""
        enough = self._config.enabled and self.finished >= self.count_required(under_way)
        return self.median_bps if enough else None

    def slow(self, under_way: Iterable[tuple[str, SpeedSample]]) -> dict[str, float]:
        """Machines whose share of the others' speed is below one divided by the multiplier, with that share.

        ``under_way`` are the speeds, by machine, of files that have not finished yet, so that a machine is
        known to be slow before any of its files has exceeded its limit.
        """
        going: dict[_Kind, dict[str, list[float]]] = {}
        for machine, sample in under_way:
            going.setdefault(_kind(sample), {}).setdefault(machine, []).append(sample.rate_bps)
        shares: dict[str, list[float]] = {}
        for kind, finished in self._kinds.items():
            _compare(finished, going.get(kind, {}), shares)
        medians = {machine: _middle(sorted(many)) for machine, many in shares.items() if len(many) >= LEAST}
        return {machine: share for machine, share in medians.items() if share * self._config.multiplier < 1}


def _compare(
    finished: dict[str, deque[float]], going: dict[str, list[float]], shares: dict[str, list[float]]
) -> None:
    """Add each machine's speeds as shares of the others' normal speed."""
    medians = sorted((_middle(sorted(rates)), machine) for machine, rates in finished.items())
    normal = [rate for rate, _ in medians]
    places = {machine: place for place, (_, machine) in enumerate(medians)}
    for machine in finished.keys() | going.keys():
        place = places.get(machine)
        if len(normal) > (place is not None):
            usual_bps = _middle(normal, left_out=place)
            rates = [*finished.get(machine, ()), *going.get(machine, ())]
            shares.setdefault(machine, []).extend(rate / usual_bps for rate in rates)


def _middle(ordered: Sequence[float], left_out: int | None = None) -> float:
    """The median of sorted numbers, without the number at the place ``left_out``; nothing is copied."""
    place = len(ordered) if left_out is None else left_out
    half, is_odd = divmod(len(ordered) - (left_out is not None), 2)
    above = ordered[half + (half >= place)]
    return above if is_odd else (ordered[half - 1 + (half - 1 >= place)] + above) / 2


def _kind(sample: SpeedSample) -> _Kind:
    return sample.host, sample.size_bytes.bit_length() // 2  # sizes within a factor of four
