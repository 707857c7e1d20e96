"""The oracle: a client that knows every connection before it is made, and obeys only the network.

It is no policy in the engine, so the engine's limits do not apply to it: it never rescues a file, because it
never begins on a bad connection; it has all its slots from the first moment; it has no ticks. It does obey
the limits that no client can change: latencies, the rate of a connection, one reply at a time on a
connection, the links' rates, the servers' limits, requests that meet a fault, and ``--max-concurrency``.

Why its makespan is close to the least possible one:

* A client with W slots needs at least ``all bytes / (W x rate of a good connection)`` (or, on a full link,
  ``all bytes / link``), plus the latencies of its requests on the way.
* The oracle is list scheduling: no slot is idle while bytes are waiting. If servers have ranges, a slot
  takes at most half of its share of the rest, so pieces shrink to ``LEAST_ROUNDS`` latencies, and the last
  slot ends at most about such a piece after the first. A smaller rest is divided evenly among the idle
  slots, down to ``LEAST_PIECE_BYTES``. If servers have no ranges, it takes the largest file first, and
  Graham's bound applies: at most 4/3 of the least possible makespan (Graham 1969, theorem 2, for equal
  slots).
* Its connections are those that the network gives to every client, in the same order, without the ones that
  are slow, stall, or have less than ``GOOD`` of their host's usual rate. To skip these costs it nothing; so a
  real client that looks at connections could come near it, but needs longer.

So its schedule is possible, except that it needs no time to find bad connections. It is not the least
possible time: it does not look for connections much better than usual, so if rates have a heavy tail a lucky
client can beat it, and it does not keep a connection for a better moment.
"""

import asyncio
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from cfetch.base.errors import Transient
from cfetch.plugins.lab.bench.network import ConnectionTraits, NetworkModel, lasting_pace
from cfetch.plugins.lab.bench.simulation.connections import GOOD, SimConnection, usual_bps
from cfetch.plugins.lab.bench.simulation.transport import SimTransport

WORN = 0.75  # of its first rate: a connection that will bring less is not used any more
LEAST_ROUNDS = 4.0  # latencies that the smallest piece takes, as a request costs one
LEAST_PIECE_BYTES = 16 << 10
MOST_PACES = 64  # changes of a connection's rate that are looked at in advance


@dataclass(slots=True, eq=False)
class _Piece:
    """Bytes ``start`` to ``stop`` of file ``index``, which has ``size_bytes``; larger pieces come first."""

    index: int
    start: int
    stop: int
    size_bytes: int

    def __lt__(self, other: "_Piece") -> bool:
        return (self.left_bytes, -self.index) < (other.left_bytes, -other.index)

    @property
    def left_bytes(self) -> int:
        """The bytes of it that are missing."""
        return self.stop - self.start


class _Stock:
    """The pieces of one host that are not being fetched; ``busy`` slots fetch its other pieces."""

    def __init__(self, pieces: list[_Piece], slots: int) -> None:
        self._pieces = sorted(pieces)
        self.left_bytes = sum(piece.left_bytes for piece in pieces)
        self.slots = slots
        self.busy = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def peek(self) -> _Piece:
        """The largest piece."""
        return self._pieces[-1]

    def take(self, most: float) -> _Piece:
        """Take the largest piece; the bytes beyond ``most`` stay."""
        piece = self._pieces.pop()
        if piece.left_bytes > most:
            middle = piece.start + int(most)
            insort(self._pieces, _Piece(piece.index, middle, piece.stop, piece.size_bytes))
            piece.stop = middle
        self.left_bytes -= piece.left_bytes
        return piece

    def put_back(self, piece: _Piece) -> None:
        """Put back a piece that could not be brought."""
        insort(self._pieces, piece)
        self.left_bytes += piece.left_bytes


class OracleClient:
    """Fetches all files; make it inside the virtual loop.

    ``sizes`` and ``hosts`` are of the files by index; ``slots``: how many connections it may use at a time.
    """

    def __init__(
        self,
        network: NetworkModel,
        transport: SimTransport,
        sizes: Sequence[int],
        hosts: Sequence[int],
        slots: int,
    ) -> None:
        self._network = network
        self._transport = transport
        self._slots = slots
        limits = [limit for limit in (network.connections, network.drowns_above) if limit]
        of_host = min([slots, *limits])
        pieces: list[list[_Piece]] = [[] for _ in network.hosts]
        for index, (size_bytes, host) in enumerate(zip(sizes, hosts, strict=True)):
            if size_bytes:
                pieces[host].append(_Piece(index, 0, size_bytes, size_bytes))
        self._stocks = [_Stock(part, of_host) for part in pieces]
        self._usual_bps = [usual_bps(network, host) for host in range(len(network.hosts))]

    async def run(self) -> None:
        """Fetch everything."""
        await asyncio.gather(*(self._work() for _ in range(self._slots)))

    async def _work(self) -> None:
        """Fetch pieces over one connection after another until there are none."""
        connection: SimConnection | None = None
        while (host := self._choose_host()) is not None:
            stock = self._stocks[host]
            stock.busy += 1
            connection = self._renew(connection, host)
            piece = stock.take(self._choose_bytes(connection))
            is_whole = await self._fetch(connection, piece)
            stock.busy -= 1
            if not is_whole:
                stock.put_back(piece)
                self._transport.close_connection(connection)
                connection = None
        if connection is not None:
            self._transport.close_connection(connection)

    def _choose_host(self) -> int | None:
        """The host that needs longest for its waiting bytes, among those with a free slot."""
        free = [host for host, stock in enumerate(self._stocks) if len(stock) and stock.busy < stock.slots]
        return max(free, key=lambda host: self._stocks[host].left_bytes / self._usual_bps[host], default=None)

    def _renew(self, connection: SimConnection | None, host: int) -> SimConnection:
        """The same connection if it is as good as another, or else the next good one."""
        need = self._need_bytes(host)
        if connection is not None:
            is_closed = connection.host != host or connection.served == self._network.requests > 0
            if not is_closed and usable_bytes(connection.line, connection.sent) >= need:
                return connection
            self._transport.close_connection(connection)
        least_bps = GOOD * self._usual_bps[host]
        return self._transport.connect_well(
            host, lambda line: line.rate_bps >= least_bps and usable_bytes(line, 0.0) >= need
        )

    def _need_bytes(self, host: int) -> float:
        largest = self._stocks[host].peek().left_bytes
        return min(largest, self._least_bytes(host)) if self._network.ranges else largest

    def _least_bytes(self, host: int) -> float:
        latency_s = self._network.latency_s * self._network.hosts[host].latency_factor
        return max(float(LEAST_PIECE_BYTES), LEAST_ROUNDS * latency_s * self._usual_bps[host])

    def _choose_bytes(self, connection: SimConnection) -> float:
        """The bytes to ask for: half of a slot's share, as far as the connection brings them well."""
        stock = self._stocks[connection.host]
        if not self._network.ranges:
            return stock.peek().left_bytes
        idle = stock.slots - stock.busy + 1  # this one included: no slot stays idle to save a request
        least = min(self._least_bytes(connection.host), stock.left_bytes / idle, stock.peek().left_bytes)
        share = stock.left_bytes / (2 * stock.slots)
        return max(LEAST_PIECE_BYTES, least, min(share, usable_bytes(connection.line, connection.sent)))

    async def _fetch(self, connection: SimConnection, piece: _Piece) -> bool:
        """Fetch a piece; with ranges, a part of it counts too. Returns whether all of it came."""
        if self._is_worth_ending(connection, piece):
            await self._provoke_fault(connection, piece)
            return False
        is_part = piece.left_bytes < piece.size_bytes
        headers = {"Range": f"bytes={piece.start}-{piece.stop - 1}"} if is_part else {}
        exchange = await self._transport.ask(connection, piece.index, headers)
        came = 0
        try:
            while exchange.status < 300 and (data := await exchange.read()):
                came += len(data)
        except Transient:
            pass
        exchange.close()
        is_whole = came == piece.left_bytes
        if self._network.ranges and not is_whole:
            piece.start += came
        return is_whole

    def _is_worth_ending(self, connection: SimConnection, piece: _Piece) -> bool:
        """Whether the next request meets a fault that costs more than a further request."""
        fault = self._transport.next_fault(piece.index)
        if fault is None or fault.kind not in {"slow", "stall", "delay"}:
            return False
        lost_s = fault.delay_s or 0.0
        if fault.rate_bps is not None:
            lost_s = piece.left_bytes * (1 / fault.rate_bps - 1 / self._usual_bps[connection.host])
        return fault.kind == "stall" or lost_s > 4 * connection.line.latency_s

    async def _provoke_fault(self, connection: SimConnection, piece: _Piece) -> None:
        """Ask for the file to use up its fault, and break off when a head could have come."""
        wait_s = connection.line.latency_s * (1 if connection.served else 2)
        asking = asyncio.ensure_future(self._transport.ask(connection, piece.index, {}))
        await asyncio.wait({asking}, timeout=wait_s * self._transport.link.factor(connection.host) + 1e-6)
        if asking.done():
            asking.result().close()
        asking.cancel()


def usable_bytes(line: ConnectionTraits, carried: float) -> float:
    """How many bytes of one more reply a connection brings before it stalls or is ``WORN``."""
    least_bps, brought = WORN * lasting_pace(line, 0.0, 0.0).rate_bps, 0.0
    most = float("inf") if line.stall_after is None else max(0.0, line.stall_after - carried - 1)
    for _ in range(MOST_PACES):
        rate_bps, left = lasting_pace(line, carried + brought, brought)
        if rate_bps < least_bps or (line.slow_after == 0 and line.slow_bps < line.rate_bps):
            break
        brought += left
        if brought >= most:
            break
    return min(brought, most)
