"""The output of ``cfetch volume``: documents for machines, lines for people."""

from collections.abc import Iterator

import msgspec

from cfetch.base.secret import printable
from cfetch.show.format import UNKNOWN, plural, size
from cfetch.show.table_text import align


class VolumeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One volume. ``state``: mounted, paused, full, read-only or missing; ``why`` it is missing.

    ``files`` and ``bytes`` are those of its ``batches``, and those that a rescan has counted besides.
    ``missing`` of the batches' files are not there any more.
    ``unread`` records are damaged, or of a newer version.
    """

    volume: str
    label: str | None
    state: str
    why: str | None = None
    batches: int = 0
    files: int = 0
    bytes: int = 0
    missing: int = 0
    unread: int = 0
    free_bytes: int | None = None


class VolumesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch volume list --json`` (``cfetch.volumes/1``)."""

    schema: str = "cfetch.volumes/1"
    volumes: list[VolumeRow]


class VolumeHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A file on a volume. ``batch`` None: no record names it. ``bytes`` None: it is gone.

    ``name``: of the batch, in its manifest. ``instant``: of the plan that brought it.
    """

    path: str
    volume: str
    batch: str | None
    name: str | None = None
    instant: str | None = None
    bytes: int | None


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch volume where --json`` (``cfetch.whereabouts/1``). ``nowhere``: no volume has these files."""

    schema: str = "cfetch.whereabouts/1"
    holders: list[VolumeHolder]
    nowhere: list[str]


class MovedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that goes, or went, from ``source`` to ``target``, and why there."""

    batch: str
    name: str | None
    source: str
    target: str
    files: int
    bytes: int
    why: str


class StayedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that had to go and stays, and why. ``batch`` is its id, or the name of its record's file."""

    batch: str
    name: str | None
    volume: str
    why: str


class RecoveredBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A move to ``volume`` that a killed process had begun: ``done`` or undone."""

    batch: str
    volume: str
    done: bool


class BatchMoves(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch volume drain --json`` and ``rebalance --json`` (``cfetch.batch-moves/1``).

    ``bound_bytes``: no volume is further off its share after a rebalance, if ``level``. ``off_bytes``: of
    the one that is furthest off.
    """

    schema: str = "cfetch.batch-moves/1"
    dry_run: bool
    moves: list[MovedBatch]
    stayed: list[StayedBatch]
    recovered: list[RecoveredBatch]
    bound_bytes: int | None = None
    level: bool | None = None
    off_bytes: int | None = None


class PausedVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that is ``paused`` now, or not. ``changed``: it was not so before."""

    volume: str
    paused: bool
    changed: bool


class VolumePauses(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch volume pause --json`` and ``resume --json`` (``cfetch.volume-pauses/1``)."""

    schema: str = "cfetch.volume-pauses/1"
    volumes: list[PausedVolume]


class VolumeCount(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on a volume, and what its records said before; ``missing`` files of them are gone."""

    volume: str
    files: int
    bytes: int
    files_before: int
    bytes_before: int
    missing: int


class Recount(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch volume rescan --json`` (``cfetch.volume-counts/1``)."""

    schema: str = "cfetch.volume-counts/1"
    volumes: list[VolumeCount]


def pause_lines(pauses: VolumePauses) -> Iterator[str]:
    """A line for each volume."""
    for volume in pauses.volumes:
        if volume.paused:
            did = "paused: files there count as in place, and new batches go to other volumes"
        else:
            did = "takes batches again"
        if not volume.changed:
            did = "was paused already" if volume.paused else "was not paused"
        yield f"{printable(volume.volume, 1000)}: {did}"


def count_lines(recount: Recount) -> Iterator[str]:
    """A line for each volume."""
    for row in recount.volumes:
        text = f"{printable(row.volume, 1000)}: {plural(row.files, 'file')}, {size(row.bytes)}"
        if (row.files, row.bytes) != (row.files_before, row.bytes_before):
            text += f"; its records said {plural(row.files_before, 'file')}, {size(row.bytes_before)}"
        if row.missing:
            text += f"; {plural(row.missing, 'file')} of its batches are gone: run the download again"
        yield text


def volume_lines(volumes: VolumesDocument) -> Iterator[str]:
    """A row for each volume, and below it its faults."""
    rows: list[tuple[str, ...]] = [("state", "batches", "files", "size", "free", "label", "volume")]
    for row in volumes.volumes:
        counts = [f"{row.batches:,}", f"{row.files:,}", size(row.bytes)]
        if row.state == "missing":
            counts = [UNKNOWN] * 3
        label = UNKNOWN if row.label is None else row.label[:8]
        free = UNKNOWN if row.free_bytes is None else size(row.free_bytes)
        rows.append((row.state, *counts, free, label, printable(row.volume, 1000)))
    head, *lines = align(rows)
    yield head
    for line, row in zip(lines, volumes.volumes, strict=True):
        yield line
        if row.why:
            yield f"  {printable(row.why, 1000)}"
        if row.missing:
            yield f"  {plural(row.missing, 'file')} of its batches are gone; run the download again"
        if row.unread:
            yield f"  {plural(row.unread, 'record')} cannot be read: damaged, or of a newer version of cfetch"


def where_lines(whereabouts: Whereabouts) -> Iterator[str]:
    """A line for each file on each volume: the file, the volume, the batch."""
    for holder in whereabouts.holders:
        batch = "in no batch" if holder.batch is None else f"batch {_batch_text(holder.batch, holder.name)}"
        gone = "" if holder.bytes is not None else ", but the file is gone"
        yield f"{printable(holder.path, 5000)}: {printable(holder.volume, 1000)}, {batch}{gone}"


def move_lines(moves: BatchMoves) -> Iterator[str]:
    """A line for each batch that moved or stays, and one that counts them."""
    for recovered in moves.recovered:
        did = "ended" if recovered.done else "undid"
        yield f"{did} a move that was interrupted: batch {recovered.batch[:8]} to {recovered.volume}"
    goes = "would go" if moves.dry_run else "moved"
    for move in moves.moves:
        what = _batch_text(move.batch, move.name)
        what = f"batch {what} ({plural(move.files, 'file')}, {size(move.bytes)})"
        yield f"{goes}: {what}: {printable(move.source, 1000)} -> {printable(move.target, 1000)}"
    for stay in moves.stayed:
        where = printable(stay.volume, 1000)
        yield f"stays: batch {_batch_text(stay.batch, stay.name)} on {where}: {printable(stay.why, 1000)}"
    total = size(sum(move.bytes for move in moves.moves))
    number = len(moves.moves)
    text = f"{goes}: {number:,} {'batch' if number == 1 else 'batches'}, {total}"
    if moves.level is not None:
        text += f"; {_level_text(moves)}"
    yield text


def _level_text(moves: BatchMoves) -> str:
    """Say how far volumes are off their shares, and what to do if that is too much."""
    be = "would be" if moves.dry_run else "are"
    if moves.level:
        within = f": none is more than {size(moves.bound_bytes)} off its share" if moves.bound_bytes else ""
        return f"the volumes {be} level{within}"
    most = size(moves.bound_bytes) if moves.bound_bytes else "nothing"
    text = f"the volumes {be} not level: one is {size(moves.off_bytes)} off its share, --within allows {most}"
    if moves.stayed:
        return f"{text}; mend what keeps the batches above, then give the same command again"
    return (
        f"{text}, and no single batch can move to make them more level; give a larger --within, or make room "
        "on the volume that has little"
    )


def _batch_text(batch: str, name: str | None) -> str:
    return batch[:8] if name is None else f"{printable(name)} ({batch[:8]})"
