"""The contents of the timeline's files: one JSON object each, no secrets."""

import msgspec

from cfetch.base.records import NOT_DECODED
from cfetch.timeline.owner import Owner
from cfetch.timeline.states import Kind

PLAN_SCHEMA = "cfetch.plan/1"
ROLLBACK_SCHEMA = "cfetch.rollback/1"
_COUNTER_DIGITS = 18
_DEVICE_DIGITS = 20  # 64 bits


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an instant: the owner, the time by its machine's clock, ``files`` and ``bytes`` done."""

    epoch: int
    owner: Owner
    wall_s: float
    files: int = 0
    bytes: int = 0


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A download instant (``cfetch.plan/1``).

    ``fingerprint`` is the same for the same manifest on the same destination; ``manifest`` is its name as it
    may be shown; ``bytes`` counts known sizes.
    """

    schema: str = PLAN_SCHEMA
    kind: Kind
    fingerprint: str
    manifest: str
    destinations: tuple[str, ...]
    files: int
    bytes: int
    completion: Completion | None = None


class RollbackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A rollback instant (``cfetch.rollback/1``): the download that is its target, and that one's kind."""

    schema: str = ROLLBACK_SCHEMA
    target: str
    kind: Kind
    completion: Completion | None = None


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat. It states the silence after which its owner is dead, whatever the observer's settings.

    ``is_released``: the owner is done with the instant, and nothing of it writes any more. ``lock_device``:
    the owner keeps this file locked while its process lives, on this device; 0: it does not.
    """

    instant: str
    epoch: int
    owner: Owner
    expiry_s: float
    is_released: bool
    counter: int
    lock_device: int = 0


def beat_head(instant: str, epoch: int, owner: Owner, expiry_s: float, *, lock_device: int = 0) -> bytes:
    """The beginning of all beats of one owner and epoch, by which the owner knows its own file."""
    fixed = msgspec.json.encode(
        {"instant": instant, "epoch": epoch, "owner": owner, "expiry_s": float(expiry_s)}
    )
    locked = f'"lock_device":{lock_device:>{_DEVICE_DIGITS}}'.encode()
    return fixed[:-1] + b"," + locked + b',"is_released":'


def encode_beat(head: bytes, counter: int, *, is_released: bool = False) -> bytes:
    """Encode a beat; all of one owner and epoch have the same length, as each overwrites the one before."""
    released = b" true" if is_released else b"false"
    return head + released + b',"counter":' + f"{counter:>{_COUNTER_DIGITS}}".encode() + b"}\n"


def read_beat(data: bytes) -> Beat | None:
    """Read a beat; None for anything else, such as the torn file of a power cut."""
    try:
        return msgspec.json.decode(data, type=Beat)
    except NOT_DECODED:
        return None
