"""A small job and what can be done to it: traced, killed or failed at any system call, run again."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import quote

import msgspec

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.plugins.lab.bench.content import Content, Synthetic, pieces
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.timeline import lock

__all__ = ["CALLS", "FILES", "Children", "Job", "Killed", "Point", "Scene", "can_trace", "serving"]

PROJECT = Path(__file__).parents[2]
KIB, MIB = 1 << 10, 1 << 20
CALLS = (
    "openat", "write", "pwrite64", "rename", "renameat", "renameat2", "fsync", "fdatasync", "syncfs", "sync",
    "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "ftruncate", "close", "flock", "fsetxattr",
)  # fmt: skip
_CALL = re.compile(r"(\d+) +(\w+)\(")
_STAYS = re.compile(
    r"metrics|format|ballast|baseline[.]json|timeline|attempts|batches|batches/.*[.]json|heartbeats|plans|metrics/.*|timeline/.*[.]completed"
)
_FOR_A_DAY = re.compile(
    r"plans/([.]?[0-9TZ]+-[0-9a-f]+)(/.*)?|lock[.].*|.*/[.].*[.]tmp"
)  # of runs that died: timeline.clean
TIMEOUT_S = 120
EXPIRY_S = 1.0  # of a lock whose maker was killed before it wrote its name there; runs here are never stopped


class Weak(msgspec.Struct, frozen=True):
    """A content whose ETag is good for nothing."""

    inner: Synthetic

    @property
    def size_bytes(self) -> int:
        return self.inner.size_bytes

    @property
    def etag(self) -> str:
        return 'W/"weak"'

    def read(self, offset: int, length: int) -> bytes | memoryview:
        return self.inner.read(offset, length)

    def sha256(self) -> str:
        return self.inner.sha256()


FILES: Mapping[str, Content] = {
    "empty": Synthetic("empty", 0),
    "d/one": Weak(Synthetic("d/one", 1)),
    "d/small": Synthetic("d/small", 100 * KIB),
    "d/e/large": Synthetic("d/e/large", 3 * MIB),
    "f/hashed": Synthetic("f/hashed", 3 * MIB),
}
HASHED = ("empty", "f/hashed")


class Job(NamedTuple):
    """What is fetched: ``files`` by path. The manifest states hashes of ``hashed``; sizes if ``sized``.

    ``batches``: the name of each file's batch, if it has one.
    """

    files: Mapping[str, Content] = FILES
    hashed: tuple[str, ...] = HASHED
    sized: bool = True
    batches: Mapping[str, str] = MappingProxyType({})

    def manifest(self, url: str) -> bytes:
        rows = []
        for name, content in self.files.items():
            row: dict[str, object] = {"url": quote(name), "path": name}
            if self.sized:
                row["size"] = content.size_bytes
            if name in self.hashed:
                row["sha256"] = content.sha256()
            if name in self.batches:
                row["batch"] = self.batches[name]
            rows.append(row)
        return msgspec.json.encode({"version": 1, "base_url": url, "files": rows})

    @property
    def total_bytes(self) -> int:
        return sum(content.size_bytes for content in self.files.values())


class Point(NamedTuple):
    """The ``n``-th ``call`` of a thread, and how strace showed it in an undisturbed run."""

    call: str
    n: int
    line: str


class Killed(NamedTuple):
    """One run of the child: its exit code, what it said on stderr, bytes of files and parts left behind."""

    code: int
    said: str
    held_bytes: int


@contextmanager
def serving(files: Mapping[str, Content | bytes], **how) -> Iterator[Origin]:
    """An origin on a loop of its own, so that the test may wait for processes."""
    origin = Origin(files, journal=False, **how)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(origin.__aenter__(), loop).result(TIMEOUT_S)
        yield origin
        asyncio.run_coroutine_threadsafe(_closed(origin), loop).result(TIMEOUT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _closed(origin: Origin) -> None:
    """Wait for connections that were being accepted, too: their clients may have been killed."""
    await origin.__aexit__(None, None, None)
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    await asyncio.sleep(0)  # the turn in which what was accepted too late is closed


def can_trace() -> str:
    """Empty if strace is here and may trace, else why not."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    command = ["strace", "-qq", "-f", "-o", "/dev/null", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (
        "" if done.returncode == 0 and not done.stderr else f"strace cannot trace here: {done.stderr[:100]}"
    )


class Children:
    """A process that runs the command line in forked children, one at a time."""

    def __enter__(self) -> "Children":
        command = [sys.executable, "-m", "tests.crash.child"]
        env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
        self._process = subprocess.Popen(
            command, cwd=PROJECT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(TIMEOUT_S)
        process.stdout.close()

    def run(self, options: list[str] | None, words: list[str], said: Path) -> int:
        """The exit code of a child, under strace with ``options`` if there are any."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([options, words, str(said)]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the parent of the children has died"
        return int(line)


class Scene:
    """One destination ``to`` and the job that goes there from ``url``."""

    def __init__(
        self, folder: Path, url: str, children: Children, *, durability: str = "power", job: Job | None = None
    ) -> None:
        self.job = job or Job()
        self.to = folder / "to"
        self.durability = durability
        self.manifest = folder / "manifest.json"
        self.trace = folder / "trace"
        self._said = folder / "said"
        self._children = children
        self.manifest.write_bytes(self.job.manifest(url))

    def run(self, *more: str, options: list[str] | None = None) -> Killed:
        """The job in a child, one connection a file: calls are counted, and a slow run would get helpers."""
        words = ["download", str(self.manifest), "--to", str(self.to), "--quiet", "--segments", "1"]
        words += ["--durability", self.durability, *more]
        code = self._children.run(options, words, self._said)
        return Killed(code, self._said.read_text(errors="replace"), self.held_bytes())

    def traced(self, *options: str, calls: tuple[str, ...] = CALLS, more: tuple[str, ...] = ()) -> Killed:
        """The job in a child under strace."""
        shown = ["-o", str(self.trace), "-y", f"-etrace={','.join(calls)}", *options]
        return self.run(*more, options=shown)

    def killed_at(self, point: Point) -> Killed:
        """Killed on entering that call; exit code 137 if it came so far."""
        return self.traced(f"-einject={point.call}:signal=SIGKILL:when={point.n}", calls=(point.call,))

    def failing_at(self, point: Point, error: str, *, on: bool = False) -> Killed:
        """With ``error`` for that call, and all of its kind that come after it if ``on``."""
        when = f"{point.n}{'+' if on else ''}"
        return self.traced(f"-einject={point.call}:error={error}:when={when}", calls=(point.call,))

    def points(self, calls: tuple[str, ...] = CALLS) -> list[Point]:
        """Every call of an undisturbed run from its first at the destination on."""
        self.run()  # it compiles and names the modules, so that no later run loads any
        shutil.rmtree(self.to)
        done = self.traced(calls=calls)
        assert done.code == 0, done.said
        shutil.rmtree(self.to)
        counts: Counter[tuple[str, str]] = Counter()
        found: dict[tuple[str, int], Point] = {}
        begun = False
        for line in self.trace.read_text(errors="replace").splitlines():
            match = _CALL.match(line)
            if match is None:
                continue
            thread, call = match.groups()
            counts[thread, call] += 1
            begun = begun or str(self.to) in line
            if begun:
                point = Point(call, counts[thread, call], line)
                found.setdefault(point[:2], point)
        return list(found.values())

    def finish(self, *, tidy: bool = True) -> int:
        """Run the job to its end in this process; the bytes fetched. ``tidy``: nothing else may be left.

        One stream brings a file: of a helper's bytes some may come twice, and a slow run has helpers.
        """
        settings = Settings(to=(str(self.to),), durability=self.durability, quiet=True, mitigation=False)
        with (
            patch.object(lock, "EXPIRY_S", EXPIRY_S),
            prepare(str(self.manifest), settings, env={}) as prepared,
        ):
            summary = prepared.run(lambda _: None)
        assert summary is not None
        assert summary.exit_code == 0, summary.failures
        assert self.wrong() == []
        assert self.missing() == []
        assert not tidy or self.debris() == [], self.debris()
        return summary.bytes.fetched

    def wrong(self) -> list[str]:
        """Files outside the state that are not exactly the job's."""
        found = []
        for path in self.to.rglob("*"):
            name = str(path.relative_to(self.to))
            if name.startswith(".cfetch/") or path.is_dir():
                continue
            content = self.job.files.get(name)
            if content is None or path.read_bytes() != b"".join(pieces(content)):
                found.append(name)
        return found

    def missing(self) -> list[str]:
        return [name for name in self.job.files if not (self.to / name).is_file()]

    def debris(self) -> list[str]:
        """What lies in the state beside what stays: metrics, records of what is over, empty rooms.

        What a run leaves that dies before its plan is on the timeline stays for a day.
        """
        state = self.to / ".cfetch"
        over = {path.name.split(".")[0] for path in state.glob("timeline/*.completed")}
        found = (str(path.relative_to(state)) for path in state.rglob("*"))
        return [
            name
            for name in found
            if not _STAYS.fullmatch(name)
            and not ((match := _FOR_A_DAY.fullmatch(name)) and match[1] not in over)
        ]

    def held_bytes(self) -> int:
        """Bytes of the job that stand at the destination, in final files and in parts."""
        # ``glob`` passes over a directory that another run removes just then; ``Path.glob`` raises
        names = glob(".cfetch/attempts/*/*/*", root_dir=self.to, include_hidden=True)
        parts = (path for path in map(self.to.joinpath, names) if not path.suffix)  # no notes
        finals = (self.to / name for name in self.job.files)
        held = 0
        for path in (*parts, *finals):
            with suppress(FileNotFoundError):  # another run at the destination may just be at work
                held += path.stat().st_size
        return held
