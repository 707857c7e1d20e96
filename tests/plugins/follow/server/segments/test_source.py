"""A feed of segments: the contract on disk and over HTTP, what a reader fetches, and hostile files."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from cfetch.base.clock import SystemClock
from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed, LocalFault, Refused, SourceError
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.backends.web import Web
from cfetch.plugins.follow.ranges import ALL_KEYS, Position, Span
from cfetch.plugins.follow.server.segments.files import DirectoryFiles, UrlFiles
from cfetch.plugins.follow.server.segments.index import parse_index
from cfetch.plugins.follow.server.segments.source import SegmentSource
from cfetch.plugins.follow.server.segments.writer import SegmentWriter
from cfetch.plugins.follow.source import Gone, NotModified, Page
from cfetch.testing.feed import (
    MergeContract,
    RecreateContract,
    RetentionContract,
    drained,
    listed,
    told,
)
from cfetch.wire.http import HttpTransport
from tests.plugins.follow.http_world import serve_here
from tests.plugins.follow.reading import follow_through_splits_and_merges
from tests.plugins.follow.segment_world import SegmentWorld


@asynccontextmanager
async def served(root, ranges=True):
    """The URL of a static server of ``root``, and what it was asked for: path, Range, response."""
    asked = []

    async def answer(request):
        path = root / request.match_info["path"]
        if not path.is_file():
            return web.Response(status=404)
        response = web.FileResponse(path) if ranges else web.Response(body=path.read_bytes())
        asked.append((request.match_info["path"], request.headers.get("Range"), response))
        return response

    app = web.Application()
    app.router.add_get("/feed/{path:.*}", answer)
    runner = await serve_here(app)
    try:
        yield f"{runner.url}feed", asked
    finally:
        await runner.cleanup()


class TestDirectory(MergeContract, RecreateContract, RetentionContract):
    @pytest.fixture
    async def world(self, tmp_path):
        world = SegmentWorld(tmp_path / "feed")
        yield world
        await world.close()


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
class TestUrl(MergeContract, RecreateContract, RetentionContract):
    @pytest.fixture
    async def world(self, tmp_path, ranges):
        async with served(tmp_path / "feed", ranges) as (url, _):
            world = SegmentWorld(tmp_path / "feed", url=url)
            yield world
            await world.close()


@pytest.fixture
async def world(tmp_path):
    world = SegmentWorld(tmp_path / "feed", roll_bytes=4 << 20)
    yield world
    await world.close()


async def page(source, of, next_lsn, via=None, limit=100):
    return await source.read(via or of, Position(of, next_lsn), ALL_KEYS, limit)


# What is fetched


async def test_an_old_checkpoint_opens_only_the_segments_that_it_needs(tmp_path):
    async with served(tmp_path / "feed") as (url, asked):
        world = SegmentWorld(tmp_path / "feed", url=url)
        for number in range(30):
            await world.append(f"{number:02}")
            if number % 3 == 2:
                world.writer.roll()
        world.writer.split("0")
        live = (await listed(world.source)).ranges[0]
        asked.clear()
        changes = await drained(world.source, live.id, "0", from_lsn=23, limit=2)
        assert [change.path for change in changes] == [f"{number:02}" for number in range(22, 30)]
        segments = [path for path, *_ in asked if path != "index.json"]
        assert segments == ["segments/0/22.jsonl", "segments/0/25.jsonl", "segments/0/28.jsonl"]
        assert {response.status for path, _, response in asked if path == "index.json"} == {304}
        await world.close()


async def test_of_an_open_segment_only_the_news_are_fetched(tmp_path):
    async with served(tmp_path / "feed") as (url, asked):
        world = SegmentWorld(tmp_path / "feed", url=url, roll_bytes=4 << 20)
        for number in range(5):
            await world.append(f"{number}")
        assert len((await page(world.source, "0", 0)).changes) == 5
        size = (tmp_path / "feed/segments/0/1.jsonl").stat().st_size
        assert await page(world.source, "0", 6) == NotModified()
        await world.append("5")
        asked.clear()
        assert told((await page(world.source, "0", 6)).changes) == [("5", "upsert")]
        ((_, asked_range, response),) = (one for one in asked if one[0] != "index.json")
        assert (asked_range, response.status) == (f"bytes={size}-", 206)
        assert len((await page(world.source, "0", 3)).changes) == 4  # and who is behind gets all
        await world.close()


async def test_an_open_segment_that_is_not_there_yet_has_nothing(world):
    await world.append("a")
    (world.root / "segments/0/1.jsonl").rename(world.root / "aside")
    assert await page(world.source, "0", 0) == NotModified()
    (world.root / "aside").rename(world.root / "segments/0/1.jsonl")
    assert told((await page(world.source, "0", 0)).changes) == [("a", "upsert")]


async def test_only_whole_lines_count(world):
    await world.append("a")
    with (world.root / "segments/0/1.jsonl").open("ab") as file:
        file.write(b'{"lsn":2,"op":"delete",')
        file.flush()
        found = await page(world.source, "0", 0)
        assert (told(found.changes), found.next_lsn) == ([("a", "upsert")], 2)
        assert await page(world.source, "0", 2) == NotModified()
        file.write(b'"path":"a"}\n')
        file.flush()
        assert told((await page(world.source, "0", 2)).changes) == [("a", "delete")]


async def test_relative_urls_are_joined_to_the_base_of_the_index_or_to_the_feeds_own(tmp_path):
    for base, expected in ((None, "{url}/x.bin"), ("https://cdn.example/a/", "https://cdn.example/a/x.bin")):
        root = tmp_path / str(base is None)
        async with served(root) as (url, _):
            with SegmentWriter(root, base_url=base) as writer:
                writer.append([{"path": "a", "url": "x.bin"}])
            world = SegmentWorld(root, url=f"{url}/?sig=secret")
            found = await page(world.source, "0", 0)
            assert found.changes[0].entry.url.reveal() == expected.format(url=url)
            assert "secret" not in str((await listed(world.source)).feed)
            await world.close()


async def test_a_directory_without_a_base_needs_absolute_urls(tmp_path):
    with SegmentWriter(tmp_path) as writer:
        writer.append([{"path": "a", "url": "x.bin"}])
    with pytest.raises(HostileFeed, match="there is no base_url"):
        await page(SegmentSource(DirectoryFiles(tmp_path)), "0", 0)


async def test_a_key_of_its_own_decides_the_range(world):
    low, high = world.writer.split("0")
    world.writer.append(
        [{"path": "z", "url": "x", "key": "f" * 32}, {"path": "a", "url": "x", "key": "0" * 32}]
    )
    world.writer.append([{"op": "delete", "path": "z", "key": "f" * 32}])
    assert told(await drained(world.source, high, high)) == [("z", "upsert"), ("z", "delete")]
    assert told(await drained(world.source, low, low)) == [("a", "upsert")]


# What was dropped by age


async def test_who_begins_after_some_was_dropped_begins_with_the_oldest_that_is_kept(world):
    for name in "abc":
        await world.append(name)
        world.writer.roll()
    os.utime(world.root / "segments/0/1.jsonl", (1000, 1000))
    os.utime(world.root / "segments/0/3.jsonl", (1000, 1000))  # a younger one stands before it: it stays
    world.writer.retire(2000)
    assert not (world.root / "segments/0/1.jsonl").exists()
    assert (world.root / "segments/0/3.jsonl").exists()
    assert await world.source.info("0", "0") == Span(1, None)
    with pytest.raises(CheckpointExpired, match="from 1 to 1 were dropped"):
        await page(world.source, "0", 1)
    assert told(await drained(world.source, "0", "0", from_lsn=0)) == [("b", "upsert"), ("c", "upsert")]


async def test_a_range_is_dropped_from_only_after_its_ancestors(world):
    await world.append("a")
    low, high = world.writer.split("0")
    rows = [{"path": "b", "url": "x", "key": "0" * 32}, {"path": "c", "url": "x", "key": "f" * 32}]
    world.writer.append(rows)
    world.writer.roll()
    os.utime(world.root / f"segments/{low}/2.jsonl", (1000, 1000))
    world.writer.retire(2000)
    assert told(await drained(world.source, low, low)) == [("b", "upsert")]
    os.utime(world.root / "segments/0/1.jsonl", (1000, 1000))
    world.writer.retire(2000)
    assert {live.ancestors for live in (await listed(world.source)).ranges} == {frozenset("0")}
    assert await world.source.info("0", high) == Span(1, 1)
    assert await page(world.source, "0", 0, via=high) == Page((), 2)
    with pytest.raises(CheckpointExpired):
        await page(world.source, low, 2)
    assert await page(world.source, low, 0) == NotModified()
    assert told(await drained(world.source, high, high)) == [("c", "upsert")]


async def test_a_segment_that_is_dropped_under_a_readers_hands(tmp_path):
    world = SegmentWorld(tmp_path / "feed")
    await world.append("a")
    world.writer.roll()

    class SlowFiles(DirectoryFiles):
        async def tail(self, path, from_byte, most):
            await world.retire()
            return await super().tail(path, from_byte, most)

    with pytest.raises(CheckpointExpired):
        await page(SegmentSource(SlowFiles(world.root)), "0", 1)
    await world.close()


# A writer and a reader at the same time

WRITER = """
import sys, pathlib
from cfetch.plugins.follow.server.segments.writer import SegmentWriter
writer = SegmentWriter(pathlib.Path(sys.argv[1]), base_url="https://x.example/", roll_bytes=700)
for number in range(400):
    writer.append([{"path": f"{number:03}", "url": "x"}])
    live = writer.ranges()
    if number % 40 == 20:
        writer.split(max(live, key=lambda one: one.keys.high - one.keys.low).id)
    if number % 100 == 99:
        writer.merge(live[0].id, live[1].id)
writer.close()
"""


async def test_a_reader_follows_a_live_writer(tmp_path):
    """All changes come once, whatever the writer is just doing."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    try:
        while not (tmp_path / "index.json").exists():
            assert process.poll() is None
            await asyncio.sleep(0.01)
        source = SegmentSource(DirectoryFiles(tmp_path))
        next_lsn: dict[str, int] = {}
        seen = []
        while True:
            is_over = process.poll() is not None
            found = await listed(source)
            news = 0
            for live in found.ranges:
                for of in sorted({*live.ancestors, live.id}, key=int):
                    owned = await source.info(of, live.id)
                    if isinstance(owned, Gone):
                        break
                    at = next_lsn.setdefault(of, owned.first)
                    one = await source.read(live.id, Position(of, at), ALL_KEYS, 7)
                    if isinstance(one, Page):
                        next_lsn[of] = one.next_lsn
                        seen += [change.path for change in one.changes]
                        news += len(one.changes) or one.next_lsn != at
            if is_over and not news:
                break
        assert sorted(seen) == [f"{number:03}" for number in range(400)]
        assert len(found.ranges) == 7
    finally:
        process.wait()
    assert process.returncode == 0


# Hostile files


def closed_feed(
    root, rows=({"lsn": 0, "op": "upsert", "path": "a", "url": "https://x.example/a"},), **changes
):
    """A feed of one closed and one live range, with its index changed."""
    data = b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)
    segment = {
        "path": "segments/0/0.jsonl",
        "first": 0,
        "last": 9,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        **changes.pop("segment", {}),
    }
    parent = {
        "id": "0",
        "keys": "0" * 32 + "-",
        "ancestors": [],
        "first": 0,
        "last": 9,
        "kept_from": 0,
        "segments": [{key: value for key, value in segment.items() if value is not None}],
        **changes.pop("parent", {}),
    }
    child = {**parent, "id": "1", "ancestors": ["0"], "first": 10, "kept_from": 10, "segments": []}
    del child["last"]
    index = {"format": "cfetch.segments/1", "feed": "f", "ranges": [parent, child], **changes}
    (root / "segments/0").mkdir(parents=True)
    (root / "segments/0/0.jsonl").write_bytes(data)
    (root / "index.json").write_text(json.dumps(index))
    return SegmentSource(DirectoryFiles(root))


async def test_the_hand_made_feed_is_right(tmp_path):
    source = closed_feed(tmp_path)
    assert told(await drained(source, "1", "0")) == [("a", "upsert")]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "cfetch.segments/2"}, "not of the format"),
        ({"feed": "../x"}, "letters, digits"),
        ({"ranges": {}}, "must be an array"),
        ({"base_url": "file:///etc/"}, "scheme"),
        ({"more": 1}, "unknown key"),
        ({"parent": {"keys": "zz-"}}, "hex digits"),
        ({"parent": {"last": -2}}, "integer from 0"),
        ({"parent": {"last": True}}, "integer from 0"),
        ({"parent": {"id": "1"}}, "two ranges '1'"),
        ({"parent": {"kept_from": 12}}, "kept_from"),
        ({"parent": {"last": 8}}, "outside of what"),
        ({"segment": {"path": "segments/../../etc/passwd"}}, "'..' component"),
        ({"segment": {"path": "/etc/passwd"}}, "absolute"),
        ({"segment": {"path": "elsewhere/0.jsonl"}}, "does not begin with"),
        ({"segment": {"sha256": "00"}}, "64 hex digits"),
        ({"segment": {"last": None, "sha256": None, "bytes": None}}, "outside of what"),
        ({"segment": {"bytes": None}}, "no bytes"),
        ({"segment": {"bytes": 65 << 20}}, "more than"),
        ({"segment": {"first": 10, "last": 9}}, "before it begins"),
    ],
)
async def test_an_index_that_breaks_the_rules_is_refused(tmp_path, changes, says):
    with pytest.raises(HostileFeed, match=says):
        await closed_feed(tmp_path, **changes).ranges(None)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", '{"format": 1}', "[" * 100_000], ids=range(6))
async def test_an_index_that_is_none_is_refused(tmp_path, text):
    source = closed_feed(tmp_path)
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(HostileFeed):
        await source.ranges(None)


GOOD = {"lsn": 3, "op": "upsert", "path": "a", "url": "https://x.example/a"}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{**GOOD, "lsn": "3"}], "no change with an LSN"),
        ([{**GOOD, "lsn": 10}], "beyond its end"),
        ([GOOD, GOOD], "out of order"),
        ([GOOD, {**GOOD, "lsn": 2}], "out of order"),
        ([{**GOOD, "op": "rename"}], "op"),
        ([{**GOOD, "path": "../a"}], "'..' component"),
        ([{**GOOD, "path": ".cfetch/x"}], "state directory"),
        ([{**GOOD, "url": "file:///etc/passwd"}], "scheme"),
        ([{**GOOD, "url": None, "size": 1}], "url"),
        ([{**GOOD, "size": -2}], "size"),
        ([{**GOOD, "key": "0" * 31}], "key"),
        ([{**GOOD, "shell": "rm"}], "unknown key"),
        ([{"lsn": 3, "op": "delete", "path": "a", "url": "https://x.example"}], "delete"),
        ([b'{"lsn":3,"op":"delete","op":"delete","path":"a"}\n'], "twice"),
        ([b"\n"], "no change"),
        ([b"\xff\n"], "no change"),
        ([b'{"lsn":3}'], "within a line"),
    ],
)
async def test_rows_that_break_the_rules_are_refused(tmp_path, rows, says):
    source = closed_feed(tmp_path, rows)
    with pytest.raises(HostileFeed, match=says):
        await drained(source, "1", "0")


async def test_a_closed_segment_that_was_changed_is_refused(tmp_path):
    source = closed_feed(tmp_path)
    file = tmp_path / "segments/0/0.jsonl"
    file.write_bytes(file.read_bytes().replace(b"x.example", b"y.example"))
    with pytest.raises(HostileFeed, match="sha256"):
        await page(source, "0", 0, via="1")
    file.write_bytes(b"{}")
    with pytest.raises(SourceError, match="shorter"):
        await page(source, "0", 0, via="1")
    file.unlink()
    with pytest.raises(SourceError, match="not there"):
        await page(source, "0", 0, via="1")


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory"])
async def test_what_is_no_file_of_the_feed_is_not_read(tmp_path, kind):
    source = closed_feed(tmp_path / "feed")
    file = tmp_path / "feed/segments/0/0.jsonl"
    file.unlink()
    if kind == "symlink":
        (tmp_path / "secret").write_bytes(b"x" * 100)
        file.symlink_to(tmp_path / "secret")
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises((Refused, LocalFault)):
        await page(source, "0", 0, via="1")


async def test_a_deleted_feed_is_no_feed_without_changes(tmp_path):
    source = closed_feed(tmp_path)
    await source.ranges(None)
    (tmp_path / "index.json").unlink()
    with pytest.raises(FeedReplaced, match="deleted"):
        await source.ranges(None)
    with pytest.raises(Refused, match=r"no index\.json"):
        await SegmentSource(DirectoryFiles(tmp_path)).ranges(None)


async def test_what_a_range_does_not_archive_is_not_had_from_it(tmp_path):
    source = closed_feed(tmp_path)
    assert isinstance(await page(source, "2", 0, via="1"), Gone)
    assert isinstance(await source.info("1", "0"), Gone)


def test_an_index_is_read_as_it_was_written(tmp_path):
    closed_feed(tmp_path)
    index = parse_index((tmp_path / "index.json").read_bytes())
    assert parse_index(index.encode()) == index


@pytest.mark.parametrize("sleeps", [(), (0, 1, 2, 3, 4, 5), (1, 2, 3)], ids=["awake", "late", "asleep"])
async def test_the_reader_follows_through_splits_and_merges(tmp_path, sleeps):
    world = SegmentWorld(tmp_path / "feed")
    await follow_through_splits_and_merges(world, tmp_path / "checkpoint", sleeps)
    await world.close()


async def test_a_segment_closed_with_half_a_line_behind_it_is_read_over_http(tmp_path):
    """What a killed writer leaves."""
    data = json.dumps({**GOOD, "lsn": 9}).encode() + b"\n"
    closed = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    await closed_feed(tmp_path, [data, b'{"lsn":10,"op'], segment=closed).close()
    async with served(tmp_path) as (url, _):
        web = Web(HttpTransport(connect_timeout_s=5.0), SystemClock(), lambda: 0.0)
        source = SegmentSource(UrlFiles(SecretUrl(url), web))
        assert told(await drained(source, "1", "0")) == [("a", "upsert")]
        await source.close()
