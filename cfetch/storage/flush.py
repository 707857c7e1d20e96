"""One flush for a whole file system: what the standard library lacks."""

import ctypes
import os
from functools import cache
from typing import Any

__all__ = ["flush_file_system"]


@cache
def _syncfs() -> Any:  # noqa: ANN401 - a C function, or None where there is none
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def flush_file_system(descriptor: int) -> None:
    """Write all unwritten bytes and names of the file system of ``descriptor``, and wait for the disk.

    ``syncfs(2)`` reports write errors since Linux 5.8. Where there is none, everything is flushed (``sync``).

    Raises:
        OSError: some bytes could not be written.
    """
    syncfs = _syncfs()
    if syncfs is None:
        os.sync()
    elif syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
