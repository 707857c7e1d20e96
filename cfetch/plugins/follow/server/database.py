"""The SQLite file of a feed: one process writes it, from any of its threads; other users may not read it.

There are two connections. A change goes through the writing one as a transaction that is flushed before it
ends (WAL, ``synchronous=FULL``), so that a power cut loses no change that was in an answer. A read goes
through the other: it sees one moment and waits for no change. A lock beside the file keeps a second server
out; the kernel frees it after kill -9.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable
from cfetch.storage.files import local_fault, make_private
from cfetch.storage.locks import need_lock
from cfetch.storage.own_databases import open_database

BUSY_S = 10.0  # longer than one transaction, for which a writer holds the file


class Database:
    """``directory`` is made if there is none. Close it."""

    def __init__(self, directory: Path) -> None:
        """Raises LocalFault: it cannot be kept there. Held: another server publishes from there."""
        self.path = directory / "feed.sqlite"
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        try:
            self._lock = os.fdopen(self._take_lock(directory))
        except OSError as error:
            shown = printable(str(directory))
            raise local_fault(
                error, f"cannot keep the feed in {shown}; --state names another place"
            ) from None
        self._connections: list[sqlite3.Connection] = []
        try:
            with self._map_faults():
                self._writer, self._reader = self._connect(), self._connect()
                self._writer.execute("PRAGMA journal_mode=WAL")
                self._writer.execute("PRAGMA synchronous=FULL")
        except BaseException:
            self.close()
            raise

    def _take_lock(self, directory: Path) -> int:
        """Take the lock; returns its descriptor. Files are private to the owner: rows may be signed links."""
        make_private(directory)
        lock = _open_private(directory / "lock")
        try:
            held = f"another server publishes the feed in {printable(str(directory))} ({{holder}})"
            need_lock(lock, held, name=directory / "lock", remedy="--state names another place")
            os.close(_open_private(self.path))  # before SQLite locks it: a close later would drop those locks
            for tail in ("-wal", "-shm"):  # files of a dead server; new ones get the database's mode
                with suppress(FileNotFoundError):
                    os.close(_open_private(self.path.with_name(self.path.name + tail), make=False))
        except BaseException:
            os.close(lock)
            raise
        return lock

    def _connect(self) -> sqlite3.Connection:
        with open_database(self.path, timeout_s=BUSY_S) as connection:
            self._connections.append(connection)
        return connection

    @contextmanager
    def transaction(self, on_rollback: Callable[[sqlite3.Cursor], None]) -> Iterator[sqlite3.Cursor]:
        """Commit all changes made within, or none: ``on_rollback`` then gets the database as it was."""
        with self._write_lock, self._map_faults():
            cursor = self._writer.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    cursor.execute("ROLLBACK")
                    on_rollback(cursor)
                raise

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Cursor]:
        """Let all reads within see one moment."""
        with self._read_lock, self._map_faults():
            cursor = self._reader.cursor()
            cursor.execute("BEGIN")
            try:
                yield cursor
            finally:
                cursor.execute("COMMIT")

    @contextmanager
    def _map_faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason = getattr(error, "sqlite_errorname", type(error).__name__)
            raise LocalFault(
                f"the feed's database {printable(str(self.path))} fails: {reason}; free some "
                "space or give it another place by --state (a new database is a new feed)"
            ) from None

    def close(self) -> None:
        """Close the files."""
        for connection in self._connections:
            connection.close()
        self._lock.close()


def _open_private(path: Path, *, make: bool = True) -> int:
    """Open the file and return its descriptor; other users may not read the file from now on."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
