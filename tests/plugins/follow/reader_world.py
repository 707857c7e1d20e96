"""Readers driven to their end, and what must be true of what they read."""

from collections import Counter

from cfetch.base.errors import Transient
from cfetch.base.virtual_clock import VirtualClock
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import Checkpoint
from cfetch.plugins.follow.lineage import grow_lineage
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.route import Token
from cfetch.plugins.follow.source import Change

__all__ = ["check_order", "drain", "expected", "lineage_of", "open_reader", "read_on", "token_at"]

MAX_STEPS = 20_000


def lineage_of(feed):
    """What is known of a simulated feed that is looked at now for the first time."""
    spans = {one.id: one.span for one in feed.nodes.values() if not one.is_live}
    return grow_lineage(None, feed.present, spans)


def token_at(name, next_lsn, keys, *, is_new=False):
    return Token(keys, Position(name, next_lsn), is_new)


async def open_reader(feed, *, cache=None, keys=ALL_KEYS, limit=1000, tokens=None, lineage=None, source=None):
    """A reader of a simulated feed; with ``tokens`` as from a checkpoint."""
    clock = VirtualClock()
    checkpoint = None
    if tokens:
        checkpoint = Checkpoint(lineage or lineage_of(feed), keys, tuple(tokens))
    return await Reader.open(
        source or feed.source(),
        cache or RouteCache(clock),
        clock,
        checkpoint=checkpoint,
        keys=keys,
        limit=limit,
    )


async def read_on(reader, found, *, together=False):
    """A step's changes as (range, change); a reply that was lost is asked for again."""
    try:
        steps = await reader.steps() if together else [await reader.step()]
    except Transient:
        return
    for step in steps:
        if not isinstance(step, Transient):
            found += [(step.range, change) for change in step.changes]


async def drain(reader, *, together=False):
    """All that there is, as (range, change)."""
    found: list[tuple[str, Change]] = []
    reader._idle = 0  # what was at its end an hour ago may have more by now
    for _ in range(MAX_STEPS):
        await read_on(reader, found, together=together)
        if reader.is_at_end:
            return found
    raise AssertionError("the reader comes to no end")


def expected(feed, keys=ALL_KEYS):
    """What a reader of the keys has to bring."""
    return [(name, change) for id_, name, change in feed.written if id_ == feed.id and keys.holds(change.key)]


def check_order(found, wanted):
    """J1 and J2: each entry once, and those of a key in the order in which they were written."""
    missing = Counter((name, change.lsn) for name, change in wanted)
    missing.subtract((name, change.lsn) for name, change in found)
    assert {one: count for one, count in missing.items() if count} == {}
    assert by_key(found) == by_key(wanted)


def by_key(changes):
    ordered: dict[int, list[tuple[str, int]]] = {}
    for name, change in changes:
        ordered.setdefault(change.key, []).append((name, change.lsn))
    return ordered
