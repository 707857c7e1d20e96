"""One client's connection to the origin: requests in, replies out, with the scenario's pace and faults.

It is a raw ``asyncio.Protocol``: it costs some 30 microseconds a request, and it can break the rules that a
real server library keeps. ``_next`` takes a request from the inbox, ``_answer`` waits for the latency,
``_reply`` writes the head, and the body follows in one of two ways: ``_pump`` sends as fast as the client
reads, or the origin's ``Pacer`` grants bytes.
"""

import asyncio
import math
import socket
import struct
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol
from urllib.parse import unquote

from cfetch.plugins.lab.bench.content import Content
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.http_messages import (
    BadRequest,
    Head,
    Slice,
    choose_slice,
    parse_head,
    reply_head,
)
from cfetch.plugins.lab.bench.network import ConnectionTraits, NetworkModel, drown_factor, pace_now
from cfetch.plugins.lab.bench.pacing import Pacer

PIECE_BYTES = 256 << 10  # one write; also the most that a connection holds beyond the transport's own buffer
TURN_BYTES = 1 << 20  # a fast reader gets this much before the other connections have their turn
JOIN_BYTES = 64 << 10  # head and body go in one system call up to here; copying more costs more than the call
HEAD_LIMIT_BYTES = 64 << 10  # a longer head is an attack or a bug, not a request
FIRST_BYTES = 1024  # of a throttled body, sent at once to show its begin; more would falsify its rate
TICK_S = 0.05  # between writes of a throttled body: even enough for any rate estimate

Ending = Literal["keep", "stall", "reset", "close"]
_ENDINGS: Mapping[str, Ending] = {"stall": "stall", "reset": "reset", "truncate": "close"}


class Accepted(NamedTuple):
    """The origin's answer to a new connection: its number among all, its number at its server, its traits."""

    id: int
    number: int
    traits: ConnectionTraits
    server: "Server"


class Server:
    """One host: how many connections it ``accepted``; its connections that are served, wait, or send."""

    def __init__(self, most: int) -> None:
        self._most = most  # the connections that it serves at a time; 0: any number
        self.accepted = 0
        self.sending: set[Connection] = set()
        self._seated: set[Connection] = set()
        self._line: dict[Connection, None] = {}

    def find_seat(self, connection: "Connection") -> bool:
        """Give the connection a seat, or let it wait in line."""
        if not self._most or connection in self._seated:
            return True
        if len(self._seated) < self._most:
            self._seated.add(connection)
            return True
        self._line[connection] = None
        return False

    def forget(self, connection: "Connection") -> None:
        """Give the seat of a connection that is over to the next in line."""
        self._line.pop(connection, None)
        if connection in self._seated:
            self._seated.remove(connection)
            follower = next(iter(self._line), None)
            if follower is not None:
                del self._line[follower]
                self._seated.add(follower)
                follower.take_seat()


class _Body:
    """The part of a reply that is still to be sent. It ends at byte ``cut``, and ``ending`` says how.

    ``granted``: how many bytes it may have sent by now. ``used``: bytes that the connection carried before.
    ``chunked``: the client does not know its length.
    """

    def __init__(
        self, content: Content, part: Slice, fault: Fault | None, traits: ConnectionTraits, used: int
    ) -> None:
        self.content = content
        self.pos = part.start
        self.cut = part.stop
        self.ending: Ending = "keep"
        self.rate_bps = traits.rate_bps
        self.granted = 0.0
        self.sent = 0
        self.traits = traits
        self.used = used
        self.wrote_s = -math.inf
        self.chunked = False
        self._pace_bps, self._pace_end = 0.0, 0.0
        if fault is not None:
            if fault.rate_bps is not None:
                self.rate_bps = min(traits.rate_bps, fault.rate_bps)
            self.ending = _ENDINGS.get(fault.kind, "keep")
            if fault.after_bytes is not None:
                self.cut = min(part.start + fault.after_bytes, max(part.start, part.stop - 1))
        if traits.stall_after is not None and part.start + traits.stall_after - used < self.cut:
            self.cut, self.ending = part.start + traits.stall_after - used, "stall"

    def cap_bps(self) -> float:
        """The rate that the connection can carry at this byte."""
        if self.granted >= self._pace_end:
            self._pace_bps, left = pace_now(self.traits, self.used + self.granted, self.granted)
            self._pace_end = self.granted + left
        return min(self.rate_bps, self._pace_bps)

    def grant(self, count: float) -> None:
        """Allow ``count`` more bytes, up to the byte at which the connection's rate changes."""
        self.granted = min(self.granted + count, self._pace_end)

    def is_paced(self) -> bool:
        """Whether it has a rate of its own, now or later."""
        traits = self.traits
        changing = (traits.slow_after, traits.burst, traits.wear, traits.loss)
        has_window = traits.slow_start and traits.latency_s > 0
        return self.rate_bps < math.inf or has_window or any(part is not None for part in changing)


class Host(Protocol):
    """The origin, as a connection sees it (``origin.py``)."""

    network: NetworkModel

    @property
    def pacer(self) -> Pacer:
        """Paces the bodies of all connections."""

    def accept(self, connection: "Connection") -> Accepted:
        """Number a new connection."""

    def forget(self, connection: "Connection") -> None:
        """Forget a connection that is over."""

    def content(self, path: str) -> Content | None:
        """The file at ``path``, or None."""

    def factor(self, host: int) -> float:
        """How many times as long everything takes at ``host`` now."""

    def note(self, head: Head, path: str, query: str, connection: "Connection") -> Fault | None:
        """Count and list a request. Returns its fault, if any."""


class Connection(asyncio.Protocol):
    """One client's connection: requests in, replies out, one at a time and in order.

    ``host``: the index of the origin's server; ``number``: the connection's number there. ``since_s``: as in
    ``Paced``.
    """

    def __init__(self, origin: Host, host: int) -> None:
        self._origin = origin
        self.host = host
        self.since_s = 0.0
        self._used = 0  # bytes of body over all requests
        self._requests = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self.id = self.number = 0
        self._traits: ConnectionTraits
        self._server: Server
        self._inbox = bytearray()
        self._busy = False
        self._keep_alive = True
        self._body: _Body | None = None
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._asked: Head | None = None  # the request that waits for a seat

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the origin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.id, self.number, self._traits, self._server = self._origin.accept(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Drop the reply that was under way."""
        self._origin.forget(self)
        self._stop_pacing()
        self._body = None
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Keep the bytes; answer if no other request is being answered."""
        self._inbox += data
        if not self._busy:
            self._next()
        elif len(self._inbox) > HEAD_LIMIT_BYTES:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Stop reading content: the client is slower."""
        self._paused = True

    def resume_writing(self) -> None:
        """Continue to send; a throttled body waits for its next grant."""
        self._paused = False
        if self._body is not None and not self._is_paced(self._body):
            self._loop.call_soon(self._pump)  # asyncio (3.11) closes a transport twice if closed in here

    def _next(self) -> None:
        """Answer the first whole request of the inbox, if there is one."""
        end = self._inbox.find(b"\r\n\r\n")
        if self._busy or self._transport.is_closing():
            return
        if end < 0:
            if len(self._inbox) > HEAD_LIMIT_BYTES:
                self._refuse(431)
            return
        raw = bytes(self._inbox[:end])
        del self._inbox[: end + 4]
        self._busy = True
        try:
            head = parse_head(raw)
        except BadRequest:
            self._refuse(400)
            return
        self._requests += 1
        self._keep_alive = head.keep_alive and self._requests != self._origin.network.requests
        if head.method not in {"GET", "HEAD"}:
            self._refuse(405, "Allow: GET, HEAD\r\n")
        elif head.headers.get("content-length", "0") != "0" or "transfer-encoding" in head.headers:
            self._refuse(400)  # an unread body would be taken for the next request
        elif self._server.find_seat(self):
            self._answer(head)
        else:
            self._asked = head

    def take_seat(self) -> None:
        """Answer the request that has waited."""
        if self._asked is not None:
            head, self._asked = self._asked, None
            self._answer(head)

    def _refuse(self, status: int, fields: str = "") -> None:
        self._transport.write(reply_head(status, 0, fields, keep_alive=False))
        self._transport.close()

    def _answer(self, head: Head) -> None:
        target, _, query = head.target.partition("?")
        path = target[1:] if "%" not in target else unquote(target[1:])
        fault = self._origin.note(head, path, query, self)
        wait_s = self._traits.latency_s * self._origin.factor(self.host) * (2 if self._requests == 1 else 1)
        if self._traits.stall_after is not None and self._used >= self._traits.stall_after:
            return  # the connection sends no byte any more
        if fault is not None and fault.delay_s is not None and head.method == "GET":
            wait_s, fault = wait_s + fault.delay_s, None
        if wait_s:
            self._timer = self._loop.call_later(wait_s, self._reply, head, path, fault)
        else:
            self._reply(head, path, fault)

    def _reply(self, head: Head, path: str, fault: Fault | None) -> None:
        content = self._origin.content(path)
        if content is None:
            self._finish(reply_head(404, 0, keep_alive=self._keep_alive))
            return
        size, etag = content.size_bytes, content.etag
        has_ranges = self._origin.network.ranges
        fields = "Content-Type: application/octet-stream\r\n"
        fields += f"Accept-Ranges: bytes\r\nETag: {etag}\r\n" if has_ranges else "Accept-Ranges: none\r\n"
        has_sizes = self._origin.network.sizes
        if head.method == "HEAD":
            self._finish(reply_head(200, size if has_sizes else None, fields, keep_alive=self._keep_alive))
            return
        if fault is not None and fault.status is not None:
            self._finish(self._error(fault))
            return
        part = choose_slice(head.headers if has_ranges else {}, size, etag)
        if part.status == 416:
            self._finish(
                reply_head(416, 0, f"Content-Range: bytes */{size}\r\n", keep_alive=self._keep_alive)
            )
            return
        if part.status == 206:
            fields += f"Content-Range: bytes {part.start}-{part.stop - 1}/{size}\r\n"
        self._body = _Body(content, part, fault, self._traits, self._used)
        self._body.chunked = part.status == 200 and not has_sizes
        length = None if self._body.chunked else part.stop - part.start
        self._start(reply_head(part.status, length, fields, keep_alive=self._keep_alive))

    def _error(self, fault: Fault) -> bytes:
        assert fault.status is not None
        text = b"Request has expired\n" if fault.status == 403 else b"The origin was told to fail here\n"
        fields = "Content-Type: text/plain\r\n"
        if fault.retry_after_s is not None:
            fields += f"Retry-After: {fault.retry_after_s}\r\n"
        return reply_head(fault.status, len(text), fields, keep_alive=self._keep_alive) + text

    def _start(self, head: bytes) -> None:
        body = self._body
        assert body is not None
        if self._is_paced(body):
            self._transport.write(head)
            self.since_s = self._loop.time()
            self._origin.pacer.add(self)
            self._server.sending.add(self)
            self.grant(min(FIRST_BYTES, self.cap_bps() * TICK_S), self.since_s)
            return
        is_small = 0 < body.cut - body.pos <= JOIN_BYTES and not body.chunked
        joined = self._read(body, body.cut) if is_small else b""
        if joined is not None:
            self._transport.write(head + joined)
            self._pump()

    def _read(self, body: _Body, stop: int) -> bytes | memoryview | None:
        """The next piece before ``stop``; None after an abort, because a real file has vanished."""
        try:
            piece = body.content.read(body.pos, min(PIECE_BYTES, stop - body.pos))
        except OSError:
            self.abort()  # the client must not take its bytes for the whole file
            self._body = None
            return None
        body.pos += len(piece)
        body.sent += len(piece)
        self._used += len(piece)
        return piece

    def _send(self, limit: int) -> bool:
        """Write up to ``limit`` bytes of the body, less if the client is slower; True if it is over."""
        body = self._body
        if body is None:
            return True
        stop = min(body.pos + limit, body.cut)
        while body.pos < stop and not self._paused:
            piece = self._read(body, stop)
            if piece is None:
                return True
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), bytes(piece)) if body.chunked else piece)
        if body.pos < body.cut:
            return False
        self._end(body)
        return True

    def _pump(self) -> None:
        if not self._send(TURN_BYTES) and not self._paused:
            self._loop.call_soon(self._pump)

    def _is_paced(self, body: _Body) -> bool:
        return self._origin.network.link_bps is not None or body.is_paced()

    def cap_bps(self) -> float:
        """Implements ``Paced.cap_bps``."""
        if self._body is None or self._paused:
            return 0.0
        drowned = drown_factor(self._origin.network, len(self._server.sending))
        return self._body.cap_bps() / self._origin.factor(self.host) * drowned

    def grant(self, count: float, now_s: float) -> None:
        """Implements ``Paced.grant``.

        Bytes are written a tick after the last piece, or once they are worth a write.
        """
        body = self._body
        if body is None:
            return
        body.grant(count)
        due = min(int(body.granted) - body.sent, TURN_BYTES)
        if now_s - body.wrote_s >= TICK_S or due >= min(PIECE_BYTES, body.cut - body.pos):
            body.wrote_s = now_s
            self._send(due)

    def _stop_pacing(self) -> None:
        self._origin.pacer.remove(self)
        self._server.sending.discard(self)

    def _end(self, body: _Body) -> None:
        self._body = None
        self._stop_pacing()
        if body.ending == "keep":
            self._finish(b"0\r\n\r\n" if body.chunked else b"")
        elif body.ending == "close":
            self._transport.close()
        elif body.ending == "reset":
            self._timer = self._loop.call_later(TICK_S, self._reset)  # a RST overtakes unread bytes

    def _reset(self) -> None:
        if self._transport.get_write_buffer_size():
            self._timer = self._loop.call_later(TICK_S, self._reset)
            return
        linger = struct.pack("ii", 1, 0)
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._transport.abort()

    def _finish(self, last: bytes) -> None:
        if last:
            self._transport.write(last)
        self._busy = False
        if not self._keep_alive:
            self._transport.close()
        elif self._inbox:
            self._transport.resume_reading()
            self._loop.call_soon(self._next)
