"""What runs that died have left in the staging area: parts to go on with, and debris.

Each run holds a lock on the ``owner.json`` of its directory as long as it lives. Whose lock can be had is
dead, if it ran on this machine; one of another host is left alone, as locks may not reach so far.
"""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = [
    "NOTE_SUFFIX",
    "OWNER_NAME",
    "Leftover",
    "Owner",
    "boot_id",
    "dead_runs",
    "sweep",
    "this_owner",
    "write_owner",
]

OWNER_NAME = "owner.json"
NOTE_SUFFIX = ".note"
MAX_FILE_BYTES = 16 << 10
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes to a staging directory; ``pid`` is for people."""

    host: str
    boot_id: str
    pid: int


class Leftover(NamedTuple):
    """A part of a dead run that has a note. ``run`` and ``name`` say where, ``note`` is its raw text."""

    run: str
    name: str
    size_bytes: int
    note: bytes


def this_owner() -> Owner:
    """The running process."""
    return Owner(host=socket.gethostname(), boot_id=boot_id(), pid=os.getpid())


def boot_id() -> str:
    """Changes when the machine restarts."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"unknown {os.getpid()}"  # as good as another boot: nothing is taken for flushed


def write_owner(attempts: int, instant: str) -> int:
    """Put this process's name into its instant's directory; the open, locked descriptor says it lives."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(f"{instant}/{OWNER_NAME}", flags, 0o600, dir_fd=attempts)
    with suppress(OSError):  # a file system without locks: then no run here is ever taken for dead
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, msgspec.json.encode(this_owner()))
    return descriptor


def forget_owner(attempts: int, instant: str) -> None:
    """Take the name away: the instant leaves nothing behind."""
    with suppress(OSError):
        os.unlink(f"{instant}/{OWNER_NAME}", dir_fd=attempts)


def dead_runs(attempts: int, mine: str) -> Iterator[tuple[str, list[Leftover]]]:
    """Each dead run's directories (``instant/epoch``) below the held ``attempts``, with their noted parts.

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
                        yield run, list(_parts(attempts, run))
            finally:
                os.close(lock)


def _can_be_had(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or no locks here: nothing is known, so it lives
        return False
    return True


def sweep(attempts: int, run: str, keep: set[str]) -> None:
    """Remove a dead run's debris: all but the parts in ``keep`` with their notes, and what is empty then."""
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
        if not keep:
            instant = run.partition("/")[0]
            os.rmdir(run, dir_fd=attempts)
            if not _subdirectories(attempts, instant):
                forget_owner(attempts, instant)
                os.rmdir(instant, dir_fd=attempts)


def _subdirectories(parent: int, name: str) -> list[str]:
    with suppress(OSError):
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            with os.scandir(descriptor) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        finally:
            os.close(descriptor)
    return []


def _parts(staging_root: int, run: str) -> Iterator[Leftover]:
    descriptor = os.open(run, _DIRECTORY, dir_fd=staging_root)
    try:
        with os.scandir(descriptor) as entries:
            noted = sorted(entry.name for entry in entries if entry.name.endswith(NOTE_SUFFIX))
        for note_name in noted:
            name = note_name.removesuffix(NOTE_SUFFIX)
            with suppress(OSError):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                    yield Leftover(run, name, found.st_size, _read(descriptor, note_name))
    finally:
        os.close(descriptor)


def _read(directory: int, name: str) -> bytes:
    descriptor = os.open(name, _FILE, dir_fd=directory)
    try:
        return os.read(descriptor, MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
