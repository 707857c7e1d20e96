"""The adapter to aiohttp, and the only place where its exceptions are seen.

An ordinary attempt has a connection from a pool. An attempt that replaces a straggler has a ``fresh`` one,
made after a new DNS lookup: a slow connection from the pool might be used again (Amazon S3 performance
guidelines, "Timeouts and retries for latency-sensitive applications"). Once a fresh connection has brought
its reply to the end, it goes into the pool like any other; one that was broken off never does.

aiohttp's defaults that would do harm are set here: total time-out 300 s, no read time-out, URLs re-quoted
(which breaks signatures), bodies decoded, cookies kept, redirects followed with secrets.
"""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from cfetch import __version__
from cfetch.secret import SecretUrl
from cfetch.wire.foreign_errors import is_unknown_name, make_proxy_refusal, map_error
from cfetch.wire.judge import Headers
from cfetch.wire.network import DIRECT, Network
from cfetch.wire.targets import REDIRECTS, NotPublic, is_public, next_hop

READ_BUFFER_BYTES = 256 << 10  # per connection; large enough that a fast stream is not paused at each read
MAX_HEADER_BYTES = 16 << 10  # one header line; h11's limit, twice nginx's
HAPPY_EYEBALLS_S = 0.25  # RFC 8305 5: how long an address may be silent before the next is tried beside it
UNKNOWN_NAME_S = 0.5  # a resolver that is just starting says so of every name, so it is asked once more
AHEAD_S = (
    0.25  # seconds that the kernel may read ahead under a limit; one connection can still use the whole limit
)
MIN_AHEAD_BYTES = 32 << 10  # less would make a window of a few packets
MAX_AHEAD_BYTES = 6 << 20  # the size to which Linux lets a window grow by itself
_WANTS_FRESH: ContextVar[bool] = ContextVar("fresh", default=False)
OWN_HEADERS = {"User-Agent": f"cfetch/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}


class Response(Protocol):
    """A reply whose body is still to be read."""

    status: int
    headers: Headers
    peer: str | None

    async def read(self, most: int = -1) -> bytes:
        """Read the next bytes, or ``b""`` at the end. Negative ``most``: no limit. Raises SourceError."""

    def read_buffered(self) -> bytes:
        """Read what has arrived, without waiting."""

    def close(self) -> None:
        """Break the reply off: the connection is not used again. Harmless after the end."""


class Transport(Protocol):
    """The port by which servers are asked; the tests' own implementation runs on virtual time."""

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str = "GET",
    ) -> Response:
        """Ask for ``url``. ``secrets`` are headers for its own origin only. Raises SourceError."""

    async def close(self) -> None:
        """Close all connections."""


class HttpTransport:
    """Requests through aiohttp, pooled or fresh. Make it inside a running loop."""

    def __init__(
        self,
        *,
        connect_timeout_s: float,
        keep_alive: bool = True,
        idle_s: float = 15.0,
        network: Network = DIRECT,
        resolver: AbstractResolver | None = None,
    ) -> None:
        """``connect_timeout_s`` covers all of it: looking the name up, connecting, a proxy's tunnel, TLS.

        ``keep_alive`` false: for plans of so many hosts that idle connections would use up descriptors.
        ``idle_s``: how long an idle connection is kept.
        """
        self._network = network
        self._resolver = _Resolver(resolver or aiohttp.DefaultResolver())
        # The monitor breaks off silent attempts, so aiohttp's own read time-out stays off.
        timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s, sock_read=None
        )
        connector = functools.partial(
            _Connector,
            limit=0,
            ssl=True if network.tls is None else network.tls,
            resolver=self._resolver,
            happy_eyeballs_delay=HAPPY_EYEBALLS_S,
            socket_factory=_make_socket_factory(network),
        )
        ahead_bytes = READ_BUFFER_BYTES if network.limit_bps is None else MIN_AHEAD_BYTES
        kept = {"keepalive_timeout": idle_s} if keep_alive else {"force_close": True}
        self._connector = connector(ttl_dns_cache=60, **kept)
        self._session = _make_session(self._connector, timeout, ahead_bytes)

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str = "GET",
    ) -> Response:
        """Ask for ``url``, as ``Transport`` says."""
        if self._network.logins:
            secrets = self._add_login(url, secrets)
        seen: list[SecretUrl] = []
        while True:
            reply = await self._ask(fresh, method, url, {**headers, **secrets} if secrets else headers)
            if reply.status not in REDIRECTS:
                return _Reply(reply)
            seen.append(url)
            reply.close()
            target = next_hop(url, reply.headers, seen)
            if secrets and target.origin() != url.origin():
                secrets = {}
            url = target

    async def _ask(
        self, fresh: bool, method: str, url: SecretUrl, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Send one request, directly or through the proxy; an unknown name is looked up twice."""
        proxy = self._network.proxy_for(url) if self._network.proxies else None
        _WANTS_FRESH.set(fresh)
        if fresh:
            self._connector.clear_dns_cache()
        for last in (False, True):
            try:
                reply = await self._session.request(
                    method,
                    yarl.URL(url.reveal(), encoded=True),
                    headers=headers,
                    allow_redirects=False,
                    proxy=None if proxy is None else proxy.reveal(),
                )
                break
            except Exception as error:  # noqa: BLE001 - whatever aiohttp raises is this attempt's failure
                if last or not is_unknown_name(error):
                    raise map_error(error, proxied=proxy is not None) from None
            await asyncio.sleep(UNKNOWN_NAME_S)
        if proxy is not None and reply.status == 407:
            reply.close()
            raise make_proxy_refusal(reply.status)
        return reply

    def _add_login(self, url: SecretUrl, secrets: Mapping[str, str]) -> Mapping[str, str]:
        """Add the user's login for the host of the entry's own URL, unless the manifest has one."""
        login = self._network.login_for(url)
        if login is None or any(name.lower() == "authorization" for name in secrets):
            return secrets
        return {**secrets, "Authorization": login}

    async def close(self) -> None:
        """Close connections and files, as ``Transport`` says."""
        await self._session.close()
        await self._resolver.close()


def _make_session(
    connector: aiohttp.TCPConnector, timeout: aiohttp.ClientTimeout, ahead_bytes: int
) -> aiohttp.ClientSession:
    loop = asyncio.get_running_loop()
    connector._factory = functools.partial(_Connection, loop=loop)  # type: ignore[assignment]
    return aiohttp.ClientSession(
        connector=connector,
        response_class=_NamedPeer,
        timeout=timeout,
        headers=OWN_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        requote_redirect_url=False,
        trust_env=False,
        read_bufsize=ahead_bytes,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    )


class _Connector(aiohttp.TCPConnector):
    """Leaves the pool alone where the request of this task wants a fresh connection."""

    async def _get(self, *args: Any) -> Connection | None:  # noqa: ANN401 - aiohttp's own, and private
        # aiohttp (3.14) has no public way to ask for a new connection. Pinned by a test of the wire: fresh
        # requests and pooled ones in turn, and how many connections the server sees.
        return None if _WANTS_FRESH.get() else await super()._get(*args)


class _Resolver(AbstractResolver):
    """Makes an answer without addresses an error: aiohttp (3.14) would fail an assertion of its own."""

    def __init__(self, inner: AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._inner.resolve(host, port, family)
        if not addresses:
            raise socket.gaierror(socket.EAI_NODATA, "no address")
        return addresses

    async def close(self) -> None:
        await self._inner.close()


def _make_socket_factory(network: Network) -> Callable[[Any], socket.socket] | None:
    """Make the function that sees each address before it is connected to; None: no setting asks for one."""
    if not network.public_only and network.limit_bps is None:
        return None
    limit_bps = network.limit_bps
    ahead_bytes = (
        None if limit_bps is None else min(max(int(limit_bps * AHEAD_S), MIN_AHEAD_BYTES), MAX_AHEAD_BYTES)
    )

    def make_socket(address: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
        family, kind, protocol, _, where = address
        if network.public_only and not is_public(where[0]):
            raise NotPublic
        made = socket.socket(family, kind, protocol)
        if ahead_bytes is not None:  # before connecting: it bounds the window that is offered
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ahead_bytes)
        return made

    return make_socket


class _NamedPeer(aiohttp.ClientResponse):
    """Keeps the peer's address, as a short reply has given its connection back before it can be asked."""

    peer: str | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        # aiohttp (3.14) would take a reply that came before its request for the answer; it keeps such replies
        # in this private queue. Pinned by a test: a server that sends two replies to one request.
        if connection.protocol is not None and len(connection.protocol._buffer):
            connection.close()
            raise aiohttp.ServerDisconnectedError
        name = connection.transport.get_extra_info("peername") if connection.transport is not None else None
        if name:
            self.peer = f"{name[0]}:{name[1]}"
        return await super().start(connection)


class _Connection(ResponseHandler):
    """Wakes the reader of a body when the connection fails.

    aiohttp (3.14) closes the connection at a malformed chunk and notes the error for the next reply only: the
    reader of this one would wait for ever. Pinned by a test: malformed ends of a body.
    """

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        body = self._payload
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError())


class _Reply:
    __slots__ = ("_reply", "headers", "peer", "status")

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers: Headers = reply.headers
        self.peer = reply.peer if isinstance(reply, _NamedPeer) else None

    async def read(self, most: int = -1) -> bytes:
        try:
            return await (self._reply.content.readany() if most < 0 else self._reply.content.read(most))
        except Exception as error:  # noqa: BLE001 - aiohttp raises bare RuntimeErrors, too
            raise map_error(error, reading=True) from None

    def read_buffered(self) -> bytes:
        with contextlib.suppress(Exception):  # a fault of the stream means only that less can be saved
            return self._reply.content.read_nowait(-1)
        return b""

    def close(self) -> None:
        self._reply.close()
