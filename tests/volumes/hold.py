"""Holds a thread of another process in a system call for as long as one likes: a disk that does not answer.

``strace`` can delay a call too, but keeps a process from ending while it does. A call that is held here is
killed with its process, and goes on when it is let go.
"""

import ctypes
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["can_hold", "held"]

SEIZE, INTERRUPT, SYSCALL, DETACH = 0x4206, 0x4207, 24, 17
ALL_THREADS = 0x40000000  # __WALL: a thread that is no child of ours
PAUSE_S = 0.01
NUMBERS = {
    "write": 1,
    "rename": 82,
    "renameat": 264,
    "fstatfs": 138,
    "openat": 257,
    "unlinkat": 263,
}  # x86-64
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def can_hold() -> str:
    """Empty if it can be done here, else why not."""
    return "" if os.uname().machine == "x86_64" else "the numbers of system calls here are x86-64's"


def _ptrace(request: int, thread: int, data: int = 0) -> None:
    if _libc.ptrace(request, thread, None, data) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


class Hold:
    """``caught`` is set when the thread is in such a call; ``release`` lets it go on."""

    def __init__(self, thread: int, calls: tuple[str, ...]) -> None:
        self.caught = threading.Event()
        self._thread = thread
        self._numbers = {NUMBERS[call] for call in calls}
        self._let_go = threading.Event()
        self._ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._tracer = threading.Thread(target=self._trace, daemon=True)
        self._tracer.start()
        if (error := self._ready.get()) is not None:
            raise error

    def release(self) -> None:
        """Harmless when the process has ended."""
        self._let_go.set()
        self._tracer.join(60)

    def _trace(self) -> None:
        """All of it in one thread: that is the tracer."""
        try:
            _ptrace(SEIZE, self._thread)
            _ptrace(INTERRUPT, self._thread)
        except OSError as error:
            self._ready.put(error)
            return
        self._ready.put(None)
        try:
            while not self._let_go.is_set():
                _, status = os.waitpid(self._thread, ALL_THREADS)
                if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                    return
                if self._number() in self._numbers:
                    self.caught.set()
                    if self._waited_in_vain():
                        return
                    break
                _ptrace(SYSCALL, self._thread)
            _ptrace(DETACH, self._thread)
        except OSError:  # the process has ended
            return

    def _waited_in_vain(self) -> bool:
        """Hold it; whether it was killed meanwhile. Its process ends when this has been seen."""
        while not self._let_go.wait(PAUSE_S):
            if os.waitpid(self._thread, ALL_THREADS | os.WNOHANG)[0]:
                return True
        return False

    def _number(self) -> int:
        """Of the call that the stopped thread is in; it is told on the way in and on the way out."""
        word = Path(f"/proc/{self._thread}/syscall").read_text().split()[0]
        return int(word) if word.lstrip("-").isdigit() else -1


@contextmanager
def held(thread: int, *calls: str) -> Iterator[Hold]:
    """The next of these calls of a thread waits until it is let go."""
    hold = Hold(thread, calls)
    try:
        yield hold
    finally:
        hold.release()
