"""Locks a directory for its users: any number of runs, or one process that moves batches away or to it.

Only one process at a time may delete here the files that one source no longer has, whatever other directories
and whichever state the processes have: an older list must not delete files that a newer list has brought.

The system keeps the lock for the open directory, and drops it when the process ends, however it ends. Some
network file systems keep it for one machine only.
"""

import errno
import fcntl
import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path

from cfetch.base.errors import Held, LocalFault
from cfetch.storage.directory import Directory
from cfetch.storage.files import STATE_NAME, make_private, volume_fault
from cfetch.storage.sharing import create_file

GUARDS = "guards"  # below a directory's state: an empty file for each source, which is locked
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF}


def share(directory: Directory) -> None:
    """Note that a run is at work here. Raises Held while batches are moved; LocalFault."""
    try:
        fcntl.flock(directory.descriptor_of(""), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _make_held_error(f"cfetch volume is moving batches of {directory.root}") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # without locks nobody can move batches here
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


def claim(root: Path, source: str) -> int:
    """Make this the only process that deletes below ``root`` the files that ``source`` no longer has.

    This lasts until the returned descriptor is closed. Raises Held, LocalFault.
    """
    guards = root / STATE_NAME / GUARDS
    try:
        make_private(guards)
        name = hashlib.sha256(source.encode()).hexdigest()[:32]
        descriptor = create_file(guards / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise _make_held_error(f"another process brings {root} in step with the same source") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise
    except OSError as error:
        raise volume_fault(error, f"cannot lock {root}") from None
    return descriptor


def end_claims(claims: dict[Path, int]) -> None:
    """Let others delete below the directories: close the descriptors of ``claim``."""
    while claims:
        os.close(claims.popitem()[1])


def leave(directory: Directory) -> None:
    """Release the lock, if there is one."""
    with suppress(OSError, LocalFault):
        fcntl.flock(directory.descriptor_of(""), fcntl.LOCK_UN)


def _make_held_error(what: str) -> Held:
    return Held(
        f"{what}; wait until it has ended (--wait does), or end it, and run the same command again",
        host=socket.gethostname(),
    )
