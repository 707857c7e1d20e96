"""What the tests of the network share: one exchange, scripted names, servers of a few lines."""

import asyncio
import socket
import ssl

from aiohttp.abc import AbstractResolver

from cfetch.base.config.settings import Settings
from cfetch.base.secret import SecretUrl
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import DIRECT, make_network

__all__ = ["CANARY", "Names", "ask", "serving", "silence"]

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

    def keep_at_most(self, most):
        """None are kept."""

    async def close(self):
        """Nothing to give back."""


def serving(authority, *names, **how):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **how).configure_cert(context)
    return context


async def silence(reader, writer):
    """Accept, read, and say nothing."""
    await reader.read(-1)
