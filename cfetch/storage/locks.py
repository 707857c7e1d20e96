"""Locks of the kernel, for files and directories: the one place that calls ``flock``.

The system keeps a lock for an open file, and drops it when the process ends, however it ends. Some network
file systems keep it for one machine only, and some have none.

Where a file system has no locks, there is one answer for each of two cases. A lock that only keeps two
commands from meeting by chance is done without. A lock without which two writers would spoil what is kept
is refused, with the next step.
"""

import errno
import fcntl
from pathlib import Path

from cfetch.base.errors import Held, LocalFault
from cfetch.base.secret import printable

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF})
"""The errors of file systems without locks; EBADF: NFS, for a file that is open for reading alone."""


def take_lock(descriptor: int, held: str, *, shared: bool = False, waits: bool = False) -> bool:
    """Take the lock of an open file or directory; False: its file system has no locks.

    ``held``: the message if another process has it; ``{holder}`` in it becomes that process.

    Raises Held, OSError.
    """
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB)
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        from cfetch.storage.lock_holders import find_holder  # few runs meet another one

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
