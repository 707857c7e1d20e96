"""Named batches onto one, two and four volumes, by each way to run: every world is hurt once, then looked at.

``python benchmarks/placement_worlds.py [--ways one processes together spark] [--volumes 1 2 4]
[--hurts nothing kill stop full dead] [--json]``.

A world is a number of volumes, a way to run (one process, ``--processes 2``, three nodes with
``--together``, ``--engine spark`` on a local-cluster of two executors) and what hurts it when a quarter of
the bytes is on its way: a process of it is killed, or stands still for five seconds; the last volume is
full, or answers no more (a single one for twenty seconds, as a run waits for it). What hurts ends with the
first run; the same command is then repeated until it ends with 0. Exit code 1 if a batch is not whole on
exactly one volume, a file is wrong or twice, a part is left, a run does not end, or a kill or a stop costs
more than 2 % of the bytes. The volumes are FUSE file systems in a mount name space of this script's own: it
needs /dev/fuse and unshare.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from cfetch.plugins.lab.bench.content import Synthetic, pieces
from tests.crash.scene import serving
from tests.tasks.processes.soak import Counted, children_of, count_unread
from tests.volumes.scene import KIB, PROJECT, PYTHON
from tests.volumes.soak import Mount

WAYS = ("one", "processes", "together", "spark")
HURTS = ("nothing", "kill", "stop", "full", "dead")
INSIDE = "CFETCH_WORLDS_INSIDE"
BATCHES, FILES_EACH = 40, 8
NODES = 3
PACE_BPS = 192.0 * KIB  # of a connection
STANDS_STILL_S = 5.0
AWAY_S = 20.0
MOST_TWICE = 0.02
MOST_RUNS = 4
LONGEST_S = 300.0
PATIENCE = ("--write-timeout", "2s", "--placement-deadline", "20s", "--durability", "crash", "--quiet")
BEATS = ("--heartbeat-interval", "1s", "--heartbeat-misses", "3")  # so that a killed node is missed soon
MASTER = "local-cluster[2,1,1024]"


class World(msgspec.Struct):
    """What came of one world. ``twice``: bytes sent beyond those of the files, as a share of these."""

    volumes: int
    way: str
    hurt: str
    runs: int = 0
    seconds: float = 0.0
    twice: float = 0.0
    files_each: list[int] = msgspec.field(default_factory=list)
    wrong: list[str] = msgspec.field(default_factory=list)

    def line(self) -> str:
        """For a person."""
        state = "; ".join(self.wrong[:3]) or "whole, once"
        return (
            f"{self.volumes} volumes, {self.way:9} {self.hurt:7} {self.runs} runs {self.seconds:5.1f} s, "
            f"{self.twice:6.2%} twice, files {self.files_each}: {state}"
        )


class Job(NamedTuple):
    """The list of files, where they go, and the file systems below."""

    folder: Path
    files: dict[str, Counted]
    mounts: list[Mount]

    @property
    def total_bytes(self) -> int:
        """Of all files."""
        return sum(content.size_bytes for content in self.files.values())

    @property
    def sent_bytes(self) -> int:
        """What the server was asked for and took in hand."""
        return sum(content.sent_bytes for content in self.files.values())

    @property
    def places(self) -> list[str]:
        """The options that say where the files and the plan go."""
        to = [word for mount in self.mounts for word in ("--to", str(mount.root))]
        return [*to, "--state", str(self.folder / "state")]

    def list_words(self, way: str) -> list[list[str]]:
        """The commands of a way to run, which are started at once."""
        download = ["download", str(self.folder / "m.json"), *self.places, *PATIENCE]
        if way == "together":
            words = ["plan", "run", self._schedule(), "--together", *self.places, *PATIENCE, *BEATS]
            return [words] * NODES
        more = {"one": [], "processes": ["--processes", "2"]}
        return [download + more.get(way, ["--engine", "spark", "--spark-master", MASTER])]

    def _schedule(self) -> str:
        """The instant of the plan, which stands there after the first run."""
        words = [PYTHON, "-m", "cfetch", "plan", "schedule", str(self.folder / "m.json"), *self.places]
        done = subprocess.run([*words, "--json"], capture_output=True, text=True, env=_environ(), check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        return str(json.loads(done.stdout)["instant"])


def play(job: Job, world: World) -> None:
    """Run the job until it ends well, hurt in the first run; then look."""
    began_s, unread_bytes = time.monotonic(), 0
    while world.runs < MOST_RUNS:
        commands = job.list_words(world.way)
        children = [_begin(words, job.folder) for words in commands]
        world.runs += 1
        if world.runs == 1 and world.hurt != "nothing":
            _wait_until_a_quarter_is_sent(job, children[0])
            unread_bytes += _hurt(world, job, children)
        codes = [_end(child, world) for child in children]
        for mount in job.mounts:
            mount.rule("well")
        if not any(codes) or (world.way == "together" and world.hurt == "kill" and 0 in codes):
            break
    else:
        world.wrong.append(f"{MOST_RUNS} runs have not ended with 0")
    world.seconds = round(time.monotonic() - began_s, 1)
    world.twice = (job.sent_bytes - unread_bytes) / job.total_bytes - 1
    world.wrong += look(job, world)
    if world.hurt in ("nothing", "kill", "stop") and world.twice > MOST_TWICE:
        world.wrong.append(f"{world.twice:.1%} of the bytes came twice")


def _hurt(world: World, job: Job, children: list["subprocess.Popen[str]"]) -> int:
    """Do it; the bytes that were on their way to a process that is killed, as nobody asks for them twice."""
    if world.hurt in ("full", "dead"):
        job.mounts[-1].rule("full" if world.hurt == "full" else "hang")
        if world.hurt == "dead" and world.volumes == 1:
            time.sleep(AWAY_S)
            job.mounts[-1].rule("well")
        return 0
    victims = _find_victims(world.way, children)
    for pid in victims:
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
    unread_bytes = 0
    if world.hurt == "kill":
        for pid in victims:
            with suppress(OSError):
                unread_bytes += count_unread(pid)
    else:
        time.sleep(STANDS_STILL_S)
    for pid in victims:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL if world.hurt == "kill" else signal.SIGCONT)
    return unread_bytes


def _find_victims(way: str, children: list["subprocess.Popen[str]"]) -> list[int]:
    """One process that downloads; of Spark an executor and all that it has started."""
    first = children[0].pid
    if way == "processes":
        return children_of(first)[:1]
    if way == "spark":
        executors = [pid for pid in _list_below(first) if b"ExecutorBackend" in _read_words(pid)]
        return [executors[0], *_list_below(executors[0])]
    return [first]


def _list_below(pid: int) -> list[int]:
    below = children_of(pid)
    return below + [each for child in below for each in _list_below(child)]


def _read_words(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _environ() -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
    return env | {"PYTHONPATH": str(PROJECT)}


def _begin(words: list[str], folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [PYTHON, "-m", "cfetch", *words],
        env=_environ(), cwd=folder, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _end(child: "subprocess.Popen[str]", world: World) -> int:
    try:
        _, said = child.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        child.kill()
        _, said = child.communicate()
        world.wrong.append(f"a run did not end in {LONGEST_S:g} s")
    if child.returncode not in (0, 1, 3, -signal.SIGKILL) or "Traceback" in said:
        world.wrong.append(f"exit code {child.returncode}: {said[-700:]}")
    return child.returncode


def _wait_until_a_quarter_is_sent(job: Job, child: "subprocess.Popen[str]") -> None:
    while job.sent_bytes < job.total_bytes / 4 and child.poll() is None:
        time.sleep(0.01)


def look(job: Job, world: World) -> list[str]:
    """What is wrong with what stands on the file systems below the volumes."""
    problems = []
    roots = [mount.below for mount in job.mounts]
    standing = [
        {
            str(path.relative_to(root)): path
            for path in root.rglob("*")
            if path.is_file() and ".cfetch" not in path.relative_to(root).parts
        }
        for root in roots
    ]
    world.files_each = [len(files) for files in standing]
    for name, content in job.files.items():
        paths = [files[name] for files in standing if name in files]
        if len(paths) != 1:
            problems.append(f"{name} stands {len(paths)} times")
        problems += [f"{path} is wrong" for path in paths if path.read_bytes() != _whole(content)]
    for batch in sorted({name.partition("/")[0] for name in job.files}):
        counts = [sum(name.startswith(f"{batch}/") for name in files) for files in standing]
        if sorted(counts)[-1] != FILES_EACH or sum(counts) != FILES_EACH:
            problems.append(f"{batch} stands as {counts}")
    problems += [f"{name} is foreign" for files in standing for name in files if name not in job.files]
    if world.hurt == "dead":
        roots.pop()  # nobody could remove what was begun there; a later run does
    parts = [path for root in roots for path in root.glob(".cfetch/attempts/*/*/**/*") if path.is_file()]
    return problems + [f"{path} is left" for path in parts]


def _whole(content: Counted) -> bytes:
    return b"".join(map(bytes, pieces(content.inner)))


def play_world(folder: Path, volumes: int, way: str, hurt: str) -> World:
    """Make a world below ``folder``, and play it."""
    world = World(volumes, way, hurt)
    names = [f"b{batch}/{n}" for batch in range(BATCHES) for n in range(FILES_EACH)]
    files = {name: Counted(Synthetic(name, 96 * KIB + n)) for n, name in enumerate(names)}
    with serving(files, pace_bps=PACE_BPS) as origin, ExitStack() as stack:
        mounts = [Mount(folder / f"below{n}", folder / f"v{n}") for n in range(volumes)]
        for mount in mounts:
            stack.callback(mount.close)
        rows = [
            {"url": name, "path": name, "batch": name.partition("/")[0], "size": content.size_bytes,
             "sha256": content.sha256()}
            for name, content in files.items()
        ]  # fmt: skip
        manifest = {"version": 1, "base_url": origin.url, "files": rows}
        (folder / "m.json").write_bytes(msgspec.json.encode(manifest))
        try:
            play(Job(folder, files, mounts), world)
        except RuntimeError as error:
            world.wrong.append(str(error))
    return world


def main() -> int:
    """Print a line for each world."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--volumes", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--hurts", nargs="+", choices=HURTS, default=list(HURTS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if os.environ.pop(INSIDE, None) is None:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-Urm", sys.executable, *sys.argv])
    is_wrong = False
    for way in args.ways:
        for volumes in args.volumes:
            for hurt in args.hurts:
                with tempfile.TemporaryDirectory(prefix="cfetch-world-") as folder:
                    world = play_world(Path(folder), volumes, way, hurt)
                is_wrong |= bool(world.wrong)
                print(json.dumps(msgspec.to_builtins(world)) if args.json else world.line(), flush=True)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
