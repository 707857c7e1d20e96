"""The parent's handle of a child process: starts it clean, talks to it through pipes, reaps it."""

import json
import subprocess
import sys
from contextlib import suppress

from cfetch.errors import LocalFault
from cfetch.processes.messages import Answer, Order, read_message, write_message
from cfetch.shares.work import RunSpec

LEAVE_S = 5.0  # a child ends at once; if it still runs after this, it hangs and is killed
# The child imports from its parent's path, and nothing from the current directory. If the parent is killed at
# this start, the child reads no line, or half of one.
_BOOT = (
    "import sys, json; line = sys.stdin.buffer.readline(); line.endswith(b'\\n') or sys.exit(); "
    "sys.path[:] = json.loads(line); "
    "from cfetch.processes.child import main; main()"
)


class Worker:
    """A child, from its start to ``close``. Raises LocalFault: it cannot be started."""

    def __init__(self, spec: RunSpec) -> None:
        command = [sys.executable, "-P", "-c", _BOOT]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise LocalFault(f"cannot start another process: {error.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._spec: RunSpec | None = spec  # None once it has been sent

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def bring(self, order: Order) -> Answer | None:
        """Send the order and wait for the answer; None: the child has died."""
        try:
            if self._spec is not None:
                self._orders.write(json.dumps(sys.path).encode() + b"\n")
                write_message(self._orders, self._spec)
                self._spec = None
            write_message(self._orders, order)
        except OSError:
            return None
        return read_message(self._answers, Answer)

    def kill(self) -> None:
        """Kill the child at once; from any thread."""
        self._process.kill()

    def close(self) -> int:
        """Close the pipe and wait for the child's end. Returns its exit code, negative for a signal."""
        with suppress(OSError):
            self._orders.close()
        try:
            code = self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._answers.close()
        return code
