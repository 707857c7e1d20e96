"""The leader's desk, at which other nodes get shares for several volumes: one more thread of the leader.

``PlacedShares`` decides, for the leader's processes and for all nodes alike. A node that is dead is fenced on
the volume before anybody else may have its share (``tasks/shares/lending.py``).
"""

import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from cfetch.base.errors import CfetchError, LocalFault, VolumeFault
from cfetch.base.threads import start_thread
from cfetch.storage.files import on_disk, replace_file
from cfetch.tasks.hub.messages import ShareEnded
from cfetch.tasks.hub.receipts import share_receipt_name
from cfetch.tasks.nodes.asking import Ask, Mail, find_over
from cfetch.tasks.nodes.beats import NodeBeats
from cfetch.tasks.shares.dealing import BuryTask, ShareGiver
from cfetch.tasks.shares.lending import LentShares
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.work import Turn

LOOK_S = 0.2  # between looks at what nodes ask: half of the time that a node without work waits
HEAR_S = 1.0  # between looks whether they live
SPARED_S = 300.0  # for which a node gets no share for a volume that has failed there: only it may see it so


class Desk:
    """Deals the ``placed`` shares to other nodes, from ``start`` to ``close``.

    ``receipts``: their directory. ``bury_task``: close a task's directory of parts, and keep what is useful.
    """

    def __init__(
        self, mail: Mail, placed: PlacedShares, receipts: Path, epoch: int, beats: NodeBeats, bury: BuryTask
    ) -> None:
        self._mail = mail
        self._placed = placed
        self._receipts = receipts
        self._epoch = epoch
        self._beats = beats
        self._bury_task = bury
        self._lent = LentShares(placed, mail.grants, self._bury, self._wait_for_receipts)
        self._dead: set[str] = set()
        self._done: set[str] = set()  # asks whose words about a dead task have been followed
        self._spared: dict[tuple[str, int], float] = {}  # by node and volume, until when
        self._waited_s = self._heard_s = 0.0
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._crew: ShareGiver | None = None

    def start(self, crew: ShareGiver) -> None:
        """Begin; called once. ``crew``: the leader's own processes."""
        self._crew = crew
        self._thread = start_thread(self._serve, "desk")

    def close(self) -> None:
        """Give nothing more. The crew has been stopped."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(LocalFault):  # a plan that is completed has no directory any more
            self._say_over()
        self._beats.close()

    def _serve(self) -> None:
        assert self._crew is not None
        try:
            with on_disk(self._receipts.parent):
                self._beats.begin()
                while not self._ending.wait(LOOK_S):
                    self._waited_s += LOOK_S
                    self._poll()
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            self._crew.fail(error)

    def _poll(self) -> None:
        """Take in all that nodes have said and brought since the last time, and answer them."""
        self._settle()
        asks = list(self._mail.read_asks())
        for ask in asks:
            self._answer(ask)
        if self._waited_s - self._heard_s >= HEAR_S:
            self._heard_s = self._waited_s
            self._hear({ask.node for ask in asks})
        self._say_over()

    def _say_over(self) -> None:
        """Let the nodes know that all is over, and with which fault: they end as the leader does."""
        path = find_over(self._receipts, self._epoch)
        if self._placed.is_over() and self._receipts.is_dir() and not path.exists():
            fault = self._placed.fault
            replace_file(path, b"" if fault is None else str(fault).encode(), durable=False)

    def _settle(self) -> None:
        """Count the shares that nodes have brought: their receipts are there."""
        if not self._lent.turns:
            return
        with on_disk(self._receipts), suppress(FileNotFoundError):
            names = {path.name for path in self._receipts.iterdir()}
            for turn in list(self._lent.turns.values()):
                if share_receipt_name(self._epoch, turn.share) in names:
                    self._lent.end(turn.task)

    def _answer(self, ask: Ask) -> None:
        """Do what a node asks; one that wants a share waits if there is none now."""
        task = None
        if ask.node not in self._dead:
            if ask.refused is not None:
                self._move(ask.node, ask.refused)
            if ask.dead is not None and ask.name not in self._done:
                self._done.add(ask.name)
                self._lent.take_back(ask.dead, is_reaped=True)
            if ask.volumes and (task := self._give(ask)) is None:
                return
        self._mail.answer(ask, task)

    def _move(self, node: str, refused: ShareEnded) -> None:
        assert refused.fault is not None
        fault, volume = refused.fault.restore(), self._placed.find_volume(refused.task)
        assert isinstance(fault, VolumeFault)
        if volume is not None and not fault.no_room:
            self._spared[node, volume] = self._waited_s + SPARED_S
        self._lent.move(refused.task, fault)

    def _give(self, ask: Ask) -> int | None:
        volumes = [
            volume for volume in ask.volumes if self._spared.get((ask.node, volume), 0.0) <= self._waited_s
        ]
        return self._lent.lend(ask.node, volumes) if volumes else None

    def _wait_for_receipts(self) -> None:
        assert self._crew is not None
        self._crew.wait_for_receipts()

    def _hear(self, asking: set[str]) -> None:
        """Listen to the nodes that have shares or want one: their leases become longer, or they are dead."""
        turns: defaultdict[str, list[Turn]] = defaultdict(list)
        for turn in self._lent.turns.values():
            turns[turn.executor].append(turn)
        for node in sorted(asking | turns.keys()):
            heard = self._beats.hear(node)
            if heard.is_dead:
                self._dead.add(node)
                for turn in turns[node]:
                    self._lent.take_back(turn.task, moves=heard.is_gone)
            elif heard.is_new:
                for turn in turns[node]:
                    self._placed.renew(turn)

    def _bury(self, task: int, *, moves: bool = True) -> None:
        with suppress(CfetchError):  # the volume fails: whoever gets the share next will say so
            self._bury_task(task, moves=moves)
