"""The command as a process of its own, for what a forked child cannot have: limits, namespaces, signals."""

import os
import signal
import subprocess
from typing import NamedTuple

from tests.crash.scene import PROJECT, TIMEOUT_S, Scene
from tests.warm import CHANGED, COMMAND

__all__ = ["Ended", "command", "ended", "started"]


class Ended(NamedTuple):
    """How a process ended and what it said."""

    code: int
    out: str
    said: str


def command(scene: Scene, *more: str) -> list[str]:
    """The scene's job on the command line; one connection a file, as on a slow machine helpers would come."""
    words = ["download", str(scene.manifest), "--to", str(scene.to), "--durability", scene.durability]
    return [*COMMAND, *words, "--segments", "1", *more]


def started(words: list[str], *, limits=(), **how) -> subprocess.Popen[str]:
    """A process; a command that has ``limits`` (resource, (soft, hard)) sets them before it begins."""
    # prlimit(1) is not everywhere, and setting limits between fork and exec is not safe beside threads
    setting = "".join(f"resource.setrlimit({which}, {values}); " for which, values in limits)
    if limits:
        assert words[:3] == COMMAND
        words = [words[0], "-c", f"import resource, runpy; {setting}{CHANGED}", *words[3:]]
    env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | how
    return subprocess.Popen(
        words,
        cwd=PROJECT,
        env=env | {"PYTHONPATH": str(PROJECT)},
        text=True,
        **how,
    )


def ended(process: subprocess.Popen[str], *numbers: signal.Signals) -> Ended:
    """Send it signals and wait; never a traceback."""
    for number in numbers:
        process.send_signal(number)
    out, said = process.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in (said or ""), said
    return Ended(process.returncode, out or "", said or "")
