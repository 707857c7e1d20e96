"""A loopback HTTP/1.1 origin for benches, demos and tests: cheap, deterministic, and able to misbehave.

In a test::

    faults = {"a.bin": Fault(kind="reset", after_bytes=100)}
    async with Origin({"a.bin": Synthetic("a.bin", 4096)}, faults) as origin:
        await fetch(origin.url + "a.bin")
        assert [request.n for request in origin.requests] == [1, 2]

For a bench, in another process so that its cost is not the client's, ``cfetch.bench.process.OriginProcess``
runs ``python -m cfetch.bench.origin --spec FILE --port 0``. That prints ``{"url": …}`` when it is ready and
exits when its standard input closes, so that it never outlives its parent.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple
from urllib.parse import unquote

from cfetch.bench.content import Content, Fixed
from cfetch.bench.faults import Fault, Script, fault_for
from cfetch.bench.spec import OriginSpec
from cfetch.bench.wire import BadRequest, Head, Slice, choose_slice, parse_head, reply_head

__all__ = ["Origin", "Request"]

PIECE_BYTES = 256 << 10  # one write; also the most that a connection holds beyond the transport's own buffer
TURN_BYTES = 1 << 20  # a fast reader gets this much before the other connections have their turn
JOIN_BYTES = 64 << 10  # head and body go in one system call up to here; copying more costs more than the call
HEAD_LIMIT_BYTES = 64 << 10  # a longer head is an attack or a bug, not a request
FIRST_BYTES = 1024  # of a throttled body go at once: a client sees it begin; more would beautify its rate
TICK_S = 0.05  # how often a throttled body is written to: even enough for any rate estimate
BACKLOG = 4096  # connections that wait to be accepted; clients open all of theirs at once

Ending = Literal["keep", "stall", "reset", "close"]
_ENDINGS: Mapping[str, Ending] = {"stall": "stall", "reset": "reset", "truncate": "close"}


class Request(NamedTuple):
    """What a client asked for. ``path`` is decoded, without slash or query; ``n`` counts its GETs from 1."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    n: int
    connection_id: int
    range: str | None


class Origin:
    """Serves ``files`` (by path without leading slash) on loopback while its ``async with`` block runs.

    ``faults`` scripts single files; ``pace_bps`` throttles every body that no fault covers. ``requests``
    lists what was asked, in order, unless ``journal`` is off; ``connections`` counts those accepted so far.
    """

    def __init__(
        self,
        files: Mapping[str, Content | bytes],
        faults: Mapping[str, Script] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pace_bps: float | None = None,
        journal: bool = True,
    ) -> None:
        self.files = files
        self.faults = faults or {}
        self.requests: list[Request] = []
        self.connections = 0
        self.url = ""
        self.closed = False
        self.live: set[_Connection] = set()
        self._pace = None if pace_bps is None else Fault(kind="slow", rate_bps=pace_bps, first=0)
        self._address = (host, port)
        self._journal = journal
        self._counts: dict[str, int] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Origin":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), *self._address, backlog=BACKLOG)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self.closed = True
        self._server.close()
        for connection in tuple(self.live):
            connection.abort()
        await asyncio.sleep(0)  # the turn in which aborted transports are closed

    def content(self, path: str) -> Content | None:
        """The file at ``path``, or None."""
        found = self.files.get(path)
        return Fixed(found) if isinstance(found, bytes) else found

    def note(self, head: Head, path: str, query: str, connection_id: int) -> Fault | None:
        """Count and list a request; the fault it meets, if any."""
        script = self.faults.get(path)
        if script is None and not self._journal:
            return self._pace
        n = self._counts.get(path, 0) + (head.method == "GET")
        self._counts[path] = n
        if self._journal:
            wanted = head.headers.get("range")
            self.requests.append(Request(head.method, path, query, head.headers, n, connection_id, wanted))
        return fault_for(script, n) or self._pace


class _Body:
    """What is left to send of a reply. ``cut`` is where it ends, whole or not, and ``ending`` how."""

    __slots__ = ("content", "cut", "ending", "pos", "rate_bps", "sent", "since")

    def __init__(self, content: Content, part: Slice, fault: Fault | None, now: float) -> None:
        self.content = content
        self.pos = part.start
        self.cut = part.stop
        self.ending: Ending = "keep"
        self.rate_bps: float | None = None
        self.sent = 0
        self.since = now
        if fault is not None:
            self.rate_bps = fault.rate_bps
            self.ending = _ENDINGS.get(fault.kind, "keep")
            if fault.after_bytes is not None:
                self.cut = min(part.start + fault.after_bytes, max(part.start, part.stop - 1))


class _Connection(asyncio.Protocol):
    """One client's connection: requests in, replies out, one at a time and in order."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._id = 0
        self._inbox = bytearray()
        self._busy = False
        self._keep_alive = True
        self._body: _Body | None = None
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._origin.connections += 1
        self._id = self._origin.connections
        self._origin.live.add(self)
        if self._origin.closed:
            self.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._origin.live.discard(self)
        self._body = None
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._inbox += data
        if not self._busy:
            self._next()
        elif len(self._inbox) > HEAD_LIMIT_BYTES:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._body is not None and self._body.rate_bps is None:
            self._pump()

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
        self._keep_alive = head.keep_alive
        if head.method not in {"GET", "HEAD"}:
            self._refuse(405, "Allow: GET, HEAD\r\n")
        elif head.headers.get("content-length", "0") != "0" or "transfer-encoding" in head.headers:
            self._refuse(400)  # a body that nobody reads would be taken for the next request
        else:
            self._answer(head)

    def _refuse(self, status: int, fields: str = "") -> None:
        self._transport.write(reply_head(status, 0, fields, keep_alive=False))
        self._transport.close()

    def _answer(self, head: Head) -> None:
        target, _, query = head.target.partition("?")
        path = target[1:] if "%" not in target else unquote(target[1:])
        fault = self._origin.note(head, path, query, self._id)
        if fault is not None and fault.delay_s is not None and head.method == "GET":
            self._timer = self._loop.call_later(fault.delay_s, self._reply, head, path, None)
        else:
            self._reply(head, path, fault)

    def _reply(self, head: Head, path: str, fault: Fault | None) -> None:
        content = self._origin.content(path)
        if content is None:
            self._finish(reply_head(404, 0, keep_alive=self._keep_alive))
            return
        size, etag = content.size_bytes, content.etag
        fields = f"Content-Type: application/octet-stream\r\nAccept-Ranges: bytes\r\nETag: {etag}\r\n"
        if head.method == "HEAD":
            self._finish(reply_head(200, size, fields, keep_alive=self._keep_alive))
            return
        if fault is not None and fault.status is not None:
            self._finish(self._error(fault))
            return
        part = choose_slice(head.headers, size, etag)
        if part.status == 416:
            self._finish(
                reply_head(416, 0, f"Content-Range: bytes */{size}\r\n", keep_alive=self._keep_alive)
            )
            return
        if part.status == 206:
            fields += f"Content-Range: bytes {part.start}-{part.stop - 1}/{size}\r\n"
        self._body = _Body(content, part, fault, self._loop.time())
        self._start(reply_head(part.status, part.stop - part.start, fields, keep_alive=self._keep_alive))

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
        length = body.cut - body.pos
        if body.rate_bps is not None:
            self._transport.write(head)
            self._drip()
        elif 0 < length <= JOIN_BYTES:
            piece = body.content.read(body.pos, length)
            body.pos += len(piece)
            self._transport.write(head + piece)
            self._pump()
        else:
            self._transport.write(head)
            self._pump()

    def _send(self, limit: int) -> bool:
        """Write up to ``limit`` bytes of the body, less when the client is slower; True when it ended."""
        body = self._body
        if body is None:
            return False
        stop = min(body.pos + limit, body.cut)
        try:
            while body.pos < stop and not self._paused:
                piece = body.content.read(body.pos, min(PIECE_BYTES, stop - body.pos))
                body.pos += len(piece)
                body.sent += len(piece)
                self._transport.write(piece)
        except OSError:
            self.abort()  # a real file vanished: the client must not take what it has for the whole
            return False
        if body.pos < body.cut:
            return False
        self._end(body)
        return True

    def _pump(self) -> None:
        if not self._send(TURN_BYTES) and self._body is not None and not self._paused:
            self._loop.call_soon(self._pump)

    def _drip(self) -> None:
        body = self._body
        if body is None or body.rate_bps is None:
            return
        tick_bytes = body.rate_bps * TICK_S
        due = body.rate_bps * (self._loop.time() - body.since) + min(FIRST_BYTES, tick_bytes) - body.sent
        if due > 4 * tick_bytes:  # a client that paused is not owed a burst afterwards
            body.since += (due - tick_bytes) / body.rate_bps
            due = tick_bytes
        if not self._send(int(due)):
            wait_s = min(TICK_S, max(1, body.cut - body.pos) / body.rate_bps)  # a small file ends on time too
            self._timer = self._loop.call_later(wait_s, self._drip)

    def _end(self, body: _Body) -> None:
        self._body = None
        if body.ending == "keep":
            self._finish(b"")
        elif body.ending == "close":
            self._transport.close()
        elif body.ending == "reset":
            self._timer = self._loop.call_later(TICK_S, self._reset)  # a RST overtakes what was not read yet

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


def _stop_with_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(stop.set)


async def _serve(spec: OriginSpec, port: int) -> None:
    stop = asyncio.Event()
    watch = threading.Thread(target=_stop_with_parent, args=(asyncio.get_running_loop(), stop), daemon=True)
    async with Origin(
        spec.contents(), spec.faults, port=port, pace_bps=spec.pace_bps, journal=False
    ) as origin:
        watch.start()
        sys.stdout.write(json.dumps({"url": origin.url}) + "\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Serve one spec until standard input closes."""
    parser = argparse.ArgumentParser(prog="python -m cfetch.bench.origin", description=_serve.__doc__)
    parser.add_argument(
        "--spec", type=Path, required=True, help="JSON, as cfetch.bench.spec.OriginSpec writes it"
    )
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    args = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the bench, which closes the pipe when it is done
    asyncio.run(_serve(OriginSpec.read(args.spec), args.port))


if __name__ == "__main__":
    main()
