"""The owner of an instant, and how another process of the same machine proves that the owner is gone."""

import os
import socket
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from cfetch.base.errors import Held
from cfetch.base.secret import printable
from cfetch.storage.files import replace_file
from cfetch.storage.staging import NO_BOOT, boot_id, start_ticks

OWNER_NAME = "owner.json"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of one process: no process after a restart or with a reused pid has the same one.

    ``machine`` is a hash of the machine's id, ``pid_space`` tells containers apart, ``started`` is in clock
    ticks since the boot, ``token`` is random.
    """

    host: str
    machine: str
    boot_id: str
    pid_space: int
    pid: int
    started: int
    token: str

    @property
    def shown(self) -> str:
        """The owner as messages name it."""
        return f"process {self.pid} on {self.host}" if self.pid else f"an unknown process on {self.host}"


def this_owner(token: str) -> Owner:
    """The running process."""
    return Owner(
        host=socket.gethostname(),
        machine=_machine(),
        boot_id=boot_id(),
        pid_space=_pid_space(),
        pid=os.getpid(),
        started=_own_start_ticks(),
        token=token,
    )


def sign(directory: Path) -> None:
    """Write the owner into a directory, so that it is removed soon if its owner dies. Raises LocalFault."""
    replace_file(directory / OWNER_NAME, msgspec.json.encode(this_owner("")), durable=False)


def is_gone(owner: Owner) -> bool:
    """Whether it is proved that the process has ended, which needs its pid to be of this machine."""
    if owner.boot_id != boot_id() or not owner.pid_space or owner.pid_space != _pid_space():
        return False
    if owner.pid <= 0:
        return False  # to kill(2) these are groups of processes
    try:
        os.kill(owner.pid, 0)  # sees each process, also where /proc hides those of others (hidepid)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it runs, and is somebody else's; its number may have been given anew
    with suppress(OSError):  # hidden, or we have no descriptor left: not known
        return owner.started != 0 and start_ticks(owner.pid) != owner.started
    return False


def is_alive(owner: Owner) -> bool:
    """Whether it is proved that the process runs, which needs its pid to be of this machine."""
    is_here = owner.boot_id == boot_id() and owner.pid_space and owner.pid_space == _pid_space()
    with suppress(OSError):
        return bool(is_here) and start_ticks(owner.pid) == owner.started
    return False


def is_of_this_boot(owner: Owner) -> bool:
    """Whether the owner runs, or ran, under the running kernel: here, or in another container."""
    return owner.boot_id == boot_id() and not owner.boot_id.startswith(NO_BOOT)


def has_restarted(owner: Owner) -> bool:
    """Whether the owner ran on this machine before its last restart; a copy of the machine looks alike."""
    mine = (socket.gethostname(), _machine())
    return bool(owner.machine) and (owner.host, owner.machine) == mine and owner.boot_id != boot_id()


def make_same_plan_error(
    owner: Owner, place: str, *, age_s: float | None = None, is_certain: bool = True
) -> Held:
    """Make the error that says which run brings the same plan to a place.

    ``age_s``: of its last sign of life, if that is known.
    """
    last = "" if age_s is None else f" (last sign of life {max(0.0, age_s):.0f} s ago)"
    return Held(
        f"another run is at it: {printable(owner.shown)} brings the same files to {place}{last}; wait until "
        "it has ended (--wait does), or end it, and run the same command again",
        host=owner.host,
        pid=owner.pid,
        age_s=age_s,
        is_certain=is_certain,
    )


def _machine() -> str:
    """The machine's id as a hash, as machine-id(5) asks to keep the id itself secret; empty without an id."""
    with suppress(OSError):
        text = Path("/etc/machine-id").read_bytes().strip()
        return sha256(b"cfetch " + text).hexdigest()[:16] if text else ""
    return ""


def _pid_space() -> int:
    """The name space of process numbers; 0 if it is not known: then no process is proved dead."""
    with suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino
    return 0


def _own_start_ticks() -> int:
    """The start of this process; 0 if it cannot be read, and then only the pid's absence proves its end."""
    with suppress(OSError):
        return start_ticks(os.getpid()) or 0
    return 0
