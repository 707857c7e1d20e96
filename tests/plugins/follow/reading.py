"""Follows a World with the real reader through splits and merges, each time from its checkpoint."""

from cfetch.base.clock import SystemClock
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import read_checkpoint, write_checkpoint
from cfetch.plugins.follow.reader import Reader
from cfetch.testing.feed import listed


async def read_on(world, path, seen):
    """All that is new since the checkpoint at ``path``, which is moved on; ``seen`` gets (path, op)."""
    clock = SystemClock()
    checkpoint = read_checkpoint(path) if path.exists() else None
    reader = await Reader.open(world.reopened(), RouteCache(clock), clock, checkpoint=checkpoint, limit=3)
    while not reader.is_at_end:
        seen += [(change.path, change.op) for change in (await reader.step()).changes]
    write_checkpoint(path, reader.checkpoint())


async def follow_through_splits_and_merges(world, path, sleeps):
    """Each change comes once, and those of a path in order. ``sleeps``: rounds in which nobody reads."""
    told: list[tuple[str, str]] = []
    seen: list[tuple[str, str]] = []
    for number in range(6):
        for name in range(6):
            await world.append(f"{name}")
            told.append((f"{name}", "upsert"))
        await world.delete(f"{number}")
        told.append((f"{number}", "delete"))
        if number not in sleeps:
            await read_on(world, path, seen)
        live = sorted((await listed(world.reopened())).ranges, key=lambda one: one.keys)
        if number in (0, 1, 3):
            await world.split(live[number % len(live)].id)
        elif number in (2, 4):
            await world.merge(live[0].id, live[1].id)
    await read_on(world, path, seen)
    for name in range(6):
        assert [op for one, op in seen if one == str(name)] == [op for one, op in told if one == str(name)]
    assert len(seen) == len(told)
    await read_on(world, path, seen)
    assert len(seen) == len(told)
