"""A new reader of a feed whose ranges have merged, and of which each keeps another age."""

import pytest

from cfetch.base.errors import CheckpointExpired
from cfetch.base.virtual_clock import VirtualClock
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import decode_checkpoint, encode_checkpoint
from cfetch.plugins.follow.ranges import ALL_KEYS
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.server.store import NewChange
from tests.plugins.follow.http_world import HttpWorld

HALF = ALL_KEYS.high // 2


@pytest.fixture
async def world(tmp_path):
    """Range 0 is split into 1 and 2, which merge. Of 1 all is kept, of 2 only the younger entry."""
    world = await HttpWorld().start(tmp_path / "tree")
    publish(world, "old", 0, at_s=100)
    world.store.split("0")
    publish(world, "dropped", HALF, at_s=100)
    publish(world, "low", 0, at_s=200)
    publish(world, "high", HALF, at_s=200)
    world.store.merge("1", "2")
    publish(world, "merged", HALF, at_s=200)
    world.store.forget(150, now_s=300)
    yield world
    await world.close()


def publish(world, path, key, at_s):
    row = f'{{"url": "{world.url}files/{path}", "size": 1}}'
    world.store.publish([NewChange(path, more=row, key=key)], at_s=at_s)


async def opened(world, checkpoint=None):
    clock = VirtualClock()
    return await Reader.open(world.source, RouteCache(clock), clock, checkpoint=checkpoint, limit=1)


async def read_to_end(reader):
    found = []
    while not reader.is_at_end:
        found += [change.path for change in (await reader.step()).changes]
    return found


async def read_first(reader):
    """Range 0 comes first, and has nothing any more."""
    assert (await reader.step()).changes == ()
    return (await reader.step()).changes[0].path


async def test_a_new_reader_gets_what_each_merged_range_keeps(world):
    """Also if it begins again from its checkpoint in between."""
    reader = await opened(world)
    low = await read_first(reader)
    reader = await opened(world, decode_checkpoint(encode_checkpoint(reader.checkpoint())))
    assert [low, *await read_to_end(reader)] == ["low", "high", "merged"]
    assert reader.checkpoint().starts == {}


async def test_a_drop_after_the_beginning_is_told(world):
    """Else the reader would miss a delete of a file that it has."""
    reader = await opened(world)
    assert await read_first(reader) == "low"
    world.store.forget(250, now_s=300)
    with pytest.raises(CheckpointExpired):
        await read_to_end(reader)
