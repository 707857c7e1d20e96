"""Lets workers that have nothing to do wait, and wakes them one by one, the longest waiting first."""

import asyncio
from collections import deque


class IdleWorkers:
    """A queue of waiting workers. A worker is woken for work, or because all is over."""

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def count(self) -> int:
        """Workers that wait and have not been woken."""
        return sum(not waiter.done() for waiter in self._waiters)

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until woken, or for so long."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await asyncio.wait([waiter], timeout=timeout_s)
        waiter.cancel()

    def wake_one(self) -> None:
        """Wake the one that has waited longest, if any does."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def wake_all(self) -> None:
        """Wake every worker that waits now."""
        for _ in range(len(self._waiters)):
            self.wake_one()
