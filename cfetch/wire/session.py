"""The second transport over HTTP: aiohttp's own ``ClientSession``, behind the same port as ``http.py``.

It takes three times the processor time for a small file, and can do what the lean exchange cannot: proxies
that speak SOCKS (aiohttp-socks), logins by Digest, and what the session of a program brings: its middlewares,
its tracing, its cookie jar, its connector. What mocks aiohttp's session (aioresponses) mocks this transport.

A session belongs to the event loop in which it was made, and a download runs in a loop of its own. So a
program gives a function that makes the session, or a session whose loop goes on meanwhile: each request, and
each read, is then carried out there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver

from cfetch.base.errors import CfetchError, Refused, Transient
from cfetch.base.schemes import HTTPS, SOCKS
from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import Bytes
from cfetch.wire.connections import HAPPY_EYEBALLS_S, Resolver, make_socket_factory
from cfetch.wire.foreign_errors import make_proxy_refusal, map_error
from cfetch.wire.headers import Headers
from cfetch.wire.hops import OWN_HEADERS, HopTransport, asks_for_digest, find_basic
from cfetch.wire.network import DIRECT, Network, read_basic
from cfetch.wire.odd_hosts import spell_authority
from cfetch.wire.reply_parser import WAY_OUT, find_head_limits
from cfetch.wire.transport import Connecting, Response

T = TypeVar("T")
READ_BYTES = 256 << 10  # that wait for their reader before the connection is paused
_LOOKS_UP = {"socks4a", "socks5h"}


class SessionTransport(HopTransport):
    """Requests by sessions of aiohttp: the program's, or one for each proxy. Use it inside a running loop."""

    def __init__(
        self,
        *,
        connect_timeout_s: float,
        keep_alive: bool = True,
        idle_s: float = 15.0,
        network: Network = DIRECT,
        resolver: AbstractResolver | None = None,
    ) -> None:
        """The values mean what they do in ``HttpTransport``."""
        super().__init__(network)
        self._keep_alive = keep_alive
        self._idle_s = idle_s
        self._resolver = resolver
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s
        )
        self._own = network.session if isinstance(network.session, aiohttp.ClientSession) else None
        self._sessions: dict[tuple[str, bool], aiohttp.ClientSession] = {}
        self._digests: dict[tuple[str, str], aiohttp.DigestAuthMiddleware] = {}  # by host and login

    async def send(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        *,
        fresh: bool,
        method: str,
        connecting: Connecting | None,
    ) -> Response:
        """Make one request, and follow no redirect. Raises SourceError."""
        proxy = self._network.proxy_for(url) if self._network.proxies else None
        is_own = self._network.session is not None  # its middlewares log in as the program wants it
        login = None if is_own else find_basic(headers)
        digest = None if login is None else self._digests.get((_host_of(url), login))
        reply = await self._ask(url, headers, proxy, digest, method, connecting, fresh=fresh)
        if digest or login is None or reply.status != 401:
            return reply
        if not asks_for_digest(reply.headers):
            return reply
        reply.close()
        digest = self.use_digest(url, login)
        return await self._ask(url, headers, proxy, digest, method, connecting, fresh=fresh)

    def use_digest(self, url: SecretUrl, login: str) -> aiohttp.DigestAuthMiddleware:
        """Log in at the URL's host by Digest from now on, with the user and the password of ``login``."""
        user, password = read_basic(login) or ("", "")
        made = self._digests[_host_of(url), login] = aiohttp.DigestAuthMiddleware(user, password)
        return made

    def uses_digest(self, url: SecretUrl, headers: Mapping[str, str]) -> bool:
        """Whether the URL's host has asked for Digest from who has the login among the headers."""
        login = find_basic(headers) if self._digests else None
        return login is not None and (_host_of(url), login) in self._digests

    async def _ask(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        proxy: SecretUrl | None,
        digest: aiohttp.DigestAuthMiddleware | None,
        method: str,
        connecting: Connecting | None,
        *,
        fresh: bool,
    ) -> "SessionReply":
        if digest is not None:  # its middleware writes the header, and Basic would show the password
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        how: dict[str, Any] = {"middlewares": (digest,)} if digest is not None else {}
        if proxy is not None and not _is_socks(proxy):
            how["proxy"] = yarl.URL(proxy.reveal(), encoded=True)
        _, max_bytes, max_headers = find_head_limits(self._network.max_head_bytes)
        try:
            session = self._find_session(proxy, fresh=fresh)
            stated = {name.lower() for name in (*session.headers, *headers)}
            own = {name: value for name, value in self._own_headers().items() if name.lower() not in stated}
            asked, host = _spell(url)
            if host is not None and "host" not in stated:
                own["Host"] = host
            made = await self._at_home(
                lambda: session.request(
                    method,
                    asked,
                    headers={**own, **headers},
                    allow_redirects=False,
                    raise_for_status=False,
                    auto_decompress=False,
                    timeout=self._timeout,
                    read_bufsize=READ_BYTES,
                    max_line_size=max_bytes,
                    max_field_size=max_bytes,
                    max_headers=max_headers,
                    trace_request_ctx=connecting,
                    **how,
                )
            )
        except Exception as error:  # noqa: BLE001 - of aiohttp, aiohttp-socks, or a program's middleware
            if connecting is not None and connecting.since_s is not None:
                connecting.end()
            raise _map(error, proxied=proxy is not None) from None
        if proxy is not None and made.status == 407:
            made.close()
            raise make_proxy_refusal(made.status)
        return SessionReply(made, url, self._at_home, home=self._home)

    def _own_headers(self) -> Mapping[str, str]:
        agent = self._network.user_agent
        return OWN_HEADERS if agent is None else {**OWN_HEADERS, "User-Agent": agent}

    @property
    def _home(self) -> asyncio.AbstractEventLoop | None:
        """The loop of the program's session; None: it is this one."""
        home = None if self._own is None else self._own._loop  # the public name warns
        return None if home is asyncio.get_running_loop() else home

    async def _at_home(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Carry something out in the loop to which the session belongs."""
        home = self._home
        if home is None:
            return await ask()
        if not home.is_running():
            raise Refused(
                "the event loop of the session does not run; give a function that makes the session"
            )

        async def carry_out() -> T:
            return await ask()

        coroutine: Coroutine[Any, Any, T] = carry_out()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, home))

    def _find_session(self, proxy: SecretUrl | None, *, fresh: bool) -> aiohttp.ClientSession:
        """The session for requests by this proxy; ``fresh``: one that keeps no connection."""
        if self._own is not None:
            return self._own
        given = self._network.session
        key = (proxy.reveal(), fresh) if proxy is not None and _is_socks(proxy) else ("", fresh)
        if given is not None:
            key = ("", False)
        if key not in self._sessions:
            session = given() if given is not None else self._make_session(proxy, fresh=fresh)
            if not isinstance(session, aiohttp.ClientSession):
                raise Refused(f"session gives {type(session).__name__}, which is no aiohttp.ClientSession")
            self._sessions[key] = session
        return self._sessions[key]

    def _make_session(self, proxy: SecretUrl | None, *, fresh: bool) -> aiohttp.ClientSession:
        network = self._network
        closes = fresh or not self._keep_alive
        options: dict[str, Any] = {
            "limit": 0,
            "ssl": True if network.tls is None else network.tls,
            "force_close": closes,
        }
        if not closes:
            options["keepalive_timeout"] = self._idle_s
        connector: aiohttp.BaseConnector
        if proxy is not None and _is_socks(proxy):
            connector = _make_socks_connector(proxy, options)
        else:
            connector = aiohttp.TCPConnector(
                resolver=Resolver(self._resolver or aiohttp.DefaultResolver(), network.resolve),
                use_dns_cache=not fresh,
                ttl_dns_cache=60,
                happy_eyeballs_delay=HAPPY_EYEBALLS_S,
                socket_factory=make_socket_factory(network),
                **options,
            )
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_create_start.append(_begin_connecting)
        tracing.on_connection_create_end.append(_end_connecting)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # hops.py keeps cookies, for both transports alike
            trace_configs=[tracing],
        )

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """No effect: aiohttp's own pool keeps its connections for ``idle_s``."""

    async def close(self) -> None:
        """Close the sessions that were made here; a program closes its own."""
        for session in self._sessions.values():
            await session.close()


class SessionReply:
    """Implements ``Response`` by a response of aiohttp."""

    def __init__(
        self,
        made: aiohttp.ClientResponse,
        url: SecretUrl,
        at_home: Callable[[Callable[[], Awaitable[bytes]]], Awaitable[bytes]],
        *,
        home: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.status = made.status
        self.phrase = (made.reason or "").encode("utf-8", "surrogateescape")
        self.headers: Headers = made.headers
        self.place = self.source = url
        self.hidden: Sequence[str] = ()
        self.carried_bytes = 0  # aiohttp does not tell which connection it has used again
        connection = made.connection
        transport = None if connection is None else connection.transport
        name = None if transport is None else transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if name else None
        self.tls_end = False if url.value.lower().startswith(f"{HTTPS}:") else None
        self._made = made
        self._at_home = at_home
        self._home = home

    async def read(self, most: int = -1) -> Bytes:
        """Read the next bytes, as ``Response`` says."""
        content = self._made.content
        try:
            return await self._at_home(content.readany if most < 0 else lambda: content.read(most))
        except Exception as error:  # noqa: BLE001 - whatever aiohttp raises is this attempt's failure
            raise _map(error, reading=True) from None

    def read_buffered(self) -> bytes:
        """Read the bytes that have arrived, as ``Response`` says; in another loop none are at hand."""
        content = self._made.content
        if self._home is not None or content.exception() is not None or content.at_eof():
            return b""
        return content.read_nowait(-1)

    def retire(self) -> None:
        """Do not use the connection again after this reply."""
        connection = self._made.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.force_close()

    def close(self) -> None:
        """Cancel the reply, as ``Response`` says; at its end the connection is kept."""
        if self._home is None:
            self._made.close()
        elif self._home.is_running():
            self._home.call_soon_threadsafe(self._made.close)


async def _begin_connecting(_: aiohttp.ClientSession, context: Any, __: object) -> None:  # noqa: ANN401
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.begin()


async def _end_connecting(_: aiohttp.ClientSession, context: Any, __: object) -> None:  # noqa: ANN401
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.end()


def _spell(url: SecretUrl) -> tuple[yarl.URL, str | None]:
    """The URL as aiohttp takes it, without a login, and the header ``Host`` if it is another one."""
    parts = urlsplit(url.reveal())
    authority, host = spell_authority(parts.netloc.rpartition("@")[2])
    text = url.reveal() if authority == parts.netloc else urlunsplit(parts._replace(netloc=authority))
    return yarl.URL(text, encoded=True), None if host == authority else host


def _host_of(url: SecretUrl) -> str:
    return urlsplit(url.reveal()).hostname or ""


def _is_socks(proxy: SecretUrl) -> bool:
    return proxy.reveal().partition(":")[0].lower() in SOCKS


def _make_socks_connector(proxy: SecretUrl, options: dict[str, Any]) -> aiohttp.BaseConnector:
    """The connector for a SOCKS proxy. As for curl, socks4a and socks5h let the proxy look names up."""
    import aiohttp_socks

    scheme, colon, rest = proxy.reveal().partition(":")
    looks_up = scheme.lower() in _LOOKS_UP
    plain = f"{scheme.lower().rstrip('ah')}{colon}{rest}"
    return aiohttp_socks.ProxyConnector.from_url(plain, rdns=looks_up, **options)


_LARGE_HEAD = ("Got more than", "Too many headers")  # how aiohttp's messages about it begin
_SOCKS_FAULTS = {  # by the name of the class, so that the library is not asked for in vain
    "ProxyConnectionError": "cannot connect to the proxy",
    "ProxyTimeoutError": "connecting through the proxy took too long",
    "ProxyError": "the proxy cannot reach the server, or does not accept the login",
}


def _map(error: Exception, *, proxied: bool = False, reading: bool = False) -> CfetchError:
    """Make an error of cfetch from any that a session raises."""
    if isinstance(error, CfetchError):
        return error
    if type(error).__module__.startswith("aiohttp_socks") and type(error).__name__ in _SOCKS_FAULTS:
        return Transient(_SOCKS_FAULTS[type(error).__name__])
    if isinstance(error, aiohttp.ClientResponseError) and error.message.startswith(_LARGE_HEAD):
        return Refused(f"a header of the reply, or the number of them, is beyond {WAY_OUT}")
    return map_error(error, proxied=proxied, reading=reading)
