"""Moves a committed batch from one directory to another; a kill at any step loses no file and no record.

The record of the batch is its commit. Until the target has it, the batch is on the source::

    the record's draft    in .cfetch/moves/<id> of the target, with the names of the files
    the files' copies     beside it; flushed, and read again to be compared
    their final names     flushed
    the record            by one rename: from here on the batch is on the target; flushed
    the source            loses its files, then its record

``recover`` undoes a move without a record at the target, and ends a move with one. It knows the direction by
the record: ``moves`` names each volume that had the batch before. A file of the source is removed only while
an equal one, by size and time of change, is on the target.
"""

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.base.errors import Blocked, CfetchError, Corrupt, LocalFault
from cfetch.manifest.entry import SafePath, UnsafePathError, safe_path
from cfetch.storage.batch_records import read_record, read_records, record_path
from cfetch.storage.directory import Directory, Identity
from cfetch.storage.files import MOVES, STATE_NAME, on_disk, volume_fault
from cfetch.storage.lacking import set_mode
from cfetch.storage.occupancy import leave, occupy
from cfetch.storage.volume_values import BatchRecord

_READ_BYTES = 1 << 20
_SAME_S = 2.0  # FAT keeps times in steps of two seconds

Advance = Callable[[int, int], None]

COPIED = "copied"  # an empty file in the directory of a move: all copies are made


class Recovered(NamedTuple):
    """A move that a killed process had begun: ``is_done``: it was ended here, else it was undone."""

    batch: str
    root: Path
    is_done: bool


def move_batch(
    source: Directory, target_root: Path, records: Sequence[BatchRecord], advance: Advance
) -> BatchRecord:
    """Move the batch of ``records`` from ``source`` to ``target_root``; return its record there.

    Several records that share files are moved as one: the newest, which gets the files of all. ``advance`` is
    called with the files and bytes that are moved.

    Raises:
        Blocked: something has the name of one of its files at the target.
        LocalFault: the target or the source refuses; also a file of the batch is missing. The batch is on the
            source then, unless the target has its record already.
    """
    record = _merge_records(records, str(source.root))
    paths = _paths_of(record)
    with closing(Directory(target_root, f"{MOVES}/{record.id}", sharers=2)) as target:
        _refuse_taken(target, record, paths)
        try:
            target.records.draft(record.id, msgspec.json.encode(record))
            digests = [_copy(source, target, path, str(number), advance) for number, path in enumerate(paths)]
            os.close(target.staging.create_part(COPIED))  # flushed before the first copy gets its final name
            target.flush()
            for number, digest in enumerate(digests):
                _compare(target, str(number), digest, paths[number])
            for number, path in enumerate(paths):
                target.publish(str(number), path)
            target.flush()
            target.records.put_draft(record.id)
            target.staging.unmark(COPIED)
        except CfetchError:
            _undo(target, record, source)
            raise
        _empty_source(source, target, record)
    return record


def _merge_records(records: Sequence[BatchRecord], root: str) -> BatchRecord:
    """The record at the target, of records that share files, after they have left ``root``."""
    newest = max(records, key=lambda record: record.instant)
    paths = tuple(sorted({path for record in records for path in record.paths or ()}))
    files = max(len(paths), newest.files)
    return msgspec.structs.replace(newest, paths=paths, files=files, moves=(*newest.moves, root))


def recover(roots: Sequence[Path]) -> Iterator[Recovered]:
    """End or undo the moves that killed processes have left, as far as both volumes are among ``roots``.

    Nobody else may be at work there. Raises LocalFault, OSError.
    """
    for root in roots:
        yield from _undo_unfinished(root, roots)
    for root in roots:
        for record in read_records(root):
            if isinstance(record, BatchRecord) and record.moves:
                for other in roots:
                    if other != root and _had_before(other, record):
                        with _open_both(other, root) as (source, target):
                            is_whole = all(target.identify(path) for path in _paths_of(record))
                            if is_whole:  # otherwise a run has brought the batch to the source since then
                                _empty_source(source, target, record)
                        if is_whole:
                            yield Recovered(record.id, root, is_done=True)


def find_moved(directories: Iterable[Directory]) -> Mapping[str, Mapping[str, Directory]]:
    """Find where files are that moves have taken from a volume: by its name, then by their paths.

    Raises LocalFault.
    """
    homes: defaultdict[str, dict[str, Directory]] = defaultdict(dict)
    for directory in directories:
        with on_disk(directory.root):
            for record in read_records(directory.root):
                if isinstance(record, BatchRecord):
                    for former in record.moves:
                        homes[former] |= dict.fromkeys(record.paths or (), directory)
    return homes


def undo_killed_moves(directories: Sequence[Directory]) -> None:
    """Undo killed moves of batches, whose copies take room, unless others are at work here."""
    roots = [directory.root for directory in directories]
    with ExitStack() as stack, suppress(CfetchError, OSError):
        for directory in directories:
            occupy(directory)
            stack.callback(leave, directory)
        for root in roots:
            for _ in _undo_unfinished(root, roots):
                pass


def _undo_unfinished(root: Path, roots: Sequence[Path]) -> Iterator[Recovered]:
    """Undo the moves to ``root`` that have come to no record, as ``recover`` does."""
    moves = root / STATE_NAME / MOVES
    begun = sorted(path.name for path in moves.iterdir() if path.is_dir()) if moves.is_dir() else []
    for batch in begun:
        draft = read_record(moves / batch / f"{batch}.json")
        if isinstance(draft, BatchRecord) and record_path(root, batch).exists():
            shutil.rmtree(moves / batch)  # a run has brought the batch here since: its files stay
        elif isinstance(draft, BatchRecord):
            others = (other for other in roots if other != root)
            home = next((other for other in others if record_path(other, batch).exists()), None)
            if home is not None:  # otherwise the volume that has the batch is not among ``roots``
                with _open_both(home, root) as (source, target):
                    _undo(target, draft, source)
                yield Recovered(batch, root, is_done=False)
        elif draft is None or not draft.is_newer:
            shutil.rmtree(moves / batch)  # no file has its name yet, or the target has the record
    with suppress(OSError):
        moves.rmdir()


@contextmanager
def _open_both(source: Path, target: Path) -> Iterator[tuple[Directory, Directory]]:
    with closing(Directory(source, sharers=2)) as first, closing(Directory(target, sharers=2)) as second:
        yield first, second


def _had_before(root: Path, record: BatchRecord) -> bool:
    """Whether the volume at ``root`` still has the record from before the batch's last move."""
    if record.moves[-1] != str(root):  # the same batch was brought there too, and was never moved from there
        return False
    earlier = read_record(record_path(root, record.id))
    return isinstance(earlier, BatchRecord) and earlier.moves == record.moves[:-1]


def _paths_of(record: BatchRecord) -> list[SafePath]:
    """The files of a batch. Raises LocalFault: the record names something that cfetch never writes."""
    try:
        return [safe_path(path) for path in record.paths or ()]
    except UnsafePathError as error:
        raise LocalFault(
            f"the record of batch {record.id[:8]} is not cfetch's: {error}; remove it, and run the "
            "download again"
        ) from None


def _refuse_taken(target: Directory, record: BatchRecord, paths: Sequence[SafePath]) -> None:
    if target.records.has(record.id):
        raise Blocked(
            f"{target.root} has a batch {record.id[:8]} too; run the download again, then try again"
        )
    for path in paths:
        if target.existing(path) is not None:
            raise Blocked(f"{target.root} has a file {path} already; move it away, or verify both volumes")


def _copy(source: Directory, target: Directory, path: SafePath, name: str, advance: Advance) -> bytes:
    """Copy a file to the target's staging directory, with its time, mode and source; return its hash."""
    reading = source.open_existing(path)
    if reading is None:
        raise LocalFault(
            f"{source.root} has no file {path}, which a batch there names; run the download again, "
            "then try again"
        )
    try:
        status = os.fstat(reading)
        writing = target.staging.create_part(name)
        running = hashlib.blake2b()
        try:
            while data := os.read(reading, _READ_BYTES):
                running.update(data)
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(writing, rest) :]
                advance(0, len(data))
            set_mode(writing, status.st_mode & 0o777)
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
            known = source.sources.find(path)
            if known is not None:
                target.sources.note(writing, path, known)
        finally:
            os.close(writing)
    except OSError as error:
        what = f"cannot copy {path} from {source.root} to {target.root}"
        raise volume_fault(error, what, beneath=target.staging.descriptor) from None
    finally:
        os.close(reading)
    advance(1, 0)
    return running.digest()


def _compare(target: Directory, name: str, digest: bytes, path: SafePath) -> None:
    """Compare the hash of a flushed copy, read from the disk, not from memory. Raises Corrupt, LocalFault."""
    descriptor = target.staging.reopen_part(name)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        running = hashlib.blake2b()
        while data := os.read(descriptor, _READ_BYTES):
            running.update(data)
    except OSError as error:
        raise volume_fault(error, f"cannot read the copy of {path} on {target.root}") from None
    finally:
        os.close(descriptor)
    if running.digest() != digest:
        raise Corrupt(f"the copy of {path} on {target.root} differs from the file; see the system's log")


def _undo(target: Directory, record: BatchRecord, source: Directory) -> None:
    """Remove all that a move without a record has put on the target; the source has every file.

    Copies get their final names in order, after the mark ``COPIED`` shows that all copies are made. Without
    the mark, the move has given no final name. The first copy that is still in the directory of the move has
    no final name yet, and neither have the copies after it: a file of such a name is not the move's.
    """
    place = target.root / STATE_NAME / MOVES / record.id
    with suppress(CfetchError):
        is_copied = (place / COPIED).exists()
        for number, path in enumerate(_paths_of(record)):
            if not is_copied or (place / str(number)).exists():
                break
            original, copy = source.identify(path), target.identify(path)
            if copy is not None and are_equal(original, copy):
                target.delete_exactly(path, copy)
        shutil.rmtree(place, ignore_errors=True)


def are_equal(one_file: Identity | None, other: Identity | None) -> bool:
    """Whether two files have the same size and time of change."""
    return (
        one_file is not None
        and other is not None
        and one_file.size_bytes == other.size_bytes
        and abs(one_file.changed_ns - other.changed_ns) < _SAME_S * 1e9
    )


def _empty_source(source: Directory, target: Directory, record: BatchRecord) -> None:
    """Remove the files and records of a batch that is on the target. Raises LocalFault.

    If the target has lost a file that the source has, the source keeps its record too.
    """
    target.flush()  # first: the record there must survive a power cut
    is_complete = True
    for path in _paths_of(record):
        identity = source.identify(path)
        copy = target.identify(path)
        if identity is not None and are_equal(identity, copy):
            source.delete_exactly(path, identity)
        elif identity is not None and copy is None:
            is_complete = False
    source.flush()
    if not is_complete:
        return
    # Records that share files moved as one batch. An earlier record whose files all belong to it names
    # nothing that the source still has; left there, it would vouch for files that have gone. A record that
    # names other files too stays, for those.
    covered = set(record.paths or ())
    for earlier in tuple(read_records(source.root)):
        if isinstance(earlier, BatchRecord) and earlier.paths is not None and earlier.id != record.id:
            is_within = covered.issuperset(earlier.paths)
            if is_within and earlier.paths:
                source.records.remove(earlier.id)
    source.records.remove(record.id)
