"""Decides which share a node brings next. Pure.

A share has turns, from 0. A claim is for one turn of one share, and belongs to one node for ever. A later
turn of a share begins only when the node of the last turn is dead.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

MOST_TURNS = 20  # of one share: then the share itself seems to kill its nodes


class Claim(NamedTuple):
    """A turn of a share. ``node`` is the name of its node."""

    share: int
    turn: int
    node: str

    @property
    def name(self) -> str:
        """The name of its file, which only one node can make."""
        return f"{self.share}-{self.turn}"


class Wanted(NamedTuple):
    """A turn of a share that nobody has claimed yet."""

    share: int
    turn: int


def choose_claim(
    shares: int, over: Collection[int], last: Mapping[int, Claim], is_dead: Callable[[str], bool]
) -> Wanted | None:
    """Choose the turn to claim: of a share without a claim if there is one, else of a dead node's share.

    ``shares``: their number; those with low numbers take longest. ``over``: they have receipts. ``last``: the
    last claim of each share that has one. None: all shares are over, or have a node that may be alive.
    """
    left = [share for share in range(shares) if share not in over]
    for share in left:
        if share not in last:
            return Wanted(share, 0)
    for share in left:
        if is_dead(last[share].node):
            return Wanted(share, last[share].turn + 1)
    return None


def parse_claim(name: str) -> Wanted | None:
    """Read the name of a claim's file; None: it is another file."""
    share, _, turn = name.partition("-")
    if share.isascii() and share.isdecimal() and turn.isascii() and turn.isdecimal():
        return Wanted(int(share), int(turn))
    return None


def number_task(shares: int, share: int, turn: int) -> int:
    """The number of the task that brings a turn: no other turn of any share has it."""
    return turn * shares + share + 1
