"""Looks whether files stand in place, many at a time: one look at each directory, two calls a file.

A run that has nothing to do is nothing but this look, so it makes the fewest system calls: one for the size
and the kind, one for the link that the file came from. What it does not recognise at once it leaves to
``Volume.verify_existing``, which can also hash, and which says why a file is not taken for good.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter

from cfetch.errors import LocalFault
from cfetch.manifest.entry import Entry
from cfetch.storage.directory import Directory
from cfetch.storage.files import STATE_NAME
from cfetch.storage.resume import identity_of
from cfetch.storage.sources import Source

BY_SIZE = "size"
BY_RECORD = "none"  # no size and no hash is stated, but the file is the one that came from the link


class StandingFiles:
    """Implements ``volume.Search`` for a directory on a disk that answers."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def has_any(self) -> bool:
        """Whether anything stands there but what is cfetch's own."""
        with suppress(OSError, LocalFault), os.scandir(self._directory.descriptor_of("")) as names:
            return any(entry.name != STATE_NAME for entry in names)
        return False

    def find(self, entries: Sequence[Entry]) -> list[str | None]:
        """What vouches for the file under the name of each entry, where one look tells; else None."""
        vouched: list[str | None] = []
        parents = ((entry.path.rpartition("/")[0], entry) for entry in entries)
        with self._directory.one_look():
            for parent, group in groupby(parents, itemgetter(0)):
                together = [entry for _, entry in group]
                try:
                    descriptor = self._directory.descriptor_of(parent)
                except (OSError, LocalFault):
                    vouched += [None] * len(together)
                else:
                    vouched += [_look_at(self._directory, descriptor, entry) for entry in together]
        return vouched


def vouch(source: Source | None, entry: Entry, size_bytes: int) -> str | None:
    """What vouches for a file of ``size_bytes`` that came from ``source``, as far as that is known.

    A file of the stated size needs no record, as another tool may have put it there. Where no size is
    stated, only the record tells that the file is the entry's, and whole. Of a file made of pieces, only the
    record tells that all of them are the manifest's.
    """
    if entry.piece is not None:
        is_joined = source is not None and source.identity == entry.piece.source
        return BY_SIZE if is_joined and size_bytes == entry.piece.file_bytes else None
    if entry.size_bytes is None:
        is_known = source is not None and source.size_bytes == size_bytes
        return BY_RECORD if is_known and _came_from_its_link(source, entry) else None
    if entry.size_bytes != size_bytes:
        return None
    return BY_SIZE if source is None or _came_from_its_link(source, entry) else None


def _came_from_its_link(source: Source | None, entry: Entry) -> bool:
    if source is None:
        return False
    if source.identity == identity_of(entry):
        return True
    return any(source.identity == identity_of(entry, mirror) for mirror in entry.mirrors)


def _look_at(directory: Directory, descriptor: int, entry: Entry) -> str | None:
    if entry.digest is not None and entry.piece is None:
        return None
    with suppress(OSError):
        leaf = entry.path.rpartition("/")[2].encode()
        status = os.stat(leaf, dir_fd=descriptor, follow_symlinks=False)
        if entry.file_bytes in (status.st_size, None) and stat.S_ISREG(status.st_mode):
            return vouch(directory.sources.find(entry.path), entry, status.st_size)
    return None
