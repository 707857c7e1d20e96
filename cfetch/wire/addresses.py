"""Which addresses are public: what ``--public-only`` lets a URL, a name or a redirect lead to. Pure.

Judged is the address that is about to be connected to, after resolution: a name that changes its answer
between two lookups (DNS rebinding) gains nothing.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

__all__ = ["NotPublic", "is_public"]

_GLOBAL_UNICAST = IPv6Network("2000::/3")  # all that is routed (RFC 4291 2.4, IANA's IPv6 address space)
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: how networks without IPv4 write the addresses of IPv4
# What some of our Pythons take for global: protocol assignments (RFC 6890; a metadata service lives there),
# and documentation (RFC 9637).
_PROTOCOLS = IPv4Network("192.0.0.0/24")
_DOCUMENTATION = IPv6Network("3fff::/20")


class NotPublic(OSError):
    """The address is not public. An OSError, as only those come through aiohttp as they are."""

    def __init__(self) -> None:
        super().__init__("not public")  # one text for all, so that several addresses make one error


def is_public(address: str) -> bool:
    """Whether an IPv4 or IPv6 address, as text, belongs to the public internet.

    Not public are loopback, private, link-local (with the clouds' metadata services), shared (RFC 6598),
    multicast and reserved ones, and what IPv6 only wraps: mapped, 6to4 and NAT64 forms count as their IPv4
    address. Text that is no address is not public.
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
