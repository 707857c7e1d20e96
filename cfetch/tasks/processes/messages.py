"""Messages between a run and its child processes: msgpack on a pipe, each behind its length.

A message of length zero is a child's sign of life.
"""

from typing import IO, TypeVar

import msgspec

from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.tasks.hub.messages import TaskFault

HEAD_BYTES = 8
SIGN_OF_LIFE = bytes(HEAD_BYTES)
EVERY_S = 1.0  # a child gives a sign of life so often
T = TypeVar("T")


class ChildAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a task; ``fault``: what has ended it early. ``learned``: about hosts."""

    fault: TaskFault | None = None
    learned: Knowledge = NOTHING


def pack_message(message: object) -> bytes:
    """The message as it goes through a pipe."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(HEAD_BYTES) + data


def read_message(pipe: IO[bytes], kind: type[T]) -> T | None:
    """Wait for the next message; None: the other side is gone."""
    head = pipe.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    size = int.from_bytes(head)
    data = pipe.read(size)
    return msgspec.msgpack.decode(data, type=kind) if len(data) == size else None


def take_message(received: bytearray, kind: type[T]) -> T | None:
    """Take the first message from what was received, and the signs of life before it; None: none is whole."""
    while len(received) >= HEAD_BYTES:
        end = HEAD_BYTES + int.from_bytes(received[:HEAD_BYTES])
        if len(received) < end:
            return None
        data = bytes(received[HEAD_BYTES:end])
        del received[:end]
        if data:
            return msgspec.msgpack.decode(data, type=kind)
    return None
