"""Shares of a manifest that no machine holds: ``shares`` deals out pieces instead of files.

A hash groups entries into pieces: a piece is some files of a host that needs several shares, or some small
hosts. There are several pieces for each share, so that shares become even, but altogether not more than the
driver can easily hold, however many files there are. Pure.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from cfetch.shares.cut import deal_items

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
    """``share_of``: the share of each piece, from 0; other fields are by share.

    ``host``: the only host of the share; empty: it has several.
    """

    share_of: Sequence[int]
    cost_s: list[float]
    sharers: list[int]
    host: list[str]


def count_pieces_per_share(shares: int) -> int:
    """How many pieces make up a share, if there are so many shares."""
    return min(EVENEST, max(COARSEST, MOST_PIECES // max(1, shares)))


def deal_pieces(pieces: Sequence[Piece], target: int) -> Deal:
    """Make shares of about ``target`` microseconds, as ``shares`` does of files."""
    numbers: dict[tuple[str, int], int] = {}
    names = [(piece.host, piece.bucket if piece.kind == SMALL else 0) for piece in pieces]
    host_of = [numbers.setdefault(name, len(numbers)) for name in names]
    costs, files = [piece.cost for piece in pieces], [piece.files for piece in pieces]
    cut = deal_items(costs, files, host_of, target=target)
    shares = [[pieces[number] for number in members] for members in cut.list_members(range(len(pieces)))]
    queues_of = Counter(host for share in shares for host in {p.host for p in share if p.kind == QUEUE})
    hosts = [{piece.host for piece in share} for share in shares]
    return Deal(
        cut.share_of,
        cut.cost_s,
        [max(piece.others + queues_of[piece.host] for piece in share) for share in shares],
        [share[0].host if len(names) == 1 else "" for share, names in zip(shares, hosts, strict=True)],
    )
