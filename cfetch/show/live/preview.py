"""The lines of ``--dry-run`` for a person: how much there is to fetch, from where, and whether it fits."""

from collections.abc import Mapping

from cfetch.base.secret import printable
from cfetch.show.format import count, duration, plural, size, sizes
from cfetch.show.plan_view import Preview, SyncPreview

SHOWN_HOSTS = 10  # --json has more of them
SHOWN_FLOORS = 3
SHOWN_FLOOR_S = 60.0  # more executors would not make a difference anyway


def preview_lines(preview: Preview) -> list[str]:
    """The preview as printable lines."""
    files = preview.files
    merging = f" ({plural(preview.merged, 'repeated entry')} merged)" if preview.merged else ""
    to = [("to", printable(preview.destination, 1000)), ("free there", size(preview.free_bytes))]
    rows = [
        ("files", f"{count(files)}{merging}, {count(preview.in_place)} in place already"),
        ("size", sizes(preview.bytes_known, preview.sizes_unknown, files)),
        *_host_rows(preview.hosts, files, preview.more_hosts),
        *([] if preview.batches is None else [("batches", count(preview.batches))]),
        *_floor_rows(preview.floors),
        *(_volume_rows(preview.volumes) or to),
    ]
    lines = [f"{name:>10}  {words}" for name, words in rows] if files else ["the manifest has no entries"]
    return [*lines, *(f"{'note':>10}  {note}" for note in preview.notes), "nothing was downloaded"]


def sync_lines(preview: SyncPreview) -> list[str]:
    """The changes that a sync would make besides new files, as printable lines."""
    changed, gone, deletes, refusal = preview.changed, preview.gone, preview.deletes, preview.refusal
    lines = [f"{'changed':>10}  {count(changed)}"] if changed else []
    if gone and not deletes:
        lines.append(
            f"{'gone':>10}  {plural(gone, 'file')} that the source has no longer; --delete deletes them"
        )
    lines += [f"{'delete':>10}  {printable(path)}" for path in deletes]
    if deletes and gone > len(deletes):
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
