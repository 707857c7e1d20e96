"""Batches of a manifest that no machine holds: by the rules of ``shares``, over pieces in place of files.

A piece is what a hash puts together: some files of a host that needs several batches, or some small hosts.
There are some for each batch, so that dealing them out evens batches out, but no more in all than the driver
holds easily, however many files there are. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cfetch.spark.shares import MICRO, dealt_to, queues_for, target_s

__all__ = [
    "GIANT",
    "QUEUE",
    "SMALL",
    "Dealt",
    "Piece",
    "buckets",
    "dealt",
    "pieces_a_batch",
    "target",
]

SMALL, QUEUE, GIANT = range(3)
MOST_PIECES = 100_000  # some 40 MB of the driver's
EVENEST, COARSEST = 64, 4  # of files from 1 KB to 100 MB, batches are even to within 0.1 and to within 4 %


class Piece(NamedTuple):
    """``kind``: small hosts, a part of a large ``host``, or one file that is a batch's worth.

    ``cost`` is in microseconds. ``others``: with how many batches, itself among them, its hosts are shared
    apart from the queues of a large one.
    """

    kind: int
    host: str
    bucket: int
    cost: int
    files: int
    others: int


class Dealt(NamedTuple):
    """``batch_of``: of each piece, from 0, the longest batch first; the rest is of each batch."""

    batch_of: list[int]
    cost_s: list[float]
    files: list[int]
    sharers: list[int]
    host: list[str]


def target(total_s: float, slots: int) -> int:
    """Microseconds that a batch is to take."""
    return max(1, int(MICRO * target_s(total_s, slots)))


def pieces_a_batch(batches: int) -> int:
    """How many make up one of so many."""
    return min(EVENEST, max(COARSEST, MOST_PIECES // max(1, batches)))


def buckets(cost: int, files: int, target: int, a_batch: int) -> int:
    """Into how many pieces a hash is to part so much, with ``a_batch`` of them for each batch."""
    return a_batch * queues_for(cost, files, target)


def dealt(pieces: Sequence[Piece], target: int) -> Dealt:
    """Batches of about ``target`` microseconds. The order of ``pieces`` does not matter to what they hold."""
    order = sorted(range(len(pieces)), key=lambda at: pieces[at][:3])
    groups: dict[tuple[int, str], list[int]] = {}
    found: list[list[int]] = []
    for at in order:
        piece = pieces[at]
        if piece.kind == GIANT:
            found.append([at])
        else:
            groups.setdefault((piece.kind, piece.host), []).append(at)
    queues_of: dict[str, int] = {}
    for (kind, host), group in groups.items():
        costs = [pieces[at].cost for at in group]
        queues = queues_for(sum(costs), sum(pieces[at].files for at in group), target)
        some = [
            [group[one] for one in queue] for queue in dealt_to(range(len(group)), costs, queues) if queue
        ]
        found += some
        if kind == QUEUE:
            queues_of[host] = len(some)
    found.sort(key=lambda batch: sum(pieces[at].cost for at in batch), reverse=True)
    batch_of = [0] * len(pieces)
    for batch, members in enumerate(found):
        for at in members:
            batch_of[at] = batch
    return Dealt(
        batch_of,
        [sum(pieces[at].cost for at in batch) / MICRO for batch in found],
        [sum(pieces[at].files for at in batch) for batch in found],
        [max(pieces[at].others for at in b) + queues_of.get(pieces[b[0]].host, 0) for b in found],
        [pieces[batch[0]].host for batch in found],
    )
