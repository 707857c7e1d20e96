"""Will a plan fit on its volumes, batch by batch? Pure; asked before anything is downloaded.

The sum of the free space tells little: no batch is divided, so space that is left on each of two disks may be
too little for one batch. This places the batches as a run does that measures no difference between its disks,
the largest first, each where most room is left. A run in which disks differ places other batches on each of
them, but the same bytes in all.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple


class Foresight(NamedTuple):
    """``left_bytes``: the room by disk at the end. ``homeless``: positions of batches that fit nowhere.

    ``placed_bytes`` are those that were placed before the first of ``homeless``; all if there is none.
    ``most_bytes``: the largest room that was left on a disk then.
    """

    left_bytes: tuple[int, ...]
    homeless: tuple[int, ...]
    placed_bytes: int
    most_bytes: int


def foresee(batches: Sequence[int], rooms: Sequence[int]) -> Foresight:
    """Place ``batches``, given in bytes, the largest first, on disks with so many bytes of room each."""
    by_room = [(-room, disk) for disk, room in enumerate(rooms)]
    heapify(by_room)
    homeless: list[int] = []
    placed_bytes = most_bytes = 0
    for position in sorted(range(len(batches)), key=batches.__getitem__, reverse=True):
        size_bytes, (room, disk) = batches[position], by_room[0]
        if size_bytes > -room:
            most_bytes = most_bytes if homeless else -room
            homeless.append(position)
            continue
        heapreplace(by_room, (room + size_bytes, disk))
        placed_bytes += 0 if homeless else size_bytes
    left_bytes = tuple(-room for room, _ in sorted(by_room, key=lambda pair: pair[1]))
    return Foresight(left_bytes, tuple(homeless), placed_bytes, most_bytes)
