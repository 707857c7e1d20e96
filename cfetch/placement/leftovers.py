"""What runs that died have left in the staging area: parts to go on with, and debris.

Each run holds a lock on the ``owner.json`` of its directory as long as it lives. Whose lock can be had is
dead, if it ran on this machine; one of another host is left alone, as locks may not reach so far.

A part tells by its name alone which entry it is for, so one that can prove itself needs no note: files are
published in groups, and a note for each small file that waits would cost more than the file.
"""

import errno
import fcntl
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = [
    "NOTE_SUFFIX",
    "OWNER_NAME",
    "PROVED_BY_HASH",
    "PROVED_BY_SIZE",
    "Leftover",
    "Owner",
    "boot_id",
    "bury",
    "dead_runs",
    "sweep",
    "this_owner",
    "write_owner",
]

OWNER_NAME = "owner.json"
NOTE_SUFFIX = ".note"
PROVED_BY_HASH = "h"  # how the names of parts begin: the manifest has a hash for this one
PROVED_BY_SIZE = "s"  # it has not: without a note, of use only when whole, and on the boot that wrote it
MAX_FILE_BYTES = 16 << 10
_NAME = re.compile(f"[{PROVED_BY_HASH}{PROVED_BY_SIZE}][0-9a-f]{{32}}")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes to a staging directory; ``pid`` is for people."""

    host: str
    boot_id: str
    pid: int


class Leftover(NamedTuple):
    """A part of a dead run that may be of use. ``run`` and ``name`` say where; ``note`` is raw, or empty."""

    run: str
    name: str
    size_bytes: int
    note: bytes


def this_owner() -> Owner:
    """The running process."""
    return Owner(host=socket.gethostname(), boot_id=boot_id(), pid=os.getpid())


@cache
def boot_id() -> str:
    """Changes when the machine restarts."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"unknown {os.getpid()}"  # as good as another boot: nothing is taken for flushed


def write_owner(attempts: int, instant: str) -> int:
    """Put this process's name into its instant's directory; the open, locked descriptor says it lives.

    Raises:
        BlockingIOError, FileNotFoundError: a later run has just taken the directory for a dead one's, as it
            had no name yet. Make it anew.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(f"{instant}/{OWNER_NAME}", flags, 0o600, dir_fd=attempts)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks: then no run here is ever taken for dead
            pass
        os.write(descriptor, msgspec.json.encode(this_owner()))
        if os.stat(f"{instant}/{OWNER_NAME}", dir_fd=attempts).st_ino != os.fstat(descriptor).st_ino:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def forget_owner(attempts: int, instant: str) -> None:
    """Take the name away: the instant leaves nothing behind."""
    with suppress(OSError):
        os.unlink(f"{instant}/{OWNER_NAME}", dir_fd=attempts)


def dead_runs(attempts: int, mine: str) -> Iterator[tuple[str, list[Leftover]]]:
    """Each dead run's directories (``instant/epoch``) below the held ``attempts``, with their useful parts.

    Everything else in such a directory is debris. What cannot be read is passed over. The run's lock is held
    while the caller works on what is yielded, so that two later runs do not both.
    """
    for instant in _subdirectories(attempts, "."):
        if instant == mine:
            continue
        with suppress(OSError, msgspec.MsgspecError):
            lock = os.open(f"{instant}/{OWNER_NAME}", _FILE, dir_fd=attempts)
            try:
                owner = msgspec.json.decode(os.read(lock, MAX_FILE_BYTES), type=Owner)
                if owner.host == socket.gethostname() and _can_be_had(lock):
                    for epoch in _subdirectories(attempts, instant):
                        run = f"{instant}/{epoch}"
                        yield run, list(_parts(attempts, run, same_boot=owner.boot_id == boot_id()))
            finally:
                os.close(lock)


def bury(attempts: int, mine: str) -> None:
    """Remove what is empty of dead runs: directories, and names of owners who own nothing any more.

    A run may die before it has written its name, or after it has taken it away. Whatever a live run has lost
    by this while it was starting it makes anew (``write_owner``).
    """
    for instant in _subdirectories(attempts, "."):
        if instant == mine:
            continue
        with suppress(OSError):
            lock = -1
            with suppress(FileNotFoundError):
                lock = os.open(f"{instant}/{OWNER_NAME}", _FILE, dir_fd=attempts)
            try:
                if lock < 0 or _is_dead(lock):
                    for epoch in _subdirectories(attempts, instant):
                        os.rmdir(f"{instant}/{epoch}", dir_fd=attempts)
                    if lock >= 0:
                        forget_owner(attempts, instant)
                    os.rmdir(instant, dir_fd=attempts)
            finally:
                if lock >= 0:
                    os.close(lock)


def _is_dead(lock: int) -> bool:
    """Whether the owner of an open ``owner.json`` is gone; one who has written no name is, without a lock."""
    if not _can_be_had(lock):
        return False
    text = os.read(lock, MAX_FILE_BYTES)
    if not text:
        return True
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=Owner).host == socket.gethostname()
    return False


def _can_be_had(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or no locks here: nothing is known, so it lives
        return False
    return True


def sweep(attempts: int, run: str, keep: set[str]) -> None:
    """Remove a dead run's debris: all but the parts in ``keep`` with their notes. The owner's name stays."""
    kept = keep | {name + NOTE_SUFFIX for name in keep}
    with suppress(OSError):
        descriptor = os.open(run, _DIRECTORY, dir_fd=attempts)
        try:
            with os.scandir(descriptor) as entries:
                debris = [entry.name for entry in entries if entry.name not in kept]
            for name in debris:
                os.unlink(name, dir_fd=descriptor)
        finally:
            os.close(descriptor)


def _subdirectories(parent: int, name: str) -> list[str]:
    with suppress(OSError):
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            with os.scandir(descriptor) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        finally:
            os.close(descriptor)
    return []


def _parts(staging_root: int, run: str, *, same_boot: bool) -> Iterator[Leftover]:
    descriptor = os.open(run, _DIRECTORY, dir_fd=staging_root)
    try:
        with os.scandir(descriptor) as entries:
            names = {entry.name for entry in entries}
        for name in sorted(name for name in names if not name.endswith(NOTE_SUFFIX)):
            is_noted = name + NOTE_SUFFIX in names
            if not is_noted and not (_NAME.fullmatch(name) and (same_boot or name[0] == PROVED_BY_HASH)):
                continue
            with suppress(OSError):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and (found.st_size or is_noted):
                    note = _read(descriptor, name + NOTE_SUFFIX) if is_noted else b""
                    yield Leftover(run, name, found.st_size, note)
    finally:
        os.close(descriptor)


def _read(directory: int, name: str) -> bytes:
    descriptor = os.open(name, _FILE, dir_fd=directory)
    try:
        return os.read(descriptor, MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
