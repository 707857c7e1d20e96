"""Messages between a task and the hub on a stream: read as a whole, checked, never larger than agreed."""

import asyncio
import hmac

from cfetch.tasks.hub.messages import HEAD_BYTES, PROOF_BYTES, Channel, make_proof

HUB, TASK = b"cfetch hub 1", b"cfetch task 1"


async def check_proof(
    reader: asyncio.StreamReader, key: bytes, role: bytes, *, own: bytes, other: bytes
) -> None:
    """Read the other side's proof; ``own`` is its nonce. Raises OSError, EOFError."""
    if not hmac.compare_digest(await reader.readexactly(PROOF_BYTES), make_proof(key, role, own, other)):
        raise ConnectionError("the other side does not know the key of this run")


async def read_message(reader: asyncio.StreamReader, channel: Channel, most: int) -> bytes:
    """The other side's next message, of at most so many bytes. Raises OSError, EOFError."""
    head = await reader.readexactly(HEAD_BYTES)
    size = int.from_bytes(head[:4])
    if size > most:
        raise ConnectionError(f"a message of {size} bytes")
    data = await reader.readexactly(size)
    if not channel.is_genuine(head[4:], data):
        raise ConnectionError("a message that was not made with the key of this run")
    return data
