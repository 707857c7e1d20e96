"""Finds entries that want the same path on disk, with twelve bytes a path instead of a set of all paths.

Ten million paths in a set would take gigabytes. So every path, and every directory above one, is kept as a
64-bit hash of its collision key, in one of 256 buckets, with a reference to its entry. A bucket that has
grown is moved to a temporary file. The hashes of a shorter list wait together, and need no buckets, which
take time, if all of them differ. Two equal hashes in a bucket may be two entries with one key, or a file
where another entry needs a directory. They are only candidates, since different keys may have equal hashes:
the caller reads those few entries again and ``compare_entries`` decides.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.manifest.folding import KEEPS_NAMES, Folding, coarse_key

if TYPE_CHECKING:
    from cfetch.manifest.path_buckets import PathBuckets

MAX_REMEMBERED = 4096  # directories; a forgotten directory costs twelve bytes when it comes again
MOST_WAITING = 1 << 18  # paths without buckets: 2 MiB of hashes, and a set of them at the end


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
        self._buckets: PathBuckets | None = None
        self._waiting = array("q")  # of the entries from ``_first`` on
        self._first = 0
        self._beneath = array("q"), array("I")  # hashes of directories, and references
        self._above = DirectoriesAbove()

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
        if max(len(self._waiting), len(self._beneath[0])) >= MOST_WAITING:
            self._fill_buckets()

    def _fill_buckets(self) -> "PathBuckets":
        """Put what waits into the buckets."""
        if self._buckets is None:
            from cfetch.manifest.path_buckets import PathBuckets  # a short list without clashes needs none

            self._buckets = PathBuckets(self._directory)
        if self._waiting or self._beneath[0]:
            self._buckets.add(self._waiting, count(2 * self._first, 2))
            self._buckets.add(*self._beneath)
            self._waiting, self._beneath = array("q"), (array("q"), array("I"))
        return self._buckets

    def _add_directories(self, paths: Sequence[str], first: int) -> None:
        directories = [path.rpartition("/")[0] for path in paths]
        new = self._above.list_unknown(directories)
        if not new:  # nearly all entries follow others of their directory
            return
        for index, directory in enumerate(directories, first):
            if directory in new:
                new.discard(directory)
                for above in self._above.list_new(paths[index - first]):  # ``D`` and ``d`` may be two
                    self._beneath[0].append(hash(self.make_key(above)))
                    self._beneath[1].append(2 * index + 1)

    def make_key(self, path: str) -> str:
        """The key by which paths are looked for."""
        return coarse_key(path, self._folding)

    def find(self, path: str) -> list[int]:
        """The indexes of the entries that may have ``path``, or lie beneath it."""
        return self._fill_buckets().find(hash(self.make_key(path)))

    def candidates(self) -> Iterator[tuple[list[int], list[int]]]:
        """Groups that may collide: indexes of entries with the same key, and of entries beneath that key."""
        return iter(()) if self._are_distinct() else self._fill_buckets().candidates()

    def _are_distinct(self) -> bool:
        """Whether all entries wait, and their hashes differ, also from those of directories."""
        if self._buckets is not None:
            return False
        hashes = set(self._waiting)
        return len(hashes) == len(self._waiting) and hashes.isdisjoint(self._beneath[0])

    def close(self) -> None:
        """Close the file."""
        if self._buckets is not None:
            self._buckets.close()
