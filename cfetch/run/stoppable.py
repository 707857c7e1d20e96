"""Lets a signal end a coroutine in good order, in a program that runs an event loop only now and then."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cfetch.base.errors import Interrupted

T = TypeVar("T")


class StoppableRunner:
    """Runs coroutines of a program without a loop of its own; ``end`` cancels the present one."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._by: Interrupted | None = None
        self._cancel: Callable[[], object] | None = None

    def end(self, interrupted: Interrupted) -> None:
        """Note a signal, and cancel the work that runs now."""
        self._by = interrupted
        if self._cancel is not None:
            self._cancel()

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self._by is not None:
            raise self._by

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work`` in the event loop. Raises Interrupted if a signal comes, or has come."""

        async def cancellable() -> T:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            try:
                self.check()
                return await work()
            except asyncio.CancelledError:
                self.check()
                raise
            finally:
                self._cancel = None

        return self._runner.run(cancellable())
