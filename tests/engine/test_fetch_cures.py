"""What a server is asked, request by request, once it is known how it is best asked."""

import random

import pytest

from cfetch.base.clock import RunClock, SystemClock
from cfetch.base.errors import RangeRefused, Transient
from cfetch.base.secret import SecretUrl
from cfetch.engine.attempt import Assignment, Attempt
from cfetch.engine.fetching import Fetching
from cfetch.storage.directory import Directory
from cfetch.storage.part import Part
from cfetch.straggler.ways_to_ask import WayToAsk
from cfetch.wire.http import HttpTransport
from tests.engine.drive import entry_of
from tests.wire.raw_server import RawServer, reply

DATA = random.Random("cures").randbytes(700_000)
SIZE = len(DATA)
TAG = '"v1"'


@pytest.fixture
async def transport():
    made = HttpTransport(connect_timeout_s=5.0)
    yield made
    await made.close()


@pytest.fixture
def new_part(tmp_path):
    volume = Directory(tmp_path / "to", "attempts/i/0")
    parts: list[Part] = []

    def make():
        parts.append(Part(volume, entry_of(len(parts), f"f{len(parts)}", DATA)))
        return parts[-1]

    yield make
    for part in parts:
        part.discard()
    volume.close()


def partial(start, end, *, tag=TAG):
    etag = () if tag is None else (f"ETag: {tag}",)
    fields = (*etag, f"Content-Range: bytes {start}-{end - 1}/{SIZE}")
    return reply(DATA[start:end], *fields, status="206 Partial Content")


WHOLE = reply(DATA, f"ETag: {TAG}")


async def bring(part, server, transport, cure, *, size_bytes=SIZE):
    """One attempt at a whole file."""
    run = Attempt(Assignment(entry_of(0, "f0", DATA), 1), 0.0, from_byte=0, size_bytes=size_bytes)
    fetching = Fetching(transport, RunClock(SystemClock()), None)
    await fetching.fetch(run, part, url=SecretUrl(server.url), secrets={}, fresh=False, cure=cure)
    return run


@pytest.mark.parametrize("size_bytes", [SIZE, None])
async def test_a_file_is_asked_for_in_ranges_one_after_the_other(new_part, transport, size_bytes):
    """Over one connection, under the ETag of the first; also where only the first reply tells the size."""
    cuts = [(0, 300_000), (300_000, 600_000), (600_000, SIZE)]
    async with RawServer(*(partial(*cut) for cut in cuts)) as server:
        run = await bring(
            part := new_part(), server, transport, WayToAsk(chunk_bytes=300_000), size_bytes=size_bytes
        )
        assert [server.fields(n)["range"] for n in range(3)] == [f"bytes={a}-{b - 1}" for a, b in cuts]
        assert [server.fields(n).get("if-range") for n in range(3)] == [None, TAG, TAG]
        assert (len(server.heads), server.connections) == (3, 1)
    assert (run.from_byte, run.received, part.position) == (0, SIZE, SIZE)
    assert part.verify(SIZE, None) == "size"


async def test_ranges_of_different_versions_are_not_joined(new_part, transport):
    """The second range is refused, and the part is empty."""
    async with RawServer(partial(0, 300_000), partial(300_000, 600_000, tag='"v2"')) as server:
        with pytest.raises(RangeRefused):
            await bring(part := new_part(), server, transport, WayToAsk(chunk_bytes=300_000))
    assert part.position == 0


@pytest.mark.parametrize("size_bytes", [SIZE, None])
@pytest.mark.parametrize("tag", [None, 'W/"v1"'])
async def test_a_file_that_nothing_identifies_is_asked_for_as_a_whole(new_part, transport, tag, size_bytes):
    """Its ranges might be of two versions; the first one alone is not the file."""
    async with RawServer(partial(0, 300_000, tag=tag), reply(DATA), then=("keep", "keep")) as server:
        cure = WayToAsk(chunk_bytes=300_000)
        run = await bring(part := new_part(), server, transport, cure, size_bytes=size_bytes)
        assert [server.fields(n).get("range") for n in range(len(server.heads))] == ["bytes=0-299999", None]
    assert (run.received, part.position, part.verify(SIZE, None)) == (SIZE, SIZE, "size")


@pytest.mark.parametrize("size_bytes", [SIZE, None])
async def test_a_server_without_ranges_is_taken_at_its_word(new_part, transport, size_bytes):
    """It sends the whole file where the beginning was asked for."""
    async with RawServer(WHOLE) as server:
        cure = WayToAsk(chunk_bytes=300_000)
        run = await bring(part := new_part(), server, transport, cure, size_bytes=size_bytes)
        assert len(server.heads) == 1
    assert (run.received, part.position, part.verify(SIZE, None)) == (SIZE, SIZE, "size")


@pytest.mark.parametrize("size_bytes", [SIZE, None])
@pytest.mark.parametrize("chunk_bytes", [300_000, 400_000], ids=["others follow", "the last"])
@pytest.mark.parametrize("second", [WHOLE, reply(b"other", 'ETag: "v2"')], ids=["as long", "shorter"])
async def test_a_whole_file_behind_a_range_is_another_version(
    new_part, transport, second, chunk_bytes, size_bytes
):
    """It is refused, and the part is empty; the size of the old version is not held against it."""
    cure = WayToAsk(chunk_bytes=chunk_bytes)
    async with RawServer(partial(0, chunk_bytes), second) as server:
        with pytest.raises(RangeRefused):
            await bring(part := new_part(), server, transport, cure, size_bytes=size_bytes)
    assert part.position == 0


async def test_crumbs_of_a_range_are_no_way_to_bring_a_file(new_part, transport):
    """Such a server would be asked once for each byte."""
    async with RawServer(partial(0, 300_000), partial(300_000, 300_001)) as server:
        with pytest.raises(Transient, match="up to byte 300001"):
            await bring(part := new_part(), server, transport, WayToAsk(chunk_bytes=300_000))
        assert len(server.heads) == 2
    assert part.position == 300_001


async def test_a_file_not_larger_than_a_range_is_asked_for_as_ever(new_part, transport):
    """No range ends before the first byte of an empty file."""
    async with RawServer(reply(b"", f"ETag: {TAG}"), WHOLE) as server:
        await bring(empty := new_part(), server, transport, WayToAsk(chunk_bytes=SIZE), size_bytes=0)
        await bring(part := new_part(), server, transport, WayToAsk(chunk_bytes=SIZE))
        assert all("range" not in server.fields(n) for n in range(2))
    assert (empty.position, part.position) == (0, SIZE)


async def test_a_cold_object_is_asked_for_one_byte_first(new_part, transport):
    """And then as any other, over the same connection."""
    async with RawServer(partial(0, 1), WHOLE) as server:
        run = await bring(part := new_part(), server, transport, WayToAsk(warms=True))
        assert server.fields(0)["range"] == "bytes=0-0"
        assert "range" not in server.fields(1)
        assert (len(server.heads), server.connections) == (2, 1)
    assert (run.received, part.position) == (SIZE, SIZE)


async def test_a_worn_connection_is_left(new_part, transport):
    """Each has two replies, and the third file comes over the next one."""
    async with RawServer(WHOLE) as server:
        cure = WayToAsk(retire_bytes=2 * SIZE)
        runs = [await bring(new_part(), server, transport, cure) for _ in range(4)]
        assert (len(server.heads), server.connections) == (4, 2)
    assert [run.carried_bytes for run in runs] == [0, SIZE, 0, SIZE]


async def test_a_connection_that_was_worn_before_that_was_known_is_left_at_once(new_part, transport):
    """What it has begun to send is dropped, and the same is asked over a new one."""
    async with RawServer(WHOLE) as server:
        for cure in (WayToAsk(), WayToAsk(), WayToAsk(retire_bytes=SIZE + 1)):
            run = await bring(part := new_part(), server, transport, cure)
        assert (len(server.heads), server.connections) == (4, 2)
    assert (run.carried_bytes, part.position) == (0, SIZE)
