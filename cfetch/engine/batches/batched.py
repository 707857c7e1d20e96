"""Implements the commitment to batches: answers the pool, and passes the work on to the parts of this room.

A batch arrives (``arrivals``), gets a volume (``rounds``, by the ``Placer``'s decision), its entries are
handed out (``stagings``); when the last of them is whole they are published together (``completion``). When
the volume fails before that (``health``, ``volume_watch``), the batch goes to another: its entries under way
are cancelled, and their attempts end as ``moved``. What the old volume holds of them is copied, if it can be.
"""

import asyncio
from collections.abc import Sequence

from cfetch.base.config.engine import PlacementOptions
from cfetch.base.errors import CfetchError, LocalFault, VolumeFault
from cfetch.base.events import VolumeView
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.batches.arrivals import Arrivals
from cfetch.engine.batches.borne import Bears, Borne
from cfetch.engine.batches.completion import BatchCompletion
from cfetch.engine.batches.rounds import Rounds
from cfetch.engine.batches.staging import BatchStaging
from cfetch.engine.batches.stagings import Stagings
from cfetch.engine.batches.volume_watch import VolumeWatch
from cfetch.engine.cancellation import was_the_move
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.placement.chooser import Mode
from cfetch.engine.placement.placer import NOTHING_EARLIER, Placer
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.publishing import Publishing
from cfetch.engine.schedule import MOST_PUT_BACK, NEVER, Schedule
from cfetch.engine.side_tasks import SideTasks
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entries import Entries
from cfetch.storage.volume import Volume
from cfetch.storage.volume_values import Standing


class Batched:
    """The ``Commitment`` to batches. ``schedule``: a queue for each batch and host, released by batch."""

    judges_volumes = True

    def __init__(
        self,
        entries: Entries,
        placing: PlacementOptions,
        volumes: Sequence[Volume],
        entry_records: EntryRecords,
        switch: StopSwitch,
        idle: IdleWorkers,
        in_flight: AttemptsUnderWay,
        outside: PoolInputs,
        bears: Bears,
    ) -> None:
        # If only one volume was given, nothing is placed, but all the same the largest batches come first.
        has_several = len(volumes) > 1 or outside.earlier is not None
        mode = self._mode = Mode(placing.mode) if has_several else Mode.COUNT
        arrivals = Arrivals(
            entries,
            volumes,
            fraction=placing.batch_share if has_several else 0.0,
            largest_first=mode is Mode.FINISH or not has_several,
        )
        queues = arrivals.queues
        self.schedule: Schedule[Transfer] = Schedule(
            entries.sizes,
            queues.of,
            len(queues),
            most_put_back=MOST_PUT_BACK * placing.concurrency,
            released=False,
        )
        self._queues = queues
        self._concurrency = placing.concurrency
        self._volumes = list(volumes)
        self._idle = idle
        self._publishing = Publishing(volumes, switch)
        self._stagings = Stagings(entries, self._volumes, queues, self.schedule, entry_records)
        earlier = outside.earlier or NOTHING_EARLIER
        self._keep_turn = earlier.keep_turn
        placer = self._placer = Placer(
            len(volumes), mode=mode, deadline_s=placing.deadline_s, earlier=earlier
        )
        patience_s = min(placing.write_timeout_s, placing.deadline_s)
        self._watch = VolumeWatch(
            self._volumes, placer, self._stagings, in_flight, switch, outside, patience_s=patience_s
        )
        self._completion = BatchCompletion(
            self._volumes, placer, self._stagings, self._watch, switch, outside
        )
        borne = None
        if has_several and not entries.names_mirrors:  # an entry with mirrors is not bound to its host
            borne = Borne(entries, queues, self.schedule, bears, most=placing.concurrency)
        self._rounds = Rounds(
            arrivals,
            placer,
            self._stagings,
            self._completion,
            self._watch,
            in_flight,
            switch,
            outside,
            concurrency=placing.concurrency,
            borne=borne,
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_over(self) -> bool:
        """Whether no batch is left, or the run is stopping."""
        return self._rounds.is_over

    async def open(self, tasks: SideTasks) -> None:
        """Begin to watch the volumes, to place batches, and to publish."""
        watching = tasks.create_task(self._watch.health.watch(), name="volumes")
        placing = tasks.create_task(self._rounds.run(self.schedule, self._idle), name="batches")
        self._tasks = [watching, placing]
        self._publishing.start(tasks)

    async def end_standing(self) -> None:
        """Do nothing: the files of a batch are looked for when the batch arrives."""

    async def close(self) -> None:
        """Publish the batches that wait for it; the volumes are watched meanwhile, as one may hang."""
        await self._publishing.finish()
        watching, placing = self._tasks
        await asyncio.wait([placing])
        watching.cancel()

    def end(self) -> None:
        """End the entries that were put back or are staged, and keep their bytes for the next run."""
        for transfer in self.schedule.drain():
            self._stagings.cancel(transfer)
        self._completion.cancel_rest()
        self._watch.report_left_behind()
        if self._mode is Mode.ROUND_ROBIN:
            self._keep_turn(self._placer.turn)

    def stop(self) -> None:
        """Place nothing more, and have less patience with volumes."""
        self._watch.health.hurry()
        self._stagings.changed.set()

    def opens_s(self, queue: int, waiting: int | Transfer, now_s: float) -> float:  # noqa: ARG002 - the port's
        """When the volume bears an entry of the queue: now, or ``NEVER`` until one ends there."""
        index = self._stagings.of_queue(queue).volume_index
        return now_s if self._watch.health.running[index] < self._rounds.slots[index] else NEVER

    def count_left(self, host: int) -> int:
        """Count the entries of a host that wait, until there are as many as may be under way at once."""
        left = 0
        for queue in self._queues.of_host(host):
            left += self.schedule.count_left(queue)
            if left >= self._concurrency:
                break
        return left

    def host_of(self, queue: int) -> str:
        """The host of a queue's entries."""
        return self._stagings.host_of(queue)

    def transfer(self, index: int, now_s: float) -> Transfer:
        """Make the transfer of an entry, to its batch's volume."""
        return self._stagings.transfer(index, self._stagings.of_entry(index), now_s)

    def hand_out(self, index: int, now_s: float) -> Transfer | None:
        """Give a new entry to the current task; None if it was settled elsewhere."""
        staging = self._stagings.of_entry(index)
        staging.unhanded -= 1
        if staging.unhanded < self._rounds.slots[staging.volume_index]:
            self._stagings.changed.set()
        if staging.batch.is_settled(index):
            return None
        transfer = self._stagings.transfer(index, staging, now_s)
        self.take(transfer)
        return transfer

    def take(self, transfer: Transfer) -> None:
        """Note that a worker has the entry in hand: a move of the batch cancels its task."""
        staging = _staging(transfer)
        staging.transfers.add(transfer)
        self._watch.health.note_start(staging.volume_index)

    def leave(self, transfer: Transfer) -> None:
        """Note that the entry's host and volume have a free slot, for an entry of any queue."""
        staging = _staging(transfer)
        staging.transfers.discard(transfer)
        self._watch.health.note_end(staging.volume_index)
        self.schedule.reopen(transfer.queue)
        self.schedule.reopen_shut()

    def has_nothing_of(self, transfer: Transfer) -> bool:
        """Whether no volume had a file of the entry when its batch arrived, and none has a part now."""
        batch, index = _staging(transfer).batch, transfer.index
        has_parts = index in self._stagings.leaving or any(volume.has_parts for volume in self._volumes)
        return not (has_parts or index in batch.copies or any(batch.blocked))

    async def find_standing(self, transfer: Transfer) -> Standing | None:
        """The verified file, here or on another volume; without one, the part adopts a dead run's leftover.

        Files of a batch without a name stay where they are. Raises Blocked, VolumeFault.
        """
        staging, entry = _staging(transfer), transfer.entry
        blocked = staging.batch.blocked[staging.volume_index].get(transfer.index)
        if blocked is not None:
            raise blocked
        volume_index = staging.batch.standing.get(transfer.index)
        standing = None
        if volume_index is not None:
            standing = await self._volumes[volume_index].verify_existing(entry)
        if standing is None and entry.spares_others:
            for other in staging.batch.copies.get(transfer.index, ()):
                if other != volume_index:  # its file may be somebody else's
                    await self._volumes[other].verify_existing(entry)
        if standing is None:
            await self._stagings.adopt_and_borrow(transfer, staging)
        return standing

    def put_back(self, transfer: Transfer, due_s: float) -> None:
        """Let the entry wait for its next try, unless its batch has moved."""
        if transfer.moved:
            self._stagings.drop(transfer)
        else:
            self.schedule.put(transfer.queue, transfer, due_s)

    def skip(self, transfer: Transfer) -> None:
        """Note that the entry is in place. In a named batch that counts only if the batch stays here."""
        staging = _staging(transfer)
        for volume in self._volumes:
            volume.remove_leftovers([transfer.entry])
        if staging.is_over:
            self._stagings.drop(transfer)
        elif staging.batch.name is not None:
            self._completion.skip(staging, transfer)
        else:
            kept_bytes = staging.batch.size_in_place(transfer.index, transfer.entry)
            self._completion.settle(staging, transfer, "skipped", kept_bytes=kept_bytes)

    async def publish(self, transfer: Transfer) -> None:
        """Let a verified part wait for the others of its batch; the last one causes the publishing."""
        staging = _staging(transfer)
        if staging.is_over:
            self._stagings.drop(transfer)
            return
        try:
            transfer.part.finish()
        except LocalFault as fault:
            self.fail_locally(transfer, fault)
        else:
            self._completion.stage(staging, transfer)

    def fail(self, transfer: Transfer, error: CfetchError) -> None:
        """End an entry that cannot be had."""
        staging = _staging(transfer)
        if staging.is_over:
            self._stagings.drop(transfer)
            return
        staging.batch.failed.add(transfer.index)
        kept_bytes = transfer.part.keep_leftover()
        self._completion.settle(staging, transfer, "failed", kept_bytes=kept_bytes, error=error)

    def fail_locally(self, transfer: Transfer, fault: LocalFault) -> None:
        """Move the entry's batch to another volume; raises ``fault`` if no other volume can help."""
        if not isinstance(fault, VolumeFault) or not self._watch.can_move(fault):
            self._stagings.finish(transfer, "failed", kept_bytes=transfer.part.keep_leftover(), error=fault)
            raise fault
        staging = _staging(transfer)
        staging.transfers.discard(transfer)  # it ends by itself
        self._stagings.drop(transfer)
        if not staging.is_over:
            self._watch.leave(staging, fault)

    def interrupt(self, transfer: Transfer) -> bool:
        """End an entry whose worker was cancelled; true if that was only because its batch has moved."""
        if transfer.moved:
            self._stagings.drop(transfer)
            return was_the_move()
        self._stagings.cancel(transfer)
        return False

    def note_straggler(self, volume_index: int) -> None:
        """Note that a file on this volume was far slower than the rest: the volume may be slow."""
        self._watch.note_straggler(volume_index)

    def views(self) -> list[VolumeView]:
        """The volumes for the dashboard."""
        return self._watch.views()


def _staging(transfer: Transfer) -> BatchStaging:
    assert isinstance(transfer.staging, BatchStaging)
    return transfer.staging
