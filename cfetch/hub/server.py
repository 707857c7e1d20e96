"""The hub of a run on many machines, on the driver: tasks say what they do, and hear what all of them do.

One connection a task, and an exchange a second; an event loop in a thread of its own. A run can do without: a
task that cannot reach it goes by its receipts and its own share of the limits.
"""

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from cfetch.clock import Clock
from cfetch.hub.book import Book, Seen
from cfetch.hub.framing import HUB, TASK, prove, read_message
from cfetch.hub.messages import (
    KEY_BYTES,
    MOST_BEAT_BYTES,
    NONCE_BYTES,
    SILENT_S,
    Beat,
    Channel,
    HubAt,
    Orders,
    proof,
)
from cfetch.secret import SecretText

__all__ = ["Hub", "open_hub"]

MEETING_S = 5.0  # to prove who one is; a task needs a round trip
MOST_STRANGERS = BACKLOG = 4096  # that are about to: all tasks of a large cluster begin in the same moment


class Hub:
    """``at`` is for the tasks. Every method is for any thread."""

    def __init__(self, book: Book, server: socket.socket, at: HubAt, clock: Clock) -> None:
        self._book = book
        self._server = server
        self._clock = clock
        self._key = bytes.fromhex(at.key.reveal())
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _loop, _what: None)  # out of descriptors: it goes on later
        self._over = asyncio.Event()
        self._strangers = 0
        self._meetings: set[asyncio.Task[None]] = set()
        self._lines: dict[asyncio.StreamWriter, Channel] = {}
        self._thread = threading.Thread(target=self._run, name="hub", daemon=True)
        self.at = at

    def stop(self) -> None:
        """Tell all tasks to end in good order, now, and those that begin later too."""
        with self._lock:
            self._book.stopping = True
        self._from_thread(self._tell_stop)

    def look(self) -> Seen:
        """What all tasks do."""
        with self._lock:
            return self._book.look(self._clock.monotonic())

    def start(self) -> None:
        """Begin to listen; once."""
        self._thread.start()

    def close(self) -> None:
        """Leave; the tasks go on alone."""
        self._from_thread(self._over.set)
        self._thread.join()

    def _from_thread(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is over
            self._loop.call_soon_threadsafe(call)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._met, sock=self._server, backlog=BACKLOG)
        await self._over.wait()
        server.close()
        for meeting in self._meetings:
            meeting.cancel()
        await asyncio.gather(*self._meetings, return_exceptions=True)

    def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection; it is closed although it may come too late to be heard."""

        def left(task: asyncio.Task[None]) -> None:
            self._meetings.discard(task)
            self._lines.pop(writer, None)
            writer.transport.abort()

        task = self._loop.create_task(self._meet(reader, writer))
        self._meetings.add(task)
        task.add_done_callback(left)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Whatever comes over a connection, nothing else is lost."""
        with suppress(OSError, EOFError, TimeoutError, msgspec.MsgspecError, asyncio.CancelledError):
            incoming = await self._known(reader, writer)
            await self._talk(reader, writer, incoming)

    async def _known(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Channel:
        """The channel that a task's messages come by. Raises OSError if it is none of this run's."""
        if self._strangers >= MOST_STRANGERS:
            raise ConnectionError("too many at once")
        self._strangers += 1
        try:
            async with asyncio.timeout(MEETING_S):
                own = secrets.token_bytes(NONCE_BYTES)
                writer.write(own)
                other = await reader.readexactly(NONCE_BYTES)
                await prove(reader, self._key, TASK, own=other, other=own)
                writer.write(proof(self._key, HUB, own, other))
        finally:
            self._strangers -= 1
        self._lines[writer] = Channel(self._key, HUB, own, other)
        return Channel(self._key, TASK, own, other)

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, incoming: Channel
    ) -> None:
        decoder, encoder = msgspec.msgpack.Decoder(Beat), msgspec.msgpack.Encoder()
        while True:
            async with asyncio.timeout(SILENT_S):
                beat = decoder.decode(await read_message(reader, incoming, MOST_BEAT_BYTES))
                with self._lock:
                    orders = self._book.beat(beat, self._clock.monotonic())
                writer.write(self._lines[writer].sealed(encoder.encode(orders)))
                await writer.drain()

    def _tell_stop(self) -> None:
        data = msgspec.msgpack.encode(Orders(answers=False, stop=True))
        for writer, channel in self._lines.items():
            writer.write(channel.sealed(data))


@contextmanager
def open_hub(book: Book, name: str, clock: Clock, *, bind: str | None = None) -> Iterator[Hub]:
    """A hub for as long as the ``with`` lasts; executors reach this machine by ``name``.

    ``bind``: the address to listen at, if it is another. Raises OSError: none can be had there.
    """
    family, *_, address = socket.getaddrinfo(bind or name, 0, type=socket.SOCK_STREAM)[0]
    server = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    key = SecretText(secrets.token_hex(KEY_BYTES))
    hub = Hub(book, server, HubAt(name, server.getsockname()[1], key), clock)
    hub.start()
    try:
        yield hub
    finally:
        hub.close()
