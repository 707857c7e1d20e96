"""The lines of ``--dry-run`` for a person: how much there is to fetch, from where, and whether it fits."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cfetch.report.format import count, duration, plural, size, sizes
from cfetch.secret import printable

SHOWN_HOSTS = 10  # --json has more of them
SHOWN_FLOORS = 3
SHOWN_FLOOR_S = 60.0  # more executors would not make a difference anyway


def preview_lines(
    *,
    files: int,
    in_place: int,
    bytes_known: int,
    sizes_unknown: int,
    merged: int,
    hosts: Mapping[str, int],
    more_hosts: int = 0,
    destination: str,
    free_bytes: int | None,
    volumes: Mapping[str, int | None] = MappingProxyType({}),
    batches: int | None = None,
    floors: Mapping[str, float] = MappingProxyType({}),
    notes: Sequence[str] = (),
    schema: str = "",  # noqa: ARG001 - a field of the document that is not shown
) -> list[str]:
    """The preview as printable lines; the parameters are the fields of its document."""
    merging = f" ({plural(merged, 'repeated entry')} merged)" if merged else ""
    rows = [
        ("files", f"{count(files)}{merging}, {count(in_place)} in place already"),
        ("size", sizes(bytes_known, sizes_unknown, files)),
        *_host_rows(hosts, files, more_hosts),
        *([] if batches is None else [("batches", count(batches))]),
        *_floor_rows(floors),
        *(_volume_rows(volumes) or [("to", printable(destination, 1000)), ("free there", size(free_bytes))]),
    ]
    lines = [f"{name:>10}  {words}" for name, words in rows] if files else ["the manifest has no entries"]
    return [*lines, *(f"{'note':>10}  {note}" for note in notes), "nothing was downloaded"]


def sync_lines(changed: int, gone: int, deletes: Sequence[str], refusal: str | None) -> list[str]:
    """The changes that a sync would make besides new files, as printable lines."""
    lines = [f"{'changed':>10}  {count(changed)}"] if changed else []
    if gone and not deletes:
        lines.append(
            f"{'gone':>10}  {plural(gone, 'file')} that the source has no longer; --delete deletes them"
        )
    lines += [f"{'delete':>10}  {printable(path)}" for path in deletes]
    if len(deletes) and gone > len(deletes):
        lines.append(f"{'':>10}  and {count(gone - len(deletes))} more")
    return [*lines, *([] if refusal is None else [f"{'refused':>10}  {refusal}"])]


def _volume_rows(volumes: Mapping[str, int | None]) -> list[tuple[str, str]]:
    named = [
        printable(volume, 1000) + ("" if free_bytes is None else f" ({size(free_bytes)} free)")
        for volume, free_bytes in volumes.items()
    ]
    return [("" if position else "to", words) for position, words in enumerate(named)]


def _host_rows(hosts: Mapping[str, int], files: int, more_hosts: int) -> list[tuple[str, str]]:
    most = sorted(hosts.items(), key=lambda item: -item[1])
    named = [f"{printable(host)} ({count(few)})" for host, few in most[:SHOWN_HOSTS]]
    more = len(most[SHOWN_HOSTS:]) + more_hosts
    if more:
        others = files - sum(few for _, few in most[:SHOWN_HOSTS])
        named.append(f"{plural(more, 'more host')} ({count(others)})")
    return [("" if position else "from", words) for position, words in enumerate(named)]


def _floor_rows(floors: Mapping[str, float]) -> list[tuple[str, str]]:
    """The time that the slowest hosts take with any number of executors."""
    longest = sorted(floors.items(), key=lambda item: -item[1])[:SHOWN_FLOORS]
    named = [f"{printable(host)} takes {duration(s)}" for host, s in longest if s >= SHOWN_FLOOR_S]
    return [("" if position else "at least", words) for position, words in enumerate(named)]
