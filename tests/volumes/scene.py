"""A job over several volumes, run against a real origin, and what must be true of the volumes afterwards."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.events import BatchCommitted, BatchPlaced, VolumePaused, tell_each
from cfetch.plugins.lab.bench.content import Content, Synthetic, pieces
from cfetch.storage.volume_values import BatchRecord

__all__ = ["KIB", "MIB", "PROJECT", "PYTHON", "TIMEOUT_S", "Found", "Scene", "Volume", "named", "under"]

KIB, MIB = 1 << 10, 1 << 20
PROJECT = Path(__file__).parents[2]
PYTHON = sys.executable
TIMEOUT_S = 300  # of a command of seconds, on a machine that is busy with ten other things


def named(batches: int, files: int, size_bytes: int = 3 * KIB) -> dict[str, Content]:
    """``files`` files for each of so many batches, whose names are their directories."""
    return {
        f"b{batch}/{n}": Synthetic(f"b{batch}/{n}", size_bytes + n)
        for batch in range(batches)
        for n in range(files)
    }


def under(path: Path) -> dict[str, bytes]:
    """Every file below but cfetch's own."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and ".cfetch" not in file.relative_to(path).parts
    }


class Volume(NamedTuple):
    """What stands on one volume: files, and the records of batches by id."""

    files: dict[str, bytes]
    records: dict[str, BatchRecord]


class Found:
    """A run's summary, its metrics by path, and the events of those kinds that tests look at."""

    def __init__(self, summary, metrics, events=()) -> None:
        self.summary = summary
        self.code = summary["exit_code"]
        self.metrics = metrics
        self.placed = [one for one in events if isinstance(one, BatchPlaced)]
        self.committed = [one for one in events if isinstance(one, BatchCommitted)]
        self.paused = [one for one in events if isinstance(one, VolumePaused)]

    def statuses(self) -> dict[str, str]:
        return {path: record["status"] for path, record in self.metrics.items()}


class Scene:
    """``volumes`` directories below ``folder``; ``files`` from ``url``, whose directories are batches."""

    def __init__(
        self,
        folder: Path,
        url: str,
        files: Mapping[str, Content],
        *,
        volumes: int = 3,
        names: bool = True,
        hashed: bool = True,
        sized: bool = True,
    ) -> None:
        self.folder = folder
        self.url = url
        self.files = dict(files)
        self.names = names
        self.hashed = hashed
        self.sized = sized
        self.urls: dict[str, str] = {}  # of files that another server has
        self.to = [folder / f"v{n}" for n in range(volumes)]
        self.manifest = folder / "m.json"
        self.write_manifest()

    def write_manifest(self) -> None:
        rows = []
        for name, content in self.files.items():
            row: dict[str, object] = {"url": self.urls.get(name, name), "path": name}
            if self.sized:
                row["size"] = content.size_bytes
            if self.names:
                row["batch"] = name.partition("/")[0]
            if self.hashed:
                row["sha256"] = content.sha256()
            rows.append(row)
        self.manifest.write_bytes(msgspec.json.encode({"version": 1, "base_url": self.url, "files": rows}))

    # runs

    async def run(self, listener=lambda event: None, **settings) -> Found:
        """In this process, in another thread."""
        events: list[object] = []

        def told(event):
            events.append(event)
            listener(event)

        where = {"to": tuple(map(str, self.to)), "durability": "crash"} | settings
        resolved = Settings(**where)

        def go():
            with prepare(str(self.manifest), resolved, env={}) as prepared:
                return prepared.run(tell_each(told))

        summary = await asyncio.to_thread(go)
        assert summary is not None
        document = msgspec.to_builtins(summary)
        return Found(document, records_of(document["metrics"]), events)

    def words(self, *more: str) -> list[str]:
        """The same on the command line."""
        to = [word for root in self.to for word in ("--to", str(root))]
        words = ["download", str(self.manifest), *to, "--durability", "crash", "--json", *more]
        return [sys.executable, "-m", "cfetch", *words]

    async def begun(self, words: Iterable[str]) -> asyncio.subprocess.Process:
        env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env | {"PYTHONPATH": str(PROJECT)},
            cwd=self.folder,
        )

    async def ended(self, child: asyncio.subprocess.Process) -> tuple[int, str, str]:
        """Exit code, standard output and error; never a traceback."""
        out, said = await asyncio.wait_for(child.communicate(), TIMEOUT_S)
        assert b"Traceback" not in said, said.decode()
        assert child.returncode is not None
        return child.returncode, out.decode(), said.decode()

    async def command(self, *more: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, summary (empty if there is none) and stderr of a process of its own."""
        code, out, said = await self.ended(await self.begun(self.words(*more)))
        return code, json.loads(out) if out else {}, said

    async def in_namespace(
        self, before: str, meanwhile: str, *more: str, afterwards: str = "true"
    ) -> tuple[dict[str, Any], str]:
        """The command beside three shell scripts, with mounts of its own; its summary and what it said.

        ``mounted DIR SIZE`` mounts a tmpfs. Afterwards the volumes are copied to ``after``.
        """
        roots = " ".join(root.name for root in self.to)
        script = f"""
            mounted() {{ mount -t tmpfs -o size=$2 tmpfs $1; }}
            parts() {{
                while ! ls $1/.cfetch/attempts/*/*/h* >/dev/null 2>&1; do
                    if [ $# -gt 1 ] && grep -q "$2" "$3"; then break; fi
                    sleep 0.01
                done
            }}
            set -e
            mkdir -p {roots} after
            {before}
            ( {meanwhile or "true"} ) & meanwhile=$!
            {shlex.join(self.words(*more))} >out 2>said || true
            wait $meanwhile
            {afterwards}
            cp -a {roots} after/
        """
        code, _, said = await self.ended(await self.begun(["unshare", "-Urm", "sh", "-c", script]))
        assert code == 0, said
        said = (self.folder / "said").read_text()
        assert "Traceback" not in said
        out = (self.folder / "out").read_text()
        assert out, said
        return json.loads(out), said

    # what is there

    def volume(self, at: int, below: Path | None = None) -> Volume:
        root = (below or self.folder) / f"v{at}"
        found = (root / ".cfetch/batches").glob("[!.]*")
        records = [msgspec.json.decode(file.read_bytes(), type=BatchRecord) for file in found]
        return Volume(under(root), {record.id: record for record in records})

    def volumes(self, below: Path | None = None) -> list[Volume]:
        return [self.volume(at, below) for at in range(len(self.to))]

    def missing(self, below: Path | None = None) -> list[str]:
        stands = {name for volume in self.volumes(below) for name in volume.files}
        return sorted(set(self.files) - stands)

    def faults(self, below: Path | None = None) -> list[str]:
        """What must never be: a file that is wrong, foreign or on two volumes, a batch on several."""
        said = []
        volumes = self.volumes(below)
        at: dict[str, int] = {}
        for n, volume in enumerate(volumes):
            for name, data in volume.files.items():
                if name in at:
                    said.append(f"{name} is on v{at[name]} and on v{n}")
                at[name] = n
                content = self.files.get(name)
                if content is None or data != b"".join(pieces(content)):
                    said.append(f"{name} on v{n} is wrong")
        if self.names:
            for batch in {name.partition("/")[0] for name in self.files}:
                members = [name for name in self.files if name.partition("/")[0] == batch]
                homes = {at[name] for name in members if name in at}
                if len(homes) > 1:
                    said.append(f"batch {batch} is on {sorted(homes)}")
        ids = [id_ for volume in volumes for id_ in volume.records]
        if len(ids) != len(set(ids)):
            said.append("a batch has records on two volumes")
        for n, volume in enumerate(volumes):
            for record in volume.records.values():  # an older one of the same batch may stand beside it
                here = [name for name in volume.files if name.partition("/")[0] == record.name]
                if record.name is not None and len(here) < record.files:
                    said.append(
                        f"of {record.name} {record.files} are recorded on v{n}, {len(here)} are there"
                    )
        return said

    def debris(self, below: Path | None = None) -> list[str]:
        """Parts, marks and half-written records."""
        found = []
        for root in ((below or self.folder) / f"v{at}" for at in range(len(self.to))):
            found += [
                str(p.relative_to(root.parent)) for p in root.glob(".cfetch/attempts/**/*") if p.is_file()
            ]
            found += [str(p.relative_to(root.parent)) for p in root.glob(".cfetch/batches/.*")]
        return found


def records_of(path: str) -> dict[str, dict[str, Any]]:
    """Metrics by the entry's path."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return {line["path"]: line for line in lines if line["schema"] == "cfetch.file/1"}
