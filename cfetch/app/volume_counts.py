"""Counts again what stands on volumes, and corrects the numbers of the batch records, by which runs place.

The names in the records stay as they are, so that `cfetch volume list` still tells which files are gone, and
a download brings them back. Files that no record names count too: the load of a volume is what stands there.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import msgspec

from cfetch.app.volume_moves import open_occupied
from cfetch.app.volume_set import Advance, read_all, read_rest, size_of
from cfetch.base.config.settings import Settings
from cfetch.manifest.entry import UnsafePathError, safe_path
from cfetch.show.volume_view import Recount, VolumeCount
from cfetch.storage.batch_records import Unread, record_path
from cfetch.storage.counted_files import keep_counted
from cfetch.storage.files import STATE_NAME, replace_file
from cfetch.storage.recorded_files import Recorded, RecordedFiles, count_recorded
from cfetch.storage.tree import ReadOnlyTree
from cfetch.storage.volume_values import BatchRecord


def rescan(
    settings: Settings, *, pause: Callable[[float], None], note: Callable[[str], None], advance: Advance
) -> Recount:
    """Look at all files that the records name, and let the records state what stands.

    Raises the same as ``prepare_drain``.
    """
    with open_occupied(settings, pause, note) as volumes:
        before = _count(volumes.roots)
        missing = [
            _correct(standing.root, advance, writes=standing.state != "read-only")
            for standing in volumes.standings
        ]
        after = _count(volumes.roots)
        return Recount(
            volumes=[
                VolumeCount(
                    volume=str(root),
                    files=now.files,
                    bytes=now.size_bytes,
                    files_before=earlier.files,
                    bytes_before=earlier.size_bytes,
                    missing=lacked,
                )
                for root, earlier, now, lacked in zip(volumes.roots, before, after, missing, strict=True)
            ]
        )


def _count(roots: tuple[Path, ...]) -> list[Recorded]:
    """Count as a run does at its beginning."""
    return count_recorded(
        [
            RecordedFiles(
                record for record in chain(read_all(root), read_rest(root)) if isinstance(record, BatchRecord)
            )
            for root in roots
        ]
    )


def _correct(root: Path, advance: Advance, *, writes: bool) -> int:
    """Correct the records of a volume; return how many of their files are not there."""
    lacked: set[str] = set()
    named: set[str] = set()
    names_all = True
    with ReadOnlyTree(root) as tree:
        for record in read_all(root):
            if isinstance(record, Unread):
                continue
            if record.paths is None:
                names_all = False
                continue
            named.update(record.paths)
            sizes = {path: size_of(tree, path) for path in record.paths}
            there = [size_bytes for size_bytes in sizes.values() if size_bytes is not None]
            lacked.update(path for path, size_bytes in sizes.items() if size_bytes is None)
            advance(len(sizes), sum(there))
            if writes and (len(there), sum(there)) != (record.files, record.bytes):
                corrected = msgspec.structs.replace(record, files=len(there), bytes=sum(there))
                replace_file(record_path(root, record.id), msgspec.json.encode(corrected))
        if writes and names_all:  # else files that a record counts and does not name would count twice
            keep_counted(root, _find_unnamed(tree, named, advance))
    return len(lacked)


def _find_unnamed(tree: ReadOnlyTree, named: Collection[str], advance: Advance) -> Iterator[tuple[str, int]]:
    """Yield path and bytes of each file that no record names, as far as they can be seen.

    Names that no manifest can have are left out.
    """
    for path, status, _ in tree.regular_files(leave_out=(STATE_NAME,)):
        if status is None or path in named:
            continue
        with suppress(UnsafePathError):
            yield safe_path(path), status.st_size
            advance(1, status.st_size)
