"""Which names are one file on file systems that do not keep names as they are. Pure.

Besides case and Unicode form, vfat and SMB drop dots and blanks at the end of a name, and several file
systems ignore letters that nobody sees. A list may hold such names, and on other file systems they are
different files. So only the name of cfetch's own directory is always compared in this way; entries are
compared in the way of their destination, which ``storage/name_folding.py`` asks.
"""

import re
import unicodedata
from collections.abc import Sequence
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
    ``by_letter``: letter by letter, as vfat, NTFS and SMB do, for which a sharp s is not the same as ``SS``.
    """

    ends: str = ""
    ignores: bool = False
    case: bool = False
    forms: bool = False
    by_letter: bool = False


KEEPS_NAMES = Folding()
MAY_FOLD = Folding(case=True, forms=True)  # where the destination cannot be asked


def join_foldings(foldings: Sequence[Folding]) -> Folding:
    """What several file systems together do with names."""
    return Folding(
        "".join(each.ends for each in foldings),
        any(each.ignores for each in foldings),
        any(each.case for each in foldings),
        any(each.forms for each in foldings),
        by_letter=all(each.by_letter for each in foldings if each.case),
    )


def collision_key(path: str) -> str:
    """The key of a path; paths with equal keys are one file on case-folding or normalising file systems.

    This is the canonical caseless match of the Unicode Standard, section 3.13, D145.
    """
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


def fold_path(path: str, folding: Folding) -> str:
    """The key of a path; equal keys mean one file on a file system that folds names so."""
    if folding.ignores or folding.ends:
        path = _drop_letters(path, folding)
    if path.isascii():
        return path.lower() if folding.case else path
    if folding.case and folding.by_letter:
        path = "".join(key if len(key := letter.casefold()) == 1 else letter for letter in path)
        return unicodedata.normalize("NFD", path) if folding.forms else path
    if folding.case and folding.forms:
        return collision_key(path)
    if folding.case:
        return path.casefold()
    return unicodedata.normalize("NFD", path) if folding.forms else path


def coarse_key(path: str, folding: Folding) -> str:
    """A key for an index: paths that are one file there have equal ones, and a few others too."""
    if folding.ignores or folding.ends:
        path = _drop_letters(path, folding)
    return path.lower() if path.isascii() else collision_key(path)


def _drop_letters(path: str, folding: Folding) -> str:
    if folding.ignores:
        path = _IGNORABLE.sub("", path)
    if folding.ends:
        path = "/".join(part.rstrip(folding.ends) or part for part in path.split("/"))
    return path


def is_state_name(name: str) -> bool:
    """Whether any file system may take the name for that of cfetch's own directory."""
    key = _IGNORABLE.sub("", unicodedata.normalize("NFKC", name)).partition(":")[0]  # NTFS: a stream of it
    key = key.rstrip(_ENDS).casefold()
    return key == _STATE or _SHORT_STATE.fullmatch(key) is not None
