"""Volumes as a set: what stands where, by the records of batches. Nothing is downloaded or moved here.

There is no index that could disagree with the disks: each call reads the records and looks at their files.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.base.config.settings import Settings
from cfetch.base.errors import UsageError, VolumeFault
from cfetch.base.secret import printable
from cfetch.engine.placement.chooser import reserve_bytes
from cfetch.manifest.entry import UnsafePathError, safe_path
from cfetch.run.directories import find_destinations
from cfetch.run.labels import Labels, read_label
from cfetch.show.volume_view import VolumeHolder, VolumeRow, VolumesDocument, Whereabouts
from cfetch.storage.batch_records import Unread, read_records
from cfetch.storage.counted_files import read_counted
from cfetch.storage.files import PAUSED, STATE_NAME, local_fault
from cfetch.storage.hanging_calls import call_within
from cfetch.storage.lacking import count_free_bytes
from cfetch.storage.tree import ReadOnlyTree
from cfetch.storage.volume_values import BatchRecord

Advance = Callable[[int, int], None]


class VolumeStanding(NamedTuple):
    """A volume that was looked at. ``state``: mounted, paused, full, read-only or missing, and ``why``.

    ``free_bytes`` is None if it is missing, or its file system does not say.
    """

    root: Path
    label: str | None
    state: str
    why: str | None
    free_bytes: int | None

    @property
    def is_readable(self) -> bool:
        """Whether its records and files can be read."""
        return self.state != "missing"


def list_volumes(settings: Settings, advance: Advance) -> VolumesDocument:
    """Look at each volume, and at the files of its batches. Raises LocalFault, ConfigError, UsageError.

    A file that a record names is not missing where another volume has it: a newer version has gone there.
    """
    standings = _read_volumes(settings)
    described = [_describe(standing, advance) for standing in standings]
    lost = {path for _, lacked in described for path in lacked}
    for standing in standings if lost else ():
        if standing.is_readable:
            with ReadOnlyTree(standing.root) as tree:
                lost = {path for path in lost if size_of(tree, path) is None}
    return VolumesDocument(
        volumes=[
            msgspec.structs.replace(row, missing=len(lost.intersection(lacked))) for row, lacked in described
        ]
    )


def find_files(settings: Settings, paths: Sequence[str]) -> Whereabouts:
    """Which volume and batch has each of the files. Raises LocalFault, ConfigError, UsageError."""
    standings = _read_volumes(settings)
    names = [_name_beneath(path, [standing.root for standing in standings]) for path in paths]
    holders: list[VolumeHolder] = []
    for standing in filter(lambda standing: standing.is_readable, standings):
        with ReadOnlyTree(standing.root) as tree:
            sizes = {name: size_of(tree, name) for name in names}
        named: set[str] = set()
        for record in _newest_first(standing.root):
            for name in {*names}.intersection(record.paths or ()) - named:
                named.add(name)
                holders.append(
                    VolumeHolder(
                        path=name,
                        volume=str(standing.root),
                        batch=record.id,
                        name=record.name,
                        instant=record.instant,
                        bytes=sizes[name],
                    )
                )
        holders += [
            VolumeHolder(path=name, volume=str(standing.root), batch=None, bytes=size_bytes)
            for name, size_bytes in sizes.items()
            if size_bytes is not None and name not in named
        ]
    there = {holder.path for holder in holders if holder.bytes is not None}
    held = (holder for holder in holders if holder.bytes is not None or holder.path not in there)
    order = {name: number for number, name in enumerate(names)}
    return Whereabouts(
        holders=sorted(held, key=lambda holder: order[holder.path]),
        nowhere=[name for name in dict.fromkeys(names) if name not in there],
    )


def _read_volumes(settings: Settings) -> list[VolumeStanding]:
    """Look at the volumes of ``--to``, and at those that earlier runs have used together with them."""
    refuse_stores(settings)
    where = find_destinations(settings)
    labels = Labels(where.state)
    roots = dict.fromkeys((*where.directories, *labels.roots))
    return [read_volume(root, labels, settings.write_timeout) for root in roots]


def refuse_stores(settings: Settings) -> None:
    """Raise UsageError if a destination is an object store."""
    stores = [root for root in find_destinations(settings).roots if isinstance(root, str)]
    if stores:
        raise UsageError(
            f"cfetch volume works on directories only, and {printable(stores[0])} is an object store; "
            "leave it out"
        )


def read_volume(root: Path, labels: Labels, limit_s: float, *, keep_free: float = 0) -> VolumeStanding:
    """Look at one volume, for at most ``limit_s``; ``keep_free`` of its space does not count as free."""
    try:
        return call_within(limit_s, str(root), lambda: _read_now(root, labels, keep_free))
    except VolumeFault as fault:
        return VolumeStanding(root, None, "missing", str(fault), None)
    except OSError as error:
        return VolumeStanding(root, None, "missing", str(local_fault(error, f"cannot read {root}")), None)


def _read_now(root: Path, labels: Labels, keep_free: float) -> VolumeStanding:
    if not root.is_dir():
        return VolumeStanding(root, None, "missing", "there is no such directory; is it mounted?", None)
    labels.check(root)
    usage = os.statvfs(root)
    free_bytes = count_free_bytes(usage)
    state = "mounted"
    place = root / STATE_NAME if (root / STATE_NAME).is_dir() else root
    if usage.f_flag & os.ST_RDONLY or not os.access(place, os.W_OK):
        state = "read-only"
    elif os.path.lexists(root / STATE_NAME / PAUSED):
        state = "paused"
    elif free_bytes is not None and free_bytes <= reserve_bytes(usage.f_blocks * usage.f_frsize):
        state = "full"
    return VolumeStanding(root, read_label(root), state, None, count_free_bytes(usage, keep_free))


def _describe(standing: VolumeStanding, advance: Advance) -> tuple[VolumeRow, list[str]]:
    """Describe a volume; also the files that its records name and it has not."""
    batches = files = size_bytes = unread = 0
    lacked: list[str] = []
    if standing.is_readable:
        paths: set[str] = set()
        for record in read_all(standing.root):
            if isinstance(record, Unread):
                unread += 1
                continue
            batches += 1
            if record.paths is None:
                files += record.files
                size_bytes += record.bytes
            else:
                paths.update(record.paths)
        counted = {path for record in read_rest(standing.root) for path in record.paths or ()} - paths
        with ReadOnlyTree(standing.root) as tree:
            for path in chain(paths, counted):
                held_bytes = size_of(tree, path)
                lacked += [path] if held_bytes is None and path not in counted else []
                files += held_bytes is not None
                size_bytes += held_bytes or 0
                advance(1, held_bytes or 0)
    row = VolumeRow(
        volume=str(standing.root),
        label=standing.label,
        state=standing.state,
        why=standing.why,
        batches=batches,
        files=files,
        bytes=size_bytes,
        unread=unread,
        free_bytes=standing.free_bytes,
    )
    return row, lacked


def read_all(root: Path) -> Iterator[BatchRecord | Unread]:
    """Read the records of a volume. Raises LocalFault."""
    try:
        yield from read_records(root)
    except OSError as error:
        raise local_fault(error, f"cannot read the records of batches on {root}") from None


def read_rest(root: Path) -> Iterator[BatchRecord]:
    """Read what a rescan has counted besides the batches. Raises LocalFault."""
    try:
        yield from read_counted(root)
    except OSError as error:
        raise local_fault(error, f"cannot read the counts of files on {root}") from None


def _newest_first(root: Path) -> list[BatchRecord]:
    records: Iterable[BatchRecord] = (record for record in read_all(root) if isinstance(record, BatchRecord))
    return sorted(records, key=lambda record: record.instant, reverse=True)


def size_of(tree: ReadOnlyTree, path: str) -> int | None:
    """The size of the regular file at ``path``; None: there is none. Raises LocalFault."""
    try:
        return tree.size_of(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise local_fault(error, f"cannot look at {printable(path)} on {tree.root}") from None


def _name_beneath(path: str, roots: Sequence[Path]) -> str:
    """The name of a file in its batch: relative to its volume. Raises UsageError."""
    name = path
    for root in roots:
        if Path(path).is_relative_to(root):
            name = str(Path(path).relative_to(root))
    try:
        return safe_path(name)
    except UnsafePathError as error:
        raise UsageError(f"{error}; name a file as the manifest does, or by its place on a volume") from None
