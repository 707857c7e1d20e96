"""Records of sources for file systems without extended attributes: files of the state directory.

The records of a directory's files are in one file, ``sources/<hash of the directory's name>``, a line each;
the last line counts. Such a record is valid only for a file of its size and time of change, as it does not
stay with the file.
"""

import hashlib
import os
from contextlib import suppress

import msgspec

from cfetch.base.records import NOT_DECODED
from cfetch.storage.descriptors import HeldDirectories
from cfetch.storage.etags import keep_etag
from cfetch.storage.files import STATE_NAME
from cfetch.storage.group_rights import create_file
from cfetch.storage.volume_values import SourceRecord

SOURCES = "sources"  # below the volume's state directory
_LINE = msgspec.json.Decoder(tuple[str, int, int, str, str | None])


class SourcesInState:
    """The records of the files beneath the held directories. Raises OSError: the state cannot be used."""

    def __init__(self, held: HeldDirectories) -> None:
        self._held = held
        self._parent: str | None = None  # the directory whose records were read last
        self._records: dict[str, tuple[int, SourceRecord]] = {}

    def note(self, path: str, source: SourceRecord, changed_ns: int) -> None:
        """Add the record of the file at ``path``, which was changed last at ``changed_ns``."""
        parent, _, leaf = path.rpartition("/")
        etag = keep_etag(source.etag)
        line = msgspec.json.encode((leaf, changed_ns, source.size_bytes or 0, source.identity, etag))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = self._held.open_below(f"{STATE_NAME}/{SOURCES}", mode=0o700)
        try:
            descriptor = create_file(name_records(parent), flags, 0o600, dir_fd=directory)
        finally:
            os.close(directory)
        try:
            os.write(descriptor, b"\n" + line)  # the line break first: the line before may be torn
        finally:
            os.close(descriptor)
        self._parent = None

    def find(self, path: str, status: os.stat_result) -> SourceRecord | None:
        """The record of the file that has this ``status`` now; None: there is none that fits."""
        parent, _, leaf = path.rpartition("/")
        if parent != self._parent:
            self._records = self._read(parent)
            self._parent = parent
        changed_ns, source = self._records.get(leaf, (0, None))
        fits = source is not None and (changed_ns, source.size_bytes) == (status.st_mtime_ns, status.st_size)
        return source if fits else None

    def _read(self, parent: str) -> dict[str, tuple[int, SourceRecord]]:
        records: dict[str, tuple[int, SourceRecord]] = {}
        with suppress(OSError):
            descriptor = os.open(
                f"{STATE_NAME}/{SOURCES}/{name_records(parent)}",
                os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC,
                dir_fd=self._held.root_fd,
            )
            with os.fdopen(descriptor, "rb") as file:
                for line in file:
                    with suppress(*NOT_DECODED):  # torn by a crash
                        leaf, changed_ns, size_bytes, identity, etag = _LINE.decode(line)
                        records[leaf] = changed_ns, SourceRecord(identity, etag, size_bytes)
        return records


def name_records(parent: str) -> str:
    """The name of the file with the records of the directory ``parent``."""
    return hashlib.blake2b(parent.encode(), digest_size=16).hexdigest()
