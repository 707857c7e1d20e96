"""The files that a follower has put in place: only these may it replace or delete.

A file is the follower's own if a run has brought it to this path of this volume, and it is still that file:
it has the same inode, size and times, or else the recorded hash. A new hard link, as in a generation, changes
one of the times, and a copy from a backup has another inode; neither changes the bytes. If the feed stated no
hash, inode, size and time of change have to be the same.

A kill at any moment loses none of these files, by the order of writing::

    begun       the paths that a round is about to bring, with what will prove the files; only paths that are
                free, or have own files
    files       as they arrive; some at a time, as each commit flushes the disk
    both        the last files are written and what was begun is forgotten, as one transaction
    the journal notes that the round is done

So what is begun at a start was brought by a run that was killed, if the proof holds; other files there are
not own. A file that the follower deletes is forgotten after it was deleted. A row without its file does no
harm.
"""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from cfetch.base.errors import Blocked
from cfetch.manifest.entry import Entry, SafePath, safe_path
from cfetch.manifest.hashing import new_hash
from cfetch.run.catalogue import Homes, Own
from cfetch.storage.directory import Directory, Identity
from cfetch.storage.own_databases import explain_errors, open_database
from cfetch.storage.resume import identity_of

COMMIT_FILES = 1000  # files for each commit, as a commit flushes the disk
_READ_BYTES = 1 << 20
_LINK = "link"
_TABLES = """
    PRAGMA locking_mode=EXCLUSIVE;
    CREATE TABLE IF NOT EXISTS files (
        path TEXT, volume TEXT, inode INTEGER, size_bytes INTEGER, changed_ns INTEGER, status_ns INTEGER,
        proof TEXT, PRIMARY KEY (path, volume)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS begun (path TEXT PRIMARY KEY, proof TEXT) WITHOUT ROWID;
"""


class FileHere(NamedTuple):
    """A regular file under a path in one of the destinations."""

    directory: Directory
    identity: Identity
    is_own: bool


def prove_by(entry: Entry) -> str:
    """What proves a file of the entry: its hash; or the links from which its record may say that it came."""
    if entry.digest is not None:
        return f"{entry.digest.algorithm}:{entry.digest.hex}"
    return f"{_LINK}:{','.join(identity_of(entry, source) for source in (entry.url, *entry.mirrors))}"


def locate_own_files(journal: Path) -> Path:
    """Return the path of the record that belongs to a follower's journal, and outlives it."""
    return journal.with_name(f"{journal.name}.sqlite")


class OwnFiles:
    """The record of one follower's files. A ``with`` block opens it, and makes it if there is none.

    ``is_new``: there was none. Raises LocalFault: it cannot be read or written, or is damaged; also from all
    methods.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten = 0
        self._database: sqlite3.Connection
        self.is_new = False

    def __enter__(self) -> Self:
        self.is_new = not os.path.lexists(self._path)
        with self._explain_errors(), open_database(self._path) as self._database:
            self._database.executescript(_TABLES)
            self._database.execute("BEGIN EXCLUSIVE")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):
            self._database.execute("COMMIT")
        self._database.close()

    def find_here(self, path: SafePath, homes: Homes) -> list[FileHere]:
        """Find the regular files at ``path`` in the directories, and tell which of them are own.

        Raises LocalFault.
        """
        files = []
        known: dict[str, tuple[Own, str | None]] | None = None
        for directory in homes.directories.values():
            identity = directory.identify(path)
            if identity is None:
                continue
            known = self._find(path) if known is None else known
            is_own = _is_own(path, identity, known, directory, homes)
            files.append(FileHere(directory, identity, is_own))
        return files

    def has(self, path: SafePath) -> bool:
        """Whether an own file was at ``path``, and was not forgotten since."""
        return bool(self._find(path))

    def _find(self, path: SafePath) -> dict[str, tuple[Own, str | None]]:
        query = (
            "SELECT volume, inode, size_bytes, changed_ns, status_ns, proof FROM files WHERE path = ? "
            "ORDER BY volume"
        )
        with self._explain_errors():
            known = {}
            for row in self._database.execute(query, (path,)):
                volume, *numbers, proof = msgspec.convert(row, tuple[str, int, int, int, int, str | None])
                known[volume] = Own(path, volume, Identity(*numbers)), proof
            return known

    def count(self) -> int:
        """The number of paths that have own files."""
        with self._explain_errors():
            return int(self._database.execute("SELECT count(DISTINCT path) FROM files").fetchone()[0])

    def enter(self, own: Own, proof: str | None) -> None:
        """Note a file that is own from now on."""
        with self._explain_errors():
            self._database.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)",
                (own.path, own.volume, *own.identity, proof),
            )
        self._unwritten += 1
        if self._unwritten >= COMMIT_FILES:
            self.commit()

    def forget(self, path: SafePath, homes: Homes) -> None:
        """Note that no own file is at ``path`` in the directories any more; others may be out of use now."""
        with self._explain_errors():
            for volume in homes.directories:
                self._database.execute("DELETE FROM files WHERE path = ? AND volume = ?", (path, volume))

    def begin(self, proofs: Iterable[tuple[SafePath, str]]) -> None:
        """Note which files are about to be brought, and what will prove them; it is on disk afterwards."""
        with self._explain_errors():
            self._database.executemany("INSERT OR REPLACE INTO begun VALUES (?, ?)", proofs)
        self.commit()

    def end(self) -> None:
        """Note that all files that were begun and have arrived are entered."""
        with self._explain_errors():
            self._database.execute("DELETE FROM begun")
        self.commit()

    def settle(self, homes: Homes) -> None:
        """Enter the files that a killed run has brought. Raises LocalFault."""
        with self._explain_errors():
            rows = self._database.execute("SELECT path, proof FROM begun").fetchall()
            begun = [(safe_path(path), str(proof)) for path, proof in rows]
        for path, proof in begun:
            for file in self.find_here(path, homes):
                if not file.is_own and _proves(file.directory, path, file.identity, proof):
                    self.enter(Own(path, str(file.directory.root), file.identity), proof)
        self.end()

    def commit(self) -> None:
        """Write what was noted."""
        self._unwritten = 0
        with self._explain_errors():
            self._database.execute("COMMIT")
            self._database.execute("BEGIN EXCLUSIVE")

    def _explain_errors(self) -> AbstractContextManager[None]:
        return explain_errors(
            self._path,
            "the record of the files that this follower has put in place",
            "remove it: then no file that is here now is replaced or deleted, unless you say with --adopt "
            "that all files here are of the feed",
        )


def _is_own(
    path: SafePath,
    identity: Identity,
    known: dict[str, tuple[Own, str | None]],
    directory: Directory,
    homes: Homes,
) -> bool:
    for volume, (own, proof) in known.items():
        is_here = volume == str(directory.root)
        has_hash = proof is not None and not proof.startswith(f"{_LINK}:")
        if is_here and identity == own.identity:
            return True
        if is_here and not has_hash and identity.content == own.identity.content:
            return True
        is_possible = has_hash and identity.size_bytes == own.identity.size_bytes
        if is_possible and proof is not None and _proves(directory, path, identity, proof):
            return True
        moved = None if is_here or len(homes.directories) == 1 else homes.find_moved(own)
        if moved is not None and (moved.volume, moved.identity) == (str(directory.root), identity):
            return True
    return False


def _proves(directory: Directory, path: SafePath, identity: Identity, proof: str) -> bool:
    kind, _, values = proof.partition(":")
    if kind == _LINK:
        source = directory.sources.find(path)
        is_whole = source is not None and source.size_bytes in (identity.size_bytes, None)
        return is_whole and source is not None and source.identity in values.split(",")
    with suppress(OSError, Blocked):
        descriptor = directory.open_existing(path)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                running = new_hash(kind, identity.size_bytes)
                while data := file.read(_READ_BYTES):
                    running.update(data)
            return running.hexdigest() == values
    return False
