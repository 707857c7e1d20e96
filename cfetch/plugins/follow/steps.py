"""Divides the changes of one step of a follower into rounds, each of which is one plan. Pure.

A plan has each path once, and no file where another needs a directory. So versions of one path, and changes
of paths that block each other, go to different rounds, in the feed's order; all others share one.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cfetch.manifest.folding import collision_key
from cfetch.plugins.follow.source import Change


class Round(NamedTuple):
    """Deletes come first, as an upsert may need a directory where a file was."""

    deletes: tuple[Change, ...]
    upserts: tuple[Change, ...]


def keep_latest(changes: Iterable[Change]) -> list[Change]:
    """The last change of each path, in the order of these last changes; those that wait come last.

    A change that waits may need one that is left out, so it is right only when all that are left are applied.
    """
    last: dict[str, Change] = {}
    for change in changes:
        last.pop(change.path, None)
        last[change.path] = change
    return sorted(last.values(), key=lambda change: (change.waits, change.waits and change.entry is None))


def plan_rounds(changes: Iterable[Change]) -> list[Round]:
    """Changes of one path, or of a path and one below it, keep their order: each is in a later round.

    The same holds for paths that would be one file on a system that folds case or Unicode forms. A change
    that waits is in a later round than all changes before it, and none behind it is in an earlier one; but
    deletes that wait, one after the other, share a round.
    """
    number_of: dict[str, int] = {}  # of the last change of a path
    beneath: dict[str, int] = {}  # of the last change of anything below a path
    rounds_found: list[tuple[list[Change], list[Change]]] = []
    earliest = 0  # round for a change behind one that waits
    is_deleting = False  # whether the change before was a delete that waits
    for change in changes:
        key = collision_key(change.path)
        above = list(_walk_up(key))
        before = [
            number_of.get(key, -1),
            beneath.get(key, -1),
            *(number_of.get(directory, -1) for directory in above),
        ]
        number = max(earliest, 1 + max(before))
        if change.waits:
            shares = is_deleting and change.entry is None
            number = earliest = number if shares else len(rounds_found)
        is_deleting = change.waits and change.entry is None
        number_of[key] = number
        for directory in above:
            beneath[directory] = max(beneath.get(directory, -1), number)
        if number == len(rounds_found):
            rounds_found.append(([], []))
        rounds_found[number][change.entry is not None].append(change)
    return [Round(tuple(deletes), tuple(upserts)) for deletes, upserts in rounds_found]


def _walk_up(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path
