"""A clock that jumps to the next moment at which something happens, and a loop of asyncio that runs by it.

Both are public, so that users' tests do not need to sleep either.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

THREAD_END_S = 5.0  # real seconds; a thread that has done its work ends within milliseconds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


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
        is_alone = timeout == 0 and len(self.get_map()) == 1  # there is work, and only the loop's own pipe
        ready = [] if is_alone else super().select(0)
        if ready or timeout == 0:
            return ready
        if self.threads_at_work:  # a thread's work takes no virtual time, and its end wakes the selector
            return super().select(None)
        if timeout is None:  # there is no timer; only a thread that is just ending could wake the loop
            if ready := super().select(THREAD_END_S):
                return ready
            raise RuntimeError("deadlock: nothing is scheduled and virtual time cannot pass")
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
