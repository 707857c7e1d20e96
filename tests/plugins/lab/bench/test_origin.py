"""The origin on the wire: framing, ranges, keep-alive, pipelining, back-pressure."""

import asyncio
import hashlib

import pytest

from cfetch.plugins.lab.bench.connection import PIECE_BYTES
from cfetch.plugins.lab.bench.content import BLOCK_BYTES, Content, Fixed, RealFile, Synthetic
from cfetch.plugins.lab.bench.origin import Origin
from tests.plugins.lab.bench.raw import Raw, get

BIG = Synthetic("big", BLOCK_BYTES + 3_000_000)
A = Synthetic("a.bin", 5000)
FILES: dict[str, Content | bytes] = {"a.bin": A, "empty": Fixed(b""), "big": BIG, "plain": b"0123456789"}


@pytest.fixture
async def origin():
    async with Origin(FILES) as running:
        yield running


async def test_a_whole_file(origin):
    """200 with exact length, a strong ETag and the very bytes."""
    reply = await get(origin.url, "a.bin")
    assert reply.status == 200
    assert reply.length == 5000
    assert reply.headers["etag"] == A.etag
    assert reply.headers["accept-ranges"] == "bytes"
    assert hashlib.sha256(reply.body).hexdigest() == A.sha256()


async def test_a_file_larger_than_block_piece_and_buffers(origin):
    """Many pieces arrive in order."""
    reply = await get(origin.url, "big")
    assert hashlib.sha256(reply.body).hexdigest() == BIG.sha256()


async def test_a_range(origin):
    """206 with Content-Range and only those bytes."""
    reply = await get(origin.url, "plain", "Range: bytes=3-6")
    assert (reply.status, reply.body) == (206, b"3456")
    assert reply.headers["content-range"] == "bytes 3-6/10"


async def test_if_range_with_another_etag_gets_the_whole(origin):
    """A changed file is never mixed with an old part."""
    reply = await get(origin.url, "plain", "Range: bytes=3-", 'If-Range: "old"')
    assert (reply.status, reply.body) == (200, b"0123456789")
    assert "content-range" not in reply.headers


async def test_if_range_with_the_etag_resumes(origin):
    """The validator that was given out is accepted back."""
    etag = (await get(origin.url, "plain")).headers["etag"]
    reply = await get(origin.url, "plain", "Range: bytes=8-", f"If-Range: {etag}")
    assert (reply.status, reply.body) == (206, b"89")


async def test_a_range_beyond_the_end(origin):
    """416 states the size."""
    reply = await get(origin.url, "plain", "Range: bytes=10-")
    assert (reply.status, reply.headers["content-range"]) == (416, "bytes */10")


async def test_an_empty_file_keeps_the_connection(origin):
    """Length 0 is a whole reply, and the next one follows."""
    async with Raw(origin.url) as raw:
        assert (await raw.get("empty")).length == 0
        assert (await raw.get("plain")).body == b"0123456789"


async def test_head_has_the_length_and_no_body(origin):
    """After a HEAD the very next bytes are the next reply."""
    async with Raw(origin.url) as raw:
        assert (await raw.get("a.bin", method="HEAD")).length == 5000
        assert (await raw.get("plain")).body == b"0123456789"
    assert [(r.method, r.n) for r in origin.requests] == [("HEAD", 0), ("GET", 1)]


async def test_keep_alive_uses_one_connection(origin):
    """Ten requests, one connection id; another client has another."""
    async with Raw(origin.url) as raw:
        for _ in range(10):
            await raw.get("plain")
    await get(origin.url, "plain")
    assert [r.connection_id for r in origin.requests] == [1] * 10 + [2]
    assert [r.n for r in origin.requests] == list(range(1, 12))
    assert origin.connections == 2


async def test_pipelined_requests_are_answered_in_order(origin):
    """Many requests in one write, large and small, come back whole and in order."""
    async with Raw(origin.url) as raw:
        for name in ("plain", "big", "empty", "a.bin"):
            raw.send(name)
        replies = [await raw.reply() for _ in range(4)]
    assert [reply.length for reply in replies] == [10, BIG.size_bytes, 0, 5000]
    assert hashlib.sha256(replies[1].body).hexdigest() == BIG.sha256()


async def test_a_head_that_arrives_byte_by_byte(origin):
    """Requests may be split anywhere."""
    async with Raw(origin.url) as raw:
        for byte in b"GET /plain HTTP/1.1\r\nHost: x\r\n\r\n":
            raw.writer.write(bytes([byte]))
            await raw.writer.drain()
            await asyncio.sleep(0)
        assert (await raw.reply()).body == b"0123456789"


@pytest.mark.parametrize("how", [{"version": "HTTP/1.0"}, {"fields": ("Connection: close",)}])
async def test_close_when_the_client_asks(origin, how):
    """The reply says close, and the connection does."""
    async with Raw(origin.url) as raw:
        reply = await raw.get("plain", *how.get("fields", ()), version=how.get("version", "HTTP/1.1"))
        assert reply.headers["connection"] == "close"
        assert reply.body == b"0123456789"
        assert await raw.closed()


async def test_unknown_paths_are_404_and_keep_the_connection(origin):
    """A miss is not the end of the connection."""
    async with Raw(origin.url) as raw:
        assert (await raw.get("nowhere")).status == 404
        assert (await raw.get("plain")).status == 200


async def test_queries_and_escapes_reach_the_journal_but_not_the_lookup():
    """A presigned URL finds its file; path and query are listed apart."""
    async with Origin({"a b": b"x"}) as origin:
        assert (await get(origin.url, "a%20b?sig=1", "Range: bytes=0-0", "X-Y: z")).status == 206
    request = origin.requests[0]
    assert (request.path, request.query, request.range) == ("a b", "sig=1", "bytes=0-0")
    assert request.headers["x-y"] == "z"


@pytest.mark.parametrize(
    ("raw_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST /plain HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET /plain HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, 431),
    ],
)
async def test_bad_requests_are_refused_and_closed(origin, raw_bytes, status):
    """Nothing after a request that was not understood is taken for one."""
    async with Raw(origin.url) as raw:
        raw.writer.write(raw_bytes)
        assert (await raw.reply()).status == status
        assert await raw.closed()
    assert origin.requests == []


async def test_a_reader_that_stops_holds_only_a_bounded_buffer():
    """Of 1 GiB, a client that does not read makes the origin keep at most a few pieces."""
    async with Origin({"huge": Synthetic("huge", 1 << 30)}) as origin, Raw(origin.url) as raw:
        raw.send("huge")
        await raw.head()
        raw.reader._transport.pause_reading()
        (connection,) = origin.live
        before = -1
        assert connection._body is not None
        while (position := connection._body.pos) != before:
            before = position
            await asyncio.sleep(0.05)
        assert connection._transport.get_write_buffer_size() <= 2 * PIECE_BYTES
        assert position < 64 << 20


@pytest.mark.parametrize("size", [3000, 300_000])
async def test_real_files_are_served(tmp_path, size):
    """A file on disk arrives as it is; one that vanished breaks the connection and never looks whole."""
    path = tmp_path / "f"
    path.write_bytes(b"abc" * (size // 3))
    async with Origin({"f": RealFile.at(path)}) as origin:
        assert (await get(origin.url, "f")).body == path.read_bytes()
        path.unlink()
        async with Raw(origin.url) as raw:
            raw.send("f")
            assert size > len(await raw.reader.read())


async def test_closing_ends_every_connection():
    """Leaving the block leaves no client waiting."""
    async with Origin({"huge": Synthetic("huge", 1 << 30)}, pace_bps=1000.0) as origin:
        raw = await Raw(origin.url).__aenter__()
        raw.send("huge")
        await raw.head()
    assert len(await raw.reader.read()) < 1 << 20
    raw.writer.transport.abort()


async def test_without_a_journal_nothing_is_kept():
    """A million requests leave no list behind; faults are still counted."""
    async with Origin({"f": b"x"}, journal=False) as origin:
        await get(origin.url, "f")
    assert origin.requests == []
