"""Real executors on one directory, killed, stopped and woken at random; then one last run, and a judgement.

The seed draws what is done and when; how the processes interleave is the machine's own affair.
"""

import asyncio
import json
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.content import Synthetic, pieces
from cfetch.plugins.lab.bench.origin import Origin
from tests.cli.verbs import begun, cfetch, plans_of

__all__ = ["Report", "soak"]

KIB, MIB = 1 << 10, 1 << 20
GUARD = ("--heartbeat-interval", "1s", "--heartbeat-misses", "1")  # dead after 2 s without a sign of life
STOPPED_S = (0.5, 12.0)  # some wake up before anybody notices, some after their plan was taken over
UNDISTURBED_S = (0.3, 6.0)  # from before the first byte to after the last one of a small manifest
OPEN_MANIFESTS = 2  # so that executors meet, and still have a choice
PACE_BPS = 2_000_000  # of each body: the large files take some seconds
EXPECTED_CODES = {0, 3, 4, -signal.SIGKILL}
TAKEN_OVER = "while this one stood still"
GIVEN_UP = "was given up"


class Report(msgspec.Struct):
    """Figures, and ``wrong``: what must not be."""

    seconds: float
    seed: int
    executors: int
    runs: int = 0
    kills: int = 0
    stops: int = 0
    woken: int = 0
    codes: dict[str, int] = {}
    refused: int = 0  # told who holds the plan, exit 4
    robbed: int = 0  # woke up to find the plan taken over or completed, exit 4
    given_up: int = 0  # lost their heartbeat while nobody else came, exit 3
    manifests: int = 0
    plans: int = 0
    takeovers: int = 0  # epochs beyond a plan's first
    epochs_max: int = 0
    looks: int = 0  # at all final files, while the executors were at work
    bytes_needed: int = 0
    bytes_served: int = 0
    wrong: list[str] = []


class Counted(msgspec.Struct):
    """A content that tells ``report`` what was read of it."""

    inner: Synthetic
    report: Report

    @property
    def size_bytes(self):
        return self.inner.size_bytes

    @property
    def etag(self):
        return self.inner.etag

    def sha256(self):
        return self.inner.sha256()

    def read(self, offset, length):
        found = self.inner.read(offset, length)
        self.report.bytes_served += len(found)
        return found


class Soak:
    """One directory ``to``, and the manifests whose files go there."""

    def __init__(self, folder, report):
        self.to = folder / "to"
        self.report = report
        self.files: dict[str, Synthetic] = {}
        self.served: dict[str, Counted] = {}
        self.manifests: list[Path] = []
        self.children: set[asyncio.subprocess.Process] = set()
        self._folder = folder
        self._dice = random.Random(report.seed)
        self._end_s = time.monotonic() + report.seconds
        self._codes: Counter[int] = Counter()
        self.origin = Origin(self.served, pace_bps=PACE_BPS, journal=False)

    def is_over(self):
        """Whether the time is up, and somebody was disturbed: a fast machine may be done before."""
        return time.monotonic() >= self._end_s and self.report.kills + self.report.stops > 0

    def add_manifest(self):
        """Small files with hashes, larger ones with sizes only, and two that take some seconds."""
        number = len(self.manifests)
        sizes = [(64 * KIB, True)] * 20 + [(self._dice.randrange(MIB, 2 * MIB), False) for _ in range(4)]
        sizes += [(self._dice.randrange(4 * MIB, 8 * MIB), digest) for digest in (True, False)]
        rows = []
        for i, (size_bytes, digest) in enumerate(sizes):
            name = f"{number}/{i % 3}/{i}"
            content = Synthetic(name, size_bytes, self.report.seed)
            self.files[name] = content
            self.served[name] = Counted(content, self.report)
            rows.append({"url": name, "path": name, "size": size_bytes})
            rows[-1] |= {"sha256": content.sha256()} if digest else {}
        path = self._folder / f"m{number}.json"
        path.write_bytes(msgspec.json.encode({"version": 1, "base_url": self.origin.url, "files": rows}))
        self.manifests.append(path)

    def records(self):
        """The plans that are completed, by the names of their manifests."""
        found = []
        for path in (self.to / ".cfetch/timeline").glob("*.download.completed"):
            with suppress(FileNotFoundError):
                found.append(json.loads(path.read_bytes()))
        return found

    def words(self):
        """What an executor does next."""
        done = {Path(record["manifest"]).name for record in self.records()}
        open_ones = [path for path in self.manifests if path.name not in done]
        while len(open_ones) < OPEN_MANIFESTS:
            self.add_manifest()
            open_ones.append(self.manifests[-1])
        kind = self._dice.choices(["download", "run", "clean"], [70, 25, 5])[0]
        where = ("--to", self.to, *GUARD, "--json")
        slow = ("--quiet", "--segments", "1", "--no-mitigation")  # runs last long enough to be disturbed
        if kind == "download":
            return ("download", self._dice.choice(open_ones), *where, *slow)
        return ("plan", "run", "--all", *where, *slow) if kind == "run" else ("plan", "clean", *where)

    async def executor(self):
        """Starts one process after the other, and meddles with each."""
        while not self.is_over():
            words = self.words()
            if words[:2] == ("plan", "run") and not (self.to / ".cfetch/timeline").is_dir():
                continue
            child = await begun(*words)
            self.children.add(child)
            said = asyncio.create_task(child.communicate())
            await self._meddle(child, said)
            await said
            self.children.discard(child)
            self._ended(words, child.returncode, *(text.decode() for text in said.result()))

    async def _meddle(self, child, said):
        while not said.done():
            await asyncio.wait([said], timeout=self._dice.uniform(*UNDISTURBED_S))
            if child.returncode is not None:
                return
            what = self._dice.choices(["kill", "stop", "nothing"], [30, 45, 25])[0]
            if self.is_over():
                what = "kill"
            with suppress(ProcessLookupError):  # it has ended meanwhile
                if what == "stop":
                    child.send_signal(signal.SIGSTOP)
                    self.report.stops += 1
                    await asyncio.sleep(self._dice.uniform(*STOPPED_S))
                    what = "wake" if not self.is_over() and self._dice.random() < 0.8 else "kill"
                if what == "wake":
                    child.send_signal(signal.SIGCONT)
                    self.report.woken += 1
                elif what == "kill":
                    child.kill()
                    self.report.kills += 1

    def _ended(self, words, code, out, err):
        report = self.report
        report.runs += 1
        self._codes[code] += 1
        report.robbed += code == 4 and TAKEN_OVER in err
        report.refused += code == 4 and TAKEN_OVER not in err
        report.given_up += code == 3 and GIVEN_UP in err
        if code not in EXPECTED_CODES or (code == 3 and GIVEN_UP not in err):
            report.wrong.append(f"{' '.join(map(str, words[:2]))} ended with {code}: {err[-600:]}")

    async def look(self):
        """Final files are whole at any moment: by size, since hashing all would take the executors' time."""
        while True:
            await asyncio.sleep(0.5)
            self.report.looks += 1
            for name, content in self.files.items():
                with suppress(FileNotFoundError):
                    found = (self.to / name).stat().st_size
                    if found != content.size_bytes:
                        self.report.wrong.append(f"{name} has {found} bytes of {content.size_bytes}")

    async def last_run(self):
        """Every manifest once more, undisturbed."""
        for path in self.manifests:
            done = any(Path(record["manifest"]).name == path.name for record in self.records())
            words = ("plan", "run", "--all") if done else ("download", path)
            found = await cfetch(*words, "--to", self.to, *GUARD, "--json", "--quiet")
            if found.code:
                self.report.wrong.append(f"the last run ended with {found.code}: {found.err[-600:]}")

    async def judge(self):
        """What stands there in the end."""
        report, wrong = self.report, self.report.wrong
        state = self.to / ".cfetch"
        found = {str(p.relative_to(self.to)): p for p in self.to.rglob("*") if p.is_file()}
        final = {name: path for name, path in found.items() if not name.startswith(".cfetch/")}
        wrong += [f"{name} is missing" for name in self.files.keys() - final.keys()]
        wrong += [f"{name} is nobody's" for name in final.keys() - self.files.keys()]
        for name in final.keys() & self.files.keys():
            if final[name].read_bytes() != b"".join(pieces(self.files[name])):
                wrong.append(f"{name} is not its file")
        wrong += [f"left: {path}" for path in (state / "attempts").rglob("*")]
        wrong += [f"left: {path}" for path in (state / "heartbeats").glob("*.json")]
        wrong += [f"left: {path}" for path in state.glob("lock*") if path.name == "lock"]
        plans = await plans_of(self.to)
        wrong += [f"not completed: {plan}" for plan in plans if plan["state"] != "completed"]
        names = Counter(path.name.split(".")[0] for path in (state / "timeline").glob("2*"))
        wrong += [f"{instant} stands {count} times" for instant, count in names.items() if count != 1]
        downloads = [plan for plan in plans if plan["action"] == "download"]
        completed = Counter(Path(plan["manifest"]).name for plan in downloads)
        wrong += [f"{path.name} has no plan" for path in self.manifests if path.name not in completed]
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if str(self.to).encode() in path.read_bytes():
                    wrong.append(f"still there: process {path.parent.name}")
        report.codes = {str(code): count for code, count in sorted(self._codes.items())}
        report.manifests, report.plans = len(self.manifests), len(downloads)
        report.takeovers = sum(plan["epoch"] - 1 for plan in downloads)
        report.epochs_max = max((plan["epoch"] for plan in downloads), default=0)
        report.bytes_needed = sum(content.size_bytes for content in self.files.values())


async def soak(folder: Path, *, seconds: float, seed: int, executors: int) -> Report:
    """Let ``executors`` work for ``seconds``, and judge what comes of it."""
    report = Report(seconds=seconds, seed=seed, executors=executors)
    scene = Soak(folder, report)
    async with scene.origin:
        watch = asyncio.create_task(scene.look())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(executors):
                    group.create_task(scene.executor())
            await scene.last_run()
        finally:
            watch.cancel()
            for child in scene.children:
                with suppress(ProcessLookupError):
                    child.kill()
        await scene.judge()
    return report
