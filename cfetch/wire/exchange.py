"""One request and its reply on a kept connection, without the layers of aiohttp's session.

``reply_parser.py`` reads the reply. This module does the rest: the pace of reading, the end of a body that
only the end of the connection ends, and the reuse of a connection.
A connection is used again after a whole reply, if both sides keep it and no bytes have come after that reply.
If bytes come before the next request, it is closed.

The rest of a large body whose length is stated does not go through the parser, which would copy it: it comes
into a ``BodyBuffer``, and from there into the file.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import cast

import aiohttp
from httptools import HttpParserError

from cfetch.base.config.wire import MAX_HEAD_BYTES
from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import Bytes
from cfetch.wire.body_buffer import BodyBuffer, Buffers
from cfetch.wire.reply_parser import WAY_OUT, BytesBehind, HeadFault, ReplyParser, make_parser

FIRST_BYTES = 64 << 10  # are parsed before the way of the body is chosen; all of a small reply
UNKNOWN = -1


class PooledConnection(asyncio.BufferedProtocol):
    """A connection that aiohttp's connector makes. ``used``: it has carried a whole reply.

    ``keep`` takes it after a reply that leaves it usable, ``let_go`` closes it; both are set by the pool.

    ``coming_bytes``: bytes of the present or last reply's body; ``carried_bytes``: bytes of earlier bodies.

    If many bytes of a body wait for their reader, reading pauses.

    All connections of a transport share their ``buffers``. The class is not also an ``asyncio.Protocol``,
    since uvloop would then not read into them.
    """

    __slots__ = (
        "_closed",
        "_exchange",
        "buffers",
        "carried_bytes",
        "coming_bytes",
        "keep",
        "let_go",
        "loop",
        "max_head_bytes",
        "peer",
        "tls_end",
        "transport",
        "used",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, buffers: Buffers, max_head_bytes: int = MAX_HEAD_BYTES
    ) -> None:
        self.loop = loop
        self.max_head_bytes = max_head_bytes
        self.buffers = buffers
        self._exchange: Exchange | None = None
        self._closed: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.keep: Callable[[PooledConnection], None] = PooledConnection.close
        self.let_go: Callable[[], None] = self.close
        self.used = False
        self.carried_bytes = self.coming_bytes = 0
        self.peer: str | None = None
        self.tls_end: bool | None = None

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

    def is_connected(self) -> bool:
        """Whether a request can be sent on it; the pool asks."""
        return self.transport is not None and not self.transport.is_closing()

    @property
    def closed(self) -> asyncio.Future[None] | None:
        """A future that is done when the connection is over; None: it is over already. The pool awaits it."""
        if self._closed is None and self.transport is not None:
            self._closed = self.loop.create_future()
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
        if transport.get_extra_info("ssl_object") is not None:
            self.tls_end = False

    def eof_received(self) -> None:
        """Note whether TLS has told the end (close_notify), or the connection is just over."""
        if self.tls_end is not None and self.transport is not None:
            self.tls_end = _has_told_end(self.transport.get_extra_info("ssl_object"))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's hint is of no use here
        """Return the memory for the next bytes."""
        exchange = self._exchange
        return self.buffers.shared if exchange is None or exchange.body is None else exchange.body.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that have come."""
        exchange = self._exchange
        if exchange is None:
            self.close()  # there is no request
        elif exchange.body is None:
            exchange.feed(self.buffers.shared[:nbytes])
        else:
            exchange.fill(exchange.body, nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection, which may be the end of a body."""
        self.transport = None
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        if self._exchange is not None:
            self._exchange.lose_connection(exc)


def _has_told_end(secured: ssl.SSLObject) -> bool:
    """Whether the other side has sent TLS's close_notify: a read tells, and asks for more bytes if not."""
    try:
        return not secured.read(1)
    except ssl.SSLZeroReturnError:
        return True
    except (ssl.SSLError, ValueError):
        return False


class Exchange(ReplyParser):
    """A request, which is sent at once, and the ``Response`` to it. ``has_body`` is false for HEAD.

    ``body``: takes the rest of the body past the parser; None while bytes are parsed.
    """

    __slots__ = (
        "_error",
        "_is_paused",
        "_left_bytes",
        "_waiter",
        "_wire",
        "body",
        "hidden",
        "place",
        "source",
    )

    place: SecretUrl  # set by the transport, which follows redirects
    source: SecretUrl  # set by the transport too
    hidden: Sequence[str]  # set by the transport too

    def __init__(self, wire: PooledConnection, request: bytes, *, has_body: bool) -> None:
        super().__init__(has_body=has_body, max_head_bytes=wire.max_head_bytes)
        self._wire = wire
        self.body: BodyBuffer | None = None
        self._left_bytes = UNKNOWN  # of the body, past the parser; 0: all is parsed
        self._is_paused = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
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
    def tls_end(self) -> bool | None:
        """Whether TLS has told the end of the connection, as ``Response`` says."""
        return self._wire.tls_end

    @property
    def transport(self) -> asyncio.Transport | None:
        """The connection itself, whose TCP can be asked (``tcp_figures.py``)."""
        return self._wire.transport

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

    def has_begun(self) -> bool:
        """Whether a byte of the reply has come: the server may have done what it was asked for."""
        return self._bare_bytes > 0

    async def read(self, most: int = -1) -> Bytes:
        """Read the next bytes, as ``Response`` says."""
        while not self._pieces.size_bytes:
            if self.body is not None and self.body.waiting_bytes:
                return self._take_body(self.body, most)
            if self._error is not None:
                from cfetch.wire.foreign_errors import map_error  # most replies have no error

                raise map_error(self._error, reading=True) from None
            if self._is_over:
                if self.body is not None:  # its last bytes have been used
                    self.body.close()
                    self.body = None
                return b""
            await self._next_news()
        return self._note_taken(self._pieces.take(most))

    def read_buffered(self) -> bytes:
        """Read the bytes that have arrived, as ``Response`` says."""
        if isinstance(self._error, BytesBehind):
            return b""  # the server has lost count
        data = self._note_taken(self._pieces.take_all())
        return data if self.body is None else data + self._take_body(self.body)

    def _note_taken(self, data: bytes) -> bytes:
        """Resume reading if few enough bytes wait for the reader now."""
        has_room = self.body is None or not self.body.is_full
        if self._is_paused and has_room and self._pieces.size_bytes < self._wire.buffers.ahead_bytes:
            self._resume()
        return data

    def _take_body(self, body: BodyBuffer, most: int = -1) -> memoryview:
        """Take bytes that came past the parser, and resume reading if there is room again."""
        taken = body.take(most)
        if self._is_paused and not body.is_full:
            self._resume()
        return taken

    def retire(self) -> None:
        """Close the connection after this reply, as ``Response`` says; no effect if it is complete."""
        self._keeps = False

    def close(self) -> None:
        """Cancel the reply, as ``Response`` says."""
        if self._parser is not None:
            self._fail(aiohttp.ClientConnectionError())

    def _next_news(self) -> asyncio.Future[None]:
        """A future that is done when more bytes have come, or none will come."""
        self._waiter = self._wire.loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The connection calls the methods that follow.

    def feed(self, data: memoryview) -> None:
        """Parse bytes that have come, or those of them that come before the rest of a large body."""
        first = data if self.status else data[:FIRST_BYTES]
        try:
            self.parse(first)
            self._wire.coming_bytes = self._parsed_bytes
            if self._left_bytes == UNKNOWN and self.status and not self._is_over:
                self._left_bytes = self.count_left_bytes()
                if self._left_bytes:
                    self._go_past_parser(data[len(first) :])
                    return
            if len(first) < len(data):
                self.parse(data[len(first) :])
                self._wire.coming_bytes = self._parsed_bytes
            if not self._is_over and self._bare_bytes > self._limits.head_bytes:
                why = f"the head of the reply is longer than {self._limits.head_bytes} bytes, {WAY_OUT}"
                raise HttpParserError if self.status else HeadFault(why)
        except HttpParserError as error:
            self._distrust(error)
            return
        if self._is_over:
            self._finish()
        elif self._pieces.size_bytes >= self._wire.buffers.ahead_bytes:
            self._pause()
        self._wake()

    def _go_past_parser(self, data: memoryview) -> None:
        """Take the rest of the body into a buffer from now on; ``data`` of it has been read already."""
        body = self.body = BodyBuffer(self._wire.buffers.blocks)
        body.room()[: len(data)] = data
        self.fill(body, len(data))

    def fill(self, body: BodyBuffer, size_bytes: int) -> None:
        """Note that bytes have come into the body's buffer."""
        own_bytes = min(size_bytes, self._left_bytes)
        behind = body.room()[own_bytes:size_bytes]
        body.add(own_bytes)
        self._left_bytes -= own_bytes
        self._wire.coming_bytes += own_bytes
        if not self._left_bytes:
            self._is_over = True
            if behind:  # more than the reply: it has to be HTTP, and the connection is not kept
                self._keeps, self._parser = False, make_parser(self)
                try:
                    self.parse(behind)
                except HttpParserError as error:
                    self._distrust(error)
                    return
            self._finish()
        elif body.is_full:
            self._pause()
        self._wake()

    def _pause(self) -> None:
        """Read no more until bytes are taken."""
        if not self._is_paused and self._wire.transport:
            self._is_paused = True
            self._wire.transport.pause_reading()

    def _make_loss(self) -> Exception:
        """The error of a connection that was closed before the reply's head was whole."""
        if not self._head:
            return aiohttp.ServerDisconnectedError()
        from cfetch.wire.foreign_errors import HeadLost  # most heads are whole

        return HeadLost(self._head)

    def lose_connection(self, error: Exception | None) -> None:
        """End the body, if the end of the connection may end it; else the reply has failed."""
        if not self.status:
            self._fail(error or self._make_loss())
        elif error or self._has_own_end():
            self._fail(aiohttp.ClientPayloadError())
        else:
            self._keeps = False
            self._finish()
            self._wake()

    def _has_own_end(self) -> bool:
        """Whether the body has a length or is in chunks. Any other coding of the transfer has no end."""
        transfer = self.headers.getall("Transfer-Encoding", [])
        if transfer:
            return transfer[-1].rpartition(",")[2].strip().lower() == "chunked"
        return self.find_length() is not None

    def _finish(self) -> None:
        """Give the connection back, as the reply is complete."""
        self._is_over, self._parser = True, None
        if self._is_paused:
            self._resume()
        self._wire.end(self, is_usable=self._keeps)

    def _distrust(self, error: HttpParserError) -> None:
        """Fail, as the reply is no valid HTTP. The bytes of a whole body can be read before the error."""
        if self._is_over:
            self._fail(BytesBehind())
            return
        self._pieces.take_all()
        if self.body is not None:
            self.body.clear()
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
