"""A server that ends while clients connect: each socket that it has accepted is known, and can be closed."""

import asyncio
import gc
import socket
import warnings

import pytest

from cfetch.wire.listener import close_listener


class Kept(asyncio.Protocol):
    """Keeps its transport in ``opened``."""

    def __init__(self, opened):
        self.opened = opened

    def connection_made(self, transport):
        self.opened.append(transport)


@pytest.mark.parametrize("turns", range(5))
async def test_no_accepted_socket_is_lost(turns):
    """However many turns of the loop lie between a client's connection and the server's end."""
    opened: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(lambda: Kept(opened), "127.0.0.1", 0)
    with (
        warnings.catch_warnings(record=True) as lost,
        socket.create_connection(server.sockets[0].getsockname()[:2], timeout=60),
    ):
        warnings.simplefilter("always")
        for _ in range(turns):
            await asyncio.sleep(0)
        await close_listener(server)
        known = len(opened)
        for transport in opened:
            transport.abort()
        for _ in range(4):
            await asyncio.sleep(0)
        gc.collect()
    assert not lost
    assert len(opened) == known
