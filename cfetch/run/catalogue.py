"""The files that ``cfetch sync`` has put in place for one source, with the versions that its list has stated.

A file is the sync's own if a run of the sync has brought it to the recorded volume, and only as long as it is
exactly that file: with the same inode, size, mtime and ctime. As soon as a sync finds anything else in its
place, the file is no longer own, until a run brings it again. Only own files are ever deleted. The catalogue
is an SQLite file, so that a list of millions needs no memory. A run that is killed loses at most its last
thousand entries here; those files are then not deleted.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

import msgspec

from cfetch.base.config.path_filter import ALL_PATHS, PathFilter
from cfetch.base.errors import Held, LocalFault
from cfetch.manifest.entry import SafePath, UnsafePathError, safe_path
from cfetch.manifest.folding import collision_key
from cfetch.manifest.urls import strip_signature
from cfetch.storage.directory import Directory, Identity
from cfetch.storage.files import local_fault, make_private, on_disk
from cfetch.storage.moves import are_equal, find_moved
from cfetch.storage.own_databases import NOT_OURS, find_system_fault, name_error, open_database

SYNCS = "syncs"  # below the state directory
COMMIT_FILES = 1000  # files for each commit, as a commit flushes the disk
_TABLES = """
    CREATE TABLE IF NOT EXISTS files (
        path TEXT PRIMARY KEY, version TEXT,
        volume TEXT, inode INTEGER, size_bytes INTEGER, changed_ns INTEGER, status_ns INTEGER
    ) WITHOUT ROWID;
    CREATE TEMP TABLE listed (path TEXT PRIMARY KEY, version TEXT, key TEXT, is_file INTEGER) WITHOUT ROWID;
    CREATE TEMP TABLE unproven (path TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TEMP TABLE clashing (path TEXT PRIMARY KEY, key TEXT) WITHOUT ROWID;
"""
_OWN = "SELECT path, volume, inode, size_bytes, changed_ns, status_ns FROM files WHERE volume IS NOT NULL"


class Own(NamedTuple):
    """A file of a sync or a follower, as a run has put it in place."""

    path: SafePath
    volume: str
    identity: Identity


class Homes:
    """The directories of the destinations, by name: there own files are, unless another volume has them."""

    def __init__(self, directories: Iterable[Directory]) -> None:
        self.directories = {str(directory.root): directory for directory in directories}
        self._moved: Mapping[str, Mapping[str, Directory]] | None = None

    def find_moved(self, own: Own) -> Own | None:
        """Return the file where it is now, if `cfetch volume` has moved it from where a run has put it."""
        if self._moved is None:
            self._moved = find_moved(self.directories.values())
        home = self._moved.get(own.volume, {}).get(own.path)
        identity = None if home is None else home.identify(own.path)
        if home is None or identity is None or not are_equal(identity, own.identity):
            return None
        return Own(own.path, str(home.root), identity)


def name_source(source: str) -> str:
    """The same name for a source, however a person spells it or its link is signed.

    Bytes of a file's name that are not UTF-8 are escaped.
    """
    if "://" in source:
        return strip_signature(source)
    return str(Path(source).resolve()).encode(errors="backslashreplace").decode()


def locate_catalogue(
    state: Path, source: str, roots: tuple[str | Path, ...], *, addresses: Sequence[str | None] = ()
) -> Path:
    """Return the path of the catalogue in a state directory, for a source and its destinations.

    ``addresses``: further settings that say where the source is.
    """
    key = msgspec.json.encode([name_source(source), sorted(map(str, roots)), addresses])
    return state / SYNCS / f"{sha256(key).hexdigest()[:32]}.sqlite"


class Catalogue:
    """A ``with`` block locks it against other syncs. ``path`` None: only in memory, for a preview.

    Raises:
        Held: another sync of the same source has it.
        LocalFault: it cannot be read or written, or is damaged.
    """

    def __init__(
        self, path: Path | None, *, state: Path | None = None, paths: PathFilter = ALL_PATHS
    ) -> None:
        """``state`` is the directory that it is in, which a group may share.

        ``paths``: what this sync takes of the list. Of other paths nothing is known, so they are never gone.
        """
        self._path = path
        self._paths = paths
        self._state = state
        self._unwritten = 0
        self._database: sqlite3.Connection

    def __enter__(self) -> Self:
        if self._path is not None:
            with on_disk(self._path):
                make_private(self._path.parent, state=self._state)
        with self._explain_errors(), open_database(self._path, timeout_s=0) as self._database:
            self._database.create_function("collision_key", 1, collision_key, deterministic=True)
            self._database.executescript("PRAGMA locking_mode=EXCLUSIVE;" + _TABLES)
            self._database.execute("BEGIN EXCLUSIVE")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):
            self._database.execute("COMMIT")
        self._database.close()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            name = name_error(error)
            if name == "SQLITE_BUSY":
                raise self._make_held_error() from None
            if (fault := find_system_fault(error)) is not None:
                raise local_fault(fault, f"cannot use {self._path}") from None
            if name.startswith("SQLITE_CANTOPEN"):
                raise LocalFault(f"cannot use {self._path}: {name}") from None
            raise self._explain_damage(name) from None
        except OSError as error:
            raise local_fault(error, f"cannot use {self._path}") from None
        except ValueError:  # also SQLite's message, if it has a name that is not UTF-8
            raise self._explain_damage(NOT_OURS) from None

    def _make_held_error(self) -> Held:
        from cfetch.storage.lock_holders import find_holder_of  # few syncs meet another one

        assert self._path is not None
        holder = find_holder_of(self._path)
        return Held(
            f"another run syncs this source to here ({holder.shown}); wait until it has ended, or end it, "
            "and run the same command again",
            host=holder.host,
            pid=holder.pid,
        )

    def _explain_damage(self, what: str) -> LocalFault:
        return LocalFault(
            f"cannot use {self._path}, which tells what a sync has put in place: {what}; remove the file "
            f"{self._path}; then nothing is deleted by the next run"
        )

    def _ask(self, query: str, *values: object) -> Iterator[tuple[object, ...]]:
        """Execute the query at once, and return the rows of its answer."""
        with self._explain_errors():
            return self._read(self._database.execute(query, values))

    def _read(self, cursor: sqlite3.Cursor) -> Iterator[tuple[object, ...]]:
        with self._explain_errors():
            yield from cursor

    def _check_own(self, row: tuple[object, ...]) -> Own:
        """Check a row like a row of a manifest: somebody else may have written the file."""
        try:
            path, volume, *numbers = msgspec.convert(row, tuple[str, str, int, int, int, int])
            return Own(safe_path(path), volume, Identity(*numbers))
        except (msgspec.ValidationError, UnsafePathError) as error:
            raise self._explain_damage(f"a row of it is wrong: {error}") from None

    def add_listed(self, path: str, version: str | None, *, has_size: bool = False) -> None:
        """Note that the source has the file now; ``version`` is what its list states of its content.

        ``has_size``: the list states its size too, so that it is not the page of a directory.
        """
        is_file = has_size or version is not None
        self._ask(
            "INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?)", path, version, collision_key(path), is_file
        )

    def note_clashes(self, paths: Iterable[str]) -> None:
        """Note the paths of entries that fail, as their names are other entries'.

        The files under these names are not theirs: they are neither new nor changed, and never gone, as on
        some file systems each is the file of the other entry.
        """
        for path in paths:
            self._ask("INSERT OR IGNORE INTO clashing VALUES (?, ?)", path, collision_key(path))
        self._ask("DELETE FROM listed WHERE path IN (SELECT path FROM clashing)")

    def find_changed(self) -> Iterator[str]:
        """The paths whose version differs from the version of the file in place."""
        query = (
            "SELECT path FROM listed JOIN files USING (path) "
            "WHERE listed.version IS NOT NULL AND listed.version IS NOT files.version"
        )
        return (str(path) for (path,) in self._ask(query))

    def note_unproven(self) -> None:
        """Note which files of earlier syncs have no version in the list: only requests tell of changes."""
        self._ask(
            "INSERT INTO unproven SELECT path FROM listed JOIN files USING (path) "
            "WHERE listed.version IS NULL"
        )

    def take_unproven(self, path: str) -> bool:
        """Whether ``note_unproven`` has noted the path, and it was not taken before."""
        is_noted = next(self._ask("SELECT 1 FROM unproven WHERE path = ?", path), None) is not None
        if is_noted:
            self._ask("DELETE FROM unproven WHERE path = ?", path)
        return is_noted

    def find_new(self) -> Iterator[tuple[str, str | None]]:
        """The paths that have not been entered yet, with their versions."""
        query = "SELECT path, version FROM listed WHERE path NOT IN (SELECT path FROM files)"
        return ((str(path), None if version is None else str(version)) for path, version in self._ask(query))

    def is_empty(self) -> bool:
        """Whether nothing was ever entered."""
        return next(self._ask("SELECT 1 FROM files LIMIT 1"), None) is None

    def find_gone(self) -> Iterator[Own]:
        """The sync's own files that the source no longer has, in the order of names.

        A file whose name differs from a listed name only in case or Unicode form is not gone: on some file
        systems it is the listed file.
        """
        listed = "SELECT key FROM listed UNION SELECT key FROM clashing"
        query = f"{_OWN} AND collision_key(path) NOT IN ({listed}) ORDER BY path"
        return (own for own in map(self._check_own, self._ask(query)) if self._paths.takes(own.path))

    def find_in_the_way(self) -> Iterator[Own]:
        """The files of ``find_gone`` where the source has a directory now, or a file above them."""
        return (own for own in self.find_gone() if self._is_in_the_way(own.path))

    def _is_in_the_way(self, path: SafePath) -> bool:
        below = "SELECT 1 FROM listed WHERE path > ? || '/' AND path < ? || '0' LIMIT 1"  # 0 comes after /
        if next(self._ask(below, path, path), None) is not None:
            return True
        parents = [str(parent) for parent in PurePosixPath(path).parents]
        return any(next(self._ask("SELECT 1 FROM listed WHERE path = ?", name), None) for name in parents)

    def find_below_unproven(self) -> Iterator[tuple[str, Own]]:
        """The files of ``find_gone`` above which a file is listed without version and size, each after it.

        It may be their directory, whose name was listed without its slash.
        """
        query = "SELECT 1 FROM listed WHERE path = ? AND NOT is_file"
        for own in self.find_gone():
            for parent in map(str, PurePosixPath(own.path).parents):
                if next(self._ask(query, parent), None) is not None:
                    yield parent, own

    def find_own(self, path: SafePath) -> Own | None:
        """The file at a path, if it is the sync's own; this does not check that it is still there."""
        row = next(self._ask(f"{_OWN} AND path = ?", path), None)
        return None if row is None else self._check_own(row)

    def count_own(self) -> int:
        """The number of the sync's own files."""
        [(number,)] = self._ask("SELECT count(*) FROM files WHERE volume IS NOT NULL")
        return int(str(number))

    def enter(self, path: SafePath, own: Own | None) -> None:
        """Note that the listed file is in place; ``own`` None: the file in place is not the sync's own."""
        identity = (None,) * 5 if own is None else (own.volume, *own.identity)
        self._ask(
            "INSERT OR REPLACE INTO files SELECT path, version, ?, ?, ?, ?, ? FROM listed WHERE path = ?",
            *(*identity, path),
        )
        self._unwritten += 1
        if self._unwritten >= COMMIT_FILES:
            self.commit()

    def renew(self, path: SafePath, identity: Identity) -> None:
        """Note that the sync has changed times of its own file, and nothing else."""
        self._ask(
            "UPDATE files SET inode = ?, size_bytes = ?, changed_ns = ?, status_ns = ? WHERE path = ?",
            *(*identity, path),
        )

    def forget(self, path: SafePath) -> None:
        """Remove a file that has been deleted, or is no longer the sync's own."""
        self._ask("DELETE FROM files WHERE path = ?", path)

    def commit(self) -> None:
        """Write the files that were entered."""
        self._unwritten = 0
        self._ask("COMMIT")
        self._ask("BEGIN EXCLUSIVE")
