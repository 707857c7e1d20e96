"""The driver's dealer of a run with several volumes: it gives Spark's tasks the shares of ``PlacedShares``.

A share goes to its task as a file in a directory that all executors see, as it holds URLs; the hub carries
its number. The file is the task's grant too (``RunSpec.grants``): it goes when the share does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.storage.files import on_disk, replace_file
from cfetch.tasks.hub.messages import ShareEnded
from cfetch.tasks.shares.dealing import MOST_DEATHS, ShareGiver
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.salvage import bury_on_volume
from cfetch.tasks.shares.work import Order, RunSpec, Turn


def _find_order(spec: RunSpec, task: int) -> Path:
    """Where the order of a task stands."""
    return Path(spec.grants, f"t{task}")


def read_order(spec: RunSpec, task: int) -> Order:
    """Read the order of a task. Raises FileNotFoundError: it has been withdrawn. Raises LocalFault."""
    path = _find_order(spec, task)
    try:
        with on_disk(path):
            return msgspec.msgpack.decode(path.read_bytes(), type=Order)
    except NOT_DECODED:
        raise LocalFault(f"{path} cannot be read as it was written; run the same command again") from None


class ShareDealer(ShareGiver):
    """Implements ``Dealer``. ``forget``: the hub forgets a task that has died.

    ``ended``: how many shares have been brought to their end.
    """

    def __init__(self, placed: PlacedShares, spec: RunSpec, forget: Callable[[int], None]) -> None:
        super().__init__(placed)
        self._placed = placed
        self._spec = spec
        self._forget = forget
        self._turns: dict[int, Turn] = {}  # of the tasks that have shares
        self._deaths: dict[int, tuple[int, int]] = {}  # by share, with the entries that were left
        self.ended = 0

    @property
    def is_over(self) -> bool:
        """Implements ``Dealer.is_over``."""
        return self._is_stopping or self._placed.is_over()

    def claim(self, executor: str) -> int | None:
        """Implements ``Dealer.claim``."""
        task: int | None = None
        with self._failing():
            if not self._is_stopping:
                task = self._deal(executor)
        return task

    def _deal(self, executor: str) -> int | None:
        """Take a share, and write its file before its number is told."""
        turn = self._placed.take()
        if turn is None:
            if self._placed.is_over() and self._placed.fault is not None:
                raise self._placed.fault
            return None
        share = self._placed.fill(turn.share)
        share = share._replace(sharers=min(share.sharers, self._spec.at_a_time))
        order = Order(share, turn._replace(executor=executor))
        replace_file(_find_order(self._spec, turn.task), msgspec.msgpack.encode(order), durable=False)
        self._turns[turn.task] = turn
        return turn.task

    def renew(self, task: int) -> None:
        """Implements ``Dealer.renew``."""
        with self._failing():
            if (turn := self._turns.get(task)) is not None:
                self._placed.renew(turn)

    def end(self, ended: ShareEnded) -> None:
        """Implements ``Dealer.end``."""
        turn = self._turns.pop(ended.task, None)
        if turn is None or self._is_stopping:
            return
        with self._failing():
            if ended.fault is None:
                self._placed.end(turn)
                self.ended += 1
                self._withdraw(turn)
            elif not isinstance(fault := ended.fault.restore(), VolumeFault):
                self._take_back(turn)  # the executor cannot work, and Spark hears of it from the task
            elif self._placed.is_mine(turn):
                self._move(turn, fault)
                self._withdraw(turn)

    def lose(self, task: int) -> None:
        """Implements ``Dealer.lose``: fence the task, then look what it has brought."""
        turn = self._turns.pop(task, None)
        if turn is None or self._is_stopping:
            return
        with self._failing():
            self._take_back(turn)
            left = len(self._placed.fill(turn.share).entries)
            deaths, before = self._deaths.get(turn.share, (0, left))
            deaths = deaths + 1 if left >= before else 1
            self._deaths[turn.share] = deaths, left
            if deaths > MOST_DEATHS:
                raise LocalFault(
                    f"{deaths} tasks of this run, one after the other, died over the same files; look at the "
                    "memory and the logs of the executors, then run the same command again"
                )

    def _take_back(self, turn: Turn) -> None:
        """Fence a task that nobody has reaped: its grant goes, and then its directory of parts."""
        self._withdraw(turn)
        self._forget(turn.task)
        bury_on_volume(self._placed, self._spec, turn.task, moves=False)
        self.wait_for_receipts()
        self._placed.bury(turn)

    def _withdraw(self, turn: Turn) -> None:
        path = _find_order(self._spec, turn.task)
        with on_disk(path):
            path.unlink(missing_ok=True)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let what goes wrong end the run, unless it is stopping."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            with self._changed:
                if not self._is_stopping:
                    self.fail(error)
