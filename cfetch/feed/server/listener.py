"""The feed server's socket: how many connections it bears, for how long, and how it reports their faults.

Any client that reaches the port may open connections and send nothing, or ask and not read the answer. A
connection without a whole request ends after ``HEADER_S``; one whose client reads nothing ends after
``UNREAD_S``. If there are too many, the oldest that are not being answered are closed, so that a new one is
heard.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from cfetch.clock import Clock
from cfetch.errors import UsageError
from cfetch.secret import printable
from cfetch.wire.listener import close_listener

HEADER_S = 30.0  # to send a request, and to send the next one
LINGER_S = 5.0  # for the rest of an unwanted body
UNREAD_S = 60.0  # by the kernel's clock: Linux ends a connection whose peer reads nothing for so long
SHUTDOWN_S = 2.0  # for replies under way; a follower asks again anyway
MAX_LINE_BYTES = 32 << 10  # of a request: a path of 4,000 bytes, percent-encoded, and its parameters
BACKLOG = 32  # connections that are accepted in one turn
MOST_CONNECTIONS = 1000
OWN_DESCRIPTORS = 64  # of the process: SQLite, the walk over the tree, Python
SAY_AGAIN_S = 60.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
EmitLine = Callable[[str], None]


def count_connections() -> int:
    """How many connections may be open, as each may have a file open too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(MOST_CONNECTIONS, (descriptors - OWN_DESCRIPTORS - BACKLOG) // 2))


class FaultLines:
    """Reports faults of connections in single lines: each kind once a minute, with their number."""

    def __init__(self, emit_line: EmitLine, clock: Clock) -> None:
        self._emit_line, self._clock = emit_line, clock
        self._told: dict[str, tuple[float, int]] = {}

    def add(self, what: str) -> None:
        """Note one fault; ``what`` is one of a few kinds."""
        now_s = self._clock.monotonic()
        told_s, unsaid = self._told.get(what, (float("-inf"), 0))
        if now_s - told_s < SAY_AGAIN_S:
            self._told[what] = told_s, unsaid + 1
            return
        self._told[what] = now_s, 0
        more = f" ({unsaid + 1} times in {now_s - told_s:.0f} s)" if unsaid else ""
        self._emit_line(f"a connection failed: {printable(what)}{more}")

    def add_from_loop(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Note a fault; for an event loop's exception handler."""
        error = context.get("exception")
        kind = f" ({type(error).__name__})" if error is not None else ""
        self.add(f"{context.get('message', 'unknown')}{kind}"[:200])

    def make_logger(self) -> logging.Logger:
        """Make a logger that notes a fault where aiohttp would write a traceback."""
        logger = logging.Logger("cfetch.feed.server", logging.WARNING)
        logger.addHandler(_Notes(self))
        return logger


class _Notes(logging.Handler):
    def __init__(self, faults: FaultLines) -> None:
        super().__init__()
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        kind = "a request that is not HTTP" if error is None else type(error).__name__
        self._faults.add(kind)


class Listener:
    """The application at work on a socket. ``cleanup`` ends it."""

    def __init__(self, runner: web.AppRunner, busy: Iterable[web.RequestHandler], most: int) -> None:
        self._runner, self._busy, self._most = runner, busy, most
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> str:
        """Listen, and return the URL. Raises OSError."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port, backlog=BACKLOG)
        for listening in self._server.sockets:
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it
                wait_ms = int(UNREAD_S * 1000)
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, wait_ms)
        bound_host, bound_port = self._server.sockets[0].getsockname()[:2]
        return f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}/"

    def _accept(self) -> asyncio.Protocol:
        """Make the protocol of a new connection. Old ones are closed first, for all that come in one turn."""
        server = self._runner.server
        assert server is not None
        surplus = len(server.connections) + BACKLOG - self._most
        if surplus > 0:
            waiting = [handler for handler in server.connections if handler not in self._busy]
            for handler in waiting[:surplus]:  # in the order in which they came
                handler.force_close()
            if not waiting and surplus >= BACKLOG:
                return _Refused()
        return server()

    async def cleanup(self) -> None:
        """Answer no new requests, and end those under way soon."""
        if self._server is not None:
            await close_listener(self._server)
        await self._runner.cleanup()


class _Refused(asyncio.Protocol):
    """A connection for which there is no room: all others are being answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.abort()  # type: ignore[attr-defined]  # a stream's


async def start_listening(
    app: web.Application,
    host: str,
    port: int,
    ready: EmitLine,
    *,
    faults: FaultLines | None = None,
) -> Listener:
    """Start the application. ``ready`` gets its URL; ``faults`` (None: aiohttp's log) gets faults.

    Raises:
        UsageError: nothing can listen there.
    """
    busy: set[web.RequestHandler] = set()

    @web.middleware
    async def note_busy(request: web.Request, handler: Handler) -> web.StreamResponse:
        busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            busy.discard(request.protocol)

    app.middlewares.insert(0, note_busy)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
        max_line_size=MAX_LINE_BYTES,
        keepalive_timeout=HEADER_S,
        lingering_time=LINGER_S,
        logger=logging.getLogger("aiohttp.server") if faults is None else faults.make_logger(),
    )
    listener = Listener(runner, busy, count_connections())
    try:
        ready(await listener.start(host, port))
    except OSError as error:
        await listener.cleanup()
        raise UsageError(
            f"cannot listen on {printable(host)}, port {port}: {error.strerror}; --port 0 takes a free one"
        ) from None
    return listener
