"""DynamoDB by moto's server: a scan, then the keys of the stream; and shards with children."""

import itertools
from typing import Any

import botocore.session
import pytest

from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed, Refused, UsageError
from cfetch.plugins.follow.backends.dynamodb import DynamoUpstream, make_expired
from tests.plugins.follow.upstream_site import Mirror, open_site

numbers = itertools.count(1)


class Table:
    """Items with a key, a path and a URL of a site whose files are their own paths."""

    def __init__(self, server, site, view="NEW_AND_OLD_IMAGES"):
        self.name, self.site = f"table-{next(numbers)}", site
        session = botocore.session.get_session()
        self.client = session.create_client("dynamodb", region_name="us-east-1", endpoint_url=server.url)
        self.client.create_table(
            TableName=self.name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            **({"StreamSpecification": {"StreamEnabled": True, "StreamViewType": view}} if view else {}),
        )
        self.feed = f"dynamodb://{self.name}?region=us-east-1&endpoint={server.url}"

    def put(self, key, path, version=1, **more):
        size = len(f"/{path}/{version}")
        item = {"id": key, "path": path, "url": f"{self.site}/{path}/{version}"}
        typed = {name: {"S": value} for name, value in item.items()} | {"size": {"N": str(size)}} | more
        self.client.put_item(TableName=self.name, Item=typed)

    def delete(self, key):
        self.client.delete_item(TableName=self.name, Key={"id": {"S": key}})


@pytest.fixture
def site():
    with open_site(lambda path, *_: (200, path.encode())) as url:
        yield url


@pytest.fixture
def table(bucket, moto_server, site):  # the bucket's fixture gives the login
    return Table(moto_server, site)


@pytest.fixture
def mirror(table, tmp_path):
    return Mirror(table.feed, tmp_path)


def test_a_scan_then_the_stream(table, mirror):
    for key in "abc":
        table.put(key, f"d/{key}")
    table.client.put_item(TableName=table.name, Item={"id": {"S": "other"}, "n": {"N": "1.5"}})
    assert mirror.follow().files.done == 3
    table.put("a", "d/a", version=2)
    table.put("e", "e", kept={"L": [{"M": {"x": {"NULL": True}}}, {"BOOL": True}]})
    table.delete("b")
    found = mirror.follow()
    assert (mirror.names(), found.feed.deletes) == (["d/a", "d/c", "e"], 1)
    assert mirror.read("d/a") == "/d/a/2"
    assert mirror.follow().feed.entries == 0


def test_an_item_that_changed_many_times_is_looked_up_once(table, mirror):
    mirror.follow()
    for version in range(9):
        table.put("a", "a", version=version)
    found = mirror.follow()
    assert (found.feed.entries, mirror.read("a")) == (1, "/a/8")


def test_a_table_without_a_stream(moto_server, bucket, site, tmp_path):
    with pytest.raises(Refused, match="has no stream; enable one"):
        Mirror(Table(moto_server, site, "").feed, tmp_path).follow()


def test_a_stream_of_keys_cannot_name_what_was_deleted(moto_server, bucket, site, tmp_path):
    table = Table(moto_server, site, "KEYS_ONLY")
    table.put("a", "a")
    mirror = Mirror(table.feed, tmp_path)
    mirror.follow()
    table.delete("a")
    with pytest.raises(HostileFeed, match="let the key have path, or give the stream the view type"):
        mirror.follow()


class Service:
    """Answers of the two services, as a test says; ``asked``: operations with their shards."""

    endpoint = "http://h.example"

    def __init__(self):
        self.arn, self.asked = "arn1", []
        self.shards: dict[str, Any] = {}  # id: parent, records, whether it is closed
        self.items: dict[str, Any] = {}

    async def ask(self, operation, **query):
        if operation == "describe_table":
            return {"Table": {"LatestStreamArn": self.arn, "KeySchema": [{"AttributeName": "path"}]}}
        if operation == "describe_stream":
            rows = [{"ShardId": name} | ({"ParentShardId": shard[0]} if shard[0] else {})
                    for name, shard in self.shards.items()]  # fmt: skip
            return {"StreamDescription": {"Shards": rows}}
        if operation == "get_shard_iterator":
            self.asked.append((query["ShardId"], query.get("SequenceNumber", "")))
            return {"ShardIterator": f"{query['ShardId']}/{query.get('SequenceNumber', '0')}"}
        if operation == "get_records":
            name, _, after = query["ShardIterator"].partition("/")
            _, records, is_closed = self.shards[name]
            rows = [
                {"dynamodb": {"SequenceNumber": str(n), "Keys": {"path": {"S": path}}}}
                for n, path in records if n > int(after)
            ]  # fmt: skip
            return {"Records": rows} | ({} if is_closed else {"NextShardIterator": "x"})
        if operation == "batch_get_item":
            (keys,) = (asked["Keys"] for asked in query["RequestItems"].values())
            some, rest = keys[:2], keys[2:]
            there = [self.items[key["path"]["S"]] for key in some if key["path"]["S"] in self.items]
            return {"Responses": {"t": there}, "UnprocessedKeys": {"t": {"Keys": rest}} if rest else {}}
        return {"Items": list(self.items.values())}

    async def close(self):
        pass


@pytest.fixture
def service():
    return Service()


async def ask(service, cursor):
    return await DynamoUpstream("t", service, service).ask(cursor, set)


async def test_children_come_behind_their_parents(service):
    """A parent that was read to its end is not asked again; keys that were left unanswered are."""
    service.items = {path: {"path": {"S": path}, "url": {"S": f"http://h/{path}"}} for path in "abcde"}
    service.shards = {"s1": ("", [(5, "a"), (6, "b"), (7, "c")], True), "s2": ("s1", [(8, "d")], False)}
    cursor = (await ask(service, "")).cursor
    read = []
    for _ in range(4):
        news = await ask(service, cursor)
        cursor = news.cursor
        read.append([seen.path for seen in news.seen])
    assert read == [["a", "b", "c"], [], ["d"], []] or read == [["a", "b", "c"], ["d"], [], []]
    assert news.is_last
    service.asked.clear()
    await ask(service, cursor)
    assert service.asked == [("s2", "8")]


async def test_a_stream_made_anew(service):
    cursor = (await ask(service, "")).cursor
    service.arn = "arn2"
    with pytest.raises(FeedReplaced, match="was made anew"):
        await ask(service, cursor)


def test_what_the_stream_has_dropped_is_told():
    assert isinstance(make_expired(400), CheckpointExpired)


@pytest.mark.parametrize("name", ["dynamodb://", "dynamodb://t", "dynamodb://t/x?region=eu-west-1"])
def test_a_name_that_is_no_tables(name, tmp_path):
    with pytest.raises(UsageError, match="is not the name of a table"):
        Mirror(name, tmp_path).follow()
