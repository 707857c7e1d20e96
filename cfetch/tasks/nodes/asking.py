"""Words between the leader and the other nodes of a run with several volumes, as files on its board.

::

    asks/NODE-4      a node wants a share, or says what became of one; until the leader has answered it
    given/NODE-4     the share that the node gets for it, until the node has read it
    grants/t17       stands for as long as task 17 has its share: who closes the task removes this first

Each file appears in one step. The leader alone decides, so nodes need no lock among each other.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.storage.files import make_private, on_disk, replace_file
from cfetch.tasks.hub.messages import ShareEnded
from cfetch.tasks.shares.task_destination import is_granted
from cfetch.tasks.shares.work import Turn

ASKS, GIVEN, GRANTS = "asks", "given", "grants"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The word of a node, with its ``number`` among the words of this node.

    ``volumes``: the numbers of those that it sees; if there are any, it wants a share for one of them.
    ``dead``: a task of its own that has died, whose parts it has kept. ``refused``: the share that a
    volume has refused to one of its tasks.
    """

    node: str
    number: int
    volumes: list[int] = []
    dead: int | None = None
    refused: ShareEnded | None = None

    @property
    def name(self) -> str:
        """The name of its file, and of its answer."""
        return f"{self.node}-{self.number}"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A share for a turn: ``indexes`` are its entries in the plan, the other fields those of ``Share``."""

    turn: Turn
    indexes: list[int]
    batches: list[int]
    volume: int
    sharers: int


class Mail:
    """The files of one board. Raises LocalFault; a board that has gone takes and has nothing."""

    def __init__(self, board: Path) -> None:
        self._board = board

    def on_board(self) -> AbstractContextManager[None]:
        """Turn the OSErrors of a ``with`` block into LocalFaults that name the board."""
        return on_disk(self._board)

    def open(self) -> None:
        """Make the directories; for the leader, before nodes can join."""
        with self.on_board():
            for name in (ASKS, GIVEN, GRANTS):
                make_private(self._board / name)

    def ask(self, ask: Ask) -> None:
        """Say it to the leader."""
        self._write(self._board / ASKS / ask.name, msgspec.msgpack.encode(ask))

    def read_asks(self) -> Iterator[Ask]:
        """All that nodes have asked and nobody has answered, the oldest of each node first."""
        directory = self._board / ASKS
        asks = []
        with on_disk(directory), suppress(FileNotFoundError):
            for path in directory.iterdir():
                if not path.name.startswith("."):  # it is being written
                    with suppress(FileNotFoundError, *NOT_DECODED):
                        asks.append(msgspec.msgpack.decode(path.read_bytes(), type=Ask))
        yield from sorted(asks, key=lambda ask: ask.number)

    def answer(self, ask: Ask, given: Given | None) -> None:
        """Give the share, if there is one, and forget what was asked."""
        if given is not None:
            self._write(self._grant(given.turn.task), b"")
            self._write(self._board / GIVEN / ask.name, msgspec.msgpack.encode(given))
        _remove(self._board / ASKS / ask.name)

    def take_given(self, name: str) -> Given | None:
        """Read the answer to an ask; None: there is none yet."""
        path = self._board / GIVEN / name
        with on_disk(path), suppress(FileNotFoundError):
            given = msgspec.msgpack.decode(path.read_bytes(), type=Given)
            _remove(path)
            return given
        return None

    def is_granted(self, task: int) -> bool:
        """Whether the task has its share."""
        return is_granted(self._board / GRANTS, self._grant(task).name)

    def withdraw(self, task: int) -> None:
        """Take the right to its share from a task, before its directory of parts is closed."""
        _remove(self._grant(task))

    def _grant(self, task: int) -> Path:
        return self._board / GRANTS / f"t{task}"

    def _write(self, path: Path, data: bytes) -> None:
        try:
            replace_file(path, data, durable=False)
        except LocalFault:
            if os.path.isdir(path.parent):
                raise


def _remove(path: Path) -> None:
    with on_disk(path), suppress(FileNotFoundError):
        path.unlink()


def find_over(receipts: Path, epoch: int) -> Path:
    """The file by which the leader says that all shares are over; it has the run's fault, or nothing."""
    return receipts / f"over-{epoch}"
