"""Files of cfetch's own, for their owner only: a crash leaves either the old one or the new one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfetch.storage.directory import local_fault

__all__ = ["on_disk", "replace_private"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """OSErrors are LocalFaults that name ``path``."""
    try:
        yield
    except OSError as error:
        raise local_fault(error, f"cannot use {path}") from None


def replace_private(path: Path, data: bytes) -> None:
    """Write a file, bytes and name on disk when this returns; an older one goes. Raises LocalFault."""
    hidden = path.with_name(f".{path.name}")
    with on_disk(path):
        with os.fdopen(os.open(hidden, _NEW, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
