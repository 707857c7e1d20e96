"""A small real HTTP proxy on loopback: forwards absolute-form requests, and tunnels CONNECT."""

import asyncio
import contextlib

from tests.wire.raw_server import RecordingServer

__all__ = ["Proxy"]


class Proxy(RecordingServer):
    """Every name leads to ``target_port`` of this machine: no name has to exist.

    ``refusal`` is a whole reply that it gives instead of forwarding. With ``login``, requests need these
    ``user:password`` in Base64. ``heads`` are the request heads as they came.
    """

    def __init__(self, target_port=0, *, refusal=None, login=None):
        super().__init__()
        self.target_port = target_port
        self.refusal = refusal
        self.login = login

    async def converse(self, reader, writer):
        head = await self.read_head(reader)
        if self.login and f"proxy-authorization: basic {self.login}".lower() not in head.lower():
            writer.write(b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
            return
        if self.refusal is not None:
            writer.write(self.refusal)
            return
        there, to = await asyncio.open_connection("127.0.0.1", self.target_port)
        try:
            if head.startswith("CONNECT "):
                writer.write(b"HTTP/1.1 200 x\r\n\r\n")
            else:
                to.write(_as_origin_form(head).encode("latin-1"))
            await _until_first_end(_pump(reader, to), _pump(there, writer))
        finally:
            to.close()


def _as_origin_form(head):
    """What a proxy sends on: the target as a path, and its own header left out."""
    line, *fields = head.split("\r\n")
    method, target, version = line.split(" ")
    path = "/" + target.split("://", 1)[1].partition("/")[2]
    kept = [field for field in fields if not field.lower().startswith("proxy-")]
    return "\r\n".join([f"{method} {path} {version}", *kept])


async def _pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def _until_first_end(*pumps):
    tasks = [asyncio.ensure_future(pump) for pump in pumps]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
