"""What runs that died have left in the staging area: parts to go on with, and debris.

Each run's directory holds ``owner.json``: host, boot and process. It is a dead run's if its process is gone
or its machine has restarted since. One of another host is left alone: nothing here can tell.
"""

import os
import socket
import stat
from collections.abc import Callable, Iterator
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
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes to a staging directory. ``started`` is the process's start in clock ticks since boot."""

    host: str
    boot_id: str
    pid: int
    started: str


class Leftover(NamedTuple):
    """A part of a dead run that has a note. ``run`` and ``name`` say where, ``note`` is its raw text."""

    run: str
    name: str
    size_bytes: int
    note: bytes


def this_owner() -> Owner:
    """The running process."""
    pid = os.getpid()
    return Owner(host=socket.gethostname(), boot_id=boot_id(), pid=pid, started=_started(pid) or "")


def boot_id() -> str:
    """Changes when the machine restarts."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return "unknown"  # never equal to another run's: see ``_is_dead``


def _started(pid: int) -> str | None:
    """When that process started; None if there is none. Tells it from a later one of the same number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]


def _is_dead(owner: Owner, me: Owner, started: Callable[[int], str | None]) -> bool:
    if owner.host != me.host or "unknown" in (owner.boot_id, me.boot_id):
        return False
    return owner.boot_id != me.boot_id or started(owner.pid) != owner.started


def write_owner(attempts: int, instant: str) -> None:
    """Put this process's name into its instant's directory below the held ``attempts``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(f"{instant}/{OWNER_NAME}", flags, 0o600, dir_fd=attempts)
    try:
        os.write(descriptor, msgspec.json.encode(this_owner()))
    finally:
        os.close(descriptor)


def forget_owner(attempts: int, instant: str) -> None:
    """Take the name away: the instant leaves nothing behind."""
    with suppress(OSError):
        os.unlink(f"{instant}/{OWNER_NAME}", dir_fd=attempts)


def dead_runs(attempts: int, mine: str) -> Iterator[tuple[str, list[Leftover]]]:
    """Each dead run's directories (``instant/epoch``) below the held ``attempts``, with their noted parts.

    Everything else in such a directory is debris. What cannot be read is passed over.
    """
    me = this_owner()
    for instant in _subdirectories(attempts, "."):
        if instant == mine:
            continue
        with suppress(OSError, msgspec.MsgspecError):
            owner = msgspec.json.decode(_read(attempts, f"{instant}/{OWNER_NAME}"), type=Owner)
            if _is_dead(owner, me, _started):
                for epoch in _subdirectories(attempts, instant):
                    run = f"{instant}/{epoch}"
                    yield run, list(_parts(attempts, run))


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
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(descriptor, MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
