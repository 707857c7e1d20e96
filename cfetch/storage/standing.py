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
from cfetch.storage.directory import Directory, Source
from cfetch.storage.files import STATE_NAME
from cfetch.storage.resume import identity

BY_SIZE = "size"


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


def came_from_its_link(source: Source | None, entry: Entry) -> bool:
    """Whether a file of the stated size is the entry's, as far as the link is known that it came from."""
    if source is None:
        return True
    return source.identity == identity(entry.url) or source.identity in map(identity, entry.mirrors)


def _look_at(directory: Directory, descriptor: int, entry: Entry) -> str | None:
    if entry.size_bytes is None or entry.digest is not None:
        return None
    with suppress(OSError):
        leaf = entry.path.rpartition("/")[2].encode()
        status = os.stat(leaf, dir_fd=descriptor, follow_symlinks=False)
        if status.st_size == entry.size_bytes and stat.S_ISREG(status.st_mode):
            return BY_SIZE if came_from_its_link(directory.read_source(entry.path), entry) else None
    return None
