"""The cookies that servers set, kept for a run beside those of the user's file (RFC 6265).

Portals that log in by a redirect set a cookie on the way and ask for it at the next hop. Why no other jar
fits, ``cookies.py`` says.
"""

import re
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from cfetch.base.secret import SecretText, SecretUrl
from cfetch.wire.cookies import Cookie, Cookies, is_address
from cfetch.wire.headers import Headers

MAX_BYTES = 4096  # name and value; browsers keep no longer ones (6265, 6.1)
MAX_COOKIES = 1000  # the oldest go first; a server may set another one with each of a million replies
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_Key = tuple[str, str, str]


class CookieJar:
    """The cookies of a transport. ``given`` are the user's; a server may replace or end one."""

    def __init__(self, given: Cookies | None = None) -> None:
        cookies = () if given is None else given.cookies
        self._cookies = {_key(cookie): cookie for cookie in cookies}
        self._sent = Cookies(tuple(self._cookies.values()))

    def keep(self, url: SecretUrl, headers: Headers) -> None:
        """Keep what the reply to a request for ``url`` sets."""
        now_s = time.time()
        for text in headers.getall("Set-Cookie", []):
            cookie = _parse(text, url, now_s)
            if cookie is None:
                continue
            self._cookies.pop(_key(cookie), None)
            if cookie.ends_s is None or cookie.ends_s > now_s:
                self._cookies[_key(cookie)] = cookie
                if len(self._cookies) > MAX_COOKIES:
                    del self._cookies[next(iter(self._cookies))]
        self._sent = Cookies(tuple(self._cookies.values()))

    def header_for(self, url: SecretUrl) -> str | None:
        """The value of the header ``Cookie`` for a request; None: no cookie is for it."""
        return self._sent.header_for(url)


def _key(cookie: Cookie) -> _Key:
    return cookie.domain, cookie.path, cookie.name


def _parse(text: str, url: SecretUrl, now_s: float) -> Cookie | None:
    """Read one header (5.2, 5.3); None: the cookie is not kept."""
    first, *attributes = text.split(";")
    name, is_pair, value = (part.strip(" \t") for part in first.partition("="))
    if not is_pair or not name or _CONTROLS.search(text) or len(name) + len(value) > MAX_BYTES:
        return None
    stated: dict[str, str] = {}
    for attribute in attributes:
        key, _, content = attribute.partition("=")
        stated[key.strip(" \t").lower()] = content.strip(" \t")  # the last one counts
    parts = urlsplit(url.reveal())
    host = (parts.hostname or "").removesuffix(".")
    domain = stated.get("domain", "").lower().removeprefix(".")
    # A name without a dot, such as "com", belongs to nobody; of "co.uk" only a list of suffixes could tell.
    is_shared = bool(domain) and domain != host
    if is_shared and (not host.endswith(f".{domain}") or "." not in domain or is_address(host)):
        return None
    path = stated.get("path", "")
    if not path.startswith("/"):
        path = parts.path.rpartition("/")[0] or "/"
    return Cookie(
        domain=domain or host,
        is_host_only=not domain or is_address(host),
        path=path,
        is_secure="secure" in stated,
        ends_s=_read_end(stated, now_s),
        name=name,
        value=SecretText(value),
    )


def _read_end(stated: dict[str, str], now_s: float) -> float | None:
    """When the cookie ends; None: with the run. ``Max-Age`` counts before ``Expires``."""
    age = stated.get("max-age", "")
    if re.fullmatch(r"-?\d{1,15}", age, re.ASCII):
        return now_s + int(age)
    try:
        return parsedate_to_datetime(stated["expires"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
