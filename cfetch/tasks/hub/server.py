"""The hub of a run with many tasks, on the driver: tasks report their work, and learn about all of them.

Each task has one connection and exchanges messages once a second; the hub runs an event loop in a thread of
its own. A run works without the hub: a task that cannot reach it uses its receipts and its own limits.
"""

import asyncio
import resource
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import SecretText
from cfetch.tasks.hub.claims import Claims, Dealer
from cfetch.tasks.hub.connection import HUB, TASK, HubConnection, check_proof
from cfetch.tasks.hub.messages import (
    KEY_BYTES,
    MOST_BEAT_BYTES,
    NONCE_BYTES,
    SILENT_S,
    Channel,
    HubAddress,
    Orders,
    Question,
    Said,
    TaskBeat,
    make_proof,
)
from cfetch.tasks.hub.registry import ClusterView, TaskRegistry
from cfetch.wire.listener import close_listener

MEETING_S = 5.0  # for both sides to prove that they know the key; a task needs a round trip
# Connections that have not proved it yet: all tasks of a large cluster begin at once.
MOST_UNPROVED = BACKLOG = 4096

BAD_INPUT = (OSError, EOFError, *NOT_DECODED)  # these end the connection on which they happen


class Hub:
    """``address`` is for the tasks. Any thread may call each method."""

    def __init__(
        self, registry: TaskRegistry, server: socket.socket, address: HubAddress, clock: Clock
    ) -> None:
        self._registry = registry
        self._server = server
        self._clock = clock
        self._key = bytes.fromhex(address.key.reveal())
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _loop, _what: None)  # without descriptors it continues later
        self._over = asyncio.Event()
        self._unproved = 0
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_unproved = min(MOST_UNPROVED, descriptors // 4)  # strangers leave the driver its files
        self._conversations: set[asyncio.Task[None]] = set()
        self._beating: dict[asyncio.StreamWriter, HubConnection] = {}
        self._claims: Claims | None = None
        self._find_answer: Callable[[bytes], Awaitable[msgspec.Struct]] | None = None
        self._thread = threading.Thread(target=self._run, name="hub", daemon=True)
        self.address = address

    def stop(self) -> None:
        """Order all tasks to end in good order, also those that begin later."""
        with self._lock:
            self._registry.stopping = True
        self._call_in_loop(self._send_stop)

    def deal_by(self, dealer: Dealer) -> None:
        """Let tasks ask this dealer for shares; called once, before they begin."""
        self._claims = Claims(dealer)

    def answer_by(self, find_answer: Callable[[bytes], Awaitable[msgspec.Struct]]) -> None:
        """Answer questions by this coroutine, in the hub's event loop; called once, before tasks begin."""
        self._find_answer = find_answer

    def view(self) -> ClusterView:
        """All that tasks do now."""
        with self._lock:
            return self._registry.view(self._clock.monotonic())

    def forget(self, task: int) -> None:
        """Forget a task that has died: others may have its leases, as its connections are gone."""
        with self._lock:
            self._registry.forget(task)

    def start(self) -> None:
        """Begin to listen; called once."""
        self._thread.start()

    def close(self) -> None:
        """End the hub; the tasks continue alone."""
        self._call_in_loop(self._over.set)
        self._thread.join()

    def _call_in_loop(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is over
            self._loop.call_soon_threadsafe(call)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._server, backlog=BACKLOG)
        await self._over.wait()
        await close_listener(server)
        if self._claims is not None:
            self._claims.close()
        for meeting in self._conversations:
            meeting.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        await asyncio.sleep(0)  # the turn in which aborted transports are closed

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a new connection; it is closed even if it comes too late to be served."""

        def clean_up(task: asyncio.Task[None]) -> None:
            self._conversations.discard(task)
            self._beating.pop(writer, None)
            writer.transport.abort()

        task = self._loop.create_task(self._serve_task(reader, writer))
        self._conversations.add(task)
        task.add_done_callback(clean_up)

    async def _serve_task(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a task until it leaves; bad input ends this connection and nothing else."""
        with suppress(*BAD_INPUT, TimeoutError, asyncio.CancelledError):
            task = await self._authenticate(reader, writer)
            async with asyncio.timeout(SILENT_S):
                said = msgspec.msgpack.decode(await task.read(MOST_BEAT_BYTES), type=Said)
            if isinstance(said, TaskBeat):
                self._beating[writer] = task
                await self._talk(said, task)
            elif isinstance(said, Question):
                if self._find_answer is not None:
                    await task.send(await self._find_answer(said.data))
            elif self._claims is not None:
                await self._claims.serve(said, task)

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> HubConnection:
        """Let a task prove itself, and prove the hub to it. Raises OSError: it is none of this run."""
        if self._unproved >= self._most_unproved:
            raise ConnectionError("too many at once")
        self._unproved += 1
        try:
            async with asyncio.timeout(MEETING_S):
                own = secrets.token_bytes(NONCE_BYTES)
                writer.write(own)
                other = await reader.readexactly(NONCE_BYTES)
                await check_proof(reader, self._key, TASK, own=other, other=own)
                writer.write(make_proof(self._key, HUB, own, other))
        finally:
            self._unproved -= 1
        incoming, outgoing = (Channel(self._key, role, own, other) for role in (TASK, HUB))
        return HubConnection(reader, writer, incoming, outgoing)

    async def _talk(self, beat: TaskBeat, task: HubConnection) -> None:
        """Answer beats, from this first one on."""
        decoder = msgspec.msgpack.Decoder(TaskBeat)
        while True:
            async with asyncio.timeout(SILENT_S):
                with self._lock:
                    orders = self._registry.answer(beat, self._clock.monotonic())
                await task.send(orders)
                beat = decoder.decode(await task.read(MOST_BEAT_BYTES))

    def _send_stop(self) -> None:
        for task in self._beating.values():
            task.write(Orders(answers=False, stop=True))


class HubPlace(NamedTuple):
    """The name by which tasks reach this machine, and where to listen: the address, if it is another."""

    name: str
    bind: str | None = None
    port: int = 0


@contextmanager
def open_hub(registry: TaskRegistry, place: HubPlace, clock: Clock) -> Iterator[Hub]:
    """Run a hub for as long as the ``with`` lasts. Raises OSError: it cannot listen there."""
    name = place.name
    family, *_, address = socket.getaddrinfo(place.bind or name, place.port, type=socket.SOCK_STREAM)[0]
    server = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    key = SecretText(secrets.token_hex(KEY_BYTES))
    hub = Hub(registry, server, HubAddress(name, server.getsockname()[1], key), clock)
    hub.start()
    try:
        yield hub
    finally:
        hub.close()
