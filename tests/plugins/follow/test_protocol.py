"""docs/feed-protocol.md against the real server: every request in it is sent, every answer compared."""

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cfetch.base.clock import SystemClock
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import read_checkpoint, write_checkpoint
from cfetch.plugins.follow.reader import Reader
from tests.plugins.follow.follow_world import PollClock, Served
from tests.plugins.follow.http_world import HttpWorld, source_of
from tests.plugins.follow.independent_server import IndependentFeed

DOC = (Path(__file__).parents[3] / "docs/feed-protocol.md").read_text()
EXCHANGES = re.findall(r"```http\n(.*?)```\n\n```json\n(.*?)```", DOC, re.DOTALL)


@pytest.fixture
async def world(tmp_path):
    world = await HttpWorld().start(tmp_path / "tree")
    yield world
    await world.close()


async def test_the_document_is_what_the_server_does(world):
    """In the document's order, from a feed of three changes that has split."""
    (world.root / "a.txt").write_text("alpha")
    (world.root / "d:e").write_text("no feed can name it")
    await world.scan()
    (world.root / "b c.txt").write_text("beta")
    await world.scan()
    (world.root / "a.txt").unlink()
    await world.scan()
    await world.split("0")
    assert len(EXCHANGES) == 7
    async with aiohttp.ClientSession() as session:
        for request, expected in EXCHANGES:
            head, *fields = request.replace("<feed>", world.store.feed).splitlines()
            method, target, _ = head.split(" ")
            headers = dict(field.split(": ", 1) for field in fields)
            async with session.request(method, world.url + target.lstrip("/"), headers=headers) as reply:
                answer = await reply.json()
                if "mark" in answer:  # it is random
                    answer["mark"] = "<mark>"
                assert answer == json.loads(expected.replace("<feed>", world.store.feed)), head


@pytest.fixture(scope="module")
def client():
    """The reader that the document shows."""
    (code,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/feed-protocol.md", "exec"), names)
    return names["Reader"]


MAX_STEPS = 2000  # a reader that asks for the same page without end fails
SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reader_of_the_document_reads_what_cfetch_reads(tmp_path, client, seed):
    """Each change once and in order, through splits and merges, from the beginning and from its tokens."""
    dice = random.Random(seed)
    known: dict[str, bool] = {}
    served = Served(tmp_path / "tree")
    try:
        reader = client(served.url)
        found: list[tuple[str, str]] = []
        for _ in range(6):
            for _ in range(dice.randrange(12)):
                path = f"f{dice.randrange(30)}"
                known[path] = not known.get(path)  # a delete follows each version
                served.publish_row(path, '{"url": "x", "size": 1}' if known[path] else None)
            if dice.random() < 0.5:
                served.split()
            elif len(served.world.store.list_ranges()[1]) > 1:
                served.merge()
            if dice.random() < 0.7:
                found += [(row["path"], row["op"]) for row in reader.read()]
            if dice.random() < 0.5:
                reader = client(served.url, reader.tokens, reader.starts)
        found += [(row["path"], row["op"]) for row in reader.read()]
        wanted = served.do(read_all(served.url))
        anew = [(row["path"], row["op"]) for row in client(served.url).read()]
    finally:
        served.close()
    for path in {path for path, _ in wanted}:
        own = [op for name, op in wanted if name == path]
        assert [op for name, op in found if name == path] == own
        assert [op for name, op in anew if name == path] == own
    assert len(found) == len(anew) == len(wanted)


@pytest.mark.parametrize("seed", SEEDS)
async def test_cfetch_reads_an_independent_server_as_the_document_says(tmp_path, client, seed):
    """Its own reader and the document's read each change once and in order, as it was published."""
    dice = random.Random(seed)
    feed = IndependentFeed(dice)
    checkpoint = tmp_path / "checkpoint.json"
    published: dict[str, list[tuple[str, int | None]]] = {}
    seen: list[Any] = []
    rows: list[Any] = []
    try:
        plain = client(feed.url)
        await read_on(feed.url, checkpoint, seen)
        for size in range(8):
            for _ in range(dice.randrange(30)):
                path = f"f{dice.randrange(40)}"
                versions = published.setdefault(path, [])
                is_deleted = bool(versions) and versions[-1][0] == "upsert" and dice.random() < 0.5
                versions.append(("delete", None) if is_deleted else ("upsert", size))
                feed.publish(path, versions[-1][1])
            dice.choice((feed.split, feed.split, feed.merge, lambda: None))()
            if dice.random() < 0.7:
                feed.busy = dice.randrange(3)
                await read_on(feed.url, checkpoint, seen)
                rows += await asyncio.to_thread(list, plain.read())
                if dice.random() < 0.3:
                    feed.forget(0.5)
                plain = client(feed.url, plain.tokens, plain.starts)
        await read_on(feed.url, checkpoint, seen)
        rows += await asyncio.to_thread(list, plain.read())
        feed.forget(0.3)
        anew = await read_all(feed.url)
        by_client = [(row["path"], row["op"]) for row in client(feed.url).read()]
    finally:
        feed.close()
    for path, versions in published.items():
        assert [version for name, *version in seen if name == path] == [[*version] for version in versions]
        own = [(row["op"], row.get("size")) for row in rows if row["path"] == path]
        assert own == versions
    assert sorted(anew) == sorted(by_client)  # what is kept
    assert len(anew) == sum(len(each.rows) for each in feed.ranges.values())


async def read_on(url, checkpoint, seen):
    """All that is new since the checkpoint, which is moved on; ``seen`` gets (path, op, size)."""
    source, clock = source_of(url), PollClock([])
    known = read_checkpoint(checkpoint) if checkpoint.exists() else None
    reader = await Reader.open(source, RouteCache(clock), clock, checkpoint=known)
    for _ in range(MAX_STEPS):
        if reader.is_at_end:
            break
        changes = (await reader.step()).changes
        seen += [(each.path, each.op, each.entry and each.entry.size_bytes) for each in changes]
    assert reader.is_at_end
    write_checkpoint(checkpoint, reader.checkpoint())
    await source.close()


async def read_all(url):
    source, clock = source_of(url), SystemClock()
    reader = await Reader.open(source, RouteCache(clock), clock)
    found: list[tuple[str, str]] = []
    while not reader.is_at_end:
        found += [(change.path, change.op) for change in (await reader.step()).changes]
    await source.close()
    return found
