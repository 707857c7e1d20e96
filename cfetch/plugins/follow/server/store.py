"""The store of the reference feed server, in one SQLite file: ranges, changes, and files as they were seen.

A range that has split or merged keeps its entries, and they are read through its live descendants only; so
every leaf has the archive of all its ancestors, and each entry is stored once.

A call that makes a change is one transaction, flushed before it returns: an LSN that was in an answer is
never given to another change, not even after a power cut. Any thread may call.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Range, Span, key_of
from cfetch.plugins.follow.server.database import Database
from cfetch.plugins.follow.server.range_table import TABLES, RangeTable, decode_key, encode_key, number_of

VERSION = 3
SCAN_LSNS = 100_000  # one page may look through so many for the requested keys: some 50 ms
PAGE_BYTES = 4 << 20  # of rows, roughly, in the server's memory for each request
MAX_HOLES = 1000  # parameters of one query; SQLite allows 32,766
MARK_BYTES = 8  # of the random mark of a change; a restored server gives its LSN again, with another mark
DROP_LSNS = 10_000  # in one transaction: some 100 ms, in which no range can split
_TABLES = f"""
CREATE TABLE marks(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
{TABLES}
CREATE TABLE changes(range INTEGER NOT NULL, lsn INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL,
    path TEXT NOT NULL, size INTEGER, sha256 BLOB, more TEXT, mark TEXT, PRIMARY KEY(range, lsn)
) WITHOUT ROWID;
CREATE TABLE files(path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL, sha256 BLOB NOT NULL, ctime_ns INTEGER NOT NULL) WITHOUT ROWID;
"""
_FILE_COLUMNS = "path, size, mtime_ns, inode, ctime_ns, sha256"  # as in File
_OF_FILES = "files ON files.path=changes.path AND files.sha256=changes.sha256 WHERE range=? AND lsn<?"
_COUNTS = f"SELECT count(*), count(files.path) FROM changes LEFT JOIN {_OF_FILES}"  # noqa: S608 - no input
_UPGRADES = {  # by version; a ctime of 0 has every file hashed once more
    1: "ALTER TABLE changes ADD COLUMN mark TEXT",
    2: "ALTER TABLE files ADD COLUMN ctime_ns INTEGER NOT NULL DEFAULT 0",
}
_CURRENT = (  # of a range, before an LSN: the changes that state a file as it is now
    f"SELECT changes.path, changes.size, changes.sha256 FROM changes JOIN {_OF_FILES} ORDER BY lsn"  # noqa: S608
)


class File(NamedTuple):
    """A file of the tree as it was when it was hashed."""

    path: str
    size_bytes: int
    mtime_ns: int
    inode: int
    ctime_ns: int
    sha256: bytes


class NewChange(NamedTuple):
    """A change to publish: a file of the tree, or a row of a manifest (``more``: JSON), or else a delete."""

    path: str
    size_bytes: int | None = None
    sha256: bytes | None = None
    more: str | None = None
    key: int | None = None


class StoredChange(NamedTuple):
    """A published change with its LSN."""

    lsn: int
    key: int
    path: str
    size_bytes: int | None
    sha256: bytes | None
    more: str | None


class Window(NamedTuple):
    """The contents of a page.

    ``expired``: entries are kept from this LSN on, but earlier ones were requested. ``ahead``: a live range
    has not given any LSN from this one on, but later ones were requested. ``other``: the change before the
    requested ones has this mark, and not the one that the reader stated. ``mark``: the mark of the change
    before ``next_lsn``, if that change is kept.
    """

    rows: tuple[StoredChange, ...] = ()
    next_lsn: int = 0
    mark: str | None = None
    expired: int | None = None
    ahead: int | None = None
    other: str | None = None


class FeedStore:
    """One feed in ``directory``, made there if there is none. Close it."""

    def __init__(self, directory: Path) -> None:
        """Raises LocalFault: it cannot be kept there. Held: another server publishes from there."""
        self.directory = directory
        self._database = Database(directory)
        self._ranges = RangeTable()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with self._database.snapshot() as cursor:
            (version,) = cursor.execute("PRAGMA user_version").fetchone()
        if version in _UPGRADES:
            with self._transaction() as cursor:
                for older in range(version, VERSION):
                    cursor.execute(_UPGRADES[older])
                cursor.execute(f"PRAGMA user_version={VERSION}")
        elif version not in (0, VERSION):
            raise UsageError(f"{printable(str(self._database.path))} is of another version of cfetch")
        if version == 0:
            with self._transaction() as cursor:
                for statement in filter(str.strip, _TABLES.split(";")):
                    cursor.execute(statement)
                cursor.execute(f"PRAGMA user_version={VERSION}")
                _set_marks(cursor, {"feed": secrets.token_hex(16), "generation": "0"})
                self._ranges.add(cursor, ALL_KEYS, first=0, parents=())
        self.feed = self.read_mark("feed") or ""
        with self._database.snapshot() as cursor:
            self._ranges.load(cursor)

    # --- reading

    def list_ranges(self) -> tuple[int, tuple[Range, ...]]:
        """The generation, which increases with every split and merge, and the live ranges."""
        with self._database.snapshot() as cursor:
            (generation,) = cursor.execute("SELECT value FROM marks WHERE name='generation'").fetchone()
            return int(generation), self._ranges.list_live(cursor)

    def find_span(self, of: str, via: str) -> Span | None:
        """The LSNs of a range; None: ``via`` is not live. Raises UsageError: it does not archive ``of``."""
        with self._database.snapshot() as cursor:
            extent = self._ranges.find_extent(cursor, of, via)
        return extent and Span(extent.first, None if extent.live else extent.next - 1)

    def read_window(
        self, of: str, via: str, next_lsn: int, keys: KeyRange, limit: int, mark: str = ""
    ) -> Window | None:
        """Read at most ``limit`` changes of a range from ``next_lsn`` on.

        ``mark``: of the change before, as the reader knows it. None and errors: as ``find_span``.
        """
        with self._database.snapshot() as cursor:
            extent = self._ranges.find_extent(cursor, of, via)
            if extent is None:
                return None
            if extent.live and next_lsn > extent.next:
                return Window(ahead=extent.next)
            if 0 < next_lsn < extent.kept_from:
                return Window(expired=extent.kept_from)
            known = _read_change_mark(cursor, of, next_lsn - 1) if mark else None
            if known is not None and known != mark:
                return Window(other=known)
            next_lsn = max(next_lsn, extent.kept_from)  # 0 means the oldest kept entry
            end = min(extent.next, next_lsn + SCAN_LSNS)
            matches = cursor.execute(
                "SELECT lsn, key, path, size, sha256, more FROM changes WHERE range=? AND lsn>=? AND lsn<?"
                " AND key>=? AND (? OR key<?) ORDER BY lsn LIMIT ?",
                (number_of(of), next_lsn, end, encode_key(keys.low), *_upper_bound(keys), limit),
            )
            rows, size_bytes = [], 0
            for lsn, key, path, *rest in matches:
                rows.append(StoredChange(lsn, decode_key(key), path, *rest))
                size_bytes += 200 + 4 * len(path.encode()) + len(rest[2] or "")
                if size_bytes > PAGE_BYTES:
                    break
            if len(rows) == limit or size_bytes > PAGE_BYTES:
                end = rows[-1].lsn + 1
            next_lsn = max(end, next_lsn)
            return Window(tuple(rows), next_lsn, _read_change_mark(cursor, of, next_lsn - 1))

    def read_mark(self, name: str) -> str | None:
        """Read the text that was noted under a name."""
        with self._database.snapshot() as cursor:
            row = cursor.execute("SELECT value FROM marks WHERE name=?", (name,)).fetchone()
        return row[0] if row else None

    def find_files(self, paths: Sequence[str]) -> dict[str, File]:
        """Find the published files among these paths, as they were seen."""
        files: dict[str, File] = {}
        with self._database.snapshot() as cursor:
            for begin in range(0, len(paths), MAX_HOLES):
                some = paths[begin : begin + MAX_HOLES]
                holes = ",".join("?" * len(some))
                query = f"SELECT {_FILE_COLUMNS} FROM files WHERE path IN ({holes})"  # noqa: S608 - holes only
                rows = cursor.execute(query, some)
                files |= {row[0]: File(*row) for row in rows}
        return files

    def list_files_after(self, path: str, limit: int) -> list[str]:
        """The next paths of published files, in order; "" is before all."""
        with self._database.snapshot() as cursor:
            rows = cursor.execute("SELECT path FROM files WHERE path>? ORDER BY path LIMIT ?", (path, limit))
            return [path for (path,) in rows]

    def find_obstacles(self, paths: Sequence[str]) -> list[str]:
        """Published files in the way of ``paths``: a file above or below one of them has to go first."""
        above = {path[:cut] for path in paths for cut in _cuts(path)}
        obstacles = set(self.find_files(sorted(above)))
        with self._database.snapshot() as cursor:
            for path in paths:
                query = "SELECT path FROM files WHERE path>? AND path<?"  # "0" comes after "/"
                obstacles |= {below for (below,) in cursor.execute(query, (f"{path}/", f"{path}0"))}
        return sorted(obstacles)

    def count_files(self) -> int:
        """How many files are published."""
        with self._database.snapshot() as cursor:
            count: int = cursor.execute("SELECT count(*) FROM files").fetchone()[0]
        return count

    # --- changing

    def publish(
        self,
        changes: Sequence[NewChange],
        *,
        at_s: float,
        files: Iterable[File] = (),
        removed: Iterable[str] = (),
        marks: Mapping[str, str] | None = None,
        split_entries: int | None = None,
    ) -> None:
        """Give the changes their LSNs, and note ``files``, ``removed`` ones and ``marks``: all or nothing.

        A range that then has more than ``split_entries`` entries is split.
        """
        with self._transaction() as cursor:
            insert = f"INSERT OR REPLACE INTO files({_FILE_COLUMNS}) VALUES(?,?,?,?,?,?)"
            cursor.executemany(insert, files)
            cursor.executemany("DELETE FROM files WHERE path=?", ((path,) for path in removed))
            _set_marks(cursor, marks or {})
            grown = self._insert(cursor, changes, int(at_s))
            for number, (first, next_lsn) in grown.items():
                if split_entries is not None and next_lsn - first > split_entries:
                    self._ranges.split_if_possible(cursor, number)

    def _insert(
        self, cursor: sqlite3.Cursor, changes: Sequence[NewChange], at_s: int
    ) -> dict[int, tuple[int, int]]:
        """Insert changes. Returns the first and next LSN of each range that has grown."""
        keys = [key_of(change.path) if change.key is None else change.key for change in changes]
        grown: dict[int, tuple[int, int]] = {}
        mark = secrets.token_hex(MARK_BYTES)  # all of one transaction stay or go together
        rows = []
        for change, key, number in zip(changes, keys, self._ranges.owners_of(keys), strict=True):
            if number not in grown:
                query = "SELECT first, next FROM ranges WHERE number=?"
                grown[number] = cursor.execute(query, (number,)).fetchone()
            first, lsn = grown[number]
            grown[number] = (first, lsn + 1)
            path, size_bytes, sha256, more, _ = change
            rows.append((number, lsn, encode_key(key), at_s, path, size_bytes, sha256, more, mark))
        cursor.executemany("INSERT INTO changes VALUES(?,?,?,?,?,?,?,?,?)", rows)
        heads = ((next_lsn, number) for number, (_, next_lsn) in grown.items())
        cursor.executemany("UPDATE ranges SET next=? WHERE number=?", heads)
        return grown

    def set_marks(self, marks: Mapping[str, str]) -> None:
        """Note texts under names, for ``read_mark``."""
        with self._transaction() as cursor:
            _set_marks(cursor, marks)

    def split(self, of: str | None = None) -> tuple[str, tuple[str, ...]]:
        """Call ``RangeTable.split``."""
        with self._transaction() as cursor:
            return self._ranges.split(cursor, of)

    def merge(self, name: str, other: str) -> str:
        """Call ``RangeTable.merge``."""
        with self._transaction() as cursor:
            return self._ranges.merge(cursor, (name, other))

    def forget(self, before_s: float, *, now_s: float) -> None:
        """Drop the changes that were published before a time, as ``_find_old_changes`` says.

        Changes that state a file as it is now are published again, under new LSNs: a reader that begins with
        the oldest kept change gets every file.
        """
        with self._database.snapshot() as cursor:
            old = _find_old_changes(cursor, before_s, self._ranges.ancestors)
        for number, begin, end in old:
            for upto in (*range(begin + DROP_LSNS, end, DROP_LSNS), end):
                self._drop(number, upto, now_s)

    def _drop(self, number: int, end: int, now_s: float) -> None:
        with self._transaction() as cursor:
            rows = cursor.execute(_CURRENT, (number, end)).fetchall()
            cursor.execute("DELETE FROM changes WHERE range=? AND lsn<?", (number, end))
            cursor.execute("UPDATE ranges SET kept_from=? WHERE number=?", (end, number))
            again = {path: NewChange(path, size_bytes, sha256) for path, size_bytes, sha256 in rows}
            self._insert(cursor, list(again.values()), int(now_s))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        with self._database.transaction(on_rollback=self._ranges.load) as cursor:
            yield cursor

    def close(self) -> None:
        """Close the files."""
        self._database.close()


def _read_change_mark(cursor: sqlite3.Cursor, of: str, lsn: int) -> str | None:
    """The mark of a change; None if it has none, or is not kept."""
    query = "SELECT mark FROM changes WHERE range=? AND lsn=?"
    row = cursor.execute(query, (number_of(of), lsn)).fetchone()
    return row[0] if row else None


def _set_marks(cursor: sqlite3.Cursor, marks: Mapping[str, str]) -> None:
    cursor.executemany("INSERT OR REPLACE INTO marks VALUES(?,?)", marks.items())


def _cuts(path: str) -> Iterator[int]:
    """The positions of all slashes."""
    cut = path.find("/")
    while cut >= 0:
        yield cut
        cut = path.find("/", cut + 1)


def _upper_bound(keys: KeyRange) -> tuple[bool, bytes]:
    """Parameters for ``(? OR key < ?)``: the end of all keys would need one byte more than a key has."""
    return (True, b"") if keys.high == ALL_KEYS.high else (False, encode_key(keys.high))


def _find_old_changes(
    cursor: sqlite3.Cursor, before_s: float, above: Callable[[int], frozenset[int]]
) -> list[tuple[int, int, int]]:
    """Ranges with changes to drop: number, the first LSN that is kept now, and the first that will stay.

    A drop moves the changes of files that still exist to the end, and every follower gets them again. To
    bound that cost at one such change for each change really dropped, nothing is dropped before the latter
    are half of all kept changes, and half of the old ones. A stream has no files, so all old changes go.
    ``above``: a range's ancestors.
    """
    (held,) = cursor.execute("SELECT sum(next - kept_from) FROM ranges").fetchone()
    (files,) = cursor.execute("SELECT count(*) FROM files").fetchone()
    if held < 2 * files:
        return []
    old = _find_old(cursor, before_s, above)
    counts = [cursor.execute(_COUNTS, (number, end)).fetchone() for number, _, end in old]
    changes, current = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return old if changes >= 2 * current else []


def _find_old(
    cursor: sqlite3.Cursor, before_s: float, above: Callable[[int], frozenset[int]]
) -> list[tuple[int, int, int]]:
    """Find each range's changes to drop: those before its first change that is not old.

    A range, which comes after its ancestors, waits for all of them: a reader of an ancestor continues with
    the range's very first LSN.
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
