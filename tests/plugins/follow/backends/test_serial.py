"""The serial source against a small server."""

import pytest

from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed, Transient
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.testing.feed import RecreateContract, RetentionContract, drained, listed, told
from tests.plugins.follow.serial_world import SerialWorld
from tests.wire.raw_server import RawServer, reply


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


LIST = b'{"schema": "cfetch.serial/1", "feed": "F", "changes": [], "next": 9}'


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "410 Gone"])
@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"{", b'{"schema": "cfetch.feed/1"}'])
@pytest.mark.parametrize("known", [False, True])
async def test_an_answer_that_is_no_feeds_ends_nothing(status, body, known):
    """A proxy says nothing about the feed: neither that it was deleted, nor what it keeps."""
    stranger = reply(body, status=status)
    async with RawServer(*([reply(LIST)] if known else []), stranger) as server:
        world = SerialWorld()
        world.url, world.sources = server.url, []
        source = world.reopened()
        if known:
            await source.ranges(None)
        with pytest.raises(Transient, match=r"there is no feed at|something other than a feed"):
            await source.read("0", Position("0", 5), ALL_KEYS, 10)
        await source.close()


async def test_gone_of_a_server_that_has_the_feed():
    """Its word counts: it is asked whether it is the feed's."""
    async with RawServer(reply(LIST), reply(status="410 Gone"), reply(LIST)) as server:
        world = SerialWorld()
        world.url, world.sources = server.url, []
        source = world.reopened()
        with pytest.raises(CheckpointExpired, match="after serial 4"):
            await source.read("0", Position("0", 5), ALL_KEYS, 10)
        await source.close()
