"""The parent's handle of a child process: starts it clean, talks to it through pipes, reaps it.

A child may stand still: somebody has stopped it, or it waits for a disk that does not answer. Nothing says
when it will go on, so each wait for it has an end.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from cfetch.base.errors import LocalFault
from cfetch.tasks.processes.messages import ChildAnswer, pack_message, take_message
from cfetch.tasks.shares.work import Order, RunSpec

SILENT_S = 60.0  # a child is given up that gives no sign of life for so long; it gives one each second
USELESS_S = 5.0  # the same if another child has brought its share
TICK_S = 1.0  # of a wait: if this process itself stood still, its children are blamed for one tick only
READ_BYTES = 64 << 10
LEAVE_S = 5.0  # a child ends at once; if it still runs after this, it hangs and is killed
# The child imports from its parent's path, and nothing from the current directory. If the parent is killed at
# this start, the child reads no line, or half of one.
_BOOT = (
    "import sys, json; line = sys.stdin.buffer.readline(); line.endswith(b'\\n') or sys.exit(); "
    "sys.path[:] = json.loads(line); "
    "from cfetch.tasks.processes.child import main; main()"
)


class Worker:
    """A child, from its start to ``close``. Raises LocalFault: it cannot be started.

    ``is_silent``: it was given up, as it gave no sign of life for ``silent_s``, which
    is more than ``most_silent_s``, or than ``useless_s`` while nobody needed its work.
    """

    def __init__(self, spec: RunSpec) -> None:
        command = [sys.executable, "-P", "-c", _BOOT]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise LocalFault(f"cannot start another process: {error.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._orders.fileno(), False)
        self._spec: RunSpec | None = spec  # None once it has been sent
        self._received = bytearray()
        self._is_killed = False
        self.is_silent = False
        self.most_silent_s, self.useless_s = SILENT_S, USELESS_S
        self.silent_s = 0.0

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def bring(
        self,
        order: Order,
        on_life: Callable[[], None] = lambda: None,
        is_useless: Callable[[], bool] = lambda: False,
    ) -> ChildAnswer | None:
        """Send the order and wait for the answer; None: the child has died, was killed or is silent.

        ``on_life`` is called at each sign of life. A child that gives none is not waited for if its work
        ``is_useless``: a copy of its task has brought its share.
        """
        start = b""
        if self._spec is not None:
            start = json.dumps(sys.path).encode() + b"\n" + pack_message(self._spec)
            self._spec = None
        try:
            return self._talk(start + pack_message(order), on_life, is_useless)
        except OSError:
            return None

    def _talk(
        self, orders: bytes, on_life: Callable[[], None], is_useless: Callable[[], bool]
    ) -> ChildAnswer | None:
        """Send the orders while the child's signs of life come, until its answer comes."""
        left = memoryview(orders)
        poll = select.poll()  # unlike select, it takes descriptors above 1,023
        poll.register(self._answers, select.POLLIN)
        poll.register(self._orders, select.POLLOUT)
        silent_s, looked_s = 0.0, time.monotonic()
        while silent_s <= self.most_silent_s and not self._is_killed:
            if silent_s > self.useless_s and is_useless():
                break
            ready = [number for number, _ in poll.poll(TICK_S * 1000)]
            before_s, looked_s = looked_s, time.monotonic()
            silent_s += min(looked_s - before_s, TICK_S)
            if self._orders.fileno() in ready:
                left = left[os.write(self._orders.fileno(), left) :]
                if not left:
                    poll.unregister(self._orders)
            if self._answers.fileno() in ready:
                data = os.read(self._answers.fileno(), READ_BYTES)
                if not data:
                    return None
                silent_s = 0.0
                on_life()
                self._received += data
                if (answer := take_message(self._received, ChildAnswer)) is not None:
                    return answer
        self.is_silent, self.silent_s = not self._is_killed, silent_s
        return None

    def kill(self) -> None:
        """Kill the child at once, and wait for no answer of it any more; from any thread."""
        self._is_killed = True
        self._process.kill()

    def close(self) -> int | None:
        """Close the pipe and wait for the child's end. Returns its exit code, negative for a signal.

        None: not even a kill ends it now, as it waits for a disk. It will end without another step.
        """
        with suppress(OSError):
            self._orders.close()
        try:
            code = None if self.is_silent else self._wait()
            if code is None:
                self._process.kill()
                code = self._wait()
        finally:
            self._answers.close()
        return code

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(LEAVE_S)
        return None
