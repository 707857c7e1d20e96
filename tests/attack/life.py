"""One run of the real command as a process of its own: how it starts, dies, and what it said."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tests.warm import CHANGED, COMMAND

__all__ = ["LIMIT_S", "Life", "live"]

PROJECT = Path(__file__).parents[2]
LIMIT_S = 120.0  # far beyond what the short time limits of a world add up to
NOT_INHERITED = ("CFETCH_", "DATABRICKS_", "HF_")
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
PATIENCE_S = 4.0  # a run that has not received its bytes by then is killed all the same


class Life(NamedTuple):
    """How a run ended. ``code`` is negative for a signal's number; ``paused``: it stood still for a while."""

    code: int
    out: str
    said: str
    elapsed_s: float
    peak_bytes: int
    hung: bool = False
    signalled: str = ""
    paused: bool = False
    rival: bool = False


class _Process:
    def __init__(self, words, folder, *, name, fsize, env):
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(NOT_INHERITED)}
        setting = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({fsize}, {fsize})); " if fsize else ""
        code = f"import resource, runpy; {setting}{CHANGED}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, *words] if fsize else [*COMMAND, *words],
                cwd=folder,
                env=inherited | {"PYTHONPATH": str(PROJECT)} | env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self._began_s = time.monotonic()
        self.peak_bytes = 0

    def send(self, number):
        if self.process.returncode is None:
            os.kill(self.process.pid, number)

    def send_to_child(self, number) -> bool:
        """Whether there was one."""
        with contextlib.suppress(OSError):
            children = self._list_children()
            if children:
                os.kill(children[0], number)
                return True
        return False

    def _list_children(self) -> list[int]:
        """Their process numbers; OSError if the process has ended."""
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def wait(self) -> bool:
        """Whether it ended in time."""
        while time.monotonic() - self._began_s < LIMIT_S:
            self._measure_peak()
            if self._reap(os.WNOHANG):
                return True
            await asyncio.sleep(0.01)
        self.send(signal.SIGKILL)
        self._reap(0)
        return False

    def _measure_peak(self):
        """Keep the most memory that the process or a child of it has had.

        The kernel's account at the end, ``ru_maxrss``, has the memory of the tests' own process in it: it is
        kept from before the command was executed.
        """
        with contextlib.suppress(OSError):
            for pid in (self.process.pid, *self._list_children()):
                self.peak_bytes = max(self.peak_bytes, _read_peak_bytes(pid))

    def _reap(self, flags) -> bool:
        pid, status = os.waitpid(self.process.pid, flags)
        if not pid:
            return False
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return True

    def life(self, *, hung, signalled="", paused=False, rival=False) -> Life:
        out, said = (path.read_text(errors="replace") for path in (self._out, self._err))
        return Life(
            self.process.returncode, out, said, time.monotonic() - self._began_s, self.peak_bytes,
            hung, signalled, paused, rival,
        )  # fmt: skip


def _read_peak_bytes(pid) -> int:
    """0 when it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


async def live(words, folder, servers, ending, *, fsize=0, env=NO_VARIABLES) -> list[Life]:
    """Run the command until it has ended as ``ending`` says; a rival's life comes second."""
    first = _Process(words, folder, name="first", fsize=fsize, env=env)
    ended = asyncio.create_task(first.wait())
    rival, signalled, paused = None, "", False
    try:
        if ending.signal or ending.pause_s:
            await _wait_for_bytes(servers, ending.after_bytes, ended)
        if ending.pause_s and not ended.done():
            paused = True
            first.send(signal.SIGSTOP)
        if ending.rival:
            rival = _Process(words, folder, name="rival", fsize=fsize, env=env)
            rival_ended = asyncio.create_task(rival.wait())
        if ending.pause_s:
            await asyncio.sleep(ending.pause_s)
            first.send(signal.SIGCONT)
        if ending.signal and not ended.done():
            number = getattr(signal, f"SIG{ending.signal}")
            if not (ending.is_childs and first.send_to_child(number)):
                signalled = ending.signal
                first.send(number)
        lives = [first.life(hung=not await ended, signalled=signalled, paused=paused, rival=ending.rival)]
        if rival is not None:
            lives.append(rival.life(hung=not await rival_ended, rival=True))
    finally:
        for process in filter(None, (first, rival)):
            process.send(signal.SIGKILL)
    return lives


async def _wait_for_bytes(servers, count, ended):
    until_s, before = time.monotonic() + PATIENCE_S, servers.sent
    while servers.sent - before <= count and time.monotonic() < until_s and not ended.done():
        await asyncio.sleep(0.002)
