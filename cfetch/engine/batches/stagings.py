"""The batches that have arrived and are not over, and on which volume each of them is being staged.

A staging begins when its batch gets a volume, and ends when the batch is committed or goes to another volume.
In the second case the entries begin anew: the transfers are dropped, and their attempts are kept for the
entries' records, with the outcome ``moved``. The old volume keeps the parts, unless it cannot be read or the
batch needs their room, and the new volume begins with copies of them (``storage/lent_parts.py``).
"""

import asyncio
from contextlib import suppress
from typing import cast

import msgspec

from cfetch.base.errors import CfetchError
from cfetch.base.records import AttemptRecord, Status
from cfetch.engine.batches.arrivals import BatchQueues
from cfetch.engine.batches.staging import Batch, BatchStaging
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.schedule import Schedule
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entries import Entries
from cfetch.storage.volume import Volume

LEAVE_S = 5.0  # how long an entry waits for the worker that had it; a step on a disk cannot be interrupted


class Stagings:
    """``batches`` and ``under_way`` map the numbers of batches to them and to their stagings.

    ``names`` are the volumes'. ``leaving``: by entry, set when no worker has its former transfer any more.
    ``changed`` is set when batches may be placed or begun anew.
    """

    def __init__(
        self,
        entries: Entries,
        volumes: list[Volume],
        queues: BatchQueues,
        schedule: Schedule[Transfer],
        entry_records: EntryRecords,
    ) -> None:
        self._entries = entries
        self._volumes = volumes
        self.names = [volume.name for volume in volumes]
        self._queues = queues
        self._schedule = schedule
        self._entry_records = entry_records
        self._lost: dict[int, list[AttemptRecord]] = {}  # by entry: attempts on volumes that were left
        self._kept: dict[int, set[int]] = {}  # by entry: the volumes that may keep a part of it
        self.leaving: dict[int, asyncio.Event] = {}
        self.batches: dict[int, Batch] = {}
        self.under_way: dict[int, BatchStaging] = {}
        self.changed = asyncio.Event()

    def of_queue(self, queue: int) -> BatchStaging:
        """The staging whose entries a queue holds."""
        return self.under_way[self._queues.batch[queue]]

    def of_entry(self, index: int) -> BatchStaging:
        """The staging to which an entry belongs."""
        return self.of_queue(self._queues.of[index])

    def here(self, volume_index: int) -> list[BatchStaging]:
        """The stagings on a volume."""
        return [staging for staging in self.under_way.values() if staging.volume_index == volume_index]

    def host_of(self, queue: int) -> str:
        """The host of a queue's entries."""
        return self._entries.hosts[self._queues.host[queue]]

    def open(self, batch: Batch, volume_index: int, why: str) -> BatchStaging:
        """Begin to stage a batch: its entries may be handed out."""
        if batch.name is not None and batch.home not in (None, volume_index):
            self._volumes[batch.home].withdraw_batch(batch.id, ())  # all of it goes to the other volume
            batch.standing.clear()
            batch.home = None
        staging = self.under_way[batch.number] = BatchStaging(batch, volume_index, why)
        self._volumes[volume_index].mark_batch(batch.id)
        for queue in self._queues.of_batch(batch.number):
            self._schedule.release(queue)
        return staging

    def transfer(self, index: int, staging: BatchStaging, now_s: float) -> Transfer:
        """Make the transfer of an entry, to the volume of ``staging``."""
        entry, queue = self._entries.entry(index), self._queues.of[index]
        part, host = self._volumes[staging.volume_index].new_part(entry), self.host_of(queue)
        transfer = Transfer(entry, part, index=index, queue=queue, host=host, now_s=now_s, staging=staging)
        transfer.attempts = list(self._lost.get(index, ()))
        return transfer

    def drop(self, transfer: Transfer, *, whole: bool = False) -> None:
        """Let go of the part of an entry that begins anew on another volume; keep its attempts.

        ``whole``: the part is verified.
        """
        staging = cast("BatchStaging | None", transfer.staging)  # only this room makes any
        loans = None if staging is None else self._volumes[staging.volume_index].loans
        if staging is None or loans is None or staging.batch.number not in self.batches:
            transfer.part.discard()
        else:
            loans.keep(transfer.part, whole=whole)
            self._kept.setdefault(transfer.index, set()).add(staging.volume_index)
        if (left := self.leaving.pop(transfer.index, None)) is not None:
            left.set()
        self._lost[transfer.index] = [
            msgspec.structs.replace(attempt, outcome="moved") for attempt in transfer.attempts
        ]

    def finish(
        self, transfer: Transfer, status: Status, *, kept_bytes: int = 0, error: CfetchError | None = None
    ) -> None:
        """Record the end of an entry."""
        self._lost.pop(transfer.index, None)
        volume = self._volume_of(transfer).name
        self._entry_records.finish(transfer, status, volume=volume, kept_bytes=kept_bytes, error=error)

    def cancel(self, transfer: Transfer) -> None:
        """End an entry that the run did not bring to its end; keep its bytes for the next run."""
        self.finish(transfer, "cancelled", kept_bytes=transfer.part.keep_leftover(even_small=True))

    def withdraw(self, staging: BatchStaging) -> None:
        """End everything that is under way for the batch here."""
        batch = staging.batch
        staging.is_over = True
        batch.moves += 1
        del self.under_way[batch.number]
        for queue in self._queues.of_batch(batch.number):
            for transfer in self._schedule.withdraw(queue):
                self.drop(transfer)
        for transfer in staging.staged:
            self.drop(transfer, whole=True)
        staging.staged.clear()
        for transfer in staging.transfers:
            transfer.moved = True
            self.leaving[transfer.index] = asyncio.Event()
            if transfer.task is not None:
                transfer.task.cancel()
        self._volumes[staging.volume_index].unmark_batch(batch.id)

    async def adopt_and_borrow(self, transfer: Transfer, staging: BatchStaging) -> None:
        """Let the part begin with what its volume has of the entry, and then with what others have.

        A worker that still has the former transfer may be copying what this volume has. Raises LocalFault.
        """
        if (leaving := self.leaving.get(transfer.index)) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(leaving.wait(), LEAVE_S)
        await self._volumes[staging.volume_index].adopt_leftover(transfer.entry, transfer.part)
        for index, volume in enumerate(self._volumes):
            is_other = index != staging.volume_index and not volume.is_stuck
            if is_other and volume.has_parts and volume.loans is not None:
                await volume.loans.lend(transfer.entry, transfer.part)
        self._kept.pop(transfer.index, None)

    def give_up_kept(self, batch: Batch) -> None:
        """Remove what volumes that were left keep of a batch: it is over, or it needs their room."""
        if not self._kept:
            return
        for index in batch.entries:
            for volume_index in self._kept.pop(index, ()):
                loans = self._volumes[volume_index].loans
                if loans is not None:
                    loans.forget(self._entries.entry(index))

    def close(self, staging: BatchStaging, *, come_back: bool) -> None:
        """End a staging whose entries have ended; ``come_back``: a later run goes on with the batch here."""
        staging.is_over = True
        self.finish_skipped(staging)
        if not come_back:
            self._volumes[staging.volume_index].unmark_batch(staging.batch.id)
        staging.staged.clear()
        del self.under_way[staging.batch.number]
        self.forget(staging.batch)

    def finish_skipped(self, staging: BatchStaging) -> None:
        """End the entries that are in place: their named batch stays here."""
        for transfer in staging.skipped:
            kept_bytes = staging.batch.size_in_place(transfer.index, transfer.entry)
            self.finish(transfer, "skipped", kept_bytes=kept_bytes)
        staging.skipped.clear()

    def forget(self, batch: Batch) -> None:
        """Drop a batch about which nothing more is to be done in this run."""
        for queue in self._queues.of_batch(batch.number):
            self._schedule.close(queue)  # settled entries may still be in it after a move
        self.give_up_kept(batch)
        del self.batches[batch.number]

    def _volume_of(self, transfer: Transfer) -> Volume:
        """The volume that holds the entry, or was to hold it."""
        staging = cast("BatchStaging", transfer.staging)  # the transfer of a batch always has one
        batch, index = staging.batch, transfer.index
        return self._volumes[
            batch.standing.get(index, staging.volume_index)
            if batch.is_settled(index)
            else staging.volume_index
        ]
