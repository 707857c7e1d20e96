"""The records of batches that are committed in a directory: one file each, written in one step.

A batch counts as committed as long as its record exists, so the records are checked again when the run ends:
a volume may be unmounted, moved or emptied after it has taken a batch.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.base.errors import LocalFault, Vanished
from cfetch.base.records import NOT_DECODED
from cfetch.storage.descriptors import HeldDirectories
from cfetch.storage.files import STATE_NAME, volume_fault
from cfetch.storage.group_rights import create_file
from cfetch.storage.staging import Staging
from cfetch.storage.volume_values import BATCHES, BatchRecord

_SCHEMA = "cfetch.batch/1"


class _Schema(msgspec.Struct):
    schema: str = _SCHEMA


class BatchRecords:
    """The records below ``root``. Methods raise VolumeFault.

    ``known``: the ids of records that this run has found or put here; the volume keeps it.
    """

    def __init__(self, root: Path, held: HeldDirectories, staging: Staging, known: set[str]) -> None:
        self._root = root
        self._held = held
        self._staging = staging
        self._known = known

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
        self.draft(batch, text)
        self.put_draft(batch)

    def draft(self, batch: str, text: bytes) -> None:
        """Write a record among the parts, so that it is removed if this run dies before ``put_draft``."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = create_file(f"{batch}.json", flags, 0o600, dir_fd=self._staging.descriptor)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
        except OSError as error:
            raise self._fail(batch, error) from None

    def put_draft(self, batch: str) -> None:
        """Let a draft be the batch's record."""
        name = f"{batch}.json"
        try:
            directory = self._held.open_below(f"{STATE_NAME}/{BATCHES}", mode=0o700)
            try:
                os.rename(name, name, src_dir_fd=self._staging.descriptor, dst_dir_fd=directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise self._fail(batch, error) from None
        self._known.add(batch)

    def _fail(self, batch: str, error: OSError) -> LocalFault:
        self._staging.unmark(f"{batch}.json")
        what = f"cannot write the record of a batch to {self._root}"
        return volume_fault(error, what, beneath=self._held.root_fd)

    def remove(self, batch: str) -> None:
        """Remove the record of a batch that is no longer committed here; a thread may ``confirm`` now."""
        self._known.discard(batch)
        with suppress(OSError):
            os.unlink(f"{STATE_NAME}/{BATCHES}/{batch}.json", dir_fd=self._held.root_fd)

    def confirm(self) -> None:
        """Raise Vanished if a record that was here has gone."""
        gone = {batch for batch in tuple(self._known) if not self.has(batch) and batch in self._known}
        if gone:  # a batch that was removed meanwhile is not known any more, see remove
            kept = (read_record(record_path(self._root, batch)) for batch in self._known - gone)
            raise Vanished(
                f"something removed batches from {self._root} while cfetch was running: {len(gone)} of "
                f"{len(self._known)} have no record there; run the same command again",
                left=sum(record.files for record in kept if isinstance(record, BatchRecord)),
            )


class Unread(NamedTuple):
    """A record, by the name of its file, that this version cannot read; ``is_newer``: of a later version."""

    name: str
    is_newer: bool


def read_records(root: Path, place: str = BATCHES) -> Iterator[BatchRecord | Unread]:
    """Read all records of a directory that is a volume, in the order of their ids. Raises OSError."""
    directory = root / STATE_NAME / place
    try:
        names = sorted(path.name for path in directory.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return
    for name in names:
        with suppress(FileNotFoundError):  # a run has just given the batch to another volume
            yield _decode(name, (directory / name).read_bytes())


def read_record(path: Path) -> BatchRecord | Unread | None:
    """Read the record, or the draft of a record, at ``path``; None: there is none. Raises OSError."""
    with suppress(FileNotFoundError):
        return _decode(path.name, path.read_bytes())
    return None


def record_path(root: Path, batch: str) -> Path:
    """Where the volume at ``root`` has the record of a batch."""
    return root / STATE_NAME / BATCHES / f"{batch}.json"


def _decode(name: str, data: bytes) -> BatchRecord | Unread:
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
        if schema != _SCHEMA:
            return Unread(name, is_newer=True)
        return msgspec.json.decode(data, type=BatchRecord)
    except NOT_DECODED:
        return Unread(name, is_newer=False)
