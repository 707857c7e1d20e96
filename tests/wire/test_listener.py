"""A server that ends while clients connect: each socket that it has accepted is known, and can be closed."""

import asyncio
import gc
import socket
import warnings
from contextlib import ExitStack, asynccontextmanager

import pytest

from cfetch.wire.listener import close_listener
from tests.wire.raw_server import served

TURNS = range(6)  # of the loop, between a client's connection and the server's end


class Kept(asyncio.Protocol):
    """Keeps its transport in ``opened``."""

    def __init__(self, opened):
        self.opened = opened

    def connection_made(self, transport):
        self.opened.append(transport)


@asynccontextmanager
async def kept():
    """The port of a server of a protocol; its last connections are in no list but its own."""
    opened: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(lambda: Kept(opened), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    await close_listener(server)
    for transport in opened:
        transport.abort()


async def read(reader, _):
    await reader.read()


async def connect_at_the_end(serving, turns):
    """The port of a server that ends while three clients connect to it."""
    with ExitStack() as clients:
        async with serving as port:
            for _ in range(3):
                clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            for _ in range(turns):
                await asyncio.sleep(0)
    return port


@pytest.mark.parametrize("make", [kept, lambda: served(read)], ids=["protocol", "streams"])
@pytest.mark.parametrize("turns", TURNS)
def test_no_accepted_socket_is_lost(make, turns):
    """However many turns of the loop lie between a client's connection and the server's end."""
    with warnings.catch_warnings(record=True) as lost:
        warnings.simplefilter("always")
        port = asyncio.run(connect_at_the_end(make(), turns))
        gc.collect()
    # Other tests' garbage is not this server's.
    assert not [warning for warning in lost if f"laddr=('127.0.0.1', {port})" in str(warning.message)]
