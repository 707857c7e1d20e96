"""Keeps the records of batches true when files leave them: their source took them back, or renamed them.

What a record names and the volume lacks is missing: something else has removed it, and a download brings it
again. So a file that the source has no longer must not stay named, or its batch could never move again.
"""

from collections.abc import Iterable, Mapping

import msgspec

from cfetch.manifest.entry import SafePath
from cfetch.storage.batch_records import Unread, read_records, record_path
from cfetch.storage.directory import Directory
from cfetch.storage.files import on_disk, replace_file


def strike_out(directory: Directory, paths: Iterable[SafePath]) -> None:
    """Let no record of the directory name these files; a file that is there after all stays named.

    A batch of which nothing is left loses its record. It may be done twice. Raises LocalFault.
    """
    _amend(directory, {path: None for path in paths if directory.identify(path) is None})


def rename(directory: Directory, moved: Mapping[SafePath, SafePath]) -> None:
    """Let records name files by the names to which they were moved. Raises LocalFault."""
    _amend(directory, moved)


def _amend(directory: Directory, changed: Mapping[SafePath, SafePath | None]) -> None:
    with on_disk(directory.root):
        for record in read_records(directory.root) if changed else ():
            if isinstance(record, Unread) or changed.keys().isdisjoint(record.paths or ()):
                continue
            named = (changed.get(SafePath(path), path) for path in record.paths or ())
            paths = tuple(sorted({path for path in named if path is not None}))
            place = record_path(directory.root, record.id)
            if not paths:
                place.unlink(missing_ok=True)
                continue
            there = [identity for path in paths if (identity := directory.identify(SafePath(path)))]
            size_bytes = sum(identity.size_bytes for identity in there)
            less = msgspec.structs.replace(record, paths=paths, files=len(there), bytes=size_bytes)
            replace_file(place, msgspec.json.encode(less))
