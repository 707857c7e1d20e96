"""What the tests of the network share: one exchange, scripted names, servers of a few lines."""

import asyncio
import contextlib
import socket
import ssl
from typing import Any

from aiohttp.abc import AbstractResolver

from cfetch.config.settings import Settings
from cfetch.secret import SecretUrl
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import DIRECT, make_network

__all__ = ["CANARY", "Names", "ask", "served", "serving", "silence"]

CANARY = "CANARY0123456789"


async def ask(
    url, *, network=DIRECT, resolver=None, fresh=False, secrets=(), method="GET", timeout_s=5.0, **settings
):
    """One exchange over a transport of its own: status and body. ``settings`` make a network."""
    if settings:
        network = make_network(Settings(**settings).network, {})
    transport = HttpTransport(connect_timeout_s=timeout_s, network=network, resolver=resolver)
    try:
        response = await transport.open(SecretUrl(url), {}, dict(secrets), fresh=fresh, method=method)
        body = b""
        try:
            while data := await response.read():
                body += data
        finally:
            response.close()
        return response.status, body
    finally:
        await transport.close()


class Names(AbstractResolver):
    """Scripted answers: addresses, an error number, or None for silence; the last one repeats."""

    def __init__(self, *answers):
        self.answers = answers
        self.asked = 0

    async def resolve(self, host, port=0, family=socket.AF_UNSPEC):
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, int):
            raise socket.gaierror(answer, CANARY)
        return [
            {"hostname": host, "host": one, "port": port, "proto": 0, "flags": 0,
             "family": socket.AF_INET6 if ":" in one else socket.AF_INET}
            for one in answer
        ]  # fmt: skip

    async def close(self):
        """Nothing to give back."""


def serving(authority, *names, **how):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **how).configure_cert(context)
    return context


@contextlib.asynccontextmanager
async def served(serve, sock=None):
    """The port of a server that does to each connection what ``serve`` says; nothing is left of it."""
    opened: dict[Any, Any] = {}

    async def one(reader, writer):
        opened[asyncio.current_task()] = writer
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()

    where = {"sock": sock} if sock is not None else {"host": "127.0.0.1", "port": 0}
    server = await asyncio.start_server(one, **where)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in opened.values():
            writer.transport.abort()
        await asyncio.gather(*opened)


async def silence(reader, writer):
    """Accept, read, and say nothing."""
    await reader.read(-1)
