"""Which hosts NO_PROXY names: hosts and all below them, addresses, networks, all. Pure.

Programs read the variable in different ways. Here an entry means what it means to curl and to Go: a final dot
of a name, and brackets around an address of IPv6, make no difference, and ``10.0.0.0/8`` is a network, which
holds addresses only: no name is looked up to find out.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from cfetch.base.schemes import DEFAULT_PORTS

_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*):(?P<port>\d{1,5})\Z", re.ASCII)


def is_named(url: str, no_proxy: str) -> bool:
    """Whether an entry of ``no_proxy``, a list with commas or spaces, names the host of ``url``."""
    parts = urlsplit(url)
    host = _clean(parts.hostname or "")
    port = parts.port or DEFAULT_PORTS.get(parts.scheme.lower())
    return any(_names(entry, host, port) for entry in re.split(r"[\s,]+", no_proxy) if entry)


def _names(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    match = _PORT.match(entry)
    if match is not None:
        entry = match["host"]
        if int(match["port"]) != port:
            return False
    name = _clean(entry.removeprefix("*").lstrip("."))
    address = _read_address(host)
    if address is None:
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        network = ip_network(name, strict=False)
    except ValueError:
        return False
    return address in network


def _clean(name: str) -> str:
    """A name or an address in the form in which both sides are compared."""
    return name.strip("[]").rstrip(".").lower()


def _read_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
