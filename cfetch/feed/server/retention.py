"""Which changes the reference server drops, and which of them it has to tell again."""

import sqlite3
from collections.abc import Callable

__all__ = ["CURRENT", "old_changes"]

_OF_FILES = "files ON files.path=changes.path AND files.sha256=changes.sha256 WHERE range=? AND lsn<?"
_COUNTS = f"SELECT count(*), count(files.path) FROM changes LEFT JOIN {_OF_FILES}"  # noqa: S608 - no input
CURRENT = (  # of a range, before an LSN: the changes that state a file as it is now
    f"SELECT changes.path, changes.size, changes.sha256 FROM changes JOIN {_OF_FILES} ORDER BY lsn"  # noqa: S608
)


def old_changes(
    cursor: sqlite3.Cursor, before_s: float, above: Callable[[int], frozenset[int]]
) -> list[tuple[int, int, int]]:
    """Ranges to drop changes of: number, the first LSN that is kept now, and the first that is to stay.

    Dropping moves the changes of files that are still there to the end, and every follower is told of them
    again. So it costs no more than one change for each that goes for good: nothing is dropped until these are
    half of all that are kept, and half of the old ones. Of a stream no files are known; all that is old goes.
    ``above``: a range's ancestors.
    """
    (held,) = cursor.execute("SELECT sum(next - kept_from) FROM ranges").fetchone()
    (files,) = cursor.execute("SELECT count(*) FROM files").fetchone()
    if held < 2 * files:
        return []
    old = _old(cursor, before_s, above)
    counts = [cursor.execute(_COUNTS, (number, end)).fetchone() for number, _, end in old]
    changes, current = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return old if changes >= 2 * current else []


def _old(
    cursor: sqlite3.Cursor, before_s: float, above: Callable[[int], frozenset[int]]
) -> list[tuple[int, int, int]]:
    """Up to the first change that is not old.

    A range, which comes after its ancestors, waits for all of them: who has read something of an ancestor
    goes on with the range's very first LSN.
    """
    old: list[tuple[int, int, int]] = []
    kept: set[int] = set()
    ranges = "SELECT number, kept_from, next FROM ranges WHERE kept_from < next ORDER BY number"
    first_kept = "SELECT lsn FROM changes WHERE range=? AND at>=? ORDER BY lsn LIMIT 1"
    for number, begin, next_lsn in cursor.execute(ranges).fetchall():
        first = cursor.execute(first_kept, (number, before_s)).fetchone()
        end = first[0] if first else next_lsn
        if end > begin and not kept & above(number):
            old.append((number, begin, end))
        if end < next_lsn:
            kept.add(number)
    return old
