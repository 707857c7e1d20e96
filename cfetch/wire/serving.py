"""Serves an application of aiohttp to whoever can reach its port: the live page, the feed server.

``serve_app`` is the one way to do so. Any client may open connections and send nothing, or ask and not read
the answer, or send rubbish, and none of it may cost the process more than what is stated here:

- Connections are limited. If there are too many, the oldest that are not being answered are closed, so that a
  new one is heard; after them the one that has left its answer unread for longest, if that is ``PATIENCE_S``.
  A process that also downloads reserves ``descriptors_for`` them before it begins.
- Answers that are not read are limited in bytes. Above that, those that wait for longest are cut.
- A connection without a whole request ends after ``HEADER_S``; one whose client reads nothing ends after
  ``UNREAD_S``. The work for a client that has gone is cancelled.
- A request needs the token, if there is one. Without it, its Host must be an address or a name of this
  server: else a page of another site whose name points here (DNS rebinding) could read all that is served.
- A fault is one line, and each kind of fault is told once a minute.
"""

import asyncio
import hmac
import ipaddress
import logging
import re
import resource
import socket
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from cfetch.base.errors import UsageError
from cfetch.base.schemes import HTTP
from cfetch.base.secret import SecretText, printable
from cfetch.wire.listener import close_listener

HEADER_S = 30.0  # to send a request, and to send the next one
LINGER_S = 5.0  # for the rest of an unwanted body
UNREAD_S = 60.0  # by the kernel's clock: Linux ends a connection whose peer reads nothing for so long
PATIENCE_S = 5.0  # to read what was sent, some 48 KiB, where others wait for a connection
MOST_UNREAD_BYTES = 256 << 20  # a thousand slow readers of large files have so many; in memory twice
SHUTDOWN_S = 2.0  # for replies under way; who gets none asks again
MAX_LINE_BYTES = 32 << 10  # of a request: a path of 4,000 bytes, percent-encoded, and its parameters
BACKLOG = 32  # connections that are accepted in one turn
MOST_CONNECTIONS = 1000
OWN_DESCRIPTORS = 64  # of a process that only serves: SQLite, the walk over the tree, Python
LOOP_DESCRIPTORS = 8  # of an event loop of its own: its selector, its wake-up pair, listening sockets
SAY_AGAIN_S = 60.0
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/?#\s]+))(?::[0-9]*)?")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
EmitLine = Callable[[str], None]


def count_connections() -> int:
    """How many connections a process that only serves may have, as each may have a file open too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(MOST_CONNECTIONS, (descriptors - OWN_DESCRIPTORS - BACKLOG) // 2))


def descriptors_for(connections: int) -> int:
    """How many descriptors a server in a thread of its own takes, whatever its clients do."""
    return connections + BACKLOG + LOOP_DESCRIPTORS


class FaultLines:
    """Reports faults in single lines: each kind once a minute, with their number."""

    def __init__(self, emit_line: EmitLine, now: Callable[[], float] = time.monotonic) -> None:
        """``now`` is in seconds, of a clock that never goes back."""
        self._emit_line, self._now = emit_line, now
        self._told: dict[str, tuple[float, int]] = {}

    def add(self, what: str) -> None:
        """Note one fault; ``what`` is one of a few kinds."""
        now_s = self._now()
        told_s, unsaid = self._told.get(what, (float("-inf"), 0))
        if now_s - told_s < SAY_AGAIN_S:
            self._told[what] = told_s, unsaid + 1
            return
        self._told[what] = now_s, 0
        more = f" ({unsaid + 1} times in {now_s - told_s:.0f} s)" if unsaid else ""
        self._emit_line(f"{printable(what)}{more}")

    def add_error(self, what: str, error: BaseException) -> None:
        """Note an error with its type and place; its text is dropped, since it may hold what was asked."""
        places = traceback.extract_tb(error.__traceback__)
        place = f" in {Path(places[-1].filename).name}, line {places[-1].lineno}" if places else ""
        self.add(f"{what}: {type(error).__name__}{place}")

    def add_from_loop(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Note a fault; for an event loop's exception handler."""
        error = context.get("exception")
        kind = f" ({type(error).__name__})" if error is not None else ""
        self.add(f"a connection failed: {context.get('message', 'unknown')}{kind}"[:200])

    def make_logger(self) -> logging.Logger:
        """Make a logger that notes a fault where aiohttp would write a traceback."""
        logger = logging.Logger("cfetch.serving", logging.WARNING)
        logger.addHandler(_Notes(self))
        return logger


class _Notes(logging.Handler):
    def __init__(self, faults: FaultLines) -> None:
        super().__init__()
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ConnectionError):
            return  # the client has gone, as clients do
        if error is None or type(error).__module__.startswith("aiohttp."):
            self._faults.add("a connection failed: a request that is not HTTP")
        else:
            self._faults.add_error("a connection failed", error)


class ServerAccess(NamedTuple):
    """Who is answered.

    With a ``token``, who sends it: as ``Authorization: Bearer`` or as the parameter ``token``. Else who asks
    for an address (on loopback: of loopback), for localhost, or for one of ``names``. ``remedy`` tells the
    others what to do.
    """

    token: SecretText | None = None
    names: frozenset[str] = frozenset()
    remedy: str = "ask for it by its address"


class ServerLimits(NamedTuple):
    """``connections``: open at a time. ``header_s``: for a whole request to come.

    ``linger_s``: so long the rest of an unwanted body is read, so that its sender gets the reply.
    ``unread_bytes``: of all answers together that wait in memory until their clients read them.
    """

    connections: int
    header_s: float = HEADER_S
    linger_s: float = LINGER_S
    unread_bytes: int = MOST_UNREAD_BYTES


class Served:
    """An application at work on a socket, at ``url``. ``cleanup`` ends it."""

    def __init__(
        self, app: web.Application, access: ServerAccess, limits: ServerLimits, faults: FaultLines
    ) -> None:
        self.url = ""
        self._access, self._most, self._most_unread_bytes = access, limits.connections, limits.unread_bytes
        self._busy: set[web.RequestHandler] = set()
        self._unread: dict[_Connection, float] = {}  # and since when; the longest wait first
        self._server: asyncio.Server | None = None
        self._is_loopback = True
        app.middlewares.insert(0, self._note_busy)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,  # else who asks and goes at once leaves more work than can be done
            shutdown_timeout=SHUTDOWN_S,
        )
        self._options: dict[str, Any] = {
            "access_log": None,
            "max_line_size": MAX_LINE_BYTES,
            "keepalive_timeout": limits.header_s,
            "lingering_time": limits.linger_s,
            "logger": faults.make_logger(),
        }

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port, backlog=BACKLOG)
        for listening in self._server.sockets:
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it
                wait_ms = int(UNREAD_S * 1000)
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, wait_ms)
        bound = [listening.getsockname()[:2] for listening in self._server.sockets]
        self._is_loopback = all(is_loopback(address) for address, _ in bound)
        shown_host, shown_port = bound[0]
        self.url = f"{HTTP}://{f'[{shown_host}]' if ':' in shown_host else shown_host}:{shown_port}/"

    def _accept(self) -> asyncio.Protocol:
        """Make the protocol of a new connection. Old ones are closed first, for all that come in one turn."""
        server = self._runner.server
        assert server is not None
        surplus = len(server.connections) + BACKLOG - self._most
        if surplus > 0:
            waiting = [handler for handler in server.connections if handler not in self._busy]
            for handler in waiting[:surplus]:  # in the order in which they came
                _abort(handler)
            if not waiting and surplus >= BACKLOG and not self._cut_unread(PATIENCE_S, most=1):
                return _Refused()
        return _Connection(self, server, loop=asyncio.get_running_loop(), **self._options)

    def note_unread(self, connection: "_Connection") -> None:
        """Note that a client reads more slowly than it is answered. Cut others if too much is unread."""
        self._unread[connection] = asyncio.get_running_loop().time()
        waiting_bytes = [_count_unread(each) for each in self._unread]
        surplus_bytes = sum(waiting_bytes) - self._most_unread_bytes
        for oldest, size_bytes in list(zip(self._unread, waiting_bytes, strict=True))[:-1]:
            if surplus_bytes <= 0:
                break
            surplus_bytes -= size_bytes
            self._cut(oldest)

    def note_read(self, connection: "_Connection") -> None:
        """Note that a client has read what it was sent, or has gone."""
        self._unread.pop(connection, None)

    def _cut_unread(self, patience_s: float, most: int | None = None) -> int:
        """Cut the answers that have been unread for so long, at most ``most``. Returns their number."""
        since_s = asyncio.get_running_loop().time() - patience_s
        stalled = [each for each, unread_s in self._unread.items() if unread_s <= since_s][:most]
        for connection in stalled:
            self._cut(connection)
        return len(stalled)

    def _cut(self, connection: "_Connection") -> None:
        self.note_read(connection)
        _abort(connection)

    @web.middleware
    async def _note_busy(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.body_exists and self._options["lingering_time"] == 0:
            _drop_body(request)
        self._check(request)
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)

    def _check(self, request: web.Request) -> None:
        """Refuse a client without the token; without a token, a request that may come from a web site."""
        access = self._access
        if access.token is not None:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            given = given or request.query.get("token", "")
            # A header may hold bytes that are no UTF-8, which Python reads as lone surrogates.
            if not hmac.compare_digest(_to_bytes(given), _to_bytes(access.token.reveal())):
                raise web.HTTPUnauthorized(text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})
            return
        hosts = request.headers.getall("Host", [])  # programs may leave it out, browsers never do
        if len(hosts) > 1 or any(not self._is_own_name(_read_host(host)) for host in hosts):
            raise web.HTTPForbidden(text=f"this server does not have that name; {access.remedy}\n")
        is_of_site = request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
        if is_of_site and request.headers.get("Sec-Fetch-Mode") != "navigate":  # a link may lead here
            raise web.HTTPForbidden(text="pages of other sites are not answered\n")

    def _is_own_name(self, name: str) -> bool:
        if name == "localhost" or name in self._access.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._is_loopback  # no name had to be resolved, so none was rebound

    async def cleanup(self, patience_s: float = SHUTDOWN_S) -> None:
        """Answer no new requests, and end those under way soon; at once those unread for ``patience_s``."""
        if self._server is not None:
            await close_listener(self._server)
        self._cut_unread(patience_s)
        await self._runner.cleanup()


class _Connection(web.RequestHandler):
    """A connection that tells ``served`` whether its client reads.

    Its errors keep nothing of what was received.
    """

    def __init__(self, served: Served, manager: web.Server, **options: Any) -> None:  # noqa: ANN401 - aiohttp's
        super().__init__(manager, **options)
        self._served = served

    def pause_writing(self) -> None:
        """Take the word that the client has left some answer unread."""
        super().pause_writing()
        self._served.note_unread(self)

    def resume_writing(self) -> None:
        """Take the word that the client reads."""
        super().resume_writing()
        self._served.note_read(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the client."""
        self._served.note_read(self)
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the reply.

        A refusal that was raised holds the frames through which it came, and one of them holds it: a circle
        with up to 1 MiB of headers in it, from a client that has no token.
        """
        if isinstance(resp, web.HTTPException):
            resp.__traceback__ = None
        return await super().finish_response(request, resp, start_time)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client.

        The frames of an error that aiohttp keeps hold the error itself and up to 256 KiB of the request. Such
        a circle waits for the collector of garbage, which a run calls seldom.
        """
        super().data_received(data)
        error = getattr(self._messages[-1][0], "exc", None) if self._messages else None
        while error is not None:
            error.__traceback__ = None
            error = error.__cause__ or error.__context__


class _Refused(asyncio.Protocol):
    """A connection for which there is no room: all others are being answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.abort()  # type: ignore[attr-defined]  # a stream's


async def serve_app(
    app: web.Application, host: str, port: int, access: ServerAccess, limits: ServerLimits, faults: FaultLines
) -> Served:
    """Serve the application until ``cleanup``, in the running event loop, whose faults ``faults`` gets too.

    Raises:
        UsageError: nothing can listen there.
    """
    asyncio.get_running_loop().set_exception_handler(faults.add_from_loop)
    served = Served(app, access, limits, faults)
    try:
        await served.start(host, port)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no DNS could have
        await served.cleanup()
        why = getattr(error, "strerror", None) or "it is no name of a host"
        raise UsageError(
            f"cannot listen on {printable(host)}, port {port}: {why}; port 0 takes a free one"
        ) from None
    return served


def _drop_body(request: web.Request) -> None:
    """Read no more of the body, and free what has come of it: see ``_Connection``."""
    if request.transport is not None:
        request.transport.pause_reading()
    with suppress(Exception):  # a body that is malformed
        request.content.read_nowait()
    request.protocol.keep_alive(False)


def _abort(connection: web.RequestHandler) -> None:
    transport = connection.transport
    connection.force_close()
    if isinstance(transport, asyncio.Transport):
        transport.abort()  # else it would stay until its client has read what is left


def _count_unread(connection: web.RequestHandler) -> int:
    transport = connection.transport
    return transport.get_write_buffer_size() if isinstance(transport, asyncio.Transport) else 0


def own_names(host: str) -> frozenset[str]:
    """The names by which this machine is asked if it listens on ``host``, which may be a name too."""
    name = socket.gethostname().lower()
    return frozenset({host.lower(), name, f"{name}.local"}) - {""}


def _read_host(text: str) -> str:
    """The name or address in a Host header, in lower case and without its port; "" if it is malformed."""
    match = _HOST.fullmatch(text)
    return "" if match is None else (match[1] or match[2].removesuffix(".")).lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
