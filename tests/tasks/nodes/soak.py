"""Several nodes on one plan after the other, killed, stopped and ended at random; then a look at it all.

With several volumes, one of them fills up, becomes read-only, hangs and goes at random too. If it is hurt
when the plan is completed, or when the run began that completed it, that run can remove nothing there:
parts of dead tasks and marks stay where they are, and nothing else remembers them. So they may lie there, and
nowhere else, until a later run tidies up. The soak lets one do that, and then nothing may be left.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.content import Synthetic, pieces
from cfetch.show.metrics_reading import read_metrics
from cfetch.timeline.records import Beat
from tests.crash.process import started
from tests.crash.scene import KIB, MIB, TIMEOUT_S, Children, Job, Scene, serving
from tests.tasks.processes.soak import PACE_BPS, Counted, children_of
from tests.tasks.processes.test_named_batches import find_wrong
from tests.volumes.soak import Mount

__all__ = ["Place", "Report", "find_leader", "schedule", "soak"]

SHORT_BEATS = ("--heartbeat-interval", "1s", "--heartbeat-misses", "2")
ASLEEP_S = 4.5  # longer than a heartbeat may be missed
LONG_ASLEEP_S = 40.0  # longer than a lease, and shorter than a heartbeat may be missed unless it is set
MOST_IN_VAIN = 20  # plans that are over before a node is hurt
WORDS = ("full", "readonly", "hang", "gone", "well", "well")  # what becomes of a volume
CODES = {0, -signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGTERM}  # the last one: it had hardly begun


class Report(msgspec.Struct):
    """What came of all plans. ``twice``: bytes sent beyond those of the files, as a fraction of these.

    ``copies``: shares that an idle node has claimed while another one had them. ``children``: processes of
    nodes that were killed. ``leaders``: those of the nodes that were hurt which led. ``tidied_later``: plans
    after which a later run had to remove something from the volume that is hurt.
    """

    plans: int = 0
    nodes: int = 0
    copies: int = 0
    killed: int = 0
    children: int = 0
    leaders: int = 0
    volumes_hurt: int = 0
    tidied_later: int = 0
    stopped: int = 0
    ended: int = 0
    mean_twice: float = 0.0
    most_twice: float = 0.0
    wrong: list[str] = msgspec.field(default_factory=list)

    @property
    def hurt(self) -> int:
        """How often a node was hurt."""
        return self.killed + self.children + self.stopped + self.ended


class Place:
    """Where a plan goes: ``scene.to``; or several ``volumes`` beside it, and a state that is on none."""

    def __init__(self, scene: Scene, volumes: int) -> None:
        self.scene = scene
        folder = scene.to.parent
        self.roots = [folder / f"v{n}" for n in range(volumes)] if volumes > 1 else [scene.to]
        self.looked = list(self.roots)  # where the files of each can be seen afterwards
        self.state = folder / "st" if volumes > 1 else scene.to / ".cfetch"
        self.words = [word for root in self.roots for word in ("--to", str(root))]
        self.words += ["--state", str(self.state)] if volumes > 1 else []

    @contextmanager
    def mounted(self) -> Iterator[Mount | None]:
        """Let the last one of several be a mount, if this machine can do that."""
        if len(self.roots) == 1 or not os.access("/dev/fuse", os.W_OK) or os.geteuid():
            yield None
            return
        root = self.roots[-1]
        mount = Mount(root.with_name("below"), root)
        self.looked[-1] = mount.below
        try:
            yield mount
        finally:
            mount.close()

    def is_completed(self, instant: str) -> bool:
        """Whether the plan is."""
        return bool(list(self.state.glob(f"timeline/{instant}*.completed")))

    def look(self) -> list[str]:
        """The problems with what is there: files, batches, and what runs have left."""
        problems = [f"batch {batch}" for batch in find_wrong(self.looked, self.scene.job.batches)]
        if len(self.roots) == 1:
            return problems + self.scene.wrong() + self.scene.missing() + self.scene.debris()
        for name, content in self.scene.job.files.items():
            there = [root / name for root in self.looked if (root / name).is_file()]
            if len(there) != 1:
                problems.append(f"{name} is on {len(there)} volumes")
            problems += [
                f"{path} is wrong" for path in there if path.read_bytes() != b"".join(pieces(content))
            ]
        for root in self.looked:
            problems += [f"{path} is left" for path in _list_files(root, ".cfetch/attempts/**/*")]
        return problems + [f"{path} is left" for path in _list_files(self.state, "plans/*/*/*")]

    def tidy_later(self, mount: Mount) -> bool:
        """Whether the mount has kept something; then it is well again, and the next run may come."""
        if not _list_files(mount.below, ".cfetch/attempts/**/*"):
            return False
        mount.rule("well")
        words = ["-m", "cfetch", "plan", "clean", *self.words]  # it tidies up as the end of a download does
        subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=TIMEOUT_S)
        return True


def _list_files(root: Path, pattern: str) -> list[Path]:
    return [path for path in root.glob(pattern) if path.is_file()]


class _Crowd:
    """The nodes of one plan. ``patient``: they are dead only after long, and stand still for longer."""

    def __init__(
        self, place: Place, instant: str, report: Report, most: int, *, patient: bool = False
    ) -> None:
        words = ["-m", "cfetch", "plan", "run", instant, "--together", "--quiet", *place.words]
        if len(place.roots) > 1:
            words += ["--write-timeout", "2s", "--placement-deadline", "20s"]
        self._words = [sys.executable, *words, *(() if patient else SHORT_BEATS)]
        self._beat = place.state / f"heartbeats/{instant}.json"
        self._report = report
        self._most = most
        self._state = place.state
        self.codes = CODES | ({3} if len(place.roots) > 1 else set())
        self._is_patient = patient
        self._asleep_s = LONG_ASLEEP_S if patient else ASLEEP_S
        self._most_asleep = most // 2 if patient else most  # the others are to bring copies
        self._killed, self._stopped = (0.1, 0.9) if patient else (0.5, 0.8)
        self.nodes: list[subprocess.Popen[str]] = []
        self.asleep: dict[int, float] = {}

    def add(self) -> None:
        """One more node, if fewer than the most are there."""
        if len(self.living()) < self._most:
            self.nodes.append(started(self._words, stdout=subprocess.DEVNULL, start_new_session=True))
            self._report.nodes += 1

    def living(self) -> list[subprocess.Popen[str]]:
        return [node for node in self.nodes if node.poll() is None]

    def hurt(self, dice: random.Random) -> None:
        """Kill one node, let it stand still, or end it in good order."""
        nodes = [node for node in self.living() if node.pid not in self.asleep]
        if self._is_patient:  # a node that has claimed nothing yet holds up nobody
            at_work = self._list_at_work()
            nodes = [node for node in nodes if node.pid in at_work]
        if not nodes:
            return
        node, how = dice.choice(nodes), dice.random()
        self._report.leaders += node.pid == find_leader(self._beat)
        children = children_of(node.pid) if how < self._killed / 4 else []
        if children:
            with suppress(OSError):
                os.kill(dice.choice(children), signal.SIGKILL)
            self._report.children += 1
        elif how < self._killed:
            node.kill()
            self._report.killed += 1
        elif how < self._stopped:
            if len(self.asleep) == self._most_asleep:
                return
            os.killpg(node.pid, signal.SIGSTOP)
            self.asleep[node.pid] = time.monotonic() + dice.uniform(1, self._asleep_s)
            self._report.stopped += 1
        else:
            node.terminate()
            self._report.ended += 1

    def _list_at_work(self) -> set[int]:
        """The processes of the nodes that have claimed a share."""
        pids = set()
        for path in self._state.glob("plans/*/shares-*/heartbeats/*.json"):
            with suppress(OSError, msgspec.DecodeError):
                pids.add(msgspec.json.decode(path.read_bytes(), type=Beat).owner.pid)
        return pids

    def wake(self, *, everybody: bool = False) -> None:
        for pid, until_s in list(self.asleep.items()):
            if everybody or time.monotonic() > until_s:
                with suppress(OSError):
                    os.killpg(pid, signal.SIGCONT)
                del self.asleep[pid]

    def end(self) -> None:
        """Wait for all, and look how they ended."""
        self.wake(everybody=True)
        for node in self.nodes:
            try:
                _, said = node.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                node.kill()
                self._report.wrong.append("a node does not end")
                continue
            if node.returncode not in self.codes or "Traceback" in said:
                self._report.wrong.append(f"exit code {node.returncode}: {said[-600:]}")


def soak(
    folder: Path,
    *,
    seconds: float,
    nodes: int,
    seed: int,
    large: int = 16,
    small: int = 400,
    hurting_s: float = 12.0,
    volumes: int = 1,
) -> Report:
    """One plan after the other for so many seconds, and until a node was hurt; each below ``folder``."""
    dice, report, twice = random.Random(seed), Report(), []
    names = {f"l/{n}": 2 * MIB for n in range(large)} | {f"s/{n}": 16 * KIB for n in range(small)}
    files = {name: Counted(Synthetic(name, size)) for name, size in names.items()}
    batches = {f"s/{n}": str(n // 10) for n in range(0, small, 2)}
    job = Job(files, hashed=tuple(files), batches=batches)
    end_s = time.monotonic() + seconds
    with serving(files, pace_bps=PACE_BPS / 4) as origin:
        while time.monotonic() < end_s or not report.plans or not report.hurt:
            if report.plans == MOST_IN_VAIN and not report.hurt:
                break
            for content in files.values():
                content.sent_bytes = 0
            (folder / str(report.plans)).mkdir()
            scene = Scene(folder / str(report.plans), origin.url, Children(), job=job)
            place = Place(scene, volumes)
            _play(place, dice, report, nodes, hurting_s)
            twice.append(sum(content.sent_bytes for content in files.values()) / job.total_bytes - 1)
            report.plans += 1
            report.wrong += [f"plan {report.plans}: {problem}" for problem in _look(place)]
    report.mean_twice, report.most_twice = sum(twice) / len(twice), max(twice)
    return report


def _play(place: Place, dice: random.Random, report: Report, nodes: int, hurting_s: float) -> None:
    """Bring one plan, whatever happens to its nodes for ``hurting_s``; then they are left alone."""
    begun_s, copies = time.monotonic(), set[str]()
    with place.mounted() as mount:
        instant = schedule(place.scene, place)
        crowd = _Crowd(place, instant, report, nodes, patient=bool(report.plans % 2))
        while not place.is_completed(instant):
            crowd.wake()
            crowd.add()
            copies |= _list_copies(place)
            time.sleep(dice.uniform(0.1, 0.6))
            # turns of a busy machine are long: the first one may take all this time
            is_hurting = time.monotonic() < begun_s + hurting_s or not report.hurt
            if is_hurting and dice.random() < 0.5:
                crowd.hurt(dice)
            if mount is not None and (not is_hurting or dice.random() < 0.2):
                word = dice.choice(WORDS) if is_hurting and mount.has_label else "well"
                mount.rule(word)
                report.volumes_hurt += word != "well"
            if time.monotonic() > begun_s + TIMEOUT_S:
                report.wrong.append(f"plan {report.plans} does not end")
                break
        crowd.end()
        if mount is not None:
            report.tidied_later += place.tidy_later(mount)
    report.copies += len(copies)


def find_leader(beat: Path) -> int | None:
    """The process that holds the plan with this heartbeat."""
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(beat.read_bytes(), type=Beat).owner.pid
    return None


def _list_copies(place: Place) -> set[str]:
    copies = set()
    for path in place.state.glob("plans/*/shares-*/claims/*"):
        with suppress(OSError):
            copies |= {f"{path.parent.parent}/{path.name}"} if " " in path.read_text() else set()
    return copies


def schedule(scene: Scene, place: Place | None = None) -> str:
    to = place.words if place is not None else ["--to", str(scene.to)]
    words = [sys.executable, "-m", "cfetch", "plan", "schedule", str(scene.manifest), *to]
    out, said = started([*words, "--json"]).communicate(timeout=TIMEOUT_S)
    assert out, said
    return str(msgspec.json.decode(out)["instant"])


def _look(place: Place) -> list[str]:
    """The problems with what is there: files, batches, debris, and records of the last run."""
    problems, scene = place.look(), place.scene
    paths = sorted((place.state / "metrics").iterdir(), key=lambda path: path.stat().st_mtime)
    for run in read_metrics(paths[-1:]):
        counts = Counter(record.path for record in run.files)
        problems += [f"{path}: {count} records" for path, count in counts.items() if count > 1]
        problems += [f"{path}: no record" for path in scene.job.files if path not in counts]
    return problems


def measure_speed(folder: Path, *, nodes: int) -> tuple[float, float]:
    """Seconds that a plan takes one node, and ``nodes`` of them; the server is slow for each connection."""
    files = {f"{n}": Synthetic(f"{n}", MIB) for n in range(256)}
    walls = []
    with serving(files, pace_bps=PACE_BPS / 2) as origin:
        for number in (1, nodes):
            place = folder / f"speed-{number}"
            place.mkdir()
            scene = Scene(place, origin.url, Children(), job=Job(files, hashed=()))
            crowd = _Crowd(Place(scene, 1), schedule(scene), Report(), number)
            begun_s = time.monotonic()
            for _ in range(number):
                crowd.add()
            crowd.end()
            walls.append(time.monotonic() - begun_s)
            assert scene.wrong() + scene.missing() == []
    return walls[0], walls[1]
