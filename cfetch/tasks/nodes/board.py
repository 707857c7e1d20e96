"""The board of one epoch of a plan: a directory in which nodes claim shares and show that they live.

::

    job               written once by the leader: which entries belong to which share, and its hub
    claims/3-0        turn 0 of share 3; the content is the name of the node that made it
    heartbeats/NODE   a beat as those of runs, with a count that grows

A claim is made in one step, so that it has one maker. Clocks are not compared: a node is dead when its count
has not grown for as long as its beat states, by the clock of the node that looks; or at once if it has said
that it leaves, or if its process is known to have ended on the same machine.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.storage.files import make_private, on_disk, publish_once, replace_file
from cfetch.tasks.hub.messages import HubAddress
from cfetch.tasks.hub.receipts import STOP_NAME, share_receipt_name
from cfetch.tasks.nodes.claims import MOST_TURNS, Claim, choose_claim, number_task, parse_claim
from cfetch.tasks.shares.dealing import OneVolume, Turn
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.heartbeat import BeatThread, Heartbeats, Observer, Pulse, find_beat, make_unknown_beat
from cfetch.timeline.table import Node

JOB_NAME = "job"
CLAIMS = "claims"


class SharedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's facts that all nodes need (``cfetch.board/1``).

    ``members``: the indexes of each share's entries; ``sharers`` as in ``Share``. ``wall_start_s``: when the
    leader's run started, in seconds since 1970. ``hub``: where tasks are heard.
    """

    schema: str = "cfetch.board/1"
    members: list[list[int]]
    sharers: list[int]
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


class Board(OneVolume):
    """Implements ``ShareSource``, for this process's node. Thread-safe; used within a ``with``.

    ``receipts``: the directory of receipts. ``fence``: the directory of the epoch. ``bury_task``: keep the
    parts of a dead task. The node has a beat from its first claim on.
    """

    def __init__(
        self,
        directory: Path,
        shares: int,
        *,
        epoch: int,
        receipts: Path,
        fence: Path,
        node: Node,
        heartbeats: Heartbeats,
        bury_task: Callable[[int], None],
    ) -> None:
        self._directory = directory
        self._shares = shares
        self._epoch = epoch
        self._receipts = receipts
        self._fence = fence
        self._node = node
        self._heartbeats = heartbeats
        self._bury_task = bury_task
        self._lock = threading.Lock()
        self._lives = 0
        self._pulse: Pulse | None = None
        self._beating: BeatThread | None = None
        self._files: LocalFiles | None = None
        self._makers: dict[str, str] = {}  # the node of each claim that was read
        self._observer = Observer(
            monotonic=node.monotonic, is_gone=node.is_gone, has_restarted=node.has_restarted
        )

    def close(self) -> None:
        """Say that the node leaves: others may take its shares at once."""
        with self._lock:
            if self._beating is not None:
                self._beating.stop()
            if self._pulse is not None:
                self._pulse.end(released=True)
            if self._files is not None:
                self._files.close()
            self._pulse = self._beating = self._files = None

    @property
    def _name(self) -> str:
        """The name of this node. A node that was taken for dead comes back under another one."""
        return f"{self._node.owner.token}.{self._lives}"

    def take(self) -> Turn | None:
        """Claim the next share; None: there is none now. Raises LocalFault."""
        with self._using():
            while not self._is_over():
                self._show_life()
                last = self._read_claims()
                wanted = choose_claim(self._shares, self._list_over(), last, self._is_dead)
                if wanted is None:
                    return None
                if (turn := self._claim(wanted.share, wanted.turn)) is not None:
                    if wanted.turn:
                        self._bury_task(number_task(self._shares, wanted.share, wanted.turn - 1))
                    return turn
        return None

    def take_again(self, turn: Turn) -> Turn | None:
        """Claim the next turn of a share, as its process has died; None: another node has it now."""
        with self._using():
            if not self._is_over():
                self._show_life()
                return self._claim(turn.share, (turn.task - 1) // self._shares + 1)
        return None

    def renew(self, turn: Turn) -> None:
        """Do nothing: the node's own beat shows that its tasks are alive."""

    def end(self, turn: Turn) -> None:
        """Do nothing: the receipt says it."""

    def is_mine(self, turn: Turn) -> bool:
        """Whether the share is still this node's to bring."""
        with self._using():
            if not self._is_over():
                last = self._read_claims().get(turn.share)
                return last is not None and number_task(self._shares, last.share, last.turn) == turn.task
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
        stands = os.path.isdir(self._fence) and os.path.isdir(self._directory / CLAIMS)
        return not stands or os.path.exists(self._receipts / STOP_NAME) or self.is_whole

    def _list_over(self) -> set[int]:
        with suppress(FileNotFoundError):
            names = {path.name for path in self._receipts.iterdir()}
            return {share for share in range(self._shares) if share_receipt_name(self._epoch, share) in names}
        return set()

    def _read_claims(self) -> dict[int, Claim]:
        """The last claim of each share."""
        last: dict[int, Claim] = {}
        with suppress(FileNotFoundError):
            for path in (self._directory / CLAIMS).iterdir():
                name, wanted = path.name, parse_claim(path.name)
                if wanted is None or (wanted.share in last and last[wanted.share].turn > wanted.turn):
                    continue
                if name not in self._makers:
                    self._makers[name] = path.read_text("utf-8")
                last[wanted.share] = Claim(*wanted, self._makers[name])
        return last

    def _claim(self, share: int, turn: int) -> Turn | None:
        if turn >= MOST_TURNS:
            raise LocalFault(
                f"a part of the plan was begun {turn} times, and its node or its process died each time; "
                "look at the memory and the logs of the nodes, then run the same command again"
            )
        claim = Claim(share, turn, self._name)
        if not publish_once(self._directory / CLAIMS / claim.name, claim.node.encode(), durable=False):
            return None
        return Turn(share, number_task(self._shares, share, turn))

    def _is_dead(self, name: str) -> bool:
        if name == self._name:
            return False
        assert self._files is not None
        beat, age_s = find_beat(self._files, name, self._node.wall())
        # The beat comes before the claim. If it is missing, this machine's cache may be older than both.
        seen = beat or make_unknown_beat(name, b"")
        return not self._observer.judge(name, self._epoch, seen, age_s).is_live

    def _show_life(self) -> None:
        """Beat, before anything is claimed; under a new name if others may have taken this node for dead."""
        if self._pulse is not None and self._pulse.lost is None:
            return
        if self._beating is not None:
            self._beating.stop()
        self._files = self._files or LocalFiles(self._directory)
        self._lives += 1
        pulse = Pulse(
            self._files,
            self._name,
            self._epoch,
            self._node.owner,
            expiry_s=self._heartbeats.expiry_s,
            monotonic=self._node.monotonic,
        )
        pulse.first()
        self._pulse = pulse
        self._beating = BeatThread(pulse, self._heartbeats.pause_s, lambda _: None)
