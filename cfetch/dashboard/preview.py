"""What ``--dry-run`` tells a person: how much there is to fetch, from where, and whether it fits."""

from collections.abc import Mapping
from types import MappingProxyType

from cfetch.report.format import count, plural, size, sizes
from cfetch.secret import printable

__all__ = ["preview_lines"]

SHOWN_HOSTS = 10  # --json has all of them


def preview_lines(
    *,
    files: int,
    in_place: int,
    bytes_known: int,
    sizes_unknown: int,
    merged: int,
    hosts: Mapping[str, int],
    destination: str,
    free_bytes: int,
    volumes: Mapping[str, int | None] = MappingProxyType({}),
    schema: str = "",  # noqa: ARG001 - the document's, and nothing for a person
) -> list[str]:
    """The preview as lines, all of them printable; ``volumes``: the free bytes on each of several."""
    merging = f" ({plural(merged, 'repeated entry')} merged)" if merged else ""
    rows = [
        ("files", f"{count(files)}{merging}, {count(in_place)} in place already"),
        ("size", sizes(bytes_known, sizes_unknown, files)),
        *_hosts(hosts),
        *(_volumes(volumes) or [("to", printable(destination, 1000)), ("free there", size(free_bytes))]),
    ]
    told = [f"{name:>10}  {words}" for name, words in rows] if files else ["the manifest has no entries"]
    return [*told, "nothing was downloaded"]


def _volumes(volumes: Mapping[str, int | None]) -> list[tuple[str, str]]:
    named = [
        printable(volume, 1000) + ("" if free_bytes is None else f" ({size(free_bytes)} free)")
        for volume, free_bytes in volumes.items()
    ]
    return [("" if position else "to", words) for position, words in enumerate(named)]


def _hosts(hosts: Mapping[str, int]) -> list[tuple[str, str]]:
    most = sorted(hosts.items(), key=lambda item: -item[1])
    named = [f"{printable(host)} ({count(files)})" for host, files in most[:SHOWN_HOSTS]]
    rest = most[SHOWN_HOSTS:]
    if rest:
        named.append(f"{plural(len(rest), 'more host')} ({count(sum(files for _, files in rest))})")
    return [("" if position else "from", words) for position, words in enumerate(named)]
