"""Shares of a manifest that no machine holds: by the rules of ``shares``, over pieces instead of files.

A hash groups entries into pieces: a piece is some files of a host that needs several shares, or some small
hosts. There are several pieces for each share, so that shares become even, but altogether not more than the
driver can easily hold, however many files there are. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cfetch.shares.cut import MICRO, choose_target_s, count_shares, deal_out

SMALL, QUEUE, GIANT = range(3)
MOST_PIECES = 100_000  # some 40 MB of the driver's memory
EVENEST, COARSEST = 64, 4  # pieces a share; with files of 1 KB to 100 MB, shares differ by 0.1 % and by 4 %


class Piece(NamedTuple):
    """``kind``: small hosts, a part of a large ``host``, or one file that is a whole share.

    ``cost`` is in microseconds. ``others``: how many shares, its own included, ask its hosts, without the
    queues of a large host.
    """

    kind: int
    host: str
    bucket: int
    cost: int
    files: int
    others: int


class Deal(NamedTuple):
    """``share_of``: the share of each piece, from 0, the longest first; other fields are by share."""

    share_of: list[int]
    cost_s: list[float]
    files: list[int]
    sharers: list[int]
    host: list[str]


def choose_target(total_s: float, slots: int) -> int:
    """Choose the microseconds that a share should take."""
    return max(1, int(MICRO * choose_target_s(total_s, slots)))


def count_pieces_per_share(shares: int) -> int:
    """How many pieces make up a share, if there are so many shares."""
    return min(EVENEST, max(COARSEST, MOST_PIECES // max(1, shares)))


def count_buckets(cost: int, files: int, target: int, per_share: int) -> int:
    """Count the pieces into which a hash divides this work, with ``per_share`` of them for each share."""
    return per_share * count_shares(cost, files, target)


def deal_pieces(pieces: Sequence[Piece], target: int) -> Deal:
    """Make shares of about ``target`` microseconds; the result does not depend on the order of ``pieces``."""
    order = sorted(range(len(pieces)), key=lambda number: pieces[number][:3])
    groups: dict[tuple[int, str], list[int]] = {}
    shares: list[list[int]] = []
    for number in order:
        piece = pieces[number]
        if piece.kind == GIANT:
            shares.append([number])
        else:
            groups.setdefault((piece.kind, piece.host), []).append(number)
    queues_of: dict[str, int] = {}
    for (kind, host), group in groups.items():
        costs = [pieces[number].cost for number in group]
        queues = count_shares(sum(costs), sum(pieces[number].files for number in group), target)
        hands = deal_out(range(len(group)), costs, queues)
        filled = [[group[position] for position in hand] for hand in hands if hand]
        shares += filled
        if kind == QUEUE:
            queues_of[host] = len(filled)
    shares.sort(key=lambda share: sum(pieces[number].cost for number in share), reverse=True)
    share_of = [0] * len(pieces)
    for share, members in enumerate(shares):
        for number in members:
            share_of[number] = share
    return Deal(
        share_of,
        [sum(pieces[number].cost for number in share) / MICRO for share in shares],
        [sum(pieces[number].files for number in share) for share in shares],
        [
            max(pieces[number].others for number in share) + queues_of.get(pieces[share[0]].host, 0)
            for share in shares
        ],
        [pieces[share[0]].host for share in shares],
    )
