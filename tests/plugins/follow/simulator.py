"""A feed in memory that splits, merges, lags, loses replies and forgets, and sources that read it.

Keys of the seed's example are ``at(0x40)``: a byte at the top of the key space.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from cfetch.base.clock import Clock
from cfetch.base.errors import CheckpointExpired, FeedReplaced, Transient
from cfetch.manifest.entry import safe_path
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Range, Span
from cfetch.plugins.follow.source import Change, FeedId, Gone, NotModified, Page, Ranges, Why

__all__ = ["SimulatedFeed", "SimulatedSource", "at", "between", "ealsur_tree", "seed_tree"]

ACCOUNT = "https://feeds.example"


def at(byte):
    """A key by its first byte; 0xFF is the end of all keys, as in the seed."""
    return ALL_KEYS.high if byte == 0xFF else byte << 120


def between(low, high):
    """Keys by the first bytes of their ends."""
    return KeyRange(at(low), at(high))


@dataclass
class Node:
    """A range with all that it ever had."""

    id: str
    keys: KeyRange
    first: int
    parents: frozenset[str] = frozenset()
    ancestors: frozenset[str] = frozenset()
    changes: list[Change] = field(default_factory=list)
    head: int = 0  # the next LSN
    is_live: bool = True
    kept_from: int = 0

    @property
    def span(self):
        return Span(self.first, None if self.is_live else self.head - 1)


class SimulatedFeed:
    """The backend. What it can do wrong is set by its attributes."""

    def __init__(self, *, roots: Sequence[KeyRange] = (ALL_KEYS,), first: int = 0, page: int = 1000) -> None:
        self.made = 0
        self.page = page  # the most that a page looks at
        self.down: set[str] = set()  # live ranges that do not answer
        self.lagging = 0  # so many more answers of archives are NotModified
        self.unlisted = 0  # so many more listings are those from before the last change
        self.lost: Any = None  # (random, share of replies that are lost)
        self.splitting = 0  # so many more reads are answered Gone(SPLITTING)
        self.written: list[tuple[FeedId, str, Change]] = []  # (feed, range, change), in order: the oracle
        self.recreate(roots=roots, first=first)

    def recreate(self, *, roots=(ALL_KEYS,), first=0):
        """Delete it and make it anew under its name."""
        self.made += 1
        self.id = FeedId(ACCOUNT, f"feed-{self.made}")
        self.nodes: dict[str, Node] = {}
        self.version = 0
        self.next_id = 0
        for keys in roots:
            self._add(keys, first, ())
        self.present = self._listing()
        self.before = self.present

    def _add(self, keys, first, parents, name=None):
        name = name or str(self.next_id)
        self.next_id += 1
        ancestors = frozenset(parents).union(*(self.nodes[one].ancestors for one in parents))
        self.nodes[name] = Node(name, keys, first, frozenset(parents), ancestors, head=first)
        return name

    def _listing(self):
        live = [Range(one.id, one.keys, one.ancestors) for one in self.nodes.values() if one.is_live]
        return Ranges(self.id, f"{self.id.id}.{self.version}", tuple(live))

    def _changed(self):
        self.version += 1
        self.before, self.present = self.present, self._listing()

    @property
    def live(self) -> list[str]:
        """Names of the live ranges by key."""
        return [one.id for one in sorted(self.nodes.values(), key=lambda one: one.keys) if one.is_live]

    def append(self, key, path=None, *, skip=0, is_delete=True):
        """A change in the live range that has the key; ``skip`` LSNs are left out before it."""
        node = next(one for one in self.nodes.values() if one.is_live and one.keys.holds(key))
        change = Change(node.head + skip, key, safe_path(path or f"{key:032x}"), None)
        node.changes.append(change)
        node.head = change.lsn + 1
        self.written.append((self.id, node.id, change))
        return change

    def fill(self, name: str, last: int, every: int = 1, keys: KeyRange | None = None) -> None:
        """Changes of a live range up to LSN ``last``, with keys all over it."""
        node = self.nodes[name]
        low, high = keys or node.keys
        dice = random.Random(f"{name}{last}")
        while node.head <= last:
            skip = min(every - 1, last - node.head)
            self.append(dice.randrange(low, high), skip=skip)

    def split(self, name: str, *edges: int, last: int | None = None) -> list[str]:
        """Close a range, at ``last`` if that is later than its entries; children between the edges."""
        node = self.nodes[name]
        node.head = max(node.head, (last or 0) + 1) if last is not None else node.head
        node.is_live = False
        keys = [node.keys.low, *(edges or [(node.keys.low + node.keys.high) // 2]), node.keys.high]
        found = [self._add(KeyRange(low, high), node.head, (name,)) for low, high in pairwise(keys)]
        self._changed()
        return found

    def merge(self, *names):
        """Close neighbours; one range has the keys of them all."""
        parents = [self.nodes[one] for one in names]
        for one in parents:
            one.is_live = False
        keys = KeyRange(min(one.keys.low for one in parents), max(one.keys.high for one in parents))
        merged = self._add(keys, max(one.head for one in parents), names)
        self._changed()
        return merged

    def retire(self, name, below):
        """Of a range, LSNs below this are not kept any more."""
        self.nodes[name].kept_from = below

    def source(self, clock: Clock | None = None, delay_s: float = 0.0) -> "SimulatedSource":
        """One more source of it."""
        return SimulatedSource(self, clock, delay_s)


class SimulatedSource:
    """What one process has of the feed. ``reads`` are (via, position, keys, answer)."""

    reads_at_once = 3

    def __init__(self, feed: SimulatedFeed, clock: Clock | None, delay_s: float) -> None:
        self._feed = feed
        self._clock = clock
        self._delay_s = delay_s
        self._id: FeedId | None = None
        self.listings = 0
        self.infos: list[str] = []
        self.reads: list[Any] = []
        self.refuse: Callable[[str], Awaitable[None]] | None = (
            None  # called with the name of a method before it answers
        )

    async def _answer(self, method, via=None):
        if self._clock:
            await self._clock.sleep(self._delay_s)
        if self.refuse:
            await self.refuse(method)
        if via in self._feed.down:
            raise Transient(f"{via} is down")
        if self._id not in {None, self._feed.id}:
            raise FeedReplaced("another feed")

    def _lose(self):
        if self._feed.lost:
            dice, share = self._feed.lost
            if dice.random() < share:
                raise Transient("the reply was lost")

    async def ranges(self, etag):
        self.listings += 1
        await self._answer("ranges")
        feed = self._feed
        found = feed.present
        if feed.unlisted and feed.before.feed == found.feed:
            feed.unlisted -= 1
            found = feed.before
        self._lose()
        self._id = found.feed
        return NotModified() if found.etag == etag else found

    def _gone(self, of, via):
        live = self._feed.nodes.get(via)
        if not live or not live.is_live:
            return Gone(Why.RANGE_GONE)
        assert of == via or of in live.ancestors, f"{via} does not archive {of}"
        return None

    async def info(self, of, via):
        self.infos.append(of)
        await self._answer("info", via)
        self._lose()
        return self._gone(of, via) or self._feed.nodes[of].span

    async def read(self, via, position, keys, limit):
        try:
            answer = await self._read(via, position, keys, limit)
        except Exception as error:
            self.reads.append((via, position, keys, error))
            raise
        self.reads.append((via, position, keys, answer))
        return answer

    async def _read(self, via, position, keys, limit):
        await self._answer("read", via)
        feed = self._feed
        if feed.splitting:
            feed.splitting -= 1
            return Gone(Why.SPLITTING)
        gone = self._gone(position.range, via)
        if gone:
            self._lose()
            return gone
        node = feed.nodes[position.range]
        at_lsn = position.next_lsn
        if at_lsn == 0:
            at_lsn = max(node.first, node.kept_from)
        elif at_lsn < min(node.kept_from, node.head):
            raise CheckpointExpired(f"{node.id} is kept from {node.kept_from} on")
        if not node.is_live and feed.lagging:
            feed.lagging -= 1
            return NotModified()
        if node.is_live and at_lsn >= node.head:
            return NotModified()
        looked = [one for one in node.changes if one.lsn >= max(at_lsn, node.kept_from)][: feed.page]
        fitting = [one for one in looked if keys.holds(one.key)]
        page = fitting[:limit]
        if len(fitting) > limit:
            next_lsn = page[-1].lsn + 1
        elif len(looked) == feed.page:
            next_lsn = looked[-1].lsn + 1
        else:
            next_lsn = max(node.head, at_lsn)
        self._lose()
        return Page(tuple(page), next_lsn)

    async def close(self):
        pass


def seed_tree(*, every=100, page=1000):
    """The seed's: 0 splits into 1 and 2 at LSN 5000, 1 into 3 and 4 at 7500."""
    feed = SimulatedFeed(page=page)
    feed.fill("0", 5000, every)
    feed.split("0", at(0x80))
    feed.fill("1", 7500, every)
    feed.fill("2", 10000, every)
    feed.split("1", at(0x40))
    feed.fill("3", 15000, every)
    feed.fill("4", 20000, every)
    return feed


def ealsur_tree(*, every=100):
    """0 splits into 1 and 2, 2 into 3 and 4, 1 into 5 and 6."""
    feed = SimulatedFeed()
    feed.fill("0", 1000, every)
    feed.split("0", at(0x80))
    feed.fill("1", 2000, every)
    feed.fill("2", 3000, every)
    feed.split("2", at(0xC0))
    feed.split("1", at(0x40))
    for name in feed.live:
        feed.fill(name, 4000, every)
    return feed
