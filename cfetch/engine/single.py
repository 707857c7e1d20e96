"""Implements the commitment to one volume: each verified part is published by itself."""

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from cfetch.base.clock import RunClock
from cfetch.base.errors import CfetchError, LocalFault, Unstorable
from cfetch.base.events import VolumeView
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.files_in_place import end_standing
from cfetch.engine.publishing import Publishing
from cfetch.engine.schedule import Schedule
from cfetch.engine.side_tasks import SideTasks
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer
from cfetch.storage.volume_values import Standing

if TYPE_CHECKING:
    from cfetch.manifest.entries import Entries
    from cfetch.storage.volume import Volume


class Single:
    """The ``Commitment`` to one volume, whose faults end the run. The schedule's queues are hosts."""

    judges_volumes = False

    def __init__(
        self,
        entries: "Entries",
        volume: "Volume",
        schedule: Schedule[Transfer],
        entry_records: EntryRecords,
        switch: StopSwitch,
        clock: RunClock,
    ) -> None:
        self.schedule = schedule
        self._entries = entries
        self._volume = volume
        self._entry_records = entry_records
        self._switch = switch
        self._clock = clock
        self._publishing = Publishing([volume], switch)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to hand out."""
        return not self.schedule.waiting

    async def open(self, tasks: SideTasks) -> None:
        """Look at the leftovers of dead runs, before anything is begun."""
        try:
            await self._volume.open()
        except LocalFault as fault:
            self._switch.fail(fault)
        self._publishing.start(tasks)

    async def end_standing(self) -> None:
        """End the entries whose files one look finds in place."""
        await end_standing(
            self._entries, self._volume, self.schedule, self._entry_records, self._switch, self._clock
        )

    async def close(self) -> None:
        """Publish the parts that wait for it."""
        await self._publishing.finish()

    def end(self) -> None:
        """End the entries that waited for their next try."""
        for transfer in self.schedule.drain():
            self._cancel(transfer)

    def stop(self) -> None:
        """Do nothing: the volume publishes the parts that it was given."""

    def opens_s(self, queue: int, waiting: int | Transfer, now_s: float) -> float:  # noqa: ARG002 - the port's
        """Now: a volume bears as many entries as there are workers."""
        return now_s

    def count_left(self, host: int) -> int:
        """Count the entries of a host that wait."""
        return self.schedule.count_left(host)

    def host_of(self, queue: int) -> str:
        """The host itself."""
        return self._entries.hosts[queue]

    def transfer(self, index: int, now_s: float) -> Transfer:
        """Make the transfer of an entry."""
        entry, queue = self._entries.entry(index), self._entries.host_of[index]
        part = self._volume.new_part(entry)
        return Transfer(entry, part, index=index, queue=queue, host=self.host_of(queue), now_s=now_s)

    def hand_out(self, index: int, now_s: float) -> Transfer:
        """Make the transfer of an entry: without batches, none is settled before."""
        return self.transfer(index, now_s)

    def take(self, transfer: Transfer) -> None:
        """Do nothing: the volume does not count its entries."""

    def leave(self, transfer: Transfer) -> None:
        """Note that the entry's host may take one more."""
        self.schedule.reopen(transfer.queue)

    def has_nothing_of(self, transfer: Transfer) -> bool:
        """Call ``Volume.has_nothing_of``."""
        return self._volume.has_nothing_of(transfer.entry)

    async def find_standing(self, transfer: Transfer) -> Standing | None:
        """The verified file under the entry's name; without one, the part adopts a dead run's leftover."""
        standing = await self._volume.verify_existing(transfer.entry)
        if standing is None:
            await self._volume.adopt_leftover(transfer.entry, transfer.part)
        return standing

    def put_back(self, transfer: Transfer, due_s: float) -> None:
        """Let the entry wait for its next try."""
        self.schedule.put(transfer.queue, transfer, due_s)

    def skip(self, transfer: Transfer) -> None:
        """End an entry that is in place already."""
        self._volume.remove_leftovers([transfer.entry])
        kept_bytes = transfer.entry.size_bytes or 0
        self._entry_records.finish(transfer, "skipped", volume=self._volume.name, kept_bytes=kept_bytes)

    async def publish(self, transfer: Transfer) -> None:
        """Give the verified part to the volume; wait while too many wait for their names."""
        self._volume.publish([transfer.part], partial(self._end_published, transfer))
        if self._volume.is_full:
            await self._volume.wait_for_room()

    def fail(self, transfer: Transfer, error: CfetchError) -> None:
        """End an entry that cannot be had."""
        kept_bytes = transfer.part.keep_leftover()
        self._entry_records.finish(
            transfer, "failed", volume=self._volume.name, kept_bytes=kept_bytes, error=error
        )

    def fail_locally(self, transfer: Transfer, fault: LocalFault) -> NoReturn:
        """End the entry, and the run: there is no other volume."""
        self.fail(transfer, fault)
        raise fault

    def interrupt(self, transfer: Transfer) -> bool:
        """End an entry whose worker was cancelled; the worker ends too."""
        self._cancel(transfer)
        return False

    def note_straggler(self, volume_index: int) -> None:
        """Do nothing: there is no other volume that would be faster."""

    def views(self) -> list[VolumeView]:
        """No views: the figures of the run are those of the volume."""
        return []

    def _end_published(self, transfer: Transfer, error: CfetchError | None) -> None:
        """End an entry whose part has its final name, or cannot get it."""
        volume = self._volume.name
        if error is None:
            self._entry_records.finish(transfer, "done", volume=volume, kept_bytes=transfer.part.position)
            return
        self._entry_records.finish(transfer, "failed", volume=volume, error=error)
        if isinstance(error, LocalFault) and not isinstance(error, Unstorable):
            self._switch.fail(error)

    def _cancel(self, transfer: Transfer) -> None:
        kept_bytes = transfer.part.keep_leftover(even_small=True)
        self._entry_records.finish(transfer, "cancelled", volume=self._volume.name, kept_bytes=kept_bytes)
