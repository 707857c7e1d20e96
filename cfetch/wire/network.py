"""Describes how servers are reached: proxy, logins, trusted CAs, addresses. Checked before the first request.

The environment is used only if a setting says so: a variable that another user has set must not decide who
sees signed links (reference: curl's netrc CVEs 2024-11053, 2025-0167).
"""

import base64
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from cfetch.base.config.wire import MAX_HEAD_BYTES, NetworkOptions
from cfetch.base.errors import ConfigError
from cfetch.base.secret import SecretText, SecretUrl

if TYPE_CHECKING:
    from cfetch.wire.credentials import Credentials

OwnSession: TypeAlias = Any
"""A ``aiohttp.ClientSession``, or a function that makes one in the event loop of the run."""
OWN_SESSION: ContextVar[OwnSession | None] = ContextVar("session", default=None)
"""The session that a program has given, for all that is asked meanwhile."""
IMPOSED = ""  # the transport of all runs, whatever the options say: what mocks replies sets it
BASIC = "Basic "
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
NETWORK_ENV = (*_PROXIES, *map(str.lower, _PROXIES), "NETRC")
"""The variables of proxies and logins that ``make_network`` may read."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """How servers are reached. The default is a direct connection with the system's CAs.

    ``proxies``: by scheme. ``no_proxy``: hosts that are reached without a proxy, in NO_PROXY's form.
    ``logins``: ``Authorization`` by host name, and by ``user@host`` for each user.
    ``credentials``: the user's headers and cookies.
    ``addresses`` gathers those to which a connection was tried.
    ``resolve``: addresses by host and port, used in place of the resolver's.
    ``max_head_bytes``: of a reply.
    ``logs_in_at_redirects``: hosts to which servers redirect get their logins too.
    ``steps_down``: redirects from https to http are followed.
    ``needs_session``: only aiohttp's session can do it. ``session``: that of the program.
    ``limit_bps``: the run is limited to about this rate, so that little should be read ahead.
    """

    proxies: dict[str, SecretUrl] = {}
    no_proxy: str = ""
    logins: dict[str, SecretText] = {}
    credentials: "Credentials | None" = None
    user_agent: str | None = None
    tls: ssl.SSLContext | None = None
    public_only: bool = False
    addresses: set[str] | None = None
    limit_bps: int | None = None
    resolve: dict[tuple[str, int], list[str]] = {}
    max_head_bytes: int = MAX_HEAD_BYTES
    logs_in_at_redirects: bool = False
    steps_down: bool = False
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

    def login_for(self, url: SecretUrl, *, is_own_only: bool = False) -> str | None:
        """The ``Authorization`` for ``url``: the login in it, or else that of netrc for its host.

        ``is_own_only``: not that of netrc.
        """
        login = self.find_user(url, is_own_only=is_own_only)
        return None if login is None else _write_basic(*login)

    def find_user(self, url: SecretUrl, *, is_own_only: bool = False) -> tuple[str, str] | None:
        """User and password in the URL, or else in netrc, which also has passwords of users in URLs."""
        parts = urlsplit(url.reveal())
        user = unquote(parts.username or "", errors="surrogateescape")
        if parts.password is None and not is_own_only:
            host = (parts.hostname or "").lower()
            kept = self.logins.get(f"{user}@{host}" if user else host)
            if kept is not None:
                return read_basic(kept.reveal())
        if not user and not parts.password:
            return None
        return user, unquote(parts.password or "", errors="surrogateescape")


def _write_basic(user: str, password: str) -> str:
    """The value of ``Authorization`` for a user and a password (RFC 7617)."""
    return BASIC + base64.b64encode(f"{user}:{password}".encode(errors="surrogateescape")).decode("ascii")


def read_basic(value: str) -> tuple[str, str] | None:
    """User and password in a value of ``Authorization``; None: it is none of the scheme Basic."""
    scheme, _, word = value.partition(" ")
    if scheme.lower() != BASIC.strip().lower():
        return None
    try:
        text = base64.b64decode(word.strip(), validate=True).decode(errors="surrogateescape")
    except ValueError:
        return None
    user, colon, password = text.partition(":")
    return (user, password) if colon else None


DIRECT = Network()


def make_network(options: NetworkOptions, env: Mapping[str, str]) -> Network:
    """Make the network that the options describe, and read the files that they name.

    Raises:
        ConfigError: options contradict each other, or a file is missing, unreadable or of another kind.
    """
    proxied = "proxy" if options.proxy else "proxy_from_env" if options.proxy_from_env else None
    if options.public_only and proxied:
        raise ConfigError(
            f"public_only and {proxied} are both set; a proxy looks names up itself, so cfetch could not see "
            "which addresses they lead to. Set one of them, or let the proxy refuse what is not public"
        )
    proxies: dict[str, SecretUrl] = {}
    no_proxy, is_socks = "", False
    if proxied:
        from cfetch.wire.proxies import find_proxies  # few runs have one

        proxies, no_proxy, is_socks = find_proxies(options, env)
    session = OWN_SESSION.get()
    return Network(
        proxies=proxies,
        no_proxy=no_proxy,
        logins=_read_logins(env) if options.netrc else {},
        credentials=_read_credentials(options, env),
        user_agent=options.user_agent,
        tls=_make_tls(options, env),
        public_only=options.public_only,
        limit_bps=options.rates.least_bps,
        resolve=_read_addresses(options.resolve) if options.resolve else {},
        max_head_bytes=options.max_head_size,
        logs_in_at_redirects=options.netrc_redirects,
        steps_down=options.http_redirects,
        needs_session=is_socks or session is not None or "session" in (options.transport, IMPOSED),
        session=session,
    )


def _read_logins(env: Mapping[str, str]) -> dict[str, SecretText]:
    from cfetch.wire.netrc_file import read_logins  # few runs have one

    return read_logins(env)


def _make_tls(options: NetworkOptions, env: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS context for the settings; None: the library's own (system CAs, TLS 1.2) is enough."""
    if {options.ca_file, options.client_cert, options.client_key, env.get("SSLKEYLOGFILE")} == {None}:
        return None
    from cfetch.wire.own_tls import make_tls_context  # few runs have certificates of their own

    return make_tls_context(options, env)


def _read_addresses(texts: tuple[str, ...]) -> dict[tuple[str, int], list[str]]:
    from cfetch.base.config.addresses import read_addresses  # few runs name addresses

    return read_addresses(texts)


def _read_credentials(options: NetworkOptions, env: Mapping[str, str]) -> "Credentials | None":
    if not (options.header or options.bearer_env or options.cookies):
        return None
    from cfetch.wire.credentials import read_credentials  # many runs need no login

    return read_credentials(options, env)
