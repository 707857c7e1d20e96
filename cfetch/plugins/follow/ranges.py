"""The parts of a feed: ranges of keys, and the intervals of LSNs that they own. Pure.

A key is a number below 2**128. All ranges in this room exclude their upper end. An LSN counts within its
range only: siblings after a split both own LSN 5001, so an entry's identity is (range, LSN), never the LSN
alone.
"""

import hashlib
from typing import NamedTuple

KEY_BITS = 128  # as in Kinesis; the keys are hashes, which spread any number of names evenly


class KeyRange(NamedTuple):
    """The keys from ``low`` on and below ``high``."""

    low: int
    high: int

    def holds(self, key: int) -> bool:
        """Whether the key is one of these."""
        return self.low <= key < self.high

    def intersect(self, other: "KeyRange") -> "KeyRange | None":
        """The keys that both have; None if there are none."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return KeyRange(low, high) if low < high else None


ALL_KEYS = KeyRange(0, 1 << KEY_BITS)


class Range(NamedTuple):
    """A live range as its backend lists it. ``ancestors``: all known ones, in no order."""

    id: str
    keys: KeyRange
    ancestors: frozenset[str] = frozenset()


class Span(NamedTuple):
    """The LSNs that a range owns: from ``first`` to ``last``, both included; None: it is live and grows.

    A closed range that never had an entry has ``last == first - 1``.
    """

    first: int
    last: int | None


class Position(NamedTuple):
    """The position of a reader: ``next_lsn`` is the first LSN of the range that it has not seen.

    ``mark``: the mark that the feed gave to the change before it; "" if the feed gives none. A feed that was
    restored from a backup gives an LSN again, but with another mark.
    """

    range: str
    next_lsn: int
    mark: str = ""


def key_of(name: str) -> int:
    """The key of a name if the feed states no other: the first 16 bytes of its SHA-256."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[: KEY_BITS // 8])
