"""The model of the wire: connections that are pooled or fresh, replies at the network's pace."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from cfetch.base.clock import RunClock
from cfetch.base.secret import SecretUrl
from cfetch.plugins.lab.bench.faults import Fault, Script, fault_for
from cfetch.plugins.lab.bench.network import ConnectionTraits, NetworkModel, connection_of
from cfetch.plugins.lab.bench.simulation.connections import SimConnection
from cfetch.plugins.lab.bench.simulation.exchange import Meets, SimExchange
from cfetch.plugins.lab.bench.simulation.link import GRAIN_S, SimLink
from cfetch.wire.transport import Connecting, Response

KEEP_ALIVE_S = 15.0  # the same as HttpTransport's
MOST_SKIPPED = 500  # connections that are looked at to find one that suits


class SimTransport:
    """Implements ``cfetch.wire.http.Transport``. Make it inside the virtual loop.

    URLs are ``http://<host>/<index>`` with numbers; ``sizes`` and ``faults`` are of the files by index.
    ``requests``, ``connections`` and ``sent_bytes`` (of bodies, read or not) count all of the run.
    """

    def __init__(
        self,
        network: NetworkModel,
        seed: int,
        sizes: Sequence[int],
        faults: Mapping[int, Script] | None = None,
        *,
        clock: RunClock,
    ) -> None:
        self.network = network
        self.link = SimLink(network, clock)
        self._seed = seed
        self._sizes = sizes
        self._faults = faults or {}
        self._asked: dict[int, int] = {}
        self._idle: list[deque[SimConnection]] = [deque() for _ in network.hosts]
        self._made = [0 for _ in network.hosts]
        self._is_sweeping = False
        # the connections that each host serves at a time; further ones wait for one of them to close
        self._seats = [asyncio.Semaphore(network.connections) for _ in network.hosts]
        self._exchanges: dict[object, SimExchange] = {}  # by the task that made the request
        self._tasks: dict[int, asyncio.Task[object] | None] = {}
        self.requests = 0
        self.sent_bytes = 0

    @property
    def connections(self) -> int:
        """The connections made so far."""
        return sum(self._made)

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],  # noqa: ARG002 - the model has no authentication
        *,
        fresh: bool,
        method: str = "GET",
        connecting: Connecting | None = None,  # noqa: ARG002 - the model has no handshakes of their own
    ) -> Response:
        """Implements ``Transport.open``."""
        if method != "GET":
            raise NotImplementedError(f"the simulator answers GET, not {method}")
        host, _, number = url.reveal().partition("://")[2].partition("/")
        index = int(number)
        exchange = await self.ask(self.connection(int(host), fresh=fresh), index, headers)
        exchange.place = exchange.source = url  # nothing is redirected here
        return exchange

    async def ask(self, connection: SimConnection, index: int, headers: Mapping[str, str]) -> SimExchange:
        """Ask for a file over a connection that no other request uses; wait for the head."""
        exchange = SimExchange(self, connection, self._meets(index))
        self._exchanges[asyncio.current_task()] = exchange
        self.requests += 1
        try:
            if self.network.connections and not connection.has_seat:
                await self._seats[connection.host].acquire()
                connection.has_seat = True
            await exchange.answer(headers, index, self._sizes[index])
        except BaseException:
            exchange.close()
            raise
        return exchange

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """Do nothing: idle connections do not count here."""

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def begins(self, key: int) -> None:
        """Note that the calling task is about to make the request of attempt ``key``."""
        self._tasks[key] = asyncio.current_task()
        self._exchanges.pop(self._tasks[key], None)

    def ends(self, key: int) -> None:
        """Note that the attempt ``key`` is over."""
        self._tasks.pop(key, None)

    def exchange(self, key: int) -> SimExchange | None:
        """The latest request of an attempt under way."""
        task = self._tasks.get(key)
        return None if task is None else self._exchanges.get(task)

    def exchange_of(self, asking: object) -> SimExchange | None:
        """The latest request that the task ``asking`` has made."""
        return self._exchanges.get(asking)

    def forget(self, asking: object) -> None:
        """Forget a task that is over."""
        self._exchanges.pop(asking, None)

    def over(self, connection: SimConnection) -> None:
        """Note that the last byte of a reply has come: the next request may use the connection."""
        if connection.served == self.network.requests or connection.is_retired:
            self.close_connection(connection)
            return
        if not connection.is_pooled:
            return
        connection.idle_s = self.link.now()
        self._idle[connection.host].append(connection)
        if self.network.connections and not self._is_sweeping:  # otherwise no request waits for its seat
            self._is_sweeping = True
            asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._close_idle)

    def close_connection(self, connection: SimConnection) -> None:
        """Give its seat to the next; harmless when it is closed already."""
        if connection.has_seat:
            connection.has_seat = False
            self._seats[connection.host].release()

    def _close_idle(self) -> None:
        """Close connections that were idle too long; look only every ``KEEP_ALIVE_S``, as aiohttp does."""
        for idle in self._idle:
            while idle and self.link.now() - idle[0].idle_s >= KEEP_ALIVE_S - GRAIN_S:
                self.close_connection(idle.popleft())
        self._is_sweeping = any(self._idle)
        if self._is_sweeping:
            asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._close_idle)

    def connection(self, host: int, *, fresh: bool) -> SimConnection:
        """An idle connection to ``host``, else a new one."""
        idle = self._idle[host]
        while idle and not fresh:
            connection = idle.popleft()  # the connection that was idle longest, as in aiohttp
            if self.link.now() - connection.idle_s <= KEEP_ALIVE_S:
                return connection
            self.close_connection(connection)
        self._made[host] += 1
        return SimConnection(host, connection_of(self.network, self._seed, host, self._made[host]))

    def connect_well(self, host: int, suits: Callable[[ConnectionTraits], bool]) -> SimConnection:
        """Make the next connection to ``host`` that ``suits``, and keep it out of the pool.

        The connections before it cost nothing. If none of the next ``MOST_SKIPPED`` suits, it is the next.
        """
        first = self._made[host] + 1
        for number in range(first, first + MOST_SKIPPED):
            line = connection_of(self.network, self._seed, host, number)
            if suits(line):
                self._made[host] = number
                return SimConnection(host, line, is_pooled=False)
        self._made[host] = first
        return SimConnection(host, connection_of(self.network, self._seed, host, first), is_pooled=False)

    def next_fault(self, index: int) -> Fault | None:
        """The fault that the file's next request will meet, if a later request will not."""
        script, n = self._faults.get(index), self._asked.get(index, 0) + 1
        fault = fault_for(script, n)
        return fault if fault is not None and fault_for(script, n + fault.first) is not fault else None

    def _meets(self, index: int) -> Meets:
        """The fault that the file's next request meets."""
        script = self._faults.get(index)
        if script is None:
            return Meets(None, False)
        n = self._asked[index] = self._asked.get(index, 0) + 1
        fault = fault_for(script, n)
        return Meets(fault, fault is not None and fault is fault_for(script, n + 1))
