"""Implements the commitment of a stream: entries begin in the manifest's order, as memory permits."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from cfetch.base.clock import RunClock
from cfetch.base.errors import CfetchError
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.schedule import MOST_PUT_BACK, NEVER, Schedule
from cfetch.engine.single import Single
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.stream_window import StreamWindow
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entry import Entry
from cfetch.storage.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from cfetch.manifest.entries import Entries


class Streaming(Single):
    """The ``Commitment`` to memory. ``lose`` gets each entry that cannot be had, by its index."""

    judges_volumes = True  # ``opens_s`` asks the window

    def __init__(
        self,
        entries: "Entries",
        volume: MemoryVolume,
        window: StreamWindow,
        entry_records: EntryRecords,
        switch: StopSwitch,
        idle: IdleWorkers,
        clock: RunClock,
        *,
        concurrency: int,
        lose: Callable[[int, Entry, CfetchError], None],
    ) -> None:
        schedule: Schedule[Transfer] = Schedule(
            range(len(entries), 0, -1),  # the schedule begins with the largest; here that is the first
            entries.host_of,
            len(entries.hosts),
            most_put_back=MOST_PUT_BACK * concurrency,
        )
        super().__init__(entries, volume, schedule, entry_records, switch, clock)
        self._memory = volume
        self._window = window
        self._idle = idle
        self._lose = lose
        volume.tell_room = self._begin_more

    def opens_s(self, queue: int, waiting: int | Transfer, now_s: float) -> float:  # noqa: ARG002 - the port's
        """Now, or ``NEVER`` until the reader has taken earlier entries; what was begun may always go on."""
        return now_s if isinstance(waiting, Transfer) or self._window.admits(waiting) else NEVER

    def transfer(self, index: int, now_s: float) -> Transfer:
        """Make the transfer of an entry."""
        entry, queue = self._entries.entry(index), self._entries.host_of[index]
        part = self._memory.open_part(entry, index)
        return Transfer(entry, part, index=index, queue=queue, host=self.host_of(queue), now_s=now_s)

    def fail(self, transfer: Transfer, error: CfetchError) -> None:
        """End an entry that cannot be had, and say so to the reader."""
        super().fail(transfer, error)
        self._lose(transfer.index, transfer.entry, error)

    def give_away(self, index: int) -> None:
        """Note that the reader has let go of an entry, so that others may begin."""
        self._window.give_away(index)
        self._memory.note_change()
        self._begin_more()

    def _begin_more(self) -> None:
        self.schedule.reopen_shut()
        self._idle.wake_one()
