"""Runs to three volumes that hang, fill up, turn read-only and go away at random, while runs are killed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.content import Synthetic, pieces
from tests.crash.scene import serving
from tests.volumes.scene import KIB, PROJECT, Scene

__all__ = ["Report", "soak"]

VOLUMES = 3
FILES = {f"b{batch}/{n}": Synthetic(f"b{batch}/{n}", 48 * KIB + n) for batch in range(16) for n in range(4)}
PACE_BPS = 96.0 * KIB  # of a connection
STATES = ("hang", "full", "readonly", "well", "well", "gone")
# a signal that comes before the run has begun ends the process in the system's way
ENDS = {0, 1, 3, 128 + signal.SIGTERM, -signal.SIGTERM, -signal.SIGKILL}
LONGEST_S = 90.0  # of a run that has 1 s of patience with a disk, and 10 s with all of them


class Report(msgspec.Struct):
    """What was done, how runs ended, and what was wrong: nothing, if all is well.

    ``twice``: batches that are whole on two volumes, as one of them did not answer or was away.
    """

    rounds: int = 0
    changes: dict[str, int] = msgspec.field(default_factory=dict)
    ends: dict[str, int] = msgspec.field(default_factory=dict)
    twice: int = 0
    longest_s: float = 0.0
    wrong: list[str] = msgspec.field(default_factory=list)


class Mount:
    """A volume over ``below``, ruled by words."""

    def __init__(self, below: Path, root: Path) -> None:
        self.below, self.root = below, root
        self._server: subprocess.Popen[str] | None = None
        for path in (below, root):
            path.mkdir()
        self.rule("well")

    @property
    def has_label(self) -> bool:
        """Whether a run has labelled it, so that its absence is noticed without ``--mounted``."""
        return (self.below / ".cfetch/volume").exists()

    def rule(self, word: str) -> None:
        """Bring it into a state; ``gone``: it is not mounted."""
        if word == "gone":
            self.close()
            return
        if self._server is None:
            words = [sys.executable, "-m", "tests.volumes.mount", str(self.below), str(self.root)]
            pipe = subprocess.PIPE
            self._server = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT)
            self._heard()
        assert self._server.stdin is not None
        self._server.stdin.write(f"{word}\n")
        self._server.stdin.flush()
        self._heard()

    def _heard(self) -> None:
        assert self._server is not None
        assert self._server.stdout is not None
        self._server.stdout.readline()

    def close(self) -> None:
        """Unmount it, whoever uses it."""
        server, self._server = self._server, None
        if server is not None:
            server.communicate()


def soak(folder: Path, *, seconds: float, seed: int) -> Report:
    """Rounds of the same job with other faults, until so many seconds are over."""
    report, dice = Report(), random.Random(seed)
    changes, ends = Counter[str](), Counter[str]()
    end_s = time.monotonic() + seconds
    with serving(FILES, pace_bps=PACE_BPS) as origin:
        while time.monotonic() < end_s:
            place = folder / f"round{report.rounds}"
            place.mkdir()
            scene = Scene(place, origin.url, FILES, volumes=VOLUMES)
            with ExitStack() as stack:
                mounts = [Mount(place / f"below{n}", place / f"v{n}") for n in range(VOLUMES)]
                for mount in mounts:
                    stack.callback(mount.close)
                for _ in range(dice.randint(1, 3)):
                    _one_run(scene, mounts, dice, changes, ends, report, quiet=False)
                for mount in mounts:
                    mount.rule("well")
                if _one_run(scene, mounts, dice, changes, ends, report, quiet=True) != 0:
                    report.wrong.append(f"round {report.rounds}: the last run has not ended with 0")
                report.wrong += [f"round {report.rounds}: {one}" for one in _faults(mounts, report)]
            report.rounds += 1
    report.changes, report.ends = dict(changes), dict(ends)
    return report


def _one_run(
    scene: Scene,
    mounts: list[Mount],
    dice: random.Random,
    changes: Counter[str],
    ends: Counter[str],
    report: Report,
    *,
    quiet: bool,
) -> int:
    patience = ("--write-timeout", "1s", "--placement-deadline", "10s")
    words = scene.words("--state", str(scene.folder / "st"), *patience, "--quiet")
    began_s, asked = time.monotonic(), None
    with _running(words, scene.folder) as child:
        while child.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(60 if quiet else dice.uniform(0.1, 0.8))
            if time.monotonic() - began_s > LONGEST_S:
                report.wrong.append(f"round {report.rounds}: a run did not end in {LONGEST_S:g} s")
                child.kill()
            if quiet or child.poll() is not None:
                continue
            if dice.random() < 0.08 and asked is None:
                asked = dice.choice([signal.SIGKILL, signal.SIGTERM])
                child.send_signal(asked)
                changes[asked.name] += 1
            else:
                word, mount = dice.choice(STATES), dice.choice(mounts)
                if word == "gone" and not mount.has_label:
                    word = "well"  # what lies below an absent mount is a directory like any other
                mount.rule(word)
                changes[word] += 1
        said = child.stderr.read().decode() if child.stderr else ""
    report.longest_s = round(max(report.longest_s, time.monotonic() - began_s), 1)
    code = child.returncode
    ends[str(code)] += 1
    if code not in ENDS or "Traceback" in said or (code < 0 and asked is None):
        report.wrong.append(f"round {report.rounds}: exit code {code}: {said[-2000:]}")
    if code == 0 and (missing := _missing(mounts)):
        report.wrong.append(f"round {report.rounds}: exit code 0, and {missing} is missing")
    return code


@contextmanager
def _running(words: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    env = os.environ | {"PYTHONPATH": str(PROJECT)}
    nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(words, env=env, cwd=folder, stdout=nowhere, stderr=pipe) as child:
        yield child


def _missing(mounts: list[Mount]) -> list[str]:
    return [name for name in FILES if not any((mount.below / name).is_file() for mount in mounts)]


def _faults(mounts: list[Mount], report: Report) -> list[str]:
    """What must not be when all volumes are back: a wrong file, or a batch that is whole nowhere."""
    said = []
    for name, content in FILES.items():
        for mount in mounts:
            path = mount.below / name
            if path.is_file() and path.read_bytes() != b"".join(pieces(content)):
                said.append(f"{path} is wrong")
    for batch in {name.partition("/")[0] for name in FILES}:
        names = [name for name in FILES if name.startswith(f"{batch}/")]
        counts = [sum((mount.below / name).is_file() for name in names) for mount in mounts]
        if len(names) not in counts:
            said.append(f"{batch} is whole nowhere: {counts} of {len(names)}")
        elif any(0 < count < len(names) for count in counts):
            said.append(f"{batch} is on several volumes: {counts} of {len(names)}")
        report.twice += counts.count(len(names)) > 1
    return said
