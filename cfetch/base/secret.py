"""URLs and tokens that cannot be printed by accident.

A presigned URL is a password with a path before it. ``str``, ``repr`` and ``format`` of these types show only
the safe parts; only ``reveal`` gives the text, and its callers never show it.
"""

import json
import re
from urllib.parse import urlsplit

import msgspec

from cfetch.base.schemes import DEFAULT_PORTS

_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)
_LOGIN = re.compile(r"((?:^|:(?:/|%2f)+))[^/]*:[^/]*@", re.IGNORECASE)
_PLAIN_HOST = re.compile(r"[A-Za-z]+://([A-Za-z0-9._-]+(?::[0-9]+)?)(?=[/?#]|\Z)")


def printable(text: str, limit: int = 200) -> str:
    """``text`` for a person's screen: controls and bidi overrides are escaped, length is up to ``limit``."""
    if len(text) > limit:
        keep = limit - 1
        text = f"{text[: keep // 2]}…{text[len(text) - (keep - keep // 2) :]}"
    if text.isascii() and text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda m: m.group().encode("unicode_escape").decode("ascii"), text)


def hide_login(text: str) -> str:
    """``text`` without ``user:password@``, as in a URL that lacks its scheme or is within another one."""
    return _LOGIN.sub(r"\1…@", text) if "@" in text else text


def encode_json(document: object) -> str:
    """JSON for a screen or a pipe: characters that would control a terminal are escaped, as JSON allows."""
    text = msgspec.json.encode(document).decode()
    return _UNPRINTABLE.sub(lambda m: json.dumps(m.group())[1:-1], text)


class SecretText(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A token, a header value, a password."""

    value: str

    def reveal(self) -> str:
        """The text itself; for the wire only."""
        return self.value

    def __str__(self) -> str:
        return "<redacted>"

    __repr__ = __str__


class SecretUrl(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A URL whose query and userinfo are never shown, and which is sent exactly as it was written."""

    value: str

    def reveal(self) -> str:
        """The URL itself; for the wire and the sealed plan file only."""
        return self.value

    def origin(self) -> str:
        """``scheme://host:port`` in lower case, the default port spelled out.

        Two URLs share secrets only when these are equal.
        """
        parts = urlsplit(self.value)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
        return f"{parts.scheme.lower()}://{(parts.hostname or '').lower()}:{port}"

    def host(self) -> str:
        """``host`` or ``host:port``, without userinfo; the unit of per-host limits."""
        plain = _PLAIN_HOST.match(self.value)  # fast path: nearly all URLs match, and each file needs it
        return plain[1].lower() if plain else urlsplit(self.value).netloc.rpartition("@")[2].lower()

    def __str__(self) -> str:
        try:
            parts = urlsplit(self.value)
        except ValueError:  # a message about a malformed URL must not fail itself
            return "<a URL that cannot be read>"
        tail = hide_login(parts.path.rsplit("/", 1)[-1])
        keys = parts.query.count("&") + 1
        query = f"?<redacted {keys} key{'s' * (keys > 1)}>" if parts.query else ""
        return printable(
            f"{parts.scheme}://{self.host()}/{'…/' if parts.path.count('/') > 1 else ''}{tail}{query}"
        )

    __repr__ = __str__
