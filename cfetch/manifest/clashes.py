"""Decides what entries mean to each other that want one path: repeated, the same file, or a collision. Pure.

Only a list that has such entries needs this; ``collisions.py`` finds the few that may want one path.
"""

from collections.abc import Iterable, Iterator

from cfetch.base.secret import printable
from cfetch.manifest.digests import choose_stronger
from cfetch.manifest.entry import Collision, Entry
from cfetch.manifest.folding import MAY_FOLD, Folding, fold_path

_RENAME = "rename one, or leave it out by --bad-rows skip, or say --clash rename"


def compare_entries(
    same_key: Iterable[Entry], inner: Iterable[Entry], folding: Folding = MAY_FOLD
) -> Iterator[int | Collision]:
    """Compare entries that may want the same path, in their order, and with entries beneath such paths.

    Pieces of one file do not collide with each other. ``folding``: what the destination does with names.

    Yields collisions, and the position of each entry that only repeats another one, or states a weaker hash
    of the same file: lists often have an MD5 and a SHA-256 of each file in two rows.
    """
    by_path: dict[str, Entry] = {}
    by_key: dict[str, Entry] = {}
    positions: dict[str, int] = {}
    for position, entry in enumerate(same_key):
        outer = by_key.setdefault(fold_path(entry.path, folding), entry)
        other = by_path.setdefault(entry.path, entry)
        if other is entry:
            positions[entry.path] = position
        if other is not entry:
            if entry.piece is not None and other.piece is not None:
                continue
            if _is_repeated(entry, other):
                yield position
            elif _is_same_file(entry, other):
                is_stronger = (
                    entry.digest is not None and choose_stronger(other.digest, entry.digest) is entry.digest
                )
                yield positions[entry.path] if is_stronger else position
                if is_stronger:
                    by_path[entry.path], positions[entry.path] = entry, position
            else:
                shown = f"{printable(entry.path)!r} is stated twice with another url, size or hash"
                yield Collision(
                    other,
                    entry,
                    shown,
                    "give one of them another path, or name files by --name-by url-path, row or hash, or say "
                    "--clash rename",
                    left_out=entry,
                )
        elif outer is not entry:
            shown = f"{printable(outer.path)!r} and {printable(entry.path)!r}"
            yield Collision(outer, entry, f"{shown} {_describe_fold(outer, entry)}", _RENAME, left_out=entry)
    for each in inner:
        key = fold_path(each.path, folding)
        for above in [above for above in by_key if key.startswith(f"{above}/")]:
            outer = by_key.pop(above)
            shown = f"{printable(outer.path)!r} is a file, and a directory for {printable(each.path)!r}"
            yield Collision(outer, each, shown, _RENAME, left_out=outer)  # others may be in that directory
        if not by_key:
            return


def _describe_fold(first: Entry, second: Entry) -> str:
    if fold_path(first.path, MAY_FOLD) == fold_path(second.path, MAY_FOLD):
        return "differ only in case or Unicode form"
    return (
        "are one file at the destination, which drops dots and blanks at the end of a name, or letters that "
        "nobody sees"
    )


def _is_repeated(entry: Entry, other: Entry) -> bool:
    return entry.digest == other.digest and _has_same_source(entry, other)


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
