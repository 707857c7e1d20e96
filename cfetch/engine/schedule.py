"""Chooses the entry that starts next: the largest first, among the hosts that bear one more. Pure.

Starting the large files first keeps one big file from being alone at the end (Graham's longest processing
time rule, makespan <= 4/3 of the best). Unknown sizes come first of all: they may be the largest.

A host that is full, paused or broken must not hold up the others, so each host has its own queue, and
only queues that may start an entry are in the heap. An entry that waits for its next attempt waits in
its queue too, and not in a worker's hands; when its time has come it goes before the queue's new entries.
"""

import heapq
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

NEVER = float("inf")
MOST_PUT_BACK = 16  # entries per worker that may wait for their next try; with more, no new one is begun
SAMPLE = 512  # sampled ranks; of ten million entries, each heap then gets some 20,000
Waiting = TypeVar("Waiting")


class Schedule(Generic[Waiting]):
    """Hands out entry indexes, and entries that were put back for another try.

    Args:
        sizes: bytes by entry; -1 is unknown.
        queue_of: by entry, the number of its host, from 0 to ``queues`` - 1.
        queues: how many hosts there are.
        most_put_back: while so many wait for another try, no new entry is handed out; bounds memory.
        released: whether entries may be handed out from the start, or only queue by queue (``release``).
        backwards: smallest first, equal sizes in reverse, so that a copy of a task begins at the other end.

    Memory: 4 bytes an entry (8 while it is built, if there are several queues); 14 a queue. ``take`` costs
    O(log queues).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        queue_of: Sequence[int],
        queues: int,
        *,
        most_put_back: int,
        released: bool = True,
        backwards: bool = False,
    ) -> None:
        self._new = _NewEntries(sizes, queue_of, queues, backwards=backwards)
        self._back: _PutBack[Waiting] = _PutBack()
        self._most_put_back = most_put_back
        self._released = bytearray([released]) * queues
        self._in_ready = bytearray(queues)  # 1: the queue is in ``_ready``
        # a heap of the queues that may start an entry: rank, turn, queue; hosts with equal sizes take turns
        self._ready: list[tuple[int, int, int]] = []
        self._turn = 0
        self._later: list[tuple[float, int]] = []  # when to look at a queue again; extra looks do no harm
        self._shut: set[int] = set()  # queues whose next entry may not start until an attempt ends
        self._crowded_out: set[int] = set()  # queues whose new entries wait until fewer are put back
        for queue in range(queues):
            self.reopen(queue)

    @property
    def put_back(self) -> int:
        """Entries that wait for another try."""
        return self._back.count

    @property
    def waiting(self) -> int:
        """Entries that are not under way."""
        return self._new.count + self._back.count

    def count_left(self, queue: int) -> int:
        """Entries of one queue that are not under way."""
        return self._new.count_left(queue) + self._back.count_left(queue)

    def take(
        self, now_s: float, opens_s: Callable[[int, int | Waiting, float], float]
    ) -> int | Waiting | None:
        """Take the entry that may start now; None if none may, or only later (``next_s``).

        ``opens_s``: when an entry of a queue may start (or has to fail): the given time, a later one, or
        ``NEVER``, which means: not before ``reopen`` is called.
        """
        while self._later and self._later[0][0] <= now_s:
            self.reopen(heapq.heappop(self._later)[1])
        while self._ready:
            queue = self._ready[0][2]
            if not self._released[queue]:
                self._leave_ready(queue)
                continue
            waiting: int | Waiting | None = None
            if self._back.count:
                waiting = self._take_put_back(queue, now_s, opens_s)
            at_s = now_s
            if waiting is None:
                index = waiting = None if self._is_crowded else self._new.first(queue)
                at_s = NEVER if index is None else opens_s(queue, index, now_s)
                if at_s <= now_s:
                    self._new.pop(queue)
            if waiting is not None and at_s <= now_s:
                if len(self._ready) > 1:
                    heapq.heapreplace(self._ready, self._rank(queue))
                while self._crowded_out and not self._is_crowded:
                    self.reopen(self._crowded_out.pop())
                return waiting
            self._set_aside(queue, None if waiting is None else at_s)
        return None

    def may_start(self, now_s: float, opens_s: Callable[[int, int | Waiting, float], float]) -> bool:
        """Whether ``take`` may find an entry now. If it is False, ``take`` would return None."""
        while self._ready:
            queue = self._ready[0][2]
            if not self._released[queue]:
                self._leave_ready(queue)
                continue
            index = None if self._is_crowded else self._new.first(queue)
            at_s = None if index is None else opens_s(queue, index, now_s)
            if self._back.waits(queue) or (at_s is not None and at_s <= now_s):
                return True
            self._set_aside(queue, at_s)
        return False

    def next_s(self) -> float:
        """When ``take`` may find an entry by time alone, without ``reopen``."""
        return self._later[0][0] if self._later else NEVER

    def put(self, queue: int, waiting: Waiting, due_s: float) -> None:
        """Put an entry back whose next try may start at ``due_s``."""
        self._back.put(queue, waiting, due_s)
        heapq.heappush(self._later, (due_s, queue))

    def reopen(self, queue: int) -> None:
        """Note that the queue's host may take one more."""
        if not self._released[queue]:
            return
        self._shut.discard(queue)
        self._crowded_out.discard(queue)
        if self._back.count and self._back.unpark(queue):
            heapq.heappush(self._later, (0.0, queue))
        if not self._in_ready[queue] and (self._new.count_left(queue) or self._back.waits(queue)):
            self._in_ready[queue] = 1
            if len(self._ready) == 1:  # nobody has asked for its place while it was alone
                self._ready[0] = self._rank(self._ready[0][2])
            heapq.heappush(self._ready, self._rank(queue) if self._ready else (0, 0, queue))

    def release(self, queue: int) -> None:
        """Let the queue's entries be handed out from now on."""
        self._released[queue] = 1
        self.reopen(queue)

    def withdraw(self, queue: int) -> list[Waiting]:
        """Hold the queue back until it is released again; all its entries begin anew then.

        Returns the entries that were put back, to be ended. The caller also ends those handed out.
        """
        self._hold(queue)
        self._new.restart(queue)
        return self._back.withdraw(queue)

    def leave_out(self, ended: Sequence[int]) -> None:
        """Drop the entries for which ``ended`` is true, before anything was handed out."""
        self._new.leave_out(ended)
        self._ready.clear()
        self._in_ready = bytearray(len(self._in_ready))
        for queue in range(len(self._in_ready)):
            self.reopen(queue)

    def close(self, queue: int) -> None:
        """Hand out nothing of the queue any more; none of its entries may be put back."""
        self._hold(queue)
        self._new.close(queue)

    def reopen_shut(self) -> None:
        """Note that a slot became free that entries of other queues may take."""
        for queue in [*self._shut, *self._back.parked_queues()]:
            self.reopen(queue)

    def reopen_all(self) -> None:
        """Note that any host may have a free slot by now, also one whose queue waited for a later time."""
        for _, queue in list(self._later):
            self.reopen(queue)
        self.reopen_shut()

    def drain(self) -> Iterator[Waiting]:
        """Take out all entries that were put back, to be ended."""
        return self._back.drain()

    @property
    def _is_crowded(self) -> bool:
        return self._back.count >= self._most_put_back

    def _take_put_back(
        self, queue: int, now_s: float, opens_s: Callable[[int, int | Waiting, float], float]
    ) -> Waiting | None:
        """Take the first entry that is due and may start; entries that may not start do not delay it."""
        while (waiting := self._back.pop_due(queue, now_s)) is not None:
            at_s = opens_s(queue, waiting, now_s)
            if at_s <= now_s:
                return waiting
            if at_s < NEVER:
                self.put(queue, waiting, at_s)
            else:
                self._back.park(queue, waiting)
        return None

    def _hold(self, queue: int) -> None:
        self._released[queue] = 0
        self._shut.discard(queue)
        self._crowded_out.discard(queue)

    def _set_aside(self, queue: int, at_s: float | None) -> None:
        """Set the first queue aside until ``at_s``; None: it has no entry that may be begun."""
        self._leave_ready(queue)
        if at_s is None:
            if self._new.count_left(queue):
                self._crowded_out.add(queue)
        elif at_s < NEVER:
            heapq.heappush(self._later, (at_s, queue))
        else:
            self._shut.add(queue)

    def _leave_ready(self, queue: int) -> None:
        heapq.heappop(self._ready)
        self._in_ready[queue] = 0

    def _rank(self, queue: int) -> tuple[int, int, int]:
        self._turn += 1
        return self._new.rank(queue), self._turn, queue


class _NewEntries:
    """New entries by queue, the largest first; ``count`` of them were not handed out. 4 bytes an entry."""

    def __init__(
        self, sizes: Sequence[int], queue_of: Sequence[int], queues: int, *, backwards: bool
    ) -> None:
        self._sizes = sizes
        self._rank = _smallest_first if backwards else _largest_first
        by_size = _order_by(sizes, self._rank, range(len(sizes))[:: -1 if backwards else 1])
        self._next, self._end = _bounds(queue_of, queues)
        self._order = _deal_out(by_size, queue_of, self._next) if queues > 1 else by_size
        self._start = self._next[:]
        self.count = len(self._order)

    def count_left(self, queue: int) -> int:
        """Entries of the queue that were not handed out."""
        return self._end[queue] - self._next[queue]

    def first(self, queue: int) -> int | None:
        """The queue's next entry."""
        return self._order[self._next[queue]] if self._next[queue] < self._end[queue] else None

    def rank(self, queue: int) -> int:
        """The number by which queues are compared; the queue with the lowest comes first."""
        place = self._next[queue]
        return 0 if place >= self._end[queue] else self._rank(self._sizes[self._order[place]])

    def pop(self, queue: int) -> None:
        """Note that the queue's next entry was handed out."""
        self._next[queue] += 1
        self.count -= 1

    def leave_out(self, ended: Sequence[int]) -> None:
        """Drop the entries for which ``ended`` is true."""
        kept = array("I")
        for queue, (start, end) in enumerate(zip(self._start, self._end, strict=True)):
            self._start[queue] = len(kept)
            kept.extend(index for index in self._order[start:end] if not ended[index])
            self._end[queue] = len(kept)
        self._order, self._next, self.count = kept, self._start[:], len(kept)

    def restart(self, queue: int) -> None:
        """Make all entries of the queue new again."""
        self.count += self._next[queue] - self._start[queue]
        self._next[queue] = self._start[queue]

    def close(self, queue: int) -> None:
        """Drop the queue's entries that were not handed out."""
        self.count -= self.count_left(queue)
        self._next[queue] = self._end[queue]


class _PutBack(Generic[Waiting]):
    """Entries that wait for their next try: until due, or parked until a slot is free; ``count`` of both."""

    def __init__(self) -> None:
        self._heaps: dict[int, list[tuple[float, int, Waiting]]] = {}  # by queue
        self._parked: dict[int, list[Waiting]] = {}  # by queue
        self._turn = 0
        self.count = 0

    def count_left(self, queue: int) -> int:
        """How many entries of the queue wait."""
        return len(self._heaps.get(queue, ())) + len(self._parked.get(queue, ()))

    def waits(self, queue: int) -> bool:
        """Whether an entry of the queue waits without being parked."""
        return queue in self._heaps

    def put(self, queue: int, waiting: Waiting, due_s: float) -> None:
        """Let an entry wait until ``due_s``."""
        self._turn += 1
        self.count += 1
        heapq.heappush(self._heaps.setdefault(queue, []), (due_s, self._turn, waiting))

    def pop_due(self, queue: int, now_s: float) -> Waiting | None:
        """Take out the entry that has been due for longest, if any is due."""
        heap = self._heaps.get(queue)
        if not heap or heap[0][0] > now_s:
            return None
        self.count -= 1
        waiting = heapq.heappop(heap)[2]
        if not heap:
            del self._heaps[queue]
        return waiting

    def park(self, queue: int, waiting: Waiting) -> None:
        """Let an entry wait until ``unpark``."""
        self.count += 1
        self._parked.setdefault(queue, []).append(waiting)

    def unpark(self, queue: int) -> bool:
        """Make all parked entries of the queue due at once. Returns whether any was parked."""
        parked = self._parked.pop(queue, [])
        for waiting in parked:
            self.count -= 1
            self.put(queue, waiting, 0.0)
        return bool(parked)

    def parked_queues(self) -> list[int]:
        """The queues that have parked entries."""
        return list(self._parked)

    def withdraw(self, queue: int) -> list[Waiting]:
        """Take out all waiting entries of the queue."""
        taken = [waiting for _, _, waiting in self._heaps.pop(queue, ())] + self._parked.pop(queue, [])
        self.count -= len(taken)
        return taken

    def drain(self) -> Iterator[Waiting]:
        """Take out everything."""
        heaps, self._heaps, self.count = self._heaps, {}, 0
        parked, self._parked = self._parked, {}
        for heap in heaps.values():
            yield from (waiting for _, _, waiting in heap)
        for queue in parked.values():
            yield from queue


def _order_by(sizes: Sequence[int], rank: Callable[[int], int], indexes: range) -> "array[int]":
    """Sort the indexes by the ranks of their sizes, equal ranks in the given order.

    The ranks of a sample divide the indexes into many heaps, and each heap is sorted by itself, because as
    Python's numbers all indexes together would take forty bytes each. Indexes of a sampled rank are equal,
    and keep their order. The heaps are counted first, so that their places are known.
    """
    bounds = sorted({rank(sizes[index]) for index in indexes[:: max(1, len(indexes) // SAMPLE)]})
    counts = [0] * (2 * len(bounds) + 1)
    for heap in _list_heaps(sizes, rank, indexes, bounds):
        counts[heap] += 1
    ends = list(accumulate(counts))
    places = [end - count for end, count in zip(ends, counts, strict=True)]
    order = array("I", [0]) * len(indexes)
    for index, heap in zip(indexes, _list_heaps(sizes, rank, indexes, bounds), strict=True):
        order[places[heap]] = index
        places[heap] += 1
    for end, count in zip(ends[::2], counts[::2], strict=True):
        order[end - count : end] = array(
            "I", sorted(order[end - count : end], key=lambda index: rank(sizes[index]))
        )
    return order


def _list_heaps(
    sizes: Sequence[int], rank: Callable[[int], int], indexes: range, bounds: Sequence[int]
) -> Iterator[int]:
    """Number the heap of each index: odd for the ranks in ``bounds``, even for the ranks between them."""
    last_bytes, heap = None, 0
    for index in indexes:
        if sizes[index] != last_bytes:
            last_bytes = sizes[index]
            own = rank(last_bytes)
            place = bisect_left(bounds, own)
            heap = 2 * place + (place < len(bounds) and bounds[place] == own)
        yield heap


def _deal_out(by_size: "array[int]", queue_of: Sequence[int], starts: "array[int]") -> "array[int]":
    """The order by queues, each of which begins at its place in ``starts``."""
    order, places = array("I", [0]) * len(by_size), starts[:]
    for index in by_size:
        queue = queue_of[index]
        order[places[queue]] = index
        places[queue] += 1
    return order


def _largest_first(size_bytes: int) -> int:
    """Rank the largest first; a file of unknown size may be the largest."""
    return -size_bytes if size_bytes >= 0 else -(2**63)


def _smallest_first(size_bytes: int) -> int:
    """Rank the smallest first. All ranks are below zero, which is the rank of a queue without new entries."""
    return size_bytes - 2**62 if size_bytes >= 0 else -1


def _bounds(queue_of: Sequence[int], queues: int) -> "tuple[array[int], array[int]]":
    """The places in the order where each queue begins and ends."""
    ends = array("I", bytes(4 * queues))
    for queue, count in Counter(queue_of).items():
        ends[queue] = count
    starts = array("I", bytes(4 * queues))
    for queue in range(1, queues):
        starts[queue] = ends[queue - 1]
        ends[queue] += ends[queue - 1]
    return starts, ends
