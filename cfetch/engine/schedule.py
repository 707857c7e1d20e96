"""What starts next: largest first among the hosts that bear one more. Pure.

Starting the large files first keeps one big file from being alone at the end (Graham's longest processing
time rule, makespan <= 4/3 of the best). Unknown sizes come first of all: they may be the largest.

A host that is at its cap, held or broken must not hold up the others, so each host has its own queue, and
only queues that may start something stand in the heap. An entry that waits for its next attempt waits in
its queue too, and not in a worker's hands; when its time has come it goes before the queue's new entries.
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
        queue_of: number of its host by entry, from 0 to ``queues`` - 1.
        queues: how many hosts there are.
        opens_s: when something of a queue may start (or has to fail): the given time, a later one, or
            ``NEVER``, which means not before ``reopen`` is called.
        most_put_back: with so many waiting for another try nothing new is handed out; bounds memory.
        released: whether entries may be handed out from the start, or only queue by queue (``release``).
        backwards: the smallest first, and of equals the last: a copy of a run begins at the other end.

    Memory: 4 bytes an entry, 14 a queue. ``take`` costs O(log queues).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        queue_of: Sequence[int],
        queues: int,
        *,
        opens_s: Callable[[int, int | Waiting, float], float],
        most_put_back: int,
        released: bool = True,
        backwards: bool = False,
    ) -> None:
        self._opens_s = opens_s
        self._most_put_back = most_put_back
        rank = _smallest_first if backwards else _largest_first
        self._rank_of: Callable[[int], int] = lambda index: rank(sizes[index])
        by_size = sorted(range(len(sizes))[:: -1 if backwards else 1], key=self._rank_of)
        self._order = array("I", sorted(by_size, key=queue_of.__getitem__) if queues > 1 else by_size)
        self._next, self._end = _bounds(queue_of, queues)
        self._start = self._next[:]
        self._released = bytearray([released]) * queues
        self._back: dict[int, list[tuple[float, int, Waiting]]] = {}  # heaps by queue
        self._counter = 0
        self.fresh = len(self._order)
        self.put_back = 0
        self._stands = bytearray(queues)  # 1: the queue is in the heap of those that may start
        self._ready: list[tuple[int, int, int]] = []  # rank, turn, queue: hosts with equal sizes take turns
        self._turn = 0
        self._later: list[tuple[float, int]] = []  # when to look at a queue again; too often does no harm
        self._shut: set[int] = set()  # queues whose next may not start until something ends
        self._parked: dict[int, list[Waiting]] = {}  # the same for what was put back, by queue
        self._crowded_out: set[int] = set()  # queues whose new entries wait until fewer are put back
        for queue in range(queues):
            self.reopen(queue)

    @property
    def waiting(self) -> int:
        """Entries that are not under way."""
        return self.fresh + self.put_back

    def left(self, queue: int) -> int:
        """The same of one queue."""
        back = len(self._back.get(queue, ())) + len(self._parked.get(queue, ()))
        return self._end[queue] - self._next[queue] + back

    def take(self, now_s: float) -> int | Waiting | None:
        """What may start now; None if there is nothing, or only later (see ``next_s``)."""
        while self._later and self._later[0][0] <= now_s:
            self.reopen(heapq.heappop(self._later)[1])
        while self._ready:
            queue = self._ready[0][2]
            if not self._released[queue]:
                heapq.heappop(self._ready)
                self._stands[queue] = 0
                continue
            found: int | Waiting | None = self._put_back_first(queue, now_s)
            at_s = now_s
            if found is None:
                fresh = found = self._fresh_first(queue)
                at_s = NEVER if fresh is None else self._opens_s(queue, fresh, now_s)
                if at_s <= now_s:
                    self._next[queue] += 1
                    self.fresh -= 1
            if found is not None and at_s <= now_s:
                heapq.heapreplace(self._ready, self._place(queue))
                while self._crowded_out and self.put_back < self._most_put_back:
                    self.reopen(self._crowded_out.pop())
                return found
            heapq.heappop(self._ready)
            self._stands[queue] = 0
            if found is not None and at_s < NEVER:
                heapq.heappush(self._later, (at_s, queue))
            elif found is not None:
                self._shut.add(queue)
            elif self._next[queue] < self._end[queue]:
                self._crowded_out.add(queue)
        return None

    def next_s(self) -> float:
        """When ``take`` may find something by time alone."""
        return self._later[0][0] if self._later else NEVER

    def put(self, queue: int, waiting: Waiting, due_s: float) -> None:
        """Put something back whose next try may start at ``due_s``."""
        self._wait(queue, waiting, due_s)
        self.put_back += 1

    def _wait(self, queue: int, waiting: Waiting, due_s: float) -> None:
        self._counter += 1
        heapq.heappush(self._back.setdefault(queue, []), (due_s, self._counter, waiting))
        heapq.heappush(self._later, (due_s, queue))

    def reopen(self, queue: int) -> None:
        """The queue's host may take one more."""
        if not self._released[queue]:
            return
        self._shut.discard(queue)
        self._crowded_out.discard(queue)
        for waiting in self._parked.pop(queue, ()):
            self._wait(queue, waiting, 0.0)
        if not self._stands[queue] and (self._next[queue] < self._end[queue] or queue in self._back):
            self._stands[queue] = 1
            heapq.heappush(self._ready, self._place(queue))

    def release(self, queue: int) -> None:
        """From now on its entries may be handed out."""
        self._released[queue] = 1
        self.reopen(queue)

    def withdraw(self, queue: int) -> list[Waiting]:
        """Take the queue back until it is released again, and then all its entries begin anew.

        Returns what was put back, to be ended. What the queue has handed out is the caller's to end.
        """
        self._released[queue] = 0
        self._shut.discard(queue)
        self._crowded_out.discard(queue)
        back = [waiting for _, _, waiting in self._back.pop(queue, ())] + self._parked.pop(queue, [])
        self.put_back -= len(back)
        self.fresh += self._next[queue] - self._start[queue]
        self._next[queue] = self._start[queue]
        return back

    def close(self, queue: int) -> None:
        """Nothing of the queue is handed out any more; nothing of it was put back."""
        self._released[queue] = 0
        self._shut.discard(queue)
        self._crowded_out.discard(queue)
        self.fresh -= self._end[queue] - self._next[queue]
        self._next[queue] = self._end[queue]

    def reopen_shut(self) -> None:
        """Some host has a place that entries of other queues may take."""
        for queue in [*self._shut, *self._parked]:
            self.reopen(queue)

    def drain(self) -> Iterator[Waiting]:
        """All that was put back, to be ended."""
        heaps, self._back, self.put_back = self._back, {}, 0
        parked, self._parked = self._parked, {}
        for heap in heaps.values():
            yield from (waiting for _, _, waiting in heap)
        for waiting in parked.values():
            yield from waiting

    def _put_back_first(self, queue: int, now_s: float) -> Waiting | None:
        """The first that is due and may start; those that may not yet do not hold up the others."""
        back = self._back.get(queue)
        while back and back[0][0] <= now_s:
            waiting = heapq.heappop(back)[2]
            if not back:
                del self._back[queue]
            at_s = self._opens_s(queue, waiting, now_s)
            if at_s <= now_s:
                self.put_back -= 1
                return waiting
            if at_s < NEVER:
                self._wait(queue, waiting, at_s)
            else:
                self._parked.setdefault(queue, []).append(waiting)
            back = self._back.get(queue)
        return None

    def _fresh_first(self, queue: int) -> int | None:
        if self.put_back >= self._most_put_back or self._next[queue] == self._end[queue]:
            return None
        return self._order[self._next[queue]]

    def _place(self, queue: int) -> tuple[int, int, int]:
        self._turn += 1
        return self._rank(queue), self._turn, queue

    def _rank(self, queue: int) -> int:
        if self._next[queue] == self._end[queue]:
            return 0
        return self._rank_of(self._order[self._next[queue]])


def _largest_first(size_bytes: int) -> int:
    """A file of unknown size may be the largest."""
    return -size_bytes if size_bytes >= 0 else -(2**63)


def _smallest_first(size_bytes: int) -> int:
    """The same the other way round; below zero, which is the rank of a queue without new entries."""
    return size_bytes - 2**62 if size_bytes >= 0 else -1


def _bounds(queue_of: Sequence[int], queues: int) -> "tuple[array[int], array[int]]":
    """Where each queue's segment of the order begins and ends."""
    ends = array("I", bytes(4 * queues))
    for queue in queue_of:
        ends[queue] += 1
    starts = array("I", bytes(4 * queues))
    for queue in range(1, queues):
        starts[queue] = ends[queue - 1]
        ends[queue] += ends[queue - 1]
    return starts, ends
