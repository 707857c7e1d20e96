"""Settles clashes: the later entry fails, or, as the user has chosen, gets another name or is left out.

A new name depends on the list alone, so that a second run with the same list finds each file in place: the
entry's own name with a number behind its stem, the first from 2 on that no entry of the list has.
"""

from array import array
from collections.abc import Iterator, Sequence

from cfetch.base.secret import printable
from cfetch.manifest.entry import Collision, SafePath, UnsafePathError, safe_path
from cfetch.manifest.names import find_ending
from cfetch.manifest.plan_file import PlanFile

_MOST_NAME_BYTES = 255
_HALF = 32  # bits of an index: an index of paths has no more entries


class Settled:
    """``renamed``: the new paths of entries, by index. ``left_out``: indexes of those that do not come."""

    def __init__(self, file: PlanFile, way: str) -> None:
        """``file`` is sealed. ``way`` is one of ``CLASH``."""
        self._file = file
        self._way = way
        self._group: Sequence[int] = ()
        self._given: set[str] = set()  # collision keys of new names
        self._numbers: dict[str, int] = {}  # by path, the last number that was tried
        self._same: set[tuple[object, ...]] = set()
        self._first = ""
        # Of each that fails its index, and that of the other: a list may have only one name for all entries.
        self._failing = array("q")
        self.renamed: dict[int, SafePath] = {}
        self.left_out: set[int] = set()

    def settle(self, collision: Collision, group: Sequence[int]) -> bool:
        """Settle a collision of entries with the indexes ``group``; False: the entry has to fail.

        A piece of a file has its place in that file, and no other name would do.
        """
        if collision.position is None or self._way == "fail":
            return False
        entry = collision.first if collision.is_beneath else collision.second
        index = group[collision.position]
        if self._way == "skip":
            self.left_out.add(index)
            self._first = self._first or printable(entry.path)
            return True
        if entry.piece is not None:
            return False
        if group is not self._group:
            self._group = group
            self._same.clear()
        same = (entry.path, entry.url.value, entry.digest, entry.size_bytes, entry.range_start)
        if same in self._same:  # it repeats one that has its new name already
            self.left_out.add(index)
            return True
        try:
            path = self._choose_name(entry.path)
        except UnsafePathError:  # it is too long with a number
            return False
        self._same.add(same)
        self.renamed[index] = path
        self._first = self._first or f"{printable(entry.path)!r} is {printable(path)!r}"
        return True

    def let_fail(self, collision: Collision, group: Sequence[int], beneath: Sequence[int]) -> None:
        """Note that the entry which gives way fails, and which other one has its name."""
        assert collision.position is not None
        others = beneath if collision.is_beneath else group
        self._failing.append(group[collision.position] << _HALF | others[collision.other])

    def list_failing(self) -> Iterator[tuple[int, int]]:
        """The index of each entry that fails, in their order, and that of the entry that has its name."""
        return ((both >> _HALF, both & ((1 << _HALF) - 1)) for both in sorted(self._failing))

    def notes(self) -> list[str]:
        """What the user should know."""
        notes = []
        if self.renamed:
            notes.append(
                f"files that clash with others and have other names: {len(self.renamed):,}; {self._first}"
            )
        elif self.left_out:
            notes.append(
                f"files that clash with others and are left out: {len(self.left_out):,}; {self._first}"
            )
        if self._failing:
            first = self._file.entry(min(self._failing) >> _HALF)
            notes.append(
                f"files that clash with others and fail: {len(self._failing):,}, as "
                f"{printable(first.path)!r}; --clash rename or --clash skip settles them"
            )
        return notes

    def _choose_name(self, path: SafePath) -> SafePath:
        """Raises UnsafePathError."""
        while True:
            number = self._numbers[path] = self._numbers.get(path, 1) + 1
            name = safe_path(number_name(path, number))
            key = self._file.paths.make_key(name)
            if key not in self._given and not self._file.paths.find(name):
                self._given.add(key)
                return name


def number_name(path: str, number: int) -> str:
    """The path with a number before the ending of its name, whose stem is cut if it would be too long."""
    directory, slash, name = path.rpartition("/")
    ending = find_ending(name)
    stem = name.removesuffix(ending)
    if not stem:
        stem, ending = name, ""
    mark = f"-{number}{ending}"
    cut = stem.encode()[: _MOST_NAME_BYTES - len(mark.encode())].decode(errors="ignore")
    return f"{directory}{slash}{cut}{mark}"
