"""What the reference feed server keeps, in one SQLite file: ranges, changes, and the files as they were seen.

A range that has split or merged keeps its entries where they are, and they are told by way of its live
descendants only; so every leaf has the archive of all its ancestors, and each entry is stored once.

A call that changes something is one transaction, flushed before it returns (WAL, ``synchronous=FULL``): an
LSN that was told is never given to another change, not even after a power cut. Any thread may call.
"""

import fcntl
import os
import secrets
import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from cfetch.errors import Held, LocalFault, UsageError
from cfetch.feed.ranges import ALL_KEYS, KeyRange, Range, Span, key_of
from cfetch.feed.server.retention import CURRENT, old_changes
from cfetch.secret import printable
from cfetch.storage.files import local_fault

__all__ = ["FeedStore", "File", "Published", "Stored", "Window"]

VERSION = 1
MAX_LIVE = 4096  # ranges: a list of them has to be fetched as a whole
SCAN_LSNS = 100_000  # that one page may look through for keys that are asked for: some 50 ms
PAGE_BYTES = 4 << 20  # of rows, roughly: what a server holds for each request
MAX_HOLES = 1000  # of one query; SQLite takes 32,766
BUSY_MS = 10_000  # a writer holds the file for one transaction
DROP_LSNS = 10_000  # of one transaction: some 100 ms, in which no range can split
_KEY_BYTES = 16
_TABLES = """
CREATE TABLE marks(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ranges(number INTEGER PRIMARY KEY, low BLOB NOT NULL, high BLOB, live INTEGER NOT NULL,
    first INTEGER NOT NULL, next INTEGER NOT NULL, kept_from INTEGER NOT NULL);
CREATE TABLE parents(child INTEGER NOT NULL, parent INTEGER NOT NULL,
    PRIMARY KEY(child, parent)) WITHOUT ROWID;
CREATE TABLE changes(range INTEGER NOT NULL, lsn INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL,
    path TEXT NOT NULL, size INTEGER, sha256 BLOB, more TEXT, PRIMARY KEY(range, lsn)) WITHOUT ROWID;
CREATE TABLE files(path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL, sha256 BLOB NOT NULL) WITHOUT ROWID;
"""


class File(NamedTuple):
    """A file of the tree as it was when it was hashed."""

    path: str
    size_bytes: int
    mtime_ns: int
    inode: int
    sha256: bytes


class Published(NamedTuple):
    """A change to be published: a file of the tree, a row of a manifest (``more``: JSON); else a delete."""

    path: str
    size_bytes: int | None = None
    sha256: bytes | None = None
    more: str | None = None
    key: int | None = None


class Stored(NamedTuple):
    """A change with its LSN; the rest as published."""

    lsn: int
    key: int
    path: str
    size_bytes: int | None
    sha256: bytes | None
    more: str | None


class Window(NamedTuple):
    """What a page is made of.

    ``expired``: the entries from there on are kept, and those asked for are not. ``ahead``: a live range has
    given no LSN from there on, and later ones were asked for.
    """

    rows: tuple[Stored, ...] = ()
    next_lsn: int = 0
    expired: int | None = None
    ahead: int | None = None


class _Live(NamedTuple):
    number: int
    low: int
    high: int


class _Asked(NamedTuple):
    live: int
    first: int
    next: int
    kept_from: int


class FeedStore:
    """One feed in ``directory``, made there if there is none. Close it."""

    def __init__(self, directory: Path) -> None:
        """Raises LocalFault: it cannot be kept there. Held: another server publishes from there."""
        self.path = directory / "feed.sqlite"
        self._writing, self._reading = threading.Lock(), threading.Lock()
        try:
            self._lock = os.fdopen(self._locked(directory))
        except BlockingIOError:
            raise Held(f"another server publishes the feed in {printable(str(directory))}") from None
        except OSError as error:
            shown = printable(str(directory))
            raise local_fault(
                error, f"cannot keep the feed in {shown}; --state names another place"
            ) from None
        self._opened: list[sqlite3.Connection] = []
        try:
            with self._faults():
                self._out, self._in = self._connected(), self._connected()
                self._out.execute("PRAGMA journal_mode=WAL")
                self._out.execute("PRAGMA synchronous=FULL")
                self._open()
        except BaseException:
            self.close()
            raise

    def _locked(self, directory: Path) -> int:
        """The lock. All files are the owner's alone, whatever the directory is: rows may be signed links."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _private(directory / "lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel lets go of it after kill -9
            os.close(_private(self.path))  # before SQLite locks it: this would let go of its locks
            for tail in ("-wal", "-shm"):  # a dead server's; new ones get the database's mode
                with suppress(FileNotFoundError):
                    os.close(_private(self.path.with_name(self.path.name + tail), make=False))
        except OSError:
            os.close(lock)
            raise
        return lock

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._opened.append(connection)
        connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        return connection

    def _open(self) -> None:
        (version,) = self._out.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise UsageError(f"{printable(str(self.path))} is of another version of cfetch")
        if version == 0:
            with self._transaction():
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._out.execute(statement)
                self._out.execute(f"PRAGMA user_version={VERSION}")
                self._mark({"feed": secrets.token_hex(16), "generation": "0"})
                self._add(ALL_KEYS, first=0, parents=())
        self.feed = self.mark("feed") or ""
        self._load()

    def _load(self) -> None:
        """What is asked all the time and changes rarely."""
        parents: dict[int, set[int]] = {}
        for child, parent in self._out.execute("SELECT child, parent FROM parents ORDER BY child"):
            above = parents.setdefault(child, set())
            above |= {parent, *parents.get(parent, ())}  # a parent's number is lower than its child's
        self._ancestors = parents
        rows = self._out.execute("SELECT number, low, high FROM ranges WHERE live ORDER BY low")
        self._live = [_Live(number, _key(low), _high(high)) for number, low, high in rows]

    # --- reading

    def listed(self) -> tuple[int, tuple[Range, ...]]:
        """The generation, which every split and merge raises, and the live ranges."""
        with self._snapshot() as cursor:
            (generation,) = cursor.execute("SELECT value FROM marks WHERE name='generation'").fetchone()
            rows = cursor.execute("SELECT number, low, high FROM ranges WHERE live ORDER BY low").fetchall()
        return int(generation), tuple(
            Range(str(number), KeyRange(_key(low), _high(high)), frozenset(map(str, self._above(number))))
            for number, low, high in rows
        )

    def span(self, of: str, via: str) -> Span | None:
        """The LSNs of a range; None: ``via`` is not live. Raises UsageError: it does not archive ``of``."""
        with self._snapshot() as cursor:
            found = self._asked(cursor, of, via)
        return found and Span(found.first, None if found.live else found.next - 1)

    def window(self, of: str, via: str, next_lsn: int, keys: KeyRange, limit: int) -> Window | None:
        """At most ``limit`` changes of a range from ``next_lsn`` on; None and errors as of ``span``."""
        with self._snapshot() as cursor:
            asked = self._asked(cursor, of, via)
            if asked is None:
                return None
            if asked.live and next_lsn > asked.next:
                return Window(ahead=asked.next)
            if 0 < next_lsn < asked.kept_from:
                return Window(expired=asked.kept_from)
            next_lsn = max(next_lsn, asked.kept_from)  # 0 is the oldest that is kept
            end = min(asked.next, next_lsn + SCAN_LSNS)
            found = cursor.execute(
                "SELECT lsn, key, path, size, sha256, more FROM changes WHERE range=? AND lsn>=? AND lsn<?"
                " AND key>=? AND (? OR key<?) ORDER BY lsn LIMIT ?",
                (_number(of), next_lsn, end, _blob(keys.low), *_below(keys.high), limit),
            )
            rows, size_bytes = [], 0
            for lsn, key, path, *rest in found:
                rows.append(Stored(lsn, _key(key), path, *rest))
                size_bytes += 200 + 4 * len(path.encode()) + len(rest[2] or "")
                if size_bytes > PAGE_BYTES:
                    break
            if len(rows) == limit or size_bytes > PAGE_BYTES:
                end = rows[-1].lsn + 1
        return Window(tuple(rows), max(end, next_lsn))

    def mark(self, name: str) -> str | None:
        """What was noted under a name."""
        with self._snapshot() as cursor:
            found = cursor.execute("SELECT value FROM marks WHERE name=?", (name,)).fetchone()
        return found[0] if found else None

    def files(self, paths: Sequence[str]) -> dict[str, File]:
        """Those of the paths that were published, as they were seen."""
        found: dict[str, File] = {}
        with self._snapshot() as cursor:
            for begin in range(0, len(paths), MAX_HOLES):
                some = paths[begin : begin + MAX_HOLES]
                holes = ",".join("?" * len(some))
                rows = cursor.execute(f"SELECT * FROM files WHERE path IN ({holes})", some)  # noqa: S608 - holes only
                found |= {row[0]: File(*row) for row in rows}
        return found

    def files_after(self, path: str, limit: int) -> list[str]:
        """The next paths of published files, in order; "" is before all."""
        with self._snapshot() as cursor:
            rows = cursor.execute("SELECT path FROM files WHERE path>? ORDER BY path LIMIT ?", (path, limit))
            return [found for (found,) in rows]

    def in_the_way(self, paths: Sequence[str]) -> list[str]:
        """Published files that have to go before files can stand under ``paths``: above them, or below."""
        above = {path[:cut] for path in paths for cut in _cuts(path)}
        found = set(self.files(sorted(above)))
        with self._snapshot() as cursor:
            for path in paths:
                query = "SELECT path FROM files WHERE path>? AND path<?"  # "0" comes after "/"
                found |= {below for (below,) in cursor.execute(query, (f"{path}/", f"{path}0"))}
        return sorted(found)

    def file_count(self) -> int:
        """How many files are published."""
        with self._snapshot() as cursor:
            count: int = cursor.execute("SELECT count(*) FROM files").fetchone()[0]
        return count

    # --- changing

    def publish(
        self,
        changes: Sequence[Published],
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
        with self._transaction():
            self._out.executemany("INSERT OR REPLACE INTO files VALUES(?,?,?,?,?)", files)
            self._out.executemany("DELETE FROM files WHERE path=?", ((path,) for path in removed))
            self._mark(marks or {})
            touched = self._insert(changes, int(at_s))
            for number, (first, next_lsn) in touched.items():
                if split_entries is not None and next_lsn - first > split_entries:
                    self._split_if_possible(number)

    def _insert(self, changes: Sequence[Published], at_s: int) -> dict[int, tuple[int, int]]:
        """First and next LSN of each range that has grown."""
        lows = [live.low for live in self._live]
        grown: dict[int, tuple[int, int]] = {}
        rows = []
        for path, size_bytes, sha256, more, given in changes:
            key = key_of(path) if given is None else given
            number = self._live[bisect_right(lows, key) - 1].number
            if number not in grown:
                query = "SELECT first, next FROM ranges WHERE number=?"
                grown[number] = self._out.execute(query, (number,)).fetchone()
            first, lsn = grown[number]
            grown[number] = (first, lsn + 1)
            rows.append((number, lsn, _blob(key), at_s, path, size_bytes, sha256, more))
        self._out.executemany("INSERT INTO changes VALUES(?,?,?,?,?,?,?,?)", rows)
        heads = ((next_lsn, number) for number, (_, next_lsn) in grown.items())
        self._out.executemany("UPDATE ranges SET next=? WHERE number=?", heads)
        return grown

    def split(self, of: str | None = None) -> tuple[str, tuple[str, ...]]:
        """Split a live range in the middle of its keys; without a name, the one with the most entries.

        Returns it and its children. Raises UsageError: it is not live, or cannot be split further.
        """
        with self._transaction():
            if of is None:
                query = "SELECT number FROM ranges WHERE live ORDER BY next - first DESC, number LIMIT 1"
                (number,) = self._out.execute(query).fetchone()
            else:
                number = self._named(of).number
            if len(self._live) >= MAX_LIVE:
                raise UsageError(f"the feed has {MAX_LIVE} live ranges, as many as it may have")
            return str(number), self._split(number)

    def _split_if_possible(self, number: int) -> None:
        live = self._named(str(number))
        if len(self._live) < MAX_LIVE and live.high - live.low > 1:
            self._split(number)

    def _split(self, number: int) -> tuple[str, ...]:
        live = self._named(str(number))
        middle = (live.low + live.high) // 2
        if middle == live.low:
            raise UsageError(f"range {number} has a single key and cannot be split")
        parts = (KeyRange(live.low, middle), KeyRange(middle, live.high))
        return self._replace((number,), parts)

    def merge(self, one: str, other: str) -> str:
        """Make one range of two live neighbours. Raises UsageError: they are none."""
        with self._transaction():
            lower, upper = sorted((self._named(one), self._named(other)), key=lambda live: live.low)
            if lower.high != upper.low:
                raise UsageError(f"ranges {one} and {other} are no neighbours")
            (child,) = self._replace((lower.number, upper.number), (KeyRange(lower.low, upper.high),))
            return child

    def _replace(self, parents: tuple[int, ...], parts: tuple[KeyRange, ...]) -> tuple[str, ...]:
        first = 0
        for parent in parents:
            self._out.execute("UPDATE ranges SET live=0 WHERE number=?", (parent,))
            (head,) = self._out.execute("SELECT next FROM ranges WHERE number=?", (parent,)).fetchone()
            first = max(first, head)
        children = tuple(str(self._add(keys, first=first, parents=parents)) for keys in parts)
        self._out.execute("UPDATE marks SET value = value + 1 WHERE name='generation'")
        self._load()
        return children

    def _add(self, keys: KeyRange, *, first: int, parents: tuple[int, ...]) -> int:
        (number,) = self._out.execute("SELECT coalesce(max(number) + 1, 0) FROM ranges").fetchone()
        high = None if keys.high == ALL_KEYS.high else _blob(keys.high)
        row = (number, _blob(keys.low), high, 1, first, first, first)
        self._out.execute("INSERT INTO ranges VALUES(?,?,?,?,?,?,?)", row)
        self._out.executemany("INSERT INTO parents VALUES(?,?)", ((number, parent) for parent in parents))
        return int(number)

    def forget(self, before_s: float, *, now_s: float) -> None:
        """Drop the changes that were published before a time, as ``old_changes`` says.

        Those among them that state a file as it is now are published again, under new LSNs: whoever begins
        with the oldest change that is kept learns of every file.
        """
        with self._snapshot() as cursor:
            old = old_changes(cursor, before_s, self._above)
        for number, begin, end in old:
            for upto in (*range(begin + DROP_LSNS, end, DROP_LSNS), end):
                self._drop(number, upto, now_s)

    def _drop(self, number: int, end: int, now_s: float) -> None:
        with self._transaction():
            rows = self._out.execute(CURRENT, (number, end)).fetchall()
            self._out.execute("DELETE FROM changes WHERE range=? AND lsn<?", (number, end))
            self._out.execute("UPDATE ranges SET kept_from=? WHERE number=?", (end, number))
            again = {path: Published(path, size_bytes, sha256) for path, size_bytes, sha256 in rows}
            self._insert(list(again.values()), int(now_s))

    # --- one at a time

    def _asked(self, cursor: sqlite3.Cursor, of: str, via: str) -> _Asked | None:
        query = "SELECT live, first, next, kept_from FROM ranges WHERE number=?"
        found = cursor.execute(query, (_number(via),)).fetchone()
        if found is None or not found[0]:
            return None
        if of != via:
            if _number(of) not in self._above(_number(via)):
                raise UsageError(f"range {printable(via)} does not archive range {printable(of)}")
            found = cursor.execute(query, (_number(of),)).fetchone()
        return _Asked(*found)

    def _above(self, number: int) -> frozenset[int]:
        return frozenset(self._ancestors.get(number, ()))

    def _named(self, of: str) -> _Live:
        for live in self._live:
            if str(live.number) == of:
                return live
        raise UsageError(f"there is no live range {printable(of)!r}")

    def _mark(self, marks: Mapping[str, str]) -> None:
        self._out.executemany("INSERT OR REPLACE INTO marks VALUES(?,?)", marks.items())

    def _in_rows(self, query: str) -> list[tuple[int, int]]:
        with self._snapshot() as cursor:
            return cursor.execute(query).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._writing, self._faults():
            self._out.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._out.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._out.execute("ROLLBACK")
                    self._load()
                raise

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Cursor]:
        """All that is read within is of one moment."""
        with self._reading, self._faults():
            cursor = self._in.cursor()
            cursor.execute("BEGIN")
            try:
                yield cursor
            finally:
                cursor.execute("COMMIT")

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            what = getattr(error, "sqlite_errorname", type(error).__name__)
            raise LocalFault(
                f"the feed's database {printable(str(self.path))} fails: {what}; free some "
                "space or give it another place by --state (a new database is a new feed)"
            ) from None

    def close(self) -> None:
        """Let go of the files."""
        for connection in self._opened:
            connection.close()
        self._lock.close()


def _private(path: Path, *, make: bool = True) -> int:
    """The file's descriptor; nobody else may read the file from now on."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _number(of: str) -> int:
    """A range's number; -1, which none has, for a text that is no number of ours."""
    return int(of) if of.isascii() and of.isdigit() and len(of) < 16 and str(int(of)) == of else -1


def _cuts(path: str) -> Iterator[int]:
    """Where each slash is."""
    cut = path.find("/")
    while cut >= 0:
        yield cut
        cut = path.find("/", cut + 1)


def _blob(key: int) -> bytes:
    return key.to_bytes(_KEY_BYTES)


def _key(blob: bytes) -> int:
    return int.from_bytes(blob)


def _high(blob: bytes | None) -> int:
    return ALL_KEYS.high if blob is None else _key(blob)


def _below(high: int) -> tuple[bool, bytes]:
    """For ``(? OR key < ?)``: the end of all keys has a byte too many."""
    return (True, b"") if high == ALL_KEYS.high else (False, _blob(high))
