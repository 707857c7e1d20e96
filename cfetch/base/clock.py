"""The port for time. All code that runs in virtual time asks only this port for the time.

Durations are measured only on ``monotonic``; ``wall`` is for people and for dates from outside
(``expires_at``, ``Retry-After``). ``VirtualClock`` and ``run_virtual`` are public, so that users' tests do
not need to sleep either.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar, TypeVarTuple

THREAD_END_S = 5.0  # real seconds; a thread that has done its work ends within milliseconds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


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


class VirtualClock:
    """Reads the virtual time of the loop that ``run_virtual`` made; ``wall`` starts at ``epoch``."""

    def __init__(self, epoch: float = 1_800_000_000.0) -> None:
        self._epoch = epoch

    def monotonic(self) -> float:
        """Seconds of virtual time since the loop began."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """``epoch`` plus virtual time."""
        return self._epoch + self.monotonic()

    def cpu(self) -> float:
        """Zero: in virtual time, work takes no processor time."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run, then jump to the time of waking."""
        await asyncio.sleep(seconds)


class _JumpingSelector(selectors.SelectSelector):
    """Moves the loop's time forward where a real selector would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads_at_work = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.threads_at_work:  # a thread's work takes no virtual time, and its end wakes the selector
            return super().select(None)
        if timeout is None:  # there is no timer; only a thread that is just ending could wake the loop
            ready = super().select(THREAD_END_S)
            if not ready:
                raise RuntimeError("deadlock: nothing is scheduled and virtual time cannot pass")
            return ready
        self.now += timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        self._jumping.threads_at_work += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - asyncio's
        """Wait for the threads without a limit: asyncio's own is in the loop's time, which jumps."""
        await super().shutdown_default_executor()

    def _thread_ended(self, _: object) -> None:
        self._jumping.threads_at_work -= 1


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on virtual time: sleeps and timers cost nothing, order is deterministic."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)
