"""docs/feed-protocol.md against the real server: every request in it is sent, every answer compared."""

import json
import random
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cfetch.clock import SystemClock
from cfetch.feed.cache import RouteCache
from cfetch.feed.reader import Reader
from tests.feed.follow_world import Served
from tests.feed.http_world import HttpWorld, source_of

DOC = (Path(__file__).parents[2] / "docs/feed-protocol.md").read_text()
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


def test_the_serial_example_is_one():
    """What is not the reference server's is at least JSON."""
    (example,) = re.findall(r'```json\n(\{\n  "schema": "cfetch.serial.*?)```', DOC, re.DOTALL)
    assert json.loads(example)["next"] == 9


@pytest.fixture(scope="module")
def client():
    """The reader that the document shows."""
    (code,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/feed-protocol.md", "exec"), names)
    return names["Reader"]


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
                reader = client(served.url, reader.tokens)
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


async def read_all(url):
    source, clock = source_of(url), SystemClock()
    reader = await Reader.open(source, RouteCache(clock), clock)
    found: list[tuple[str, str]] = []
    while not reader.is_at_end:
        found += [(change.path, change.op) for change in (await reader.step()).changes]
    await source.close()
    return found
