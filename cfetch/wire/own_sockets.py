"""Sockets that some settings need: public or counted addresses, and little that is read ahead."""

import socket
from collections.abc import Callable
from typing import Any

from cfetch.wire import targets
from cfetch.wire.body_buffer import MIN_AHEAD_BYTES
from cfetch.wire.foreign_errors import NotPublic
from cfetch.wire.network import Network

AHEAD_S = 0.25  # how far the kernel may read ahead under a limit; one connection still can use all of it
MAX_AHEAD_BYTES = 6 << 20  # the size to which Linux lets a window grow by itself


def make_factory(network: Network) -> Callable[[Any], socket.socket]:
    """Make the function that makes a socket for an address."""
    limit_bps = network.limit_bps
    ahead_bytes = (
        None if limit_bps is None else min(max(int(limit_bps * AHEAD_S), MIN_AHEAD_BYTES), MAX_AHEAD_BYTES)
    )

    def make_socket(address: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
        family, kind, protocol, _, where = address
        if network.public_only and not targets.is_public(where[0]):
            raise NotPublic
        if network.addresses is not None:
            network.addresses.add(where[0])
        made = socket.socket(family, kind, protocol)
        if ahead_bytes is not None:  # before the connection, as it limits the offered window
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ahead_bytes)
        return made

    return make_socket
