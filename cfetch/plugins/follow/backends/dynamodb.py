"""A DynamoDB table whose items are rows: each key that its stream names is looked up as it is now.

So the order of records does not matter, and a stream of keys alone is enough. The first answer is a scan of
the whole table; then every shard is read, a parent before its children. The stream keeps records for a day: a
follower that was away for longer stops, and ``--resync`` scans anew. The cursor is the place in each shard.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from cfetch.base.errors import CfetchError, CheckpointExpired, FeedReplaced, HostileFeed, Refused
from cfetch.base.secret import printable
from cfetch.manifest.rows import KEYS
from cfetch.plugins.follow.backends.aws import AwsClient
from cfetch.plugins.follow.backends.change_log import News, Seen
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, parse_resource
from cfetch.plugins.follow.source import FeedSource

RECORDS = 1000  # of one answer of a shard: the service's own limit
LOOKED_UP = 100  # keys of one request, as the service allows
TRIES = 10  # for keys that the service has left unanswered, as when the table is throttled
ENDED = "ended"  # in place of a sequence number: the shard is closed, and was read to its end


class _Cursor(msgspec.Struct, frozen=True):
    """``stream``: its ARN, another one if it was made anew. ``places``: last sequence numbers, by shard."""

    stream: str
    places: dict[str, str]


def make_expired(_: int) -> CfetchError:
    """The error of a place in a shard whose records were dropped."""
    return CheckpointExpired("the table's stream keeps records for a day, and has dropped what comes next")


class DynamoUpstream:
    """An ``Upstream``: the table ``name``, by clients of both services."""

    def __init__(self, name: str, table: AwsClient, stream: AwsClient) -> None:
        self.shown = f"the table {printable(name, 255)}"
        self.account = f"{table.endpoint}/{name}"
        self._name = name
        self._table = table
        self._stream = stream
        self._keys: tuple[str, ...] = ()

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news, as ``Upstream`` says."""
        about = (await self._table.ask("describe_table", TableName=self._name))["Table"]
        arn = about.get("LatestStreamArn")
        if arn is None:
            raise Refused(f"{self.shown} has no stream; enable one, of any view type")
        self._keys = tuple(part["AttributeName"] for part in about["KeySchema"])
        if not cursor:
            seen = [each async for each in self._scan()]
            return News(_encode(_Cursor(arn, {})), seen, [("", "")], is_last=False)
        known = msgspec.json.decode(cursor, type=_Cursor)
        if known.stream != arn:
            raise FeedReplaced(f"{self.shown} or its stream was made anew")
        return await self._read_shards(known)

    async def close(self) -> None:
        """Close connections."""
        await self._table.close()
        await self._stream.close()

    async def _scan(self) -> AsyncIterator[Seen]:
        start: dict[str, Any] = {}
        while True:
            reply = await self._table.ask("scan", TableName=self._name, ConsistentRead=True, **start)
            for item in reply["Items"]:
                if (file := _make_seen(item)) is not None:
                    yield file
            if not reply.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": reply["LastEvaluatedKey"]}

    async def _read_shards(self, known: _Cursor) -> News:
        """A page of each shard whose parent was read to its end."""
        listed = self._list_shards(known.stream)
        shards = {shard["ShardId"]: shard.get("ParentShardId") async for shard in listed}
        places = {shard: place for shard, place in known.places.items() if shard in shards}
        records: list[dict[str, Any]] = []
        is_last = True
        for shard, parent in shards.items():
            place = places.get(shard, "")
            if place == ENDED or (parent in shards and places.get(parent) != ENDED):
                continue
            news, after = await self._read_shard(known.stream, shard, place)
            records += news
            is_last = is_last and after == place
            places[shard] = after
        seen = [each async for each in self._read_items(records)]
        return News(_encode(_Cursor(known.stream, places)), seen, is_last=is_last)

    async def _list_shards(self, arn: str) -> AsyncIterator[dict[str, str]]:
        """All shards, a parent before its children, as the service lists them."""
        start: dict[str, str] = {}
        while True:
            reply = (await self._stream.ask("describe_stream", StreamArn=arn, **start))["StreamDescription"]
            for shard in reply["Shards"]:
                yield shard
            if not reply.get("LastEvaluatedShardId"):
                return
            start = {"ExclusiveStartShardId": reply["LastEvaluatedShardId"]}

    async def _read_shard(self, arn: str, shard: str, place: str) -> tuple[list[dict[str, Any]], str]:
        kind: dict[str, str] = {"ShardIteratorType": "TRIM_HORIZON"}
        if place:
            kind = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": place}
        opened = await self._stream.ask("get_shard_iterator", StreamArn=arn, ShardId=shard, **kind)
        reply = await self._stream.ask("get_records", ShardIterator=opened["ShardIterator"], Limit=RECORDS)
        records: list[dict[str, Any]] = reply["Records"]
        if not records and not reply.get("NextShardIterator"):
            return [], ENDED
        return records, records[-1]["dynamodb"]["SequenceNumber"] if records else place

    async def _read_items(self, records: Iterable[Mapping[str, Any]]) -> AsyncIterator[Seen]:
        """The items of all keys that the records name, as they are now; for a missing one a delete."""
        named = {
            msgspec.json.encode(record["dynamodb"]["Keys"], order="sorted"): record for record in records
        }
        waiting = [record["dynamodb"]["Keys"] for record in named.values()]
        items: dict[bytes, dict[str, Any]] = {}
        # One request for each LOOKED_UP keys, and TRIES more: DynamoDB may leave keys of a request
        # unanswered, which then wait at the end of the line.
        for _ in range(TRIES + len(waiting) // LOOKED_UP):
            if not waiting:
                break
            asked, waiting = waiting[:LOOKED_UP], waiting[LOOKED_UP:]
            request = {self._name: {"Keys": asked, "ConsistentRead": True}}
            reply = await self._table.ask("batch_get_item", RequestItems=request)
            for item in reply["Responses"].get(self._name, []):
                parts = {name: item[name] for name in self._keys}
                items[msgspec.json.encode(parts, order="sorted")] = item
            waiting += reply.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
        if waiting:
            raise Refused(f"{self.shown} did not answer for {len(waiting)} keys; try again later")
        for key, record in named.items():
            item = items.get(key)
            file = self._make_delete(record["dynamodb"]) if item is None else _make_seen(item)
            if file is not None:
                yield file

    def _make_delete(self, record: Mapping[str, Any]) -> Seen:
        """The delete of an item that is not there any more."""
        known = {**record.get("OldImage", {}), **record["Keys"]}
        if "path" in known:
            return Seen(str(_plain(known["path"])), None)
        raise HostileFeed(
            f"an item of {self.shown} was deleted, and its stream does not name its path; let the key have "
            "path, or give the stream the view type OLD_IMAGE or NEW_AND_OLD_IMAGES"
        )


def _encode(cursor: _Cursor) -> str:
    return msgspec.json.encode(cursor).decode()


def _make_seen(item: Mapping[str, Any]) -> Seen | None:
    """The file that an item states; None: it is about something else."""
    row = {name: _plain(item[name]) for name in KEYS if name in item}
    path = row.pop("path", None)
    return Seen(path, row) if isinstance(path, str) and "url" in row else None


def _plain(value: Mapping[str, Any]) -> object:
    """The value of a typed attribute: a string, a number, a flag, or a list or map of these."""
    ((kind, inner),) = value.items()
    if kind == "N":
        number = Decimal(inner)
        return int(number) if number == number.to_integral_value() else float(number)
    if kind == "L":
        return [_plain(each) for each in inner]
    if kind == "M":
        return {name: _plain(each) for name, each in inner.items()}
    return None if kind == "NULL" else inner


def _open_table(name: FeedName, context: FeedContext) -> FeedSource:
    table, region, endpoint = parse_resource(name, "table")

    def make(service: str) -> AwsClient:
        return AwsClient(
            service,
            "DynamoDB",
            region=region,
            endpoint=endpoint,
            own={"TrimmedDataAccessException": make_expired},
            clock=context.clock,
            jitter=random.random,
        )

    return context.open_log(DynamoUpstream(table, make("dynamodb"), make("dynamodbstreams")))


FEED = FeedKind("dynamodb://TABLE?region=REGION", _open_table, is_owners=True)
