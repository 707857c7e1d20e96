"""Cuts a plan's entries into batches, and looks which files of each batch are in place when it arrives."""

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from cfetch.base.backoff import double
from cfetch.base.errors import LocalFault
from cfetch.engine.batches.staging import Batch, BatchSize
from cfetch.engine.placement.batches import cut
from cfetch.manifest.entries import Entries
from cfetch.manifest.entry import Entry
from cfetch.storage.volume import Volume
from cfetch.storage.volume_values import Holding, batch_id

LOOK_S = 5.0  # a volume that does not answer within this time is taken to hold nothing of the batches
MOST_AHEAD = 16  # batches that are looked for at once, once the volumes have shown that they answer soon
SOON_S = LOOK_S / 8  # a look at twice as many batches then still has time enough
MOST_FILES_AHEAD = 256  # of several batches; an object store may need a request for each


class BatchQueues:
    """The schedule's queues where entries come in batches: one for each pair of batch and host.

    ``of`` gives the queue of each entry; ``host`` and ``batch`` give the host and batch of each queue.
    """

    def __init__(self, batches: int, members: Callable[[int], Sequence[int]], host_of: Sequence[int]) -> None:
        self.of = array("I", bytes(4 * len(host_of)))
        self.host = array("I")
        self.batch = array("I")
        self._start = array("I", [0])
        self._by_host: dict[int, array[int]] = {}
        for batch in range(batches):
            numbers: dict[int, int] = {}
            for index in members(batch):
                self.of[index] = numbers.setdefault(host_of[index], len(self.host) + len(numbers))
            self.host.extend(numbers)
            self.batch.extend([batch] * len(numbers))
            self._start.append(len(self.host))

    def __len__(self) -> int:
        return len(self.host)

    def of_host(self, host: int) -> Sequence[int]:
        """All queues of a host."""
        if not self._by_host:  # only tasks that share their hosts with others ask
            for queue, number in enumerate(self.host):
                self._by_host.setdefault(number, array("I")).append(queue)
        return self._by_host.get(host, ())

    def of_batch(self, batch: int) -> range:
        """All queues of a batch."""
        return range(self._start[batch], self._start[batch + 1])


class Arrivals:
    """Batches arrive one after the other: the largest first, or in the order of the manifest.

    ``fraction`` of all bytes: the most for a batch.
    """

    def __init__(
        self, entries: Entries, volumes: Sequence[Volume], *, fraction: float, largest_first: bool = True
    ) -> None:
        self._entries = entries
        self._volumes = volumes
        self._cut = cut(entries.sizes, entries.batch_of, fraction=fraction, largest_first=largest_first)
        self._next = 0
        self._ahead: deque[Batch] = deque()  # the next batches, whose files have been looked for
        self._looks = 1  # batches in the next look
        # by volume: a question that took too long
        self._unanswered: dict[int, asyncio.Task[list[Holding]]] = {}
        self.queues = BatchQueues(len(self._cut.order), self._cut.entries, entries.host_of)

    @property
    def is_over(self) -> bool:
        """Whether all batches have arrived."""
        return self._next == len(self._cut.order)

    async def next(self, failed: Callable[[int, LocalFault], None]) -> Batch:
        """The next batch, with the files of it that are in place; ``failed`` gets the volumes that fail."""
        if not self._ahead:
            await self._inspect_ahead(failed)
        self._next += 1  # only now: until the batch has arrived, the loop has something to wait for
        return self._ahead.popleft()

    async def _inspect_ahead(self, failed: Callable[[int, LocalFault], None]) -> None:
        """Look for the files of several batches at once, as one look for each batch would take longer.

        While a volume is slow or does not answer, batches are looked for one by one: what the volume holds of
        further batches may be seen later.
        """
        batches: list[Batch] = []
        looks: list[tuple[str, list[Entry]]] = []
        files = 0
        for number in self._cut.order[self._next : self._next + self._looks]:
            indexes = self._cut.entries(number)
            files += len(indexes)
            if batches and files > MOST_FILES_AHEAD:
                break
            entries = [self._entries.entry(index) for index in indexes]
            name = entries[0].batch if self._cut.named[number] else None
            sizes = [entry.size_bytes for entry in entries if entry.size_bytes is not None]
            size = BatchSize(sum(sizes), len(entries) - len(sizes))
            batches.append(Batch(number, batch_id(entries), name, indexes, size))
            looks.append((batches[-1].id, entries))
        clock = asyncio.get_running_loop().time
        since_s = clock()
        answers = await self._inspect(looks, failed)
        have_all_answered = None not in answers
        is_soon = have_all_answered and clock() - since_s < SOON_S
        self._looks = double(self._looks, MOST_AHEAD) if is_soon else 1
        for position, batch in enumerate(batches if have_all_answered else batches[:1]):
            clashing = {n for n, entry in enumerate(looks[position][1]) if entry.clash is not None}
            self._note(
                batch,
                [Holding() if held is None else _leave_out(held[position], clashing) for held in answers],
            )
            self._count_missing(batch, looks[position][1])
            self._ahead.append(batch)

    def _count_missing(self, batch: Batch, entries: Sequence[Entry]) -> None:
        missing = [
            entry
            for index, entry in zip(batch.entries, entries, strict=True)
            if index not in batch.standing and entry.clash is None
        ]
        guess = self._cut.unknown_bytes
        batch.missing_bytes = sum(
            guess if entry.size_bytes is None else entry.size_bytes for entry in missing
        )
        joined = {entry.path: entry.piece.file_bytes for entry in missing if entry.piece is not None}
        batch.joined_bytes = sum(joined.values())

    async def _inspect(
        self, looks: Sequence[tuple[str, Sequence[Entry]]], failed: Callable[[int, LocalFault], None]
    ) -> list[list[Holding] | None]:
        """Ask all volumes that answer; it does not wait again for a volume that hangs. None: no answer."""
        tasks = {
            volume_index: asyncio.create_task(volume.inspect_batches(looks))
            for volume_index, volume in enumerate(self._volumes)
            if not (volume.is_stuck or volume_index in self._unanswered)
        }
        if tasks:
            await asyncio.wait(tasks.values(), timeout=LOOK_S)
        answers: list[list[Holding] | None] = [None] * len(self._volumes)
        for volume_index, task in tasks.items():
            if not task.done():
                task.cancel()
                self._unanswered[volume_index] = task
                task.add_done_callback(partial(self._unanswered.pop, volume_index))
            elif isinstance(error := task.exception(), LocalFault):
                failed(volume_index, error)
            else:
                answers[volume_index] = task.result()
        return answers

    @staticmethod
    def _note(batch: Batch, holdings: Sequence[Holding]) -> None:
        """Choose the batch's home: the volume where it is committed, or else where it was being staged.

        If several have its record, the one with most of its files is chosen: a move that was killed may have
        begun to empty the other. A named batch without either goes to the volume that has most of its files.
        The record comes first, as a volume that failed keeps the mark of a batch that has gone to another
        volume since.
        """
        indexes = batch.entries
        begun = {volume_index for volume_index, holding in enumerate(holdings) if holding.is_begun}
        batch.recorded = {
            volume_index for volume_index, holding in enumerate(holdings) if holding.is_committed
        }

        def count(volume_index: int) -> int:
            return len(holdings[volume_index].same_size)

        batch.home = max(sorted(batch.recorded), key=count, default=min(begun, default=None))
        if batch.recorded:  # a volume that broke in the middle of its commit has the mark, and files too many
            batch.recorded |= begun
        most = max(range(len(holdings)), key=count)
        if batch.home is None and batch.name is not None and count(most):
            batch.home = most
        learned: dict[int, int] = {}
        for volume_index, holding in sorted(enumerate(holdings), key=lambda pair: pair[0] != batch.home):
            # all files of a named batch have to be on one volume
            if batch.name is None or volume_index == batch.home:
                for position in holding.same_size:
                    home = batch.standing.setdefault(indexes[position], volume_index)
                    if position in holding.learned and home == volume_index:
                        learned[indexes[position]] = holding.learned[position]
        batch.size = batch.size._replace(learned=learned)
        for volume_index, holding in enumerate(holdings):
            for position in (*holding.same_size, *holding.other_size):
                batch.copies.setdefault(indexes[position], []).append(volume_index)
        batch.blocked = [
            {indexes[position]: error for position, error in holding.blocked.items()} for holding in holdings
        ]


def _leave_out(holding: Holding, clashing: AbstractSet[int]) -> Holding:
    """The holding without the files of entries that clash with others, whose files they are."""
    if not clashing:
        return holding
    return holding._replace(
        same_size=[position for position in holding.same_size if position not in clashing],
        other_size=[position for position in holding.other_size if position not in clashing],
    )
