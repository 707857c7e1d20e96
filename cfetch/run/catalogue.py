"""What ``cfetch sync`` has put in place: the files of one source, with the versions that its list has stated.

A file is the sync's own when a run of it has brought it, or when the file bears the record of its link
(``storage/sources.py``). Only such files are ever deleted, and only as long as they have the size and the
time of change that they had when they were entered. It is an SQLite file, so that a list of millions needs
no memory. A run that is killed loses the last thousand files of it at most: they are known again by their
record, and those that have none, as a hash proves them, are no longer deleted.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self

from cfetch.errors import Held, LocalFault
from cfetch.manifest.urls import strip_signature
from cfetch.storage.files import make_private, on_disk

SYNCS = "syncs"  # below the state directory
COMMIT_FILES = 1000  # so many are entered at once: a commit flushes the disk
_TABLES = """
    CREATE TABLE IF NOT EXISTS files (
        path TEXT PRIMARY KEY, version TEXT, size_bytes INTEGER, changed_s REAL, is_own INTEGER
    ) WITHOUT ROWID;
    CREATE TEMP TABLE listed (path TEXT PRIMARY KEY, version TEXT) WITHOUT ROWID;
"""


class Entered(NamedTuple):
    """A file as it was when it was entered."""

    path: str
    size_bytes: int
    changed_s: float


def locate_catalogue(state: Path, source: str, roots: tuple[str | Path, ...]) -> Path:
    """Its file below a state directory, for a source as a person names it and the destinations."""
    name = strip_signature(source) if "://" in source else str(Path(source).resolve())
    text = "\n".join([name, *sorted(map(str, roots))])
    return state / SYNCS / f"{sha256(text.encode()).hexdigest()[:32]}.sqlite"


class Catalogue:
    """A ``with`` block holds it against other syncs. ``path`` None: in memory, for a look only.

    Raises:
        Held: another sync of the same source has it.
        LocalFault: it cannot be read or written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._unwritten = 0
        self._database: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            with on_disk(self._path):
                make_private(self._path.parent)
        with self._explain_errors():
            self._database = sqlite3.connect(
                self._path or ":memory:", timeout=0, isolation_level=None, check_same_thread=False
            )
            self._database.executescript("PRAGMA locking_mode=EXCLUSIVE;" + _TABLES)
            self._database.execute("BEGIN EXCLUSIVE")
        return self

    def __exit__(self, *_: object) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.execute("COMMIT")
            self._database.close()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if error.sqlite_errorname == "SQLITE_BUSY":
                raise Held("another process syncs this source to here already; wait for it") from None
            raise LocalFault(f"cannot use {self._path}: {error.sqlite_errorname}") from None

    def _ask(self, query: str, *values: object) -> sqlite3.Cursor:
        assert self._database is not None
        with self._explain_errors():
            return self._database.execute(query, values)

    def add_listed(self, path: str, version: str | None) -> None:
        """Note that the source has the file now; ``version`` is what its list states of its content."""
        self._ask("INSERT OR REPLACE INTO listed VALUES (?, ?)", path, version)

    def find_changed(self) -> Iterator[str]:
        """The paths whose version is another one than that of the file in place."""
        query = (
            "SELECT path FROM listed JOIN files USING (path) "
            "WHERE listed.version IS NOT NULL AND listed.version IS NOT files.version"
        )
        return (path for (path,) in self._ask(query))

    def find_new(self) -> Iterator[tuple[str, str | None]]:
        """The paths that have not been entered yet, with their versions."""
        query = "SELECT path, version FROM listed WHERE path NOT IN (SELECT path FROM files)"
        return self._ask(query)

    def is_empty(self) -> bool:
        """Whether nothing was ever entered."""
        return self._ask("SELECT 1 FROM files LIMIT 1").fetchone() is None

    def find_gone(self) -> Iterator[Entered]:
        """The sync's own files that the source has no longer, in the order of names."""
        query = (
            "SELECT path, size_bytes, changed_s FROM files "
            "WHERE is_own AND path NOT IN (SELECT path FROM listed) ORDER BY path"
        )
        return (Entered(*row) for row in self._ask(query))

    def count_own(self) -> int:
        """The number of the sync's own files."""
        return int(self._ask("SELECT count(*) FROM files WHERE is_own").fetchone()[0])

    def enter(self, file: Entered, *, is_own: bool) -> None:
        """Note that the listed file stands in place; a file that was the sync's own stays so."""
        self._ask(
            "INSERT INTO files SELECT path, version, ?, ?, ? FROM listed WHERE path = ? "
            "ON CONFLICT (path) DO UPDATE SET version = excluded.version, size_bytes = excluded.size_bytes, "
            "changed_s = excluded.changed_s, is_own = is_own OR excluded.is_own",
            *(file.size_bytes, file.changed_s, is_own, file.path),
        )
        self._unwritten += 1
        if self._unwritten >= COMMIT_FILES:
            self.commit()

    def forget(self, path: str) -> None:
        """Strike a file that has been deleted, or is no longer the sync's own."""
        self._ask("DELETE FROM files WHERE path = ?", path)

    def commit(self) -> None:
        """Write what was entered."""
        self._unwritten = 0
        self._ask("COMMIT")
        self._ask("BEGIN EXCLUSIVE")
