"""Which names are one file on file systems that do not keep names as they are. Pure.

Besides case and Unicode form, vfat and SMB drop dots and blanks at the end of a name, and several file
systems ignore letters that nobody sees. A list may hold such names, and on other file systems they are
different files. So only the name of cfetch's own directory is always compared in this way; entries are
compared in the way of their destination, which ``storage/name_folding.py`` asks.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

# Letters that Unicode calls ignorable by default, but for those that no path may hold anyway.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ENDS = ". "
_STATE = ".cfetch"
_SHORT_STATE = re.compile(r"cfetch~[0-9]")  # the short name of the state directory on vfat


class Folding(NamedTuple):
    """What a file system does with names.

    ``ends``: the letters that it drops at the end of a name; ``ignores``: others that it passes over;
    ``case``, ``forms``: it takes names that differ only in case, or only in their Unicode form, for one.
    """

    ends: str = ""
    ignores: bool = False
    case: bool = False
    forms: bool = False


KEEPS_NAMES = Folding()
MAY_FOLD = Folding(case=True, forms=True)  # where the destination cannot be asked


def collision_key(path: str) -> str:
    """The key of a path; paths with equal keys are one file on case-folding or normalising file systems.

    This is the canonical caseless match of the Unicode Standard, section 3.13, D145.
    """
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


def fold_letters(path: str, folding: Folding) -> str:
    """The key of a path by case and form alone; equal keys mean one file on such a file system."""
    if path.isascii():
        return path.lower() if folding.case else path
    if folding.case and folding.forms:
        return collision_key(path)
    if folding.case:
        return path.casefold()
    return unicodedata.normalize("NFD", path) if folding.forms else path


def _fold_path(path: str, folding: Folding) -> str:
    """The key of a path: paths with equal keys are one file on a file system that folds names so."""
    if folding.ignores:
        path = _IGNORABLE.sub("", path)
    if folding.ends:
        path = "/".join(part.rstrip(folding.ends) or part for part in path.split("/"))
    return collision_key(path)


def is_state_name(name: str) -> bool:
    """Whether any file system may take the name for that of cfetch's own directory."""
    key = _IGNORABLE.sub("", unicodedata.normalize("NFKC", name)).partition(":")[0]  # NTFS: a stream of it
    key = key.rstrip(_ENDS).casefold()
    return key == _STATE or _SHORT_STATE.fullmatch(key) is not None


def find_one_file(list_paths: Callable[[], Iterable[str]], folding: Folding) -> tuple[str, str] | None:
    """Find two paths for which such a file system has one place, though they differ in more than case.

    The paths are listed twice; only those that the file system changes are remembered, and they are few.
    """
    files: set[str] = set()
    directories: set[str] = set()
    for path in list_paths():
        key = _fold_path(path, folding)
        if key != collision_key(path):
            files.add(key)
            directories.update(_list_above(key))
    if not files:
        return None
    first: dict[str, str] = {}  # a path by its key, as a file
    beneath: dict[str, str] = {}  # a path by the key of a directory above it
    for path in list_paths():
        key = _fold_path(path, folding)
        if key in files or key in directories:
            if first.setdefault(key, path) != path:
                return first[key], path
            if key in beneath:
                return beneath[key], path
        for above in _list_above(key):
            if above in first:
                return first[above], path
            if above in files or above in directories:
                beneath.setdefault(above, path)
    return None


def _list_above(key: str) -> Iterable[str]:
    """The directories above a key."""
    parts = key.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
