"""Decides where a request may lead: redirects, and which addresses are public. Pure.

cfetch follows redirects itself, because no library drops every secret. There are at most ``MAX_HOPS``; the
scheme stays, or changes from http to https, and back only if the user says so; a target is sent exactly as
the server wrote it, but spaces and bytes outside ASCII, which no request can hold, are percent-encoded as
browsers do it, and a host is spelled as it is looked up; another origin (scheme, host and port) gets none of
the manifest's headers.

``--public-only`` checks the address just before the connection, after resolution: a name that changes its
answer between two lookups (DNS rebinding) does not help an attacker.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import quote, urlsplit

from cfetch.base.errors import Refused, SourceError
from cfetch.base.schemes import HTTP, HTTPS, WEB, WEB_PATTERN
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.url_completion import join_url
from cfetch.wire.headers import Headers

MAX_HOPS = 50  # as curl; object stores need one, download portals two or three
MAX_NAMED = 80  # characters of a host in a message
MAX_AGAIN = 5  # requests for one address: it is a circle then

_TO_ENCODE = re.compile("[ \u0080-\U0010ffff]+")
_SLASHES = re.compile(rf"\A({WEB_PATTERN}:)///(?!/)", re.IGNORECASE)  # browsers and curl take one too many
_ZONE = re.compile(r"(?<=[0-9A-Fa-f:])%(?:25)?[A-Za-z0-9._~-]+(?=\])")  # of an IPv6 address (RFC 6874)
_NO_LOGIN = re.compile(rf"\A((?:{WEB_PATTERN}:)?//):?@")  # a login without user and password
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://", re.ASCII)
_OF_WEB = tuple(f"{name}://" for name in WEB)
# Its name has characters outside ASCII, or is percent-encoded (RFC 3986 3.2.2).
_ODD_HOST = re.compile(rf"((?:{WEB_PATTERN}:)?//(?:[^/?#@]*@)?)(?=[^/?#:]*[\u0080-\U0010ffff%])([^][/?#:@]+)")
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # the routed addresses (RFC 4291 2.4, IANA's IPv6 address space)
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: how networks without IPv4 write the addresses of IPv4
# Some versions of Python take these for global: protocol assignments (RFC 6890; a metadata service is there),
# and documentation (RFC 9637).
_PROTOCOLS = IPv4Network("192.0.0.0/24")
_DOCUMENTATION = IPv6Network("3fff::/20")


def next_hop(
    url: SecretUrl, headers: Headers, seen: list[SecretUrl], *, may_step_down: bool = False
) -> SecretUrl:
    """Find the next URL. ``seen`` are the URLs that have been requested, ``url`` last.

    Raises:
        Refused: no or several targets, a loop, too many hops, no http(s) URL, or a step from https to http.
    """
    targets, location = set(headers.getall("Location", [])), ""
    if len(targets) != 1:
        several = "several places; `curl -I` and the link show them: state the right one in place of the link"
        where = several if targets else "nowhere"
        raise Refused(f"the server redirects to {where}")
    try:
        location = _SLASHES.sub(r"\1//", _encode(targets.pop()))
        location = _NO_LOGIN.sub(r"\1", location)
        target = SecretUrl(join_url(url.reveal(), location))
        parts = urlsplit(target.reveal())
        plain = "%" not in _ZONE.sub("", parts.netloc.rpartition("@")[2])
        usable = parts.scheme in WEB and bool(parts.hostname) and plain
        target.origin()
    except ValueError:
        usable = False
    if not usable or any(ord(c) <= 32 or ord(c) >= 127 for c in target.reveal()):
        scheme = _SCHEME.match(location)
        what = f"{scheme[0]}…, which" if scheme and scheme[0].lower() not in _OF_WEB else "something that"
        raise Refused(
            f"the server redirects to {what} is not a plain http(s) URL; `curl -I` and the link show it: "
            "state the right one in place of the link"
        )
    if parts.scheme == HTTP and urlsplit(url.reveal()).scheme == HTTPS and not may_step_down:
        raise Refused(
            "the server redirects from https to http, where others could read and change the file; "
            "--http-redirects follows it"
        )
    # To come back is no fault before: many portals lead back to the file, once they have seen a login.
    if seen.count(target) >= MAX_AGAIN:
        raise Refused("the server redirects in a circle")
    if len(seen) > MAX_HOPS:  # the first of them is the entry's own URL
        raise Refused(f"the server redirects more than {MAX_HOPS} times")
    return target


def blame_target(error: SourceError, url: SecretUrl, seen: list[SecretUrl]) -> None:
    """Name in ``error`` the host of ``url``, to which the server of ``seen`` redirects, if it is another."""
    if url.host() != seen[0].host():
        error.args = (f"{error} (at {printable(url.host(), MAX_NAMED)}, to which the server redirects)",)


def _encode(location: str) -> str:
    """Encode what a server should have encoded. Raises ValueError: it holds half a surrogate pair."""
    host = _ODD_HOST.match(location)
    if host is not None:
        from cfetch.manifest.url_completion import spell_host  # few servers spell hosts so

        location = host[1] + spell_host(host[2]) + location[host.end() :]
    return _TO_ENCODE.sub(lambda match: quote(match[0], errors="surrogateescape"), location)


def is_public(address: str) -> bool:
    """Whether an IPv4 or IPv6 address, as text, belongs to the public internet.

    Loopback, private, link-local (with the clouds' metadata services), shared (RFC 6598), multicast and
    reserved addresses are not public. Mapped, 6to4 and NAT64 forms in IPv6 count as their IPv4 address. Text
    that is no address is not public.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    wrapped = parsed.ipv4_mapped or parsed.sixtofour or _in_nat64(parsed)
    if wrapped is not None:
        return _is_public_v4(wrapped)
    return parsed in _GLOBAL_UNICAST and parsed.is_global and parsed not in _DOCUMENTATION


def _is_public_v4(address: IPv4Address) -> bool:
    special = address.is_multicast or address.is_reserved or address in _PROTOCOLS
    return address.is_global and not special


def _in_nat64(address: IPv6Address) -> IPv4Address | None:
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None
