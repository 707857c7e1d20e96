"""Connections for what is asked before a download: lists, names and links. Each use opens its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from cfetch.wire.network import Network
from cfetch.wire.transport import RunTransport, Transport

CONNECT_TIMEOUT_S = 10.0


@asynccontextmanager
async def open_transport(network: Network) -> AsyncIterator[Transport]:
    """Open a transport in the running event loop."""
    transport = await _make_transport(network)
    try:
        yield transport
    finally:
        await transport.close()


@contextmanager
def open_loop(network: Network) -> Iterator[tuple[asyncio.Runner, Transport]]:
    """Open an event loop with a transport, for a caller that has no loop and asks now and then."""
    with asyncio.Runner() as runner:
        transport = runner.run(_make_transport(network))
        try:
            yield runner, transport
        finally:
            runner.run(transport.close())


async def _make_transport(network: Network) -> Transport:
    return RunTransport(connect_timeout_s=CONNECT_TIMEOUT_S, network=network)
