"""A server under connections that ask nothing, too much or rubbish: others are answered."""

import asyncio
import gc
import resource
import socket
from contextlib import asynccontextmanager, contextmanager, suppress
from unittest.mock import Mock

import pytest
from aiohttp import ClientConnectionResetError, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretText
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.plugins.follow.source import Page
from cfetch.testing.feed import listed
from cfetch.wire import serving
from cfetch.wire.serving import FaultLines, ServerAccess, ServerLimits, count_connections, serve_app
from tests.plugins.follow.server.test_process import Server, write

ANYONE = ServerAccess()
PROMPT_S = 60.0  # a test that waits for so long waits for ever
WHOLE = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LAST = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "


def lower_limit():
    """As many descriptors as some systems give a process."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


async def connect(url, data):
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize(
    "data", [HALF, b"POST /split HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_follower_is_answered_beside_300_unfinished_requests(tmp_path, data):
    """More connections than descriptors say half of a request: a follower reads its page still."""
    write(tmp_path / "d", "a", "b")
    async with Server(tmp_path / "d", limit=lower_limit) as server:
        await server.has(2)
        held = [await connect(server.url, data) for _ in range(300)]
        ranges = (await listed(server.source)).ranges
        page = await server.source.read(ranges[0].id, Position(ranges[0].id, 0), ALL_KEYS, 10)
        assert isinstance(page, Page)
        assert len(page.changes) == 2
        for _, writer in held:
            writer.close()
        ended = await server.stopped()
    assert len(ended.err) < 2000


async def test_rubbish_is_one_line(tmp_path):
    """What is not HTTP, and headers without end, are refused, and told of once."""
    write(tmp_path / "d", "a")
    async with Server(tmp_path / "d") as server:
        for _ in range(30):
            for data in (
                b"\x16\x03\x01\x02\x00\x01rubbish\r\n\r\n",
                b"GET / HTTP/1.1\r\nA: " + b"a" * 200_000,
            ):
                reader, writer = await connect(server.url, data[:1])
                try:
                    writer.write(data[1:])
                    await reader.read()
                except ConnectionError:
                    pass
                writer.close()
        await server.has(1)
        ended = await server.stopped()
    assert ended.err.count("\n") <= 3
    assert "Traceback" not in ended.err


@asynccontextmanager
async def serve(monkeypatch, *, access=ANYONE, host="127.0.0.1", **limits):
    """A server for four connections: its URL, who has come to ``/wait``, and what they wait for."""
    monkeypatch.setattr(serving, "BACKLOG", 2)
    come, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request):
        come.release()
        try:
            await go.wait()
        except asyncio.CancelledError:
            come.release()
            raise
        return web.Response(text="late")

    async def answer(request):
        return web.Response(text="now")

    async def answer_large(request):
        return web.Response(body=b"x" * (64 << 20))

    async def stream(request):
        come.release()
        reply = web.StreamResponse()
        await reply.prepare(request)
        while True:
            await reply.write(b"x" * (1 << 20))

    app = web.Application()
    app.router.add_get("/stream", stream)
    app.router.add_get("/wait", wait)
    app.router.add_get("/", answer)
    app.router.add_get("/large", answer_large)
    running = await serve_app(
        app, host, 0, access, ServerLimits(4, **{"header_s": 600.0, **limits}), FaultLines(print)
    )
    try:
        yield running.url.replace("0.0.0.0", "127.0.0.1"), come, go
    finally:
        await running.cleanup()


@pytest.mark.parametrize("data", [b"", HALF, WHOLE % b"/" + HALF])
async def test_an_unfinished_request_ends(monkeypatch, data):
    """A connection without a whole request, at its beginning or behind another, is closed by the server."""
    async with serve(monkeypatch, header_s=0.2) as (url, _, _):
        reader, writer = await connect(url, data)
        reply = await reader.read()
        assert reply.endswith(b"now") == data.startswith(WHOLE % b"/")
        writer.close()


async def test_requests_that_are_answered_stay(monkeypatch):
    """Room is made by those that ask nothing; who waits for an answer gets it."""
    async with serve(monkeypatch) as (url, come, go):
        late = await connect(url, LAST % b"/wait")
        await come.acquire()
        idle = [await connect(url, HALF) for _ in range(12)]
        reader, writer = await connect(url, LAST % b"/")
        assert (await reader.read()).endswith(b"now")
        assert await idle[0][0].read() == b""
        go.set()
        assert (await late[0].read()).endswith(b"late")
        for _, other in (*idle, late, (reader, writer)):
            other.close()


async def test_refused_where_all_are_being_answered(monkeypatch):
    """Beyond the limit a connection is closed at once, and does not keep a descriptor."""
    async with serve(monkeypatch) as (url, come, go):
        busy = []
        for _ in range(4):
            busy.append(await connect(url, LAST % b"/wait"))
            await come.acquire()
        reader, writer = await connect(url, b"")
        assert await reader.read() == b""
        writer.close()
        go.set()
        assert [(await other.read())[-4:] for other, _ in busy] == [b"late"] * 4
        for _, other in busy:
            other.close()


async def test_work_for_a_client_that_has_gone_is_cancelled(monkeypatch):
    """Who asks and goes at once leaves no work behind."""
    async with serve(monkeypatch) as (url, come, _):
        _, writer = await connect(url, WHOLE % b"/wait")
        await come.acquire()
        writer.transport.abort()
        async with asyncio.timeout(PROMPT_S):
            await come.acquire()


async def test_clients_that_read_too_slowly_make_room(monkeypatch):
    """If all connections are held by readers who do not read, the one that stands for longest is cut."""
    monkeypatch.setattr(serving, "PATIENCE_S", 0.0)
    async with serve(monkeypatch) as (url, come, _):
        stalled = []
        for _ in range(4):
            stalled.append(await connect(url, WHOLE % b"/stream"))
            await come.acquire()
        async with asyncio.timeout(PROMPT_S):
            while True:  # until the server knows that they do not read
                reader, writer = await connect(url, LAST % b"/")
                with suppress(ConnectionError):
                    if (await reader.read()).endswith(b"now"):
                        break
                writer.close()
        with suppress(ConnectionError):
            assert b"x" in await stalled[0][0].read()  # to its end
        assert len(await stalled[-1][0].readexactly(32 << 20)) == 32 << 20
        for _, other in (*stalled, (reader, writer)):
            other.transport.abort()


async def test_unread_answers_are_limited_in_bytes(monkeypatch):
    """Above the limit the answer that waits for longest is cut; the newest comes whole, however long."""
    async with serve(monkeypatch, unread_bytes=1 << 20) as (url, _, _):
        old = await connect(url, LAST % b"/large")
        await old[0].readexactly(1)
        new = await connect(url, LAST % b"/large")
        await new[0].readuntil(b"\r\n\r\n")
        read = b""
        with suppress(ConnectionError):
            read = await old[0].read()
        assert len(read) < 64 << 20
        assert len(await new[0].read()) == 64 << 20
        for _, writer in (old, new):
            writer.close()


async def test_the_end_does_not_wait_for_who_does_not_read(monkeypatch):
    """An answer that has been unread for as long as the caller waits is cut at once."""
    monkeypatch.setattr(serving, "SHUTDOWN_S", 3600.0)

    async def stream(request):
        reply = web.StreamResponse()
        await reply.prepare(request)
        while True:
            await reply.write(b"x" * (1 << 20))

    app = web.Application()
    app.router.add_get("/", stream)
    running = await serve_app(app, "127.0.0.1", 0, ANYONE, ServerLimits(4), FaultLines(print))
    _, writer = await connect(running.url, WHOLE % b"/")
    while not running._unread:
        await asyncio.sleep(0)
    async with asyncio.timeout(PROMPT_S):
        await running.cleanup(patience_s=0.0)
    writer.transport.abort()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
async def test_the_kernel_ends_connections_that_take_nothing(monkeypatch):
    """An accepted connection has the limit of the listening socket."""
    accepted: list[int] = []

    async def answer(request):
        opened = request.transport.get_extra_info("socket")
        accepted.append(opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        return web.Response()

    app = web.Application()
    app.router.add_get("/", answer)
    running = await serve_app(app, "127.0.0.1", 0, ServerAccess(), ServerLimits(4), FaultLines(print))
    reader, writer = await connect(running.url, LAST % b"/")
    await reader.read()
    writer.close()
    await running.cleanup()
    assert accepted == [serving.UNREAD_S * 1000]


@pytest.mark.parametrize(("descriptors", "connections"), [(1 << 20, 1000), (1024, 464), (256, 80), (64, 16)])
def test_connections_follow_the_descriptors(monkeypatch, descriptors, connections):
    """Each may have a file open; some stay for the process itself."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert count_connections() == connections


def test_faults_are_told_once_a_minute():
    """A kind of fault is one line, with how often it came when it is told again."""
    lines: list[str] = []
    clock = Mock(monotonic=Mock(return_value=5.0))
    faults = FaultLines(lines.append, clock.monotonic)
    for _ in range(1000):
        faults.add("rubbish\x1b")
        faults.add("other")
    clock.monotonic.return_value = 66.0
    faults.add("rubbish\x1b")
    assert lines == [
        r"rubbish\x1b",
        "other",
        r"rubbish\x1b (1000 times in 61 s)",
    ]


async def test_taken_port():
    """A port that is taken is a mistake of the caller."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="cannot listen"):
            await serve_app(web.Application(), "127.0.0.1", port, ANYONE, ServerLimits(4), FaultLines(print))


async def status_of(url, path, *headers):
    lines = "".join(f"{header}\r\n" for header in headers)
    reader, writer = await connect(
        url, f"GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode("latin1")
    )
    reply = await reader.read()
    writer.close()
    return int(reply.split(b" ")[1])


OWN = ["Host: 127.0.0.1:8", "Host: LOCALHOST.:80", "Host: [::1]:8", "Host: Mine.example"]
FOREIGN = [
    "Host: evil.example:80",
    "Host: 127.0.0.1.evil.example",
    "Host: localhost@evil.example",
    "Host: ",
    "Host: [::1",
]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_a_web_site_reads_nothing_by_a_name_of_its_own(monkeypatch, host):
    """Without a token, Host must be a name of this server or an address, on loopback one of loopback."""
    async with serve(monkeypatch, access=ServerAccess(names=frozenset({"mine.example"})), host=host) as (
        url,
        _,
        _,
    ):
        assert {await status_of(url, "/", line) for line in OWN} == {200}
        assert {await status_of(url, "/", line) for line in FOREIGN} == {403}
        assert await status_of(url, "/", OWN[0], FOREIGN[0]) in {400, 403}
        assert await status_of(url, "/", "Host: 192.0.2.7:80") == (403 if host == "127.0.0.1" else 200)
        assert (
            await status_of(url, "/", OWN[0], "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors") == 403
        )
        assert (
            await status_of(url, "/", OWN[0], "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate") == 200
        )


async def test_a_token_opens_by_any_name_and_nothing_else_does(monkeypatch):
    """Also bytes that are no text are only a wrong token."""
    async with serve(monkeypatch, access=ServerAccess(SecretText("s3cret"))) as (url, _, _):
        assert await status_of(url, "/", FOREIGN[0], "Authorization: Bearer s3cret") == 200
        for wrong in ("Bearer \xff", "Bearer s3cre", "Bearer ", "Basic s3cret"):
            assert await status_of(url, "/", OWN[0], f"Authorization: {wrong}") == 401
        assert await status_of(url, "/nothing", OWN[0]) == 401
        assert await status_of(url, "/?token=%FF%ED%A0%80", OWN[0]) == 401


async def test_a_reply_that_nobody_reads_makes_room(monkeypatch):
    """A connection that is closed for a new one goes at once, whatever was not sent on it."""
    async with serve(monkeypatch) as (url, _, _):
        held = [await connect(url, WHOLE % b"/large") for _ in range(3)]
        for reader, _ in held:
            await reader.read(1)
        for _ in range(4):
            reader, writer = await connect(url, LAST % b"/")
            assert (await reader.read()).endswith(b"now")
            writer.close()
        for _, writer in held:
            writer.transport.abort()


def test_a_fault_names_its_place_and_not_its_text():
    """An error's text may hold what was asked for."""
    lines: list[str] = []
    try:
        raise ValueError("secret")
    except ValueError as error:
        FaultLines(lines.append).add_error("the page", error)
    assert lines[0].startswith("the page: ValueError in test_serving.py, line ")


def test_a_client_that_has_gone_is_no_fault():
    """Clients leave in the midst of an answer, and no line says that they sent something wrong."""
    lines: list[str] = []
    logger = FaultLines(lines.append).make_logger()
    try:
        raise ClientConnectionResetError("gone")
    except ConnectionError:
        logger.exception("Error handling request")
    assert lines == []


@contextmanager
def uncollected(kind):
    """While no garbage is collected: a function that lists the objects of a kind, less other tests' ones."""
    gc.collect()
    gc.disable()
    others = [one for one in gc.get_objects() if isinstance(one, kind)]
    known = set(map(id, others))
    try:
        yield lambda: [one for one in gc.get_objects() if isinstance(one, kind) and id(one) not in known]
    finally:
        gc.enable()


async def test_a_broken_request_leaves_no_garbage(monkeypatch):
    """A run collects garbage seldom, and each of these would hold 256 KiB of what was received."""
    async with serve(monkeypatch) as (url, _, _):
        with uncollected(HttpProcessingError) as list_kept:
            for _ in range(8):
                reader, writer = await connect(url, b"GET / HTTP/1.1\r\n" + b"a" * 200_000 + b"\r\n" * 3)
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
            assert not [one for one in list_kept() if one.__traceback__]


REFUSED = [
    (200, b"GET / HTTP/1.1\r\nHost: localhost\r\n"),
    (403, b"GET / HTTP/1.1\r\nHost: evil.example\r\n"),
    (404, b"GET /no HTTP/1.1\r\nHost: localhost\r\n"),
    (405, b"PUT / HTTP/1.1\r\nHost: localhost\r\n"),
    (417, b"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: much\r\n"),
]


@pytest.mark.parametrize(("status", "head"), REFUSED)
async def test_no_request_is_kept_when_it_was_answered(monkeypatch, status, head):
    """A run collects garbage seldom, and a refused request may hold 1 MiB of headers."""
    async with serve(monkeypatch) as (url, _, _):
        with uncollected(web.Request) as list_kept:
            reader, writer = await connect(url, head + b"Connection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 %d " % status)
            writer.close()
            await writer.wait_closed()
            assert list_kept() == []


async def test_a_body_that_nobody_wants_is_not_kept(monkeypatch):
    """Where none is read to its end, what came of it is free at once, without the collector of garbage."""
    async with serve(monkeypatch, linger_s=0) as (url, _, _):
        with uncollected(StreamReader) as list_kept:
            head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000000\r\n\r\n"
            reader, writer = await connect(url, head + b"a" * 100_000)
            assert b" 405 " in await reader.readline()
            writer.close()
            assert not [one for one in list_kept() if one._size]
