"""The port between the pool and the volumes: where entries go, and how they get their final names.

The pool brings bytes; a commitment decides to which volume, and when parts are published. ``Single``
publishes each part by itself on one volume. ``Batched`` places whole batches on several volumes, publishes a
batch at once, and begins it anew on another volume when its own fails. The pool asks both the same questions
and does not know which of them it has.

An entry's life here: ``hand_out``, ``has_nothing_of``, ``find_standing``; then ``skip``, ``publish``,
``put_back``, ``fail``, ``fail_locally`` or ``interrupt``; last ``leave``. The commitment ends each entry in
the entry_records exactly once.
"""

from typing import Protocol

from cfetch.base.errors import CfetchError, LocalFault
from cfetch.base.events import VolumeView
from cfetch.engine.schedule import Schedule
from cfetch.engine.side_tasks import SideTasks
from cfetch.engine.transfer import Transfer
from cfetch.storage.volume_values import Standing


class Commitment(Protocol):
    """``schedule`` holds the entries that wait; its queues are the commitment's.

    ``judges_volumes``: whether ``note_straggler`` and ``opens_s`` must be called; else the volume bears any
    number of entries, and nobody has to look for slow files.
    """

    judges_volumes: bool

    @property
    def schedule(self) -> Schedule[Transfer]:
        """The entries that wait for their turn."""

    @property
    def is_over(self) -> bool:
        """Whether nothing will be handed out any more."""

    async def open(self, tasks: SideTasks) -> None:
        """Begin; the tasks of the volumes live in ``tasks``."""

    async def end_standing(self) -> None:
        """End the entries whose files are easily found in place, before any other is begun."""

    async def close(self) -> None:
        """Wait, after the workers have ended, until all given parts are published."""

    def end(self) -> None:
        """End the entries that are left when the run is over, and keep the bytes that a later run can use."""

    def stop(self) -> None:
        """Begin nothing new."""

    def opens_s(self, queue: int, waiting: int | Transfer, now_s: float) -> float:
        """When the volume of the queue takes this entry: now, or ``NEVER`` until another one ends there."""

    def count_left(self, host: int) -> int:
        """Count the entries of a host, by its number in the plan, that wait; at most ``concurrency``."""

    def host_of(self, queue: int) -> str:
        """The host of a queue's entries."""

    def transfer(self, index: int, now_s: float) -> Transfer:
        """Make the transfer of an entry, to its volume."""

    def hand_out(self, index: int, now_s: float) -> Transfer | None:
        """Give a new entry to the current task; None if nothing is to be done about it any more."""

    def take(self, transfer: Transfer) -> None:
        """Note that the current task has the entry in hand again."""

    def leave(self, transfer: Transfer) -> None:
        """Note that the worker has let go of the entry: others may start."""

    def has_nothing_of(self, transfer: Transfer) -> bool:
        """Whether nothing of the entry was there before this run; does not wait; else ``find_standing``."""

    async def find_standing(self, transfer: Transfer) -> Standing | None:
        """The file under the entry's name, if a record or a check vouches for it.

        If it is None, the part adopts what a dead run has left of the file. Raises Blocked, LocalFault.
        """

    def put_back(self, transfer: Transfer, due_s: float) -> None:
        """Let the entry wait for its next try."""

    def skip(self, transfer: Transfer) -> None:
        """Note that the entry is in place already."""

    async def publish(self, transfer: Transfer) -> None:
        """Take a whole and verified part; wait while too much waits to be published. Raises LocalFault."""

    def fail(self, transfer: Transfer, error: CfetchError) -> None:
        """Note that the entry cannot be had."""

    def fail_locally(self, transfer: Transfer, fault: LocalFault) -> None:
        """Note that the volume or the machine failed. Raises ``fault`` if the run cannot go on."""

    def interrupt(self, transfer: Transfer) -> bool:
        """Note that the entry's task was cancelled; true if the task itself is to go on."""

    def note_straggler(self, volume_index: int) -> None:
        """Note that a file on this volume was far slower than the rest."""

    def views(self) -> list[VolumeView]:
        """The volumes at this moment, where there is more to show than the run's own figures."""
