"""The time that a fresh attempt would need: ``latency + size / bandwidth``, learned from a host's last files.

The line is that of Theil and Sen: the median of the slopes between points, weighted by their distance. Its
points are the medians of size classes, so that neither one extreme file nor many small ones distort it.
If all sizes are alike, there is no slope, and the measured first byte separates latency from
transfer.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec

from cfetch.straggler.attempt_figures import MIN_ELAPSED_S
from cfetch.straggler.knowledge import MAX_SPREAD, HostKnowledge, Knowledge
from cfetch.straggler.ways_to_ask import quantile

LEAST = 5  # samples before a host is judged by its own: the median of five bears two extreme ones
LEAST_OF_FEW = 2  # samples if there is nothing better; the spread is then assumed to be wide
LEAST_RUNNING = 3  # attempts under way replace samples before any has ended; one may be the straggler
LEAST_LEARNED = 3  # files that are worth remembering for the next run
RECENT = 32  # samples of one size class that count: with 16 connections, two rounds of them
HALF_LIFE_S = 60.0  # the weight of a class halves for each minute by which the newest sample is newer
SAME = 0.1  # a difference of a tenth changes no decision
REFIT_S = 0.5  # between two fits: a fit of 300 samples takes a millisecond
OLD = 0.05  # of the weight of the others: a class with less is left out, after five minutes
MOST_HOSTS = 4096  # the host that was met first is forgotten first
MOST_SAMPLES = 1 << 17  # samples of all hosts: 4,096 hosts with one size class each take some 60 MB
REACH = 4  # sizes that differ by this factor show a slope, which is trusted up to this times the largest
TRANSFER = 0.5  # least share of transfer in the largest files' time: a small body comes with its first byte
FEW = 0.5  # uncertainty of the spread: with one sample it is a factor of 1.6, with 25 it is 1.1
TAIL = 2.5  # sigmas above the median within which 99 % of first bytes come
LATE = 0.95  # quantile of measured first bytes: many cold objects lie far beyond the limit from the sigma
SIGMA_OF_MAD = 1.4826  # of a normal distribution


class BroughtFile(msgspec.Struct, frozen=True, gc=False):
    """A file that was brought: ``first_byte_s`` and ``duration_s`` are seconds since its request."""

    size_bytes: int
    duration_s: float
    first_byte_s: float | None
    end_s: float


class Fit(NamedTuple):
    """The normal time of an attempt. ``spread``: sigma of the natural logarithm of measured over predicted.

    ``first_byte_s`` is the median time to the first byte, and most attempts stay below ``late_s``. Up to
    ``reach_bytes`` the line holds; for a larger file the time grows in proportion, which errs on the long
    side.
    """

    latency_s: float
    s_per_byte: float
    spread: float
    first_byte_s: float
    late_s: float
    reach_bytes: float

    def duration_s(self, size_bytes: float) -> float:
        """Seconds from the request to the last byte of a file of that size."""
        if size_bytes > self.reach_bytes:
            return self.latency_s + size_bytes * self.pace_s(size_bytes)
        return self.latency_s + size_bytes * self.s_per_byte

    def fresh_s(self, size_bytes: float) -> float:
        """Seconds that a fresh attempt needs: its connection costs one more latency than a request."""
        return self.first_byte_s + self.duration_s(size_bytes)

    def pace_s(self, size_bytes: float) -> float:
        """Seconds that a byte of a file of that size needs, the latency aside."""
        if size_bytes > self.reach_bytes:
            return self.s_per_byte + self.latency_s * (1 / self.reach_bytes - 1 / size_bytes)
        return self.s_per_byte


class _Samples:
    """The latest samples of one host, in classes of sizes within a factor of four."""

    def __init__(self) -> None:
        self.classes: dict[int, deque[BroughtFile]] = {}
        self.seen = 0
        self._newest_s = 0.0
        self._fitted_at = 0
        self._fitted_s = -math.inf
        self._fit: Fit | None = None

    def add(self, sample: BroughtFile) -> int:
        """Keep a sample. Returns how many more are kept: 0 if it replaced the oldest sample of its class."""
        kind = sample.size_bytes.bit_length() // 2
        if kind not in self.classes:
            self.classes[kind] = deque(maxlen=RECENT)
        of_kind = self.classes[kind]
        more = len(of_kind) < RECENT
        of_kind.append(sample)
        self.seen += 1
        self._newest_s = sample.end_s
        return int(more)

    @property
    def fit(self) -> Fit | None:
        """The fit, computed again once an eighth of the samples is new: one hardly moves a median."""
        new, few = self.seen - self._fitted_at, self._fitted_at < RECENT
        if new > min(self._fitted_at, RECENT) // 8 and (few or self._newest_s - self._fitted_s > REFIT_S):
            self._fit = fit_of(self.classes.values())
            self._fitted_at, self._fitted_s = self.seen, self._newest_s
        return self._fit


class FreshAttempts:
    """Makes fits: of a host's own samples, else of earlier runs, else of the attempts under way."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._hosts: dict[str, _Samples] = {}
        self._all = _Samples()
        self._kept = 0  # samples of all hosts
        self._running: dict[str, Fit] = {}
        self._merged: Fit | None = None

    def add(self, host: str, sample: BroughtFile) -> bool:
        """Add a file that came from ``host``; its ``size_bytes`` is above 0.

        Returns whether the host's normal speed follows from its own files from now on.
        """
        samples = self._hosts.get(host)
        if samples is None:
            if len(self._hosts) >= MOST_HOSTS:
                self._forget_one()
            samples = self._hosts[host] = _Samples()
        self._kept += samples.add(sample)
        if self._kept > MOST_SAMPLES:
            self._forget_one()
        self._all.add(sample)
        return samples.seen == LEAST

    def _forget_one(self) -> None:
        samples = self._hosts.pop(next(iter(self._hosts)))
        self._kept -= sum(map(len, samples.classes.values()))

    def running(self, fits: dict[str, Fit]) -> None:
        """Replace the fits made of the attempts under way, by host."""
        self._running = {host: _steady(self._running.get(host, fit), fit) for host, fit in fits.items()}

    def use_median(self, median_bps: float | None) -> None:
        """Take the speed that many machines have measured, for hosts about which nothing else is known."""
        self._merged = None if not median_bps else Fit(0.0, 1 / median_bps, FEW, 0.0, math.inf, math.inf)

    def of(self, host: str, size_bytes: float = 0.0) -> Fit | None:
        """The fit for a file of ``size_bytes`` of ``host``; None while nothing is known."""
        samples = self._hosts.get(host)
        own = samples.fit if samples is not None and samples.seen >= LEAST else None
        running = self._running.get(host)
        if own is not None:
            if running is not None and size_bytes > own.reach_bytes:
                return running._replace(latency_s=own.latency_s, first_byte_s=own.first_byte_s)
            return own
        known = self._knowledge.hosts.get(host)
        if known is not None:
            return _fit_known(known)
        if running is not None:
            return running
        if self._merged is not None and self._all.seen < LEAST:
            return self._merged
        return self._all.fit if self._all.seen >= LEAST_OF_FEW else None

    def usual_bytes(self, host: str) -> int | None:
        """The median size of the recent files of ``host``; None while they are too few."""
        samples = self._hosts.get(host)
        if samples is None or samples.seen < LEAST_OF_FEW:
            return None
        return int(middle([sample.size_bytes for group in samples.classes.values() for sample in group]))

    def is_measured(self, host: str) -> bool:
        """Whether the fit of ``host`` is made of finished files, in this run or an earlier one."""
        samples = self._hosts.get(host)
        return (samples is not None and samples.seen >= LEAST) or host in self._knowledge.hosts

    def is_known(self, host: str) -> bool:
        """Whether the fit of ``host`` is its own and not that of other hosts."""
        return self.is_measured(host) or host in self._running

    def collect_knowledge(self, wall_s: float) -> Knowledge:
        """The hosts with enough samples, for the next run."""
        hosts = {}
        for host, samples in self._hosts.items():
            fit = fit_of(samples.classes.values()) if samples.seen >= LEAST_LEARNED else None
            if fit is not None:
                rate_bps = 1 / fit.s_per_byte
                hosts[host] = HostKnowledge(fit.latency_s, rate_bps, fit.spread, samples.seen, wall_s)
        return Knowledge(hosts=hosts)


def fit_of(classes: Iterable[Sequence[BroughtFile]]) -> Fit | None:
    """The line through samples that are grouped by similar sizes; None if there is none."""
    groups = sorted((list(group) for group in classes if group), key=lambda g: g[-1].size_bytes)
    if not groups:
        return None
    newest_s = max(group[-1].end_s for group in groups)
    points = [
        (
            middle([sample.size_bytes for sample in group]),
            middle([sample.duration_s for sample in group]),
            len(group) * 0.5 ** ((newest_s - group[-1].end_s) / HALF_LIFE_S),
        )
        for group in groups
    ]
    most = max(weight for *_, weight in points)
    groups = [group for group, (*_, weight) in zip(groups, points, strict=True) if weight >= OLD * most]
    points = [point for point in points if point[2] >= OLD * most]
    samples = [sample for group in groups for sample in group]
    firsts = [max(s.first_byte_s, MIN_ELAPSED_S) for s in samples if s.first_byte_s is not None]
    size, duration_s, _ = points[-1]
    floor = TRANSFER * duration_s / size
    slope = _slope(points) if size >= REACH * points[0][0] else _transfer(groups[-1])
    reach_bytes = size * REACH if slope > floor else size
    slope = max(slope, floor)
    latency_s = max(0.0, _weighted_median([(d - s * slope, w) for s, d, w in points]))
    firsts = firsts or [max(latency_s, MIN_ELAPSED_S)]
    line = Fit(latency_s, slope, 0.0, middle(firsts), _late_s(firsts), reach_bytes)
    ratios = [s.duration_s / max(line.duration_s(s.size_bytes), MIN_ELAPSED_S) for s in samples]
    return line._replace(spread=_sigma(ratios))


def fit_of_running(rates_bps: Sequence[float], firsts_s: Sequence[float]) -> Fit | None:
    """A fit from attempts under way: their bytes a second since the first byte, and when it came.

    None if they are too few, or if most stand still.
    """
    if len(rates_bps) < LEAST_RUNNING:
        return None
    rate_bps = middle(rates_bps)
    if rate_bps <= 0:
        return None
    first_s = middle(firsts_s) if firsts_s else 0.0
    late_s = _late_s(firsts_s) if firsts_s else math.inf
    spread = _sigma([max(rate / rate_bps, 1e-3) for rate in rates_bps])
    return Fit(first_s, 1 / rate_bps, spread, first_s, late_s, math.inf)


def middle(numbers: Sequence[float]) -> float:
    """The median; the upper of the two middle numbers if the count is even."""
    return sorted(numbers)[len(numbers) // 2]


def _steady(old: Fit, new: Fit) -> Fit:
    """The old fit while it is about right, so that no attempt has to be judged anew."""
    return old if abs(old.s_per_byte - new.s_per_byte) < SAME * old.s_per_byte else new


def _fit_known(known: HostKnowledge) -> Fit:
    late_s = known.latency_s * math.exp(TAIL * max(known.spread, FEW))
    return Fit(known.latency_s, 1 / known.rate_bps, known.spread, known.latency_s, late_s, math.inf)


def _slope(points: Sequence[tuple[float, float, float]]) -> float:
    """Seconds a byte, from the medians of different sizes."""
    pairs = combinations(points, 2)
    return _weighted_median(
        [((d2 - d1) / (s2 - s1), (s2 - s1) * min(w1, w2)) for (s1, d1, w1), (s2, d2, w2) in pairs]
    )


def _transfer(group: Sequence[BroughtFile]) -> float:
    """Seconds a byte after the first one, in files of similar size."""
    return middle([max(s.duration_s - (s.first_byte_s or 0.0), MIN_ELAPSED_S) / s.size_bytes for s in group])


def _weighted_median(pairs: Sequence[tuple[float, float]]) -> float:
    """The weighted median of (number, weight) pairs."""
    half, so_far = sum(weight for _, weight in pairs) / 2, 0.0
    for number, weight in sorted(pairs):
        so_far += weight
        if so_far >= half:
            return number
    return max(pairs)[0]


def _late_s(firsts_s: Sequence[float]) -> float:
    """The later of two limits of first bytes: by the scatter about the median, and the measured tail."""
    sigma = _sigma([max(first_s, MIN_ELAPSED_S) for first_s in firsts_s])
    by_scatter_s = middle(firsts_s) * math.exp(TAIL * sigma)
    measured_s = quantile(firsts_s, LATE)  # of five it is the second largest, as the largest may be extreme
    return max(by_scatter_s, measured_s)


def _sigma(ratios: Sequence[float]) -> float:
    """How far the logarithms of ``ratios`` scatter; wider while there are few."""
    logs = [math.log(ratio) for ratio in ratios]
    centre = middle(logs)
    scatter = SIGMA_OF_MAD * middle([abs(number - centre) for number in logs])
    return min(math.hypot(scatter, FEW / math.sqrt(len(logs))), MAX_SPREAD)
