"""A world from its first run to the quiet at its end, on the real command."""

import asyncio
import contextlib
import errno
import functools
import hashlib
import json
import ssl
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from tests.attack.disks import Disk
from tests.attack.judge import CANARY, OWN, Breach, Judge
from tests.attack.life import Life, live
from tests.attack.replies import HASH
from tests.attack.server import REPOSITORY, Servers, names_of
from tests.attack.world import Ending, File, World, body_of, cut_body

__all__ = ["SECRETS", "Story", "fight"]

SECRETS = ("CANARYQUERY", "CANARYDOCUMENT", "CANARYENTRY")
PATIENT = [
    *("--retry-budget", "1m", "--max-attempts", "8"),
    *("--stall-timeout", "30s", "--heartbeat-interval", "1m"),
]
MAX_CALM_RUNS = 4  # with one try per file, a part that does not fit costs a run


@dataclass
class Story:
    """What a world came to; ``breaches`` is empty where all promises were kept."""

    breaches: list[Breach] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)


def fight(world: World) -> Story:
    """Live through ``world``."""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        return asyncio.run(_Battle(world, Path(folder).resolve()).run())


@functools.cache
def _tls() -> tuple[ssl.SSLContext, bytes]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context, authority.cert_pem.bytes()


def _write_garbage(path: Path, size_bytes: int) -> None:
    """A file of the right size with wrong bytes, where the disk has room for it."""
    try:
        path.write_bytes(bytes(size_bytes))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        path.unlink()


class _Battle:
    def __init__(self, world: World, folder: Path):
        self._world, self._folder = world, folder
        self._roots = [folder / f"volume{number}" for number in range(world.volumes)]
        self._state = folder / "state" if world.own_state else self._roots[0] / ".cfetch"
        self._outside = folder / "outside"
        for place in (*self._roots, self._outside):
            place.mkdir()
        (self._outside / "canary").write_bytes(CANARY)
        self._disk = Disk(world, self._roots[0], self._state, self._outside)
        self._judge = Judge(world, self._roots, self._state, self._outside)
        self._story = Story(breaches=self._judge.breaches)
        self._env: dict[str, str] = {}

    async def run(self) -> Story:
        tls, authority = _tls() if self._world.tls else (None, b"")
        try:
            self._disk.prepare()
            self._lay_out()
            self._disk.begin()
            async with Servers(self._world, SECRETS, tls) as servers:
                words = self._words(servers, authority)
                self._write_list(servers, self._world.files)
                for ending in self._world.endings:
                    await self._live(words, servers, ending, calm=False)
                servers.hostile = False
                self._disk.mend()
                self._write_list(servers, [file for file in self._world.files if not file.goes])
                self._judge.note_change()
                await self._calm_down([*words, *PATIENT], servers)
        finally:
            self._disk.remove()
        self._story.faults = servers.faults
        self._story.counts.update(bytes=servers.sent, requests=servers.total)
        return self._story

    def _lay_out(self) -> None:
        for root in self._roots:
            (root / OWN).write_bytes(CANARY)
            for file in self._world.files:
                full = root / file.path
                if file.prior == "linked parent":
                    full.parent.symlink_to(self._outside)
                elif file.prior is not None:
                    full.parent.mkdir(parents=True, exist_ok=True)
                    if file.prior == "garbage":
                        _write_garbage(full, file.versions[-1].size_bytes)
                    elif file.prior == "directory":
                        full.mkdir()
                    else:
                        full.symlink_to(self._outside / "canary")

    def _write_list(self, servers: Servers, files: Sequence[File]) -> None:
        """The manifest of ``files``; a repository's list is the servers' own."""
        entries = [
            entry
            for number, file in enumerate(self._world.files)
            if file in files
            for entry in self._entries(servers, number, file)
        ]
        document = {"version": 1, "headers": {"X-Key": SECRETS[1]}, "files": entries}
        (self._folder / "manifest.json").write_text(json.dumps(document))

    def _entries(self, servers: Servers, number: int, file: File) -> Iterator[dict[str, object]]:
        """One of each piece."""
        bodies = cut_body(body_of(file.versions[-1]), file.pieces)
        for name, body in zip(names_of(self._world, number), bodies, strict=True):
            entry: dict[str, object] = {"url": f"{servers.origin}/{name}?sig={SECRETS[0]}", "path": file.path}
            entry["headers"] = {"Authorization": f"Bearer {SECRETS[2]}"}
            if "hash" in file.known:
                entry["sha256"] = hashlib.sha256(body).hexdigest()
            if "size" in file.known:
                entry["size"] = len(body)
            if file.mirrored:
                entry["mirrors"] = [f"{servers.other}/{name}"]
            if file.batch:
                entry["batch"] = file.batch
            if file.pieces > 1:
                entry["assemble"] = True
            yield entry

    def _words(self, servers: Servers, authority: bytes) -> list[str]:
        """The command line."""
        source = f"hf://{REPOSITORY}/" if self._world.hub else str(self._folder / "manifest.json")
        if self._world.hub:
            self._env = {"HF_ENDPOINT": servers.origin, "HF_TOKEN": SECRETS[2]}
        words = [self._world.command, source, "--json"]
        if self._world.command == "sync":
            words += ["--delete", "--max-delete", "100%"]
        for root in self._roots:
            words += ["--to", str(root)]
        if self._world.own_state:
            words += ["--state", str(self._state)]
        if authority:
            (self._folder / "ca.pem").write_bytes(authority)
            words += ["--ca-file", str(self._folder / "ca.pem")]
        return [*words, *(word for option in self._world.options for word in option)]

    async def _live(self, words: list[str], servers: Servers, ending: Ending, *, calm: bool) -> Life:
        async with contextlib.nullcontext() if calm else self._disk.at_work():
            lives = await live(words, self._folder, servers, ending, fsize=self._disk.fsize, env=self._env)
        for life in lives:
            self._count(life)
            self._judge.judge_life(life, calm=calm)
        for leak in servers.leaks:
            self._judge.breach("secret", f"{leak} came to another origin")
        self._judge.judge_tree()
        is_alone = len(lives) == 1 and not lives[0].hung
        if is_alone and lives[0].code in (0, 1) and (calm or self._world.disk != "swapped"):
            self._judge.judge_end(lives[0])
        return lives[0]

    def _count(self, life: Life) -> None:
        self._story.counts.update(runs=1, stops=int(life.paused), rivals=int(life.rival))
        self._story.counts["peak_bytes"] = max(self._story.counts["peak_bytes"], life.peak_bytes)
        if life.code < 0 or life.code in (130, 143):
            self._story.counts["killed by SIG" + life.signalled] += 1
        self._story.counts[f"exit {life.code}"] += 1
        if self._world.command == "sync" and life.code == 0:
            self._story.counts["deleted"] += json.loads(life.out)["sync"]["deleted"]
        self._story.trace.append(f"{life._replace(out='', said='')}\n{life.said}")

    async def _calm_down(self, words: list[str], servers: Servers) -> None:
        """With good servers and a good disk all is had soon, and then nothing is asked for again."""
        for _ in range(MAX_CALM_RUNS):
            life = await self._live(words, servers, Ending(), calm=True)
            if not self._judge.missing() and life.code in (0, 1):
                break
        for path in self._judge.missing():
            self._judge.breach("convergence", f"{path} could be had and is not there: {life.said[-600:]!r}")
        servers.requests.clear()
        life = await self._live(words, servers, Ending(), calm=True)
        is_blocked = any(file.is_blocked for file in self._world.files)
        if life.code != int(is_blocked):
            self._judge.breach("convergence", f"exit code {life.code} at last: {life.said[-600:]!r}")
        if self._world.command == "sync":
            for path in self._judge.outdated():
                self._judge.breach("outdated", f"{path} is synchronized and an older version")
        if is_blocked:
            return
        for file in self._world.files:
            is_hash_alone = file.level == HASH and file.pieces == 1
            if self._world.command == "sync" and not is_hash_alone:
                continue
            if file.known != "nothing" and servers.requests[file.path]:
                self._judge.breach("twice", f"{file.path} was in place and asked for again")
