"""An origin in a process of its own, so that its cost is not the client's."""

import json
import subprocess
import sys
from contextlib import suppress
from types import TracebackType

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.plugins.lab.bench.spec import OriginSpec

EXIT_GRACE_S = 5.0  # it ends within a turn of its loop; if it still runs after this, it hangs and is killed


class OriginProcess:
    """Runs while its ``with`` block does. It ends if its parent is killed.

    ``urls``, one for each host of the spec's network, end with a slash; ``url`` is the first.

    Raises:
        LocalFault: it did not start.
    """

    def __init__(self, spec: OriginSpec) -> None:
        self._spec = spec
        self.urls: list[str] = []
        self._process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """The URL of the first host."""
        return self.urls[0]

    @property
    def pid(self) -> int:
        """The origin's process id."""
        return self._process.pid

    def __enter__(self) -> "OriginProcess":
        command = [sys.executable, "-m", "cfetch.plugins.lab.bench.origin"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - our own module
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # it has ended, and its exit code says more
                self._process.stdin.write(msgspec.json.encode(self._spec) + b"\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BaseException:  # the bench is interrupted
            self._process.kill()
            self._close()
            raise
        if not line:
            code = self._close()
            raise LocalFault(
                f"the bench's origin ended with exit code {code} before it was ready; see stderr above"
            )
        self.urls = json.loads(line)["urls"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> int:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        try:
            return process.wait(EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
