"""Empties the directory of a dead attempt. Imported only when a run has died."""

import errno
from collections.abc import Callable, Collection
from contextlib import suppress

from cfetch.base.errors import LocalFault
from cfetch.timeline.files import TimelineFiles

MAX_SWEEPS = 1000  # of one directory; a stopped owner that wakes up can add a part between two sweeps


def empty(
    files: TimelineFiles,
    path: str,
    keep: Collection[str],
    kept_in: str,
    list_tasks: Callable[[TimelineFiles, str], list[str]],
    *,
    move: bool,
) -> None:
    """Empty ``path`` and remove it. The names of ``keep`` go to the directory ``kept_in``, which is there."""
    for _ in range(MAX_SWEEPS):
        for task in list_tasks(files, path):  # tasks that its owner has begun meanwhile
            empty(files, task, (), kept_in, list_tasks, move=move)
        kept = set(files.names(kept_in))  # taken from where they were written; a copy of a copy may be torn
        for name in sorted(files.names(path)):
            with suppress(FileNotFoundError, FileExistsError):
                if name not in keep or name in kept:
                    pass
                elif move:
                    files.rename(f"{path}/{name}", f"{kept_in}/{name}")
                    continue
                else:
                    _copy(files, f"{path}/{name}", f"{kept_in}/{name}")
            with suppress(FileNotFoundError):
                files.unlink(f"{path}/{name}")
        try:
            files.remove_directory(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
        else:
            return
    raise LocalFault(
        f"{path} of a dead run fills as fast as it is emptied; see who writes there, and stop it"
    )


def _copy(files: TimelineFiles, old: str, new: str) -> None:
    """Copy a part, unless the disk has no room for two of it: then it is fetched again.

    Otherwise the plan could never be continued there, although its files would fit.
    """
    try:
        files.copy(old, new)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        files.unlink_all([new])  # without a free inode it was not made
