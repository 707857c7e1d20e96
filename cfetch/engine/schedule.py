"""What starts next: largest first among the hosts that bear one more. Pure.

Starting the large files first keeps one big file from being alone at the end (Graham's longest processing
time rule, makespan <= 4/3 of the best). Unknown sizes come first of all: they may be the largest.

A host that is at its cap, held or broken must not hold up the others, so each host has its own lane, and
only lanes that may start something stand in the heap. An entry that waits for its next try waits in its lane
too, and not in a worker's hands; when its time has come it goes before the lane's new entries.
"""

import heapq
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["NEVER", "Schedule"]

NEVER = float("inf")
Waiting = TypeVar("Waiting")


class Schedule(Generic[Waiting]):
    """Hands out entry indexes, and what was put back for another try.

    Args:
        sizes: bytes by entry; -1 is unknown.
        lane_of: number of its host by entry, from 0 to ``lanes`` - 1.
        lanes: how many hosts there are.
        opens_s: when something of a lane may start (or has to fail): the given time, a later one, or
            ``NEVER``, which means not before ``reopen`` is called.
        most_put_back: with so many waiting for another try nothing new is handed out; bounds memory.
        released: whether entries may be handed out from the start, or only lane by lane (``release``).

    Memory: 4 bytes an entry, 14 a lane. ``take`` costs O(log lanes).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        lane_of: Sequence[int],
        lanes: int,
        *,
        opens_s: Callable[[int, int | Waiting, float], float],
        most_put_back: int,
        released: bool = True,
    ) -> None:
        self._sizes = sizes
        self._opens_s = opens_s
        self._most_put_back = most_put_back
        by_size = sorted(range(len(sizes)), key=lambda i: -sizes[i] if sizes[i] >= 0 else -(2**63))
        self._order = array("I", sorted(by_size, key=lane_of.__getitem__) if lanes > 1 else by_size)
        self._next, self._end = _bounds(lane_of, lanes)
        self._start = self._next[:]
        self._released = bytearray([released]) * lanes
        self._back: dict[int, list[tuple[float, int, Waiting]]] = {}  # heaps by lane
        self._counter = 0
        self.fresh = len(self._order)
        self.put_back = 0
        self._stands = bytearray(lanes)  # 1: the lane is in the heap of those that may start
        self._ready: list[tuple[int, int, int]] = []  # rank, turn, lane: hosts with equal sizes take turns
        self._turn = 0
        self._later: list[tuple[float, int]] = []  # when to look at a lane again; too often does no harm
        self._shut: set[int] = set()  # lanes whose next may not start until something ends
        self._parked: dict[int, list[Waiting]] = {}  # the same for what was put back, by lane
        self._crowded_out: set[int] = set()  # lanes whose new entries wait until fewer are put back
        for lane in range(lanes):
            self.reopen(lane)

    @property
    def waiting(self) -> int:
        """Entries that are not under way."""
        return self.fresh + self.put_back

    def left(self, lane: int) -> int:
        """The same of one lane."""
        back = len(self._back.get(lane, ())) + len(self._parked.get(lane, ()))
        return self._end[lane] - self._next[lane] + back

    def take(self, now_s: float) -> int | Waiting | None:
        """What may start now; None if there is nothing, or only later (see ``next_s``)."""
        while self._later and self._later[0][0] <= now_s:
            self.reopen(heapq.heappop(self._later)[1])
        while self._ready:
            lane = self._ready[0][2]
            if not self._released[lane]:
                heapq.heappop(self._ready)
                self._stands[lane] = 0
                continue
            found: int | Waiting | None = self._put_back_first(lane, now_s)
            at_s = now_s
            if found is None:
                fresh = found = self._fresh_first(lane)
                at_s = NEVER if fresh is None else self._opens_s(lane, fresh, now_s)
                if at_s <= now_s:
                    self._next[lane] += 1
                    self.fresh -= 1
            if found is not None and at_s <= now_s:
                heapq.heapreplace(self._ready, self._place(lane))
                while self._crowded_out and self.put_back < self._most_put_back:
                    self.reopen(self._crowded_out.pop())
                return found
            heapq.heappop(self._ready)
            self._stands[lane] = 0
            if found is not None and at_s < NEVER:
                heapq.heappush(self._later, (at_s, lane))
            elif found is not None:
                self._shut.add(lane)
            elif self._next[lane] < self._end[lane]:
                self._crowded_out.add(lane)
        return None

    def next_s(self) -> float:
        """When ``take`` may find something by time alone."""
        return self._later[0][0] if self._later else NEVER

    def put(self, lane: int, waiting: Waiting, due_s: float) -> None:
        """Put something back whose next try may start at ``due_s``."""
        self._wait(lane, waiting, due_s)
        self.put_back += 1

    def _wait(self, lane: int, waiting: Waiting, due_s: float) -> None:
        self._counter += 1
        heapq.heappush(self._back.setdefault(lane, []), (due_s, self._counter, waiting))
        heapq.heappush(self._later, (due_s, lane))

    def reopen(self, lane: int) -> None:
        """The lane's host may take one more."""
        if not self._released[lane]:
            return
        self._shut.discard(lane)
        self._crowded_out.discard(lane)
        for waiting in self._parked.pop(lane, ()):
            self._wait(lane, waiting, 0.0)
        if not self._stands[lane] and (self._next[lane] < self._end[lane] or lane in self._back):
            self._stands[lane] = 1
            heapq.heappush(self._ready, self._place(lane))

    def release(self, lane: int) -> None:
        """From now on its entries may be handed out."""
        self._released[lane] = 1
        self.reopen(lane)

    def withdraw(self, lane: int) -> list[Waiting]:
        """Take the lane back until it is released again, and then all its entries begin anew.

        Returns what was put back, to be ended. What the lane has handed out is the caller's to end.
        """
        self._released[lane] = 0
        self._shut.discard(lane)
        self._crowded_out.discard(lane)
        back = [waiting for _, _, waiting in self._back.pop(lane, ())] + self._parked.pop(lane, [])
        self.put_back -= len(back)
        self.fresh += self._next[lane] - self._start[lane]
        self._next[lane] = self._start[lane]
        return back

    def close(self, lane: int) -> None:
        """Nothing of the lane is handed out any more; nothing of it was put back."""
        self._released[lane] = 0
        self._shut.discard(lane)
        self._crowded_out.discard(lane)
        self.fresh -= self._end[lane] - self._next[lane]
        self._next[lane] = self._end[lane]

    def reopen_shut(self) -> None:
        """Some host has a place that entries of other lanes may take."""
        for lane in [*self._shut, *self._parked]:
            self.reopen(lane)

    def drain(self) -> Iterator[Waiting]:
        """All that was put back, to be ended."""
        heaps, self._back, self.put_back = self._back, {}, 0
        parked, self._parked = self._parked, {}
        for heap in heaps.values():
            yield from (waiting for _, _, waiting in heap)
        for waiting in parked.values():
            yield from waiting

    def _put_back_first(self, lane: int, now_s: float) -> Waiting | None:
        """The first that is due and may start; those that may not yet do not hold up the others."""
        back = self._back.get(lane)
        while back and back[0][0] <= now_s:
            waiting = heapq.heappop(back)[2]
            if not back:
                del self._back[lane]
            at_s = self._opens_s(lane, waiting, now_s)
            if at_s <= now_s:
                self.put_back -= 1
                return waiting
            if at_s < NEVER:
                self._wait(lane, waiting, at_s)
            else:
                self._parked.setdefault(lane, []).append(waiting)
            back = self._back.get(lane)
        return None

    def _fresh_first(self, lane: int) -> int | None:
        if self.put_back >= self._most_put_back or self._next[lane] == self._end[lane]:
            return None
        return self._order[self._next[lane]]

    def _place(self, lane: int) -> tuple[int, int, int]:
        self._turn += 1
        return self._rank(lane), self._turn, lane

    def _rank(self, lane: int) -> int:
        if self._next[lane] == self._end[lane]:
            return 0
        size = self._sizes[self._order[self._next[lane]]]
        return -size if size >= 0 else -(2**63)


def _bounds(lane_of: Sequence[int], lanes: int) -> "tuple[array[int], array[int]]":
    """Where each lane's stretch of the order begins and ends."""
    ends = array("I", bytes(4 * lanes))
    for lane in lane_of:
        ends[lane] += 1
    starts = array("I", bytes(4 * lanes))
    for lane in range(1, lanes):
        starts[lane] = ends[lane - 1]
        ends[lane] += ends[lane - 1]
    return starts, ends
