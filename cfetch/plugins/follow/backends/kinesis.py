"""A Kinesis stream as a feed: its shards are ranges, which split and merge (docs/feed-kinesis.md).

Closed shards can be asked directly, so the shards that archive them are not asked. The service does not
report dropped records: it silently continues with the oldest that it has. So a place that was not reached by
reading on is checked first: either its record is still there, or its moment shows that no later record can
have been dropped yet, or the checkpoint has expired.
"""

import hashlib
import random
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from cfetch.base.clock import Clock
from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, parse_resource
from cfetch.plugins.follow.backends.kinesis_api import (
    ExpiredIterator,
    KinesisApi,
    KinesisStream,
    NoSuchStream,
    Records,
    Unknown,
)
from cfetch.plugins.follow.backends.kinesis_shards import (
    Shard,
    ShardPosition,
    Shards,
    decode_place,
    encode_place,
    key_of_record,
    lsn_of_record,
    parse_sequence,
    read_shards,
)
from cfetch.plugins.follow.protocol import decode_document, parse_change
from cfetch.plugins.follow.ranges import KeyRange, Position, Span
from cfetch.plugins.follow.source import Change, FeedId, Gone, NotModified, Page, Ranges, Why

MAX_RECORDS = 10_000  # the service's own limit
ITERATOR_S = 240.0  # an iterator is valid for 300 s
PAUSE_S = 0.2  # between requests without records: a shard answers five in a second
MAX_EMPTY = 50  # empty answers in a row, before other tokens get their turn
MARGIN = timedelta(hours=1)  # for clocks that differ, and as the service drops records at times of its own
RENEWED_MS = 3_600_000  # the most age of a checkpoint's moment: an hour, as the least retention is a day
MAX_PLACES = 4096  # iterators that are kept: 64 readers of 64 shards


class _Kept(NamedTuple):
    """An iterator that came with a page, the time at which it came, and how far behind the tip it was."""

    iterator: str
    since_s: float
    behind_ms: int


class KinesisSource:
    """A ``FeedSource``. An open shard that has been split is read to its end before it is ``Gone``.

    ``info`` and reads of closed shards never wait for the shards that archive them. ``begin_s``: who has
    no place in a shard yet begins with its first record after this time, in seconds since 1970.
    """

    reads_at_once = 1  # a shard answers five reads a second, and they are few

    def __init__(self, api: KinesisApi, clock: Clock, begin_s: float | None = None) -> None:
        self._api = api
        self._clock = clock
        self._begin_s = begin_s
        self._stream: KinesisStream | None = None
        self._shards = Shards({})
        self._kept: OrderedDict[tuple[str, int], _Kept] = OrderedDict()

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """List the live ranges, as ``FeedSource`` says."""
        stream = await self._describe_stream()
        self._shards = await self._list_shards()
        feed = FeedId(self._api.endpoint, _make_digest(f"{stream.arn} {stream.created.timestamp()}"))
        shape = sorted((shard.id, shard.last is None) for shard in self._shards.by_id.values())
        present = _make_digest(f"{feed.id} {shape}")
        return NotModified() if etag == present else Ranges(feed, present, self._shards.ranges())

    async def info(self, of: str, via: str) -> Span | Gone:
        """Ask for the LSNs of a range, as ``FeedSource`` says."""
        await self._describe_stream()
        return await self._check_live(of, via) or self._shards.span(of)

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """Read a page and select the keys from it: the service reads shards as a whole."""
        if gone := await self._check_live(position.range, via):
            return gone
        shard, next_lsn = self._shards.by_id[position.range], position.next_lsn
        end = self._shards.span(shard.id).last
        if end is not None and next_lsn > end:
            return Page((), next_lsn)
        is_waiting = (shard.id, next_lsn) in self._kept
        for _ in range(MAX_EMPTY):
            asked_ms = int(self._clock.wall() * 1000)
            answer = await self._fetch_records(shard, next_lsn, min(limit, MAX_RECORDS))
            changes = [_read_change(record, shard) for record in answer.records]
            at_tip = answer.behind_ms == 0
            if end is not None and (answer.next_iterator is None or (at_tip and not changes)):
                return Page(_select_keys(changes, keys), end + 1)
            if changes:
                seen = decode_place(changes[-1].lsn).sequence
                after = encode_place(
                    ShardPosition(seen, is_behind=True, caught_up_ms=asked_ms if at_tip else 0)
                )
                self._keep(shard.id, after, answer)
                return Page(_select_keys(changes, keys), after)
            if answer.next_iterator is None:  # the shard was closed meanwhile, and has been read to its end
                self._shards = await self._list_shards()
                return Gone(Why.RANGE_GONE if self._shards.has_children(via) else Why.SPLITTING)
            self._keep(shard.id, next_lsn, answer)
            if at_tip:
                after = _renew_moment(next_lsn, shard, asked_ms, is_waiting=is_waiting)
                self._keep(shard.id, after, answer)
                return NotModified() if after == next_lsn else Page((), after)
            await self._clock.sleep(PAUSE_S)
        return Page((), next_lsn)

    async def close(self) -> None:
        """Close connections and files, as ``FeedSource`` says."""
        self._kept.clear()
        await self._api.close()

    async def _check_live(self, of: str, via: str) -> Gone | None:
        """Return Gone unless ``via`` is open, as far as is known, and is ``of`` or descends from it."""
        if not {of, via} <= self._shards.by_id.keys():
            await self._describe_stream()
            self._shards = await self._list_shards()
        live = self._shards.by_id.get(via)
        if live is None or live.last is not None:
            return Gone(Why.RANGE_GONE if live is None or self._shards.has_children(via) else Why.SPLITTING)
        if of not in self._shards.by_id:
            raise CheckpointExpired(f"shard {of} is not listed any more: the stream has dropped its records")
        return None if of == via or of in self._shards.ancestors(via) else Gone(Why.RANGE_GONE)

    async def _describe_stream(self) -> KinesisStream:
        """The stream as it is now. Raises FeedReplaced if it is not the same as at first."""
        try:
            stream = await self._api.describe()
        except NoSuchStream:
            if self._stream is None:
                raise
            raise FeedReplaced(f"the stream {self._api.stream} was deleted") from None
        known = self._stream or stream
        if stream.status == "DELETING" or stream[:2] != known[:2]:
            raise FeedReplaced(f"the stream {self._api.stream} was deleted, or made anew under its name")
        self._stream = stream
        return stream

    async def _list_shards(self) -> Shards:
        return read_shards(await self._api.shards())

    async def _fetch_records(self, shard: Shard, next_lsn: int, limit: int) -> Records:
        """The next records, by the iterator of the page before if that is still valid."""
        kept = self._kept.get((shard.id, next_lsn))
        if kept is not None and self._is_good(kept):
            try:
                return await self._api.records(kept.iterator, limit)
            except (ExpiredIterator, NoSuchStream, Unknown):
                self._kept.pop((shard.id, next_lsn), None)
        return await self._api.records(await self._open_iterator(shard, next_lsn), limit)

    def _is_good(self, kept: _Kept) -> bool:
        """Whether the iterator is valid, and its next records cannot have been dropped yet."""
        if self._stream is None or self._clock.monotonic() - kept.since_s > ITERATOR_S:
            return False
        return timedelta(milliseconds=kept.behind_ms) < _safe_time(self._stream)

    def _keep(self, name: str, next_lsn: int, answer: Records) -> None:
        if answer.next_iterator is not None:
            self._kept[name, next_lsn] = _Kept(
                answer.next_iterator, self._clock.monotonic(), answer.behind_ms
            )
            self._kept.move_to_end((name, next_lsn))
            while len(self._kept) > MAX_PLACES:
                self._kept.popitem(last=False)

    async def _open_iterator(self, shard: Shard, next_lsn: int) -> str:
        """Open an iterator at a place that was not reached by reading on. Raises CheckpointExpired."""
        stream = await self._describe_stream()
        place = decode_place(next_lsn)
        is_early = place.sequence < shard.first
        if next_lsn == 0:
            return await self._open_oldest(shard, stream)
        has_lost = await self._has_lost(shard, stream)
        is_sure = not has_lost or self._is_recent(place, stream)
        if not is_sure and (is_early or not await self._has_record(shard, place.sequence)):
            raise CheckpointExpired(
                f"the stream {self._api.stream} keeps records for {stream.retention_h} hours, and has "
                f"dropped what comes next in shard {shard.id}, or may have"
            )
        if not is_early:
            kind = "AFTER_SEQUENCE_NUMBER" if place.is_behind else "AT_SEQUENCE_NUMBER"
            try:
                return await self._api.iterator(shard.id, kind, place.sequence)
            except Unknown:  # its record was dropped, but no later one
                if not has_lost:
                    raise
        return await self._open_oldest(shard, stream)

    async def _open_oldest(self, shard: Shard, stream: KinesisStream) -> str:
        """Open an iterator at the first record that is kept, or the first after the time to begin at.

        A time before the oldest record that may be kept means that record: the service refuses none.
        """
        oldest_s = self._clock.wall() - timedelta(hours=stream.retention_h).total_seconds()
        if self._begin_s is None or self._begin_s <= oldest_s:
            return await self._api.iterator(shard.id, "TRIM_HORIZON")
        return await self._api.iterator(shard.id, "AT_TIMESTAMP", time_s=self._begin_s)

    async def _has_lost(self, shard: Shard, stream: KinesisStream) -> bool:
        """Whether some of the shard's records have been dropped already, or may have."""
        now = datetime.fromtimestamp(self._clock.wall(), UTC)
        if now - stream.created < _safe_time(stream):
            return False
        return any(row["ShardId"] == shard.id for row in await self._api.shards(at_horizon=True))

    def _is_recent(self, place: ShardPosition, stream: KinesisStream) -> bool:
        """Whether no record from after the place's moment can have been dropped yet."""
        age = timedelta(seconds=self._clock.wall() - place.caught_up_ms / 1000)
        return bool(place.caught_up_ms) and age < _safe_time(stream)

    async def _has_record(self, shard: Shard, sequence: int) -> bool:
        """Whether a record is still there."""
        try:
            iterator: str | None = await self._api.iterator(shard.id, "AT_SEQUENCE_NUMBER", sequence)
        except Unknown:
            return False
        while iterator is not None:
            answer = await self._api.records(iterator, 1)
            if answer.records or answer.behind_ms == 0:
                return any(_read_sequence(record) == sequence for record in answer.records)
            iterator = answer.next_iterator
            await self._clock.sleep(PAUSE_S)
        return False


def _safe_time(stream: KinesisStream) -> timedelta:
    """How long the service certainly keeps every record, even if clocks differ."""
    return timedelta(hours=stream.retention_h) - MARGIN


def _renew_moment(next_lsn: int, shard: Shard, now_ms: int, *, is_waiting: bool) -> int:
    """The same place with a later moment, if its own is old, or still unknown at the second request."""
    place = decode_place(next_lsn or lsn_of_record(shard.first - 1))
    is_due = now_ms - place.caught_up_ms > RENEWED_MS if place.caught_up_ms else is_waiting or not next_lsn
    return (
        encode_place(ShardPosition(place.sequence, is_behind=True, caught_up_ms=now_ms))
        if is_due
        else next_lsn
    )


def _read_sequence(record: Mapping[str, Any]) -> int:
    try:
        return parse_sequence(record["SequenceNumber"])
    except (KeyError, ValueError):
        raise HostileFeed("a record has no sequence number") from None


def _read_change(record: Mapping[str, Any], shard: Shard) -> Change:
    """A record as a change: its data is a row, and its partition key gives the key."""
    sequence = _read_sequence(record)
    what = f"record {sequence} of {shard.id}"
    fields = decode_document(record["Data"], what)
    if type(fields) is dict:
        if "lsn" in fields:
            raise HostileFeed(f"{what} states an lsn; a record has its sequence number")
        fields = {**fields, "lsn": 0}
    change = parse_change(fields, Document(), what)
    key = change.key if "key" in fields else key_of_record(record["PartitionKey"])
    if not shard.keys.holds(key):
        raise HostileFeed(f"{what} has a key of another shard; state an explicit hash key as key in its row")
    return change._replace(lsn=lsn_of_record(sequence), key=key)


def _select_keys(changes: list[Change], keys: KeyRange) -> tuple[Change, ...]:
    return tuple(change for change in changes if keys.holds(change.key))


def _make_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _open_stream(name: FeedName, context: FeedContext) -> KinesisSource:
    stream, region, endpoint = parse_resource(name, "stream")
    api = KinesisApi(stream, region=region, clock=context.clock, jitter=random.random, endpoint=endpoint)
    return KinesisSource(api, context.clock, context.begin_s)


FEED = FeedKind(
    "kinesis://STREAM?region=REGION", _open_stream, is_owners=True, lists_all=False, begins_at_times=True
)
