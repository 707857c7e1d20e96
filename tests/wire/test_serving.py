"""A server under connections that ask nothing, too much or rubbish: others are answered."""

import asyncio
import gc
import resource
import socket
from contextlib import asynccontextmanager, suppress
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretText
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.plugins.follow.source import Page
from cfetch.wire import serving
from cfetch.wire.serving import Access, FaultLines, Limits, count_connections, serve_app
from tests.plugins.follow.contract import listed
from tests.plugins.follow.server.test_process import Server, write

ANYONE = Access()
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
async def serve(monkeypatch, *, header_s=600.0, linger_s=5.0, access=ANYONE, host="127.0.0.1"):
    """A server for four connections: its URL, who has come to ``/wait``, and what they wait for."""
    monkeypatch.setattr(serving, "BACKLOG", 2)
    come, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request):
        come.release()
        await go.wait()
        return web.Response(text="late")

    async def answer(request):
        return web.Response(text="now")

    async def answer_large(request):
        return web.Response(body=b"x" * (64 << 20))

    app = web.Application()
    app.router.add_get("/wait", wait)
    app.router.add_get("/", answer)
    app.router.add_get("/large", answer_large)
    running = await serve_app(app, host, 0, access, Limits(4, header_s, linger_s), FaultLines(print))
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
    running = await serve_app(app, "127.0.0.1", 0, Access(), Limits(4), FaultLines(print))
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
            await serve_app(web.Application(), "127.0.0.1", port, ANYONE, Limits(4), FaultLines(print))


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
    async with serve(monkeypatch, access=Access(names=frozenset({"mine.example"})), host=host) as (url, _, _):
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
    async with serve(monkeypatch, access=Access(SecretText("s3cret"))) as (url, _, _):
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


async def test_a_broken_request_leaves_no_garbage(monkeypatch):
    """A run collects garbage seldom, and each of these would hold 256 KiB of what was received."""
    async with serve(monkeypatch) as (url, _, _):
        gc.collect()
        gc.disable()
        try:
            for _ in range(8):
                reader, writer = await connect(url, b"GET / HTTP/1.1\r\n" + b"a" * 200_000 + b"\r\n" * 3)
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
            assert not [
                one for one in gc.get_objects() if isinstance(one, HttpProcessingError) and one.__traceback__
            ]
        finally:
            gc.enable()


async def test_a_body_that_nobody_wants_is_not_kept(monkeypatch):
    """Where none is read to its end, what came of it is free at once, without the collector of garbage."""
    async with serve(monkeypatch, linger_s=0) as (url, _, _):
        gc.collect()
        gc.disable()
        try:
            head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000000\r\n\r\n"
            reader, writer = await connect(url, head + b"a" * 100_000)
            assert b" 405 " in await reader.readline()
            writer.close()
            assert not [one for one in gc.get_objects() if isinstance(one, StreamReader) and one._size]
        finally:
            gc.enable()
