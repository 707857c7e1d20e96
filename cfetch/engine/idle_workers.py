"""Lets workers that have nothing to do wait, and wakes them one by one, the longest waiting first."""

import asyncio
from collections import deque
from contextlib import suppress


class IdleWorkers:
    """A queue of waiting workers. A worker is woken for work, or because all is over."""

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def count(self) -> int:
        """Workers that wait and have not been woken."""
        return len(self._waiters)

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until woken, at most for ``timeout_s``."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.append(waiter)
        timer = None if timeout_s is None else loop.call_later(timeout_s, self._wake, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it had been woken for work, which another worker has to do now
                self.wake_one()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter.cancelled():
                with suppress(ValueError):
                    self._waiters.remove(waiter)

    def wake_one(self) -> None:
        """Wake the worker that has waited longest, if any worker waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():  # a worker that is being cancelled
                waiter.set_result(None)
                return

    def wake_all(self) -> None:
        """Wake every worker that waits now."""
        for _ in range(len(self._waiters)):
            self.wake_one()

    def _wake(self, waiter: "asyncio.Future[None]") -> None:
        """Wake a worker whose time-out is over."""
        if not waiter.done():
            self._waiters.remove(waiter)
            waiter.set_result(None)
