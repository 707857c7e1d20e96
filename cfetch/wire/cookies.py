"""The cookies of a file in Netscape's form, as curl and browsers write it, and which request gets them.

A cookie goes where RFC 6265, 5.4, sends it: a host-only cookie to its host and no subdomain, any other to
the hosts below its domain too, also if such a host is the target of a redirect. Python's ``http.cookiejar``
sends host-only cookies to subdomains, none to a host without a dot, and refuses a file for one odd line.
"""

import re
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from cfetch.base.errors import ConfigError
from cfetch.base.schemes import HTTPS
from cfetch.base.secret import SecretText, SecretUrl, printable

_FLAGS = {"TRUE": True, "FALSE": False}
_HTTP_ONLY = "#HttpOnly_"  # such a line is a cookie that scripts of a page do not see, and no comment
_SESSION = ("", "0")  # instead of the time at which the cookie ends
_CONTROLS = re.compile("[\x00-\x1f\x7f;]")
SHOWN = 5  # numbers of odd lines in the note; there may be as many as lines


class _OddLineError(ValueError):
    """The line is no cookie."""


class Cookie(msgspec.Struct, frozen=True):
    """``is_host_only``: no subdomain of ``domain`` gets it. ``ends_s``: seconds since 1970."""

    domain: str
    is_host_only: bool
    path: str
    is_secure: bool
    ends_s: float | None
    name: str
    value: SecretText

    def is_for(self, scheme: str, host: str, path: str) -> bool:
        """Whether a request gets the cookie (RFC 6265, 5.1.3, 5.1.4 and 5.4)."""
        is_below = not self.is_host_only and host.endswith(f".{self.domain}") and not is_address(host)
        if not (host == self.domain or is_below) or (self.is_secure and scheme != HTTPS):
            return False
        return path == self.path or path.startswith(f"{self.path.removesuffix('/')}/")


class Cookies(msgspec.Struct, frozen=True):
    """The cookies of a file; ``notes`` are about its odd lines."""

    cookies: tuple[Cookie, ...]
    notes: tuple[str, ...] = ()

    def header_for(self, url: SecretUrl) -> str | None:
        """The value of the header ``Cookie`` for a request; None: no cookie is for it. Longer paths first."""
        parts = urlsplit(url.reveal())
        asked = parts.scheme, (parts.hostname or "").removesuffix("."), parts.path or "/"
        now_s = time.time()
        lives = (cookie for cookie in self.cookies if cookie.ends_s is None or cookie.ends_s > now_s)
        sent = [cookie for cookie in lives if cookie.is_for(*asked)]
        sent.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(f"{cookie.name}={cookie.value.reveal()}" for cookie in sent) or None


def read_cookies(path: str) -> Cookies:
    """Read the file. A line that is no cookie is a note with its number; no line is quoted.

    Raises:
        ConfigError: the file cannot be read, or all of its lines are odd.
    """
    shown, odd = printable(path), list[int]()
    cookies: dict[tuple[str, str, str], Cookie] = {}
    try:
        text = Path(path).read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise ConfigError(f"cookies is {shown}, which cannot be read: {error.strerror}") from None
    for number, line in _find_lines(text):
        try:
            cookie = _parse_line(line)
        except _OddLineError:
            odd.append(number)
            continue
        key = cookie.domain, cookie.path, cookie.name
        cookies.pop(key, None)  # the last one counts
        cookies[key] = cookie
    form = "a cookie in Netscape's format has seven fields with tabs between them"
    if odd and not cookies:
        raise ConfigError(f"cookies is {shown}, which holds no cookie, see line {odd[0]}; {form}")
    notes = []
    if odd:
        more = ", …" if len(odd) > SHOWN else ""
        lines = f"line{'' if len(odd) == 1 else 's'} {', '.join(map(str, odd[:SHOWN]))}{more}"
        notes = [f"{lines} of the cookies in {shown} left out ({len(odd)} in all); {form}"]
    elif not cookies:
        notes = [f"{shown} holds no cookie"]
    return Cookies(tuple(cookies.values()), tuple(notes))


def _find_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that should be cookies, with their numbers."""
    for number, line in enumerate(text.split("\n"), 1):
        rest = line.removesuffix("\r").removeprefix(_HTTP_ONLY)
        if rest.strip() and not rest.startswith("#"):
            yield number, rest


def _parse_line(line: str) -> Cookie:
    """Raises _OddLineError."""
    fields = line.split("\t")
    if len(fields) == 6:  # the last of the seven, the value, is empty
        fields.append("")
    try:
        stated, subdomains, path, secure, ends, name, value = fields
        domain = stated.lower().removeprefix(".")
        is_domain, is_secure = _FLAGS[subdomains.upper()], _FLAGS[secure.upper()]
        ends_s = None if ends in _SESSION else float(ends)
    except (KeyError, ValueError):
        raise _OddLineError from None
    if not domain or not path.startswith("/") or not name or any(map(_CONTROLS.search, fields)):
        raise _OddLineError
    # A name without a dot is a host, or a domain such as "com", which belongs to nobody.
    is_host_only = not is_domain or "." not in domain
    return Cookie(domain, is_host_only, path, is_secure, ends_s, name, SecretText(value))


def is_address(host: str) -> bool:
    """Whether a host is an address, which has no subdomains."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
