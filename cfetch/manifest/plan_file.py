"""Entries sealed in a file, and in memory only what scheduling asks of all of them at once.

The file holds msgpack records end to end, readable by its owner alone, for they hold signed URLs. In memory
an entry takes 32 bytes: position, size, host and a hash of its path.
"""

import hashlib
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from cfetch.errors import LocalFault
from cfetch.manifest.collisions import PathIndex
from cfetch.manifest.entry import Entry
from cfetch.manifest.urls import host_of, unsigned

__all__ = ["PlanFile"]

UNKNOWN_SIZE = -1
BUFFER_BYTES = 1 << 20  # a thousand records a write

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


class PlanFile:
    """Append entries, ``seal``, then read any of them. Entry ``i`` is the ``i``-th appended.

    Raises:
        LocalFault: the file exists already or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._writing():
            self._file = os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=BUFFER_BYTES)
        self._digest = hashlib.sha256()
        self._host_numbers: dict[str, int] = {}
        self._positions = array("q", [0])
        self.paths = PathIndex()
        self.sizes = array("q")
        self.host_of = array("I")
        self.total_bytes = 0
        self.sizes_unknown = 0
        self.expires_at: float | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def hosts(self) -> list[str]:
        """The hosts in the order of their first entries."""
        return list(self._host_numbers)

    @property
    def digest(self) -> str:
        """SHA-256 of what the entries state, as hex."""
        return self._digest.hexdigest()

    def append(self, entry: Entry) -> None:
        """Write one entry; its ``id`` is its index."""
        record = _encoder.encode(entry)
        try:  # inline: a context manager here would cost a tenth of the whole
            self._file.write(record)
        except OSError as error:
            raise self._fault(error) from error
        self.paths.add(entry.path, len(self.sizes))
        self._positions.append(self._positions[-1] + len(record))
        self.sizes.append(UNKNOWN_SIZE if entry.size_bytes is None else entry.size_bytes)
        self.host_of.append(self._host_numbers.setdefault(host_of(entry.url.value), len(self._host_numbers)))
        self._digest.update(_encoder.encode(_identity(entry)))
        self.total_bytes += entry.size_bytes or 0
        self.sizes_unknown += entry.size_bytes is None
        if entry.expires_at is not None:
            self.expires_at = min(entry.expires_at, self.expires_at or entry.expires_at)

    def seal(self) -> None:
        """Nothing is appended after this; entries can be read."""
        with self._writing():
            self._file.flush()

    def entry(self, index: int) -> Entry:
        """Read one entry.

        Raises:
            IndexError: there is no such entry.
        """
        if not 0 <= index < len(self.sizes):
            raise IndexError(f"the plan has {len(self.sizes)} entries and none with index {index}")
        start = self._positions[index]
        return _decoder.decode(os.pread(self._file.fileno(), self._positions[index + 1] - start, start))

    def take_place_of(self, other: "PlanFile") -> None:
        """Move this file over the other one's, which is closed."""
        with self._writing():
            self.path = self.path.replace(other.path)
        other.close()

    def close(self) -> None:
        """Let go of the file; it stays."""
        with suppress(OSError):  # all of it was written when it was sealed
            self._file.close()

    def discard(self) -> None:
        """Let go of the file and remove it."""
        with suppress(OSError):  # a full disk refuses the last flush too
            self.close()
        self.path.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fault(error) from error

    def _fault(self, error: OSError) -> LocalFault:
        return LocalFault(f"cannot write the plan to {self.path}: {error.strerror}")


def _identity(entry: Entry) -> tuple[object, ...]:
    """What makes manifests the same: not line numbers, credentials, signatures, or when links end."""
    return (
        unsigned(entry.url.value),
        entry.path,
        entry.size_bytes,
        entry.offset,
        entry.digest,
        entry.batch,
        [unsigned(mirror.value) for mirror in entry.mirrors],
        entry.chunk,
    )
