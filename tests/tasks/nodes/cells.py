"""Three nodes, several volumes and one fault at a time; then a look at what stands, by what stands alone."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.process import started
from tests.crash.scene import KIB, TIMEOUT_S, Children, Job, Scene, serving
from tests.tasks.nodes.soak import SHORT_BEATS, Place, find_leader, schedule
from tests.tasks.processes.soak import Counted, children_of, count_unread

__all__ = ["FAULTS", "Cell", "bring_cell"]
FAULTS = ("none", "kill a node", "kill the leader", "stop a node", "stop it for long", "full", "dead")
NODES = 3
ASLEEP_S = 14.0  # longer than a lease
LONG_ASLEEP_S = 5.0  # longer than a heartbeat may be missed with short beats
MOST_RUNS = 6  # of the command, until the plan is completed


class Cell(msgspec.Struct):
    """What came of it. ``twice``: bytes that came beyond those of the files, as a share of these."""

    volumes: int
    fault: str
    codes: list[int] = msgspec.field(default_factory=list)
    twice: float = 0.0
    elapsed_s: float = 0.0
    wrong: list[str] = msgspec.field(default_factory=list)


def bring_cell(folder: Path, *, volumes: int, fault: str, batches: int = 60, size: int = 96 * KIB) -> Cell:
    """Bring a plan of so many batches of five files, and as many files without a batch."""
    names = [f"b{batch}/{n}" for batch in range(batches) for n in range(5)]
    lone = [f"lone/{n}" for n in range(batches)]
    files = {name: Counted(Synthetic(name, size)) for name in names + lone}
    job = Job(files, hashed=tuple(files), batches={name: name.partition("/")[0] for name in names})
    cell = Cell(volumes, fault)
    with serving(files, pace_bps=256.0 * KIB) as origin:
        place = Place(Scene(folder, origin.url, Children(), job=job), volumes)
        begun_s = time.monotonic()
        with place.mounted() as mount:
            crowd = _Nodes(place, cell, short=fault == "stop it for long")
            unread_bytes = crowd.wait_for(len(files) // 4)
            if fault in ("full", "dead"):
                if mount is None:
                    cell.wrong.append("only root can mount a volume that fails")
                else:
                    mount.rule("full" if fault == "full" else "gone")
            elif fault != "none":
                unread_bytes = crowd.hurt(fault)
            crowd.end()
            if mount is not None and fault == "dead":
                mount.rule("well")
            crowd.repeat()
        cell.elapsed_s = round(time.monotonic() - begun_s, 1)
        sent_bytes = sum(content.sent_bytes for content in files.values()) - unread_bytes
        cell.twice = round(sent_bytes / job.total_bytes - 1, 4)
        cell.wrong += place.look()
    return cell


class _Nodes:
    def __init__(self, place: Place, cell: Cell, *, short: bool) -> None:
        instant = schedule(place.scene, place)
        words = ["-m", "cfetch", "plan", "run", instant, "--together", "--quiet", *place.words]
        words += ["--write-timeout", "2s", "--processes", "1", "-j", "4", "--segments", "1"]
        self._words = [sys.executable, *words, *(SHORT_BEATS if short else ())]
        self._place, self._cell, self._instant = place, cell, instant
        self._nodes = [self._begin() for _ in range(NODES)]

    def _begin(self) -> subprocess.Popen[str]:
        return started(self._words, stdout=subprocess.DEVNULL, start_new_session=True)

    def wait_for(self, files: int) -> int:
        """Wait until so many files stand on the volumes, and one on the last of them."""
        roots, end_s = self._place.looked, time.monotonic() + TIMEOUT_S
        while time.monotonic() < end_s:
            standing = [sum(path.parent.name != ".cfetch" for path in root.glob("*/*")) for root in roots]
            if sum(standing) >= files and standing[-1]:
                return 0
            time.sleep(0.02)
        self._cell.wrong.append("nothing comes")
        return 0

    def hurt(self, fault: str) -> int:
        """Kill or stop one node; the bytes that were on their way to it when it was killed."""
        led_by = find_leader(self._place.state / f"heartbeats/{self._instant}.json")
        node = next(one for one in self._nodes if (one.pid == led_by) == fault.endswith("leader"))
        os.killpg(node.pid, signal.SIGSTOP)
        if fault.startswith("kill"):
            unread_bytes = sum(map(count_unread, children_of(node.pid)))
            os.killpg(node.pid, signal.SIGKILL)
            self._nodes.append(self._begin())
            return unread_bytes
        time.sleep(LONG_ASLEEP_S if fault.endswith("long") else ASLEEP_S)
        os.killpg(node.pid, signal.SIGCONT)
        return 0

    def end(self) -> None:
        """Wait for all nodes, and note how they ended."""
        for node in self._nodes:
            try:
                _, said = node.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    os.killpg(node.pid, signal.SIGKILL)
                self._cell.wrong.append("a node does not end")
                continue
            self._cell.codes.append(node.returncode)
            if node.returncode not in (0, 3, -signal.SIGKILL):
                self._cell.wrong.append(f"exit code {node.returncode}: {said[-600:]}")

    def repeat(self) -> None:
        """Give the command again, until the plan is completed."""
        for _ in range(MOST_RUNS):
            if self._place.is_completed(self._instant):
                return
            self._nodes = [self._begin()]
            self.end()
        self._cell.wrong.append("the plan is not completed")
