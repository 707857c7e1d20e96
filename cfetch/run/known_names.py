"""The names that servers have stated for files (``--name-by header``), by a hash of each link.

A later run takes a name from here instead of asking for it again. The names are in an SQLite file, so that a
list of millions needs no memory; a run writes them block by block, so that an interrupted run keeps most.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Self

from cfetch.manifest.entry import SafePath, UnsafePathError, safe_path
from cfetch.storage.files import make_private, on_disk
from cfetch.storage.own_databases import explain_errors, open_database

NAMES = Path("names", "stated.sqlite")  # below the state directory
AT_ONCE = 500  # values in one query; SQLite has taken no more than 999 for long


class KnownNames:
    """A ``with`` block opens the file.

    Raises:
        LocalFault: it cannot be read or written, or is damaged.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / NAMES
        self._database: sqlite3.Connection

    def __enter__(self) -> Self:
        with on_disk(self._path):
            make_private(self._path.parent)
        with self._explain_errors(), open_database(self._path) as self._database:
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS names (link TEXT PRIMARY KEY, path TEXT) WITHOUT ROWID"
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def find(self, links: Sequence[str]) -> dict[str, SafePath]:
        """The known names of ``links``; each is the ``identity_of`` an entry."""
        names: dict[str, SafePath] = {}
        for first in range(0, len(links), AT_ONCE):
            block = links[first : first + AT_ONCE]
            query = f"SELECT link, path FROM names WHERE link IN ({','.join('?' * len(block))})"  # noqa: S608 - only marks
            with self._explain_errors():
                rows = self._database.execute(query, block).fetchall()
            for link, path in rows:
                with suppress(UnsafePathError, TypeError):  # somebody else has written it: ask again
                    name = safe_path(path)
                    if not name.startswith("."):  # an earlier version took such names of servers too
                        names[link] = name
        return names

    def keep(self, names: Mapping[str, SafePath]) -> None:
        """Keep names by ``links``; they replace older names."""
        with self._explain_errors():
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR REPLACE INTO names VALUES (?, ?)", names.items())
            self._database.execute("COMMIT")

    def _explain_errors(self) -> AbstractContextManager[None]:
        what = "which keeps the names that servers have stated"
        return explain_errors(self._path, what, "remove the file, and servers are asked for the names again")
