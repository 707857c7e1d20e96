"""The records of batches that are committed in a directory: one file each, written in one step.

A batch counts as committed as long as its record exists, so the records are checked again when the run ends:
a volume may be unmounted, moved or emptied after it has taken a batch.
"""

import os
from contextlib import suppress
from pathlib import Path

from cfetch.errors import VolumeFault
from cfetch.storage.descriptors import HeldDirectories
from cfetch.storage.files import STATE_NAME, volume_fault
from cfetch.storage.staging import Staging
from cfetch.storage.volume import BATCHES


class BatchRecords:
    """The records below ``root``. Methods raise VolumeFault."""

    def __init__(self, root: Path, held: HeldDirectories, staging: Staging) -> None:
        self._root = root
        self._held = held
        self._staging = staging
        self._known: set[str] = set()  # records that this run has found or put here

    def has(self, batch: str) -> bool:
        """Whether the batch with this id was committed here."""
        try:
            os.stat(f"{STATE_NAME}/{BATCHES}/{batch}.json", dir_fd=self._held.root_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise volume_fault(error, f"cannot read {self._root}") from None
        self._known.add(batch)
        return True

    def put(self, batch: str, text: bytes) -> None:
        """Write a batch's record, in one step; an older one is replaced."""
        draft = f"{batch}.json"  # among the parts, so that it is removed if this run dies now
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            directory = self._held.open_below(f"{STATE_NAME}/{BATCHES}", mode=0o700)
            try:
                with os.fdopen(os.open(draft, flags, 0o600, dir_fd=self._staging.descriptor), "wb") as file:
                    file.write(text)
                os.rename(draft, f"{batch}.json", src_dir_fd=self._staging.descriptor, dst_dir_fd=directory)
            finally:
                os.close(directory)
        except OSError as error:
            self._staging.unmark(draft)
            what = f"cannot write the record of a batch to {self._root}"
            raise volume_fault(error, what, beneath=self._held.root_fd) from None
        self._known.add(batch)

    def remove(self, batch: str) -> None:
        """Remove the record of a batch that is no longer committed here."""
        self._known.discard(batch)
        with suppress(OSError):
            os.unlink(f"{STATE_NAME}/{BATCHES}/{batch}.json", dir_fd=self._held.root_fd)

    def confirm(self) -> None:
        """Raise VolumeFault if a record that was here has gone."""
        gone = sum(not self.has(batch) for batch in tuple(self._known))
        if gone:
            raise VolumeFault(
                f"something removed batches from {self._root} while cfetch was running: {gone} of "
                f"{len(self._known)} have no record there; run the same command again"
            )
