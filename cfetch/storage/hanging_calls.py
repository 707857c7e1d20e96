"""Calls on disks that may never return, like those on a network mount whose server is gone.

A system call cannot be ended, but it can be abandoned: each such call has its own thread, and its caller
waits only for a while. As long as an abandoned call on a place has not returned, further calls there fail at
once. So a run that ends does not wait anew at each step. A thread whose call has returned takes a later one,
as the start of a thread takes longer than most calls.
"""

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from cfetch.base.threads import start_thread

T = TypeVar("T")
_guard = threading.Lock()
_hanging: Counter[str] = Counter()  # abandoned calls that have not returned, by place
_idle: list[SimpleQueue[Callable[[], None]]] = []  # of threads whose last call has returned
os.register_at_fork(after_in_child=_idle.clear)  # a child has none of the threads


def begin_beside(step: Callable[[], None]) -> None:
    """Carry out ``step``, which raises nothing, in a thread that does nothing else meanwhile."""
    try:
        queue = _idle.pop()
    except IndexError:
        queue = SimpleQueue()
        start_thread(_carry_out_all, "beside", queue)
    queue.put(step)


def _carry_out_all(queue: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        queue.get()()
        _idle.append(queue)


class Call:
    """A call with a thread of its own. ``over`` is set when it has returned."""

    def __init__(self, place: str, step: Callable[[], Any]) -> None:
        self.over = threading.Event()
        self.answer: Any = None
        self.error: BaseException | None = None
        self._place = place
        self._step = step
        self._is_abandoned = False
        begin_beside(self._carry_out)

    def result(self, limit_s: float) -> Any:  # noqa: ANN401 - whatever the step answers
        """Return the answer; see ``call_within``."""
        if not self.over.wait(limit_s) and self._abandon():
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"{self._place} has not answered for {limit_s:g} s; see whether it is still there",
            )
        if self.error is not None:
            raise self.error
        return self.answer

    def _carry_out(self) -> None:
        try:
            self.answer = self._step()
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self.error = error
        with _guard:
            self.over.set()
            if self._is_abandoned:
                _hanging[self._place] -= 1

    def _abandon(self) -> bool:
        """Stop waiting; False if the call has just returned."""
        with _guard:
            if not self.over.is_set():
                self._is_abandoned = True
                _hanging[self._place] += 1
            return self._is_abandoned


def call_within(limit_s: float | None, place: str, step: Callable[[], T]) -> T:
    """Return the answer of ``step``, a call on ``place``. An answer that comes later is lost.

    ``limit_s`` None: the call is made at once in this thread, however long it takes.

    Raises:
        TimeoutError: it has not answered for ``limit_s``, or an earlier call has not. It is an OSError.
    """
    if limit_s is None:
        return step()
    if _hanging[place] > 0:
        raise TimeoutError(errno.ETIMEDOUT, f"{place} does not answer; see whether it is still there")
    return cast("T", Call(place, step).result(limit_s))
