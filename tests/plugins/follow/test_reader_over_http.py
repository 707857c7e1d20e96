"""The reader over the real server on loopback, while it splits and merges: nothing lost, nothing twice."""

import random
from typing import Any

import pytest

from cfetch.base.clock import SystemClock
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.server.store import NewChange
from tests.plugins.follow.http_world import HttpWorld


@pytest.fixture
async def world(tmp_path):
    world = await HttpWorld().start(tmp_path / "tree")
    yield world
    await world.close()


async def stepped(reader, seen, steps):
    """At most so many steps, or until nothing is left; ``seen`` gets the changes by path."""
    for _ in range(steps):
        step = await reader.step()
        for change in step.changes:
            seen.setdefault(change.path, []).append((change.op, change.entry and change.entry.size_bytes))
        if reader.is_at_end:
            return


@pytest.mark.parametrize("seed", range(3))
async def test_every_version_is_read_once_and_in_order(world, seed):
    """By a reader that goes along, by one that comes late, and by one whose cache is off."""
    dice = random.Random(seed)
    clock = SystemClock()
    published: dict[str, list[Any]] = {}
    along: dict[str, list[Any]] = {}
    late: dict[str, list[Any]] = {}
    plain: dict[str, list[Any]] = {}
    reader = await Reader.open(world.source, RouteCache(clock), clock, limit=dice.choice([1, 7, 100]))
    for version in range(60):
        names = dice.sample([f"f{n}" for n in range(30)], dice.randrange(1, 5))
        changes = [NewChange(name, version, bytes(32) if version % 7 else None) for name in names]
        world.store.publish(changes, at_s=version)
        for name in names:
            gone = version % 7 == 0
            published.setdefault(name, []).append(("delete", None) if gone else ("upsert", version))
        ranges = world.store.list_ranges()[1]
        if dice.random() < 0.15:
            world.store.split(dice.choice(ranges).id)
        elif len(ranges) > 1 and dice.random() < 0.15:
            at = dice.randrange(len(ranges) - 1)
            world.store.merge(ranges[at].id, ranges[at + 1].id)
        if dice.random() < 0.5:
            await stepped(reader, along, dice.randrange(6))
    await stepped(reader, along, 100_000)
    assert along == published
    for seen, enabled in ((late, True), (plain, False)):
        cache = RouteCache(clock, enabled=enabled)
        other = await Reader.open(world.reopened(), cache, clock, limit=20)
        await stepped(other, seen, 100_000)
        assert seen == published
