"""Finds entries that want the same path on disk, with twelve bytes a path instead of a set of all paths.

Ten million paths in a set would take gigabytes. So every path, and every directory above one, is kept as a
64-bit hash of its collision key, in one of 256 buckets, with a reference to its entry. A bucket that has
grown is moved to a temporary file. The hashes of a shorter list wait together, and need no buckets, which
take time, if all of them differ. Two equal hashes in a bucket may be two entries with one key, or a file
where another entry needs a directory. They are only candidates, since different keys may have equal hashes:
the caller reads those few entries again and ``compare_entries`` decides.
"""

import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import IO

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable
from cfetch.manifest.folding import KEEPS_NAMES, Folding, coarse_key

BUCKETS = 256  # to sort one bucket needs a 256th of the memory that all hashes would need
MAX_REMEMBERED = 4096  # directories; a forgotten directory costs twelve bytes when it comes again
MOST_WAITING = 1 << 18  # paths without buckets: 2 MiB of hashes, and a set of them at the end
MOST_IN_MEMORY = 2048  # hashes of a bucket: 6 MiB for all buckets, and 16 KiB a write


class DirectoriesAbove:
    """Lists the directories above paths or keys, each once as long as it is remembered."""

    def __init__(self) -> None:
        self._remembered: set[str] = set()

    def list_new(self, key: str) -> list[str]:
        """The directories above a key, the nearest first, up to one that is known already."""
        new: list[str] = []
        cut = key.rfind("/")
        while cut > 0 and (directory := key[:cut]) not in self._remembered:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered.add(directory)
            new.append(directory)
            cut = key.rfind("/", 0, cut)
        return new

    def list_unknown(self, directories: Iterable[str]) -> set[str]:
        """Those directories that are not remembered."""
        return set(directories) - self._remembered - {""}


class _Bucket:
    """Hashes and references in the order in which they came; ``pieces`` of the bucket are in the file."""

    __slots__ = ("hashes", "pieces", "references")

    def __init__(self) -> None:
        self.hashes = array("q")
        self.references = array("I")
        self.pieces: list[tuple[int, int]] = []  # where each begins, and its hashes


class PathIndex:
    """The paths of all entries by hash: ``add`` the paths, then ask for ``candidates``, or ``find`` one.

    A reference is twice the entry's index, plus one if the entry lies *beneath* that path. If a bucket has
    too many hashes for the memory, they go to a file without a name in ``directory``.

    Raises:
        LocalFault: that file cannot be written or read.
    """

    def __init__(self, directory: Path, folding: Folding = KEEPS_NAMES) -> None:
        self._directory = directory
        self._folding = folding
        self._file: IO[bytes] | None = None
        self._buckets = [_Bucket() for _ in range(BUCKETS)]
        self._columns = [(bucket.hashes.append, bucket.references.append) for bucket in self._buckets]
        self._waiting = array("q")  # of the entries from ``_first`` on
        self._first = 0
        self._has_buckets = False
        self._above = DirectoriesAbove()
        self._sorted: dict[int, tuple[array[int], array[int]]] = {}  # buckets that ``find`` has looked into

    def add(self, paths: Sequence[str], first: int) -> None:
        """Note that the entries from index ``first`` on, which follow those before, want these ``paths``."""
        is_plain = not (self._folding.ends or self._folding.ignores)
        joined = "\n".join(paths)  # no path holds a line break
        if is_plain and joined.isascii():
            lowered = joined.lower()
            keys: Sequence[str] = paths if lowered == joined else lowered.split("\n")
        else:
            keys = [path.lower() if is_plain and path.isascii() else self.make_key(path) for path in paths]
        if not self._waiting:
            self._first = first
        self._waiting.extend(array("q", list(map(hash, keys))))
        if "/" in joined:
            self._add_directories(paths, first)
        if len(self._waiting) >= MOST_WAITING:
            self._distribute()

    def _distribute(self) -> None:
        """Put the hashes that wait into their buckets."""
        self._has_buckets = True
        columns = self._columns
        for hashed, reference in zip(self._waiting, count(2 * self._first, 2), strict=False):
            add_hash, add_reference = columns[hashed % BUCKETS]
            add_hash(hashed)
            add_reference(reference)
        self._waiting = array("q")
        self._move_large()

    def _move_large(self) -> None:
        for bucket in self._buckets:
            if len(bucket.hashes) >= MOST_IN_MEMORY:
                self._move_to_file(bucket)

    def _add_directories(self, paths: Sequence[str], first: int) -> None:
        directories = [path.rpartition("/")[0] for path in paths]
        new = self._above.list_unknown(directories)
        if not new:  # nearly all entries follow others of their directory
            return
        for index, directory in enumerate(directories, first):
            if directory in new:
                new.discard(directory)
                for above in self._above.list_new(paths[index - first]):  # ``D`` and ``d`` may be two
                    hashed = hash(self.make_key(above))
                    add_hash, add_reference = self._columns[hashed % BUCKETS]
                    add_hash(hashed)
                    add_reference(2 * index + 1)
        self._move_large()

    def make_key(self, path: str) -> str:
        """The key by which paths are looked for."""
        return coarse_key(path, self._folding)

    def find(self, path: str) -> list[int]:
        """The indexes of the entries that may have ``path``, or lie beneath it."""
        self._distribute()
        wanted = hash(self.make_key(path))
        number = wanted % BUCKETS
        if number not in self._sorted:
            self._sorted[number] = _sort(*self._read(number))
        hashes, references = self._sorted[number]
        first, end = bisect_left(hashes, wanted), bisect_right(hashes, wanted)
        return [reference // 2 for reference in references[first:end]]

    def candidates(self) -> Iterator[tuple[list[int], list[int]]]:
        """Groups that may collide: indexes of entries with the same key, and of entries beneath that key."""
        if self._are_distinct():
            return
        self._distribute()
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

    def _are_distinct(self) -> bool:
        """Whether all entries wait, and their hashes differ, also from those of directories."""
        if self._has_buckets:
            return False
        hashes = set(self._waiting)
        return len(hashes) == len(self._waiting) and all(
            hashes.isdisjoint(self._read(number)[0]) for number in range(BUCKETS)
        )

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
