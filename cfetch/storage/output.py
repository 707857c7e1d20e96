"""A file that a verb writes at the user's wish: whole under its name or not at all."""

import io
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from cfetch.errors import LocalFault, UsageError
from cfetch.secret import printable
from cfetch.storage.directory import local_fault

__all__ = ["opened_output"]


@contextmanager
def opened_output(path: Path | None, *, private: bool) -> Iterator[TextIO]:
    """UTF-8 text to ``path``, which is replaced when the ``with`` ends well, or to stdout when it is None.

    ``private`` text goes to a file that only its owner can read, and never onto a terminal.

    Raises:
        UsageError: private text would stand on a terminal.
        LocalFault: the file cannot be written.
    """
    if path is None:
        with _stdout(private=private) as out:
            yield out
        return
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
    except OSError as error:
        raise _fault(error, path) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _fault(error, path) from None
        raise


@contextmanager
def _stdout(*, private: bool) -> Iterator[TextIO]:
    if private and sys.stdout.isatty():
        raise UsageError(
            "the manifest holds signed URLs or headers; give --output FILE, or send stdout to a file"
        )
    sys.stdout.flush()
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
    try:
        yield out
        out.flush()
    finally:
        out.detach()  # the wrapper would close stdout when it goes


def _fault(error: OSError, path: Path) -> LocalFault:
    return local_fault(error, f"cannot write {printable(str(path))}")
