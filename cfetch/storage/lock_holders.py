"""Who has a lock, and for how long: loaded only when a command meets another one."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.storage.staging import start_ticks

_KERNELS_LOCKS = Path("/proc/locks")
_MOST_NOTE_BYTES = 4096
_UNITS = ((172_800, 86_400, "days"), (7200, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


class Holder(msgspec.Struct, frozen=True):
    """The process that has a lock, as far as it is known. Its note in the file may have more fields.

    ``held_s``: for how long it has the lock, or else for how long it runs.
    """

    host: str = ""
    pid: int = 0
    held_s: float | None = None

    @property
    def shown(self) -> str:
        """The process as messages name it."""
        if not self.pid:
            return "another process"
        who = f"process {self.pid}" + (f" on {printable(self.host)}" if self.host else "")
        if self.held_s is None or self.held_s < 0:  # the clocks of two machines differ
            return who
        unit_s, name = next((unit_s, name) for least_s, unit_s, name in _UNITS if self.held_s >= least_s)
        return f"{who}, for {self.held_s / unit_s:.0f} {name}"


def find_holder(descriptor: int) -> Holder:
    """The process that has the lock: by its note in the file, else by the kernel's list of locks."""
    with suppress(OSError, *NOT_DECODED):
        holder = msgspec.json.decode(os.pread(descriptor, _MOST_NOTE_BYTES, 0), type=Holder)
        if holder.pid:
            return Holder(holder.host, holder.pid, time.time() - os.fstat(descriptor).st_mtime)
    with suppress(OSError):
        return _find_in_kernel(os.fstat(descriptor))
    return Holder(socket.gethostname())


def find_holder_of(path: Path) -> Holder:
    """The process that has the lock of a file, which is not opened: to close it would end own locks."""
    with suppress(OSError):
        return _find_in_kernel(path.lstat())
    return Holder(socket.gethostname())


def _find_in_kernel(status: os.stat_result) -> Holder:
    with suppress(OSError, ValueError):
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for line in _KERNELS_LOCKS.read_text("ascii").splitlines():
            words = line.split()  # number, kind, ADVISORY, READ or WRITE, pid, place, range
            if len(words) > 5 and words[1] in ("FLOCK", "POSIX") and words[5] == place and int(words[4]) > 0:
                return Holder(socket.gethostname(), int(words[4]), _find_age_s(int(words[4])))
    return Holder(socket.gethostname())


def _find_age_s(pid: int) -> float | None:
    """The age of a process of this machine; None: it cannot be seen."""
    with suppress(OSError, ValueError, IndexError):
        up_s = float(Path("/proc/uptime").read_text("ascii").split()[0])
        if (ticks := start_ticks(pid)) is not None:
            return max(0.0, up_s - ticks / os.sysconf("SC_CLK_TCK"))
    return None
