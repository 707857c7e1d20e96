"""Settles clashes as the user has chosen: the later entry gets another name, or is left out.

The name depends on the list alone, so that a second run with the same list finds each file in place: the
entry's own name with a number behind its stem, the first from 2 on that no entry of the list has.
"""

from collections.abc import Sequence

from cfetch.base.secret import printable
from cfetch.manifest.entry import Collision, SafePath, UnsafePathError, safe_path
from cfetch.manifest.names import find_ending
from cfetch.manifest.plan_file import PlanFile

_MOST_NAME_BYTES = 255


class Settled:
    """``renamed``: the new paths of entries, by index. ``left_out``: indexes of those that do not come."""

    def __init__(self, file: PlanFile, *, renames: bool) -> None:
        """``file`` is sealed. ``renames``: entries get other names; else they are left out."""
        self._file = file
        self._renames = renames
        self._group: Sequence[int] = ()
        self._indexes: dict[int, int] = {}  # of the group, by id
        self._given: set[str] = set()  # collision keys of new names
        self._numbers: dict[str, int] = {}  # by path, the last number that was tried
        self._same: set[tuple[object, ...]] = set()
        self._first = ""
        self.renamed: dict[int, SafePath] = {}
        self.left_out: set[int] = set()

    def settle(self, collision: Collision, group: Sequence[int]) -> bool:
        """Settle a collision of entries with the indexes ``group``; False: it stays a fault.

        A piece of a file has its place in that file, and no other name would do.
        """
        entry = collision.left_out
        if entry is None or entry.piece is not None:
            return False
        if group is not self._group:  # one look at each, as a list may have thousands with one name
            self._group = group
            self._indexes = {self._file.entry(index).id: index for index in group}
            self._same.clear()
        index = self._indexes[entry.id]
        if self._renames:
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
        else:
            self.left_out.add(index)
            self._first = self._first or printable(entry.path)
        return True

    def notes(self) -> list[str]:
        """What the user should know."""
        if self.renamed:
            return [
                f"files that clash with others and have other names: {len(self.renamed):,}; {self._first}"
            ]
        if self.left_out:
            return [f"files that clash with others and are left out: {len(self.left_out):,}; {self._first}"]
        return []

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
