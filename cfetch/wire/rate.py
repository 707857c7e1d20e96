"""``--limit-rate``: limits the bytes read per second, for all downloads together and for each host.

aiolimiter does not fit: it refuses amounts above its bucket, serves small amounts before earlier large
amounts, and starts with a full bucket, that is, with a burst of its whole period.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Protocol

from cfetch.clock import RunClock
from cfetch.config.wire import RateLimits

BURST_S = 0.1  # so much unused time can be used later: enough for late timers, below 5 % of a few seconds
TURNS_PER_S = 50  # reads a second under a limit: cheap, and smooth in the view
MIN_SLICE_BYTES = 1 << 10
MAX_SLICE_BYTES = 256 << 10


class Bucket:
    """A token bucket, stored as the time at which all bytes taken so far are paid for. Pure.

    This is the generic cell rate algorithm (ITU-T I.371, "virtual scheduling"): the first caller is served
    first, no caller has to be woken, and amounts may have any size.
    """

    __slots__ = ("_paid_s", "_rate_bps")

    def __init__(self, rate_bps: float) -> None:
        self._rate_bps = rate_bps
        self._paid_s = -math.inf

    def take(self, size_bytes: int, now_s: float) -> float:
        """Seconds to wait before ``size_bytes`` more may be read."""
        self._paid_s = max(self._paid_s, now_s - BURST_S) + size_bytes / self._rate_bps
        return max(0.0, self._paid_s - now_s)

    def give_back(self, size_bytes: int) -> None:
        """Give back the payment for bytes that had not arrived."""
        self._paid_s -= size_bytes / self._rate_bps


class Held(Protocol):
    """An attempt that must know when it waits for a rate limit and not for its server."""

    def hold(self, now_s: float) -> None:
        """Note that reading pauses, as the limit is used up."""

    def let_go(self, now_s: float) -> None:
        """Note that reading goes on."""


class Limiter:
    """Gives turns of reading to all attempts of a run. Both limits apply at once; None is no limit."""

    def __init__(self, clock: RunClock, *, total_bps: int | None, per_host_bps: int | None) -> None:
        self._clock = clock
        self._total = None if total_bps is None else Bucket(total_bps)
        self._per_host_bps = per_host_bps
        self._hosts: dict[str, Bucket] = {}
        self._slice_bytes = slice_bytes(min(total_bps or math.inf, per_host_bps or math.inf))

    def reader(
        self, read: Callable[[int], Awaitable[bytes]], host: str, attempt: Held
    ) -> Callable[[], Awaitable[bytes]]:
        """Wrap ``read``, whose argument is the most bytes to read, so that it reads in turns.

        A turn is paid before it is taken, and bytes that had not arrived are given back.
        """
        buckets = [bucket for bucket in (self._total, self._find_bucket(host)) if bucket is not None]
        clock, size_bytes = self._clock, self._slice_bytes

        async def read_in_turn() -> bytes:
            now_s = clock.now()
            wait_s = max(bucket.take(size_bytes, now_s) for bucket in buckets)
            data = b""
            try:
                if wait_s:
                    attempt.hold(now_s)
                    await clock.sleep(wait_s)
                    attempt.let_go(clock.now())
                data = await read(size_bytes)
            finally:
                for bucket in buckets:
                    bucket.give_back(size_bytes - len(data))
            return data

        return read_in_turn

    def _find_bucket(self, host: str) -> Bucket | None:
        if self._per_host_bps is None:
            return None
        return self._hosts.setdefault(host, Bucket(self._per_host_bps))


def make_limiter(limits: RateLimits, clock: RunClock) -> Limiter | None:
    """Make the limiter of a run; None without limits, so that these cost nothing."""
    if limits.least_bps is None:
        return None
    return Limiter(clock, total_bps=limits.total_bps, per_host_bps=limits.per_host_bps)


def slice_bytes(rate_bps: float) -> int:
    """The bytes of one turn: few, so that every connection soon has a turn, and all get the same share."""
    return int(min(max(rate_bps / TURNS_PER_S, MIN_SLICE_BYTES), MAX_SLICE_BYTES))
