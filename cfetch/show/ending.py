"""Finds the cause that decided the end of a run, from its records and events. Pure.

The tail of a run is the time at its end in which at most half of its slots had an entry of their own; the
other slots were idle, or brought segments of those entries. A tail is reported if it lasted ``LEAST_S`` and
``LEAST_SHARE`` of the run. Then one of these causes kept the other slots from work:

===============  ====================================================================================
``flush``        all bytes had arrived, and files were being flushed or published
``retry``        the last entry waited for its next try, or (``pause``) for its host, which throttles
``host limit``   entries waited for a slot at their host
``slow file``    the last entry came at less than half of its host's usual rate
``large file``   the last entry was simply larger than the others
===============  ====================================================================================

A run without such a tail was limited as a whole: by a ``rate limit``, by the stated ``request rate``, by the
``disk`` (downloads waited for it), by the ``pause`` of a host, by a ``host limit``, or by its ``places``: all
slots were busy; ``nothing``: by none of these.
``stopped``: the run was ended early.

Memory is bounded: the latest ``KEPT`` entries are kept, or up to twice as many, and only sums of the others.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeGuard

import msgspec

from cfetch.base.config.option_table import SLOTS
from cfetch.base.config.settings import GROWN
from cfetch.base.records import Digest, EventRecord, FileRecord, Tail

BOUNDS = (
    *("nothing", "stopped", "flush", "retry", "pause", "slow file", "large file", "host limit"),
    *("rate limit", "request rate", "disk", "places"),
)
KEPT = 1024  # the most attempts that may be under way at the same time
LEAST_S = 1.0
LEAST_SHARE = 0.1
LEARNED = "more were not faster, or it could not bear more"
FULL = 0.8  # a limit of which this share was used on average was reached nearly all the time


class RunLimits(NamedTuple):
    """The settings that limit a run's speed; None: no such limit."""

    policy: str
    slots: int
    per_host: int | None
    rate_bps: int | None
    host_rate_bps: int | None
    most: int = 0  # the run might search for more slots up to this; 0: it did not search
    requests_per_s: float | None = None
    segments: int = 0  # connections for one file, at most; 0: not known
    flushes: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, object], slots: int) -> "RunLimits":
        """Read the limits in a run header's settings, which may come from another version."""
        policy = settings.get("policy")
        if settings.get("mitigation") is False:
            policy = "none"

        def number(name: str) -> int | None:
            value = settings.get(name)
            return value if isinstance(value, int) and 0 < value < 1 << 63 else None

        requests_per_s = settings.get("rate")
        most = number("max_concurrency") or (GROWN if slots == SLOTS else slots)
        return cls(
            policy=policy if isinstance(policy, str) else "",
            slots=max(slots, 1),
            per_host=number("per_host"),
            rate_bps=number("limit_rate"),
            host_rate_bps=number("limit_rate_per_host"),
            requests_per_s=float(requests_per_s) if _is_rate(requests_per_s) else None,
            segments=number("segments") or 0,
            flushes=settings.get("durability") != "crash",
            most=most if policy == "adaptive" and most > slots else 0,
        )


def describe_setup(limits: RunLimits, slots: int) -> str:
    """The policy, and how many downloads there are at a time, as views show them."""
    policy = "no mitigation" if limits.policy == "none" else limits.policy
    return ", ".join(filter(None, (policy, f"{slots} at a time")))


class Ending:
    """The data about a run's end: ``add`` its records and ``note`` its events, in any order."""

    def __init__(self) -> None:
        self.widths: dict[str, int] = {}
        self._kept: list[FileRecord] = []
        self._is_sparse = False  # the latest entries of many tasks are not the latest of the run
        self.busy_s: defaultdict[str, float] = defaultdict(float)  # by host, as are the next two
        self.bytes: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self._paused_s: defaultdict[str, float] = defaultdict(float)
        self.held_s = 0.0
        self.last_byte_s = 0.0

    def add(self, record: FileRecord) -> None:
        """Add an entry that has ended."""
        if not record.attempts:
            return
        for attempt in record.attempts:
            host = attempt.mirror or record.host
            self.busy_s[host] += attempt.end_s - attempt.start_s
            self.bytes[host] += attempt.bytes
            self.requests[host] += 1
            self.held_s += attempt.held_s or 0.0
            self.last_byte_s = max(self.last_byte_s, attempt.end_s)
        self._keep(record)

    def include(self, digest: Digest) -> None:
        """Add many entries that have ended, by the sums of their records."""
        for host, busy_s in digest.busy_s.items():
            self.busy_s[host] += busy_s
        self.bytes.update(digest.bytes)
        self.requests.update(digest.requests)
        self.held_s += digest.held_s
        self.last_byte_s = max(self.last_byte_s, digest.last_byte_s)
        self._is_sparse = self._is_sparse or len(digest.latest) < digest.sums.done
        for record in digest.latest:
            self._keep(record)

    @property
    def latest(self) -> list[FileRecord]:
        """The entries that have ended last, in the order of their ends; at most ``KEPT``."""
        return sorted(self._kept, key=attrgetter("end_s"))[-KEPT:]

    def _keep(self, record: FileRecord) -> None:
        self._kept.append(record)
        if len(self._kept) >= 2 * KEPT:  # seldom, as a heap of the latest would cost each entry more
            self._kept = self.latest

    def note(self, event: EventRecord) -> None:
        """Add an event."""
        if event.kind == "width" and event.host is not None and event.places is not None:
            self.widths[event.host] = event.places
        elif event.kind == "pause" and event.host is not None:
            self._paused_s[event.host] += event.seconds or 0.0

    def tail(self, limits: RunLimits, elapsed_s: float, *, stopped: str | None = None) -> Tail:
        """Find the cause of the end of the run, which took ``elapsed_s``. ``stopped``: why it ended early."""
        if stopped is not None:
            return Tail(bound="stopped", reason=stopped)
        if not self._kept:
            return Tail()
        limits = limits._replace(slots=max(limits.slots, *self.widths.values(), 1))
        least_s = max(LEAST_S, LEAST_SHARE * elapsed_s)
        latest = self.latest
        if elapsed_s - self.last_byte_s >= least_s:
            seconds = elapsed_s - self.last_byte_s
            volume = latest[-1].volume
            return Tail(bound="flush", seconds=round(seconds, 3), volume=volume, flushes=limits.flushes)
        limited = self._find_rate_limit(limits)
        if limited is not None:
            return limited
        began_s = find_tail(latest, limits.slots)
        if self.last_byte_s - began_s >= least_s:
            from cfetch.show.last_file import find_tail_cause  # a short run waits for no last file

            tail = find_tail_cause(
                latest, began_s, self.last_byte_s, self._paused_s, limits.slots, limits.segments
            )
            if tail.bound != "host limit":
                return tail
            if not self._is_sparse:
                return msgspec.structs.replace(tail, reason=self._find_reason(tail.host or "", limits))
        return self._explain_run(limits, elapsed_s)

    def _find_reason(self, host: str, limits: RunLimits) -> str | None:
        """Why a host got no more slots; None: it got as many as ``--per-host`` states."""
        is_stated = limits.per_host is not None and self.widths.get(host, limits.per_host) >= limits.per_host
        return None if is_stated else LEARNED

    def _find_rate_limit(self, limits: RunLimits) -> Tail | None:
        """Find the rate limit that the whole run has reached; then the last file itself was not slow."""
        span_s = max(self.last_byte_s, 0.001)
        if limits.rate_bps and sum(self.bytes.values()) >= FULL * limits.rate_bps * span_s:
            return Tail(bound="rate limit", limit=limits.rate_bps)
        host, received = max(self.bytes.items(), key=lambda item: item[1])
        if limits.host_rate_bps and received >= FULL * limits.host_rate_bps * span_s:
            return Tail(bound="rate limit", limit=limits.host_rate_bps, host=host)
        host, requests = max(self.requests.items(), key=lambda item: item[1])
        if limits.requests_per_s and requests - 1 >= FULL * limits.requests_per_s * span_s:
            return Tail(bound="request rate", host=host)
        return None

    def _explain_run(self, limits: RunLimits, elapsed_s: float) -> Tail:
        busy_s = sum(self.busy_s.values())
        host, host_busy_s = max(self.busy_s.items(), key=lambda item: item[1])
        host_slots = self.widths.get(host, limits.per_host or limits.slots)
        paused_host, paused_s = max(self._paused_s.items(), key=lambda item: item[1], default=("", 0.0))
        span_s = max(self.last_byte_s, 0.001)
        if self.held_s >= busy_s / 2:
            seconds = round(self.held_s / busy_s * span_s, 3) if busy_s > 0 else 0.0
            return Tail(bound="disk", seconds=seconds, flushes=limits.flushes)
        if paused_s >= max(LEAST_S, LEAST_SHARE * elapsed_s):
            return Tail(bound="pause", seconds=round(paused_s, 3), host=paused_host)
        if host_slots < limits.slots and host_busy_s >= FULL * host_slots * span_s:
            reason = self._find_reason(host, limits)
            return Tail(bound="host limit", limit=host_slots, host=host, reason=reason)
        if busy_s >= FULL * limits.slots * span_s and elapsed_s >= LEAST_S:
            return Tail(bound="places", limit=limits.slots)
        return Tail()


def find_tail(records: Sequence[FileRecord], slots: int) -> float:
    """The last time at which more than half of the ``slots`` had an entry; else the first start.

    Helpers do not count: they use slots that would be idle.
    """
    steps = sorted(
        (
            step
            for record in records
            for attempt in record.attempts
            if not attempt.helper
            for step in ((attempt.start_s, 1), (attempt.end_s, -1))
        ),
        reverse=True,
    )
    running = 0
    for time_s, step in steps:  # backwards: an end adds one
        running -= step
        if running > slots / 2:
            return time_s
    return steps[-1][0]


def _is_rate(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and 0 < value < 1 << 63
