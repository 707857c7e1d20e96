"""A Kinesis stream as a feed: its shards are ranges, which split and merge (docs/feed-kinesis.md).

Closed shards can be asked directly, so whoever archives them is not asked. Records that are gone are not
missed by the service: it goes on with the oldest that it has and says nothing. So a place that was not reached
by reading on is looked at first: either its record is still there, or a moment in it says that nothing came
after it which could be gone by now, or the checkpoint has expired.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from cfetch.clock import Clock
from cfetch.errors import CheckpointExpired, FeedReplaced, HostileFeed
from cfetch.feed.kinesis_api import ExpiredIterator, KinesisApi, NoSuchStream, Records, Stream, Unknown
from cfetch.feed.ranges import KeyRange, Position, Span
from cfetch.feed.shards import (
    Place,
    Shard,
    Shards,
    key_of_record,
    lsn_of,
    lsn_of_record,
    place_of,
    shards_from,
)
from cfetch.feed.source import Change, FeedId, Gone, NotModified, Page, Ranges, Why
from cfetch.feed.wire import change_of, decoded, key_from
from cfetch.manifest.fields import FieldError
from cfetch.manifest.rows import Document

__all__ = ["KinesisSource"]

MAX_RECORDS = 10_000  # the service's own limit
ITERATOR_S = 240.0  # it is good for 300
PAUSE_S = 0.2  # between requests without records: a shard answers five in a second
MAX_EMPTY = 50  # of these, before others get their turn
MARGIN = timedelta(hours=1)  # for clocks that differ, and since the service drops records when it likes
RENEWED_MS = 3_600_000  # how old a checkpoint's moment may become: an hour of the least retention, a day
MAX_PLACES = 4096  # iterators that are kept: 64 readers of 64 shards


class _Kept(NamedTuple):
    """An iterator that came from reading on, when it came, and how far the shard's tip was then."""

    iterator: str
    since_s: float
    behind_ms: int


class KinesisSource:
    """See ``FeedSource``. An open shard that was split meanwhile is read to its end before it is ``Gone``.

    ``info`` and reads of closed shards never wait for the shards that archive them.
    """

    def __init__(self, api: KinesisApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._stream: Stream | None = None
        self._shards = Shards({})
        self._kept: OrderedDict[tuple[str, int], _Kept] = OrderedDict()

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """See ``FeedSource``."""
        stream = await self._described()
        self._shards = await self._listed()
        feed = FeedId(self._api.endpoint, _digest(f"{stream.arn} {stream.created.timestamp()}"))
        shape = sorted((one.id, one.last is None) for one in self._shards.by_id.values())
        present = _digest(f"{feed.id} {shape}")
        return NotModified() if etag == present else Ranges(feed, present, self._shards.ranges())

    async def info(self, of: str, via: str) -> Span | Gone:
        """See ``FeedSource``."""
        await self._described()
        return await self._gone(of, via) or self._shards.span(of)

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """See ``FeedSource``. Of the keys it sorts out itself: the service reads shards as a whole."""
        if gone := await self._gone(position.range, via):
            return gone
        shard = self._shards.by_id[position.range]
        next_lsn = position.next_lsn or await self._oldest(shard)
        end = self._shards.span(shard.id).last
        if end is not None and next_lsn > end:
            return Page((), next_lsn)
        for _ in range(MAX_EMPTY):
            now_ms = int(self._clock.wall() * 1000)
            found, renew = await self._records(shard, next_lsn, min(limit, MAX_RECORDS))
            changes = [self._change(one, shard) for one in found.records]
            changes = [one for one in changes if one.lsn >= next_lsn]
            at_tip = found.behind_ms == 0
            if found.next_iterator is None or (end is not None and at_tip and not changes):
                if end is not None:
                    return Page(_with_keys(changes, keys), end + 1)
                if not changes:  # it was closed meanwhile
                    self._shards = await self._listed()
                    return Gone(Why.SPLITTING) if self._is_splitting(via) else Gone(Why.RANGE_GONE)
            if changes:
                place = Place(changes[-1].lsn_sequence if False else place_of(changes[-1].lsn).sequence, True, now_ms if at_tip else 0)
                after = lsn_of(place)
                self._keep(shard.id, after, found)
                return Page(_with_keys(changes, keys), after)
            self._keep(shard.id, next_lsn, found)
            if at_tip:
                return self._nothing(shard, next_lsn, found, now_ms) if renew else NotModified()
            await self._clock.sleep(PAUSE_S)
        return Page((), next_lsn)
