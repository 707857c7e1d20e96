"""Records of objects in a store, on this machine: what was verified of the object with a certain ETag.

A listing states sizes and ETags, not attributes. So a run notes the attribute of each object that it puts, or
finds in place, beside its size and ETag. If a later listing has the same size and ETag, the bytes are the
same. A record that is missing, or cannot be written, costs one request.
"""

import hashlib
import sqlite3
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.storage.buckets.object_store import About
from cfetch.storage.files import make_private
from cfetch.storage.own_databases import open_database

BATCH = 1000  # records that are written together
BUSY_S = 0.2  # another run writes; the event loop waits for it
_TABLE = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, size INTEGER, etag TEXT, about BLOB) WITHOUT ROWID;
"""


def records_name(url: str) -> str:
    """The name of the database of the store at ``url``."""
    return f"{hashlib.blake2b(url.encode(), digest_size=16).hexdigest()}.sqlite"


class ObjectRecords:
    """The records in a database at ``path``; None, or a database that fails: there are none."""

    def __init__(self, path: Path | None) -> None:
        self._database: sqlite3.Connection | None = None
        self._unwritten: list[tuple[str, int, str, bytes]] = []
        if path is not None:
            with suppress(LocalFault, OSError, sqlite3.Error):
                make_private(path.parent)
                with open_database(path, timeout_s=BUSY_S) as database:
                    database.executescript(_TABLE)
                self._database = database

    def find(self, key: str, size_bytes: int, etag: str | None) -> About | None:
        """The record of the object that had this size and ETag; None: it is not known."""
        if self._database is None or not size_bytes or not _is_strong(etag):
            return None
        with suppress(sqlite3.Error, *NOT_DECODED):
            query = "SELECT about FROM objects WHERE key = ? AND size = ? AND etag = ?"
            row = self._database.execute(query, (key, size_bytes, etag)).fetchone()
            if row is not None and isinstance(row[0], bytes):  # SQLite keeps any type in any column
                return msgspec.json.decode(row[0], type=About)
        return None

    def note(self, key: str, size_bytes: int, etag: str | None, about: About) -> None:
        """Note an object, soon."""
        if self._database is not None and etag is not None and _is_strong(etag):
            self._unwritten.append((key, size_bytes, etag, msgspec.json.encode(about)))
            if len(self._unwritten) >= BATCH:
                self._write()

    def close(self) -> None:
        """Write what is left."""
        if self._database is not None:
            self._write()
            self._database.close()
            self._database = None

    def _write(self) -> None:
        rows, self._unwritten = self._unwritten, []
        if self._database is None or not rows:
            return
        with suppress(sqlite3.Error):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", rows)
            finally:
                self._database.execute("COMMIT")


def _is_strong(etag: str | None) -> bool:
    return etag is not None and etag.startswith('"')
