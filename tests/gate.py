"""A server whose bodies wait until a file exists, so that a test does not depend on how fast a machine is."""

import asyncio
from contextlib import asynccontextmanager

from cfetch.bench.content import pieces
from tests.wire.raw_server import served

__all__ = ["Gate"]


class Gate:
    """Serves ``files`` once ``marker`` exists; before that only ``head_bytes`` of each body."""

    def __init__(self, files, marker, *, head_bytes=0):
        self.files, self.marker, self.head_bytes = files, marker, head_bytes
        self.url = ""

    @asynccontextmanager
    async def open(self):
        async with served(self._serve) as port:
            self.url = f"http://127.0.0.1:{port}/"
            yield self

    async def _serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        name = head.split()[1].decode().lstrip("/").partition("?")[0]
        body = b"".join(pieces(self.files[name]))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body[: self.head_bytes])
        await writer.drain()
        while not self.marker.exists() and not writer.is_closing():
            await asyncio.sleep(0.01)
        writer.write(body[self.head_bytes :])
        await writer.drain()
