"""What proves that a file in place is an entry's: one check of each directory, two system calls a file.

Loaded where files are in place. A small file with a stated hash is read at once. Files that it does not
recognise are left to ``Volume.verify_existing``, which says why one is not accepted.
"""

import os
import stat
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from cfetch.base.errors import LocalFault
from cfetch.manifest.entry import Digest, Entry
from cfetch.manifest.hashing import new_hash
from cfetch.storage.directory import Directory
from cfetch.storage.resume import identity_of
from cfetch.storage.volume_values import SourceRecord

MOST_HASHED_BYTES = 256 << 10  # a larger file is read by a worker, in a thread if need be
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

BY_SIZE = "size"
BY_RECORD = "none"  # no size and no hash is stated, but by its record the file came from the link


def find_proofs(directory: Directory, entries: Sequence[Entry]) -> list[str | None]:
    """The proof for the file of each entry, if the quick check finds one; else None."""
    vouched: list[str | None] = []
    places = ((*entry.path.rpartition("/"), entry) for entry in entries)
    with directory.one_look():
        for parent, group in groupby(places, itemgetter(0)):
            files = [(leaf.encode(), entry) for _, _, leaf, entry in group]
            try:
                descriptor = directory.descriptor_of(parent)
            except (OSError, LocalFault):
                vouched += [None] * len(files)
            else:
                vouched += [_find_proof(directory, descriptor, leaf, entry) for leaf, entry in files]
    directory.holds_files |= any(vouched)
    return vouched


def vouch(source: SourceRecord | None, entry: Entry, size_bytes: int) -> str | None:
    """The proof for a file of ``size_bytes`` that came from ``source``, if that is known; None: no proof.

    A file of the stated size needs no record, as another tool may have put it there. If no size is stated,
    only the record can prove that the file is the entry's, and whole. For a file made of pieces, only the
    record can prove that all of them are the manifest's. If the entry may replace no file, only the record
    can prove that the file is not somebody else's.
    """
    if entry.piece is not None:
        is_joined = source is not None and source.identity == entry.piece.source
        return BY_SIZE if is_joined and size_bytes == entry.piece.file_bytes else None
    if entry.size_bytes is None:
        is_known = source is not None and source.size_bytes == size_bytes
        return BY_RECORD if is_known and _came_from_its_link(source, entry) else None
    if entry.size_bytes != size_bytes:
        return None
    is_any = source is None and entry.replaces != ()
    return BY_SIZE if is_any or _came_from_its_link(source, entry) else None


def _came_from_its_link(source: SourceRecord | None, entry: Entry) -> bool:
    if source is None:
        return False
    if source.identity == identity_of(entry):
        return True
    return any(source.identity == identity_of(entry, mirror) for mirror in entry.mirrors)


def _find_proof(directory: Directory, descriptor: int, leaf: bytes, entry: Entry) -> str | None:
    if entry.clash is not None:  # the file there is another entry's
        return None
    try:
        status = os.stat(leaf, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return None
    size_bytes = status.st_size
    if entry.file_bytes not in (size_bytes, None) or not stat.S_ISREG(status.st_mode):
        return None
    if entry.digest is None or entry.piece is not None:
        return vouch(directory.sources.find(entry.path), entry, size_bytes)
    if size_bytes > MOST_HASHED_BYTES:
        return None
    return entry.digest.algorithm if _has_digest(descriptor, leaf, size_bytes, entry.digest) else None


def _has_digest(parent: int, leaf: bytes, size_bytes: int, digest: Digest) -> bool:
    """Whether a small file has all of its bytes and this hash."""
    try:
        descriptor = os.open(leaf, _FILE, dir_fd=parent)
        try:
            data = os.read(descriptor, size_bytes + 1)  # a file that has grown has another hash
        finally:
            os.close(descriptor)
    except OSError:
        return False
    running = new_hash(digest.algorithm, size_bytes)
    running.update(data)
    return running.hexdigest() == digest.hex
