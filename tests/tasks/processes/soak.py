"""Runs of several processes whose workers and parents are killed at random; then a look at what is there."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.process import command, started
from tests.crash.scene import KIB, MIB, TIMEOUT_S, Children, Job, Scene, serving

__all__ = ["Report", "children_of", "is_alive", "soak"]

PACE_BPS = 2.0 * MIB  # of a connection
PIECE_BYTES = 16 * KIB  # what the origin takes in hand at a time
MOST_TWICE = 0.02  # of all bytes, for each kill
MORE_ROUNDS = 20  # until something is killed


class Counted(msgspec.Struct):
    """A content that counts the bytes that it was asked for."""

    inner: Synthetic
    sent_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return self.inner.size_bytes

    @property
    def etag(self) -> str:
        return self.inner.etag

    def read(self, offset: int, length: int) -> bytes | memoryview:
        length = min(length, PIECE_BYTES)
        self.sent_bytes += length
        return self.inner.read(offset, length)

    def sha256(self) -> str:
        return self.inner.sha256()


class Report(msgspec.Struct):
    """What came of all rounds.

    ``twice``: bytes sent beyond those of the files, as a fraction of these; what a process had not read when
    it was killed does not count.
    """

    rounds: int = 0
    workers_killed: int = 0
    parents_killed: int = 0
    most_twice: float = 0.0
    mean_twice: float = 0.0
    wrong: list[str] = msgspec.field(default_factory=list)


def children_of(pid: int) -> list[int]:
    """The processes that this one has started and that live."""
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                children.append(int(path.parent.name))
    return children


def is_alive(pid: int) -> bool:
    """Whether such a process is there, and no zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def soak(
    folder: Path, *, rounds: int, seed: int, large: int = 24, small: int = 400, twice: float = MOST_TWICE
) -> Report:
    """So many rounds, each in a directory of its own below ``folder``; more if nothing was killed in them.

    A run may be over before its turn to be killed comes, as no machine is as quick as another.
    ``twice``: the fraction of all bytes that may come twice for each kill.
    """
    dice, report, fractions = random.Random(seed), Report(), []
    names = {f"l/{n}": 4 * MIB for n in range(large)} | {f"s/{n}": 16 * KIB for n in range(small)}
    files = {name: Counted(Synthetic(name, size)) for name, size in names.items()}
    job = Job(files, hashed=tuple(files))
    with serving(files, pace_bps=PACE_BPS) as origin:
        while report.rounds < rounds or not report.workers_killed + report.parents_killed:
            number = report.rounds
            if number == rounds + MORE_ROUNDS:
                break
            for content in files.values():
                content.sent_bytes = 0
            (folder / str(number)).mkdir()
            scene = Scene(folder / str(number), origin.url, Children(), job=job)
            kills, unread_bytes = _play_round(scene, dice, report)
            sent_bytes = sum(content.sent_bytes for content in files.values()) - unread_bytes
            more = sent_bytes / job.total_bytes - 1
            fractions.append(more)
            report.rounds += 1
            problems = scene.wrong() + scene.missing() + scene.debris()
            if more > twice * max(1, kills):
                problems.append(f"{more:.1%} of the bytes came twice, with {kills} kills")
            report.wrong += [f"round {number}: {problem}" for problem in problems]
    report.most_twice, report.mean_twice = max(fractions), sum(fractions) / len(fractions)
    return report


def count_unread(pid: int) -> int:
    """Bytes on their way to a stopped process: in its sockets, and in those at the other end."""
    inodes = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(path.readlink().name.removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    own = {(row[1], row[2]): int(row[4].partition(":")[2], 16) for row in rows if row[9] in inodes}
    at_peers = (int(row[4].partition(":")[0], 16) for row in rows if (row[2], row[1]) in own)
    return sum(own.values()) + sum(at_peers)


def _play_round(scene: Scene, dice: random.Random, report: Report) -> tuple[int, int]:
    """Run until the tree is complete; how often something was killed, and how much was unread then."""
    kills, most, unread_bytes = 0, dice.randint(1, 3), 0
    while True:
        words = command(scene, "--quiet", "--processes", str(dice.randint(2, 3)))
        process = started(words, stdout=subprocess.DEVNULL)
        orphans: list[int] = []
        while kills < most and process.poll() is None:
            time.sleep(dice.uniform(0.2, 1.5))
            workers = children_of(process.pid)
            if not workers or process.poll() is not None:
                continue
            kills += 1
            is_parents_turn = dice.random() < 0.4
            victims = workers if is_parents_turn else [dice.choice(workers)]
            for pid in victims:
                with suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            if is_parents_turn:
                process.kill()
                orphans = workers
                report.parents_killed += 1
            else:
                report.workers_killed += 1
            for pid in victims:
                with suppress(OSError):
                    unread_bytes += count_unread(pid)  # at the last moment: the origin goes on sending
                    os.kill(pid, signal.SIGCONT if is_parents_turn else signal.SIGKILL)
            if is_parents_turn:
                break
        _, said = process.communicate(timeout=TIMEOUT_S)
        if process.returncode == 0:
            return kills, unread_bytes
        if process.returncode != -signal.SIGKILL:
            report.wrong.append(f"exit code {process.returncode}: {said[-500:]}")
            return kills, unread_bytes
        if dice.random() < 0.5:  # else the next run begins beside them
            _wait_for_end(orphans, report)


def _wait_for_end(pids: list[int], report: Report) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(map(is_alive, pids)):
        if time.monotonic() > deadline_s:
            report.wrong.append("a child outlives its parent")
            return
        time.sleep(0.05)
