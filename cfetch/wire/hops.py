"""Follows redirects, hop by hop, for every transport over HTTP; what a hop may have of logins and cookies.

cfetch follows them itself, because no library drops every secret. Headers of the user go to another origin
only if the user names its host; the login of netrc only if ``--netrc-redirects`` says so; a cookie goes where
RFC 6265 sends it, whether the user's file or a server on the way has set it. A login in a URL, the entry's or
that of a redirect, is for that URL's origin; no transport sends it as a part of the URL.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cfetch.base.errors import SourceError
from cfetch.base.secret import SecretUrl
from cfetch.base.version import __version__
from cfetch.wire.headers import Headers
from cfetch.wire.network import Network, read_basic
from cfetch.wire.transport import Connecting, Response

if TYPE_CHECKING:
    from cfetch.wire.cookie_jar import CookieJar
    from cfetch.wire.cookies import Cookies

OWN_HEADERS = {"User-Agent": f"cfetch/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
LEAST_SECRET = 6  # characters; a shorter word, such as "Basic", is no secret
_NONE: list[str] = []
REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})  # 300: what the server would choose


class HopTransport:
    """Implements ``open`` of ``Transport`` by ``send``, which makes a single request."""

    def __init__(self, network: Network) -> None:
        self._network = network
        given = None if network.credentials is None else network.credentials.cookies
        self._jar: CookieJar | None = None if given is None else _make_jar(given)

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
        raise NotImplementedError

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str = "GET",
        connecting: Connecting | None = None,
    ) -> Response:
        """Request ``url``, as ``Transport`` says."""
        own = self._network.credentials
        if own is not None:
            secrets = own.add_headers(url, secrets)
        login: str | None = None
        if self._network.logins or "@" in url.value:
            login = self._network.login_for(url)
            secrets = self._add_login(secrets, login)
        seen: list[SecretUrl] = []
        place = url
        while True:
            sent = secrets if self._jar is None else self._add_cookies(self._jar, url, secrets)
            all_headers = {**headers, **sent} if sent else headers
            try:
                reply = await self.send(url, all_headers, fresh=fresh, method=method, connecting=connecting)
            except SourceError as error:
                if seen:
                    from cfetch.wire.targets import blame_target

                    blame_target(error, url, seen)
                raise
            if reply.headers.getall("Set-Cookie", _NONE):
                self._keep_cookies(url, reply.headers)
            reply.place, reply.source = place, url
            reply.hidden = _list_secrets(sent) if reply.status >= 300 and sent else ()
            targets = reply.headers.getall("Location", _NONE)
            if reply.status not in REDIRECTS or not any(map(str.strip, targets)):
                return reply
            from cfetch.wire.targets import next_hop  # many servers redirect nobody

            seen.append(url)
            reply.close()
            hop = next_hop(url, reply.headers, seen, may_step_down=self._network.steps_down)
            is_same = hop.origin() == url.origin()
            if not is_same:
                secrets, login = {}, None
            may_draw = self._network.logs_in_at_redirects
            if "@" in hop.value or (may_draw and not is_same):
                before, login = login, self._network.login_for(hop, is_own_only=not may_draw) or login
                secrets = self._add_login(secrets, login, instead_of=before)
            if hop.host() == place.host():
                place = hop
            url = hop

    def _add_login(
        self, secrets: Mapping[str, str], login: str | None, instead_of: str | None = None
    ) -> Mapping[str, str]:
        """Add a login, unless there is one from elsewhere: of the manifest, or of the user's headers."""
        stated = next((value for name, value in secrets.items() if name.lower() == "authorization"), None)
        if login is None or (stated is not None and stated != instead_of):
            return secrets
        return {**secrets, "Authorization": login}

    def _add_cookies(self, jar: "CookieJar", url: SecretUrl, secrets: Mapping[str, str]) -> Mapping[str, str]:
        """Add the cookies for the URL, unless the manifest has some."""
        if any(name.lower() == "cookie" for name in secrets):
            return secrets
        cookie = jar.header_for(url)
        return secrets if cookie is None else {**secrets, "Cookie": cookie}

    def _keep_cookies(self, url: SecretUrl, headers: Headers) -> None:
        if self._jar is None:
            self._jar = _make_jar(None)
        self._jar.keep(url, headers)


def _make_jar(given: "Cookies | None") -> "CookieJar":
    from cfetch.wire.cookie_jar import CookieJar  # many servers set no cookie, and few users have a file

    return CookieJar(given)


def asks_for_digest(headers: Headers) -> bool:
    """Whether a 401 asks for a login by Digest (RFC 7616)."""
    return any("digest" in value.lower() for value in headers.getall("WWW-Authenticate", []))


def find_basic(headers: Mapping[str, str]) -> str | None:
    """The ``Authorization`` among the headers of a request, if it is a user and a password."""
    values = (value for name, value in headers.items() if name.lower() == "authorization")
    return next((value for value in values if read_basic(value)), None)


def _list_secrets(headers: Mapping[str, str]) -> list[str]:
    """The values of headers, the words and the passwords in them, that no message may show."""
    words = [word for value in headers.values() for word in (value, *value.split())]
    passwords = [login[1] for value in headers.values() if (login := read_basic(value)) and login[1]]
    return [word for word in words if len(word) >= LEAST_SECRET] + passwords
