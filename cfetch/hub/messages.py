"""The messages between a task and the hub of its run, and the proof that each knows the key. Pure.

A message is its length, a MAC, and msgpack. The MAC's key is made of the run's and of a random number from
each side, so a message of another connection is worth nothing on this one. Nothing is
encrypted: messages name files and hosts, and hold no URL, header or token.
"""

import hmac
from typing import NamedTuple

import msgspec

from cfetch.events import ActiveAttempt
from cfetch.hub.leases import Demand
from cfetch.secret import SecretText
from cfetch.straggler.merged import Sample

EVERY_S = 1.0  # a task beats so often
SILENT_S = 10.0  # and is not counted on any longer after so many seconds without
KEY_BYTES = NONCE_BYTES = 32
PROOF_BYTES = 32  # SHA-256
MAC_BYTES = 16
HEAD_BYTES = 4 + MAC_BYTES
MOST_DEMANDS = (
    64  # hosts that a task asks leases for; a share of more has small ones, each in that share only
)
MOST_SAMPLES = 64  # files that a beat tells the speed of, of those that have finished since the last one
MOST_BEAT_BYTES = 256 << 10  # sixteen attempts with the longest paths (4 KiB), and the longest names of hosts
MOST_ORDERS_BYTES = 64 << 10


class HubAddress(NamedTuple):
    """The address of the hub of a run, and the key that its tasks know."""

    host: str
    port: int
    key: SecretText


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it is now.

    ``active`` are the attempts that are worth showing, out of ``under_way``. ``files`` and ``size_bytes``
    have ended since the task began; ``samples`` are of those that have ``finished`` since the last beat.
    ``over``: it was the last one.
    """

    task: int
    share: int
    executor: str
    active: list[ActiveAttempt] = []
    under_way: int = 0
    active_bytes: int = 0
    files: int = 0
    size_bytes: int = 0
    demands: dict[str, Demand] = {}
    samples: list[Sample] = []
    finished: int = 0
    over: bool = False


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The hub's answer to a beat; orders with a ``stop`` alone may come at any time and answer none.

    ``median_bps``: normal speed over all tasks; None: judge by your own files. ``slow``: because this machine
    is slower than the others as a whole.
    """

    answers: bool = True
    stop: bool = False
    leases: dict[str, int] = {}
    median_bps: float | None = None
    slow: bool = False


def make_proof(key: bytes, role: bytes, own: bytes, other: bytes) -> bytes:
    """That the side with this role and nonce knows the key, for the side with the ``other`` nonce."""
    return hmac.digest(key, role + own + other, "sha256")


class Channel:
    """Makes one side's messages, or checks them: each has its number in its MAC, so none comes twice."""

    def __init__(self, key: bytes, role: bytes, hub_nonce: bytes, task_nonce: bytes) -> None:
        self._key = make_proof(key, b"from " + role, hub_nonce, task_nonce)
        self._number = 0

    def seal(self, data: bytes) -> bytes:
        """The message as it goes on the wire."""
        return len(data).to_bytes(4) + self._mac(data) + data

    def is_genuine(self, mac: bytes, data: bytes) -> bool:
        """True if it is the other side's next message."""
        return hmac.compare_digest(mac, self._mac(data))

    def _mac(self, data: bytes) -> bytes:
        self._number += 1
        return hmac.digest(self._key, self._number.to_bytes(8) + data, "sha256")[:MAC_BYTES]
