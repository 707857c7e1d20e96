"""Removes the frozen manifests of plans that are over; they may hold signed links."""

import shutil
from contextlib import suppress
from pathlib import Path

from cfetch.timeline.files import TimelineFiles
from cfetch.timeline.table import Table

PLANS = "plans"


def forget_frozen(table: Table, state: Path, instant: str) -> None:
    """Remove a frozen manifest from this machine's ``state``, and from a bucket's. Raises OSError."""
    shutil.rmtree(state / PLANS / instant, ignore_errors=True)
    if table.bucket is not None:
        remove_frozen(table.bucket, instant)


def remove_frozen(files: TimelineFiles, name: str) -> None:
    """Remove a frozen manifest, which may hold signed links, with its directory. Raises OSError."""
    _remove(files, f"{PLANS}/{name}")


def _remove(files: TimelineFiles, directory: str) -> None:
    paths = [f"{directory}/{part}" for part in files.names(directory)]
    try:
        files.unlink_all(paths)
    except (IsADirectoryError, PermissionError):  # Linux's and POSIX's error: one is a directory of Spark
        for path in paths:
            try:
                files.unlink_all([path])
            except (IsADirectoryError, PermissionError):
                _remove(files, path)
    with suppress(OSError):
        files.remove_directory(directory)
