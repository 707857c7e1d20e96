"""Who is at work on a directory: any number of runs, or one process that moves batches away or to it.

The system keeps the lock for the open directory, and drops it when the process ends, however it ends. Some
network file systems keep it for one machine only.
"""

import errno
import fcntl
import socket
from contextlib import suppress

from cfetch.errors import Held, LocalFault
from cfetch.storage.directory import Directory
from cfetch.storage.files import volume_fault

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF}


def share(directory: Directory) -> None:
    """Note that a run is at work here. Raises Held while batches are moved; LocalFault."""
    try:
        fcntl.flock(directory.descriptor_of(""), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _make_held_error(f"cfetch volume is moving batches of {directory.root}") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # else nobody can move batches here
            raise volume_fault(error, f"cannot lock {directory.root}") from None


def occupy(directory: Directory) -> None:
    """Keep runs away while batches are moved. Raises Held while a run or a move is at work; LocalFault."""
    try:
        fcntl.flock(directory.descriptor_of(""), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _make_held_error(f"another run or move is at work on {directory.root}") from None
    except OSError as error:
        raise LocalFault(
            f"cannot keep runs away from {directory.root}, as its file system has no locks "
            f"({error.strerror}); move batches on the machine that has the disk"
        ) from None


def leave(directory: Directory) -> None:
    """Release the lock, if there is one."""
    with suppress(OSError, LocalFault):
        fcntl.flock(directory.descriptor_of(""), fcntl.LOCK_UN)


def _make_held_error(what: str) -> Held:
    return Held(
        f"{what}; wait until it has ended (--wait does), or end it, and run the same command again",
        host=socket.gethostname(),
    )
