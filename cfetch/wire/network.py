"""Describes how servers are reached: proxy, logins, trusted CAs, addresses. Checked before the first request.

The environment is used only if a setting says so: a variable that another user has set must not decide who
sees signed links (reference: curl's netrc CVEs 2024-11053, 2025-0167).
"""

import base64
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from cfetch.base.config.kinds import read_proxy
from cfetch.base.config.wire import MAX_HEAD_BYTES, NetworkOptions
from cfetch.base.errors import ConfigError, UsageError
from cfetch.base.schemes import HTTP, WEB
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.manifest.digests import missing_library
from cfetch.wire.credentials import Credentials, read_credentials

OwnSession: TypeAlias = Any
"""A ``aiohttp.ClientSession``, or a function that makes one in the event loop of the run."""
OWN_SESSION: ContextVar[OwnSession | None] = ContextVar("session", default=None)
"""The session that a program has given, for all that is asked meanwhile."""
IMPOSED = ""  # the transport of all runs, whatever the options say: what mocks replies sets it
BASIC = "Basic "
NETWORK_ENV = (
    *(
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ),
    "NETRC",
)
"""The variables that ``make_network`` may read."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """How servers are reached. The default is a direct connection with the system's CAs.

    ``proxies``: by scheme. ``no_proxy``: hosts that are reached without a proxy, in NO_PROXY's form.
    ``logins``: ``Authorization`` by host name. ``credentials``: the user's headers and cookies.
    ``addresses`` gathers those to which a connection was tried.
    ``resolve``: addresses by host and port, used in place of the resolver's.
    ``max_head_bytes``: of a reply.
    ``logs_in_at_redirects``: hosts to which servers redirect get their logins too.
    ``needs_session``: only aiohttp's session can do it. ``session``: that of the program.
    ``limit_bps``: the run is limited to about this rate, so that little should be read ahead.
    """

    proxies: dict[str, SecretUrl] = {}
    no_proxy: str = ""
    logins: dict[str, SecretText] = {}
    credentials: Credentials | None = None
    user_agent: str | None = None
    tls: ssl.SSLContext | None = None
    public_only: bool = False
    addresses: set[str] | None = None
    limit_bps: int | None = None
    resolve: dict[tuple[str, int], list[str]] = {}
    max_head_bytes: int = MAX_HEAD_BYTES
    logs_in_at_redirects: bool = False
    needs_session: bool = False
    session: OwnSession | None = None

    @property
    def stays_here(self) -> bool:
        """Whether only this process can ask: a session, and what mocks replies, are in its memory."""
        return self.session is not None or IMPOSED != ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the files that the options name."""
        return () if self.credentials is None else self.credentials.notes

    def proxy_for(self, url: SecretUrl) -> SecretUrl | None:
        """The proxy for a request for ``url``; None: no proxy."""
        parts = urlsplit(url.reveal())
        proxy = self.proxies.get(parts.scheme.lower())
        if proxy is None or not self.no_proxy:
            return proxy
        from cfetch.wire.no_proxy import is_named  # few runs have hosts behind a proxy and others beside it

        return None if is_named(url.reveal(), self.no_proxy) else proxy

    def login_for(self, url: SecretUrl) -> str | None:
        """The user's ``Authorization`` for the host of ``url``."""
        login = self.logins.get((urlsplit(url.reveal()).hostname or "").lower())
        return None if login is None else login.reveal()

    def find_user(self, url: SecretUrl) -> tuple[str, str] | None:
        """User and password for a server that is no HTTP server: those in the URL, or else in netrc."""
        parts = urlsplit(url.reveal())
        if parts.username:
            return unquote(parts.username), unquote(parts.password or "")
        login = self.login_for(url)
        if login is None:
            return None
        user, _, password = base64.b64decode(login.removeprefix(BASIC)).decode().partition(":")
        return user, password


DIRECT = Network()


def make_network(options: NetworkOptions, env: Mapping[str, str]) -> Network:
    """Make the network that the options describe, and read the files that they name.

    Raises:
        ConfigError: options contradict each other, or a file is missing, unreadable or of another kind.
    """
    proxied = "proxy" if options.proxy else "proxy_from_env" if options.proxy_from_env else None
    if options.proxy and options.proxy_from_env:
        raise ConfigError("proxy and proxy_from_env are both set; choose one")
    if options.public_only and proxied:
        raise ConfigError(
            f"public_only and {proxied} are both set; a proxy looks names up itself, so cfetch could not see "
            "which addresses they lead to. Set one of them, or let the proxy refuse what is not public"
        )
    proxies, no_proxy = _find_proxies(options, env)
    is_socks = any(proxy.reveal().lower().startswith("socks") for proxy in proxies.values())
    if is_socks and find_spec("aiohttp_socks") is None:
        raise UsageError(missing_library("a SOCKS proxy", "aiohttp-socks", "socks"))
    session = OWN_SESSION.get()
    return Network(
        proxies=proxies,
        no_proxy=no_proxy,
        logins=_read_logins(env) if options.netrc else {},
        credentials=read_credentials(options, env),
        user_agent=options.user_agent,
        tls=_make_tls(options),
        public_only=options.public_only,
        limit_bps=options.rates.least_bps,
        resolve=_read_addresses(options.resolve),
        max_head_bytes=options.max_head_bytes,
        logs_in_at_redirects=options.netrc_redirects,
        needs_session=is_socks or session is not None or "session" in (options.transport, IMPOSED),
        session=session,
    )


def _read_addresses(texts: tuple[str, ...]) -> dict[tuple[str, int], list[str]]:
    if not texts:
        return {}
    from cfetch.base.config.addresses import split_address  # few runs name addresses

    by_host: dict[tuple[str, int], list[str]] = {}
    for host, port, address in map(split_address, texts):
        by_host.setdefault((host, port), []).append(address)
    return by_host


def _find_proxies(options: NetworkOptions, env: Mapping[str, str]) -> tuple[dict[str, SecretUrl], str]:
    """Find the proxies by scheme, and the hosts without proxy. A lower-case variable wins, as with curl."""
    if options.proxy:
        return dict.fromkeys(WEB, SecretUrl(options.proxy)), ""
    proxies: dict[str, SecretUrl] = {}
    if not options.proxy_from_env:
        return proxies, ""
    for scheme in WEB:
        # In a CGI program HTTP_PROXY is a header of the request (CVE-2016-5385).
        upper = () if scheme == HTTP and "REQUEST_METHOD" in env else (f"{scheme}_proxy".upper(),)
        names = (f"{scheme}_proxy", *upper, "all_proxy", "ALL_PROXY")
        name = next((name for name in names if env.get(name)), None)
        if name is None:
            continue
        text = env[name] if "://" in env[name] else f"{HTTP}://{env[name]}"
        try:
            proxies[scheme] = SecretUrl(read_proxy(text))
        except ValueError as error:
            raise ConfigError(f"environment variable {name}, which proxy_from_env reads: {error}") from None
    return proxies, env.get("no_proxy") or env.get("NO_PROXY") or ""


def _read_logins(env: Mapping[str, str]) -> dict[str, SecretText]:
    from cfetch.wire.netrc_file import read_logins  # few runs have one

    return read_logins(env)


def _make_tls(options: NetworkOptions) -> ssl.SSLContext | None:
    """The TLS context for the settings; None: the library's own (system CAs, TLS 1.2) is enough."""
    if options.ca_file is None and options.client_cert is None and options.client_key is None:
        return None
    from cfetch.wire.own_tls import make_tls_context  # few runs have certificates of their own

    return make_tls_context(options)
