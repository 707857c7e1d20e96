"""A Kinesis stream as a feed, against moto's server: the contract, what expires, and what AWS refuses."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import botocore.session
import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed, Refused, SourceError, UsageError
from cfetch.plugins.follow.backends.kinesis import KinesisSource
from cfetch.plugins.follow.backends.kinesis_api import KinesisApi, NoSuchStream
from cfetch.plugins.follow.backends.kinesis_shards import (
    MOMENT_BITS,
    ShardPosition,
    decode_place,
    encode_place,
    key_of_record,
    read_shards,
)
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position
from cfetch.plugins.follow.source import Gone, NotModified, Page, Why
from cfetch.testing.feed import (
    NAMES,
    MergeContract,
    RecreateContract,
    drained,
    identities,
    listed,
    told,
)
from tests.plugins.follow.reading import follow_through_splits_and_merges, read_on
from tests.wire.raw_server import RawServer, reply

REGION = "eu-west-1"
DAY_S = 86_400.0
STREAMS = (f"stream-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def endpoint():
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.plugins.follow.backends.kinesis_server"],
        cwd=Path(__file__).parents[4],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


class Clock(SystemClock):
    """The machine's, which a test may put forward; nobody sleeps for long."""

    ahead_s = 0.0
    slept_s = 0.0

    def wall(self):
        return super().wall() + self.ahead_s

    def monotonic(self):
        return super().monotonic() + self.ahead_s

    async def sleep(self, seconds):
        self.slept_s += seconds


@pytest.fixture(scope="module")
def session():
    """One for all, as each reads the service's whole model first."""
    session = botocore.session.get_session()
    session.set_credentials("test", "test")
    return session


class KinesisWorld:
    def __init__(self, endpoint, session):
        self.endpoint, self.session, self.stream, self.clock = endpoint, session, next(STREAMS), Clock()
        self.client = session.create_client("kinesis", REGION, endpoint_url=endpoint)
        self.client.create_stream(StreamName=self.stream, ShardCount=1)
        self.opened = []
        self.source = self.reopened()

    def reopened(self, begin_s=None):
        api = KinesisApi(
            self.stream,
            region=REGION,
            clock=self.clock,
            jitter=lambda: 0.5,
            endpoint=self.endpoint,
            session=self.session,
        )
        self.opened.append(KinesisSource(api, self.clock, begin_s))
        return self.opened[-1]

    def put(self, row, key=None, **options):
        data = row if isinstance(row, bytes) else json.dumps(row).encode()
        self.client.put_record(StreamName=self.stream, Data=data, PartitionKey=key or row["path"], **options)

    async def append(self, path):
        self.put({"op": "upsert", "path": path, "url": "https://files.example/x", "size": 3})

    async def delete(self, path):
        self.put({"op": "delete", "path": path})

    async def split(self, of):
        keys = {live.id: live.keys for live in (await listed(self.reopened())).ranges}[of]
        middle = (keys.low + keys.high) // 2
        self.client.split_shard(StreamName=self.stream, ShardToSplit=of, NewStartingHashKey=str(middle))

    async def merge(self, one, other):
        self.client.merge_shards(StreamName=self.stream, ShardToMerge=one, AdjacentShardToMerge=other)

    async def recreate(self):
        self.client.delete_stream(StreamName=self.stream)
        self.client.create_stream(StreamName=self.stream, ShardCount=1)

    async def retire(self):
        self.lever("trim")
        self.clock.ahead_s += DAY_S + 3600

    def lever(self, name, value="1"):
        self.client.add_tags_to_stream(StreamName=self.stream, Tags={f"test:{name}": value})

    async def close(self):
        for source in self.opened:
            await source.close()
        self.client.close()


@pytest.fixture
async def world(endpoint, session):
    world = KinesisWorld(endpoint, session)
    yield world
    await world.close()


class TestKinesis(MergeContract, RecreateContract):
    """Its ``world`` is this module's. Retention is below: what it drops is not told, and has to be proved."""


async def page(source, of, next_lsn, keys=ALL_KEYS, limit=100):
    return await source.read(of, Position(of, next_lsn), keys, limit)


async def shard_of(source):
    (live,) = (await listed(source)).ranges
    return live.id


async def read_all(world):
    """The place after all that there is, which is caught up."""
    of = await shard_of(world.source)
    found = await page(world.source, of, 0)
    assert isinstance(found, Page)
    assert decode_place(found.next_lsn).caught_up_ms
    return of, found.next_lsn


async def read_all_of_one(world):
    await world.append("a")
    return await read_all(world)


# What is not kept


@pytest.mark.parametrize("refuses", [False, True], ids=["oldest", "refused"])
async def test_a_quiet_shard_can_be_gone_on_with_though_its_last_record_is_gone(world, refuses):
    """The checkpoint says that nothing followed, not so long ago that it could be gone."""
    await world.append("a")
    world.clock.ahead_s += 2 * DAY_S
    of, after = await read_all(world)
    world.lever("trim")
    if refuses:
        world.lever("refuse-gone")
    await world.append("b")
    world.clock.ahead_s += DAY_S - 2 * 3600
    assert told((await page(world.reopened(), of, after)).changes) == [("b", "upsert")]
    world.clock.ahead_s += 3600
    with pytest.raises(CheckpointExpired):
        await page(world.reopened(), of, after)


async def test_who_reads_on_close_to_what_is_dropped_is_not_believed_either(world):
    """An iterator goes on with the oldest record too, when the next one was dropped in the meantime."""
    for name in "abc":
        await world.append(name)
    world.clock.ahead_s += 2 * DAY_S
    world.lever("behind", str(int((DAY_S - 1800) * 1000)))
    of = await shard_of(world.source)
    first = await page(world.source, of, 0, limit=1)
    world.lever("trim")
    await world.append("d")
    with pytest.raises(CheckpointExpired):
        await page(world.source, of, first.next_lsn)


async def test_a_number_that_the_shard_never_had_is_no_place(world):
    of, after = await read_all_of_one(world)
    with pytest.raises(Refused, match="no such sequence number"):
        await page(world.reopened(), of, after + (1 << (MOMENT_BITS + 80)))


async def test_a_checkpoint_that_proves_nothing_has_expired(world):
    await world.append("a")
    await world.append("b")
    of, after = await read_all(world)
    first = (await page(world.source, of, 0)).changes[0].lsn
    await world.retire()
    await world.append("c")
    for source in (world.source, world.reopened()):
        for next_lsn in (first, first + 1, after):
            with pytest.raises(CheckpointExpired, match="24 hours"):
                await page(source, of, next_lsn)
        assert told((await page(source, of, 0)).changes) == [("c", "upsert")]


async def test_a_record_that_is_still_there_proves_that_none_behind_it_is_gone(world):
    await world.append("z")
    await world.retire()
    await world.append("a")
    await world.append("b")
    of = await shard_of(world.source)
    first = (await page(world.source, of, 0, limit=1)).changes[0].lsn
    world.clock.ahead_s += DAY_S
    for begin, names in ((first, "ab"), (first + 1, "b")):
        changes = await drained(world.reopened(), of, of, from_lsn=begin)
        assert [change.path for change in changes] == list(names)


async def test_the_place_of_a_quiet_shard_is_renewed(world):
    """So a follower that looks at it now and then never comes to where its checkpoint proves nothing."""
    await world.append("a")
    of, after = await read_all(world)
    assert await page(world.source, of, after) == NotModified()
    world.clock.ahead_s += 2 * 3600
    moved = await page(world.source, of, after)
    assert isinstance(moved, Page)
    assert moved.changes == ()
    assert decode_place(moved.next_lsn).caught_up_ms - decode_place(after).caught_up_ms >= 2 * 3_600_000
    assert await page(world.source, of, moved.next_lsn) == NotModified()


async def test_who_begins_with_nothing_gets_a_place_that_proves_something(world):
    of = await shard_of(world.source)
    moved = await page(world.source, of, 0)
    assert isinstance(moved, Page)
    assert await page(world.source, of, moved.next_lsn) == NotModified()
    await world.append("a")
    assert told(await drained(world.reopened(), of, of, from_lsn=moved.next_lsn)) == [("a", "upsert")]
    world.lever("trim")
    world.clock.ahead_s += 2 * DAY_S
    with pytest.raises(CheckpointExpired):
        await page(world.reopened(), of, moved.next_lsn)
    assert isinstance(await page(world.reopened(), of, 0), Page)


async def test_who_begins_at_a_time_gets_what_came_after_it(world):
    """Also from a shard that was split since; a time before the oldest record that is kept means that one."""
    of = await shard_of(world.source)
    await world.append("a")
    world.lever("age", "3600")
    await world.append("b")
    await world.split(of)
    low, high = (await listed(world.source)).ranges
    await world.append("c")

    async def read(age_s):
        source = world.reopened(world.clock.wall() - age_s)
        parts = [(low.id, of), (low.id, low.id), (high.id, high.id)]
        pages = [await drained(source, via, name, from_lsn=0) for via, name in parts]
        return [change.path for page in pages for change in page]

    assert await read(60) == ["b", "c"]
    assert await read(7200) == await read(2 * DAY_S) == ["a", "b", "c"]


async def test_a_shard_made_after_the_oldest_record_has_lost_nothing(world):
    of = await shard_of(world.source)
    await world.retire()
    await world.split(of)
    low, _ = (await listed(world.source)).ranges
    for name in NAMES:
        await world.append(name)
    changes = await drained(world.source, low.id, low.id)
    assert changes
    world.clock.ahead_s += DAY_S
    assert identities(await drained(world.reopened(), low.id, low.id)) == identities(changes)


async def test_a_shard_that_is_not_listed_any_more_has_expired(world):
    of = await shard_of(world.source)
    await world.append("a")
    await world.split(of)
    world.lever("trim-shard", of)
    low, high = (await listed(world.source)).ranges
    assert {low.ancestors, high.ancestors} == {frozenset()}
    with pytest.raises(CheckpointExpired, match="not listed"):
        await world.source.read(low.id, Position(of, 1), ALL_KEYS, 10)


# Reading on


async def test_pages_without_records_are_passed_over(world):
    for name in NAMES[:4]:
        await world.append(name)
    world.lever("empty")
    of = await shard_of(world.source)
    changes = await drained(world.source, of, of, limit=3)
    assert [change.path for change in changes] == NAMES[:4]
    assert world.clock.slept_s >= 4 * 0.2


async def test_an_iterator_that_expired_is_made_anew(world):
    for name in "ab":
        await world.append(name)
    of = await shard_of(world.source)
    first = await page(world.source, of, 0, limit=1)
    world.lever("expire")
    assert told((await page(world.source, of, first.next_lsn)).changes) == [("b", "upsert")]


async def test_throttling_is_waited_out_and_told_when_it_does_not_end(world):
    await world.append("a")
    of = await shard_of(world.source)
    world.lever("throttle", "2")
    assert told((await page(world.source, of, 0)).changes) == [("a", "upsert")]
    assert world.clock.slept_s >= 2
    world.lever("throttle", "100")
    with pytest.raises(SourceError, match="slow down"):
        await page(world.source, of, 0)


async def test_a_shard_that_was_split_is_read_to_its_end_before_it_is_gone(world):
    """By a source that has not seen it yet."""
    await world.append("a")
    of, after = await read_all(world)
    await world.append("b")
    await world.split(of)
    found = await page(world.source, of, after)
    assert told(found.changes) == [("b", "upsert")]
    assert await page(world.source, of, found.next_lsn) == Gone(Why.RANGE_GONE)
    assert len((await listed(world.source)).ranges) == 2


async def test_what_a_shard_does_not_archive_is_not_had_from_it(world):
    of = await shard_of(world.source)
    await world.split(of)
    low, high = (await listed(world.source)).ranges
    assert await world.source.read(low.id, Position(high.id, 0), ALL_KEYS, 10) == Gone(Why.RANGE_GONE)


async def test_streams_of_many_shards_are_listed_in_pages(world):
    for _ in range(7):
        found = await listed(world.source)
        await world.split(max(found.ranges, key=lambda live: live.keys.high - live.keys.low).id)
    found = await listed(world.source)
    assert len(found.ranges) == 8
    assert {len(live.ancestors) for live in found.ranges} == {3}


async def test_a_stream_that_is_being_deleted_is_no_feed(world):
    of = await shard_of(world.source)
    world.lever("delete")
    with pytest.raises(FeedReplaced):
        await page(world.source, of, 0)
    world.client.delete_stream(StreamName=world.stream)
    with pytest.raises(FeedReplaced, match="was deleted"):
        await world.source.ranges(None)
    with pytest.raises(NoSuchStream):
        await world.reopened().ranges(None)


# Records


async def test_keys_are_those_by_which_the_service_chooses_a_shard(world):
    of = await shard_of(world.source)
    await world.split(of)
    for name in NAMES:
        await world.append(name)
    row = {"op": "delete", "path": "explicit", "key": "f" * 32}
    world.put(row, ExplicitHashKey=str((1 << 128) - 1))
    low, high = (await listed(world.source)).ranges
    for live in (low, high):
        for change in await drained(world.source, live.id, live.id):
            expected = (1 << 128) - 1 if change.path == "explicit" else key_of_record(change.path)
            assert change.key == expected
            assert live.keys.holds(change.key)


GOOD = {"op": "upsert", "path": "a", "url": "https://x.example/a"}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (b"\xf3\x89\x9a\xc2aggregated", "UTF-8"),
        (b"{", "not JSON"),
        (b"[]", "object"),
        ({**GOOD, "lsn": 1}, "sequence number"),
        ({**GOOD, "path": "../a"}, "'..'"),
        ({**GOOD, "url": "x"}, "base_url"),
        ({**GOOD, "op": "x"}, "op"),
        ({**GOOD, "key": "x"}, "key"),
    ],
)
async def test_records_that_break_the_rules_are_refused(world, row, says):
    of = await shard_of(world.source)
    world.put(row, "a")
    with pytest.raises(HostileFeed, match=says):
        await page(world.source, of, 0)


async def test_an_explicit_hash_key_that_is_not_told_is_found_out(world):
    of = await shard_of(world.source)
    await world.split(of)
    world.put(GOOD, "a", ExplicitHashKey=str((1 << 128) - 1 - key_of_record("a") // (1 << 127) * (1 << 127)))
    sides = [
        live.id for live in (await listed(world.source)).ranges if not live.keys.holds(key_of_record("a"))
    ]
    with pytest.raises(HostileFeed, match="explicit hash key"):
        await page(world.source, sides[0], 0)


# Refusals and faults


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        ("400 Bad", "AccessDeniedException", Refused, "AccessDeniedException"),
        ("400 Bad", "secret=1 text", Refused, "no code"),
        ("500 Oops", "InternalFailure", SourceError, "InternalFailure"),
    ],
)
async def test_what_the_service_refuses(status, code, kind, says):
    body = json.dumps({"__type": code, "message": "a text with secret=1"}).encode()
    clock = Clock()
    async with RawServer(reply(body, "Content-Type: application/x-amz-json-1.1", status=status)) as server:
        api = KinesisApi("s", region=REGION, endpoint=server.url, clock=clock, jitter=lambda: 0.5)
        with pytest.raises(kind, match=says) as caught:
            await api.describe()
        assert "secret" not in str(caught.value)
        await api.close()


async def test_without_credentials_it_is_said_what_to_do(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    api = KinesisApi("s", region=REGION, endpoint="http://127.0.0.1:9", clock=Clock(), jitter=lambda: 0.5)
    with pytest.raises(UsageError, match="credentials"):
        await api.describe()
    await api.close()


# Shards, without a service


def listing(*shards):
    return [
        {
            "ShardId": name,
            "HashKeyRange": {"StartingHashKey": str(low), "EndingHashKey": str(high)},
            "SequenceNumberRange": {
                "StartingSequenceNumber": str(first),
                **({"EndingSequenceNumber": str(last)} if last else {}),
            },
            **({"ParentShardId": parent} if parent else {}),
        }
        for name, low, high, first, last, parent in shards
    ]


def test_hash_keys_are_inclusive_and_ranges_are_not():
    shards = read_shards(listing(("a", 0, 9, 100, None, None), ("b", 10, (1 << 128) - 1, 200, None, None)))
    assert [one.keys for one in shards.ranges()] == [KeyRange(0, 10), KeyRange(10, 1 << 128)]


def test_a_child_that_begins_before_its_parent_ended_is_refused():
    shards = read_shards(listing(("a", 0, 9, 100, 300, None), ("b", 0, 9, 250, None, "a")))
    with pytest.raises(HostileFeed, match="before its parents ended"):
        shards.span("b")


@pytest.mark.parametrize(
    "shard",
    [
        ("../x", 0, 9, 1, None, None),
        ("a", "x", 9, 1, None, None),
        ("a", 9, 0, 1, None, None),
        ("a", 0, 1 << 128, 1, None, None),
        ("a", 0, 9, "9" * 129, None, None),
    ],
)
def test_shards_that_are_none_are_refused(shard):
    with pytest.raises(HostileFeed):
        read_shards(listing(shard))


def test_an_lsn_says_what_was_put_into_it():
    for place in (
        ShardPosition(5, False, 0),
        ShardPosition(5, True, 0),
        ShardPosition(1 << 186, True, 1_800_000_000_000),
    ):
        assert decode_place(encode_place(place)) == place
    assert encode_place(ShardPosition(5, True, 1 << 50)) < 6 << MOMENT_BITS


@pytest.mark.parametrize("sleeps", [(), (0, 1, 2, 3, 4, 5)], ids=["awake", "late"])
async def test_the_reader_follows_through_splits_and_merges(world, tmp_path, sleeps):
    await follow_through_splits_and_merges(world, tmp_path / "checkpoint", sleeps)


async def test_a_follower_goes_on_though_the_stream_has_forgotten_a_grandparent(world, tmp_path):
    """Where its children then say that they begin is above where the checkpoint knows that it ended."""
    seen: list[tuple[str, str]] = []
    of = await shard_of(world.source)
    await world.append("a")
    await world.split(of)
    for name in NAMES:
        await world.append(name)
    await read_on(world, tmp_path / "checkpoint", seen)
    assert len(seen) == 1 + len(NAMES)
    low, _ = (await listed(world.source)).ranges
    await world.split(low.id)
    world.lever("trim-shard", of)
    for name in NAMES:
        await world.append(name)
    await read_on(world, tmp_path / "checkpoint", seen)
    assert len(seen) == 1 + 2 * len(NAMES)
