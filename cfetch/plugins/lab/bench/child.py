"""Measures one child process: wall time around it, CPU time from the kernel's accounts, its output."""

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

ERROR_TAIL = 2000  # characters of stderr that an error message quotes
# An installed program has its bytecode; compiling its modules at each start takes as long as the rest of it.
_NOT_INHERITED = re.compile(r"CFETCH_.*|\w+_proxy|PYTHONDONTWRITEBYTECODE", re.IGNORECASE)


class Outcome(NamedTuple):
    """How a child ended. ``killed``: it was stopped at the time limit; ``error``: the end of its stderr."""

    wall_s: float
    cpu_s: float
    exit_code: int
    killed: bool
    output: bytes
    error: str


def clean_environment() -> dict[str, str]:
    """The environment without variables that would silently change a run: cfetch's own and proxies."""
    return {key: value for key, value in os.environ.items() if not _NOT_INHERITED.fullmatch(key)}


def run_child(command: Sequence[str], *, limit_s: float) -> Outcome:
    """Run ``command`` to its end, or kill it after ``limit_s``. Raises OSError if it cannot be started."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        start = time.monotonic()
        process = subprocess.Popen(  # noqa: S603 - commands of this package and of installed tools
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=error, env=clean_environment()
        )
        late = threading.Event()

        def kill() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit_s, kill)
        timer.daemon = True
        try:
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            timer.cancel()
        wall_s = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        error.seek(0)
        return Outcome(
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            exit_code=process.returncode,
            killed=late.is_set(),
            output=output.read(),
            error=error.read().decode(errors="replace")[-ERROR_TAIL:].strip(),
        )
