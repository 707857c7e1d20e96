"""Hosts that are written in one way and asked for in another: other spellings of IPv4, zones of IPv6. Pure.

Browsers and curl read ``127.1``, ``2130706433`` and ``0x7f.0.0.1`` as addresses, and send the usual spelling.
aiohttp refuses these forms, as a policy that looks at names would miss them; cfetch's own policy
(``--public-only``) looks at addresses, just before a connection. A zone (RFC 6874: ``[fe80::1%25eth0]``) is
of this machine only, so no server hears of it; only addresses of a link need one.
"""

import re

_ODD = re.compile(
    r"\[(?P<address>[^]%]*)%(?:25)?(?P<zone>[^]]+)\](?P<tail>.*)\Z|(?P<number>[0-9][0-9A-Fa-fxX.]*)(?::|\Z)"
)

_LINK_LOCAL = re.compile("fe[89ab]|ff", re.IGNORECASE)


def spell_authority(authority: str) -> tuple[str, str]:
    """The authority to which a connection is made, and the value of the header ``Host``.

    >>> spell_authority("127.1:80"), spell_authority("[fe80::1%25eth0]:80")
    (('127.0.0.1:80', '127.0.0.1:80'), ('[fe80::1%eth0]:80', '[fe80::1]:80'))
    """
    if authority.endswith(":"):  # the usual port (RFC 3986 3.2.3)
        authority = authority[:-1]
    match = _ODD.match(authority)
    if match is None:
        return authority, authority
    number = match["number"]
    if number is None:
        address, zone, tail = match.group("address", "zone", "tail")
        plain = f"[{address}]{tail}"
        return f"[{address}%{zone}]{tail}" if _LINK_LOCAL.match(address) else plain, plain
    address = _read_number(number) or number
    return (address + authority[len(number) :],) * 2


def _read_number(text: str) -> str | None:
    """The address that one to four numbers mean; each may be decimal, octal or hexadecimal. None: a name."""
    parts = text.removesuffix(".").split(".")
    if len(parts) > 4:
        return None
    try:
        *firsts, last = map(_read_part, parts)
        return ".".join(map(str, bytes(firsts) + last.to_bytes(5 - len(parts), "big")))
    except (ValueError, OverflowError):
        return None


def _read_part(text: str) -> int:
    if text[:2].lower() == "0x":
        return int(text[2:] or "0", 16)
    return int(text, 8 if text[:1] == "0" else 10)
