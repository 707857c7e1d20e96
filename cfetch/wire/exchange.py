"""One request and its reply on a kept connection, without the layers of aiohttp's session.

llhttp reads the reply: the parser of Node.js, by way of httptools; aiohttp has the same one inside. It is
given the leniencies that aiohttp gives it (many servers end lines with a bare LF). What llhttp leaves to its
caller is here: the limits, the end of a body that only the end of the connection ends, and whether a
connection is used again. It is after a whole reply, if both sides keep it and nothing has come behind that
reply; where something comes before the next request, it is closed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import aiohttp
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

from cfetch.secret import SecretUrl
from cfetch.wire.foreign_errors import map_error

MAX_HEADER_BYTES = 16 << 10  # one header line; h11's limit, twice nginx's
MAX_HEADERS = 128
# What may come without a byte of the body: interim replies and a head, the extensions of a chunk, trailers.
# The parser keeps no more than that.
MAX_BARE_BYTES = 128 << 10
LARGE_BYTES = 64 << 10  # pieces of this size are handed on as they are, smaller ones together
_TEXT = ("utf-8", "surrogateescape")
MANY_PIECES = 64  # each costs some 50 bytes besides its own: a chunk may have a single byte


class PooledConnection(asyncio.BufferedProtocol):
    """A connection that aiohttp's connector makes. ``used``: it has carried a whole reply.

    ``keep`` takes it after a reply that leaves it usable, ``let_go`` closes it; both are set by the pool.

    ``coming_bytes`` have come of the present reply's body, or the last one's; ``carried_bytes`` before it.

    Where ``ahead_bytes`` of a body wait for their reader, nothing more is read.

    All connections of a transport read into one ``buffer``: what it holds is parsed before the next read.
    It is no ``asyncio.Protocol`` besides, since uvloop would not read into the buffer then.
    """

    __slots__ = (
        "_buffer",
        "_closed",
        "_exchange",
        "_loop",
        "ahead_bytes",
        "carried_bytes",
        "coming_bytes",
        "keep",
        "let_go",
        "peer",
        "transport",
        "used",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, buffer: memoryview, ahead_bytes: int) -> None:
        self._loop = loop
        self._buffer = buffer
        self.ahead_bytes = ahead_bytes
        self._exchange: Exchange | None = None
        self._closed: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.keep: Callable[[PooledConnection], None] = PooledConnection.close
        self.let_go: Callable[[], None] = self.close
        self.used = False
        self.carried_bytes = self.coming_bytes = 0
        self.peer: str | None = None

    def begin(self, exchange: "Exchange") -> None:
        """Give what comes from now on to ``exchange``."""
        self._exchange = exchange
        self.carried_bytes += self.coming_bytes
        self.coming_bytes = 0

    def end(self, exchange: "Exchange", *, is_usable: bool) -> None:
        """Take it from ``exchange``, if that has it still. From now on nothing may come."""
        if self._exchange is not exchange:
            return
        self._exchange = None
        if is_usable:
            self.used = True
            self.keep(self)
        else:
            self.let_go()

    def make_waiter(self) -> asyncio.Future[None]:
        """Make a future for a reader that waits for what comes."""
        return self._loop.create_future()

    def is_connected(self) -> bool:
        """Whether a request can be sent on it; the pool asks."""
        return self.transport is not None and not self.transport.is_closing()

    @property
    def closed(self) -> asyncio.Future[None] | None:
        """Done when the connection is over; None: it is already. The pool waits for it."""
        if self._closed is None and self.transport is not None:
            self._closed = self._loop.create_future()
        return self._closed

    def close(self) -> None:
        """Close it in good order."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport, and who is at its other end."""
        self.transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        if name:
            self.peer = f"{name[0]}:{name[1]}"

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's hint is of no use here
        """Tell where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that have come."""
        if self._exchange is None:
            self.close()  # nobody has asked
        else:
            self._exchange.feed(self._buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end, which may be that of a body."""
        self.transport = None
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        if self._exchange is not None:
            self._exchange.lose_connection(exc)


class Exchange:
    """A request that is sent when it is made, and the ``Response`` to it. ``has_body``: false for a HEAD."""

    __slots__ = (
        "_bare_bytes",
        "_buffered_bytes",
        "_error",
        "_fields",
        "_has_body",
        "_is_over",
        "_is_paused",
        "_keeps",
        "_parser",
        "_parts",
        "_waiter",
        "_wire",
        "headers",
        "place",
        "source",
        "status",
    )

    place: SecretUrl  # set by the transport, which follows redirects
    source: SecretUrl  # set by it too

    def __init__(self, wire: PooledConnection, request: bytes, *, has_body: bool) -> None:
        self._wire = wire
        self._has_body = has_body
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._parts: deque[bytes] = deque()
        self._fields: list[tuple[bytes, bytes]] = []
        self._buffered_bytes = self._bare_bytes = 0
        self._is_over = self._is_paused = self._keeps = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0  # until the head has come
        self.headers: CIMultiDict[str] = CIMultiDict()
        wire.begin(self)
        if wire.transport is None:
            self._fail(aiohttp.ServerDisconnectedError())
        else:
            wire.transport.write(request)

    @property
    def peer(self) -> str | None:
        """Address and port of the other end."""
        return self._wire.peer

    @property
    def carried_bytes(self) -> int:
        """Bytes of bodies that its connection had brought before, as long as nothing else is asked on it."""
        return self._wire.carried_bytes

    async def wait_for_head(self) -> None:
        """Wait for status and headers. Raises whatever error has ended the connection."""
        try:
            while not self.status:
                if self._error is not None:
                    raise self._error
                await self._next_news()
        except BaseException:
            self.close()
            raise

    def may_be_stale(self) -> bool:
        """Whether a failure tells only that the server had closed an idle connection: nothing has come."""
        return self._wire.used and not self._bare_bytes

    async def read(self, most: int = -1) -> bytes:
        """Read the next bytes, as ``Response`` says."""
        while not self._parts:
            if self._error is not None:
                raise map_error(self._error, reading=True) from None
            if self._is_over:
                return b""
            await self._next_news()
        return self._note_taken(self._take(most))

    def read_buffered(self) -> bytes:
        """Read what has arrived, as ``Response`` says."""
        data = b"".join(self._parts)
        self._parts.clear()
        return self._note_taken(data)

    def _note_taken(self, data: bytes) -> bytes:
        """Let the connection read on where so little waits for the reader now."""
        self._buffered_bytes -= len(data)
        if self._is_paused and self._buffered_bytes < self._wire.ahead_bytes:
            self._resume()
        return data

    def retire(self) -> None:
        """Let the connection go after this reply, as ``Response`` says, unless that has come already."""
        self._keeps = False

    def close(self) -> None:
        """Break the reply off, as ``Response`` says."""
        if self._parser is not None:
            self._fail(aiohttp.ClientConnectionError())

    def _take(self, most: int) -> bytes:
        first = self._parts[0]
        if 0 <= most < len(first):  # only under a rate limit, where pieces are small
            self._parts[0] = first[most:]
            return first[:most]
        if most >= 0 or len(first) >= LARGE_BYTES or len(self._parts) == 1:
            return self._parts.popleft()
        pieces, size_bytes = [], 0
        while self._parts and size_bytes < LARGE_BYTES:
            pieces.append(self._parts.popleft())
            size_bytes += len(pieces[-1])
        return b"".join(pieces)

    def _join_last(self) -> None:
        """Join the small pieces that came last."""
        small: deque[bytes] = deque()
        while self._parts and len(self._parts[-1]) < LARGE_BYTES:
            small.appendleft(self._parts.pop())
        self._parts.append(b"".join(small))

    def _next_news(self) -> asyncio.Future[None]:
        """Done when more has come, or nothing more will."""
        self._waiter = self._wire.make_waiter()
        return self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- what comes from the connection

    def feed(self, data: memoryview) -> None:
        """Parse bytes that have come."""
        assert self._parser is not None
        self._bare_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._is_over, self._keeps = True, False  # it speaks another protocol from now on
        except HttpParserError as error:
            self._distrust(error)
            return
        if self._is_over:
            self._finish()
        elif self._bare_bytes > MAX_BARE_BYTES:
            self._distrust(HttpParserError())
            return
        elif self._buffered_bytes >= self._wire.ahead_bytes and not self._is_paused and self._wire.transport:
            self._is_paused = True
            self._wire.transport.pause_reading()
        self._wake()

    def lose_connection(self, error: Exception | None) -> None:
        """End the body, if the end of the connection may end it; else the reply has failed."""
        if not self.status:
            self._fail(error or aiohttp.ServerDisconnectedError())
        elif error or "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self._fail(aiohttp.ClientPayloadError())
        else:
            self._keeps = False
            self._finish()
            self._wake()

    def _finish(self) -> None:
        """Give the connection back: the reply has come to its end."""
        self._is_over, self._parser = True, None
        if self._is_paused:
            self._resume()
        self._wire.end(self, is_usable=self._keeps)

    def _distrust(self, error: HttpParserError) -> None:
        """Fail, and drop what has come together with bytes that are no HTTP."""
        self._parts.clear()
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._error, self._parser = error, None
        self._wire.end(self, is_usable=False)
        self._wake()

    def _resume(self) -> None:
        self._is_paused = False
        if self._wire.is_connected():
            assert self._wire.transport is not None
            self._wire.transport.resume_reading()

    # --- what the parser calls

    def on_message_begin(self) -> None:
        """Note a second reply, which nobody has asked for."""
        if self._is_over:
            self._keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Trailers count, but are not read; what comes behind the reply is not either."""
        fields = self._fields
        if len(fields) == MAX_HEADERS or len(name) + len(value) > MAX_HEADER_BYTES or b"\0" in value:
            raise ValueError
        fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Note status and headers, unless they are those of an interim reply."""
        if self._is_over or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status < 100:
            raise ValueError
        if 100 <= status < 200 and status != 101:
            self._fields.clear()
            return
        self._keeps = self._parser.should_keep_alive()
        self.status = status
        self.headers.extend(
            [(name.decode(*_TEXT), value.rstrip(b" \t").decode(*_TEXT)) for name, value in self._fields]
        )
        if not self._has_body:
            self._is_over = True

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body for the reader."""
        if self._is_over:
            self._keeps = False  # a body where none may be
            return
        self._bare_bytes = 0
        self._parts.append(body)
        if len(self._parts) > MANY_PIECES:
            self._join_last()
        self._buffered_bytes += len(body)
        self._wire.coming_bytes += len(body)

    def on_message_complete(self) -> None:
        """Note the end of the reply; an interim one goes on with the next."""
        if self.status:
            self._is_over = True
