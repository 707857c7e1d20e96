"""One request and its reply: what comes in any pieces, what is bounded, which connection is used again."""

import asyncio
from typing import Any, ClassVar

import pytest

from cfetch.base.errors import Refused, SourceError, Transient
from cfetch.base.secret import SecretUrl
from cfetch.wire.body_buffer import Buffers
from cfetch.wire.exchange import Exchange, PooledConnection
from cfetch.wire.http import HttpTransport
from cfetch.wire.reply_parser import LARGE_BYTES, MANY_PIECES, MAX_BARE_BYTES, MAX_HEADERS, ReplyParser
from cfetch.wire.transport import LostCount
from tests.wire.raw_server import RawServer, reply

HALF_BYTES = 3 * LARGE_BYTES
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Wire:
    """A transport that keeps what is written, and the pool's side of it: ``kept`` is its verdict."""

    def __init__(self, ahead_bytes=1 << 14):
        self.calls = []
        self.coming = b""
        self.kept: Any = None
        self.buffers = Buffers(HALF_BYTES, ahead_bytes)
        self.protocol = PooledConnection(asyncio.get_running_loop(), self.buffers)
        transport: Any = self
        self.protocol.connection_made(transport)
        self.protocol.keep, self.protocol.let_go = self.keep, self.close

    def get_extra_info(self, name):
        return ("::1", 80, 0, 0)

    def is_closing(self):
        return False

    def write(self, data):
        self.calls.append(data)

    def pause_reading(self):
        self.calls.append("pause")

    def resume_reading(self):
        self.calls.append("resume")

    def keep(self, protocol):
        assert protocol is self.protocol
        self.kept = True

    def close(self):
        self.kept = False

    def send(self, data):
        """Let ``data`` arrive, in as few reads as there is room for; without room the rest comes later."""
        self.coming += data
        while self.coming and (room := self.protocol.get_buffer(-1)):
            piece, self.coming = self.coming[: len(room)], self.coming[len(room) :]
            room[: len(piece)] = piece
            self.protocol.buffer_updated(len(piece))

    def ask(self, *, has_body=True):
        return Exchange(self.protocol, b"GET", has_body=has_body)


async def play(pieces, *, has_body=True, lost: Any = False):
    """What becomes of a reply that comes in ``pieces``: status, headers, body or error, and whether kept."""
    wire = Wire()
    reply = wire.ask(has_body=has_body)
    for piece in pieces:
        if wire.kept is None:
            wire.send(piece)
    if lost is not False and wire.kept is None:
        wire.protocol.connection_lost(lost)
    body: Any = b""
    try:
        async with asyncio.timeout(60):
            await reply.wait_for_head()
            while data := await reply.read():
                body += data
    except (SourceError, OSError, ValueError) as error:
        body = type(error)
    except Exception:
        body = "no reply"
    return reply.status, list(reply.headers.items()), body, wire.kept


REPLIES = [
    (reply(b"body"), b"body", True),
    (reply(b"", status="204 No", length=False), b"", True),
    (reply(b"", "Content-Length: 9", status="304 Not", length=False), b"", True),
    (b"HTTP/1.1 100 C\r\nX-Early: 1\r\n\r\nHTTP/1.1 103\r\nLink: x\r\n\r\n" + reply(b"body"), b"body", True),
    (b"HTTP/1.1 103 H\r\n" + b"X-Early: 1\r\n" * 100 + b"\r\n" + reply(b"a", *["X: y"] * 100), b"a", True),
    (CHUNKED + b"1\r\na\r\n02;x=y\r\nbc\r\n0\r\nX-Late: 1\r\n\r\n", b"abc", True),
    (b"HTTP/1.1 200 OK\nContent-Length: 1\nX-A:\n\na", b"a", True),
    (reply(b"a", "X-Folded: a\r\n b", "X-Space: \t b \t"), b"a", True),
    (reply(b"a", "Connection: close"), b"a", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", b"a", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na", b"a", True),
    (b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", b"", False),
    (reply(b"a", "Upgrade: h2c", "Connection: Upgrade"), b"a", True),
    (OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", b"a", True),
    (OK + b"X: y\r\ncontent-length: 1, 1\r\nZ: 1\r\n\r\na", b"a", True),
    (OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", b"a", False),
    (OK + b"Content-Length: 6,06\r\nContent-Length: 6\r\n\r\nabcdef", b"abcdef", True),
    (CHUNKED + b"2\na\n\n2;x=y\n\nb\n0\nX: y\n\n", b"a\n\nb", True),
    (CHUNKED + b"1\na\r\n1\r\nb\n0\r\n\n", b"ab", True),
    (b"HTTP/1.1 103 E\r\nX: y\r\n\r\n" + CHUNKED + b"1\na\n0\n\n", b"a", True),
    (CHUNKED + b"1\na\nzz\n", Transient, False),
    (CHUNKED + b"1\nab\n", Transient, False),
    (OK + b"X-A: a\0b\r\n\r\n", "no reply", False),
    (reply(b"a", *["X: y"] * (MAX_HEADERS - 1)), b"a", True),
    (OK + b"X: y\r\n" * (MAX_HEADERS + 1) + b"\r\n", "no reply", False),
    (b"HTTP/1.1 000 OK\r\n\r\n", "no reply", False),
    (b"HTTP/1.1 099 OK\r\n\r\n", "no reply", False),
    (b"SSH-2.0\r\n", "no reply", False),
    (CHUNKED + b"zz\r\n", Transient, False),
    (CHUNKED + b"1\r\nabc\r\n", Transient, False),
    (CHUNKED + b"0\r\n" + b"X: y\r\n" * MAX_HEADERS + b"\r\n", Transient, False),
]  # fmt: skip


@pytest.mark.parametrize("piece_bytes", [1, 7, 1000])
@pytest.mark.parametrize(("before", "line"), [(b"HTTP/1.1 103 Early words\r\n\r\n", b""), (b"", b": x\r\n")])
def test_the_words_behind_the_status_are_those_of_the_last_head(piece_bytes, before, line):
    """However they come, behind interim replies, and if the head was mended."""
    data = before + b"HTTP/1.1 403 Embargoed until 2027\r\n" + line + b"Content-Length: 0\r\n\r\n"
    parser = ReplyParser(has_body=True)
    for start in range(0, len(data), piece_bytes):
        parser.parse(memoryview(data[start : start + piece_bytes]))
    assert (parser.status, parser.phrase) == (403, b"Embargoed until 2027")


@pytest.mark.parametrize("lengths", [
    b"Content-Length: 1\r\nContent-Length: 2", b"Content-Length: 2, 1",
    b"Connection: close\r\nContent-Length: " + b"9" * 20,
])  # fmt: skip
async def test_a_body_of_odd_lengths_ends_with_its_connection(lengths):
    """The judge gets the lengths, each once; the connection is not used again."""
    status, headers, body, kept = await play([OK + lengths + b"\r\n\r\nabc"], lost=None)
    stated = [value for name, value in headers if name == "Content-Length"]
    assert (status, body, kept) == (200, b"abc", False)
    assert stated == (["1", "2"] if b"2" in lengths else ["9" * 20])


@pytest.mark.parametrize(("data", "body", "kept"), REPLIES, ids=range(len(REPLIES)))
async def test_pieces_of_any_size_are_the_same_reply(data, body, kept):
    """Whole, byte by byte, cut at each place; interim headers and trailers are no headers of the reply."""
    whole = await play([data])
    assert whole[2:] == (body, kept)
    assert not {"X-Early", "Link", "X-Late"} & {name for name, _ in whole[1]}
    cuts = range(1, len(data)) if len(data) < 500 else range(1, len(data), 997)
    for n in cuts:
        in_two = await play([data[:n], data[n:]])
        if body is not Transient:  # what had been read before the fault was known is had
            assert in_two == whole, n
        assert in_two[3] is kept
    byte_by_byte = await play([data[n : n + 1] for n in range(len(data))])
    assert byte_by_byte == whole


def number(size_bytes):
    """Bytes that are not the same anywhere."""
    return b"".join(n.to_bytes(4, "big") for n in range(size_bytes // 4 + 1))[:size_bytes]


LARGE_BODY = number(LARGE_BYTES * 8 + 5)
LARGE_REPLIES = [
    (reply(LARGE_BODY), LARGE_BODY, True),
    (reply(LARGE_BODY, "Connection: close"), LARGE_BODY, False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE_BODY) + LARGE_BODY, LARGE_BODY, False),
    (b"HTTP/1.1 100 C\r\nContent-Length: 7\r\n\r\n" + reply(LARGE_BODY), LARGE_BODY, True),
    (CHUNKED + b"%x\r\n" % len(LARGE_BODY) + LARGE_BODY + b"\r\n0\r\n\r\n", LARGE_BODY, True),
    (reply(LARGE_BODY) + b"HTTP/1.1 200 OK\r\n\r\n", LARGE_BODY, False),
]  # fmt: skip


@pytest.mark.parametrize(("data", "body", "kept"), LARGE_REPLIES, ids=range(len(LARGE_REPLIES)))
@pytest.mark.parametrize("piece", [1 << 20, HALF_BYTES, LARGE_BYTES + 1, 40_000, 999])
async def test_a_large_body_is_the_same_in_pieces_of_any_size(data, body, kept, piece):
    """With a stated length it goes past the parser; a reader that is late or early gets the same bytes."""
    pieces = [data[n : n + piece] for n in range(0, len(data), piece)]
    wire = Wire()
    answer = wire.ask()
    got = b""
    for n, some in enumerate(pieces):
        if wire.kept is None:
            wire.send(some)
        if n % 3 == 1:
            got += answer.read_buffered()
    while some := await answer.read():
        got += some
        if wire.coming:
            wire.send(b"")
    assert (got == body, wire.kept) == (True, kept)


async def test_a_large_body_is_not_copied_and_its_memory_serves_the_next_reply():
    """Its bytes come into a block, and the reader gets this block itself."""
    wire = Wire()
    answer = wire.ask()
    wire.send(reply(LARGE_BODY)[: LARGE_BYTES * 2])
    await answer.read()
    blocks = set()
    for _ in range(6):
        wire.send(LARGE_BODY[:LARGE_BYTES])
        piece = await answer.read()
        assert isinstance(piece, memoryview)
        blocks.add(id(piece.obj))
    assert len(blocks) == 3  # one that is filled, one that is taken, and the one before, which is still held
    wire.send(LARGE_BODY[: answer._left_bytes])
    while await answer.read():
        pass
    assert answer.body is None
    again = wire.ask()
    wire.send(reply(LARGE_BODY)[: LARGE_BYTES * 2])
    assert again.body is not None
    assert id(again.body._block) in blocks


async def test_a_read_of_so_many_bytes_leaves_the_rest_of_a_large_body():
    """Under a rate limit; bytes that come meanwhile are behind the rest."""
    wire = Wire()
    answer = wire.ask()
    data = reply(LARGE_BODY)
    wire.send(data[: LARGE_BYTES * 2])
    sent, got = LARGE_BYTES * 2, b""
    while some := await answer.read(30_011):
        got += some
        if sent < len(data):
            wire.send(data[sent : sent + 20_000])
            sent += 20_000
    assert got == LARGE_BODY


async def test_11_what_comes_behind_a_large_body_and_is_no_http_is_not_trusted():
    """The body may be whole by its length, but the server has lost count."""
    wire = Wire()
    answer = wire.ask()
    data = reply(LARGE_BODY)
    wire.send(data[:-9])
    assert answer.body is not None
    while answer.read_buffered():
        wire.send(b"")
    wire.send(data[-9:] + b"more")
    assert (answer.read_buffered(), wire.kept) == (b"", False)
    assert await answer.read()
    with pytest.raises(LostCount):
        await answer.read()


@pytest.mark.parametrize("lost", [None, ConnectionResetError()])
async def test_1_the_end_of_the_connection_ends_no_large_body(lost):
    """It was cut off; what had come can be read before."""
    wire = Wire()
    answer = wire.ask()
    wire.send(reply(LARGE_BODY)[: LARGE_BYTES * 2])
    wire.protocol.connection_lost(lost)
    got = await answer.read()
    got = bytes(got) + await answer.read()
    with pytest.raises(Transient):
        await answer.read()
    assert (LARGE_BODY.startswith(got), len(got) > LARGE_BYTES, wire.kept) == (True, True, False)


@pytest.mark.parametrize("lengths", [
    b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: %d\r\nContent-Length: 1\r\n",
    b"Content-Length: 0x%d\r\n", b"Content-Length: 99999999999%d\r\n" * 1,
])  # fmt: skip
async def test_a_length_that_is_not_plain_is_left_to_the_parser(lengths):
    """It alone decides what such a reply is."""
    wire = Wire()
    answer = wire.ask()
    wire.send(OK + lengths % len(LARGE_BODY) + b"\r\n" + bytes(LARGE_BYTES))
    assert answer.body is None or answer._left_bytes > 1 << 40


async def test_who_reads_a_large_body_slowly_is_not_buried():
    """Reading pauses when one half is full, and goes on when it is taken."""
    wire = Wire()
    answer = wire.ask()
    wire.send(OK + b"Content-Length: 9000000\r\n\r\n" + bytes(LARGE_BYTES * 2))
    while await answer.read() and answer.body.waiting_bytes:
        pass
    wire.send(bytes(HALF_BYTES))
    assert wire.calls == [b"GET", "pause"]
    assert len(await answer.read(HALF_BYTES - 1)) == HALF_BYTES - 1
    assert wire.calls == [b"GET", "pause"]
    assert len(await answer.read()) == 1
    assert wire.calls == [b"GET", "pause", "resume"]


@pytest.mark.parametrize(("lost", "body"), [(None, b"abc"), (ConnectionResetError(), Transient)])
async def test_3_5_a_body_without_length_ends_with_the_connection(lost, body):
    """But not with a connection that breaks."""
    assert (await play([OK + b"\r\nabc"], lost=lost))[2:] == (body, False)


@pytest.mark.parametrize("head", [b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_1_the_end_of_the_connection_ends_no_other_body(head):
    """It was cut off."""
    assert (await play([OK + head + b"\r\n", b"1\r\n"], lost=None))[2:] == (Transient, False)


@pytest.mark.parametrize(("behind", "body"), [(b"HTTP/1.1 200 OK\r\n\r\n", b"abc"), (b"more", LostCount)])
async def test_11_what_comes_behind_a_reply_ends_its_connection(behind, body):
    """What is no HTTP is not accepted either."""
    assert (await play([reply(b"abc") + behind]))[2:] == (body, False)


async def test_11_what_comes_together_with_bytes_that_are_no_http_is_not_trusted():
    """The body may be whole by its length, but the server has lost count."""
    wire = Wire()
    answer = wire.ask()
    wire.send(reply(b"abc") + b"more")
    assert answer.read_buffered() == b""


async def test_11_what_comes_unasked_ends_its_connection():
    """It is nobody's answer."""
    wire = Wire()
    wire.send(reply(b"stray"))
    assert wire.kept is False


@pytest.mark.parametrize(("data", "kept"), [(b"", True), (b"abc", False)])
async def test_the_reply_to_head_has_no_body(data, kept):
    """A server that sends one all the same does not get the next request."""
    assert (await play([reply(b"", "Content-Length: 3", length=False) + data], has_body=False))[2:] == (
        b"",
        kept,
    )


@pytest.mark.parametrize("endless", [
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 " + b"x" * 4000,
    CHUNKED + b"1;" + b"x" * 4000, CHUNKED + b"1\r\na\r\n0\r\nX: " + b"x" * 4000,
])  # fmt: skip
async def test_31_what_is_no_body_has_an_end(endless):
    """Interim replies, the extension of a chunk, a trailer, a reason: none is read for ever."""
    wire = Wire()
    reply = wire.ask()
    sent = len(endless)
    wire.send(endless)
    more = endless if endless.endswith(b"\r\n\r\n") else b"x" * 4000
    while wire.kept is None:
        wire.send(more)
        sent += len(more)
        assert sent <= 2 * MAX_BARE_BYTES
    assert wire.kept is False
    assert reply._error is not None


async def test_who_reads_slowly_is_not_buried():
    """Reading pauses where much waits for its reader, and goes on when it has been taken."""
    wire = Wire()
    reply = wire.ask()
    wire.send(CHUNKED + b"%x\r\n" % 9_000_000 + bytes(wire.buffers.ahead_bytes))
    wire.send(b"x")  # the loop may have read it before
    assert wire.calls == [b"GET", "pause"]
    while await reply.read(5000) and "resume" not in wire.calls:
        pass
    assert reply._pieces.size_bytes < wire.buffers.ahead_bytes


async def test_reading_goes_on_when_all_that_waited_was_taken_without_waiting():
    """Else a reader that waits afterwards would wait for ever."""
    wire = Wire()
    reply = wire.ask()
    wire.send(CHUNKED + b"%x\r\n" % 9_000_000 + bytes(wire.buffers.ahead_bytes))
    assert len(reply.read_buffered()) == wire.buffers.ahead_bytes
    assert wire.calls == [b"GET", "pause", "resume"]


async def test_a_connection_that_paused_is_kept_reading():
    """A body whose end has come in a pause: the next reply must be heard."""
    wire = Wire()
    reply = wire.ask()
    body = bytes(wire.buffers.ahead_bytes)
    wire.send(OK + b"Content-Length: %d\r\n\r\n" % (len(body) + 1) + body)
    wire.send(b"x")
    assert wire.calls == [b"GET", "pause", "resume"]
    assert len(reply.read_buffered()) == len(body) + 1


async def test_small_pieces_come_together_and_large_ones_as_they_are():
    """A file is written in few calls, and no large piece is copied."""
    wire = Wire()
    reply = wire.ask()
    large = b"%x\r\n" % LARGE_BYTES + bytes(LARGE_BYTES) + b"\r\n"
    wire.send(CHUNKED)
    wire.send(large + large + b"1\r\na\r\n" * 1000 + b"0\r\n\r\n")
    assert [len(await reply.read()) for _ in range(4)] == [LARGE_BYTES, LARGE_BYTES, 1000, 0]


async def test_31_a_body_may_be_longer_than_what_is_no_body():
    """Each byte of it begins the count anew; its many small pieces are joined in their order."""
    wire = Wire(ahead_bytes=1 << 20)
    reply = wire.ask()
    wire.send(CHUNKED)
    body = b""
    for n in range(3 * MAX_BARE_BYTES // 1000):
        piece = b"%1000d" % n
        wire.send(b"3e8\r\n" + piece + b"\r\n")
        body += piece
        assert len(reply._pieces._pieces) <= MANY_PIECES + len(body) // LARGE_BYTES
    before_end = wire.kept
    wire.send(b"0\r\n\r\n")
    assert (before_end, wire.kept) == (None, True)
    assert reply.read_buffered() == body


async def test_a_read_of_so_many_bytes_leaves_the_rest():
    """Under a rate limit."""
    wire = Wire()
    answer = wire.ask()
    wire.send(reply(b"abcdef"))
    assert [await answer.read(n) for n in (4, 1, 9, 9)] == [b"abcd", b"e", b"f", b""]


async def test_a_connection_that_is_retired_is_let_go():
    """The reply comes to its end first."""
    wire = Wire()
    answer = wire.ask()
    wire.send(reply(b"abc")[:-1])
    answer.retire()
    wire.send(b"c")
    assert (answer.read_buffered(), wire.kept) == (b"abc", False)


@pytest.fixture
async def transport():
    made = HttpTransport(connect_timeout_s=5.0)
    yield made
    await made.close()


class ClosingServer(RawServer):
    """Answers the first request of each connection, and closes it at the second without a word."""

    asked: ClassVar[int] = 0

    async def converse(self, reader, writer):
        self.writers.append(writer)
        await self.read_head(reader)
        await self.answer(writer, reply(b"x"))
        await self.read_head(reader)


async def test_50_an_idle_connection_that_was_closed_meanwhile_costs_no_attempt(transport):
    """The request goes out again, over a new connection; a POST does not, as it may have been obeyed."""
    async with ClosingServer() as server:
        for n in range(1, 4):
            response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
            assert await response.read() == b"x"
            assert server.connections == n
        with pytest.raises(Transient, match="closed the connection"):
            await transport.open(SecretUrl(server.url), {}, {}, fresh=False, method="POST")
    assert server.fields(-1)["content-length"] == "0"


class LimitedServer(RawServer):
    """Takes one connection at a time, and closes every other one without a word."""

    async def converse(self, reader, writer):
        if len(self.writers) == self.ended:
            await super().converse(reader, writer)


async def test_a_server_that_closes_new_connections_is_asked_over_one_that_waits(transport):
    """It may be all that a server allows a client; a limit of six held a run up that kept six."""
    async with LimitedServer(reply(b"x")) as server:
        for fresh in (False, True, True):
            response = await transport.open(SecretUrl(server.url), {}, {}, fresh=fresh)
            assert await response.read() == b"x"
        assert (server.connections, len(server.heads)) == (1, 3)


async def test_where_no_connection_can_be_made_one_that_waits_is_used(transport, monkeypatch):
    """Without one the attempt fails."""

    async def refuse(*_asked, **_how):
        raise ConnectionRefusedError

    async with RawServer(reply(b"x")) as server:
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        assert await response.read() == b"x"
        monkeypatch.setattr(transport._pool, "connect", refuse)
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=True)
        assert await response.read() == b"x"
        assert (server.connections, len(server.heads)) == (1, 2)
        server.writers[0].transport.abort()
        with pytest.raises(Transient, match="ConnectionRefused"):
            await transport.open(SecretUrl(server.url), {}, {}, fresh=True)


class DyingServer(ClosingServer):
    """Answers the first requests of two connections, and then nothing."""

    async def converse(self, reader, writer):
        if len(self.writers) < 2:
            await super().converse(reader, writer)


async def test_a_request_goes_out_twice_at_most(transport):
    """One that ends its server would else end all connections that wait, one after the other."""
    async with DyingServer() as server:
        replies = [await transport.open(SecretUrl(server.url), {}, {}, fresh=True) for _ in range(2)]
        for response in replies:
            assert await response.read() == b"x"
        with pytest.raises(Transient, match="closed the connection"):
            await transport.open(SecretUrl(server.url), {}, {}, fresh=True)
        assert len(server.heads) == 3


async def test_who_stops_waiting_for_a_reply_leaves_no_connection(transport):
    """Its answer may still come, and would be the next one's."""
    async with RawServer(b"") as server:
        waiting = asyncio.create_task(transport.open(SecretUrl(server.url), {}, {}, fresh=False))
        while not server.heads:
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not transport._pool._connector._acquired
        async with asyncio.timeout(60):
            while not server.ended:
                await asyncio.sleep(0.001)


async def test_a_new_connection_that_is_closed_without_a_word_is_a_failed_attempt(transport):
    """Asking again at once would hide what the server does."""
    async with RawServer(b"", then="close") as server:
        with pytest.raises(Transient, match="closed the connection"):
            await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        assert len(server.heads) == 1


@pytest.mark.parametrize(("path", "line"), [
    ("", "/"), ("?x=1", "/?x=1"), ("/a#part", "/a"), ("/a?", "/a?"), ("#x", "/"),
])  # fmt: skip
async def test_what_of_a_url_is_asked_for(transport, path, line):
    """A path there must be; a fragment is the reader's own affair."""
    async with RawServer(reply(b"x")) as server:
        await transport.open(SecretUrl(server.url[:-1] + path), {}, {}, fresh=False)
    assert server.line() == f"GET {line} HTTP/1.1"


async def test_headers_of_the_manifest_stand_instead_of_ours(transport):
    """Whatever their case, and once."""
    async with RawServer(reply(b"x")) as server:
        given = {"user-agent": "me", "ACCEPT": "text/plain", "X-Name": "Grüße"}
        await transport.open(SecretUrl(server.url), given, {}, fresh=False)
    lines = server.heads[0].encode("latin-1").decode().split("\r\n")
    assert [line for line in lines if line.lower().startswith(("user-agent", "accept:", "x-name"))] == [
        "user-agent: me", "ACCEPT: text/plain", "X-Name: Grüße"
    ]  # fmt: skip


@pytest.mark.parametrize(("target", "headers"), [
    ("a b", {}), ("a\nb", {}), ("a", {"X": "a\r\nEvil: 1"}), ("a", {"X\n": "a"}), ("a", {"X": "a\0"}),
])  # fmt: skip
async def test_what_would_break_a_request_is_not_sent(transport, target, headers):
    """No line of a manifest makes a second header or a second request."""
    async with RawServer(reply(b"x")) as server:
        with pytest.raises(Refused, match="the URL or a header cannot be sent"):
            await transport.open(SecretUrl(server.url + target), headers, {}, fresh=False)
    assert server.heads == []


@pytest.mark.parametrize("url", ["ftp://h/a", "http:///a", "http://h:99999/", "h/a", "http://"])
async def test_what_is_no_url_of_a_server_is_refused(transport, url):
    """Before anything is looked up."""
    with pytest.raises(Refused):
        await transport.open(SecretUrl(url), {}, {}, fresh=False)


async def test_a_plan_of_many_hosts_keeps_little_of_each(transport, monkeypatch):
    """What all requests to a host share is made again when it was forgotten."""
    monkeypatch.setattr("cfetch.wire.http.MAX_ORIGINS", 1)
    async with RawServer(reply(b"x")) as one, RawServer(reply(b"x")) as other:
        for server in (one, other, one):
            await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
            assert len(transport._origins) == 1
    assert len(one.heads) == 2


@pytest.mark.parametrize("came", [b"", b"H"])
async def test_50_a_reply_has_begun_with_its_first_byte(came):
    """A server that has answered, if only in part, may have done what it was asked for."""
    wire = Wire()
    wire.ask()
    wire.send(reply(b"a"))
    failed = wire.ask()
    if came:
        wire.send(came)
    wire.protocol.connection_lost(None)
    assert failed.has_begun() is bool(came)


async def test_what_a_connection_has_carried_is_counted_reply_by_reply():
    """Each reply knows the bytes of the bodies before its own."""
    wire = Wire()
    carried = []
    for size in (3, 5, 0):
        carried.append(wire.ask().carried_bytes)
        wire.send(reply(bytes(size)))
    assert carried == [0, 3, 8]


async def test_a_body_pauses_as_often_as_its_reader_falls_behind():
    """Each pause ends when little waits again, and not before."""
    wire = Wire()
    slow = wire.ask()
    ahead = wire.buffers.ahead_bytes
    wire.send(CHUNKED + b"%x\r\n" % 9_000_000 + bytes(ahead))
    for _ in range(2):
        wire.send(b"x")
        await slow.read(1)
        assert wire.calls[-1] == "pause"  # as much waits as may
        await slow.read(1)
        assert wire.calls[-1] == "resume"
        wire.send(b"x")
    assert wire.calls == [b"GET", "pause", "resume", "pause", "resume", "pause"]
