"""Room on a full disk: a small file beside the timeline, which is let go when nothing else is free.

To free space takes space: a lock, the record of a rollback, heartbeats. Every run leaves the ballast there.
``plan list``, ``plan clean`` and ``plan rollback`` let it go where the disk is full, and put it back at the
end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cfetch.timeline.files import Files
from cfetch.timeline.lock import LOCK

BALLAST = "ballast"
BALLAST_BYTES = 64 << 10  # sixteen blocks of 4 KiB; a rollback makes six files


def leave_ballast(files: Files, name: str = BALLAST) -> bool:
    """Put the ballast beside the timeline, if there is room; whether it has been put there now."""
    with suppress(OSError):
        files.create(name, os.urandom(BALLAST_BYTES))  # nothing that a file system could compress
        return True
    return False


@contextmanager
def use_ballast(files: Files, token: str) -> Iterator[None]:
    """Let the ballast go for as long as this lasts, if the disk is full. ``token`` is this process's own."""
    probe = f"{LOCK}.{token}.room"  # a cleaner removes what begins so a day after its maker has died
    if leave_ballast(files, probe):
        files.unlink(probe)
    else:
        with suppress(OSError):
            files.unlink(BALLAST)
    try:
        yield
    finally:
        leave_ballast(files)
