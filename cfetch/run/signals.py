"""Signals that end work in good order: the first one asks for it, the second one ends the process at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cfetch.errors import Interrupted

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
def listen(on_first: Callable[[Interrupted], None]) -> Iterator[None]:
    """Call ``on_first`` with the first SIGINT, SIGTERM or SIGHUP; the second ends the process.

    A signal that the caller ignores stays ignored, like SIGHUP under ``nohup``. The caller's own handler gets
    the first signal too: at that moment there may be nothing left to end here.
    """
    has_come = False

    with keep_handlers() as before:

        def handle(number: int, frame: object) -> None:
            nonlocal has_come
            if has_come:
                if sys.stderr.isatty():
                    os.write(sys.stderr.fileno(), SHOW_CURSOR)
                os._exit(128 + number)
            has_come = True
            on_first(Interrupted(number))
            callers = before[number]
            if callable(callers) and not _raises(callers):
                callers(number, frame)

        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, handle)
        yield


def _raises(handler: object) -> bool:
    """Whether it is Python's or Spark's handler, which raises: that would not end work in good order."""
    module: str = getattr(handler, "__module__", None) or ""
    return handler is signal.default_int_handler or module.startswith("pyspark.")
