"""docs/feed-protocol.md against the real server: every request in it is sent, every answer compared."""

import json
import re
from pathlib import Path

import aiohttp
import pytest

from tests.feed.http_world import HttpWorld

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
    await world.scan()
    (world.root / "b c.txt").write_text("beta")
    await world.scan()
    (world.root / "a.txt").unlink()
    await world.scan()
    await world.split("0")
    assert len(EXCHANGES) == 6
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
