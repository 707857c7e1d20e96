"""The board of one epoch of a plan: a directory in which nodes claim shares and show that they live.

::

    job               written once by the leader: which entries belong to which share, and its hub
    claims/3-0        turn 0 of share 3: the name of the node that made it, and which turn it is a copy of
    heartbeats/NODE   a beat as those of runs, with a count that grows (``beats.py``)

A claim is made in one step, so that it has one maker, and never changes. So all nodes that read the claims
of a share in their order have the same unit of the state table, with the same holders. What differs is when a
lease is over: that is measured by the node that looks. A node that has not been heard for as long as a lease
may be only slow, and another one brings a copy of its share. Once it is dead (``beats.py``), the node that
claims the share next takes its parts. One that is dead only by its silence may wake up and go on, which does
no harm: its files go to the same names on the same volume.
"""

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.storage.files import make_private, on_disk, publish_once, replace_file
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.messages import HubAddress
from cfetch.tasks.hub.receipts import STOP_NAME, share_receipt_name
from cfetch.tasks.nodes.beats import NodeBeats
from cfetch.tasks.shares.dealing import BuryTask, CutShares, ShareSource, Units
from cfetch.tasks.shares.protocol import Fenced, Grant, Phase, step
from cfetch.tasks.shares.work import Share, Turn
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.table import Node

JOB_NAME = "job"
CLAIMS = "claims"
MOST_TURNS = 20  # of one share, less its copies: then the share itself seems to kill its nodes


class SharedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's facts that all nodes need (``cfetch.board/4``).

    ``members``: the indexes of each share's entries; ``sharers`` as in ``Share``. With several volumes there
    are ``roots`` instead, in their order, and their ``labels``; ``unseen``: those that the leader does not
    have. ``wall_start_s``: when the leader's run started, in seconds since 1970. ``hub``: where tasks are
    heard.
    """

    schema: Literal["cfetch.board/4"] = "cfetch.board/4"
    members: list[list[int]] = []
    sharers: list[int] = []
    roots: list[str] = []
    labels: list[str | None] = []
    unseen: list[str] = []
    wall_start_s: float
    hub: HubAddress | None = None


def write_job(directory: Path, job: SharedJob) -> None:
    """Set up a board: from now on nodes may join. Raises LocalFault."""
    with on_disk(directory):
        make_private(directory / CLAIMS)
    replace_file(directory / JOB_NAME, msgspec.msgpack.encode(job), durable=False)


def read_job(directory: Path) -> SharedJob | None:
    """Read the job of a board; None: there is no board, or not yet. Raises LocalFault."""
    path = directory / JOB_NAME
    try:
        with on_disk(path):
            return msgspec.msgpack.decode(path.read_bytes(), type=SharedJob) if path.exists() else None
    except FileNotFoundError:
        return None
    except NOT_DECODED:
        raise LocalFault(
            f"{path} is of another version of cfetch; use the same version on all nodes"
        ) from None


class Claim(NamedTuple):
    """A turn of a share, from 0, which belongs to one node for ever; ``copies``: the turn that may go on."""

    node: str
    copies: int | None = None

    def write(self) -> bytes:
        """Its file's content."""
        return (self.node if self.copies is None else f"{self.node} {self.copies}").encode()

    @classmethod
    def read(cls, text: str) -> "Claim":
        """The claim of a file."""
        node, _, copies = text.partition(" ")
        return cls(node, int(copies) if copies.isdecimal() else None)


class Board(ShareSource):
    """Implements ``ShareSource``, for this process's node. Thread-safe; used within a ``with``.

    ``receipts``: the directory of receipts. ``fence``: the directory of the epoch. ``bury_task``: keep the
    parts of a dead task. The node has a beat from its first claim on.
    """

    def __init__(
        self,
        directory: Path,
        cut: CutShares,
        *,
        epoch: int,
        receipts: Path,
        fence: Path,
        node: Node,
        heartbeats: Heartbeats,
        bury_task: BuryTask,
    ) -> None:
        self._directory = directory
        self._cut = cut
        self._shares = len(cut.members)
        self._epoch = epoch
        self._receipts = receipts
        self._fence = fence
        self._bury_task = bury_task
        self._lock = threading.Lock()
        self._beats = NodeBeats(directory, epoch, node, heartbeats)
        self._units = Units(node.monotonic, self._shares)
        self._claims: list[list[Claim]] = [[] for _ in cut.members]
        self._own: set[int] = set()  # tasks of this node, under whatever name
        self._alive: set[Turn] = set()  # of them, those that have given a sign of life
        # by share and task: the dead whose parts nobody has taken; True: their node has ended for certain
        self._dead: dict[int, dict[int, bool]] = {}

    def close(self) -> None:
        """Say that the node leaves: others may take its shares at once."""
        with self._lock:
            self._beats.close()

    def take(self) -> Turn | None:
        """Claim the next share, or a copy of one whose task is silent; None: there is none now."""
        with self._using():
            while not self._is_over():
                self._beats.begin()
                self._read_claims()
                if (share := self._find_open()) is None:
                    self._hear_tasks()
                    share = self._find_open()
                if share is None and (share := self._units.find_silent()) is None:
                    return None
                if (turn := self._claim(share)) is not None:
                    return turn
        return None

    def fill(self, turn: Turn) -> Share:
        """All entries of the share: the leader may not know those that this node knows of."""
        return self._cut.fill(turn.share, Account())

    def take_again(self, turn: Turn) -> Turn | None:
        """Claim the next turn of a share, as its process has died; None: another node has it now."""
        with self._using():
            if not self._is_over():
                self._beats.begin()
                self._read_claims()
                if self._units[turn.share].has(turn.task):
                    self._units.step(turn.share, Fenced(turn.task))
                    return self._claim(turn.share)
        return None

    def renew(self, turn: Turn) -> None:
        """Note that the task is alive, for this node's other processes; its beat says it to other nodes."""
        self._alive.add(turn)  # without the lock, which is held while a disk is asked

    def end(self, turn: Turn) -> None:
        """Do nothing: the receipt says it."""

    def is_mine(self, turn: Turn) -> bool:
        """Whether the share is still this node's to bring."""
        with self._using():
            if not self._is_over():
                self._read_claims()
                return self._units[turn.share].has(turn.task)
        return False

    def is_over(self) -> bool:
        """Whether nothing is left to claim, now or later."""
        with self._lock:
            return self._is_over()

    @property
    def is_whole(self) -> bool:
        """Whether each share has its receipt."""
        return len(self._list_over()) == self._shares

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Use the board alone; it may go away meanwhile. Raises LocalFault."""
        with self._lock:
            try:
                with on_disk(self._directory):
                    yield
            except LocalFault:
                if not self._is_over():
                    raise

    def _is_over(self) -> bool:
        for share in self._list_over():
            self._units.settle(share)
        stands = os.path.isdir(self._fence) and os.path.isdir(self._directory / CLAIMS)
        return not stands or os.path.exists(self._receipts / STOP_NAME) or not self._units.left

    def _list_over(self) -> set[int]:
        with suppress(FileNotFoundError):
            names = {path.name for path in self._receipts.iterdir()}
            return {share for share in range(self._shares) if share_receipt_name(self._epoch, share) in names}
        return set()

    def _find_open(self) -> int | None:
        """The first share that no task has; those with low numbers take longest."""
        return next((n for n in range(self._shares) if self._units[n].phase is Phase.OPEN), None)

    def _read_claims(self) -> None:
        """Take in the claims that are new."""
        with suppress(FileNotFoundError):
            names = {path.name for path in (self._directory / CLAIMS).iterdir()}
            for share, claims in enumerate(self._claims):
                while f"{share}-{len(claims)}" in names:
                    self._note(share, self._read_claim(share, len(claims)))

    def _note(self, share: int, claim: Claim) -> dict[int, bool]:
        """Take the step that the claim's maker has taken, by whose clock no lease was live.

        Returns the dead tasks whose parts are the maker's to take: a copy of a part by two nodes may be torn.
        """
        task = _number_task(self._shares, share, len(self._claims[share]))
        for holder in self._units[share].holders:
            if self._turn_of(holder.task) != claim.copies:
                self._units.step(share, Fenced(holder.task))
        self._units.step(share, self._units.make_claim(share, task)._replace(now_s=math.inf))
        self._claims[share].append(claim)
        return self._dead.pop(share, {})

    def _claim(self, share: int) -> Turn | None:
        """Claim the next turn of a share; None: another task has it, or another node was faster."""
        unit, claims = self._units[share], self._claims[share]
        begun = sum(claim.copies is None for claim in claims)
        if begun >= MOST_TURNS:
            raise LocalFault(
                f"a part of the plan was begun {begun} times, and its node or its process died each time; "
                "look at the memory and the logs of the nodes, then run the same command again"
            )
        turn, task = len(claims), _number_task(self._shares, share, len(claims))
        _, actions = step(unit, self._units.make_claim(share, task))
        if not any(isinstance(action, Grant) for action in actions):
            return None
        claim = Claim(self._beats.name, self._turn_of(unit.holders[0].task) if unit.holders else None)
        is_mine = publish_once(self._find_path(share, turn), claim.write(), durable=False)
        dead = self._note(share, claim if is_mine else self._read_claim(share, turn))
        if not is_mine:
            return None
        self._own.add(task)
        for other, is_gone in dead.items():
            self._bury_task(other, moves=is_gone)
        return Turn(share, task, int(claim.copies is not None))

    def _find_path(self, share: int, turn: int) -> Path:
        return self._directory / CLAIMS / f"{share}-{turn}"

    def _read_claim(self, share: int, turn: int) -> Claim:
        return Claim.read(self._find_path(share, turn).read_text("utf-8"))

    def _turn_of(self, task: int) -> int:
        return (task - 1) // self._shares

    def _hear_tasks(self) -> None:
        """Listen to all tasks that have shares: their leases become longer, or they are dead."""
        while self._alive:
            self._units.renew(*self._alive.pop()[:2])
        held: dict[str, list[int]] = {}
        for share in self._units.list_held():
            for task, _ in self._units[share].holders:
                if task not in self._own:
                    held.setdefault(self._claims[share][self._turn_of(task)].node, []).append(task)
        for node, tasks in held.items():
            heard = self._beats.hear(node)
            for task in tasks:
                share = (task - 1) % self._shares
                if heard.is_dead:
                    self._units.step(share, Fenced(task))
                    self._dead.setdefault(share, {})[task] = heard.is_gone
                elif heard.is_new:
                    self._units.renew(share, task)


def _number_task(shares: int, share: int, turn: int) -> int:
    """The number of the task that brings a turn: no other turn of any share has it."""
    return turn * shares + share + 1
