"""One request and its reply on a kept connection, without the layers of aiohttp's session.

llhttp, the parser of Node.js, reads the reply, by way of httptools; aiohttp uses the same parser. It is as
lenient as in aiohttp (many servers end lines with a bare LF). This module does what llhttp leaves to its
caller: the limits, the end of a body that only the end of the connection ends, and the reuse of a connection.
A connection is used again after a whole reply, if both sides keep it and no bytes have come after that reply.
If bytes come before the next request, it is closed.
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
# Limit of bytes without a byte of the body: interim replies and a head, the extensions of a chunk, trailers.
# The parser keeps no more bytes than that.
MAX_BARE_BYTES = 128 << 10
LARGE_BYTES = 64 << 10  # pieces of this size are returned as they are, smaller pieces are joined
MANY_PIECES = 64  # each piece has some 50 bytes of overhead, and a chunk may have a single byte


class PooledConnection(asyncio.BufferedProtocol):
    """A connection that aiohttp's connector makes. ``used``: it has carried a whole reply.

    ``keep`` takes it after a reply that leaves it usable, ``let_go`` closes it; both are set by the pool.

    ``coming_bytes``: bytes of the present or last reply's body; ``carried_bytes``: bytes of earlier bodies.

    If ``ahead_bytes`` of a body wait for their reader, reading pauses.

    All connections of a transport read into one ``buffer``: its bytes are parsed before the next read. The
    class is not also an ``asyncio.Protocol``, since uvloop would then not read into the buffer.
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
        """Give all bytes that come from now on to ``exchange``."""
        self._exchange = exchange
        self.carried_bytes += self.coming_bytes
        self.coming_bytes = 0

    def end(self, exchange: "Exchange", *, is_usable: bool) -> None:
        """Take the connection from ``exchange``, if it still has it. From now on no bytes may come."""
        if self._exchange is not exchange:
            return
        self._exchange = None
        if is_usable:
            self.used = True
            self.keep(self)
        else:
            self.let_go()

    def make_waiter(self) -> asyncio.Future[None]:
        """Make a future for a reader that waits for bytes."""
        return self._loop.create_future()

    def is_connected(self) -> bool:
        """Whether a request can be sent on it; the pool asks."""
        return self.transport is not None and not self.transport.is_closing()

    @property
    def closed(self) -> asyncio.Future[None] | None:
        """A future that is done when the connection is over; None: it is over already. The pool awaits it."""
        if self._closed is None and self.transport is not None:
            self._closed = self._loop.create_future()
        return self._closed

    def close(self) -> None:
        """Close the connection in good order."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport, and the address of its other end."""
        self.transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        if name:
            self.peer = f"{name[0]}:{name[1]}"

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's hint is of no use here
        """Return the buffer for the next bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that have come."""
        if self._exchange is None:
            self.close()  # there is no request
        else:
            self._exchange.feed(self._buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection, which may be the end of a body."""
        self.transport = None
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        if self._exchange is not None:
            self._exchange.lose_connection(exc)


class Exchange:
    """A request, which is sent at once, and the ``Response`` to it. ``has_body`` is false for HEAD."""

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
    source: SecretUrl  # set by the transport too

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
        """Bytes of bodies that the connection had brought before; valid until its next request."""
        return self._wire.carried_bytes

    async def wait_for_head(self) -> None:
        """Wait for status and headers. Raises the error that has ended the connection, if any."""
        try:
            while not self.status:
                if self._error is not None:
                    raise self._error
                await self._next_news()
        except BaseException:
            self.close()
            raise

    def may_be_stale(self) -> bool:
        """Whether the server may just have closed an idle connection: no byte of the reply has come."""
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
        """Read the bytes that have arrived, as ``Response`` says."""
        data = b"".join(self._parts)
        self._parts.clear()
        return self._note_taken(data)

    def _note_taken(self, data: bytes) -> bytes:
        """Resume reading if few enough bytes wait for the reader now."""
        self._buffered_bytes -= len(data)
        if self._is_paused and self._buffered_bytes < self._wire.ahead_bytes:
            self._resume()
        return data

    def retire(self) -> None:
        """Close the connection after this reply, as ``Response`` says; no effect if it is complete."""
        self._keeps = False

    def close(self) -> None:
        """Cancel the reply, as ``Response`` says."""
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
        """Join the last pieces that are small."""
        small: deque[bytes] = deque()
        while self._parts and len(self._parts[-1]) < LARGE_BYTES:
            small.appendleft(self._parts.pop())
        self._parts.append(b"".join(small))

    def _next_news(self) -> asyncio.Future[None]:
        """A future that is done when more bytes have come, or none will come."""
        self._waiter = self._wire.make_waiter()
        return self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- called by the connection

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
        """Give the connection back, as the reply is complete."""
        self._is_over, self._parser = True, None
        if self._is_paused:
            self._resume()
        self._wire.end(self, is_usable=self._keeps)

    def _distrust(self, error: HttpParserError) -> None:
        """Fail, and drop unread bytes, as the reply is no valid HTTP."""
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

    # --- called by the parser

    def on_message_begin(self) -> None:
        """Note a second reply, for which there was no request."""
        if self._is_over:
            self._keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Trailers count for the limits, but are not used."""
        fields = self._fields
        if len(fields) == MAX_HEADERS or len(name) + len(value) > MAX_HEADER_BYTES or b"\0" in value:
            raise ValueError
        fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Note status and headers, unless the reply is an interim reply."""
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
        self.headers = CIMultiDict(
            [
                (
                    name.decode("utf-8", "surrogateescape"),
                    value.rstrip(b" \t").decode("utf-8", "surrogateescape"),
                )
                for name, value in self._fields
            ]
        )
        if not self._has_body:
            self._is_over = True

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body for the reader."""
        if self._is_over:
            self._keeps = False  # a body in a reply that must not have one
            return
        self._bare_bytes = 0
        self._parts.append(body)
        if len(self._parts) > MANY_PIECES:
            self._join_last()
        self._buffered_bytes += len(body)
        self._wire.coming_bytes += len(body)

    def on_message_complete(self) -> None:
        """Note the end of the reply; after an interim reply, another one follows."""
        if self.status:
            self._is_over = True
