"""A served directory whose server keeps changes for a second and gets its database back from old backups.

Server and followers are killed meanwhile. A follower may stop and say why; the next one then resyncs. Wrong
is a follower that ends well with another tree than the source, and one that a resync does not repair.
"""

import os
import random
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import msgspec

from tests.engine.drive import tree
from tests.plugins.follow.soak import Server, begin

__all__ = ["RestoreReport", "soak_restores"]

FILES = 200
FILES_A_TURN = 5
TURN_S = 0.1
KEEP = "1s"
LIVES_S = (0.8, 3.0)  # of a follower
EVENTS_S = (0.5, 2.0)  # between backups, restores and kills of the server
TRIES = 5  # of the last run, while the server may not have looked at the last files
LAST_RUN_S = 120.0
STOPPED = 2  # the exit code of a follower that says why it cannot go on
REASONS = ("has another history", "has gone back", "any more; what came after it")


class RestoreReport(msgspec.Struct):
    """Figures, and ``wrong``: what must not be. ``stops``: the reasons that followers gave."""

    seconds: float
    seed: int
    writes: int = 0
    deletes: int = 0
    backups: int = 0
    restores: int = 0
    server_kills: int = 0
    runs: int = 0
    kills: int = 0
    resyncs: int = 0
    stops: dict[str, int] = {}
    wrong: list[str] = []


class _Source:
    """The directory; its files look old, so that they are published at once."""

    def __init__(self, root: Path, dice: random.Random, report: RestoreReport) -> None:
        self.root, self.dice, self.report = root, dice, report
        root.mkdir()

    def change(self, files: int) -> None:
        for _ in range(files):
            path = self.root / f"d{self.dice.randrange(4)}/f{self.dice.randrange(FILES)}"
            if path.exists() and self.dice.random() < 0.3:
                path.unlink()
                self.report.deletes += 1
                continue
            self.report.writes += 1
            path.parent.mkdir(exist_ok=True)
            new = self.root.with_name("new")
            new.write_text(f"{self.report.writes} " * self.dice.randrange(1, 50))
            os.utime(new, (self.report.writes, self.report.writes))
            new.rename(path)


class _Backups:
    """Copies of the server's database."""

    def __init__(self, server: Server, folder: Path, dice: random.Random, report: RestoreReport) -> None:
        self.server, self.dice, self.report = server, dice, report
        self.database = folder / "state/feed.sqlite"
        self.copies: list[Path] = []

    def keep(self) -> None:
        copy = self.database.with_name(f"backup{len(self.copies)}")
        with sqlite3.connect(self.database) as source, sqlite3.connect(copy) as target:
            source.backup(target)
        source.close()
        target.close()
        self.copies.append(copy)
        self.report.backups += 1

    def restore(self) -> None:
        self.server.kill()
        for path in self.database.parent.glob("feed.sqlite*"):
            path.unlink()
        self.database.write_bytes(self.dice.choice(self.copies[-5:]).read_bytes())
        self.server.start()
        self.report.restores += 1


def soak_restores(folder: Path, *, seconds: float, seed: int) -> RestoreReport:
    """Run it all in ``folder``, which is empty."""
    dice, report = random.Random(seed), RestoreReport(seconds, seed)
    source = _Source(folder / "source", dice, report)
    source.change(300)
    words = ("--state", str(folder / "state"), "--keep", KEEP, "--max-delete", "100%")
    server = Server(folder, source.root, *words)
    try:
        backups = _Backups(server, folder, dice, report)
        needs_resync = _disturb(folder, source, backups, dice, report)
        _last_run(folder, source, server, report, resync=needs_resync)
    finally:
        server.kill()
    said = (folder / "said").read_text()
    if "Traceback" in said or "a bug in cfetch" in said:
        report.wrong.append(f"said: {said[-2000:]}")
    return report


def _disturb(
    folder: Path, source: _Source, backups: _Backups, dice: random.Random, report: RestoreReport
) -> bool:
    """Return whether the last follower has stopped, so that the next one is to resync."""
    begun_s = time.monotonic()
    event_s, resync = begun_s + 1.0, False
    backups.keep()

    def is_over() -> bool:
        """Whether the time is up and a backup was restored: a busy machine may need longer for that."""
        return time.monotonic() > begun_s + report.seconds + (0.0 if report.restores else LAST_RUN_S)

    while not is_over():
        follower = _follow(folder, backups.server, dice.choice(["--once", "--poll=100ms"]), resync=resync)
        report.runs += 1
        report.resyncs += resync
        dies_s = time.monotonic() + dice.uniform(*LIVES_S)
        while time.monotonic() < dies_s and not is_over() and follower.poll() is None:
            source.change(FILES_A_TURN)
            if time.monotonic() > event_s:
                dice.choice([backups.keep, backups.restore, _kill(backups.server, report)])()
                event_s = time.monotonic() + dice.uniform(*EVENTS_S)
            time.sleep(TURN_S)
        if follower.poll() is None:
            follower.kill()
            report.kills += 1
        resync = _take_end(folder, follower, report)
    return resync


def _kill(server: Server, report: RestoreReport):
    def kill() -> None:
        server.kill()
        server.start()
        report.server_kills += 1

    return kill


def _follow(folder: Path, server: Server, how: str, *, resync: bool) -> "subprocess.Popen[bytes]":
    words = ["follow", server.url, "--to", str(folder / "to"), "--delete", "--max-delete", "100%"]
    words += ["--durability", "crash", "--json", "--quiet", how, *(["--resync"] if resync else [])]
    return begin(folder, words, stdout=subprocess.PIPE)


def _take_end(folder: Path, follower: "subprocess.Popen[bytes]", report: RestoreReport) -> bool:
    """Count how a follower ended; return whether it has said that it cannot go on."""
    follower.communicate(timeout=LAST_RUN_S)
    code = follower.returncode
    if code == STOPPED:
        last = (folder / "said").read_text().splitlines()[-1]
        (reason,) = [reason for reason in REASONS if reason in last] or [last]
        report.stops[reason] = report.stops.get(reason, 0) + 1
        if reason == last:
            report.wrong.append(f"a follower stopped for another reason: {last}")
    elif code not in (0, 1, -signal.SIGKILL):  # 1: the server was down, or a file had changed meanwhile
        report.wrong.append(f"a follower ended with {code}")
    return code == STOPPED


def _last_run(folder: Path, source: _Source, server: Server, report: RestoreReport, *, resync: bool) -> None:
    """Follow until the mirror is the source: at once, or after a resync that was asked for."""
    for _ in range(TRIES):
        time.sleep(1.0)  # the server looks at the last files
        follower = _follow(folder, server, "--once", resync=resync)
        report.resyncs += resync
        resync = _take_end(folder, follower, report)
        here, there = tree(folder / "to"), tree(source.root)
        del there[".cfetch-feed/root"]
        if follower.returncode == 0 and here == there:
            return
    odd = sorted(path for path in here.keys() | there.keys() if here.get(path) != there.get(path))
    report.wrong.append(f"{len(odd)} files differ, and nobody said so: {odd[:5]}")
