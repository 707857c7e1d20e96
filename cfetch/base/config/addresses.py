"""Addresses in place of the resolver's, as curl writes them. Pure."""

import re
from ipaddress import ip_address

MAX_PORT = 65535


def split_addresses(text: str) -> tuple[str, int, list[str]]:
    """Host, port and addresses of ``HOST:PORT:ADDRESS[,ADDRESS]``; the host ``*`` is each host.

    Raises ValueError.
    """
    match = re.fullmatch(r"\+?(\*|[A-Za-z0-9._-]+):(\d{1,5}):([0-9A-Fa-f:.,\[\] ]+)", text)
    try:
        if match is None or not 1 <= int(match[2]) <= MAX_PORT:
            raise ValueError
        return match[1].rstrip(".").lower(), int(match[2]), list(map(_read_address, match[3].split(",")))
    except ValueError:
        raise ValueError(
            "must be HOST:PORT:ADDRESS, like h.test:443:192.0.2.1 or h.test:443:[::1], and may have more "
            "addresses after commas"
        ) from None


def split_texts(raw: str) -> tuple[str, ...]:
    """The values of several hosts in one text, with commas between them and between addresses of a host."""
    texts: list[str] = []
    for part in map(str.strip, raw.split(",")):
        try:
            if not texts:
                raise ValueError
            _read_address(part)  # no host is called 2001 or [
        except ValueError:
            texts.append(part)
        else:
            texts[-1] += f",{part}"
    return tuple(texts)


def read_addresses(texts: tuple[str, ...]) -> dict[tuple[str, int], list[str]]:
    """The addresses by host and port, in the order in which they are tried. Raises ValueError."""
    by_host: dict[tuple[str, int], list[str]] = {}
    for host, port, addresses in map(split_addresses, texts):
        by_host.setdefault((host, port), []).extend(addresses)
    return by_host


def _read_address(text: str) -> str:
    match = re.fullmatch(r"\[([^\]]*)\]", text.strip())
    return str(ip_address(match[1] if match else text.strip()))
