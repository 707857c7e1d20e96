"""The driver's dealer of a run with several volumes: it gives Spark's tasks the shares of ``PlacedShares``.

A share goes to its task as a file (``tasks/shares/lending.py``); the hub carries its number.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.tasks.hub.messages import ShareEnded
from cfetch.tasks.shares.dealing import MOST_DEATHS, BuryTask, ShareGiver
from cfetch.tasks.shares.lending import LentShares
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.work import Turn


class ShareDealer(ShareGiver):
    """Implements ``Dealer``. ``grants`` and ``bury_task`` as in ``LentShares``.

    ``ended``: how many shares have been brought to their end.
    """

    def __init__(self, placed: PlacedShares, grants: Path, bury_task: BuryTask) -> None:
        super().__init__(placed)
        self._placed = placed
        self._lent = LentShares(placed, grants, bury_task, self.wait_for_receipts)
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
                task = self._lent.lend(executor)
                if task is None and self._placed.is_over() and self._placed.fault is not None:
                    raise self._placed.fault
        return task

    def renew(self, task: int) -> None:
        """Implements ``Dealer.renew``."""
        with self._failing():
            self._lent.renew(task)

    def end(self, ended: ShareEnded) -> None:
        """Implements ``Dealer.end``."""
        with self._failing():
            if self._is_stopping:
                return
            fault = None if ended.fault is None else ended.fault.restore()
            if fault is None:
                self.ended += self._lent.end(ended.task)
            elif not isinstance(fault, VolumeFault):
                self._lent.take_back(ended.task)  # the executor cannot work: Spark hears of it from the task
            elif not self._lent.move(ended.task, fault):
                raise fault

    def lose(self, task: int) -> None:
        """Implements ``Dealer.lose``: fence the task, then look what it has brought."""
        with self._failing():
            turn = None if self._is_stopping else self._lent.take_back(task)
            if turn is not None:
                self._count_death(turn)

    def _count_death(self, turn: Turn) -> None:
        left = len(self._placed.fill(turn).entries)
        deaths, before = self._deaths.get(turn.share, (0, left))
        deaths = deaths + 1 if left >= before else 1
        self._deaths[turn.share] = deaths, left
        if deaths > MOST_DEATHS:
            raise LocalFault(
                f"{deaths} tasks of this run, one after the other, died over the same files; look at the "
                "memory and the logs of the executors, then run the same command again"
            )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let what goes wrong end the run, unless it is stopping."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            with self._changed:
                if not self._is_stopping:
                    self.fail(error)
