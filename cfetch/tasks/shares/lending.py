"""Shares that go to tasks which are no children of this process: tasks of Spark, and of other machines.

Nobody reaps such a task, so it may live although it seems dead. It gets its share as a file, its *order*, in
a directory that all of them see. The file is its grant too (``RunSpec.grants``): who takes a share back
removes it, and then closes the task's directory of parts, without which the kernel refuses its renames. Only
then may others have the share: else the task could wake up, and put in place what goes to another volume.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.storage.files import on_disk, replace_file
from cfetch.tasks.shares.dealing import BuryTask
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.work import Order, Turn


def read_order(grants: str | Path, task: int) -> Order | None:
    """Read the order of a task; None: it has been withdrawn. Raises LocalFault."""
    path = _find_order(grants, task)
    try:
        with on_disk(path), suppress(FileNotFoundError):
            return msgspec.msgpack.decode(path.read_bytes(), type=Order)
    except NOT_DECODED:
        raise LocalFault(f"{path} cannot be read as it was written; run the same command again") from None
    return None


def _find_order(grants: str | Path, task: int) -> Path:
    return Path(grants, f"t{task}")


class LentShares:
    """The ``placed`` shares that such tasks have; ``turns``: by task. Its methods raise LocalFault.

    Several threads may use it. ``bury_task``: close a task's directory of parts, and keep what is useful.
    ``wait_for_receipts``: until the driver has read what a task has left.
    """

    def __init__(
        self,
        placed: PlacedShares,
        grants: Path,
        bury_task: BuryTask,
        wait_for_receipts: Callable[[], None],
    ) -> None:
        self._placed = placed
        self._grants = grants
        self._bury_task = bury_task
        self._wait_for_receipts = wait_for_receipts
        self.turns: dict[int, Turn] = {}

    def lend(self, executor: str, volumes: Collection[int] | None = None) -> int | None:
        """Take a share, and write its order before its task is told; None: there is none now.

        ``volumes`` as for ``PlacedShares.take``.
        """
        turn = self._placed.take(volumes)
        if turn is None:
            return None
        turn = turn._replace(executor=executor)
        order = msgspec.msgpack.encode(Order(self._placed.fill(turn), turn))
        try:
            replace_file(_find_order(self._grants, turn.task), order, durable=False)
        except LocalFault:
            if os.path.isdir(self._grants):  # otherwise the run is over
                raise
        self.turns[turn.task] = turn
        return turn.task

    def renew(self, task: int) -> None:
        """Note that the task is alive."""
        if (turn := self.turns.get(task)) is not None:
            self._placed.renew(turn)

    def end(self, task: int) -> bool:
        """Note that the task has brought its share; False: it has none any more."""
        if (turn := self._withdraw(task)) is not None:
            self._placed.end(turn)
        return turn is not None

    def move(self, task: int, fault: VolumeFault) -> bool:
        """Give up a share that its volume refuses. False: no other volume may have it."""
        turn = self._withdraw(task)
        if turn is None or not self._placed.is_mine(turn):
            return True
        self._wait_for_receipts()
        return self._placed.move(turn, fault)

    def take_back(self, task: int, *, is_reaped: bool = False, moves: bool = False) -> Turn | None:
        """Let others have the share of a dead task; None: it has none any more.

        ``is_reaped``: it can write nothing more, and its parts are kept. ``moves`` as in ``BuryTask``.
        """
        turn = self._withdraw(task)
        if turn is not None:
            if not is_reaped:
                self._bury_task(task, moves=moves)
            self._wait_for_receipts()
            self._placed.bury(turn)
        return turn

    def _withdraw(self, task: int) -> Turn | None:
        """Take its grant from a task; None: it has no share."""
        turn = self.turns.pop(task, None)
        if turn is not None:
            path = _find_order(self._grants, task)
            with on_disk(path):
                path.unlink(missing_ok=True)
        return turn
