"""Which entries want one and the same place on disk, found with twelve bytes a path instead of a set of them.

Ten million paths in a set would take gigabytes. So every path, and every directory above one, is kept as a
64-bit hash of its collision key, in one of 256 buckets, with a reference to its entry. Sorting a bucket
brings equal hashes together: two entries with one key, or a file where another entry needs a directory. Equal
hashes are only candidates, since hashes may be equal by accident: the caller reads those few entries again
and ``compare_entries`` decides.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from cfetch.manifest.entry import Entry, collision_key
from cfetch.secret import printable

BUCKETS = 256  # sorting one of them needs a 256th of the memory that sorting all would
MAX_REMEMBERED = 4096  # directories; forgetting one costs twelve bytes when it comes again


class PathIndex:
    """The paths of all entries by hash: ``add`` each, then ask for ``candidates``, or ``find`` one.

    A reference is twice the entry's index, plus one where the entry lies *beneath* that path.
    """

    def __init__(self) -> None:
        self._hashes = [array("q") for _ in range(BUCKETS)]
        self._references = [array("I") for _ in range(BUCKETS)]
        self._remembered: set[str] = set()
        self._sorted = False

    def add(self, path: str, index: int) -> None:
        """Note that entry ``index`` wants ``path``."""
        key = collision_key(path)
        self._add_reference(key, 2 * index)
        cut = key.rfind("/")
        while cut > 0 and (directory := key[:cut]) not in self._remembered:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered.add(directory)
            self._add_reference(directory, 2 * index + 1)
            cut = key.rfind("/", 0, cut)

    def find(self, path: str) -> list[int]:
        """The indexes of the entries that may have ``path``, or lie beneath it."""
        self._sort()
        wanted = hash(collision_key(path))
        hashes, references = self._hashes[wanted % BUCKETS], self._references[wanted % BUCKETS]
        first, end = bisect_left(hashes, wanted), bisect_right(hashes, wanted)
        return [reference // 2 for reference in references[first:end]]

    def candidates(self) -> Iterator[tuple[list[int], list[int]]]:
        """Groups that may collide: indexes of entries with one key, and of entries beneath that key."""
        self._sort()
        for hashes, references in zip(self._hashes, self._references, strict=True):
            for _, group in groupby(zip(hashes, references, strict=True), lambda pair: pair[0]):
                files: list[int] = []
                beneath: list[int] = []
                for _, reference in group:
                    (beneath if reference % 2 else files).append(reference // 2)
                if len(files) > 1 or (files and beneath):
                    yield files, beneath

    def _add_reference(self, key: str, reference: int) -> None:
        hashed = hash(key)
        self._hashes[hashed % BUCKETS].append(hashed)
        self._references[hashed % BUCKETS].append(reference)

    def _sort(self) -> None:
        if self._sorted:
            return
        for bucket in range(BUCKETS):
            pairs = zip(self._hashes[bucket], self._references[bucket], strict=True)
            joined = sorted(
                hashed << 32 | reference for hashed, reference in pairs
            )  # a third of tuples' memory
            self._hashes[bucket] = array("q", (number >> 32 for number in joined))
            self._references[bucket] = array("I", (number & 0xFFFFFFFF for number in joined))
        self._sorted = True


class Collision(NamedTuple):
    """Two entries that cannot both be had. ``second`` is the later one, but for a file and a directory."""

    first: Entry
    second: Entry
    what: str
    remedy: str

    def message(self, places: str) -> str:
        """What is wrong, with where the two stand."""
        return f"{self.what}: {places}; {self.remedy}"


def compare_entries(same_key: Iterable[Entry], inner: Entry | None) -> Iterator[int | Collision]:
    """Entries that may want one place, in their order, and the first one that lies beneath it.

    Yields the position of each that only repeats an earlier one, and the collisions.
    """
    by_path: dict[str, Entry] = {}
    for position, entry in enumerate(same_key):
        outer = next(iter(by_path.values()), entry)
        other = by_path.setdefault(entry.path, entry)
        if other is not entry:
            if _is_repeated(entry, other):
                yield position
            else:
                shown = f"{printable(entry.path)!r} is stated twice with another url, size or hash"
                yield Collision(other, entry, shown, "give one of them another path")
        elif outer is not entry and collision_key(outer.path) == collision_key(entry.path):
            shown = f"{printable(outer.path)!r} and {printable(entry.path)!r}"
            yield Collision(outer, entry, f"{shown} differ only in case or Unicode form", "rename one")
    for outer in list(by_path.values())[:1]:
        if inner is not None and collision_key(inner.path).startswith(collision_key(outer.path) + "/"):
            shown = f"{printable(outer.path)!r} is a file, and a directory for {printable(inner.path)!r}"
            yield Collision(outer, inner, shown, "rename one")


def _is_repeated(entry: Entry, other: Entry) -> bool:
    return (entry.url, entry.size_bytes, entry.digest) == (other.url, other.size_bytes, other.digest)
