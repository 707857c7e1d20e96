"""Decides what entries mean to each other that want one path: repeated, the same file, or a collision. Pure.

Only a list that has such entries needs this; ``collisions.py`` finds the few that may want one path.
"""

from collections.abc import Iterable, Iterator

from cfetch.base.secret import printable
from cfetch.manifest.digests import choose_stronger
from cfetch.manifest.entry import Collision, Entry
from cfetch.manifest.folding import MAY_FOLD, Folding, fold_path

_SAY = "or say --clash rename or --clash skip"
_RENAME = f"rename one, {_SAY}"
_NAME = f"give one of them another path, or name files by --name-by url-path, row or hash, {_SAY}"


def compare_entries(
    same_key: Iterable[Entry], inner: Iterable[Entry], folding: Folding = MAY_FOLD
) -> Iterator[int | Collision]:
    """Compare entries that may want the same path, in their order, and with entries beneath such paths.

    Pieces of one file do not collide with each other. ``folding``: what the destination does with names.

    Yields collisions, and the position of each entry that only repeats another one, or states a weaker hash
    of the same file: lists often have an MD5 and a SHA-256 of each file in two rows, or a file twice with
    links that are signed anew.
    """
    by_path: dict[str, tuple[int, Entry]] = {}
    owners_of: dict[str, list[tuple[int, Entry]]] = {}  # by key: the file there; if it has pieces, all
    for position, entry in enumerate(same_key):
        owners = owners_of.setdefault(fold_path(entry.path, folding), [])
        number, other = by_path.setdefault(entry.path, (position, entry))
        if other is not entry and (entry.piece is None or other.piece is None):
            if _is_repeated(entry, other):
                yield position
                continue
            if not _is_same_file(entry, other):
                yield collide(entry, other, folding, position, number)
                continue
            if entry.digest is None or choose_stronger(other.digest, entry.digest) is not entry.digest:
                yield position
                continue
            yield number
            by_path[entry.path] = position, entry
            owners[:] = [owner for owner in owners if owner[0] != number]
        if owners and owners[0][1].path != entry.path:
            yield collide(entry, owners[0][1], folding, position, owners[0][0])
        else:
            owners.append((position, entry))
    for number, each in enumerate(inner):
        key = fold_path(each.path, folding)
        for above in [above for above in owners_of if key.startswith(f"{above}/")]:
            for position, entry in owners_of.pop(above):  # not the other, which may share its directory
                yield collide(entry, each, folding, position, number)
        if not owners_of:
            return


def collide(
    entry: Entry, other: Entry, folding: Folding, position: int | None = None, number: int = -1
) -> Collision:
    """The collision of ``entry``, which gives way, with ``other``; at these places among those compared."""
    if entry.path == other.path:
        what = f"{printable(entry.path)!r} is stated twice with another url, size or hash"
        return Collision(other, entry, what, _NAME, position, number)
    if fold_path(other.path, folding).startswith(f"{fold_path(entry.path, folding)}/"):
        what = f"{printable(entry.path)!r} is a file, and a directory for {printable(other.path)!r}"
        return Collision(entry, other, what, _RENAME, position, number, is_beneath=True)
    what = f"{printable(other.path)!r} and {printable(entry.path)!r} {_describe_fold(other, entry)}"
    return Collision(other, entry, what, _RENAME, position, number)


def _describe_fold(first: Entry, second: Entry) -> str:
    if fold_path(first.path, MAY_FOLD) == fold_path(second.path, MAY_FOLD):
        return "differ only in case or Unicode form"
    return (
        "are one file at the destination, which drops dots and blanks at the end of a name, or letters that "
        "nobody sees"
    )


def _is_repeated(entry: Entry, other: Entry) -> bool:
    """Whether two entries are one file: of one source, or by an equal hash, wherever each comes from."""
    if entry.digest != other.digest:
        return False
    is_proved = entry.digest is not None and entry.piece is None and other.piece is None
    return _has_same_source(entry, other) or (is_proved and entry.size_bytes == other.size_bytes)


def _is_same_file(entry: Entry, other: Entry) -> bool:
    """Whether two entries state hashes of different sorts, which cannot contradict each other."""
    algorithms = {entry.digest and entry.digest.algorithm, other.digest and other.digest.algorithm}
    return len(algorithms) == 2 and None not in algorithms and _has_same_source(entry, other)


def _has_same_source(entry: Entry, other: Entry) -> bool:
    same_bytes = (entry.size_bytes, entry.range_start, entry.piece) == (
        other.size_bytes,
        other.range_start,
        other.piece,
    )
    return same_bytes and entry.url == other.url
