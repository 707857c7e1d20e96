"""The pool: connections that aiohttp's connector makes, kept from one request to the next.

aiohttp (3.14) looks names up, connects, does TLS and asks proxies. Its own pool stays empty: it has no public
way to get a new connection, and takes five calls and an object for each request. Here an idle connection
waits in a queue of its origin; the connection with the longest wait is used first, and a connection that has
waited too long is closed.
"""

import asyncio
import math
import socket
import struct
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from cfetch.wire.body_buffer import MIN_AHEAD_BYTES, Buffers
from cfetch.wire.exchange import PooledConnection
from cfetch.wire.network import Network
from cfetch.wire.transport import Connecting

AHEAD_BYTES = 512 << 10  # per connection: twice the bytes of a read, so that no read pauses a fast stream
HAPPY_EYEBALLS_S = 0.25  # RFC 8305 5: how long an address may be silent before the next is tried beside it
LOOPBACK = ["127.0.0.1", "::1"]  # of each name below localhost (RFC 6761 6.3); few resolvers know them
UNKNOWN_NAME_S = 0.5  # a resolver that is just starting does not know any name, so it is asked once more
MAX_ORIGINS = 1024  # whose last connection is remembered
AT_ONCE = 4  # first connections to a server: with Linux, a backlog of five takes six before they are accepted
APART_S = 0.001  # between the others: a simple server accepts a connection in some 0.2 ms
MOST_CLEARED = 256  # look-ups in vain for one connection: more than connections begin at once
MAX_LATE = 1024  # addresses without an answer that are remembered
_ROUND_TRIP = struct.Struct("=68xI")  # tcpi_rtt in Linux's tcp_info, in microseconds
_ASKS_FOR_TUNNEL: ContextVar[bool] = ContextVar("tunnel", default=False)
_TRIED: ContextVar[list[tuple[Any, ...]] | None] = ContextVar("tried", default=None)


class ConnectionPool:
    """Connections by origin, a text such as ``https://host:port``. Make it inside a running loop.

    ``connect_timeout_s`` covers name lookup, connection, a proxy's tunnel and TLS together. ``idle_s``: how
    long an idle connection is kept; 0: it is not kept.
    """

    def __init__(
        self, network: Network, resolver: AbstractResolver, *, connect_timeout_s: float, idle_s: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_s = idle_s
        self._idle: dict[str, deque[tuple[PooledConnection, float]]] = {}
        self._busy: Counter[str] = Counter()  # by origin, as are the idle ones
        self._most: Mapping[str, int] = {}
        self._next_s: dict[str, float] = {}  # by origin, when the next connection would begin by ``APART_S``
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._resolver = Resolver(resolver, network.resolve)
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s
        )
        self._connector = _Connector(
            AHEAD_BYTES if network.limit_bps is None else MIN_AHEAD_BYTES,
            network.max_head_bytes,
            limit=0,
            ssl=True if network.tls is None else network.tls,
            resolver=self._resolver,
            ttl_dns_cache=60,
            happy_eyeballs_delay=HAPPY_EYEBALLS_S,
            socket_factory=make_socket_factory(network),
        )

    def take_idle(self, origin: str) -> PooledConnection | None:
        """Take a connection to ``origin`` that waits for its next request; None: there is none."""
        idle = self._idle.get(origin)
        while idle:
            connection, since_s = idle.popleft()
            self._busy[origin] += 1
            if connection.is_connected() and self._loop.time() - since_s <= self._idle_s:
                return connection
            connection.let_go()
        return None

    async def connect(
        self,
        origin: str,
        request: aiohttp.ClientRequest,
        *,
        looks_up: bool,
        connecting: Connecting | None = None,
    ) -> PooledConnection:
        """Make a connection for ``request``; an unknown name is looked up twice.

        ``looks_up``: do not use the cached addresses of the name. Connections to one origin do not all begin
        in one instant: they would overflow a short backlog, and the kernel asks again only after a second.
        If this is cancelled, ``connecting`` shows that the handshake had no answer.
        """
        await self._keep_apart(origin)
        if connecting is None:
            return await self._connect(origin, request, looks_up=looks_up)
        connecting.begin()
        try:
            made = await self._connect(origin, request, looks_up=looks_up)
        except Exception:
            connecting.end()
            raise
        connecting.end()
        connecting.round_trip_s = _find_round_trip_s(made.transport)
        return made

    async def _connect(
        self, origin: str, request: aiohttp.ClientRequest, *, looks_up: bool
    ) -> PooledConnection:
        if looks_up:
            self._connector.clear_dns_cache()
        cleared, is_unknown = 0, False
        while True:
            try:
                made = await self._connector.connect(request, [], self._timeout)
            except TimeoutError:
                raise aiohttp.ConnectionTimeoutError from None
            except aiohttp.ClientConnectorDNSError as error:
                from cfetch.wire.foreign_errors import is_unknown_name  # most names are known

                if is_unknown or not is_unknown_name(error):
                    raise
                is_unknown = True
            except KeyError:  # aiohttp's: the addresses came, and another connection has cleared them again
                cleared += 1  # of all that wait for one look-up, the next that asks gets its addresses
                if cleared == MOST_CLEARED:
                    raise
                continue
            else:
                connection = cast("PooledConnection", made.protocol)
                connection.keep = partial(self._keep, origin)
                connection.let_go = partial(self._let_go, origin, made.close)
                self._busy[origin] += 1
                return connection
            await asyncio.sleep(UNKNOWN_NAME_S)

    async def _keep_apart(self, origin: str) -> None:
        now_s = self._loop.time()
        due_s = max(self._next_s.get(origin, -math.inf), now_s - (AT_ONCE - 1) * APART_S)
        self._next_s.pop(origin, None)
        self._next_s[origin] = due_s + APART_S  # the latest is the last
        if len(self._next_s) > MAX_ORIGINS:
            del self._next_s[next(iter(self._next_s))]
        if due_s > now_s:
            await asyncio.sleep(due_s - now_s)

    def has_idle(self, origin: str) -> bool:
        """Whether connections to ``origin`` wait for their next requests; they may be closed by now."""
        return bool(self._idle.get(origin))

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """Keep no idle connection to a host beyond so many connections, with those in use.

        Other processes need them where the host allows only a number of connections.
        """
        self._most = most
        for origin, idle in self._idle.items() if most else ():
            allowed = self._find_most(origin)
            while idle and allowed is not None and len(idle) + self._busy[origin] > allowed:
                self._discard(origin, idle)

    def _find_most(self, origin: str) -> int | None:
        return self._most.get(origin.partition("://")[2].rpartition("@")[2].lower())

    def _discard(self, origin: str, idle: deque[tuple[PooledConnection, float]]) -> None:
        self._busy[origin] += 1  # let_go takes it off again
        idle.popleft()[0].let_go()

    def _let_go(self, origin: str, close: Callable[[], None]) -> None:
        self._free(origin)
        close()

    def _free(self, origin: str) -> None:
        self._busy[origin] -= 1
        if not self._busy[origin]:
            del self._busy[origin]

    def _keep(self, origin: str, connection: PooledConnection) -> None:
        """Keep a connection for its next request."""
        if self._is_closed or not self._idle_s:
            connection.let_go()
            return
        allowed = self._find_most(origin) if self._most else None
        if allowed is not None and len(self._idle.get(origin, ())) + self._busy[origin] > allowed:
            connection.let_go()
            return
        self._free(origin)
        idle = self._idle.get(origin)
        if idle is None:
            idle = self._idle[origin] = deque()
        idle.append((connection, self._loop.time()))
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(self._idle_s, self._sweep)

    def _sweep(self) -> None:
        """Close connections that have waited too long; repeat this while any connection waits."""
        oldest_s = self._loop.time() - self._idle_s
        for origin, idle in list(self._idle.items()):
            while idle and (idle[0][1] <= oldest_s or not idle[0][0].is_connected()):
                self._discard(origin, idle)
            if not idle:
                del self._idle[origin]
        self._sweeping = self._loop.call_later(self._idle_s, self._sweep) if self._idle else None

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._connector.close()
        for origin, idle in self._idle.items():
            while idle:
                self._discard(origin, idle)  # it is closed already; this tells aiohttp that nobody holds it
        self._idle.clear()
        await self._resolver.close()


class _Connector(aiohttp.TCPConnector):
    """Makes connections with cfetch's own protocol.

    aiohttp itself asks a proxy for a tunnel (CONNECT), so that connection has aiohttp's protocol.

    Of the addresses of a name, aiohttp tries another one first each time, and the next beside it after
    ``HAPPY_EYEBALLS_S``. So an address that answers nothing (a dead server, IPv6 that leads nowhere) would
    delay each connection that begins with it. It is tried last once another has won against it.
    """

    def __init__(
        self,
        ahead_bytes: int,
        max_head_bytes: int,
        socket_factory: Callable[[Any], socket.socket] | None = None,
        **options: Any,  # noqa: ANN401 - as aiohttp has them
    ) -> None:
        super().__init__(**options, socket_factory=partial(_note_try, socket_factory))
        self._late: dict[tuple[Any, ...], None] = {}
        self._factory = self._make_protocol  # type: ignore[assignment]
        self._max_head_bytes = max_head_bytes
        self._buffers = Buffers(ahead_bytes // 2, ahead_bytes)

    def _make_protocol(self) -> PooledConnection | ResponseHandler:
        loop = asyncio.get_running_loop()
        if _ASKS_FOR_TUNNEL.get():
            return ResponseHandler(loop)
        return PooledConnection(loop, self._buffers, self._max_head_bytes)

    # aiohttp (3.14) has no public way to choose the order of addresses.

    async def _wrap_create_connection(self, *args: Any, addr_infos: list[Any], **options: Any) -> Any:  # noqa: ANN401
        addr_infos.sort(key=lambda each: each[4] in self._late)
        tried: list[tuple[Any, ...]] = []
        _TRIED.set(tried)
        transport, protocol = await super()._wrap_create_connection(*args, addr_infos=addr_infos, **options)
        winner = transport.get_extra_info("peername")
        if winner in tried:
            self._late.pop(winner, None)
            self._late |= dict.fromkeys(tried[: tried.index(winner)])
            while len(self._late) > MAX_LATE:
                del self._late[next(iter(self._late))]
        return transport, protocol

    # aiohttp (3.14) has no public way to choose the protocol of a connection. Tests of tunnels pin this.

    async def _create_proxy_connection(self, req: aiohttp.ClientRequest, *args: Any) -> Any:  # noqa: ANN401
        _ASKS_FOR_TUNNEL.set(req.is_ssl())
        try:
            return await super()._create_proxy_connection(req, *args)
        finally:
            _ASKS_FOR_TUNNEL.set(False)

    async def _start_tls_connection(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        _ASKS_FOR_TUNNEL.set(False)  # this connection ends at the server
        return await super()._start_tls_connection(*args, **options)


class Resolver(AbstractResolver):
    """Turns an answer without addresses into an error, as aiohttp (3.14) would fail an assertion."""

    def __init__(self, inner: AbstractResolver, stated: Mapping[tuple[str, int], list[str]]) -> None:
        """``stated``: the addresses that the user has given for hosts and ports."""
        self._inner = inner
        self._stated = stated

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a host: those that the user has stated, or else the resolver's."""
        name = host.rstrip(".").lower()
        own = self._stated and (self._stated.get((name, port)) or self._stated.get(("*", port)))
        if not own and name.endswith(".localhost"):
            own = LOOPBACK
        if own:
            return [_make_result(host, port, address) for address in own]
        try:
            addresses = await self._inner.resolve(host, port, family)
        except (
            UnicodeError
        ):  # Python's: of a label that is empty or too long, which no name server would know
            raise socket.gaierror(socket.EAI_NONAME, "no such name") from None
        if not addresses:
            raise socket.gaierror(socket.EAI_NODATA, "no address")
        return addresses

    async def close(self) -> None:
        """Close the resolver."""
        await self._inner.close()


def _make_result(host: str, port: int, address: str) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return {
        "hostname": host, "host": address, "port": port, "family": family, "proto": 0,
        "flags": socket.AI_NUMERICHOST,
    }  # fmt: skip


def _note_try(make: Callable[[Any], socket.socket] | None, address: Any) -> socket.socket:  # noqa: ANN401
    """Make a socket for an address that is tried now."""
    tried = _TRIED.get()
    if tried is not None:
        tried.append(address[4])
    return make(address) if make is not None else socket.socket(*address[:3])


def make_socket_factory(network: Network) -> Callable[[Any], socket.socket] | None:
    """Make the function that makes a socket for an address; None: no setting needs such a function."""
    if not network.public_only and network.limit_bps is None and network.addresses is None:
        return None
    from cfetch.wire.own_sockets import make_factory  # most runs have none of these settings

    return make_factory(network)


def _find_round_trip_s(transport: asyncio.Transport | None) -> float | None:
    """Seconds of a round trip over a new connection, as Linux has measured it; None: not known."""
    if transport is None or sys.platform != "linux":
        return None
    try:
        figures = transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, _ROUND_TRIP.size
        )
    except (AttributeError, OSError, TypeError):  # no socket of the kernel's TCP
        return None
    return float(_ROUND_TRIP.unpack(figures)[0]) / 1e6
