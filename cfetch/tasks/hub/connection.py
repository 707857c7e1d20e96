"""A connection between a task and the hub: both prove that they know the key, then exchange messages."""

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from cfetch.tasks.hub.messages import (
    HEAD_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    Channel,
    HubAddress,
    make_proof,
)

HUB, TASK = b"cfetch hub 1", b"cfetch task 1"


class HubConnection:
    """Either side of a connection whose two sides have proved themselves.

    ``incoming`` checks the messages that are read from ``reader``, ``outgoing`` makes those that are written.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        incoming: Channel,
        outgoing: Channel,
    ) -> None:
        self.reader = reader
        self._writer = writer
        self._incoming = incoming
        self._outgoing = outgoing

    def write(self, message: msgspec.Struct) -> None:
        """Begin to send a message."""
        self._writer.write(self._outgoing.seal(msgspec.msgpack.encode(message)))

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message; wait while the other side takes nothing. Raises OSError."""
        self.write(message)
        await self._writer.drain()

    async def read(self, most_bytes: int) -> bytes:
        """The other side's next message, of at most so many bytes. Raises OSError, EOFError."""
        head = await self.reader.readexactly(HEAD_BYTES)
        size = int.from_bytes(head[:4])
        if size > most_bytes:
            raise ConnectionError(f"a message of {size} bytes")
        data = await self.reader.readexactly(size)
        if not self._incoming.is_genuine(head[4:], data):
            raise ConnectionError("a message that was not made with the key of this run")
        return data


@asynccontextmanager
async def connect(
    address: HubAddress, *, within_s: float, on_reached: Callable[[], None] | None = None
) -> AsyncIterator[HubConnection]:
    """Connect a task to the hub for as long as the ``with`` lasts.

    ``within_s``: the most time for the connection, and for the proofs. ``on_reached`` is called between them.
    Raises OSError, EOFError: there is no hub of this run there; TimeoutError is one of the first.
    """
    async with asyncio.timeout(within_s):
        reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        if on_reached is not None:
            on_reached()
        async with asyncio.timeout(within_s):
            key, own = bytes.fromhex(address.key.reveal()), secrets.token_bytes(NONCE_BYTES)
            other = await reader.readexactly(NONCE_BYTES)
            writer.write(own + make_proof(key, TASK, own, other))
            await check_proof(reader, key, HUB, own=other, other=own)
        yield HubConnection(reader, writer, Channel(key, HUB, other, own), Channel(key, TASK, other, own))
    finally:
        writer.close()


async def check_proof(
    reader: asyncio.StreamReader, key: bytes, role: bytes, *, own: bytes, other: bytes
) -> None:
    """Read the other side's proof; ``own`` is its nonce. Raises OSError, EOFError."""
    if not hmac.compare_digest(await reader.readexactly(PROOF_BYTES), make_proof(key, role, own, other)):
        raise ConnectionError("the other side does not know the key of this run")
