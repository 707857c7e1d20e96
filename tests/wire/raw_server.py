"""A server of hand-written bytes: what no HTTP library would send, and requests as they came."""

import asyncio
import contextlib
import socket
import struct
from typing import Any

from cfetch.wire.listener import close_listener

__all__ = ["RawServer", "RecordingServer", "reply", "served"]


def reply(body=b"", *fields, status="200 OK", length=True):
    """The bytes of a reply; ``fields`` are header lines."""
    lines = [f"HTTP/1.1 {status}", *fields]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@contextlib.asynccontextmanager
async def served(serve, **where):
    """The port of a server that does to each connection what ``serve`` says; nothing is left of it."""
    opened: dict[Any, Any] = {}

    async def serve_one(reader, writer):
        opened[asyncio.current_task()] = writer
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):  # the other side has gone
            await serve(reader, writer)
        writer.close()

    if "sock" not in where:
        where |= {"host": "127.0.0.1", "port": 0}
    server = await asyncio.start_server(serve_one, **where)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await close_listener(server)
        for writer in opened.values():
            writer.transport.abort()
        await asyncio.gather(*opened)


class RecordingServer:
    """``converse`` has each connection for itself; ``heads`` are the request heads as they came."""

    def __init__(self, ssl=None):
        self.ssl = ssl
        self.heads = []

    async def __aenter__(self):
        self._serving = served(self.converse, ssl=self.ssl)
        self.port = await self._serving.__aenter__()
        self.url = f"http{'s' if self.ssl else ''}://127.0.0.1:{self.port}/"
        return self

    async def __aexit__(self, *error):
        await self._serving.__aexit__(*error)

    async def converse(self, reader, writer):
        """Read requests and write replies until the connection is to be closed."""
        raise NotImplementedError

    async def read_head(self, reader):
        """Read the next request's head, and keep it."""
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        return self.heads[-1]

    def line(self, n=0):
        """The request line of request ``n``."""
        return self.heads[n].split("\r\n")[0]


class RawServer(RecordingServer):
    """Answers the n-th request with the n-th of ``replies`` (the last repeats), then does ``then``.

    "keep" waits for the next request, "close" ends politely, "reset" sends RST. ``writers`` are of the
    connections that were accepted, ``ended`` is how many of these are over.
    """

    def __init__(self, *replies, then="keep", ssl=None):
        super().__init__(ssl)
        self.replies = replies
        self.then = then
        self.writers = []
        self.ended = 0

    async def converse(self, reader, writer):
        self.writers.append(writer)
        then = self.then
        try:
            while True:
                await self.read_head(reader)
                then = await self.answer(writer, self.replies[min(len(self.heads), len(self.replies)) - 1])
                if then == "reset":
                    await asyncio.sleep(0.05)  # a RST overtakes what was not read yet
                    linger = struct.pack("ii", 1, 0)
                    sock = writer.get_extra_info("socket")
                    if sock is not None:  # under TLS a client that went first takes it along
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                if then != "keep":
                    return
        finally:
            self.ended += 1
            if then == "reset":
                writer.transport.abort()

    @property
    def connections(self):
        """How many were accepted."""
        return len(self.writers)

    async def answer(self, writer, reply):
        """Send ``reply``, and say what follows it. A server of other replies than bytes has its own."""
        writer.write(reply)
        await writer.drain()
        return self.then

    def fields(self, n=0):
        """Its header fields, names in lower case."""
        lines = (line.split(": ", 1) for line in self.heads[n].split("\r\n")[1:] if line)
        return {name.lower(): value for name, value in lines}
