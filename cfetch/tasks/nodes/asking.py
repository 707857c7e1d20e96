"""Words between the leader and the other nodes of a run with several volumes, as files on its board.

::

    asks/NODE-4      a node wants a share, or says what became of one; until the leader has answered it
    given/NODE-4     the task as which the node brings a share for it, until the node has read this
    grants/t17       the order of task 17, for as long as it has its share (``tasks/shares/lending.py``)

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


class Mail:
    """The files of one board. Raises LocalFault; a board that has gone takes and has nothing."""

    def __init__(self, board: Path) -> None:
        self._board = board
        self.grants = board / GRANTS

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

    def answer(self, ask: Ask, task: int | None) -> None:
        """Name the task whose order is there, if there is one, and forget what was asked."""
        if task is not None:
            self._write(self._board / GIVEN / ask.name, str(task).encode())
        _remove(self._board / ASKS / ask.name)

    def take_given(self, name: str) -> int | None:
        """Read the answer to an ask; None: there is none yet."""
        path = self._board / GIVEN / name
        with on_disk(path), suppress(FileNotFoundError):
            task = int(path.read_text("ascii"))
            _remove(path)
            return task
        return None

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
