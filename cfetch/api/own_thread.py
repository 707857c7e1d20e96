"""A job in a thread of its own, which its caller can end in good order.

An event loop may be running in the caller's thread, and only the main thread may handle signals. A thread of
its own has neither, so that every use case works there as it does on the command line.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, wait
from signal import SIGINT
from typing import TypeVar

from cfetch.base.errors import Interrupted
from cfetch.base.threads import start_thread

T = TypeVar("T")


class Stop:
    """The caller's wish that the job ends; ``pull`` may be called from any thread."""

    def __init__(self) -> None:
        self._is_pulled = False
        self._end: Callable[[], None] = lambda: None

    def pull(self) -> None:
        """Ask for the end."""
        self._is_pulled = True
        self._end()

    def end_by(self, end: Callable[[], None]) -> None:
        """Let ``end`` end the job from now on; it may be called twice."""
        self._end = end
        if self._is_pulled:
            end()

    def check(self) -> None:
        """Raise Interrupted if the end has been asked for."""
        if self._is_pulled:
            raise Interrupted(SIGINT)


def run_apart(job: Callable[[Stop], T]) -> T:
    """Run the job and wait for it. Ctrl-C, or what else is raised meanwhile, ends the job first.

    A second Ctrl-C does not wait for its end.
    """
    stop = Stop()
    future = start_apart(job, stop)
    try:
        wait([future])
    except BaseException:
        stop.pull()
        wait([future])
        raise
    return future.result()


async def await_apart(job: Callable[[Stop], T]) -> T:
    """Run the job while the caller's loop goes on. A cancellation ends the job first.

    A second one does not wait for its end.
    """
    stop = Stop()
    future = asyncio.wrap_future(start_apart(job, stop))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.pull()
        await asyncio.wait([future])
        future.exception()  # the cancellation takes its place
        raise


def start_apart(job: Callable[[Stop], T], stop: Stop) -> Future[T]:
    """Start the job with the caller's context variables, so that spans belong together."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(job, stop)
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            future.set_exception(error)
        else:
            future.set_result(result)

    start_thread(run, "cfetch")
    return future
