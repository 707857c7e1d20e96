"""What a file system may lack: call by call, the errors that mean "not here", and what a run gives up then.

Network mounts, FUSE and exFAT miss some of the calls that ext4 has. What is lacking is done without. It is
noted once, so that a run can say what it gave up. Any other error of these calls is raised as always: a disk
that fails to write (EIO, ENOSPC) is no file system that cannot flush.

Functions here take the place of the calls in ``os``; all of them raise OSError.
"""

import ctypes
import errno
import os
from functools import cache
from typing import Any, NamedTuple

_UNKNOWN = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})


class Lack(NamedTuple):
    """The ``errors`` of a call that mean "not here", and the ``loss`` for a person; empty: none."""

    errors: frozenset[int]
    loss: str


FLUSH_FILE = Lack(_UNKNOWN, "cannot flush files: the last of them may be lost in a power cut")
FLUSH_DIRECTORY = Lack(  # EBADF is old CIFS's word, EACCES and EPERM are some FUSE mounts'
    _UNKNOWN | {errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR},
    "cannot flush directories: the last names may be lost in a power cut",
)
FLUSH_ALL = Lack(_UNKNOWN, FLUSH_FILE.loss)
MODE = Lack(_UNKNOWN | {errno.EPERM, errno.EACCES}, "keeps no modes of files")
LINKS = Lack(
    _UNKNOWN - {errno.EINVAL} | {errno.EPERM, errno.EMLINK, errno.EXDEV},
    "has no hard links: a name is looked up, then given",
)
ATTRIBUTES = Lack(_UNKNOWN - {errno.EINVAL}, "")  # cfetch's own state keeps what they would hold
ROOM = Lack(frozenset(), "does not say how much room it has")
_lacking: dict[str, None] = {}


def note_lack(lack: Lack, error: OSError) -> None:
    """Note that the file system lacks the call that failed. Raises ``error`` if it means anything else."""
    if error.errno not in lack.errors:
        raise error
    if lack.loss:
        _lacking[lack.loss] = None


def take_losses() -> list[str]:
    """What the file systems of this process were found to lack since the last call, each said once."""
    losses = list(_lacking)
    _lacking.clear()
    return losses


def flush_file(descriptor: int) -> None:
    """Make a file's bytes survive a power cut, if its file system can do that."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        note_lack(FLUSH_FILE, error)


def flush_directory(descriptor: int) -> None:
    """Make the names in an open directory survive a power cut, if its file system can do that."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        note_lack(FLUSH_DIRECTORY, error)


@cache
def _syncfs() -> Any:  # noqa: ANN401 - a C function, or None where there is none
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def flush_file_system(descriptor: int) -> None:
    """Write all unwritten bytes and names of the file system of ``descriptor``, and wait for the disk.

    ``syncfs(2)`` reports write errors since Linux 5.8; the standard library lacks it. On a system without it,
    all file systems are flushed (``sync``).
    """
    syncfs = _syncfs()
    if syncfs is None:
        os.sync()
    elif syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        note_lack(FLUSH_ALL, OSError(number, os.strerror(number)))
        os.sync()


def set_mode(descriptor: int, mode: int) -> None:
    """Give an open file a mode, if its file system keeps modes."""
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        note_lack(MODE, error)


def find_free_bytes(descriptor: int, keep_free: float = 0) -> int | None:
    """Bytes that an unprivileged user may still write; None: the file system does not say, which is noted.

    ``keep_free`` of them count as taken, as in ``count_free_bytes``.
    """
    free_bytes = count_free_bytes(os.fstatvfs(descriptor), keep_free)
    if free_bytes is None:
        _lacking[ROOM.loss] = None
    return free_bytes


def count_free_bytes(usage: os.statvfs_result, keep_free: float = 0) -> int | None:
    """The free bytes in the answer of ``statvfs``; None: the file system does not say.

    ``keep_free`` of them count as taken: bytes (int), or a fraction of the file system (float).

    Mounts of stores and some FUSE file systems report that they have no blocks at all.
    """
    if not usage.f_blocks:
        return None
    kept = keep_free * usage.f_blocks * usage.f_frsize if isinstance(keep_free, float) else keep_free
    return max(0, usage.f_bavail * usage.f_frsize - int(kept))
