"""The adapter to aiohttp's connections.

An ordinary attempt has a connection from a pool. An attempt that replaces a straggler has a ``fresh`` one,
made after a new DNS lookup: a slow connection from the pool might be used again (Amazon S3 performance
guidelines, "Timeouts and retries for latency-sensitive applications"). When a fresh connection has brought
its whole reply, it goes into the pool like any other; a connection whose reply was cancelled never does.

URLs are sent as they are written, as quoting again breaks signatures. ``hops.py`` follows redirects. Where
only aiohttp's session can do a thing (SOCKS, Digest, a program's own session), ``session.py`` takes over.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver

from cfetch.base.errors import Transient
from cfetch.base.schemes import WEB_PATTERN
from cfetch.base.secret import SecretUrl
from cfetch.wire.connections import ConnectionPool
from cfetch.wire.exchange import Exchange
from cfetch.wire.hops import OWN_HEADERS, HopTransport, asks_for_digest, find_basic
from cfetch.wire.network import DIRECT, Network
from cfetch.wire.transport import Connecting, Response

if TYPE_CHECKING:
    from cfetch.wire.session import SessionTransport

MAX_ORIGINS = 1024  # origins whose request data is kept; with more hosts it is made anew
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
# The scheme, a login, the server, the request target, and a fragment; login and fragment are never sent.
_URL = re.compile(rf"({WEB_PATTERN}://)(?:[^/?#]*@)?([^/?#@]+)([^#\x00-\x20\x7f]*)(?:#.*)?\Z", re.DOTALL)
_NUMBER = "(?:0|[1-9][0-9]*)"
# May be spelled in another way: a number that is no usual address, an address with a zone, an empty port.
_IS_ODD = re.compile(
    rf"(?!(?:{_NUMBER}\.){{3}}{_NUMBER}(?::|\Z))[0-9][0-9A-Fa-fxX.]*(?::|\Z)|\[[^]]*%|[^:]*:\Z"
)


class HttpTransport(HopTransport):
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
        """``connect_timeout_s`` covers name lookup, connection, a proxy's tunnel and TLS together.

        ``keep_alive`` false: for plans with so many hosts that idle connections would use up descriptors.
        ``idle_s``: how long an idle connection is kept.
        """
        super().__init__(network)
        self._connect_timeout_s = connect_timeout_s
        self._session: SessionTransport | None = None
        self._pool = ConnectionPool(
            network,
            resolver or aiohttp.DefaultResolver(),
            connect_timeout_s=connect_timeout_s,
            idle_s=idle_s if keep_alive else 0.0,
        )
        self._headers = OWN_HEADERS if keep_alive else {**OWN_HEADERS, "Connection": "close"}
        if network.user_agent is not None:
            self._headers = {**self._headers, "User-Agent": network.user_agent}
        self._origins: dict[str, _Origin] = {}

    async def send(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        *,
        fresh: bool,
        method: str,
        connecting: Connecting | None,
    ) -> Response:
        """Make one request over a connection of the pool, or a fresh one. Raises SourceError."""
        if self._session is not None and self._session.uses_digest(url, headers):
            return await self._session.send(url, headers, fresh=fresh, method=method, connecting=connecting)
        proxied = False
        try:
            origin, target = self._find_origin(url)
            proxied = origin.is_proxied
            reply = await self._ask(origin, method, target, headers, connecting, fresh=fresh)
        except Exception as error:  # noqa: BLE001 - whatever aiohttp raises is this attempt's failure
            from cfetch.wire.foreign_errors import map_error  # most requests have no error

            raise map_error(error, proxied=proxied) from None
        if proxied and reply.status == 407:
            from cfetch.wire.foreign_errors import make_proxy_refusal  # as above

            reply.close()
            raise make_proxy_refusal(reply.status)
        if reply.status == 401 and asks_for_digest(reply.headers):
            return await self._send_with_digest(reply, url, headers, fresh=fresh, method=method)
        return reply

    async def _send_with_digest(
        self, refusal: Response, url: SecretUrl, headers: Mapping[str, str], *, fresh: bool, method: str
    ) -> Response:
        """Ask again by aiohttp's session, which knows Digest, if the login was refused as Basic."""
        login = find_basic(headers)
        if login is None:
            return refusal
        refusal.close()
        if self._session is None:
            from cfetch.wire.session import SessionTransport  # few servers ask for it

            self._session = SessionTransport(connect_timeout_s=self._connect_timeout_s, network=self._network)
        self._session.use_digest(url, login)
        return await self._session.send(url, headers, fresh=fresh, method=method, connecting=None)

    async def _ask(
        self,
        origin: "_Origin",
        method: str,
        target: str,
        headers: Mapping[str, str],
        connecting: Connecting | None,
        *,
        fresh: bool,
    ) -> Exchange:
        """Send one request, and wait for the reply's head.

        The request is sent once more if the server had closed the idle connection, or takes no new one: the
        connections that wait may be all that it allows, so one of them is used.
        """
        looks_up, is_again = fresh, False
        while True:
            connection = None if fresh else self._pool.take_idle(origin.url)
            if connection is None:
                try:
                    connection = await self._pool.connect(
                        origin.url, origin.request, looks_up=looks_up, connecting=connecting
                    )
                except OSError as error:
                    from cfetch.wire.foreign_errors import map_error  # most connections are made

                    is_for_now = isinstance(map_error(error), Transient)
                    connection = self._pool.take_idle(origin.url) if is_for_now else None
                    if connection is None:
                        raise
            try:
                request = origin.make_request(method, target, headers)
                reply = Exchange(connection, request, has_body=method != "HEAD")
            except Exception:
                connection.let_go()
                raise
            try:
                await reply.wait_for_head()
            except (aiohttp.ServerDisconnectedError, OSError):
                has_other = connection.used or self._pool.has_idle(origin.url)
                if method == "POST" or is_again or reply.has_begun() or not has_other:
                    raise
                fresh, is_again = connection.used, True  # the pool's next connection may be closed too
            else:
                return reply

    def _find_origin(self, url: SecretUrl) -> "tuple[_Origin, str]":
        """Find the shared data of requests to the URL's server, and the request target. Raises ValueError."""
        parts = _URL.match(url.reveal())
        if parts is None:
            raise ValueError
        scheme, authority, target = parts.groups()
        server = scheme + authority
        origin = self._origins.get(server)
        if origin is None:
            if len(self._origins) >= MAX_ORIGINS:
                self._origins.clear()
            proxy = self._network.proxy_for(url) if self._network.proxies else None
            origin = self._origins[server] = _Origin(server, proxy, self._headers)
        return origin, target

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """Keep so many connections to hosts, as ``Transport`` says."""
        self._pool.keep_at_most(most)

    async def close(self) -> None:
        """Close connections and files, as ``Transport`` says."""
        await self._pool.close()
        if self._session is not None:
            await self._session.close()


class _Origin:
    """The data that all requests to a server share; ``url`` is its scheme and authority.

    ``request``: aiohttp's connector needs this object to make a connection. It is never sent.
    """

    __slots__ = ("_lines", "_own_lines", "_prefix", "is_proxied", "request", "url")

    def __init__(self, server: str, proxy: SecretUrl | None, headers: Mapping[str, str]) -> None:
        scheme, _, authority = server.partition("://")
        host = authority
        if _IS_ODD.match(authority):
            from cfetch.wire.odd_hosts import spell_authority  # few hosts are written so

            authority, host = spell_authority(authority)
        if host != authority:
            headers = {**headers, "Host": host}
        self.url = f"{scheme.lower()}://{authority}"
        self.is_proxied = proxy is not None
        self.request = aiohttp.ClientRequest(
            "GET",
            yarl.URL(self.url, encoded=True),
            headers=headers,
            proxy=None if proxy is None else yarl.URL(proxy.reveal(), encoded=True),
            loop=asyncio.get_running_loop(),
        )
        # A proxy gets the whole URL. A tunnel needs only the path.
        is_plain = proxy is None or self.request.is_ssl()
        self._prefix = "" if is_plain else f"{scheme.lower()}://{host}"
        self._lines: dict[str, str] = {}
        self._own_lines = ""

    def make_request(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        """Make the bytes of a request, when the connection exists. Raises ValueError: it cannot be sent.

        ``target`` is sent as it is. ``headers`` replace cfetch's own headers of the same name.
        """
        if not self._lines:  # only now, as aiohttp's connector has added the login for a proxy
            own = self.request.headers
            self._lines = {name.lower(): f"{name}: {value}\r\n" for name, value in own.items()}
            self._own_lines = "".join(self._lines.values())
        path = target if target.startswith("/") else f"/{target}"
        lines = self._replace_lines(headers) if headers else self._own_lines
        length = "Content-Length: 0\r\n" if method == "POST" else ""
        text = f"{method} {self._prefix}{path} HTTP/1.1\r\n{lines}{length}\r\n"
        return text.encode("utf-8", "surrogateescape")

    def _replace_lines(self, headers: Mapping[str, str]) -> str:
        lines = dict(self._lines)
        for name, value in headers.items():
            if _CONTROLS.search(name) or _CONTROLS.search(value.replace("\t", "")):
                raise ValueError
            lines[name.lower()] = f"{name}: {value}\r\n"
        return "".join(lines.values())
