"""Signals that end work in good order: the first one asks for it, the second one ends the process at once.

Python runs a handler only between two steps of the main thread. If the main thread hangs in a system call, as
on a network mount whose server is gone, no handler runs. So another thread receives each signal too: it ends
the process at the second signal, and some time after the first signal if the work has not ended.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from cfetch.base.errors import Interrupted
from cfetch.base.threads import start_thread

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOW_CURSOR = b"\x1b[?25h\n"  # the live view has hidden it


@contextmanager
def keep_handlers() -> Iterator[dict[int, Any]]:
    """Yield the handlers by signal, and restore them afterwards; none outside the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in HANDLED_SIGNALS if is_main}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def listen(
    on_first: Callable[[Interrupted], None], *, end_s: float | None = None, hangs: str = ""
) -> Iterator[None]:
    """Call ``on_first`` with the first SIGINT, SIGTERM or SIGHUP; the second ends the process.

    A signal that the caller ignores stays ignored, like SIGHUP under ``nohup``. The caller's own handler gets
    the first signal too: at that moment there may be nothing left to end here.

    ``end_s`` after the first signal the process ends in any case; ``hangs`` is the place that it waits for.
    """
    has_come = False

    with keep_handlers() as before:

        def handle(number: int, frame: object) -> None:
            nonlocal has_come
            if has_come:
                _leave(number)
            has_come = True
            on_first(Interrupted(number))
            callers = before[number]
            if callable(callers) and not _raises(callers):
                callers(number, frame)

        heard = {number for number, handler in before.items() if handler is not signal.SIG_IGN}
        for number in heard:
            signal.signal(number, handle)
        if not heard:
            yield
            return
        with _Watch(heard, end_s, hangs).listening():
            yield


@contextmanager
def listen_in_loop() -> Iterator[None]:
    """Let the thread of ``listen`` hear of signals while an event loop runs that wants to hear of them."""
    watch = _Watch.current
    if watch is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    with watch.listening_again():
        yield


class _Watch:
    """The thread that hears of signals."""

    current: "_Watch | None" = None

    def __init__(self, numbers: Collection[int], end_s: float | None, hangs: str) -> None:
        self._numbers = numbers
        self._end_s = end_s
        self._hangs = hangs
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._others: list[int] = []  # the descriptors that got the signals before

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of signals in the ``with`` block."""
        outer, _Watch.current = _Watch.current, self
        start_thread(self._run, "signals")
        try:
            with self.listening_again():
                yield
        finally:
            _Watch.current = outer
            os.close(self._writing)

    @contextmanager
    def listening_again(self) -> Iterator[None]:
        """Take the place of another listener, and pass on to it what is heard."""
        before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._others.append(before)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before, warn_on_full_buffer=before < 0)
            self._others.remove(before)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals must wake the main thread
        poll = select.poll()  # unlike select, it takes descriptors above 1,023
        poll.register(self._reading, select.POLLIN)
        first, end_s = 0, None
        while poll.poll(None if end_s is None else max(0.0, end_s - time.monotonic()) * 1000):
            heard = os.read(self._reading, 64)
            if not heard:
                os.close(self._reading)
                return
            for other in {*self._others} - {self._writing}:  # an event loop may have left this thread's own
                with suppress(OSError):
                    os.write(other, heard)
            for number in heard:
                if number in self._numbers:
                    if first:
                        _leave(number)
                    first = number
                    end_s = None if self._end_s is None else time.monotonic() + self._end_s
        said = f"cfetch: {self._hangs} has not answered for {self._end_s:g} s; see whether it is still there"
        with suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), f"{said}\n".encode())
        _leave(first)


def _leave(number: int) -> NoReturn:
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), SHOW_CURSOR)
    os._exit(128 + number)


def _raises(handler: object) -> bool:
    """Whether it is Python's or Spark's handler, which raises: then work would not end in good order."""
    module: str = getattr(handler, "__module__", None) or ""
    return handler is signal.default_int_handler or module.startswith("pyspark.")
