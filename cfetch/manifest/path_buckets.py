"""The hashes of the paths of a long list in buckets, which go to a file when they have grown.

``collisions.py`` needs them if the paths are too many to be compared at once, or if two may collide.
"""

import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import IO

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable

BUCKETS = 256  # to sort one bucket needs a 256th of the memory that all hashes would need
MOST_IN_MEMORY = 2048  # hashes of a bucket: 6 MiB for all buckets, and 16 KiB a write


class _Bucket:
    """Hashes and references in the order in which they came; ``pieces`` of the bucket are in the file."""

    __slots__ = ("hashes", "pieces", "references")

    def __init__(self) -> None:
        self.hashes = array("q")
        self.references = array("I")
        self.pieces: list[tuple[int, int]] = []  # where each begins, and its hashes


class PathBuckets:
    """Hashes with references, as ``PathIndex`` has them; too many go to a file without a name.

    Raises:
        LocalFault: that file cannot be written or read.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._buckets = [_Bucket() for _ in range(BUCKETS)]
        self._columns = [(bucket.hashes.append, bucket.references.append) for bucket in self._buckets]
        self._sorted: dict[int, tuple[array[int], array[int]]] = {}  # buckets that ``find`` has looked into

    def add(self, hashes: "array[int]", references: Iterable[int]) -> None:
        """Add hashes, each with its reference."""
        columns = self._columns
        for hashed, reference in zip(hashes, references, strict=False):
            add_hash, add_reference = columns[hashed % BUCKETS]
            add_hash(hashed)
            add_reference(reference)
        for bucket in self._buckets:
            if len(bucket.hashes) >= MOST_IN_MEMORY:
                self._move_to_file(bucket)

    def find(self, wanted: int) -> list[int]:
        """The indexes of the entries with this hash."""
        number = wanted % BUCKETS
        if number not in self._sorted:
            self._sorted[number] = _sort(*self._read(number))
        hashes, references = self._sorted[number]
        first, end = bisect_left(hashes, wanted), bisect_right(hashes, wanted)
        return [reference // 2 for reference in references[first:end]]

    def candidates(self) -> Iterator[tuple[list[int], list[int]]]:
        """Groups that may collide: indexes of entries with the same key, and of entries beneath that key."""
        for number in range(BUCKETS):
            unsorted = self._read(number)
            if len(set(unsorted[0])) == len(unsorted[0]):  # nearly always, in a tenth of the time
                continue
            pairs = zip(*_sort(*unsorted), strict=True)
            for _, group in groupby(pairs, lambda pair: pair[0]):
                files: list[int] = []
                beneath: list[int] = []
                for _, reference in group:
                    (beneath if reference % 2 else files).append(reference // 2)
                if len(files) > 1 or (files and beneath):
                    yield files, beneath

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _move_to_file(self, bucket: _Bucket) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115 - closed by ``close``
            bucket.pieces.append((self._file.tell(), len(bucket.hashes)))
            for column in (bucket.hashes, bucket.references):
                _write_all(self._file, column)
        except OSError as error:
            raise self._fault(error) from None
        del bucket.hashes[:], bucket.references[:]

    def _read(self, number: int) -> "tuple[array[int], array[int]]":
        """All hashes of a bucket, and their references."""
        bucket = self._buckets[number]
        if self._file is None or not bucket.pieces:
            return bucket.hashes, bucket.references
        hashes, references = array("q"), array("I")
        try:
            for start, number_of_hashes in bucket.pieces:
                self._file.seek(start)
                hashes.fromfile(self._file, number_of_hashes)
                references.fromfile(self._file, number_of_hashes)
        except (OSError, EOFError) as error:
            raise self._fault(error) from None
        return hashes + bucket.hashes, references + bucket.references

    def _fault(self, error: OSError | EOFError) -> LocalFault:
        reason = getattr(error, "strerror", None) or "a file in it has become shorter"
        return LocalFault(f"cannot keep the manifest's paths in {printable(str(self._directory))}: {reason}")


def _write_all(file: IO[bytes], column: "array[int]") -> None:
    data = memoryview(column).cast("B")
    while data:
        data = data[file.write(data) :]


def _sort(hashes: "array[int]", references: "array[int]") -> "tuple[array[int], array[int]]":
    """Sort by hash, then by reference; joined in one number, as pairs would take three times the memory."""
    joined = sorted(hashed << 32 | reference for hashed, reference in zip(hashes, references, strict=True))
    return (
        array("q", (number >> 32 for number in joined)),
        array("I", (number & 0xFFFFFFFF for number in joined)),
    )
