"""A server whose bodies wait until a file exists, so that a test does not depend on how fast a machine is."""

import asyncio
from contextlib import asynccontextmanager, suppress

from cfetch.plugins.lab.bench.content import pieces
from tests.wire.raw_server import served

__all__ = ["Gate"]


class Gate:
    """Serves ``files`` once ``marker`` exists; before that only ``head_bytes`` of each body."""

    def __init__(self, files, marker, *, head_bytes=0):
        self.files, self.marker, self.head_bytes = files, marker, head_bytes
        self.url = ""
        self.requests = 0
        self._opened = asyncio.Event()

    @asynccontextmanager
    async def open(self):
        watching = asyncio.create_task(self._watch())  # one for all bodies: each look costs some
        try:
            async with served(self._serve) as port:
                self.url = f"http://127.0.0.1:{port}/"
                yield self
        finally:
            watching.cancel()

    async def _watch(self):
        while not self.marker.exists():
            await asyncio.sleep(0.01)
        self._opened.set()

    async def _serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        name = head.split()[1].decode().lstrip("/").partition("?")[0]
        body = b"".join(pieces(self.files[name]))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body[: self.head_bytes])
        await writer.drain()
        while not self._opened.is_set() and not writer.is_closing():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._opened.wait(), 0.5)
        writer.write(body[self.head_bytes :])
        await writer.drain()
