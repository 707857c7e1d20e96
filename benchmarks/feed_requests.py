"""What the cache of a feed's lineage saves: 64 leaves after six rounds of splits, read by 64 readers at once.

Each reader has the keys of one leaf and begins with the oldest entry, so it reads six closed ranges and its
own. Every request takes a round trip; time is virtual, so the figures are those of the requests alone, and
the same on every machine. Then leaves split once more, and the readers go on: what the news cost.

With ``--server`` the same 64 readers read the real feed server over loopback, in real time; it waits for a
round trip before each answer.

With ``--leaves N`` one reader looks at N live ranges in which nothing is new: the processor time of such a
round, apart from that of requests, and its virtual seconds at that round trip.

    python benchmarks/feed_requests.py [--rtt-ms 20] [--entries 100] [--limit 20] [--server] [--leaves N]
"""

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from aiohttp import web

from cfetch.base.clock import SystemClock
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import Checkpoint
from cfetch.plugins.follow.lineage import grow_lineage
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position, Range, Span
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.route import Token
from cfetch.plugins.follow.server.handler import feed_app
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.server.store import FeedStore
from cfetch.plugins.follow.server.tree_publisher import TreePublisher
from cfetch.plugins.follow.source import FeedId, Gone, NotModified, Page, Ranges, Why
from tests.plugins.follow.http_world import serve_here, source_of
from tests.plugins.follow.simulator import SimulatedFeed, SimulatedSource

ROUNDS = 6

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def feed_of(entries: int) -> SimulatedFeed:
    """64 leaves; each of the 127 ranges had ``entries`` while it was live."""
    feed = SimulatedFeed()
    for number in range(ROUNDS + 1):
        for name in feed.live:
            node = feed.nodes[name]
            feed.fill(name, node.head + entries - 1)
        if number < ROUNDS:
            for name in feed.live:
                feed.split(name)
    return feed


async def drained(reader: Reader, told: list[str]) -> None:
    """Read to the end."""
    while not reader.is_at_end:
        step = await reader.step()
        told += [f"{step.range} {change.lsn}" for change in step.changes]


async def measured(entries: int, limit: int, rtt_s: float, *, enabled: bool) -> dict[str, object]:
    """64 readers at once, then once more after each leaf has split."""
    feed = feed_of(entries)
    clock = VirtualClock()
    cache = RouteCache(clock, enabled=enabled)
    shares = [feed.nodes[name].keys for name in feed.live]
    told: list[list[str]] = [[] for _ in shares]
    sources: list[SimulatedSource] = []

    async def begin(keys: KeyRange, mine: list[str]) -> Reader:
        sources.append(feed.source(clock, rtt_s))
        reader = await Reader.open(sources[-1], cache, clock, keys=keys, limit=limit)
        await drained(reader, mine)
        return reader

    readers = await asyncio.gather(*(begin(*one) for one in zip(shares, told, strict=True)))
    first: dict[str, float] = {
        "seconds": round(clock.monotonic(), 2),
        "entries": sum(map(len, told)),
        "pages": sum(reader.pages for reader in readers),
        "info_requests": sum(len(one.infos) for one in sources),
        "info_requests_saved": cache.counts.info_requests_saved,
        "listings": sum(one.listings for one in sources),
    }
    assert first["entries"] == len(feed.written) == 127 * entries
    began_s, infos, listings = clock.monotonic(), first["info_requests"], first["listings"]
    refreshes = cache.counts.refreshes
    splits = 0
    for keys in shares[:4]:
        for _ in range(2):  # twice in one leaf: children of children
            (name, *_) = (one for one in feed.live if feed.nodes[one].keys.intersect(keys))
            feed.split(name)
            splits += 1
            found: list[list[str]] = [[] for _ in readers]
            await asyncio.gather(*(drained_again(*one) for one in zip(readers, found, strict=True)))
    assert not enabled or sum(reader.gone for reader in readers) == splits
    after = {
        "splits": splits,
        "gone": sum(reader.gone for reader in readers),
        "refreshes": cache.counts.refreshes - refreshes,
        "seconds": round(clock.monotonic() - began_s, 2),
        "info_requests": sum(len(one.infos) for one in sources) - infos,
        "listings": sum(one.listings for one in sources) - listings,
    }
    sequence = hashlib.sha256("\n".join("\n".join(one) for one in told).encode()).hexdigest()[:16]
    return {"first": first, "after": after, "sequence": sequence}


async def drained_again(reader: Reader, told: list[str]) -> None:
    """One round more, at least."""
    await reader.step()
    await drained(reader, told)


async def crowd(rtt_s: float) -> dict[str, object]:
    """64 readers of all keys, told at the same moment that a range is gone."""
    feed = feed_of(1)
    clock = VirtualClock()
    cache = RouteCache(clock)
    sources = [feed.source(clock, rtt_s) for _ in range(64)]
    readers = [await Reader.open(one, cache, clock, keys=ALL_KEYS) for one in sources]
    await asyncio.gather(*(drained(reader, []) for reader in readers))
    before = (cache.counts.refreshes, cache.counts.info_requests)
    feed.split(feed.live[0])
    await asyncio.gather(*(drained_again(reader, []) for reader in readers))
    return {
        "readers": len(readers),
        "told": sum(reader.gone for reader in readers),
        "refreshes": cache.counts.refreshes - before[0],
        "info_requests": cache.counts.info_requests - before[1],
    }


async def over_http(rtt_s: float, directory: Path, *, enabled: bool) -> dict[str, float]:
    """64 readers of the real server, which has the same tree of ranges over 1,400 files."""
    store = FeedStore(directory / STATE_DIRECTORY)
    clock = SystemClock()
    publisher = TreePublisher(directory, store, clock=clock, emit_line=lambda _: None, settle_s=0)
    app = feed_app(store, directory)

    @web.middleware
    async def far_away(request: web.Request, handler: Handler) -> web.StreamResponse:
        await asyncio.sleep(rtt_s)
        return await handler(request)

    app.middlewares.append(far_away)
    runner = await serve_here(app)  # type: ignore[no-untyped-call]
    for number in range(ROUNDS + 1):
        for file in range(200):
            (directory / f"{number}.{file}").write_text(f"{number} {file}")
        await asyncio.to_thread(publisher.scan, threading.Event())
        if number < ROUNDS:
            for live in store.list_ranges()[1]:
                store.split(live.id)
    cache = RouteCache(clock, enabled=enabled)
    source = source_of(runner.url)  # type: ignore[no-untyped-call]
    told: list[str] = []
    leaves = sorted(store.list_ranges()[1], key=lambda one: one.keys)

    async def begin(keys: KeyRange) -> Reader:
        reader = await Reader.open(source, cache, clock, keys=keys)
        await drained(reader, told)
        return reader

    began_s = clock.monotonic()
    readers = await asyncio.gather(*(begin(one.keys) for one in leaves))
    seconds = clock.monotonic() - began_s
    await source.close()
    await runner.cleanup()
    store.close()
    assert len(told) == len(set(told)) == 200 * (ROUNDS + 1)
    return {
        "seconds": round(seconds, 2),
        "entries": len(told),
        "pages": sum(reader.pages for reader in readers),
        "info_requests": cache.counts.info_requests,
        "info_requests_saved": cache.counts.info_requests_saved,
    }


class QuietSource:
    """A feed of ``leaves`` live ranges that have all split from one, without any entry."""

    def __init__(self, leaves: int, clock: VirtualClock, rtt_s: float, reads_at_once: int) -> None:
        self.reads_at_once = reads_at_once
        self._clock, self._rtt_s = clock, rtt_s
        depth = (leaves - 1).bit_length()
        self._spans = {
            f"{level}.{number}": Span(level, level) for level in range(depth) for number in range(1 << level)
        }
        step = ALL_KEYS.high // leaves
        edges = [*(number * step for number in range(leaves)), ALL_KEYS.high]
        ranges = []
        for number in range(leaves):
            above = frozenset(f"{level}.{number >> (depth - level)}" for level in range(depth))
            ranges.append(Range(f"{depth}.{number}", KeyRange(edges[number], edges[number + 1]), above))
        self._listing = Ranges(FeedId("http://feed", "f"), '"1"', tuple(ranges))

    def checkpoint(self) -> Checkpoint:
        """A reader's position when it has read all."""
        lineage = grow_lineage(None, self._listing, self._spans)
        tokens = (Token(leaf.keys, Position(leaf.id, lineage.first_lsn(leaf.id))) for leaf in lineage.live)
        return Checkpoint(lineage, ALL_KEYS, tuple(tokens))

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """All leaves."""
        return NotModified() if etag == self._listing.etag else self._listing

    async def info(self, of: str, via: str) -> Span | Gone:
        """What a closed range owned; any live one knows it."""
        return self._spans[of] if via else Gone(Why.RANGE_GONE)

    async def read(
        self, _via: str, _position: Position, _keys: KeyRange, _limit: int
    ) -> Page | Gone | NotModified:
        """Nothing."""
        if self._rtt_s:
            await self._clock.sleep(self._rtt_s)
        return NotModified()

    async def close(self) -> None:
        """Nothing to close."""


async def look_once(reader: Reader) -> None:
    """A round over all ranges."""
    is_over = False
    while not is_over:
        await reader.steps()
        is_over = reader.is_at_end


async def measure_idle_round(leaves: int, rtt_s: float, reads_at_once: int) -> tuple[float, float]:
    """The processor time and the virtual seconds of a round in which nothing is new."""
    clock = VirtualClock()
    source = QuietSource(leaves, clock, rtt_s, reads_at_once)
    reader = Reader(source, RouteCache(clock), clock, source.checkpoint())
    await look_once(reader)  # the indexes of the lineage are made now
    began_s, began_cpu_s = clock.monotonic(), time.process_time()
    await look_once(reader)
    return time.process_time() - began_cpu_s, clock.monotonic() - began_s


def main() -> None:
    """Measure with and without the cache, and print both as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rtt-ms", type=float, default=20)
    parser.add_argument("--entries", type=int, default=100, help="of each range while it was live")
    parser.add_argument("--limit", type=int, default=20, help="changes a page")
    parser.add_argument("--server", action="store_true", help="over HTTP, in real time")
    parser.add_argument("--leaves", type=int, help="an idle round over so many live ranges")
    given = parser.parse_args()
    if given.leaves:
        for at_once in (1, 16):
            cpu_s = min(run_virtual(measure_idle_round(given.leaves, 0.0, at_once))[0] for _ in range(3))
            _, wall_s = run_virtual(measure_idle_round(given.leaves, given.rtt_ms / 1000, at_once))
            print(json.dumps({"leaves": given.leaves, "at_once": at_once, "cpu_s": cpu_s, "wall_s": wall_s}))
        return
    if given.server:
        for enabled in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                found_there = asyncio.run(over_http(given.rtt_ms / 1000, Path(directory), enabled=enabled))
            print(json.dumps({"cache": enabled, **found_there}))
        return
    found = {
        name: run_virtual(measured(given.entries, given.limit, given.rtt_ms / 1000, enabled=enabled))
        for name, enabled in (("without cache", False), ("with cache", True))
    }
    crowded = run_virtual(crowd(given.rtt_ms / 1000))
    print(json.dumps({**found, "one split, all told at once": crowded}, indent=2))
    without, cached = (found[name]["first"] for name in ("without cache", "with cache"))
    assert isinstance(without, dict)
    assert isinstance(cached, dict)
    assert found["without cache"]["sequence"] == found["with cache"]["sequence"]
    print(f"wall ratio {without['seconds'] / cached['seconds']:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
