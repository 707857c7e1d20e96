"""Keeps the records of batches true when their source deletes or renames files.

A file that a record names and the volume lacks counts as lost, and a download brings it again. So a record
must not name a file that the source has deleted: its batch could never move again. And a file that no record
names would stay behind on a volume that is emptied.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cfetch.manifest.entry import SafePath
from cfetch.storage.batch_records import Unread, read_records, record_path
from cfetch.storage.directory import Directory
from cfetch.storage.files import on_disk, replace_file


def strike_out(directory: Directory, paths: Iterable[SafePath]) -> None:
    """Let no record of the directory name these files; a file that is there after all stays named.

    A batch that has no file left loses its record. The call may be repeated. Raises LocalFault.
    """
    _amend(directory, {path: () for path in paths if directory.identify(path) is None})


def name_too(directory: Directory, names: Mapping[SafePath, SafePath]) -> None:
    """Let records name files by the names to which they are about to move, too.

    Afterwards ``strike_out`` removes the names that have no file. So a kill in between leaves no file without
    a record. Raises LocalFault.
    """
    _amend(directory, {path: (path, to) for path, to in names.items()})


def strike_out_replaced(directories: Sequence[Directory]) -> None:
    """Let no record name a file that its directory lacks, if another directory has the file and names it.

    The other file is a newer version, or a killed move has ended since. Raises LocalFault.
    """
    homes: defaultdict[str, list[Directory]] = defaultdict(list)
    for directory in directories:
        with on_disk(directory.root):
            for record in read_records(directory.root):
                paths = () if isinstance(record, Unread) else record.paths or ()
                for path in paths:
                    if directory not in homes[path]:
                        homes[path].append(directory)
    replaced: defaultdict[Directory, list[SafePath]] = defaultdict(list)
    for path, named in homes.items():
        if len(named) > 1 and any(directory.identify(SafePath(path)) for directory in named):
            for directory in named:
                replaced[directory].append(SafePath(path))
    for directory, lost in replaced.items():
        strike_out(directory, lost)


def _amend(directory: Directory, changed: Mapping[SafePath, tuple[SafePath, ...]]) -> None:
    with on_disk(directory.root):
        for record in read_records(directory.root) if changed else ():
            if isinstance(record, Unread) or changed.keys().isdisjoint(record.paths or ()):
                continue
            before = map(SafePath, record.paths or ())
            paths = tuple(sorted({name for path in before for name in changed.get(path, (path,))}))
            place = record_path(directory.root, record.id)
            if not paths:
                place.unlink(missing_ok=True)
                continue
            there = [identity for path in paths if (identity := directory.identify(path))]
            size_bytes = sum(identity.size_bytes for identity in there)
            less = msgspec.structs.replace(record, paths=paths, files=len(there), bytes=size_bytes)
            replace_file(place, msgspec.json.encode(less))
