"""What a feed has now: the last change of each path that was not deleted, with the position of its reader.

A follower that compares its files with a feed reads the whole feed into it first: an earlier change says
nothing about a file if a later one has replaced it. It is an SQLite file, so that a feed of millions needs no
memory. Changes and the position behind them are written together, so reading continues after a kill.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

import msgspec

from cfetch.plugins.follow.checkpoint import (
    ChangeRow,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    make_row,
    restore_change,
)
from cfetch.plugins.follow.source import Change
from cfetch.storage.own_databases import explain_errors, open_database

_TABLES = """
    CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS position (only INTEGER PRIMARY KEY CHECK (only = 0), checkpoint BLOB);
"""


class Snapshot:
    """A ``with`` block opens the file, and makes it if there is none.

    Raises:
        LocalFault: it cannot be read or written, or is damaged; also from all methods.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection

    def __enter__(self) -> Self:
        with self._explain_errors(), open_database(self._path) as self._database:
            self._database.executescript(_TABLES)
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, changes: Iterable[Change], checkpoint: Checkpoint) -> None:
        """Write changes in the feed's order, and the position behind them, as one transaction."""
        with self._explain_errors(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            for change in changes:
                if change.entry is None:
                    self._database.execute("DELETE FROM files WHERE path = ?", (change.path,))
                else:
                    row = msgspec.msgpack.encode(make_row(change))
                    self._database.execute("REPLACE INTO files VALUES (?, ?)", (change.path, row))
            self._database.execute("REPLACE INTO position VALUES (0, ?)", (encode_checkpoint(checkpoint),))

    def checkpoint(self) -> Checkpoint | None:
        """The position behind all changes; None if nothing has been read."""
        with self._explain_errors():
            row = self._database.execute("SELECT checkpoint FROM position").fetchone()
            return None if row is None else decode_checkpoint(row[0])

    def count(self) -> int:
        """The number of files."""
        with self._explain_errors():
            return int(self._database.execute("SELECT count(*) FROM files").fetchone()[0])

    def has(self, path: str) -> bool:
        """Whether the feed has a file at that path."""
        with self._explain_errors():
            row = self._database.execute("SELECT 1 FROM files WHERE path = ?", (path,)).fetchone()
        return row is not None

    def batches(self, size: int) -> Iterator[list[Change]]:
        """Yield the files, some at a time and by path."""
        last = ""
        while changes := self._list_after(last, size):
            yield changes
            last = changes[-1].path

    def _list_after(self, path: str, most: int) -> list[Change]:
        query = "SELECT row FROM files WHERE path > ? ORDER BY path LIMIT ?"
        with self._explain_errors():
            rows = self._database.execute(query, (path, most)).fetchall()
            return [restore_change(msgspec.msgpack.decode(row, type=ChangeRow)) for (row,) in rows]

    def _explain_errors(self) -> AbstractContextManager[None]:
        return explain_errors(self._path, "the list of what the feed has", "--resync reads it anew")
