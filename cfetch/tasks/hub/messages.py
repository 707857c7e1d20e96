"""The messages between a task and the hub of its run, and the proof that each knows the key. Pure.

A message is its length, a MAC, and msgpack. The MAC's key is made of the run's and of a random number from
each side, so a message of another connection is worth nothing on this one. Nothing is
encrypted: messages name files and hosts, and hold no URL, header or token.

A task's beats go over one connection. Where the driver deals shares out over the hub, the process that asks
for them has another one, which lasts from share to share (``ShareClaim`` to ``ShareEnded``); its end tells
that the process has died.
"""

import hmac
from typing import NamedTuple

import msgspec

from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.config.wire import RateLimits
from cfetch.base.errors import LocalFault, Vanished, VolumeFault
from cfetch.base.events import ActiveAttempt
from cfetch.base.secret import SecretText
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub.leases import Demand

EVERY_S = 1.0  # a task beats so often
SILENT_S = 10.0  # a task without a beat for so long is forgotten
KEY_BYTES = NONCE_BYTES = 32
PROOF_BYTES = 32  # SHA-256
MAC_BYTES = 16
HEAD_BYTES = 4 + MAC_BYTES
# Hosts for which a task asks leases; a share with more has small hosts, each in this share only.
MOST_DEMANDS = 64
MOST_SAMPLES = 64  # files whose speed one beat reports, of those that finished since the last beat
MOST_BEAT_BYTES = 256 << 10  # twice the 32 attempts of a beat, with the longest paths (4 KiB)
MOST_ORDERS_BYTES = 64 << 10


class HubAddress(NamedTuple):
    """The address of the hub of a run, and the key that its tasks know. ``is_shared``: by several runs."""

    host: str
    port: int
    key: SecretText
    is_shared: bool = False


class SharedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the runs of a shared hub a task belongs to, and what holds for all tasks of that run."""

    run: str
    config: StragglerConfig
    per_host: int | None
    rates: RateLimits


class TaskBeat(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The present state of a task.

    ``active``: the attempts that are worth showing, out of ``under_way``. ``active_bytes`` and ``whole`` are
    ``bytes_active`` and ``whole`` of the pool's ``Progress``. ``files`` and ``size_bytes`` count all that has
    ended since the task began, ``in_place`` the files that are there; ``samples``: of the files that
    ``finished`` since the last beat. ``rates``: of the rates in bytes a second, by host or ``ALL_HOSTS``.
    ``pauses``: hosts that have asked for a pause since the last beat, with the seconds that are left of it.
    ``resetting``: hosts that reset further connections; ``failing``: hosts that do not answer at all.
    ``over``: this is the last beat. ``limits``: for a hub that is shared.
    """

    task: int
    executor: str
    active: list[ActiveAttempt] = []
    under_way: int = 0
    active_bytes: int = 0
    whole: int = 0
    files: int = 0
    in_place: int = 0
    size_bytes: int = 0
    demands: dict[str, Demand] = {}
    rates: dict[str, Demand] = {}
    pauses: dict[str, float] = {}
    resetting: list[str] = []
    failing: list[str] = []
    samples: list[SpeedSample] = []
    finished: int = 0
    over: bool = False
    limits: SharedRun | None = None


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The hub's answer to a beat; orders with only a ``stop`` may come at any time and answer no beat.

    ``median_bps``: normal speed over all tasks; None: the task judges by its own files, also because its
    machine as a whole is slower than the others. ``rates``: the task's parts of the rates.
    ``pauses``: hosts that have asked any task for a pause, with the seconds that are left of it. ``alive``:
    hosts of the task that serve other tasks, though they reset further connections.
    """

    answers: bool = True
    stop: bool = False
    leases: dict[str, int] = {}
    rates: dict[str, int] = {}
    pauses: dict[str, float] = {}
    alive: list[str] = []
    median_bps: float | None = None


class ShareClaim(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A task process of ``executor`` has nothing to do, and asks for a share."""

    executor: str


class Dealt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a claim: bring a share, as ``task``; or ask again; or leave, as all ``is_over``."""

    task: int | None = None
    is_over: bool = False


class StillAlive(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The share of the task is being brought: its lease becomes longer. There is no answer."""

    task: int


class TaskFault(msgspec.Struct, frozen=True):
    """A fault that has ended a task early, on its way to the driver.

    ``is_volumes``: it is one volume's, others may take the files; ``no_room``: the volume is full;
    ``is_gone``: files that the task has put there have gone.
    """

    why: str
    is_volumes: bool = False
    no_room: bool = False
    is_gone: bool = False

    @classmethod
    def describe(cls, fault: LocalFault) -> "TaskFault":
        """What the driver has to know of the fault."""
        if isinstance(fault, VolumeFault):
            return cls(str(fault), True, fault.no_room, isinstance(fault, Vanished))
        return cls(str(fault))

    def restore(self) -> LocalFault:
        """The fault, as the task has met it."""
        if not self.is_volumes:
            return LocalFault(self.why)
        return (Vanished if self.is_gone else VolumeFault)(self.why, no_room=self.no_room)


class ShareEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The task has let go of its share, and its receipts say what it has brought. There is no answer."""

    task: int
    fault: TaskFault | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that the program behind the hub knows; it defines the answer, which ends the conversation."""

    data: bytes


Said = TaskBeat | ShareClaim | StillAlive | ShareEnded | Question


def make_proof(key: bytes, role: bytes, own: bytes, other: bytes) -> bytes:
    """Prove that the side with this role and nonce knows the key, for the side with the ``other`` nonce."""
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
