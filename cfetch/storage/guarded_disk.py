"""Carries out the steps of one of several volumes in a thread, which may hang without blocking the others.

A disk that does not answer must not stop the others: each ``GuardedDisk`` has its own thread, which
carries out all steps in the order in which they were requested. So a part is always created, written,
published and removed in this order, even if the caller has stopped waiting.

A call that does not return cannot be ended. It can be abandoned: the caller gets a VolumeFault, and steps in
the queue are dropped, except for steps that tidy up. If the call returns after all, its effect is undone.
Until then the volume counts as stuck.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar, cast

from cfetch.base.errors import VolumeFault
from cfetch.base.threads import start_thread
from cfetch.storage.disk import DiskState
from cfetch.storage.hanging_calls import begin_beside

T = TypeVar("T")
LONGEST_END_S = 30.0  # everything is committed by then, and only cleaning up is left
MOST_UNWRITTEN_BYTES = 16 << 20  # for each volume; beyond this, callers with more bytes wait (backpressure)


class _Call:
    """A step whose caller waits for the answer."""

    __slots__ = ("future", "is_over", "line", "since_s", "step", "undo")

    def __init__(
        self,
        step: Callable[[], Any],
        undo: Callable[[Any], None] | None,
        line: DiskState,
        future: "asyncio.Future[Any]",
    ) -> None:
        self.step = step
        self.undo = undo
        self.line = line
        self.future = future
        self.since_s: float | None = None
        self.is_over = False  # it returned in time: its answer is on the way to the event loop


class _Step(NamedTuple):
    step: Callable[..., None]
    args: tuple[Any, ...]
    size_bytes: int
    line: DiskState | None  # None: the step tidies up


class _Turn(NamedTuple):
    """The step that the thread carries out now: its line, and when it was begun."""

    line: DiskState | None
    since_s: float


class GuardedDisk:
    """A disk with its own thread, which ends with ``close``. Made and used in an event loop.

    ``monotonic`` is the run's clock. ``longest_end_s``: how many seconds ``close`` waits for a disk that does
    not answer.
    """

    is_prompt = False

    def __init__(
        self, name: str, monotonic: Callable[[], float], *, longest_end_s: float = LONGEST_END_S
    ) -> None:
        self.line = DiskState()
        self._longest_end_s = longest_end_s
        self._name = name
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Step | _Call | None] = SimpleQueue()
        self._calls: set[_Call] = set()
        self._asked_bytes = self._over_bytes = 0  # the loop counts the first, the thread the second
        self.written_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._turn: _Turn | None = None  # the thread's present step
        self._late: set[_Call] = set()  # abandoned calls that have not returned yet
        self._bug: BaseException | None = None
        self._thread = start_thread(self._work, f"volume {name}")

    def do(self, step: Callable[..., None], *args: Any, size_bytes: int = 0) -> None:  # noqa: ANN401
        """Carry out the step soon."""
        if self._bug is not None:
            raise self._bug
        self._asked_bytes += size_bytes
        self._queue.put(_Step(step, args, size_bytes, self.line))

    def tidy(self, step: Callable[[], None]) -> None:
        """Carry out the step soon, even after the disk was abandoned and answers again."""
        self._queue.put(_Step(step, (), 0, None))

    async def call(self, step: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
        """Carry out the step in its turn.

        A cancellation is raised only after the step, as a step cannot be interrupted.
        """
        call = _Call(step, undo, self.line, self._loop.create_future())
        self._calls.add(call)
        self._queue.put(call)
        return cast("T", await self._answer(call))

    long = call

    async def beside(self, step: Callable[[], T]) -> T:
        """Carry out the step in another thread, when all steps requested before are done."""
        await self.call(lambda: None)
        return await self.call_reading(step)

    async def call_reading(self, step: Callable[[], T]) -> T:
        """Carry out the step in a thread beside the disk's."""
        return cast("T", await self._answer(self._begin_beside(step)))

    async def glance(self, step: Callable[[], T]) -> T:
        """Carry out the step beside the disk's thread; nobody waits for it after a cancellation."""
        call = self._begin_beside(step)
        try:
            return cast("T", await call.future)
        except asyncio.CancelledError:
            self._calls.discard(call)
            raise

    def _begin_beside(self, step: Callable[[], Any]) -> _Call:
        call = _Call(step, None, self.line, self._loop.create_future())
        self._calls.add(call)
        begin_beside(partial(self._carry_out, call))
        return call

    async def _answer(self, call: _Call) -> Any:  # noqa: ANN401 - whatever the step answers
        cancelled: asyncio.CancelledError | None = None
        while not call.future.done():
            try:
                await asyncio.wait([call.future])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            call.future.exception()  # read the exception, else the loop reports it as never retrieved
            raise cancelled
        return call.future.result()

    @property
    def must_wait(self) -> bool:
        """Whether more than ``MOST_UNWRITTEN_BYTES`` are unwritten."""
        return self._asked_bytes - self._over_bytes > MOST_UNWRITTEN_BYTES

    @property
    def is_behind(self) -> bool:
        """Whether any bytes are unwritten."""
        return self._asked_bytes > self._over_bytes

    async def wait_for_room(self) -> None:
        """Wait for the thread, which wakes the waiters when it has written enough."""
        line = self.line
        while self.must_wait and line.fault is None:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            if self.must_wait:
                await waiter
        if line.fault is not None:
            raise line.fault

    def oldest_s(self, now_s: float) -> float:
        """The age in seconds of the oldest step that runs, in the disk's thread or beside it."""
        since = [call.since_s for call in self._calls]
        if (turn := self._turn) is not None:
            since.append(turn.since_s)
        return max((now_s - begun_s for begun_s in since if begun_s is not None), default=0.0)

    @property
    def is_stuck(self) -> bool:
        """Whether an abandoned step has not returned yet."""
        turn = self._turn
        line = None if turn is None else turn.line
        return bool(self._late) or (line is not None and line.fault is not None)

    def abandon(self, why: str) -> None:
        """Stop waiting for all calls, and begin a new line."""
        line, self.line = self.line, DiskState()
        with line.lock:
            line.fault = VolumeFault(why)
            over = {call for call in self._calls if call.is_over}
            self._late |= {call for call in self._calls - over if call.since_s is not None}
        for call in self._calls - over:
            if not call.future.done():
                call.future.set_exception(VolumeFault(why))
        self._calls = over
        self._over_bytes = self._asked_bytes  # queued bytes will not be written
        self._wake()

    async def close(self) -> None:
        """Wait until all steps are carried out, but not for long if the disk hangs."""
        if not self.is_stuck:
            done = asyncio.ensure_future(self.call(lambda: None))
            await asyncio.wait([done], timeout=self._longest_end_s)
            if not done.done():
                self.abandon(f"{self._name} does not finish its last calls")
            with suppress(VolumeFault):
                await done
        self._queue.put(None)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _work(self) -> None:
        while (asked := self._queue.get()) is not None:
            self._turn = _Turn(asked.line, self._monotonic())
            if isinstance(asked, _Call):
                self._carry_out(asked)
            elif asked.line is None or asked.line.fault is None:
                try:
                    asked.step(*asked.args)
                except BaseException as bug:  # noqa: BLE001 - steps keep their errors; this goes to the next asker
                    self._bug = bug
            self._turn = None
            if isinstance(asked, _Step) and asked.size_bytes and (asked.line is self.line):
                self._over_bytes += asked.size_bytes
                self.written_bytes += asked.size_bytes
                if self._waiters and not self.must_wait:
                    self._tell(self._wake)

    def _carry_out(self, call: _Call) -> None:
        """Carry out a call, in a thread.

        The lock decides whether the answer comes in time, or the call was abandoned before.
        """
        if call.line.fault is not None:
            return
        call.since_s = self._monotonic()
        answer: Any = None
        error: BaseException | None = None
        try:
            answer = call.step()
        except BaseException as raised:  # noqa: BLE001 - it is the waiter's
            error = raised
        with call.line.lock:
            call.is_over = call.line.fault is None
        if call.is_over:
            self._tell(self._settle, call, answer, error)
        elif error is None and call.undo is not None:
            call.undo(answer)
        self._late.discard(call)

    def _settle(self, call: _Call, answer: Any, error: BaseException | None) -> None:  # noqa: ANN401
        self._calls.discard(call)
        if call.future.done():  # nobody waits any more
            return
        if error is not None:
            call.future.set_exception(error)
        else:
            call.future.set_result(answer)

    def _tell(self, step: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        with suppress(RuntimeError):  # the loop is closed: the run has ended without waiting for this
            self._loop.call_soon_threadsafe(step, *args)
