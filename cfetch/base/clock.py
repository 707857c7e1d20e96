"""The port for time. All code that runs in virtual time asks only this port for the time.

Durations are measured only on ``monotonic``; ``wall`` is for people and for dates from outside
(``expires_at``, ``Retry-After``). ``virtual_clock.py`` has the clock of simulations and tests.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The port for time. All values are seconds."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; only differences mean anything."""

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump."""

    def cpu(self) -> float:
        """Seconds of processor time of the calling thread; only differences mean anything."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""


class SystemClock:
    """The machine's own clocks."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    cpu = staticmethod(time.thread_time)
    sleep = staticmethod(asyncio.sleep)


class RunClock:
    """The clock of one run: ``now`` is 0 when the clock is made. All parts of the run share it.

    ``elapsed_s``: the age of the run, if another process has begun it.
    """

    __slots__ = ("_clock", "_monotonic", "_start_s")

    def __init__(self, clock: Clock, *, elapsed_s: float = 0.0) -> None:
        self._clock = clock
        self._monotonic = clock.monotonic
        self._start_s = clock.monotonic() - elapsed_s

    def now(self) -> float:
        """Seconds since the run's start, on a clock that never jumps."""
        return self._monotonic() - self._start_s

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump."""
        return self._clock.wall()

    def cpu_s(self) -> float:
        """Seconds of processor time of the calling thread; only differences mean anything."""
        return self._clock.cpu()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        await self._clock.sleep(seconds)
