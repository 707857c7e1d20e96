"""Room on a full disk: a small file beside the timeline, which is removed when no other space is free.

To free space needs space: a lock, the record of a rollback, heartbeats. Every run leaves the ballast there.
``plan list``, ``plan clean`` and ``plan rollback`` remove it if the disk is full, and put it back at the end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cfetch.timeline.files import TimelineFiles
from cfetch.timeline.lock import LOCK

BALLAST = "ballast"
BALLAST_BYTES = 64 << 10  # sixteen blocks of 4 KiB; a rollback makes six files


def leave_ballast(files: TimelineFiles, name: str = BALLAST) -> bool:
    """Put the ballast beside the timeline, if there is room. Returns whether it was put there now."""
    with suppress(OSError):
        files.create(name, os.urandom(BALLAST_BYTES))  # a file system cannot compress random bytes
        return True
    return False


@contextmanager
def use_ballast(files: TimelineFiles, token: str) -> Iterator[None]:
    """Remove the ballast while this context lasts, if the disk is full. ``token`` is this process's own."""
    probe = f"{LOCK}.{token}.room"  # a cleaner removes files with this prefix when they are a day old
    if leave_ballast(files, probe):
        with suppress(OSError):  # an append-only directory: what needs more than that will say so
            files.unlink(probe)
    else:
        with suppress(OSError):
            files.unlink(BALLAST)
    try:
        yield
    finally:
        leave_ballast(files)
