"""The log of an observed source: what changed there since cfetch first looked, in one SQLite file.

Most public sources tell what they have, but not what was removed. The log gives their changes LSNs: it
compares each answer of the source with what it holds, and adds only the differences. They are written in one
transaction with the cursor behind them, so that a kill loses nothing and repeats nothing.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cfetch.base.errors import HostileFeed
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry, safe_path
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.protocol import parse_change
from cfetch.plugins.follow.ranges import key_of
from cfetch.plugins.follow.source import Change, Page
from cfetch.storage.files import on_disk
from cfetch.storage.own_databases import explain_errors, open_database

LOG_NAME = "observed.sqlite"
VERSION = 1
TIDY_LSNS = 100_000  # to look for versions that were replaced takes some seconds in a log of millions
_TABLES = """
    CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS changes (
        lsn INTEGER PRIMARY KEY, path TEXT NOT NULL, entry BLOB, stamp TEXT NOT NULL, waits INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS changes_by_path ON changes (path, lsn);
"""
_LATEST = "SELECT path, entry, stamp, max(lsn) FROM changes WHERE path >= ? AND path < ? GROUP BY path"
_OVERTAKEN = "DELETE FROM changes WHERE lsn NOT IN (SELECT max(lsn) FROM changes GROUP BY path)"
_LAST_PATH = "\U0010ffff\U0010ffff"


class Seen(NamedTuple):
    """A file as a source states it. ``row``: a manifest's row without the path; None: the file was removed.

    ``stamp``: a text that is another one for each version, for sources whose rows may stay the same.
    ``waits``: the file may be published only when all files that were stated before it are in place.
    """

    path: str
    row: Mapping[str, Any] | None
    stamp: str = ""
    waits: bool = False


def see_object(path: str, size: int | None, *, base_url: str, waits: bool = False) -> Seen:
    """State a file below ``base_url`` in an object store; ``size`` None: it is not known."""
    row: dict[str, object] = {"url": f"{base_url}/{path}"} | ({} if size is None else {"size": size})
    return Seen(path, row, waits=waits)


class News(NamedTuple):
    """An answer of a source. ``cursor``: where the next question begins.

    ``wholes``: intervals of paths (from the first on, below the second; "" is beyond all) of which ``seen``
    names every file: all others there have gone. ``is_last``: the source has nothing more now.
    """

    cursor: str
    seen: Sequence[Seen] = ()
    wholes: Sequence[tuple[str, str]] = ()
    is_last: bool = True


def interval_below(directory: str) -> tuple[str, str]:
    """The interval of all paths below a directory."""
    return f"{directory}/", f"{directory}0"  # 0 is the character after the slash


def forget_log(directory: Path) -> None:
    """Remove the log, if there is one: the source will be listed anew. Raises LocalFault."""
    with on_disk(directory):
        for name in (LOG_NAME, f"{LOG_NAME}-journal"):
            (directory / name).unlink(missing_ok=True)


class ChangeLog:
    """The log in ``directory``, made there if there is none. Close it.

    ``feed`` is its random id: another log gives its LSNs to other changes. All methods raise LocalFault if
    the file cannot be read or written.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOG_NAME
        with self._explain_errors(), open_database(self._path) as self._database:
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise ValueError("a later cfetch has written it")
            self._database.executescript(_TABLES)
            self._database.execute(f"PRAGMA user_version = {VERSION}")
            self._database.execute("INSERT OR IGNORE INTO marks VALUES ('feed', ?)", (secrets.token_hex(16),))
            self.feed: str = self._read_mark("feed")
            self._forget_overtaken()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def read_cursor(self) -> str:
        """Where to ask the source on; "" if it has not been asked."""
        with self._explain_errors():
            return self._read_mark("cursor")

    def last_lsn(self) -> int:
        """The LSN of the last change; 0 if there is none."""
        with self._explain_errors():
            return int(self._database.execute("SELECT coalesce(max(lsn), 0) FROM changes").fetchone()[0])

    def list_directories(self) -> set[str]:
        """The first parts of the paths of all files that stand."""
        with self._explain_errors():
            rows = self._database.execute(_LATEST, ("", _LAST_PATH))
            return {path.partition("/")[0] for path, entry, *_ in rows if entry is not None}

    def read_page(self, next_lsn: int, limit: int) -> Page:
        """At most ``limit`` changes from an LSN on."""
        query = "SELECT lsn, path, entry, waits FROM changes WHERE lsn >= ? ORDER BY lsn LIMIT ?"
        with self._explain_errors():
            rows = self._database.execute(query, (next_lsn, limit)).fetchall()
            changes = tuple(_restore(*row) for row in rows)
        return Page(changes, changes[-1].lsn + 1 if changes else next_lsn)

    def add(self, news: News, asked_from: str, shown: str) -> list[str]:
        """Write the differences down, unless another process has gone on from the cursor ``asked_from``.

        Deletes of what ``wholes`` lack come first: they make room, and a file may be where there was a
        directory. If a file waits for others, they come last, and wait for it.

        Files whose rows break the rules are left out; what stands at their paths stays. Returns the reasons,
        in which the source is ``shown``.

        Raises:
            HostileFeed: a row breaks the rules, and a file waits for others, so all of them are needed.
        """
        has_order = any(each.waits for each in news.seen)
        taken: list[tuple[Seen, Change]] = []
        left_out: list[str] = []
        for each in news.seen:
            try:
                taken.append((each, _check(each, shown)))
            except HostileFeed as fault:
                if has_order:
                    raise
                left_out.append(str(fault))
        with self._explain_errors(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            if self._read_mark("cursor") != asked_from:
                return []
            gone = self._list_gone(news.wholes, {each.path for each in news.seen})
            if not has_order:
                self._append_deletes(gone, waits=False)
            for each, change in taken:
                entry = None if change.entry is None else msgspec.msgpack.encode(change.entry)
                if self._find_latest(change.path) != (entry, each.stamp if entry else ""):
                    self._append(change.path, entry, each.stamp if entry else "", waits=each.waits)
            if has_order:
                self._append_deletes(gone, waits=True)
            self._database.execute("REPLACE INTO marks VALUES ('cursor', ?)", (news.cursor,))
        return left_out

    def _read_mark(self, name: str) -> str:
        row = self._database.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def _forget_overtaken(self) -> None:
        """Forget versions that were replaced, if many changes have come since that was done last."""
        (last,) = self._database.execute("SELECT coalesce(max(lsn), 0) FROM changes").fetchone()
        if last - int(self._read_mark("tidied_at") or 0) >= TIDY_LSNS:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.execute(_OVERTAKEN)
                self._database.execute("REPLACE INTO marks VALUES ('tidied_at', ?)", (str(last),))

    def _list_gone(self, wholes: Iterable[tuple[str, str]], named: set[str]) -> list[str]:
        return [
            path
            for low, high in wholes
            for path, entry, *_ in self._database.execute(_LATEST, (low, high or _LAST_PATH)).fetchall()
            if entry is not None and path not in named
        ]

    def _find_latest(self, path: str) -> tuple[bytes | None, str]:
        """The entry and the stamp of a path; None and "" if the file has gone, or never was there."""
        query = "SELECT entry, stamp FROM changes WHERE path = ? ORDER BY lsn DESC LIMIT 1"
        return self._database.execute(query, (path,)).fetchone() or (None, "")

    def _append_deletes(self, paths: Iterable[str], *, waits: bool) -> None:
        for path in paths:
            self._append(path, None, "", waits=waits)

    def _append(self, path: str, entry: bytes | None, stamp: str, *, waits: bool) -> None:
        self._database.execute("INSERT INTO changes VALUES (NULL, ?, ?, ?, ?)", (path, entry, stamp, waits))

    def _explain_errors(self) -> AbstractContextManager[None]:
        return explain_errors(self._path, "the log of the observed source", "--resync begins a new one")


def _check(seen: Seen, shown: str) -> Change:
    op, what = "delete" if seen.row is None else "upsert", f"{printable(seen.path, 200)} of {shown}"
    return parse_change({**(seen.row or {}), "lsn": 0, "op": op, "path": seen.path}, Document(), what)


def _restore(lsn: int, path: str, packed: bytes | None, waits: int) -> Change:
    entry = None if packed is None else msgspec.msgpack.decode(packed, type=Entry)
    return Change(lsn, key_of(path), safe_path(path), entry, bool(waits))
