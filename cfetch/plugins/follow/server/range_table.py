"""The ranges of a feed as the reference server keeps them: all in its database, the live ones in memory too.

A range is a number, its keys, and the LSNs that it has given: from ``first`` to before ``next``. A split of
a range, or a merge of two neighbours, closes them and adds children. Children begin behind the last LSN of
their parents, so that LSNs rise along every line of descent. A child's number is higher than its parents', so
the ancestors of all ranges can be collected in one walk by number.
"""

import sqlite3
from bisect import bisect_right
from typing import NamedTuple

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Range

MAX_LIVE = 4096  # ranges: a list of them has to be fetched as a whole
_KEY_BYTES = 16
TABLES = """
CREATE TABLE ranges(number INTEGER PRIMARY KEY, low BLOB NOT NULL, high BLOB, live INTEGER NOT NULL,
    first INTEGER NOT NULL, next INTEGER NOT NULL, kept_from INTEGER NOT NULL);
CREATE TABLE parents(child INTEGER NOT NULL, parent INTEGER NOT NULL,
    PRIMARY KEY(child, parent)) WITHOUT ROWID;
"""


class Extent(NamedTuple):
    """The LSNs of a range: ``first`` to before ``next`` were given, those from ``kept_from`` on are kept."""

    live: int
    first: int
    next: int
    kept_from: int


class _Live(NamedTuple):
    number: int
    low: int
    high: int


class RangeTable:
    """Methods with a ``cursor`` read or change the database; ``load`` first."""

    def __init__(self) -> None:
        self._live: list[_Live] = []
        self._ancestors: dict[int, set[int]] = {}

    def load(self, cursor: sqlite3.Cursor) -> None:
        """Load into memory the data that every request needs and that changes rarely."""
        ancestors: dict[int, set[int]] = {}
        for child, parent in cursor.execute("SELECT child, parent FROM parents ORDER BY child"):
            above = ancestors.setdefault(child, set())
            above |= {parent, *ancestors.get(parent, ())}
        self._ancestors = ancestors
        rows = cursor.execute("SELECT number, low, high FROM ranges WHERE live ORDER BY low")
        self._live = [_Live(number, decode_key(low), _decode_high(high)) for number, low, high in rows]

    def ancestors(self, number: int) -> frozenset[int]:
        """All ranges that a range archives."""
        return frozenset(self._ancestors.get(number, ()))

    def owners_of(self, keys: list[int]) -> list[int]:
        """The live range of each key."""
        lows = [live.low for live in self._live]
        return [self._live[bisect_right(lows, key) - 1].number for key in keys]

    def list_live(self, cursor: sqlite3.Cursor) -> tuple[Range, ...]:
        """The live ranges by their keys, as they are in the database now."""
        rows = cursor.execute("SELECT number, low, high FROM ranges WHERE live ORDER BY low").fetchall()
        return tuple(
            Range(
                str(number),
                KeyRange(decode_key(low), _decode_high(high)),
                frozenset(map(str, self.ancestors(number))),
            )
            for number, low, high in rows
        )

    def find_extent(self, cursor: sqlite3.Cursor, of: str, via: str) -> Extent | None:
        """The LSNs of range ``of``; None: ``via`` is not live.

        Raises UsageError: ``via`` does not archive it.
        """
        query = "SELECT live, first, next, kept_from FROM ranges WHERE number=?"
        row = cursor.execute(query, (number_of(via),)).fetchone()
        if row is None or not row[0]:
            return None
        if of != via:
            if number_of(of) not in self.ancestors(number_of(via)):
                raise UsageError(f"range {printable(via)} does not archive range {printable(of)}")
            row = cursor.execute(query, (number_of(of),)).fetchone()
        return Extent(*row)

    def add(self, cursor: sqlite3.Cursor, keys: KeyRange, *, first: int, parents: tuple[int, ...]) -> int:
        """Add a live range and return its number. It is not in memory before ``load``."""
        (number,) = cursor.execute("SELECT coalesce(max(number) + 1, 0) FROM ranges").fetchone()
        high = None if keys.high == ALL_KEYS.high else encode_key(keys.high)
        row = (number, encode_key(keys.low), high, 1, first, first, first)
        cursor.execute("INSERT INTO ranges VALUES(?,?,?,?,?,?,?)", row)
        cursor.executemany("INSERT INTO parents VALUES(?,?)", ((number, parent) for parent in parents))
        return int(number)

    def split(self, cursor: sqlite3.Cursor, of: str | None) -> tuple[str, tuple[str, ...]]:
        """Split a live range in the middle of its keys; without a name, the one with the most entries.

        Returns it and its children. Raises UsageError: it is not live, or cannot be split further.
        """
        if of is None:
            query = "SELECT number FROM ranges WHERE live ORDER BY next - first DESC, number LIMIT 1"
            of = str(cursor.execute(query).fetchone()[0])
        live = self._find_live(of)
        if len(self._live) >= MAX_LIVE:
            raise UsageError(f"the feed has {MAX_LIVE} live ranges, as many as it may have")
        if live.high - live.low == 1:
            raise UsageError(f"range {live.number} has a single key and cannot be split")
        return of, self._halve(cursor, live)

    def split_if_possible(self, cursor: sqlite3.Cursor, number: int) -> None:
        """Split a live range, unless it has a single key or there are as many ranges as there may be."""
        live = self._find_live(str(number))
        if len(self._live) < MAX_LIVE and live.high - live.low > 1:
            self._halve(cursor, live)

    def _halve(self, cursor: sqlite3.Cursor, live: _Live) -> tuple[str, ...]:
        middle = (live.low + live.high) // 2
        halves = (KeyRange(live.low, middle), KeyRange(middle, live.high))
        return self._replace(cursor, (live.number,), halves)

    def merge(self, cursor: sqlite3.Cursor, names: tuple[str, str]) -> str:
        """Make one range of two live neighbours. Raises UsageError: they are not live neighbours."""
        lower, upper = sorted(map(self._find_live, names), key=lambda live: live.low)
        if lower.high != upper.low:
            raise UsageError(f"ranges {names[0]} and {names[1]} are not neighbours")
        merged = (KeyRange(lower.low, upper.high),)
        (child,) = self._replace(cursor, (lower.number, upper.number), merged)
        return child

    def _replace(
        self, cursor: sqlite3.Cursor, parents: tuple[int, ...], parts: tuple[KeyRange, ...]
    ) -> tuple[str, ...]:
        first = 0
        for parent in parents:
            cursor.execute("UPDATE ranges SET live=0 WHERE number=?", (parent,))
            (head,) = cursor.execute("SELECT next FROM ranges WHERE number=?", (parent,)).fetchone()
            first = max(first, head)
        children = tuple(str(self.add(cursor, keys, first=first, parents=parents)) for keys in parts)
        cursor.execute("UPDATE marks SET value = value + 1 WHERE name='generation'")
        self.load(cursor)
        return children

    def _find_live(self, name: str) -> _Live:
        for live in self._live:
            if str(live.number) == name:
                return live
        raise UsageError(f"there is no live range {printable(name)!r}")


def number_of(name: str) -> int:
    """A range's number; -1, which no range has, for a text that is not such a number."""
    is_ours = name.isascii() and name.isdigit() and len(name) < 16 and str(int(name)) == name
    return int(name) if is_ours else -1


def encode_key(key: int) -> bytes:
    """Encode a key so that SQLite compares it like a number; the end of all keys does not fit."""
    return key.to_bytes(_KEY_BYTES)


def decode_key(blob: bytes) -> int:
    """The key of ``encode_key``."""
    return int.from_bytes(blob)


def _decode_high(blob: bytes | None) -> int:
    return ALL_KEYS.high if blob is None else decode_key(blob)
