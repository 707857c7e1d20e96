"""A server that plays a case: bytes, pauses and drips as they stand there."""

import asyncio

from tests.conditions.cases import Drip, Reply
from tests.wire.raw_server import RawServer

__all__ = ["CaseServer"]


class CaseServer(RawServer):
    """Answers the n-th request with the n-th ``Reply``; ``other`` is the URL that ``{other}`` stands for."""

    def __init__(self, *replies: Reply, other: str = "") -> None:
        super().__init__(*replies)
        self.other = other.encode()
        self.sent = 0  # bytes, those of drips included

    async def answer(self, writer, reply):
        """Play ``reply``; how it ends."""
        for step in reply.steps:
            if isinstance(step, bytes):
                await self._send(writer, step.replace(b"{other}", self.other))
            elif isinstance(step, Drip):
                while True:
                    await self._send(writer, step.piece)
                    await asyncio.sleep(step.pause_s)
            else:
                await self._pause(writer, step)
        return reply.then

    async def _pause(self, writer, seconds):
        """Say nothing for so long, or until the server ends."""
        until_s = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until_s and not writer.transport.is_closing():
            await asyncio.sleep(0.01)

    async def _send(self, writer, data):
        writer.write(data)
        await writer.drain()
        self.sent += len(data)
