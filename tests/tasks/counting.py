"""An origin that counts how much of it is used at a time, for tests that are no coroutines."""

import asyncio
import threading
from contextlib import contextmanager

from tests.wire.raw_server import served

__all__ = ["Counting", "counting"]

VAIN_S = 60.0  # who waits for so long waits for ever


class Counting:
    """Answers any GET with ``size_bytes`` bytes, ``delay_s`` after the request.

    Before that all but the first ``free`` wait until ``together`` are asked at a time and ``may_answer`` is
    set, as a busy machine may ask late; they wait no longer than ``VAIN_S``.
    """

    def __init__(self, size_bytes, delay_s, together, free):
        self.size_bytes, self.delay_s, self.together, self.free = size_bytes, delay_s, together, free
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asking = self.open = 0
        self.most_asking = self.most_open = self.requests = 0
        self.url = ""

    async def serve(self, reader, writer):
        loop = asyncio.get_running_loop()
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                self.asking += 1
                self.most_asking = max(self.most_asking, self.asking)
                try:
                    end_s = loop.time() + VAIN_S
                    while not self._is_time() and loop.time() < end_s:
                        await asyncio.sleep(self.delay_s)
                    await asyncio.sleep(self.delay_s)
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {self.size_bytes}\r\n\r\n"
                    writer.write(head.encode() + bytes(self.size_bytes))
                finally:
                    self.asking -= 1
                await writer.drain()
        finally:
            self.open -= 1

    def _is_time(self):
        is_met = self.requests <= self.free or self.most_asking >= self.together
        return is_met and self.may_answer.is_set()


@contextmanager
def counting(*, size_bytes=1000, delay_s=0.02, together=1, free=0):
    """One that runs while the ``with`` block does."""
    origin, loop = Counting(size_bytes, delay_s, together, free), asyncio.new_event_loop()
    serving = served(origin.serve)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(step):
        """Do ``step`` in the origin's loop."""
        return asyncio.run_coroutine_threadsafe(step, loop).result()

    try:
        origin.url = f"http://127.0.0.1:{run(serving.__aenter__())}/"
        try:
            yield origin
        finally:
            run(serving.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
