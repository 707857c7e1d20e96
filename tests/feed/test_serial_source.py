"""The serial source against a small server."""

import pytest

from cfetch.errors import FeedReplaced, HostileFeed, Refused
from cfetch.feed.ranges import ALL_KEYS, Position
from tests.feed.contract import RecreateContract, RetentionContract, drained, listed, told
from tests.feed.serial_world import SerialWorld
from tests.transfer.raw_server import RawServer, reply


@pytest.fixture
async def world():
    world = await SerialWorld().start()
    yield world
    await world.close()


class TestSerial(RecreateContract, RetentionContract):
    """All that a feed of one range can."""

    @pytest.fixture
    async def world(self, world):
        return world


async def test_the_serial_is_the_cursor(world):
    """What was read is not asked for again."""
    for name in ("a", "b", "c"):
        await world.append(name)
    await listed(world.source)
    world.asked.clear()
    assert told(await drained(world.source, "0", "0", limit=2)) == [(n, "upsert") for n in "abc"]
    assert world.asked[1:] == [0, 6, 9]  # after the one of "info"


async def test_a_serial_that_goes_back_is_another_feed(world):
    """Even where the server does not say an id."""
    await world.append("a")
    await world.append("b")
    assert await drained(world.source, "0", "0")
    world.serial = 3
    world.rows.pop()
    with pytest.raises(FeedReplaced, match="made anew"):
        await world.source.read("0", Position("0", 7), ALL_KEYS, 10)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "must be an object"),
        (b'{"schema": "cfetch.serial/1", "changes": []}', "no 'next'"),
        (b'{"schema": "cfetch.serial/2", "changes": [], "next": 0}', "schema"),
        (b'{"schema": "cfetch.serial/1", "changes": {}, "next": 0}', "array"),
        (b'{"schema": "cfetch.serial/1", "changes": [{}, {}], "next": 0}', "as many as asked"),
        (b'{"schema": "cfetch.serial/1", "changes": [], "next": -1}', "integer from 0"),
        (b'{"schema": "cfetch.serial/1", "changes": [], "next": 0, "feed": "../x"}', "letters, digits"),
        (b'{"schema": "cfetch.serial/1", "changes": [7], "next": 0}', "must be an object"),
    ],
)
async def test_answers_that_break_the_rules(body, words):
    """Each is named, and nothing of it is used."""
    async with RawServer(reply(body)) as server:
        world = SerialWorld()
        world.url, world.sources = server.url, []
        source = world.reopened()
        with pytest.raises(HostileFeed, match=words):
            await source.ranges(None)
        await source.close()


async def test_no_feed_there():
    """A URL that is wrong from the start is not called a feed that was deleted."""
    async with RawServer(reply(status="404 Not Found")) as server:
        world = SerialWorld()
        world.url, world.sources = server.url, []
        source = world.reopened()
        with pytest.raises(Refused, match="no feed at"):
            await source.ranges(None)
        await source.close()
