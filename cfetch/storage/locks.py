"""Locks of the kernel, for files and directories: the one place that calls ``flock``.

The system keeps a lock for an open file, and drops it when the process ends, however it ends. Some network
file systems keep it for one machine only, and some have none.

Where a file system has no locks, there is one answer for each of two cases. A lock that only keeps two
commands from meeting by chance is done without. A lock without which two writers would spoil what is kept
is refused, with the next step.
"""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import Held, LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF})
"""The errors of file systems without locks; EBADF: NFS, for a file that is open for reading alone."""

_KERNELS_LOCKS = Path("/proc/locks")
_MOST_NOTE_BYTES = 4096


class Holder(msgspec.Struct, frozen=True):
    """The process that has a lock, as far as it is known. Its note in the file may have more fields."""

    host: str = ""
    pid: int = 0

    @property
    def shown(self) -> str:
        """The process as messages name it."""
        if not self.pid:
            return "another process"
        return f"process {self.pid}" + (f" on {printable(self.host)}" if self.host else "")


def take_lock(descriptor: int, held: str, *, shared: bool = False, waits: bool = False) -> bool:
    """Take the lock of an open file or directory; False: its file system has no locks.

    ``held``: the message if another process has it; ``{holder}`` in it becomes the name of that process.

    Raises Held, OSError.
    """
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB)
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        holder = find_holder(descriptor)
        text = held.replace("{holder}", holder.shown)
        raise Held(text, host=holder.host, pid=holder.pid) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def need_lock(
    descriptor: int, held: str, *, name: Path, remedy: str, shared: bool = False, waits: bool = False
) -> None:
    """Take the lock of ``name``, which nobody may write without it.

    Raises:
        Held: another process has it, as ``take_lock`` says.
        LocalFault: its file system has no locks; ``remedy`` is the next step.
        OSError: the lock fails in another way.
    """
    if not take_lock(descriptor, held, shared=shared, waits=waits):
        raise LocalFault(f"cannot lock {printable(str(name), 1000)}: its file system has no locks; {remedy}")


def release_lock(descriptor: int) -> None:
    """Release the lock before the file is closed, if it was taken. Raises OSError."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def find_holder(descriptor: int) -> Holder:
    """The process that has the lock: by its note in the file, else by the kernel's list of locks."""
    with suppress(OSError, *NOT_DECODED):
        holder = msgspec.json.decode(os.pread(descriptor, _MOST_NOTE_BYTES, 0), type=Holder)
        if holder.pid:
            return holder
    with suppress(OSError, ValueError):
        status = os.fstat(descriptor)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for line in _KERNELS_LOCKS.read_text("ascii").splitlines():
            words = line.split()  # number, kind, ADVISORY, READ or WRITE, pid, place, range
            if len(words) > 5 and words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
                return Holder(socket.gethostname(), int(words[4]))
    return Holder(socket.gethostname())
