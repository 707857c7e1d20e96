"""The reference feed server: the files that it serves, what it refuses, and who may split."""

import asyncio
import hashlib
import json
import os

import aiohttp
import pytest

from cfetch.base.errors import UsageError
from cfetch.manifest.url_completion import make_relative_url
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.plugins.follow.server.handler import CHUNK_BYTES, _Descriptor
from cfetch.plugins.follow.source import Page
from cfetch.testing.feed import ODD_NAMES, drained
from tests.plugins.follow.http_world import HttpWorld

BODY = bytes(range(256)) * 10
TAG = f'"{hashlib.sha256(BODY).hexdigest()}"'


@pytest.fixture
async def world(tmp_path):
    world = await HttpWorld().start(tmp_path / "tree")
    (world.root / "a b.bin").write_bytes(BODY)
    await world.scan()
    yield world
    await world.close()


async def asked(world, target, method="GET", body=None, **fields):
    """Status, headers and body."""
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.request(method, world.url + target, headers=fields, data=body) as reply,
    ):
        return reply.status, reply.headers, await reply.read()


# --- files


async def test_a_link_of_a_change_brings_the_file(world):
    """Whatever its name is."""
    for name in ODD_NAMES:
        await world.append(name)
    changes = await drained(world.source, "0", "0")
    assert len(changes) == len(ODD_NAMES) + 1
    for change in changes:
        target = change.entry.url.reveal().removeprefix(world.url)
        status, fields, body = await asked(world, target)
        assert status == 200
        assert hashlib.sha256(body).hexdigest() == change.entry.digest.hex
        assert len(body) == change.entry.size_bytes
        assert fields["ETag"] == f'"{change.entry.digest.hex}"'


@pytest.mark.parametrize(
    ("wanted", "status", "first", "end"),
    [
        ("bytes=0-", 206, 0, 2560),
        ("bytes=100-", 206, 100, 2560),
        ("bytes=100-199", 206, 100, 200),
        ("bytes=2559-", 206, 2559, 2560),
        ("bytes=100-9999", 206, 100, 2560),
        ("bytes=-10", 206, 2550, 2560),
        ("bytes=-9999", 206, 0, 2560),
        ("bytes=2560-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=200-100", 416, 0, 0),
        ("bytes=-", 200, 0, 2560),
        ("bytes=0-1,5-6", 200, 0, 2560),
        ("lines=0-1", 200, 0, 2560),
    ],
)
async def test_ranges_of_a_file(world, wanted, status, first, end):
    found, fields, body = await asked(world, "files/a%20b.bin", Range=wanted)
    assert found == status
    assert body == BODY[first:end]
    assert fields["ETag"] == TAG
    if status == 206:
        assert fields["Content-Range"] == f"bytes {first}-{end - 1}/2560"
    elif status == 416:
        assert fields["Content-Range"] == "bytes */2560"


async def test_conditions_of_a_file(world):
    """If-Range with another tag brings the whole; If-None-Match with this one nothing."""
    target = "files/a%20b.bin"
    resumed = {"Range": "bytes=5-"}
    assert (await asked(world, target, **resumed, **{"If-Range": TAG}))[0] == 206
    assert (await asked(world, target, **resumed, **{"If-Range": '"x"'}))[0::2] == (200, BODY)
    assert (await asked(world, target, **{"If-None-Match": TAG}))[0::2] == (304, b"")
    status, fields, body = await asked(world, target, "HEAD")
    assert (status, fields["Content-Length"], fields["ETag"], body) == (200, "2560", TAG, b"")


async def test_a_large_file_comes_whole(world):
    content = os.urandom(3 * CHUNK_BYTES + 17)
    (world.root / "large").write_bytes(content)
    await world.scan()
    assert (await asked(world, "files/large"))[2] == content


async def test_a_file_that_is_cut_while_it_is_sent_is_cut_for_all_to_see(world):
    """Not filled up, and not ended as if it were whole."""
    (world.root / "large").write_bytes(bytes(64 << 20))
    await world.scan()
    async with (
        aiohttp.ClientSession(read_bufsize=1 << 10) as session,
        session.get(f"{world.url}files/large") as reply,
    ):
        assert reply.status == 200
        os.truncate(world.root / "large", 1 << 20)
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()


async def test_a_version_that_was_replaced_is_gone(world):
    """Its link never brings the bytes of another."""
    target = f"files/a%20b.bin?sha256={TAG[1:-1]}"
    assert (await asked(world, target))[2] == BODY
    (world.root / "a b.bin").write_bytes(BODY[::-1])
    assert (await asked(world, target))[0] == 410
    await world.scan()
    assert (await asked(world, target))[0] == 410
    (world.root / "a b.bin").write_bytes(b"short")
    assert (await asked(world, "files/a%20b.bin"))[0] == 410
    (world.root / "a b.bin").unlink()
    assert (await asked(world, "files/a%20b.bin"))[0] == 410
    await world.scan()
    assert (await asked(world, "files/a%20b.bin"))[0] == 404


async def test_a_small_file_that_was_touched_is_known_by_its_bytes(world):
    """The announced version is served at once, without a scan; other bytes are another version."""
    os.utime(world.root / "a b.bin", (1, 1))
    assert (await asked(world, "files/a%20b.bin"))[0::2] == (200, BODY)
    (world.root / "a b.bin").write_bytes(BODY[::-1])
    assert (await asked(world, "files/a%20b.bin"))[0] == 410


async def test_a_large_file_that_was_touched_is_refused_alone(world):
    """With a status that says nothing about other files, until a scan has compared its bytes."""
    (world.root / "large").write_bytes(bytes(CHUNK_BYTES + 1))
    await world.scan()
    os.utime(world.root / "large", (1, 1))
    assert (await asked(world, "files/large"))[0] == 409
    await world.scan()
    assert (await asked(world, "files/large"))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "secret",
        "../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        ".cfetch-feed/feed.sqlite",
        "link",
        "dir/secret",
        "%00",
        "",
        "x" * 20_000,
    ],
)
async def test_nothing_but_what_was_published_is_served(world, path):
    """Neither outside of the directory, nor through symlinks, nor its own database."""
    (world.root.parent / "secret").write_text("CANARY")
    (world.root / "link").symlink_to("../secret")
    (world.root / "dir").symlink_to("..")
    await world.scan()
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(f"GET /files/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.split(b" ")[1] == b"404"
    assert b"CANARY" not in answer


async def test_a_path_that_became_a_symlink_is_not_followed(world):
    (world.root.parent / "secret").write_bytes(BODY)
    (world.root / "a b.bin").unlink()
    (world.root / "a b.bin").symlink_to("../secret")
    assert (await asked(world, "files/a%20b.bin"))[0] == 410


async def test_a_path_as_long_as_they_come(world):
    """4,000 bytes, each percent-encoded."""
    name = "/".join(["ü" * 99] * 20)
    deep = world.root
    for part in name.split("/")[:-1]:
        deep = deep / part
        deep.mkdir()
    (deep / name.split("/")[-1]).write_bytes(BODY)
    await world.scan()
    assert (await asked(world, "files/" + make_relative_url(name)))[0] == 200


# --- questions


@pytest.mark.parametrize(
    "wrong",
    [
        {"via": None},
        {"feed": None},
        {"of": None},
        {"keys": None},
        {"keys": "0-1"},
        {"limit": "0"},
        {"limit": "-1"},
        {"limit": None},
        {"next_lsn": "x"},
        {"next_lsn": "-1"},
        {"next_lsn": str(2**63)},
        {"next_lsn": "1" * 5000},
        {"next_lsn": "٣"},
        {"of": "7"},
    ],
)
async def test_a_question_that_is_none(world, wrong):
    """400, and words that name the parameter."""
    good = {"feed": world.store.feed, "via": "0", "of": "0", "next_lsn": "0", "limit": "5", "keys": "0" * 32}
    good["keys"] += "-"
    async with aiohttp.ClientSession() as session:
        asked = {name: value for name, value in (good | wrong).items() if value is not None}
        async with session.get(world.url + "read", params=asked) as reply:
            assert reply.status == 400
            document = await reply.json()
    assert document["schema"] == "cfetch.feed/1"
    assert next(iter(wrong)) in document["error"] or "does not archive" in document["error"]


async def test_another_feed_of_the_name(world):
    for what in (
        "info?feed=x&via=0&of=0",
        "read?feed=x&via=0&of=0&next_lsn=0&limit=1&keys=" + "0" * 32 + "-",
    ):
        status, _, body = await asked(world, what)
        assert (status, json.loads(body)["code"]) == (410, 1000)


async def test_without_a_condition_nothing_new_is_an_empty_page(world):
    target = f"read?feed={world.store.feed}&via=0&of=0&next_lsn=1&limit=1&keys={'0' * 32}-"
    status, _, body = await asked(world, target)
    assert (status, json.loads(body)["changes"], json.loads(body)["next_lsn"]) == (200, [], 1)
    assert (await asked(world, target, **{"If-None-Match": '"1"'}))[0] == 304


async def test_a_page_is_never_longer_than_the_server_bears(world):
    """However much is asked for."""
    page = await world.source.read("0", Position("0", 0), ALL_KEYS, 10**9)
    assert isinstance(page, Page)


# --- splitting


async def test_only_this_machine_may_split_and_no_web_page(world):
    """A form sends no JSON, and a proxy says for whom it asks."""
    good = {"Content-Type": "application/json"}
    assert (await asked(world, "split", "POST"))[0] == 415
    assert (await asked(world, "split", "POST", **{"Content-Type": "text/plain"}))[0] == 415
    for name in ("Forwarded", "X-Forwarded-For"):
        assert (await asked(world, "split", "POST", **good, **{name: "for=1.2.3.4"}))[0] == 403
    assert (await asked(world, "split", "GET", **good))[0] == 405
    assert [one.id for one in world.store.list_ranges()[1]] == ["0"]
    assert (await asked(world, "split", "POST", **good))[0] == 200
    assert (await asked(world, "merge?range=1", "POST", **good))[0] == 400
    assert (await asked(world, "merge?range=1&range=1", "POST", **good))[0] == 409
    assert (await asked(world, "merge?range=1&range=2", "POST"))[0] == 415


async def test_a_split_that_cannot_be_is_an_error(world):
    with pytest.raises(UsageError, match="no live range 7"):
        await world.source.split("7")
    assert await world.source.split(None) == ("0", ("1", "2"))


async def test_a_database_that_fails_is_503(world):
    """And no traceback."""
    world.store._database._reader.close()
    status, _, body = await asked(world, "")
    assert status == 503
    assert "fails" in json.loads(body)["error"]


def test_a_file_that_is_opened_too_late_is_closed():
    """The request has ended meanwhile, so nobody else would close it."""
    with _Descriptor() as opened:
        pass
    descriptor = os.open(os.devnull, os.O_RDONLY)
    opened.put(descriptor)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)
