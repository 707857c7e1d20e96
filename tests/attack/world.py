"""What a seed draws: files with their versions, servers, options, disks, and how the runs end."""

import random
from itertools import pairwise
from typing import Literal

import msgspec

from tests.attack.replies import FAULTS, HASH, NOTHING, SIZE

__all__ = ["DISKS", "Ending", "File", "Version", "World", "body_of", "cut_body", "draw_world"]

DISKS = ("full", "inodes", "read-only", "fsize", "swapped", "swapped", "linked state", "plain")
Known = Literal["hash", "hash and size", "size", "nothing"]
POOL_BYTES = 6 << 20
MAX_BYTES = 3 << 20
_POOL = random.Random("attack").randbytes(POOL_BYTES)  # versions are slices of it


class Version(msgspec.Struct, frozen=True):
    """One state of a file on its server; it is served until ``requests`` of the file have come."""

    start: int
    size_bytes: int
    requests: int


class File(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the manifest. The manifest knows the last version; ``faults`` answer one request each.

    ``prior``: what stood in its place before, None or "garbage", "symlink", "directory", "linked parent".
    ``pieces``: how many entries with URLs of their own it is assembled of. ``goes``: it leaves the list
    before the servers turn good.
    """

    path: str
    known: Known
    versions: tuple[Version, ...]
    etag: Literal["strong", "weak", "none"] = "strong"
    faults: tuple[str, ...] = ()
    mirrored: bool = False
    batch: str | None = None
    prior: str | None = None
    pieces: int = 1
    goes: bool = False

    @property
    def level(self) -> int:
        """How much the manifest knows of it: a fault that needs more cannot be noticed."""
        return {"nothing": NOTHING, "size": SIZE}.get(self.known, HASH)

    @property
    def is_blocked(self) -> bool:
        """Whether nobody may put it there."""
        return self.prior in ("directory", "linked parent")


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ends: by itself, or by ``signal`` once the servers have sent ``after_bytes``.

    ``is_childs``: the signal is for a process that it has started, where there is one.
    ``pause_s``: it stands still (SIGSTOP) for so long first. ``rival``: a second run of the same command
    starts at the same time, or while the first one stands still.
    """

    signal: Literal["", "KILL", "TERM", "INT"] = ""
    after_bytes: int = 0
    pause_s: float = 0.0
    rival: bool = False
    is_childs: bool = False


class World(msgspec.Struct, frozen=True, kw_only=True):
    """``disk``: see ``disks.py``; ``disk_bytes``: how much room a full one has.

    ``command``: a "sync" deletes what has left the list. ``hub``: the list is a Hugging Face repository's.
    """

    seed: int
    files: tuple[File, ...]
    endings: tuple[Ending, ...]
    options: tuple[tuple[str, ...], ...] = ()
    volumes: int = 1
    disk: str = "plain"
    disk_bytes: int = 0
    own_state: bool = False
    tls: bool = False
    rate_bps: int = 1 << 30
    ranges: bool = True
    command: Literal["download", "sync"] = "download"
    hub: bool = False


def body_of(version: Version) -> bytes:
    """Its bytes."""
    return _POOL[version.start : version.start + version.size_bytes]


def cut_body(body: bytes, pieces: int) -> list[bytes]:
    """The bodies of its pieces, in their order."""
    places = [len(body) * number // pieces for number in range(pieces + 1)]
    return [body[start:end] for start, end in pairwise(places)]


def draw_world(seed: int) -> World:
    """The same for the same seed."""
    rng = random.Random(f"attack {seed}")
    volumes = rng.choice((1, 1, 1, 2, 3))
    disk = rng.choice(("plain",) * 8 + DISKS)
    trouble = rng.choice((0.0, 0.2, 0.5, 0.8))
    files = [
        _file(rng, number, disk=disk, trouble=trouble)
        for number in range(rng.choice((1, 2, 4, rng.randint(1, 16))))
    ]
    if rng.random() < 0.25:
        files = _in_batches(rng, files)
    world = World(
        seed=seed,
        files=tuple(files),
        endings=tuple(_ending(rng) for _ in range(rng.randint(1, 3))),
        options=_options(rng, volumes),
        volumes=volumes,
        disk=disk,
        disk_bytes=rng.choice((64 << 10, 300 << 10, 1 << 20)),
        own_state=rng.random() < 0.2,
        tls=rng.random() < 0.15,
        rate_bps=rng.choice((1 << 30, 1 << 30, 4 << 20, 1 << 20)),
        ranges=rng.random() < 0.9,
    )
    return _with_another_list(world, random.Random(f"list {seed}"))


def _with_another_list(world: World, rng: random.Random) -> World:
    """The same world, maybe as a sync, as a repository, or with files in pieces."""
    draw = rng.random()
    if draw > 0.4:
        return world
    hub = draw < 0.15
    command: Literal["download", "sync"] = rng.choice(("download", "sync"))
    files = tuple(_in_another_list(file, rng, hub=hub, is_sync=command == "sync") for file in world.files)
    if all(file.goes for file in files):
        files = (msgspec.structs.replace(files[0], goes=False), *files[1:])  # an empty list deletes nothing
    return msgspec.structs.replace(world, files=files, command=command, hub=hub)


def _in_another_list(file: File, rng: random.Random, *, hub: bool, is_sync: bool) -> File:
    changes: dict[str, object] = {}
    if hub:
        changes |= {"known": "hash and size", "mirrored": False, "batch": None}
    elif file.level == HASH and not file.batch and file.versions[-1].size_bytes > 8 and rng.random() < 0.6:
        changes |= {"known": "hash and size", "pieces": rng.randint(2, 4), "mirrored": False}
    if is_sync and file.prior in (None, "garbage") and rng.random() < 0.3:
        changes |= {"goes": True}
    return msgspec.structs.replace(file, **changes)


def _file(rng: random.Random, number: int, *, disk: str, trouble: float) -> File:
    known: Known = rng.choice(("hash", "hash and size", "hash and size", "size", "size", "nothing"))
    if disk == "full":
        known = rng.choice(("hash", "nothing"))  # a size that does not fit is refused before the first byte
    folder = rng.choice(("", "d/", "d/", "d/e/", f"only{number}/"))
    size_bytes = _size(rng)
    versions = []
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        other_bytes = size_bytes if rng.random() < 0.7 else _size(rng)
        versions.append(Version(rng.randrange(POOL_BYTES - MAX_BYTES), other_bytes, rng.randint(1, 3)))
    versions.append(Version(rng.randrange(POOL_BYTES - MAX_BYTES), size_bytes, 0))
    draft = File(path=f"{folder}f{number}.bin", known=known, versions=tuple(versions))
    possible = [name for name, fault in FAULTS.items() if fault.needs <= draft.level]
    faults = tuple(rng.choice(possible) if rng.random() < trouble else "" for _ in range(rng.randint(1, 6)))
    prior = None
    if rng.random() < 0.1:
        kinds = ["symlink", "directory"]
        kinds += ["garbage"] if draft.level == HASH else []
        kinds += ["linked parent"] if folder.startswith("only") else []
        prior = rng.choice(kinds)
    return msgspec.structs.replace(
        draft,
        etag=rng.choice(("strong", "strong", "strong", "weak", "none")),
        faults=faults,
        mirrored=draft.level == HASH and rng.random() < 0.2,
        prior=prior,
    )


def _size(rng: random.Random) -> int:
    draw = rng.random()
    if draw < 0.05:
        return 0
    return rng.randint(1 << 20, MAX_BYTES) if draw < 0.25 else int(2 ** rng.uniform(0, 18))


def _in_batches(rng: random.Random, files: list[File]) -> list[File]:
    names = ("red", "blue", None)
    return [msgspec.structs.replace(file, batch=None if file.prior else rng.choice(names)) for file in files]


def _ending(rng: random.Random) -> Ending:
    return Ending(
        is_childs=rng.random() < 0.3,
        signal=rng.choice(("", "KILL", "KILL", "KILL", "TERM", "INT")),
        after_bytes=int(2 ** rng.uniform(0, 22)),
        pause_s=rng.choice((0.0, 0.0, 0.0, 0.4, 3.0)),
        rival=rng.random() < 0.15,
    )


def _options(rng: random.Random, volumes: int) -> tuple[tuple[str, ...], ...]:
    """Each is drawn or left out; time limits are always short, so that a round is."""

    def some(share: float, flag: str, *values: object) -> None:
        if rng.random() < share:
            drawn.append((flag, *map(str, rng.sample(values, 1)))) if values else drawn.append((flag,))

    drawn: list[tuple[str, ...]] = []
    some(1, "--retry-budget", 0, "2s", "4s")
    some(1, "--stall-timeout", "0.4s", "1s", "2s")
    some(1, "--heartbeat-interval", "1s", "1s", "60s")
    some(0.5, "--heartbeat-misses", 1, 2)
    some(0.6, "--max-attempts", 1, 2, 3, 8)
    some(0.5, "--concurrency", 1, 2, 4, 32)
    some(0.2, "--per-host", 1, 2)
    some(0.25, "--limit-rate", "2M", "8M")
    some(0.2, "--limit-rate-per-host", "2M", "8M")
    some(0.4, "--segments", 1, 2, 16)
    some(0.3, "--policy", "cloudfetch", "adaptive")
    some(0.15, "--no-mitigation")
    some(0.1, "--min-rate", "100K")
    some(0.3, "--durability", "crash")
    some(0.1, "--quiet")
    some(0.1, "--log-format", "json")
    if volumes == 1:
        some(0.15, "--processes", 2, 3)
    else:
        some(0.5, "--placement", "count", "round-robin", "finish")
        some(0.5, "--batch-share", 0.2, 1)
        some(1, "--write-timeout", "2s", "60s")
        some(1, "--placement-deadline", "4s")
    return tuple(drawn)
