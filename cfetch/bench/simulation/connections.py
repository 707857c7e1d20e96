"""Connections of the model: their traits, and how many of them a host serves at a time."""

import asyncio
from collections import deque

from cfetch.bench.network import ConnectionTraits, Network
from cfetch.bench.simulation.link import FASTEST_BPS

GOOD = 0.5  # a connection with a smaller share of its host's usual rate is slow by nature


class Connection:
    """``sent`` bytes of body in all, ``served`` requests. ``has_seat``: its host serves it.

    ``is_pooled``: once a reply is over, other requests may use it; ``is_retired``: no request may.
    """

    __slots__ = ("has_seat", "host", "idle_s", "is_pooled", "is_retired", "line", "sent", "served")

    def __init__(self, host: int, line: ConnectionTraits, *, pooled: bool = True) -> None:
        self.host = host
        self.line = line
        self.sent = 0.0
        self.served = 0
        self.idle_s = 0.0
        self.has_seat = False
        self.is_pooled = pooled
        self.is_retired = False


class Seats:
    """The connections that a host serves at a time; others wait in line for one to close."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a seat."""
        if self._free:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a seat back, as a connection has closed."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1


def usual_bps(network: Network, host: int) -> float:
    """The median rate of a host's connections."""
    if network.rates_bps:
        rate_bps = sorted(network.rates_bps)[len(network.rates_bps) // 2]
    else:
        rate_bps = network.rate_bps or FASTEST_BPS
    return rate_bps * network.hosts[host].rate_factor
