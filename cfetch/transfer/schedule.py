"""Which entry starts next: largest first, and never more of one host than allowed. Pure.

Starting the large files first keeps one big file from being alone at the end (Graham's longest processing
time rule, makespan <= 4/3 of the best). Unknown sizes come first of all: they may be the largest.

A host at its cap must not hold up the others, so each host has its own queue and only hosts with a free
place stand in the heap.
"""

import heapq
from array import array
from collections.abc import Sequence

__all__ = ["Schedule"]


class Schedule:
    """Hands out entry indexes. ``sizes`` -1 is unknown; ``per_host`` None means that hosts have no cap.

    Memory: 4 bytes an entry. ``take`` and ``release`` cost O(log hosts).
    """

    def __init__(self, sizes: Sequence[int], host_of: Sequence[int], per_host: int | None) -> None:
        order = array("I", sorted(range(len(sizes)), key=lambda i: -sizes[i] if sizes[i] >= 0 else -(2**63)))
        self._sizes = sizes
        self._host_of = host_of
        self._per_host = per_host
        self._queues = [order] if per_host is None else _by_host(order, host_of)
        self._cursors = [0] * len(self._queues)
        self._running = [0] * len(self._queues)
        self._ready = [
            (self._rank(lane), lane) for lane in range(len(self._queues)) if len(self._queues[lane])
        ]
        heapq.heapify(self._ready)
        self.waiting = len(order)

    def take(self) -> int | None:
        """The next entry that may start; None if there is none left, or only for hosts at their cap."""
        if not self._ready:
            return None
        _, lane = self._ready[0]
        index = self._queues[lane][self._cursors[lane]]
        self._cursors[lane] += 1
        self._running[lane] += 1
        self.waiting -= 1
        if self._has_place(lane):
            heapq.heapreplace(self._ready, (self._rank(lane), lane))
        else:
            heapq.heappop(self._ready)
        return index

    def release(self, index: int) -> None:
        """Entry ``index`` is over; its host has a place again."""
        lane = 0 if self._per_host is None else self._host_of[index]
        had_place = self._has_place(lane)
        self._running[lane] -= 1
        if not had_place and self._has_place(lane):
            heapq.heappush(self._ready, (self._rank(lane), lane))

    def _has_place(self, lane: int) -> bool:
        free = self._per_host is None or self._running[lane] < self._per_host
        return free and self._cursors[lane] < len(self._queues[lane])

    def _rank(self, lane: int) -> int:
        size = self._sizes[self._queues[lane][self._cursors[lane]]]
        return -size if size >= 0 else -(2**63)


def _by_host(order: "array[int]", host_of: Sequence[int]) -> "list[array[int]]":
    queues: list[array[int]] = [array("I") for _ in range(max(host_of, default=-1) + 1)]
    for index in order:
        queues[host_of[index]].append(index)
    return queues
