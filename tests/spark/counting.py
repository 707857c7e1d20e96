"""An origin that counts how much of it is used at a time, for tests that are no coroutines."""

import asyncio
import threading
from contextlib import contextmanager

__all__ = ["Counting", "counting"]


class Counting:
    """Answers any GET with ``size_bytes`` bytes, ``delay_s`` after the request."""

    def __init__(self, size_bytes, delay_s):
        self.size_bytes, self.delay_s = size_bytes, delay_s
        self.asking = self.open = 0
        self.most_asking = self.most_open = self.requests = 0
        self.url = ""
        self._writers = set()

    async def serve(self, reader, writer):
        self._writers.add(writer)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                self.asking += 1
                self.most_asking = max(self.most_asking, self.asking)
                try:
                    await asyncio.sleep(self.delay_s)
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {self.size_bytes}\r\n\r\n"
                    writer.write(head.encode() + bytes(self.size_bytes))
                finally:
                    self.asking -= 1
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            self._writers.discard(writer)
            writer.close()

    def close(self):
        for writer in self._writers:
            writer.transport.abort()


@contextmanager
def counting(*, size_bytes=1000, delay_s=0.02):
    """One that runs while the ``with`` block does."""
    origin, loop = Counting(size_bytes, delay_s), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def begin():
        return await asyncio.start_server(origin.serve, "127.0.0.1", 0)

    async def end():
        server.close()
        origin.close()
        while origin.open:
            await asyncio.sleep(0)

    try:
        server = asyncio.run_coroutine_threadsafe(begin(), loop).result()
        origin.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield origin
        asyncio.run_coroutine_threadsafe(end(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
