"""Addresses in place of the resolver's, as curl writes them. Pure."""

import re
from ipaddress import ip_address

MAX_PORT = 65535


def split_address(text: str) -> tuple[str, int, str]:
    """Host, port and address of ``HOST:PORT:ADDRESS``; the host ``*`` is each host. Raises ValueError."""
    match = re.fullmatch(r"\+?(\*|[A-Za-z0-9._-]+):(\d{1,5}):\[?([0-9A-Fa-f:.]+)\]?", text)
    try:
        if match is None or not 1 <= int(match[2]) <= MAX_PORT:
            raise ValueError
        return match[1].rstrip(".").lower(), int(match[2]), str(ip_address(match[3]))
    except ValueError:
        raise ValueError("must be HOST:PORT:ADDRESS, like h.test:443:192.0.2.1 or h.test:443:[::1]") from None


def read_addresses(texts: tuple[str, ...]) -> dict[tuple[str, int], list[str]]:
    """The addresses by host and port. Raises ValueError."""
    by_host: dict[tuple[str, int], list[str]] = {}
    for host, port, address in map(split_address, texts):
        by_host.setdefault((host, port), []).append(address)
    return by_host
