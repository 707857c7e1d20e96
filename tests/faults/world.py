"""Everything that one seed draws: a manifest, the servers' objects, how they fail, and how the runs end."""

import hashlib
import random
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from cfetch.base.config.settings import Settings
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.base.virtual_clock import VirtualClock
from cfetch.manifest.entry import Digest, Entry, safe_path

__all__ = ["EPOCH", "FAULTS", "Ending", "Host", "Object", "Version", "World", "draw_world", "hex_of"]

EPOCH = VirtualClock()._epoch
MAX_BYTES = 3 << 20
FRAMINGS = ("length",) * 6 + ("chunked", "close")

FAULTS = (
    "connect error", "silent", "429", "503", "503 later", "500", "502", "408", "404", "403",
    "reset", "cut", "stall", "drip", "straggler",
    "wrong start", "no content-range", "wrong total", "star total", "less of it",
    "200 for 206", "206 unasked", "416", "ignores if-range", "lying 206",
    "short", "longer", "html", "html chunked", "encoded", "flipped byte",
)  # fmt: skip
_POOL = random.Random("bytes").randbytes(
    8 << 20
)  # versions are slices of it: cheap, and different everywhere


@dataclass(frozen=True)
class Version:
    """One state of an object. ``etag`` None: the server tells none."""

    start: int
    size_bytes: int
    etag: str | None

    @property
    def body(self) -> bytes:
        return _POOL[self.start : self.start + self.size_bytes]


@dataclass(frozen=True)
class Object:
    """What lies behind one URL: ``changes`` are (from second, version), the first from 0."""

    changes: tuple[tuple[float, Version], ...]

    def at(self, t_s: float) -> Version:
        return [version for from_s, version in self.changes if from_s <= t_s][-1]

    @property
    def versions(self) -> list[Version]:
        return [version for _, version in self.changes]


@dataclass(frozen=True)
class Shaping:
    """How a server holds bodies back, as ``limit_rate`` and shapers do: ``pulse_s`` pass between pieces.

    The first ``burst_bytes`` come at the host's rate, all others at ``rate_bps``. ``freezes`` are (from, to)
    seconds in which no body of the host moves.
    """

    burst_bytes: int
    rate_bps: float
    pulse_s: float
    freezes: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Host:
    """A server. ``outages`` are (from, to) seconds in which it takes no connection."""

    name: str
    latency_s: float
    rate_bps: float
    framing: str
    ranges: bool
    trouble: float
    outages: tuple[tuple[float, float], ...]
    shaping: Shaping | None = None


@dataclass(frozen=True)
class Ending:
    """How a run ends early; ``at`` counts changes of the disk or steps of the engine."""

    kind: str = "none"  # none, kill, kill at time, power cut, stop, full, eio
    at: int = 0
    at_s: float = 0.0


@dataclass
class World:
    """``vouched``: by path, the hashes (sha256) of what may stand under the name."""

    seed: int
    settings: Settings
    hosts: dict[str, Host]
    entries: list[Entry]
    objects: dict[tuple[str, str], Object]
    endings: list[Ending]
    faults: tuple[str, ...]
    plan_headers: tuple[tuple[str, SecretText], ...]
    signed_s: float | None  # links live so long; a refresher signs anew
    moves: bool  # and may name another host
    processes: int = 1  # that share the entries, each with a pool and a directory for its parts
    old: dict[str, bytes] = field(default_factory=dict)  # what stood there before
    obstacles: dict[str, str] = field(default_factory=dict)  # path -> kind
    vouched: dict[str, set[str]] = field(default_factory=dict)


@lru_cache(maxsize=256)
def _hex(start: int, size_bytes: int) -> str:
    return hashlib.sha256(_POOL[start : start + size_bytes]).hexdigest()


def draw_world(seed: int) -> World:
    """The same for the same seed."""
    rng = random.Random(f"world {seed}")
    settings = replace(_settings(rng), **_limits(random.Random(f"limits {seed}")))
    names = [f"h{n}.test" for n in range(rng.randint(1, 4))]
    trouble = rng.choice((0.05, 0.2, 0.4, 0.6, 0.8))
    hosts = {name: _host(rng, name, trouble) for name in names}
    shapes = random.Random(f"shaping {seed}")
    hosts = {name: replace(host, shaping=_shaping(shapes)) for name, host in hosts.items()}
    world = World(
        seed=seed,
        settings=settings,
        hosts=hosts,
        entries=[],
        objects={},
        endings=[_ending(rng, settings) for _ in range(rng.randint(1, 4))],
        faults=tuple(rng.sample(FAULTS, rng.randint(2, len(FAULTS)))),
        plan_headers=(("X-All", SecretText("plan|secret")),) if rng.random() < 0.3 else (),
        signed_s=rng.choice((20.0, 90.0, 600.0)) if rng.random() < 0.25 else None,
        moves=rng.random() < 0.3,
        processes=random.Random(f"processes {seed}").choice((1, 1, 1, 2, 3)),
    )
    for number in range(rng.choice((1, 3, 8, rng.randint(1, 30)))):
        _draw_entry(rng, world, number)
    return world


def _settings(rng: random.Random) -> Settings:
    return Settings(
        concurrency=rng.choice((1, 2, 4, 16)),
        per_host=rng.choice((None, None, 1, 3)),
        mitigation=rng.random() < 0.7,
        multiplier=rng.choice((1.1, 1.5, 3.0)),
        quantile=rng.choice((0.2, 0.6, 1.0)),
        padding=rng.choice((0.0, 0.5, 5.0)),
        max_stragglers=rng.choice((0, 2, 10)),
        sequential_fallback=rng.random() < 0.15,
        check_interval=rng.choice((0.5, 1.0, 2.0)),
        max_attempts=rng.choice((1, 3, 5, 5, 8)),
        retry_budget=rng.choice((0.0, 10.0, 30.0, 60.0, 60.0)),
        stall_timeout=rng.choice((1.0, 3.0, 8.0)),
        durability=rng.choice(("power", "crash")),
        policy=rng.choice(("cloudfetch", "adaptive", "adaptive")),
        segments=rng.choice((1, 3, 8)),
    )


def _limits(rng: random.Random) -> dict[str, Any]:
    """Rate limits, of all downloads and of each host; far below most hosts' rates, or far above."""
    if rng.random() < 0.7:
        return {}
    return {
        "limit_rate": rng.choice((None, 1 << 20, 8 << 20)),
        "limit_rate_per_host": rng.choice((None, 1 << 19, 8 << 20)),
    }


def _host(rng: random.Random, name: str, trouble: float) -> Host:
    outages = []
    for _ in range(rng.choice((0, 0, 1, 2))):
        from_s = rng.uniform(0, 60)
        outages.append((from_s, from_s + rng.choice((1, 5, 30))))
    return Host(
        name=name,
        latency_s=rng.choice((0.0, 0.001, 0.02, 0.2)),
        rate_bps=rng.choice((1, 8, 64)) * 2.0**20,
        framing=rng.choice(FRAMINGS),
        ranges=rng.random() < 0.85,
        trouble=trouble * rng.choice((0.3, 1.0, 1.2)),
        outages=tuple(outages),
    )


def _shaping(rng: random.Random) -> Shaping | None:
    if rng.random() < 0.6:
        return None
    starts = sorted(rng.uniform(0, 20) for _ in range(rng.choice((0, 2, 5))))
    return Shaping(
        burst_bytes=rng.choice((0, 256 << 10, 512 << 10)),
        rate_bps=rng.choice((32, 128, 512)) * 2.0**10,
        pulse_s=rng.choice((0.05, 0.5, 1.0)),
        freezes=tuple((from_s, from_s + rng.choice((0.3, 1.5, 6.0))) for from_s in starts),
    )


def _ending(rng: random.Random, settings: Settings) -> Ending:
    kinds = ["none", "kill", "kill", "kill at time", "stop", "stop", "full"]
    if settings.durability == "power":
        kinds += ["power cut", "power cut", "eio"]
    kind = rng.choice(kinds)
    at = rng.choice((rng.randint(1, 12), rng.randint(1, 80), rng.randint(1, 400)))
    return Ending(kind, at, rng.choice((rng.uniform(0, 2), rng.uniform(0, 60))))


def _draw_entry(rng: random.Random, world: World, number: int) -> None:
    folder = rng.choice(("", "", "d/", "d/e/", f"only{number}/"))
    path = safe_path(f"{folder}f{number}")
    size = _size(rng)
    knows = rng.choice(("hash", "hash and size", "size", "size", "nothing"))
    hosts = list(world.hosts)
    home = rng.choice(hosts)
    mirrors = [host for host in hosts if host != home and rng.random() < 0.5]
    first = Version(rng.randrange(len(_POOL) - MAX_BYTES), size, None)
    main = _object(rng, first, knows)
    world.objects[home, path] = main
    for mirror in mirrors:
        world.objects[mirror, path] = _mirrored(rng, main, knows)
    query = "?sv=1&sr=b&se=1&sig=0" if world.signed_s is not None else ""
    known: dict[str, Any] = {}
    if "size" in knows:
        known["size_bytes"] = size
    known |= _draw_range(random.Random(f"range {world.seed} {number}"), size)
    if "hash" in knows:
        start, length = known.get("range_start", 0), known.get("size_bytes", size)
        known["digest"] = Digest("sha256", _hex(first.start + start, length))
    origin = f"http://{home}:80"
    headers = (("X-Key", SecretText(f"{origin}|{number}")),) if rng.random() < 0.4 else ()
    entry = Entry(
        id=number,
        url=SecretUrl(f"http://{home}/{path}{query}"),
        path=path,
        mirrors=tuple(SecretUrl(f"http://{mirror}/{path}") for mirror in mirrors),
        headers=headers,
        expires_at=EPOCH + world.signed_s if world.signed_s is not None and rng.random() < 0.5 else None,
        **known,
    )
    world.entries.append(entry)
    _draw_what_stands_there(rng, world, entry)
    brought = {
        hex_of(entry, version) for host in [home, *mirrors] for version in world.objects[host, path].versions
    }
    wanted = None if entry.digest is None else entry.digest.hex
    world.vouched[path] = {digits for digits in brought if digits and wanted in (digits, None)}


def _draw_range(rng: random.Random, size: int) -> dict[str, int]:
    """A quarter of the entries are ranges of their objects."""
    if rng.random() < 0.75:
        return {}
    start = rng.choice((0, rng.randint(0, size)))
    return {"range_start": start, "size_bytes": rng.choice((size - start, rng.randint(0, size - start)))}


def hex_of(entry: Entry, version: Version) -> str | None:
    """The hash of the entry's file, made of a version of its object; None: it cannot be."""
    if entry.range_start is None:
        fits = entry.size_bytes in (None, version.size_bytes)
        return _hex(version.start, version.size_bytes) if fits else None
    assert entry.size_bytes is not None
    if version.size_bytes < entry.range_start + entry.size_bytes:
        return None
    return _hex(version.start + entry.range_start, entry.size_bytes)


def _size(rng: random.Random) -> int:
    """Log-uniform, and a quarter so large that a dead run's part is worth keeping."""
    draw = rng.random()
    if draw < 0.05:
        return 0
    return rng.randint(1 << 20, MAX_BYTES) if draw < 0.3 else int(2 ** rng.uniform(0, 21.5))


def _object(rng: random.Random, first: Version, knows: str) -> Object:
    """Versions of one size or of several; their ETags are strong, weak or missing."""
    kind = rng.choice(("strong", "strong", "strong", "weak", "none"))
    states = [first]
    if rng.random() < 0.4:
        for _ in range(rng.randint(1, 3)):
            if len(states) > 1 and rng.random() < 0.4:
                states.append(states[0])  # rolled back
            else:
                states.append(_other(rng, first))
    if "hash" in knows and rng.random() < 0.1:
        states.insert(0, _other(rng, first))  # the manifest's comes later
    numbered = [Version(one.start, one.size_bytes, _etag(kind, one)) for one in states]
    times = [0.0, *sorted(rng.choice((rng.uniform(0, 3), rng.uniform(0, 60))) for _ in states[1:])]
    return Object(tuple(zip(times, numbered, strict=True)))


def _other(rng: random.Random, first: Version) -> Version:
    size = first.size_bytes if rng.random() < 0.7 else _size(rng)
    return Version(rng.randrange(len(_POOL) - MAX_BYTES), size, None)


def _etag(kind: str, version: Version) -> str | None:
    text = f'"{version.start:x}-{version.size_bytes:x}"'
    return {"strong": text, "weak": f"W/{text}", "none": None}[kind]


def _mirrored(rng: random.Random, main: Object, knows: str) -> Object:
    """The same, late, with other ETags, or wrong."""
    draw = rng.random()
    if draw < 0.5:
        return main
    if draw < 0.7:
        late_s = rng.uniform(0, 30)
        return Object(tuple((t + late_s if t else 0.0, version) for t, version in main.changes))
    if draw < 0.85:
        renamed = ((t, Version(v.start, v.size_bytes, '"mirror"')) for t, v in main.changes[:1])
        return Object(tuple(renamed))
    wrong = _other(rng, main.versions[0])
    etag = main.versions[0].etag if "hash" in knows else _etag("strong", wrong)
    return Object(((0.0, Version(wrong.start, wrong.size_bytes, etag)),))


def _draw_what_stands_there(rng: random.Random, world: World, entry: Entry) -> None:
    draw = rng.random()
    if draw < 0.05:
        size = entry.size_bytes if entry.digest and entry.size_bytes else (entry.size_bytes or 0) + 7
        world.old[entry.path] = bytes(size)
    elif draw < 0.07:
        world.obstacles[entry.path] = "directory"
    elif draw < 0.09:
        world.obstacles[entry.path] = "symlink"
    elif draw < 0.11 and entry.path.startswith("only"):
        world.obstacles[entry.path] = "symlinked parent"
