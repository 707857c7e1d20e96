"""The driver renews links for tasks: it alone has the login, and each link is asked for once.

One desk serves all frames of a driver, in a thread of its own, for as long as the program runs: a frame is
evaluated whenever its user likes. A task asks on a connection of its own, with the proofs of the hub
(``cfetch/tasks/hub/``): both sides show that they know the key, which travels in the job. Links are not
encrypted on the way, as the rows that bring them are not; where Spark encrypts, there is no desk, and the
tasks ask the source themselves.
"""

import asyncio
import secrets
import socket
import threading
from contextlib import ExitStack, closing, suppress
from functools import cache
from typing import NamedTuple

import msgspec

from cfetch.base.errors import Refused, SourceError, Transient
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import SecretText
from cfetch.manifest.entry import Entry
from cfetch.plugins.spark.frames.renewing import LinkSource
from cfetch.tasks.hub.framing import HUB, TASK, check_proof, read_message
from cfetch.tasks.hub.messages import KEY_BYTES, NONCE_BYTES, Channel, make_proof
from cfetch.tasks.hub.server import HubPlace
from cfetch.wire.fresh_link import Link, UrlRefresher

MEETING_S = 10.0  # for the proofs: two round trips, on a driver that is busy with a plan
ANSWER_S = 300.0  # the user's function may wait for a server, and for other calls before this one
MOST_BYTES = 256 << 10  # of a question or an answer: a URL has up to 64 KiB, and there are headers
BACKLOG = 4096  # all tasks of a large cluster may find their links expired at once


class DeskAddress(NamedTuple):
    """Where a task asks. ``number``: which source of the desk's."""

    host: str
    port: int
    key: SecretText
    number: int


class _Question(msgspec.Struct, frozen=True):
    number: int
    entry: Entry
    stale: Link


class _Answer(msgspec.Struct, frozen=True):
    """``link`` None: ``refusal`` says why; ``is_passing``: it may be had later."""

    link: Link | None = None
    refusal: str = ""
    is_passing: bool = False


class LinkDesk:
    """Listens at ``place`` until the program ends. Raises OSError: it cannot."""

    def __init__(self, place: HubPlace) -> None:
        family, *_, address = socket.getaddrinfo(
            place.bind or place.name, place.port, type=socket.SOCK_STREAM
        )[0]
        self._server = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        self._key = secrets.token_bytes(KEY_BYTES)
        self._host = place.name
        self._sources: list[LinkSource] = []
        self._open: dict[int, UrlRefresher] = {}
        self._stack = ExitStack()  # as long as the desk, which is as long as the program
        threading.Thread(target=self._run, name="link desk", daemon=True).start()

    def add(self, source: LinkSource) -> DeskAddress:
        """Serve the source too; the address is for its tasks."""
        self._sources.append(source)
        port = self._server.getsockname()[1]
        return DeskAddress(self._host, port, SecretText(self._key.hex()), len(self._sources) - 1)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._server, backlog=BACKLOG)
        await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question; what is no question ends this connection and nothing else."""
        with suppress(OSError, EOFError, TimeoutError, *NOT_DECODED):
            try:
                async with asyncio.timeout(MEETING_S):
                    own = secrets.token_bytes(NONCE_BYTES)
                    writer.write(own)
                    other = await reader.readexactly(NONCE_BYTES)
                    await check_proof(reader, self._key, TASK, own=other, other=own)
                    writer.write(make_proof(self._key, HUB, own, other))
                    data = await read_message(reader, Channel(self._key, TASK, own, other), MOST_BYTES)
                answer = await self._answer(msgspec.msgpack.decode(data, type=_Question))
                writer.write(Channel(self._key, HUB, own, other).seal(msgspec.msgpack.encode(answer)))
                await writer.drain()
            finally:
                writer.close()

    async def _answer(self, question: _Question) -> _Answer:
        if not 0 <= question.number < len(self._sources):
            return _Answer(refusal="the driver has no such source of links")
        try:
            source = self._open.get(question.number)
            if source is None:
                source = self._open[question.number] = self._sources[question.number].open(self._stack)
            return _Answer(await source.refresh(question.entry, question.stale))
        except SourceError as error:
            return _Answer(refusal=str(error), is_passing=isinstance(error, Transient))


@cache
def open_desk(place: HubPlace) -> LinkDesk:
    """The desk at this place, which is opened once. Raises OSError."""
    return LinkDesk(place)


class DeskRefresher:
    """Asks the driver, as a task."""

    def __init__(self, address: DeskAddress) -> None:
        self._address = address

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Find a fresh link, as ``UrlRefresher`` says."""
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._ask(entry, stale)
        except (OSError, EOFError, TimeoutError, *NOT_DECODED) as error:
            raise Transient(
                f"the driver, which renews links, cannot be asked ({type(error).__name__}); executors must "
                "reach it at spark.driver.host"
            ) from None
        if answer.link is None:
            raise Transient(answer.refusal) if answer.is_passing else Refused(answer.refusal)
        return answer.link

    async def _ask(self, entry: Entry, stale: Link) -> _Answer:
        host, port, key_text, number = self._address
        key = bytes.fromhex(key_text.reveal())
        reader, writer = await asyncio.open_connection(host, port)
        with closing(writer):
            own = secrets.token_bytes(NONCE_BYTES)
            writer.write(own)
            other = await reader.readexactly(NONCE_BYTES)
            writer.write(make_proof(key, TASK, own, other))
            await check_proof(reader, key, HUB, own=other, other=own)
            question = msgspec.msgpack.encode(_Question(number, entry, stale))
            writer.write(Channel(key, TASK, other, own).seal(question))
            data = await read_message(reader, Channel(key, HUB, other, own), MOST_BYTES)
        return msgspec.msgpack.decode(data, type=_Answer)
