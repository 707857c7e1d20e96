"""The formula of CloudFetch: it finds the attempts that take far longer than the median speed would need.

An attempt is a straggler when ``elapsed > multiplier * size / median + padding``, once ``quantile`` of the
known entries have finished. An entry is known while it is in flight, between two attempts, or finished; not
while it is queued, and not after it has failed. One event loop owns a detector; it is not for threads.
"""

from collections.abc import Collection, Mapping

import msgspec

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.attempt_figures import AttemptMetrics, patience
from cfetch.straggler.baseline import RunningQuantile, count_required
from cfetch.straggler.check import Check, Flagged
from cfetch.straggler.entries import EntryHistory
from cfetch.straggler.fallback import SequentialFallback
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.straggler.policy import Live
from cfetch.straggler.stall import gap_s
from cfetch.straggler.ways_to_ask import NO_CURE, WayToAsk

FRESH_EVERY_S = 10.0  # a handshake takes a hundredth of that; a slow connection would be kept for ever
MAX_MITIGATIONS = 2  # of one entry: after them the bar has risen four-fold


def limit_s(config: StragglerConfig, size_bytes: int, median_bps: float, mitigations: int = 0) -> float:
    """Seconds after which an attempt at ``size_bytes`` is a straggler.

    The formula of CloudFetch, ``multiplier * size / median + padding``; each earlier rescue of the entry
    doubles the first term, so that a file which is slow everywhere is soon not cancelled any more.
    """
    return config.multiplier * size_bytes / median_bps * patience(mitigations) + config.padding_s


class Detector:
    """Implements ``Policy``.

    Ids are indices of the manifest; helpers, which bring further segments of an entry, are not looked at.

    Memory: one sample of the median for each finished entry, and one byte for each id up to the largest.
    With ``enabled`` false it still knows the baseline, but flags nobody.
    """

    seconds = None  # no second requests: it cancels, and begins anew

    def __init__(self, config: StragglerConfig, *, tick_s: float = 0.5) -> None:
        self.tick_s = tick_s
        self._config = config
        self._median = RunningQuantile(config.slower_share)
        self._fallback = SequentialFallback(config)
        self._active: dict[int, AttemptMetrics] = {}
        self._entries = EntryHistory()
        self._counted: set[int] = set()
        self._checked_s: float | None = None
        self._merged_bps: float | None = None
        self._fresh_s = 0.0  # when a connection was last given up in sequential mode

    @property
    def known(self) -> int:
        """Entries in flight, between two attempts, or finished."""
        return len(self._active) + self._entries.paused + self.total_finished

    @property
    def total_finished(self) -> int:
        """Entries that have finished."""
        return self._entries.finished

    @property
    def required(self) -> int:
        """Entries that must have finished before any attempt is judged."""
        return count_required(self.known, self._config.quantile)

    @property
    def median_bps(self) -> float | None:
        """Normal speed: the merged one if there is one, else this run's own; None before the first sample."""
        return self._median.value if self._merged_bps is None else self._merged_bps

    def use_median(self, median_bps: float | None) -> None:
        """Take this as normal speed from now on, in force at once, as it is measured over many more entries.

        None: judge by this run's own entries again.
        """
        self._merged_bps = median_bps

    @property
    def total_stragglers(self) -> int:
        """Entries that were ever flagged in this run; each counts once, however many attempts were slow."""
        return len(self._counted)

    @property
    def sequential(self) -> bool:
        """Whether new entries are to be started one at a time."""
        return self._fallback.sequential

    def note_start(
        self,
        entry_id: int,
        size_bytes: int | None,
        now_s: float,
        *,
        host: str = "",  # noqa: ARG002 - the formula knows no hosts
        immune: bool,
        mitigations: int,
        asks: int = 1,  # noqa: ARG002 - nor objects that are slow the first time
    ) -> WayToAsk:
        """Note that a new attempt begins to fetch ``size_bytes``; its entry is in flight from now on."""
        if entry_id < 0:
            return NO_CURE
        self.note_failure(entry_id)  # leaves the entry in no other state, so that it is counted once
        self._active[entry_id] = AttemptMetrics(entry_id, size_bytes, now_s, immune, mitigations)
        return NO_CURE

    def note_size(self, entry_id: int, size_bytes: int) -> None:
        """Note the bytes that the attempt in flight has to fetch."""
        attempt = self._active.get(entry_id)
        if attempt is not None:
            self._active[entry_id] = msgspec.structs.replace(attempt, size_bytes=size_bytes)

    def note_finish(
        self,
        entry_id: int,
        size_bytes: int | None,
        now_s: float,
        *,
        first_byte_s: float | None = None,  # noqa: ARG002 - nor latency
        carried_bytes: int = 0,  # noqa: ARG002 - nor connections
    ) -> None:
        """Note that the attempt completed and is a sample; ignored if the entry has no attempt in flight."""
        attempt = self._active.pop(entry_id, None)
        if attempt is None:
            return
        self._entries.finish(entry_id)
        rate_bps = attempt.finish(now_s, size_bytes).rate_bps
        if rate_bps:
            self._median.add(rate_bps)

    def note_pause(self, entry_id: int) -> None:
        """Note that the attempt is over and another will follow after back-off: the entry stays known."""
        if self._active.pop(entry_id, None):
            self._entries.pause(entry_id)

    def note_cancellation(self, entry_id: int, now_s: float, wasted_bytes: int) -> None:  # noqa: ARG002 - nor waste
        """Note the end like any other pause: the formula needs nothing else."""
        self.note_pause(entry_id)

    def note_failure(self, entry_id: int) -> None:
        """Note that the entry is given up: it is no longer known. Its samples, if it had any, stay."""
        self._active.pop(entry_id, None)
        self._entries.forget(entry_id)

    def must_spare(self, host: str, mitigations: int) -> bool:  # noqa: ARG002 - the formula knows no hosts
        """Whether an entry that was rescued so often is left alone: after two rescues, as the design says."""
        return mitigations >= MAX_MITIGATIONS

    def expected_s(self, entry_id: int) -> float | None:
        """The limit of the entry's attempt in flight; None if no limit is in force (yet).

        An immune attempt has a limit too: views show it as slow beyond that, but it is never flagged.
        """
        attempt = self._active.get(entry_id)
        median_bps = self._baseline_bps()
        return _limit_of(attempt, self._config, median_bps) if attempt and median_bps else None

    def check(self, now_s: float, attempts: Collection[Live] = ()) -> Check:
        """Look at all attempts in flight; each is flagged at most once. Call at least every ``MAX_GAP_S``.

        The seconds for which we ourselves kept an attempt from reading count in the samples, which show how
        fast files come here, but they make no attempt a straggler.
        """
        held_s = {attempt.key: held for attempt in attempts if (held := attempt.held_s(now_s))}
        lost_s = gap_s(self._checked_s, now_s)
        self._checked_s = now_s
        if lost_s:
            self._active = {id_: a.forgive(now_s - lost_s, now_s) for id_, a in self._active.items()}
        stragglers = () if lost_s else self._flag(now_s, held_s)
        return Check(
            stragglers=stragglers,
            median_bps=self.median_bps,
            finished=self.total_finished,
            required=self.required,
            active=len(self._active),
            fell_back=self._fallback.observe(self.total_stragglers),
            gap_s=lost_s,
            lame=self._give_up_connections(now_s, attempts),
        )

    def _give_up_connections(self, now_s: float, attempts: Collection[Live]) -> tuple[int, ...]:
        """The attempts whose connections carry no further file: now and then, if files come one at a time.

        Then all files come over one connection. If that is slow, there is no faster one to compare it with,
        and the median is its own speed; so only a fresh connection can show that it is to blame.
        """
        if not self.sequential or not attempts or now_s - self._fresh_s < FRESH_EVERY_S:
            return ()
        self._fresh_s = now_s
        return tuple(attempt.key for attempt in attempts)

    def remaining_s(self, entry_id: int) -> None:
        """None: the formula looks at no progress."""

    def fresh_s(self, host: str, size_bytes: int) -> None:
        """None: the formula knows no hosts."""

    def collect_knowledge(self, wall_s: float) -> Knowledge:  # noqa: ARG002
        """Nothing: the formula learns nothing that outlives the run."""
        return NOTHING

    def _baseline_bps(self) -> float | None:
        """Normal speed if it is in force: mitigation is enabled and enough entries have finished."""
        enough = self._merged_bps is not None or self.total_finished >= self.required
        return self.median_bps if self._config.enabled and enough else None

    def _flag(self, now_s: float, held_s: Mapping[int, float]) -> tuple[Flagged, ...]:
        median_bps = self._baseline_bps()
        if median_bps is None:
            return ()
        stragglers = []
        for attempt in self._active.values():
            if attempt.immune or attempt.straggler:
                continue
            expected_s = _limit_of(attempt, self._config, median_bps)
            elapsed_s = now_s - attempt.start_s - held_s.get(attempt.id, 0.0)
            if expected_s is not None and elapsed_s > expected_s:
                stragglers.append(Flagged(attempt.id, elapsed_s, expected_s))
        for flagged in stragglers:
            self._active[flagged.id] = self._active[flagged.id].flag()
            self._counted.add(flagged.id)
        return tuple(stragglers)


def _limit_of(attempt: AttemptMetrics, config: StragglerConfig, median_bps: float) -> float | None:
    size_bytes = attempt.size_bytes
    if size_bytes is None or size_bytes <= 0:
        return None
    return limit_s(config, size_bytes, median_bps, attempt.mitigations)
