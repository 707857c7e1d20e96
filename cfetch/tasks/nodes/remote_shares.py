"""Shares for several volumes in a node that has joined: the leader deals them, at its desk."""

import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.storage.files import on_disk
from cfetch.tasks.hub.messages import ShareEnded, TaskFault
from cfetch.tasks.hub.receipts import STOP_NAME, share_receipt_name
from cfetch.tasks.nodes.asking import Ask, Mail, find_over
from cfetch.tasks.nodes.beats import NodeBeats
from cfetch.tasks.shares.dealing import ShareSource
from cfetch.tasks.shares.lending import read_order
from cfetch.tasks.shares.task_destination import is_granted
from cfetch.tasks.shares.work import Share, Turn

LOOK_S = 0.1  # between looks for an answer
PATIENCE_S = 2.0  # of one call; what was asked stays, and the next call takes the answer
COURSE_S = 1.0  # between looks whether the leader lives


class LeadersRun:
    """The run of the leader, as another node sees it. For one thread at a time.

    ``has_leader``: whether the run goes on. ``is_whole``: the leader has said that all shares are over, and
    with which ``fault``.
    """

    def __init__(self, receipts: Path, epoch: int, has_leader: Callable[[], bool]) -> None:
        self._receipts = receipts
        self._epoch = epoch
        self._has_leader = has_leader
        self._asked_s = -COURSE_S
        self._is_over = False
        self.is_whole = False
        self.fault: LocalFault | None = None

    def has_receipt(self, share: int) -> bool:
        """Whether a share has been brought."""
        return os.path.exists(self._receipts / share_receipt_name(self._epoch, share))

    def poll_over(self) -> bool:
        """Ask the disk whether it is over, at most once a second."""
        now_s = time.monotonic()
        if not self._is_over and now_s - self._asked_s >= COURSE_S:
            path = find_over(self._receipts, self._epoch)
            with on_disk(path), suppress(FileNotFoundError):
                said = path.read_text("utf-8")
                self._is_over = self.is_whole = True
                self.fault = LocalFault(said) if said else None
            self._is_over = (
                self._is_over or os.path.exists(self._receipts / STOP_NAME) or not self._has_leader()
            )
            self._asked_s = time.monotonic()
        return self._is_over


class RemoteShares(ShareSource):
    """Implements ``ShareSource``.

    ``volumes``: the numbers of those that this node sees.
    """

    def __init__(self, mail: Mail, beats: NodeBeats, run: LeadersRun, volumes: Collection[int]) -> None:
        self._mail = mail
        self._beats = beats
        self._run = run
        self._volumes = sorted(volumes)
        self._lock = threading.Lock()
        self._asked = 0
        self._waiting: list[str] = []  # names of asks whose answers nobody waits for now
        self._name = ""
        self._given: dict[int, Share] = {}  # by task, until its process has it
        self._volume_of: dict[int, int | None] = {}  # by task

    @property
    def fault(self) -> LocalFault | None:
        """The fault with which the leader's run ends."""
        return self._run.fault

    @property
    def is_whole(self) -> bool:
        """Whether the leader has said that all shares are over."""
        return self._run.is_whole

    def close(self) -> None:
        """Say that the node leaves: others may have its shares at once."""
        with self._lock:
            self._beats.close()

    def take(self) -> Turn | None:
        """Ask the leader for a share; None: it has none now."""
        return self._wait(None)

    def take_again(self, turn: Turn) -> Turn | None:
        """Say that the task has died, and ask for a share: the leader gives the same one, or a better one."""
        return self._wait(turn.task)

    def renew(self, turn: Turn) -> None:
        """Do nothing: this node's beat says it."""

    def end(self, turn: Turn) -> None:
        """Do nothing: the receipt says it."""

    def move(self, turn: Turn, fault: VolumeFault) -> bool:
        """Say that the volume refuses the share. The leader looks by itself whether files have gone there."""
        said = TaskFault(str(fault), is_volumes=True, no_room=fault.no_room)
        with self._lock:
            self._put(refused=ShareEnded(task=turn.task, fault=said))
        return True

    def is_mine(self, turn: Turn) -> bool:
        """Whether the leader has not taken the share back, and no copy has brought it."""
        is_brought = self._run.has_receipt(turn.share)
        has_grant = is_granted(self._mail.grants, f"t{turn.task}")
        return has_grant and not is_brought and not self.is_over()

    def is_over(self) -> bool:
        """Whether the leader has said so, or its run has ended."""
        with self._lock:
            return self._run.poll_over()

    def fill(self, turn: Turn) -> Share:
        """The content of a share, as the leader has given it."""
        return self._given.pop(turn.task)

    def find_volume(self, task: int) -> int | None:
        """The volume of a task's share."""
        return self._volume_of.get(task)

    def _wait(self, dead: int | None) -> Turn | None:
        with self._lock, self._mail.on_board():
            if self._run.poll_over() or not self._volumes:
                return None
            self._beats.begin()
            if self._name != self._beats.name:  # others have taken this node for dead, with all that it asked
                self._name, self._waiting = self._beats.name, []
            if dead is not None or not self._waiting:
                self._waiting.append(self._put(volumes=self._volumes, dead=dead))
            name, node = self._waiting.pop(), self._name
        end_s = time.monotonic() + PATIENCE_S
        while (task := self._mail.take_given(name)) is None:
            if time.monotonic() > end_s or self.is_over():
                with self._lock:
                    self._waiting += [name] if node == self._name else []
                return None
            time.sleep(LOOK_S)
        order = read_order(self._mail.grants, task)
        if order is None:  # the leader has taken it back: the next call asks anew
            return None
        with self._lock:
            self._given[task], self._volume_of[task] = order.share, order.share.volume
        return order.turn

    def _put(
        self, volumes: Collection[int] = (), dead: int | None = None, refused: ShareEnded | None = None
    ) -> str:
        self._asked += 1
        ask = Ask(node=self._name, number=self._asked, volumes=list(volumes), dead=dead, refused=refused)
        self._mail.ask(ask)
        return ask.name
