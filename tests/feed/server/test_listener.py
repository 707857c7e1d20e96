"""The feed server under connections that ask nothing, too much or rubbish: others are answered."""

import asyncio
import resource
import socket
from contextlib import asynccontextmanager
from unittest.mock import Mock

import pytest
from aiohttp import web

from cfetch.errors import UsageError
from cfetch.feed.ranges import ALL_KEYS, Position
from cfetch.feed.server import listener
from cfetch.feed.server.listener import FaultLines, count_connections, start_listening
from cfetch.feed.source import Page
from tests.feed.contract import listed
from tests.feed.server.test_process import Server, write

WHOLE = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-Half: "


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
    "data", [HALF, b"", b"POST /split HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
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
async def serve(monkeypatch, *, header_s=600.0):
    """A server for four connections: its URL, who has come to ``/wait``, and what they wait for."""
    monkeypatch.setattr(listener, "HEADER_S", header_s)
    monkeypatch.setattr(listener, "BACKLOG", 2)
    monkeypatch.setattr(listener, "count_connections", lambda: 4)
    come, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request):
        come.release()
        await go.wait()
        return web.Response(text="late")

    async def answer(request):
        return web.Response(text="now")

    app = web.Application()
    app.router.add_get("/wait", wait)
    app.router.add_get("/", answer)
    urls: list[str] = []
    running = await start_listening(app, "127.0.0.1", 0, urls.append)
    try:
        yield urls[0], come, go
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
    urls: list[str] = []
    running = await start_listening(app, "127.0.0.1", 0, urls.append)
    reader, writer = await connect(urls[0], LAST % b"/")
    await reader.read()
    writer.close()
    await running.cleanup()
    assert accepted == [listener.UNREAD_S * 1000]


@pytest.mark.parametrize(("descriptors", "connections"), [(1 << 20, 1000), (1024, 464), (256, 80), (64, 16)])
def test_connections_follow_the_descriptors(monkeypatch, descriptors, connections):
    """Each may have a file open; some stay for the process itself."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert count_connections() == connections


def test_faults_are_told_once_a_minute():
    """A kind of fault is one line, with how often it came when it is told again."""
    lines: list[str] = []
    clock = Mock(monotonic=Mock(return_value=5.0))
    faults = FaultLines(lines.append, clock)
    for _ in range(1000):
        faults.add("rubbish\x1b")
        faults.add("other")
    clock.monotonic.return_value = 66.0
    faults.add("rubbish\x1b")
    assert lines == [
        r"a connection failed: rubbish\x1b",
        "a connection failed: other",
        r"a connection failed: rubbish\x1b (1000 times in 61 s)",
    ]


async def test_taken_port():
    """A port that is taken is a mistake of the caller."""
    urls: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="cannot listen"):
        await start_listening(web.Application(), "127.0.0.1", taken.getsockname()[1], urls.append)
