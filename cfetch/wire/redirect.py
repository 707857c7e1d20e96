"""Where a redirect leads: pure. cfetch follows redirects itself, because no library drops every secret.

At most ``MAX_HOPS``; the scheme stays or gets better (http to https, never back); a target is sent exactly as
the server wrote it; another origin (scheme, host and port) gets none of the manifest's headers.
"""

from urllib.parse import urljoin, urlsplit

from cfetch.errors import Refused
from cfetch.secret import SecretUrl
from cfetch.wire.judge import Headers

__all__ = ["MAX_HOPS", "REDIRECTS", "next_hop"]

MAX_HOPS = 5  # object stores need one, download portals two or three
REDIRECTS = frozenset({301, 302, 303, 307, 308})


def next_hop(url: SecretUrl, headers: Headers, seen: list[SecretUrl]) -> SecretUrl:
    """The URL to ask next. ``seen`` are those that have been asked, ``url`` last.

    Raises:
        Refused: no or several targets, a loop, too many hops, another kind of URL, or a step down to http.
    """
    targets = set(headers.getall("Location", []))
    if len(targets) != 1:
        raise Refused(f"the server redirects to {'several places' if targets else 'nowhere'}")
    try:
        target = SecretUrl(urljoin(url.reveal(), targets.pop()))
        parts = urlsplit(target.reveal())
        plain = not set("@%") & set(parts.netloc)  # no userinfo, and no IPv6 zone: that is our own affair
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and plain
        target.origin()
    except ValueError:
        usable = False
    if not usable or any(ord(c) <= 32 or ord(c) >= 127 for c in target.reveal()):
        raise Refused("the server redirects to something that is not a plain http(s) URL")
    if parts.scheme == "http" and urlsplit(url.reveal()).scheme == "https":
        raise Refused("the server redirects from https to http")
    if target in seen:
        raise Refused("the server redirects in a circle")
    if len(seen) > MAX_HOPS:  # the first of them is the entry's own URL
        raise Refused(f"the server redirects more than {MAX_HOPS} times")
    return target
