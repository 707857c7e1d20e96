"""What dead attempts at a plan have left, and what of it the next attempt may go on with.

The timeline moves what ``useful_parts`` names from a dead attempt's directory to
``attempts/<instant>/<epoch>-<old epoch>/``; all else that was there it removes. A part tells by its name
alone which entry it is for, so one that can prove itself needs no note: files are published in groups, and a
note for each small file that waits would cost more than the file.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "BATCH",
    "IN_RANGES",
    "NOTE_SUFFIX",
    "PROVED_BY_HASH",
    "PROVED_BY_SIZE",
    "Leftover",
    "boot_id",
    "in_ranges",
    "leftovers_in",
    "useful_parts",
]

NOTE_SUFFIX = ".note"
PROVED_BY_HASH = "h"  # how the names of parts begin: the manifest has a hash for this one
PROVED_BY_SIZE = "s"  # it has not: without a note, of use only when whole, and on the boot that wrote it
IN_RANGES = "r"  # it has holes: of use only with its note, which tells where; its length says nothing
BATCH = "b"  # an empty file: the batch of that id is being staged here
MAX_FILE_BYTES = 16 << 10
_NAME = re.compile(f"[{PROVED_BY_HASH}{PROVED_BY_SIZE}{IN_RANGES}{BATCH}][0-9a-f]{{32}}")
_KEPT = re.compile(r"[0-9]+-[0-9]+")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Leftover(NamedTuple):
    """A part that may be of use. ``run`` is its directory below ``attempts``; ``note`` is raw, or empty."""

    run: str
    name: str
    size_bytes: int
    note: bytes


@cache
def boot_id() -> str:
    """Changes when the machine restarts."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"unknown {os.getpid()}"  # as good as another boot: nothing is taken for flushed


def in_ranges(name: str) -> str:
    """The name of a part from the moment on in which its bytes come out of order."""
    return IN_RANGES + name[1:]


def useful_parts(names: Iterable[str]) -> list[str]:
    """Of the names in a dead attempt's directory those of parts, and of the notes beside them."""
    found = set(names)
    parts = {name for name in found if _NAME.fullmatch(name)}
    return sorted(parts | {name + NOTE_SUFFIX for name in parts} & found)


def leftovers_in(attempts: int, instant: str) -> Iterator[Leftover]:
    """What was kept of dead attempts at ``instant``, below the held directory ``attempts``.

    What cannot be read is passed over: it is fetched again.
    """
    for kept in filter(_KEPT.fullmatch, _subdirectories(attempts, instant)):
        yield from _parts(attempts, f"{instant}/{kept}")


def _subdirectories(parent: int, name: str) -> list[str]:
    with suppress(OSError):
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            with os.scandir(descriptor) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        finally:
            os.close(descriptor)
    return []


def _parts(attempts: int, run: str) -> Iterator[Leftover]:
    descriptor = os.open(run, _DIRECTORY, dir_fd=attempts)
    try:
        with os.scandir(descriptor) as entries:
            names = {entry.name for entry in entries}
        for name in sorted(filter(_NAME.fullmatch, names)):
            with suppress(OSError):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                note = _read(descriptor, name + NOTE_SUFFIX) if name + NOTE_SUFFIX in names else b""
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                    yield Leftover(run, name, found.st_size, note)
    finally:
        os.close(descriptor)


def _read(directory: int, name: str) -> bytes:
    descriptor = os.open(name, _FILE, dir_fd=directory)
    try:
        return os.read(descriptor, MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
