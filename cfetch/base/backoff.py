"""Waits that double up to a limit (pure)."""

from typing import TypeVar

N = TypeVar("N", int, float)
_MOST_DOUBLINGS = 64  # more of them make no wait longer, and cost no overflow


def double(latest: N, most: N) -> N:
    """The wait, or the number, after ``latest``: twice as much, but no more than ``most``."""
    return min(2 * latest, most)


def double_from(first: float, doublings: int, most: float) -> float:
    """The wait after so many doublings of ``first``, but no longer than ``most``."""
    return min(most, first * 2.0 ** min(doublings, _MOST_DOUBLINGS))
