"""Batches and volumes at work: what is staged where, when it is committed, and when a volume fails.

The pool brings entries to their end; this says which may start and takes what has come to an end. Decisions
are the ``Placer``'s. A batch arrives, gets a volume, its entries are handed out; when the last of them is
whole they are published together. When the volume fails before that, all that was done for the batch there is
thrown away and it begins anew on another: its entries under way are cancelled, and their attempts are told of
as ``moved``.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from cfetch.breaker import Position
from cfetch.clock import RunClock
from cfetch.config.settings import Settings
from cfetch.engine.batches.arrivals import Arrivals
from cfetch.engine.batches.health import Health
from cfetch.engine.batches.owner import Owner
from cfetch.engine.batches.staging import Batch, Staging
from cfetch.engine.batches.volume_events import (
    batch_committed,
    batch_placed,
    given_up,
    left_behind,
    volume_paused,
    volume_view,
    why,
)
from cfetch.engine.schedule import NEVER
from cfetch.engine.transfer import Transfer
from cfetch.errors import Blocked, CfetchError, HeldBack, LocalFault, VolumeFault
from cfetch.events import Listener, VolumeView
from cfetch.manifest.entries import Entries
from cfetch.placement.chooser import NO_ROOM, Mode
from cfetch.placement.placer import Placed, Placer, Unplaceable
from cfetch.records import AttemptRecord, Status
from cfetch.storage.volume import Part, Volume

__all__ = ["Placing"]

TICK_S = 0.5  # between rounds in which nothing has happened
SHORTEST_WAIT_S = 0.01
MOST_MOVES = 16  # of one batch: it takes minutes, as volumes that fail are paused


class Placing:
    """``confirm`` raises if the plan is not this run's any more, which may look like volumes that fail."""

    def __init__(
        self,
        entries: Entries,
        settings: Settings,
        volumes: Sequence[Volume],
        owner: Owner,
        *,
        instant: str,
        clock: RunClock,
        emit: Listener,
        confirm: Callable[[], None],
    ) -> None:
        self._entries = entries
        self._settings = settings
        self._volumes = volumes
        self._names = [volume.name for volume in volumes]
        self._owner = owner
        self._instant = instant
        self._clock = clock
        self._emit = emit
        self._confirm = confirm
        self.arrivals = Arrivals(entries, volumes, share=settings.batch_share if len(volumes) > 1 else 0.0)
        self._mode = Mode(settings.placement) if len(volumes) > 1 else Mode.COUNT
        self._placer = Placer(len(volumes), mode=self._mode, deadline_s=settings.placement_deadline)
        self._batches: dict[int, Batch] = {}  # that have arrived and are not over
        self._stagings: dict[int, Staging] = {}
        self._lost: dict[int, list[AttemptRecord]] = {}  # by entry, on volumes that were left
        self._limit = settings.concurrency
        self._health = Health(
            volumes,
            self._placer,
            clock,
            patience_s=min(settings.write_timeout, settings.placement_deadline),
            landed=owner.landed,
            here=self._here,
            gone=self._gone,
        )
        self._done_bytes = [0] * len(volumes)
        self._done_batches = [0] * len(volumes)
        self._work = asyncio.Event()
        self._committed_all = asyncio.Event()
        self.is_over = False

    # what the pool asks

    def opens_s(self, queue: int, now_s: float) -> float:
        """When an entry of the queue may start, as far as its volume goes: now, or when one ends there."""
        staging = self._stagings[self.arrivals.queues.batch[queue]]
        return now_s if self._health.running[staging.at] < self._limit else NEVER

    def transfer(self, index: int, now_s: float) -> Transfer:
        """The entry, to be written to its batch's volume."""
        queue = self.arrivals.queues.of[index]
        staging = self._stagings[self.arrivals.queues.batch[queue]]
        entry, host = self._entries.entry(index), self._entries.hosts[self.arrivals.queues.host[queue]]
        part = self._volumes[staging.at].new_part(entry)
        transfer = Transfer(entry, part, index=index, queue=queue, host=host, now_s=now_s, staging=staging)
        transfer.attempts = list(self._lost.get(index, ()))
        return transfer

    def passes(self, index: int) -> bool:
        """An entry was handed out; whether there is nothing to be done about it."""
        staging = self._stagings[self.arrivals.queues.batch[self.arrivals.queues.of[index]]]
        staging.unhanded -= 1
        if staging.unhanded < self._limit:
            self._work.set()
        return index in staging.batch.settled

    def taken(self, transfer: Transfer) -> None:
        """A worker has the entry in hand."""
        staging = _of(transfer)
        staging.transfers.add(transfer)
        transfer.task = asyncio.current_task()
        self._health.begins(staging.at)

    def left(self, transfer: Transfer) -> None:
        """And has it no more."""
        staging = _of(transfer)
        staging.transfers.discard(transfer)
        transfer.task = None
        self._health.ends(staging.at)

    async def vouched_for(self, transfer: Transfer) -> str | None:
        """What vouches for the file that stands under the entry's name, here or on another volume.

        Files of a batch without a name stay where they are. Raises Blocked, VolumeFault.
        """
        staging = _of(transfer)
        blocked = staging.batch.blocked[staging.at].get(transfer.index)
        if blocked is not None:
            raise blocked
        at = staging.batch.standing.get(transfer.index)
        return None if at is None else await self._volumes[at].verify_existing(transfer.entry)

    def volume_of(self, transfer: Transfer) -> str:
        """Where the entry is, or was to be."""
        staging = _of(transfer)
        settled = transfer.index in staging.batch.settled
        return self._volumes[
            staging.batch.standing.get(transfer.index, staging.at) if settled else staging.at
        ].name

    async def adopt(self, transfer: Transfer) -> None:
        """Go on with what a dead run has left on this volume."""
        await self._volumes[_of(transfer).at].adopt_leftover(transfer.entry, transfer.part)

    def stands(self, transfer: Transfer) -> None:
        """It is in place already; in a named batch that counts once the batch stays here."""
        staging = _of(transfer)
        if staging.batch.name is not None and not staging.is_over:
            staging.skipped.append(transfer)
            self._ended(staging)
            return
        self._settled(transfer, "skipped", kept_bytes=transfer.entry.size_bytes or 0)

    def cannot_be_had(self, transfer: Transfer, error: CfetchError) -> None:
        """It has failed for good."""
        if not _of(transfer).is_over:
            _of(transfer).batch.failed += 1
            self._settled(transfer, "failed", kept_bytes=transfer.part.keep_leftover(), error=error)
        else:
            self.drop(transfer)

    def _settled(
        self, transfer: Transfer, status: Status, *, kept_bytes: int, error: CfetchError | None = None
    ) -> None:
        staging = _of(transfer)
        if staging.is_over:
            self.drop(transfer)
            return
        staging.batch.settled.add(transfer.index)
        self._lost.pop(transfer.index, None)
        self._owner.finish(transfer, status, kept_bytes=kept_bytes, error=error)
        self._ended(staging)

    def staged(self, transfer: Transfer) -> None:
        """It is whole and verified, and waits for the others of its batch."""
        staging = _of(transfer)
        if staging.is_over:
            self.drop(transfer)
            return
        try:
            transfer.part.finish()
        except LocalFault as fault:
            if isinstance(fault, VolumeFault) and len(self._volumes) > 1:
                self.volume_failed(transfer, fault)
                return
            self._owner.finish(transfer, "failed", kept_bytes=transfer.part.keep_leftover(), error=fault)
            raise
        staging.staged.append(transfer)
        self._placer.taken(staging.batch.number)
        if not transfer.mitigations:
            self._placer.steady(staging.at)
        self._ended(staging)

    def volume_failed(self, transfer: Transfer, fault: VolumeFault) -> None:
        """The volume did not take the entry: its batch goes elsewhere, and this transfer has ended."""
        staging = _of(transfer)
        staging.transfers.discard(transfer)  # it ends by itself
        self.drop(transfer)
        if not staging.is_over:
            self._leave(staging, fault)

    def drop(self, transfer: Transfer) -> None:
        """It begins anew on another volume; what was tried for it here is told in the end."""
        transfer.part.discard()
        self._lost[transfer.index] = [
            msgspec.structs.replace(one, outcome="moved") for one in transfer.attempts
        ]

    def straggled(self, at: int) -> None:
        """A file on volume ``at`` was far slower than the rest."""
        if self._placer.straggled(at, self._owner.now()):
            self._tell_paused(at)
            self._work.set()

    def views(self) -> list[VolumeView]:
        """For the dashboard."""
        free, batches, done = self._health.free_bytes, self._done_batches, self._done_bytes
        return [
            volume_view(name, self._placer.view(at), free[at], batches[at], done[at])
            for at, name in enumerate(self._names)
        ]

    async def run(self) -> None:
        """Until all batches are over, or ``stop``, and the volumes have committed what they had."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._health.watch(), name="volumes")
            await self._health.opened()
            while not self.is_over:
                self._work.clear()
                await self._round()
                now_s = self._owner.now()
                wait_s = min(TICK_S, self._placer.next_s(now_s) - now_s)
                if not self.is_over:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._work.wait(), max(wait_s, SHORTEST_WAIT_S))
            self._owner.wake()
            await self._committed_all.wait()  # a volume may still hang
            watching.cancel()

    def committed(self) -> None:
        """The volumes have nothing left to do."""
        self._committed_all.set()

    def stop(self) -> None:
        """Nothing new is begun."""
        self.is_over = True
        self._health.hurry()
        self._work.set()

    def end(self) -> None:
        """The run is over: what was not committed is kept for the next one, as far as it can be."""
        for staging in self._stagings.values():
            self._tell_skipped(staging)
            for transfer in staging.staged:
                self._owner.finish(transfer, "cancelled", kept_bytes=transfer.part.keep_leftover(whole=True))
        for at, volume in enumerate(self._volumes):
            if volume.left_behind:
                view = self._placer.view(at)
                self._emit(left_behind(self._owner.now(), volume.name, volume.left_behind, view.reason))

    async def _round(self) -> None:
        """Let batches arrive, place them, begin them."""
        for batch in [one for one in self._batches.values() if one.moves > MOST_MOVES]:
            self._placer.cancel(batch.number)
            self._give_up(batch, f"it was begun {batch.moves} times in vain")
        began = True
        while began and not self.is_over:
            began = False
            while not self.arrivals.is_over and self._placer.wants_more(self._owner.now()):
                await self._arrive()
            now_s = self._owner.now()
            for placed in self._placer.assign(now_s):
                self._tell_placed(placed)
            volumes = range(len(self._volumes))
            views = [self._placer.view(at) for at in volumes]
            at_work = sum(bool(view.queued or view.running) for view in views)  # one may be full, or paused
            self._limit = max(1, -(-self._settings.concurrency // max(1, at_work)))
            for at in volumes:
                while self._wants_batch(at) and (found := self._placer.begin(at, now_s)) is not None:
                    began = True
                    if found.stolen_from is not None and not found.probe:
                        self._tell_placed(found)
                    self._start(found)
        for overdue in self._placer.overdue(self._owner.now()):
            self._give_up(self._batches[overdue.batch], overdue.why, overdue.reasons)
        self._look_whether_over()
        self._owner.wake()

    def _look_whether_over(self) -> None:
        if self.arrivals.is_over and not self._batches:
            self.is_over = True
            self._work.set()

    def _here(self, at: int) -> list[Staging]:
        """What is being staged on a volume."""
        return [one for one in self._stagings.values() if one.at == at]

    def _wants_batch(self, at: int) -> bool:
        here = self._here(at)
        is_new = self._mode is Mode.FINISH and self._health.is_new(at)
        if is_new and here:
            return False  # else the first and largest batches fill a volume that may be slow
        return sum(one.unhanded for one in here) < self._limit and len(here) < 2 * self._limit + 2

    async def _arrive(self) -> None:
        batch = await self.arrivals.next(self._gone)
        self._batches[batch.number] = batch
        size_bytes, files = batch.missing_bytes, len(batch.entries)
        try:
            self._placer.submit(batch.number, size_bytes, files, self._owner.now(), home=batch.home)
        except Unplaceable as reason:
            self._give_up(batch, str(reason))

    def _start(self, placed: Placed) -> None:
        batch = self._batches[placed.batch]
        if batch.name is not None and batch.home not in (None, placed.volume):
            self._volumes[batch.home].withdraw_batch(batch.id, ())  # it is to be whole on the other one
            batch.standing.clear()
            batch.home = None
        staging = self._stagings[batch.number] = Staging(batch, placed.volume, why(placed, self._names))
        self._volumes[staging.at].mark_batch(batch.id)
        for queue in self.arrivals.queues.of_batch(batch.number):
            self._owner.schedule.release(queue)
        self._look_whether_complete(staging)

    def _ended(self, staging: Staging) -> None:
        staging.left -= 1
        self._look_whether_complete(staging)

    def _look_whether_complete(self, staging: Staging) -> None:
        batch = staging.batch
        if staging.left or staging.is_over:
            return
        if batch.failed and batch.name is not None:
            self._hold_back(staging)
        elif staging.staged:
            parts = [transfer.part for transfer in staging.staged]
            record = staging.record(self._instant)
            ended = partial(self._committed, staging, parts)
            self._volumes[staging.at].publish(parts, ended, record)
        else:
            self._over(staging)

    def _hold_back(self, staging: Staging) -> None:
        """A named batch is published as a whole: what came of it is kept for a later run."""
        batch = staging.batch
        error = HeldBack(
            f"held back, as {batch.failed} of the {len(batch.entries)} files of batch {batch.name} failed; "
            "run the same command again to go on"
        )
        for transfer in staging.staged:
            self._owner.finish(
                transfer, "failed", kept_bytes=transfer.part.keep_leftover(whole=True), error=error
            )
        self._over(staging, come_back=True)

    def _committed(self, staging: Staging, parts: Sequence[Part], error: CfetchError | None) -> None:
        """The batch has its names and its record, or cannot get them."""
        at = staging.at
        if staging.is_over:  # it has been given to another volume meanwhile
            if error is None:
                self._volumes[at].withdraw_batch(staging.batch.id, parts)
            return
        if isinstance(error, VolumeFault) and len(self._volumes) > 1:
            self._leave(staging, error)
            return
        for transfer in staging.staged:
            if error is None:
                self._owner.finish(transfer, "done", kept_bytes=transfer.part.position)
            else:
                self._owner.finish(transfer, "failed", error=error)
        if error is None:
            self._done_bytes[at] += staging.staged_bytes
            self._done_batches[at] += 1
            self._emit(batch_committed(self._owner.now(), staging, self._volumes[at].name))
            for other, path in staging.copies_elsewhere():
                self._volumes[other].remove_older(path)
        self._over(staging)
        if error is not None and not isinstance(error, Blocked):
            self._owner.fail(error if isinstance(error, LocalFault) else LocalFault(str(error)))

    def _tell_skipped(self, staging: Staging) -> None:
        for transfer in staging.skipped:
            self._owner.finish(transfer, "skipped", kept_bytes=transfer.entry.size_bytes or 0)
        staging.skipped.clear()

    def _over(self, staging: Staging, *, come_back: bool = False) -> None:
        """Nothing more is to be done about the batch in this run; ``come_back``: but in a later one, here."""
        staging.is_over = True
        self._tell_skipped(staging)
        if not come_back:
            self._volumes[staging.at].unmark_batch(staging.batch.id)
        for transfer in staging.staged:
            self._lost.pop(transfer.index, None)
        staging.staged.clear()
        self._placer.written(staging.batch.number, self._owner.now(), of=staging.at)
        del self._stagings[staging.batch.number]
        self._forget(staging.batch)

    def _forget(self, batch: Batch) -> None:
        for queue in self.arrivals.queues.of_batch(batch.number):
            self._owner.schedule.close(queue)  # settled entries may not have been handed out again
        del self._batches[batch.number]
        self._look_whether_over()
        self._work.set()

    # volumes that fail

    def _leave(self, staging: Staging, fault: VolumeFault) -> None:
        """The volume cannot take this batch."""
        if not self._is_the_volumes(fault):
            return
        at, number = staging.at, staging.batch.number
        before = self._placer.view(at).breaker
        now_s = self._owner.now()
        self._placer.failed(number, now_s, of=at, reason=str(fault), no_room=fault.no_room)
        self._withdraw(staging)
        if fault.no_room:
            self._health.is_full(at)
        if self._placer.view(at).breaker is not before:
            self._tell_paused(at)
        self._work.set()

    def _gone(self, at: int, fault: LocalFault) -> None:
        """The volume takes nothing any more: all its batches go elsewhere."""
        if not self._is_the_volumes(fault):
            return
        was_open = self._placer.view(at).breaker is Position.OPEN
        self._placer.volume_failed(at, self._owner.now(), str(fault))
        for staging in self._here(at):
            self._withdraw(staging)
        if not was_open:
            self._tell_paused(at)
        self._work.set()

    def _is_the_volumes(self, fault: LocalFault) -> bool:
        """Whether to go to another volume: there is one, and the plan was not simply taken from us."""
        if isinstance(fault, VolumeFault) and len(self._volumes) > 1:
            with suppress(CfetchError):  # the run asks again at its end, and tells who has it
                self._confirm()
                return True
        self._owner.fail(fault)
        return False

    def _withdraw(self, staging: Staging) -> None:
        """End everything that is under way for the batch here."""
        staging.is_over = True
        staging.batch.moves += 1
        del self._stagings[staging.batch.number]
        for queue in self.arrivals.queues.of_batch(staging.batch.number):
            for transfer in self._owner.schedule.withdraw(queue):
                self.drop(transfer)
        for transfer in staging.staged:
            self.drop(transfer)
        staging.staged.clear()
        for transfer in staging.transfers:
            transfer.moved = True
            if transfer.task is not None:
                transfer.task.cancel()
        self._volumes[staging.at].unmark_batch(staging.batch.id)

    def _give_up(self, batch: Batch, why: str, reasons: Sequence[str] | None = None) -> None:
        """No volume takes the batch; ``reasons``: of each, by default what each said last to any batch."""
        said = [view.reason or NO_ROOM for view in self.views()] if reasons is None else reasons
        fault = given_up(batch, why, said, self._names)
        now_s, nowhere = self._owner.now(), Staging(batch, 0, "")
        for index in batch.entries:
            if index not in batch.settled:
                entry, queue = self._entries.entry(index), self.arrivals.queues.of[index]
                host = self._entries.hosts[self._entries.host_of[index]]
                part = self._volumes[0].new_part(entry)
                transfer = Transfer(
                    entry, part, index=index, queue=queue, host=host, now_s=now_s, staging=nowhere
                )
                transfer.attempts = self._lost.pop(index, [])
                self._owner.finish(transfer, "failed", error=fault)
        self._forget(batch)
        self._owner.blame(fault)
        if all(view.breaker == "open" for view in self.views()):
            self._owner.fail(fault)

    def _tell_placed(self, placed: Placed) -> None:
        self._emit(batch_placed(self._owner.now(), self._batches[placed.batch], placed, self._names))

    def _tell_paused(self, at: int) -> None:
        view = self._placer.view(at)
        if view.breaker is Position.OPEN:
            self._emit(volume_paused(self._owner.now(), self._volumes[at].name, view))


def _of(transfer: Transfer) -> Staging:
    assert transfer.staging is not None
    return transfer.staging
