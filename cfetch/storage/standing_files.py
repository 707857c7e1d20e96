"""Checks whether files are in place, many at a time.

If all files are in place, a run does only this check, so it makes as few system calls as possible: one for
size and kind, one for the link that the file came from.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from cfetch.base.errors import LocalFault
from cfetch.manifest.entry import Entry
from cfetch.storage.directory import Directory
from cfetch.storage.files import STATE_NAME


class StandingFiles:
    """Implements ``volume.Search`` for a directory on a disk that answers."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def has_any(self) -> bool:
        """Whether the directory has anything besides cfetch's own state."""
        with suppress(OSError, LocalFault), os.scandir(self._directory.descriptor_of("")) as names:
            return any(entry.name != STATE_NAME for entry in names)
        return False

    def find(self, entries: Sequence[Entry]) -> list[str | None]:
        """The proof for the file of each entry, if the quick check finds one; else None."""
        from cfetch.storage.standing_proofs import find_proofs  # a first run finds no file

        return find_proofs(self._directory, entries)
