"""The adapter to aiohttp's connections.

An ordinary attempt has a connection from a pool. An attempt that replaces a straggler has a ``fresh`` one,
made after a new DNS lookup: a slow connection from the pool might be used again (Amazon S3 performance
guidelines, "Timeouts and retries for latency-sensitive applications"). Once a fresh connection has brought
its reply to the end, it goes into the pool like any other; one that was broken off never does.

URLs are sent as they are written (quoting again breaks signatures), no server's cookies are kept, and
redirects are followed here, without secrets where they lead to another origin. An object of a store is asked
for over a link that is made, and signed, for this one request.
"""

import asyncio
import re
import socket
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from cfetch import __version__
from cfetch.errors import Refused
from cfetch.manifest.object_urls import is_object_url
from cfetch.secret import SecretUrl
from cfetch.wire.exchange import Exchange, PooledConnection
from cfetch.wire.foreign_errors import is_unknown_name, make_proxy_refusal, map_error
from cfetch.wire.judge import Headers
from cfetch.wire.network import DIRECT, Network
from cfetch.wire.targets import REDIRECTS, NotPublic, is_public, next_hop

if TYPE_CHECKING:
    from cfetch.storage.object_source import ObjectLinks

AHEAD_BYTES = 512 << 10  # per connection: twice what is read at once, so that no read pauses a fast stream
HAPPY_EYEBALLS_S = 0.25  # RFC 8305 5: how long an address may be silent before the next is tried beside it
UNKNOWN_NAME_S = 0.5  # a resolver that is just starting says so of every name, so it is asked once more
AHEAD_S = (
    0.25  # seconds that the kernel may read ahead under a limit; one connection can still use the whole limit
)
MIN_AHEAD_BYTES = 32 << 10  # less would make a window of a few packets
MAX_AHEAD_BYTES = 6 << 20  # the size to which Linux lets a window grow by itself
MAX_ORIGINS = 1024  # of which what a request needs is kept; a plan of more hosts makes it anew
_WANTS_FRESH: ContextVar[bool] = ContextVar("fresh", default=False)
_ASKS_FOR_TUNNEL: ContextVar[bool] = ContextVar("tunnel", default=False)
_URL = re.compile(r"(https?)://([^/?#]+)([^#]*)", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
OBJECT_REFUSALS = {  # of a link that is new, a refusal says something about the login, and not the link
    400: "the store does not accept the request; if its bucket is in another region, set AWS_REGION",
    401: "the store denies access; the login in the environment needs to read there",
    403: "the store denies access; the login in the environment needs to read there",
}
OWN_HEADERS = {"User-Agent": f"cfetch/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}


class Response(Protocol):
    """A reply whose body is still to be read.

    ``place``: the address that it came from, as far as redirects stayed at the host that was asked. What its
    body names is relative to that: a host that only keeps the bytes elsewhere does not know the others.
    """

    status: int
    place: SecretUrl

    @property
    def headers(self) -> Headers:
        """Its headers, without those of interim replies and without trailers."""

    @property
    def peer(self) -> str | None:
        """Address and port of the other end, where they are known."""

    @property
    def carried_bytes(self) -> int:
        """Bytes of bodies that its connection had brought before; ask before the end of this reply."""

    async def read(self, most: int = -1) -> bytes:
        """Read the next bytes, or ``b""`` at the end. Negative ``most``: no limit. Raises SourceError."""

    def read_buffered(self) -> bytes:
        """Read what has arrived, without waiting."""

    def retire(self) -> None:
        """Use the connection for nothing else after this reply."""

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
    """Requests over connections of aiohttp's pool, or over fresh ones. Make it inside a running loop."""

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
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s
        )
        kept: dict[str, Any] = {"keepalive_timeout": idle_s} if keep_alive else {"force_close": True}
        self._connector = _Connector(
            AHEAD_BYTES if network.limit_bps is None else MIN_AHEAD_BYTES,
            limit=0,
            ssl=True if network.tls is None else network.tls,
            resolver=self._resolver,
            ttl_dns_cache=60,
            happy_eyeballs_delay=HAPPY_EYEBALLS_S,
            socket_factory=_make_socket_factory(network),
            **kept,
        )
        self._headers = OWN_HEADERS if keep_alive else {**OWN_HEADERS, "Connection": "close"}
        if network.user_agent is not None:
            self._headers = {**self._headers, "User-Agent": network.user_agent}
        self._origins: dict[str, _Origin] = {}
        self._links: ObjectLinks | None = None

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
        if is_object_url(url.value):
            return await self._open_object(url, headers, secrets, fresh=fresh, method=method)
        own = self._network.credentials
        if own is not None:
            secrets = own.add_headers(url, secrets)
        if self._network.logins:
            secrets = self._add_login(url, secrets)
        seen: list[SecretUrl] = []
        place = url
        while True:
            sent = secrets if own is None else own.add_cookies(url, secrets)
            reply = await self._ask(fresh, method, url, {**headers, **sent} if sent else headers)
            if reply.status not in REDIRECTS:
                reply.place = place
                return reply
            seen.append(url)
            reply.close()
            target = next_hop(url, reply.headers, seen)
            if secrets and target.origin() != url.origin():
                secrets = {}
            if target.host() == place.host():
                place = target
            url = target

    async def _open_object(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str,
    ) -> Response:
        """Ask for an object over a link that is made now. Raises SourceError."""
        if self._links is None:
            from cfetch.storage.object_source import ObjectLinks

            self._links = ObjectLinks()
        link = await self._links.sign(url, "HEAD" if method == "HEAD" else "GET")
        reply = await self.open(link, headers, secrets, fresh=fresh, method=method)
        if (why := OBJECT_REFUSALS.get(reply.status)) is not None:
            reply.close()
            raise Refused(f"HTTP {reply.status}: {why}", http_status=reply.status)
        return reply

    async def _ask(self, fresh: bool, method: str, url: SecretUrl, headers: Mapping[str, str]) -> Exchange:
        """Send one request, directly or through the proxy, and wait for the reply's head."""
        proxied = bool(self._network.proxies) and self._network.proxy_for(url) is not None
        try:
            parts = _URL.match(url.reveal())
            if parts is None:
                raise ValueError
            origin = self._find_origin(url, parts[1].lower(), parts[2])
            reply = await self._exchange(origin, method, parts[3], headers, fresh)
        except Exception as error:  # noqa: BLE001 - whatever aiohttp raises is this attempt's failure
            raise map_error(error, proxied=proxied) from None
        if proxied and reply.status == 407:
            reply.close()
            raise make_proxy_refusal(reply.status)
        return reply

    async def _exchange(
        self, origin: "_Origin", method: str, target: str, headers: Mapping[str, str], fresh: bool
    ) -> Exchange:
        """Make the request; once more where the server had closed the idle connection that it was sent on."""
        if fresh:
            self._connector.clear_dns_cache()
        while True:
            connection = await self._connect(origin, fresh)
            try:
                request = origin.make_request(method, target, headers)
                reply = Exchange(connection, request, has_body=method != "HEAD")
            except Exception:
                connection.close()
                raise
            try:
                await reply.wait_for_head()
            except (aiohttp.ServerDisconnectedError, OSError):
                if method == "POST" or not reply.may_be_stale():
                    raise
                fresh = True  # the next of the pool may be closed as well
            else:
                return reply

    async def _connect(self, origin: "_Origin", fresh: bool) -> Connection:
        """Take a connection of the pool, or make one; an unknown name is looked up twice."""
        _WANTS_FRESH.set(fresh)
        for last in (False, True):
            try:
                return await self._connector.connect(origin.request, [], self._timeout)
            except TimeoutError:
                raise aiohttp.ConnectionTimeoutError from None
            except aiohttp.ClientConnectorDNSError as error:
                if last or not is_unknown_name(error):
                    raise
            await asyncio.sleep(UNKNOWN_NAME_S)
        raise AssertionError

    def _find_origin(self, url: SecretUrl, scheme: str, authority: str) -> "_Origin":
        """Find what all requests to a server share."""
        key = f"{scheme}://{authority}"
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) >= MAX_ORIGINS:
                self._origins.clear()
            proxy = self._network.proxy_for(url) if self._network.proxies else None
            origin = self._origins[key] = _Origin(key, proxy, self._headers)
        return origin

    def _add_login(self, url: SecretUrl, secrets: Mapping[str, str]) -> Mapping[str, str]:
        """Add the user's login for the host of the entry's own URL, unless the manifest has one."""
        login = self._network.login_for(url)
        if login is None or any(name.lower() == "authorization" for name in secrets):
            return secrets
        return {**secrets, "Authorization": login}

    async def close(self) -> None:
        """Close connections and files, as ``Transport`` says."""
        await self._connector.close()
        await self._resolver.close()


class _Origin:
    """What all requests to a server share.

    ``request``: what aiohttp's connector asks for to make a connection. It is never sent.
    """

    __slots__ = ("_lines", "_prefix", "request")

    def __init__(self, url: str, proxy: SecretUrl | None, headers: Mapping[str, str]) -> None:
        self.request = aiohttp.ClientRequest(
            "GET",
            yarl.URL(url, encoded=True),
            headers=headers,
            proxy=None if proxy is None else yarl.URL(proxy.reveal(), encoded=True),
            loop=asyncio.get_running_loop(),
        )
        # A proxy is asked for the whole URL, without its login, since it may log it. A tunnel needs none.
        scheme, _, authority = url.partition("://")
        host = authority.rpartition("@")[2]
        self._prefix = "" if proxy is None or self.request.is_ssl() else f"{scheme}://{host}"
        self._lines: dict[str, str] = {}

    def make_request(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        """Make the bytes of a request, once the connection is there. Raises ValueError: it cannot be sent.

        ``target`` is sent as it is. ``headers`` come instead of ours.
        """
        if not self._lines:  # only now, as aiohttp's connector adds the login for a proxy
            own = self.request.headers
            self._lines = {name.lower(): f"{name}: {value}\r\n" for name, value in own.items()}
        if " " in target or _CONTROLS.search(target):
            raise ValueError
        lines = self._lines
        if headers:
            lines = dict(lines)
            for name, value in headers.items():
                if _CONTROLS.search(name) or _CONTROLS.search(value.replace("\t", "")):
                    raise ValueError
                lines[name.lower()] = f"{name}: {value}\r\n"
        path = target if target.startswith("/") else f"/{target}"
        length = "Content-Length: 0\r\n" if method == "POST" else ""
        text = f"{method} {self._prefix}{path} HTTP/1.1\r\n{''.join(lines.values())}{length}\r\n"
        return text.encode("utf-8", "surrogateescape")


class _Connector(aiohttp.TCPConnector):
    """Makes connections of our own kind, and leaves the pool alone where a task wants a fresh one.

    The request for a tunnel (CONNECT) is aiohttp's own affair: the connection to the proxy is of its kind.
    """

    def __init__(self, ahead_bytes: int, **options: Any) -> None:  # noqa: ANN401 - as aiohttp has them
        super().__init__(**options)
        self._ahead_bytes = ahead_bytes
        self._factory = self._make_protocol  # type: ignore[assignment]
        self._buffer = memoryview(bytearray(ahead_bytes // 2))

    def _make_protocol(self) -> PooledConnection | ResponseHandler:
        loop = asyncio.get_running_loop()
        if _ASKS_FOR_TUNNEL.get():
            return ResponseHandler(loop)
        return PooledConnection(loop, self._buffer, self._ahead_bytes)

    # aiohttp (3.14) has no public way to ask for a new connection, nor for one of another kind. Pinned by
    # tests of the wire: how many connections a server sees, and tunnels.

    async def _get(self, *args: Any) -> Connection | None:  # noqa: ANN401
        return None if _WANTS_FRESH.get() else await super()._get(*args)

    async def _create_proxy_connection(self, req: aiohttp.ClientRequest, *args: Any) -> Any:  # noqa: ANN401
        _ASKS_FOR_TUNNEL.set(req.is_ssl())
        try:
            return await super()._create_proxy_connection(req, *args)
        finally:
            _ASKS_FOR_TUNNEL.set(False)

    async def _start_tls_connection(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        _ASKS_FOR_TUNNEL.set(False)  # the server is at its other end
        return await super()._start_tls_connection(*args, **options)


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
