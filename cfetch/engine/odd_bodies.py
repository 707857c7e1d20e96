"""Bodies that are not just the bytes of the file: a whole object, a coding, a body that may be too large.

Imported only when a reply has such a body, or the user limits the sizes of files.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cfetch.base.errors import Refused
from cfetch.manifest.digests import Bytes
from cfetch.wire.transport import Response
from cfetch.wire.verdict import Verdict

if TYPE_CHECKING:
    from cfetch.storage.volume import Sink

PATIENCE_S = 2.0  # a body under way pauses for less, but for a retransmission


def adapt(
    verdict: Verdict,
    response: Response,
    part: "Sink",
    read: Callable[[], Awaitable[Bytes]],
    max_bytes: int | None,
) -> Callable[[], Awaitable[Bytes]]:
    """A function that reads the file's bytes; ``max_bytes``: the most that it may have."""
    if verdict.skip_bytes is not None and verdict.body_bytes is not None:
        read = _cut(response, read, verdict.skip_bytes, verdict.body_bytes)
    if verdict.may_end is not None:
        read = _end_in_silence(response, read, verdict.may_end)
    if verdict.coding is not None:
        from cfetch.wire.decoding import Decoder  # only for --encoded decode, and codings of the transfer

        for coding in reversed(verdict.coding.split(", ")):
            read = Decoder(coding, read).read
    return read if max_bytes is None else _bound(read, part, max_bytes)


def _bound(
    read: Callable[[], Awaitable[Bytes]], part: "Sink", max_bytes: int
) -> Callable[[], Awaitable[Bytes]]:
    """A function that reads a body of unknown size, and refuses it at the first byte too many."""

    async def read_on() -> Bytes:
        data = await read()
        if part.position + len(data) > max_bytes:
            part.restart()
            raise Refused(f"the file has more than the {max_bytes} bytes of --max-file-size")
        return data

    return read_on


def _cut(
    response: Response, read: Callable[[], Awaitable[Bytes]], skip_bytes: int, size_bytes: int
) -> Callable[[], Awaitable[Bytes]]:
    """A function that reads a range out of a whole object, and closes the reply behind the range."""
    skipped = taken = 0

    async def read_range() -> Bytes:
        nonlocal skipped, taken
        while taken < size_bytes and (data := await read()):
            passed = min(len(data), skip_bytes - skipped)
            skipped += passed
            if wanted := data[passed : passed + size_bytes - taken]:
                taken += len(wanted)
                return wanted
        response.close()
        return b""

    return read_range


def _end_in_silence(
    response: Response, read: Callable[[], Awaitable[Bytes]], may_end: int
) -> Callable[[], Awaitable[Bytes]]:
    """A function that reads a body which a hash will prove, and whose server states several lengths.

    Behind the shortest of them silence is its end: the connection may stay open.
    """
    received = 0

    async def read_on() -> Bytes:
        nonlocal received
        try:
            async with asyncio.timeout(PATIENCE_S if received >= may_end else None):
                data = await read()
        except TimeoutError:
            response.close()
            return b""
        received += len(data)
        return data

    return read_on


def refuse_too_large(size_bytes: int | None, most: int) -> None:
    """Raise Refused for a file that is larger than the user wants any to be."""
    if size_bytes is not None and size_bytes > most:
        raise Refused(f"the file has {size_bytes} bytes, more than the {most} of --max-file-size")
