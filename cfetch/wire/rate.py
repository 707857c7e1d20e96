"""``--limit-rate``: limits the bytes read per second, for all downloads together and for each host.

aiolimiter does not fit: it refuses amounts above its bucket, serves small amounts before earlier large
amounts, and starts with a full bucket, that is, with a burst of its whole period.
"""

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cfetch.base.clock import RunClock
from cfetch.base.config.wire import ALL_HOSTS, RateLimits
from cfetch.manifest.digests import Bytes

if TYPE_CHECKING:
    from cfetch.base.config.timetable import Timetable

BURST_S = 0.1  # so much unused time can be used later: enough for late timers, below 5 % of a few seconds
TURNS_PER_S = 50  # reads a second under a limit: cheap, and smooth in the view
CHANGES_S = 0.1  # a caller that waits asks so often whether a leased rate has changed
ROOM = 0.5  # share of a limit below which further connections for one file are of use
STEADY_S = 0.5  # a use that was below that share for so long may be above it for a moment
BUSY_S = 1.0  # a use above it counts for so long after its end, or as long as its excess takes to be made up
LEAST_BPS = 1.0  # a lease of nothing counts as this rate, as rates are divisors
MIN_SLICE_BYTES = 1 << 10
MAX_SLICE_BYTES = 256 << 10


class TokenBucket:
    """A token bucket, stored as the time at which all bytes taken so far are paid for. Pure.

    This is the generic cell rate algorithm (ITU-T I.371, "virtual scheduling"): the first caller is served
    first, no caller has to be woken, and amounts may have any size. The rate may change; a caller that waits
    has a ticket, by which it learns its new time.
    """

    __slots__ = ("_busy_s", "_given_bytes", "_paid_s", "_taken_bytes", "is_short", "rate_bps")

    def __init__(self, rate_bps: float) -> None:
        self.rate_bps = rate_bps
        self.is_short = True  # a caller has waited since the last ``count_read``; a new bucket wants its part
        self._paid_s = -math.inf
        self._busy_s = math.inf  # the same for ``ROOM`` of the rate; inf: nothing was read yet
        self._taken_bytes = 0  # in all
        self._given_bytes = 0  # read since the last ``count_read``

    def take(self, size_bytes: int, now_s: float) -> int:
        """Take ``size_bytes``. Returns the ticket for ``wait_s``."""
        self._paid_s = max(self._paid_s, now_s - BURST_S) + size_bytes / self.rate_bps
        self._taken_bytes += size_bytes
        self._given_bytes += size_bytes
        return self._taken_bytes

    def wait_s(self, ticket: int, now_s: float) -> float:
        """Seconds until the bytes with this ticket are paid for and may be read."""
        wait_s = self._paid_s - (self._taken_bytes - ticket) / self.rate_bps - now_s
        self.is_short = self.is_short or wait_s > 0
        return max(0.0, wait_s)

    def give_back(self, size_bytes: int) -> None:
        """Give back the payment for bytes that had not arrived."""
        self._paid_s -= size_bytes / self.rate_bps
        self._taken_bytes -= size_bytes
        self._given_bytes -= size_bytes

    def note_read(self, size_bytes: int, now_s: float) -> None:
        """Note bytes that were read, for ``has_room``. The first ones count as a use above that share."""
        since_s = now_s + BUSY_S if self._busy_s == math.inf else max(self._busy_s, now_s - STEADY_S)
        self._busy_s = min(since_s + size_bytes / (ROOM * self.rate_bps), now_s + BUSY_S)

    def has_room(self, now_s: float) -> bool:
        """Whether much less than the limit has been read for some time."""
        return self._busy_s <= now_s

    def change_rate(self, rate_bps: float, now_s: float) -> None:
        """Let bytes that wait for their payment be paid at another rate from now on."""
        if self._paid_s > now_s:
            self._paid_s = now_s + (self._paid_s - now_s) * self.rate_bps / rate_bps
        self.rate_bps = rate_bps

    def count_read(self) -> int:
        """Count the bytes since the last call; ``is_short`` begins anew."""
        read, self._given_bytes, self.is_short = self._given_bytes, 0, False
        return read


class LimitedAttempt(Protocol):
    """An attempt that must know when it waits for a rate limit and not for its server."""

    def hold(self, now_s: float) -> None:
        """Note that reading pauses, as the limit is used up."""

    def let_go(self, now_s: float) -> None:
        """Note that reading goes on."""


class Use(NamedTuple):
    """A limit, the bytes a second that were read under it, and whether an attempt had to wait for it."""

    limit_bps: float
    read_bps: float
    is_short: bool


class Limiter:
    """Gives turns of reading to all attempts of a run. Both limits apply at once; None is no limit."""

    def __init__(
        self,
        clock: RunClock,
        *,
        total_bps: int | None,
        per_host_bps: int | None,
        timetable: "Timetable | None" = None,
    ) -> None:
        """``timetable`` has the total rate at each time of day, instead of ``total_bps``."""
        self._clock = clock
        self._timetable = timetable
        self._looks_s = -math.inf  # when the timetable is looked at next
        is_total = total_bps is not None or timetable is not None
        self._total = TokenBucket(math.inf if total_bps is None else total_bps) if is_total else None
        self._per_host_bps = per_host_bps
        self._hosts: dict[str, TokenBucket] = {}
        self._is_leased = False
        self._measured_s = clock.now()

    def reader(
        self, read: Callable[[int], Awaitable[Bytes]], host: str, attempt: LimitedAttempt
    ) -> Callable[[], Awaitable[Bytes]]:
        """Wrap ``read``, whose argument is the most bytes to read, so that it reads in turns.

        A turn is paid before it is taken, and bytes that had not arrived are given back.
        """
        buckets = self._find_buckets(host)
        clock = self._clock

        async def read_in_turn() -> Bytes:
            now_s = clock.now()
            self._keep_timetable(now_s)
            size_bytes = slice_bytes(min(bucket.rate_bps for bucket in buckets))
            tickets = [(bucket, bucket.take(size_bytes, now_s)) for bucket in buckets]
            data: Bytes = b""
            try:
                wait_s = _longest_wait_s(tickets, now_s)
                if wait_s:
                    attempt.hold(now_s)
                    while wait_s > CHANGES_S and (self._is_leased or self._timetable is not None):
                        await clock.sleep(CHANGES_S)
                        self._keep_timetable(clock.now())
                        wait_s = _longest_wait_s(tickets, clock.now())
                    await clock.sleep(wait_s)
                    attempt.let_go(clock.now())
                data = await read(size_bytes)
            finally:
                for bucket in buckets:
                    bucket.give_back(size_bytes - len(data))
                    bucket.note_read(len(data), clock.now())
            return data

        return read_in_turn

    def _keep_timetable(self, now_s: float) -> None:
        """Use the rate of the present time of day. The clock may be set, or stand still with the machine."""
        if self._timetable is None or now_s < self._looks_s or self._total is None:
            return
        today = time.localtime(self._clock.wall())
        self._looks_s = now_s + 60 - today.tm_sec
        rate_bps = self._timetable.rate_at(today.tm_hour * 60 + today.tm_min)
        new_bps = math.inf if rate_bps is None else rate_bps
        if new_bps != self._total.rate_bps:
            self._total.change_rate(new_bps, now_s)

    def lease(self, rates_bps: Mapping[str, int]) -> None:
        """Use these rates from now on, by host or ``ALL_HOSTS``: parts of the limits, which may change."""
        self._is_leased = True
        now_s = self._clock.now()
        for name, rate_bps in rates_bps.items():
            bucket = self._total if name == ALL_HOSTS else self._find_bucket(name)
            if bucket is not None:
                bucket.change_rate(max(LEAST_BPS, rate_bps), now_s)

    def measure(self) -> dict[str, Use]:
        """The use of each limit since the last call, by host or ``ALL_HOSTS``."""
        now_s = self._clock.now()
        seconds, self._measured_s = max(BURST_S, now_s - self._measured_s), now_s
        buckets = self._hosts
        if self._total is not None and self._timetable is None:  # nobody leases parts of a timetable
            buckets = {**self._hosts, ALL_HOSTS: self._total}
        return {
            name: Use(bucket.rate_bps, is_short=bucket.is_short, read_bps=bucket.count_read() / seconds)
            for name, bucket in buckets.items()
        }

    def has_room(self, host: str) -> bool:
        """Whether the run reads much less than it may from ``host``, so that more connections may help."""
        now_s = self._clock.now()
        return all(bucket.has_room(now_s) for bucket in self._find_buckets(host))

    def _find_buckets(self, host: str) -> list[TokenBucket]:
        return [bucket for bucket in (self._total, self._find_bucket(host)) if bucket is not None]

    def _find_bucket(self, host: str) -> TokenBucket | None:
        if self._per_host_bps is None:
            return None
        return self._hosts.setdefault(host, TokenBucket(self._per_host_bps))


def _longest_wait_s(tickets: list[tuple[TokenBucket, int]], now_s: float) -> float:
    return max(bucket.wait_s(ticket, now_s) for bucket, ticket in tickets)


def make_limiter(limits: RateLimits, clock: RunClock) -> Limiter | None:
    """Make the limiter of a run; None without limits, so that these cost nothing."""
    if not limits.exist:
        return None
    timetable = None
    if limits.by_time is not None:
        from cfetch.base.config.timetable import MAX_BPS, parse_timetable  # few runs have one

        timetable = parse_timetable(limits.by_time, 1, MAX_BPS)
    return Limiter(clock, total_bps=limits.total_bps, per_host_bps=limits.per_host_bps, timetable=timetable)


def slice_bytes(rate_bps: float) -> int:
    """The bytes of one turn: few, so that every connection soon has a turn, and all get the same share."""
    return int(min(max(rate_bps / TURNS_PER_S, MIN_SLICE_BYTES), MAX_SLICE_BYTES))
