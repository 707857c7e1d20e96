"""Writes the files that the user has named for results, or their text to stdout."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.storage.files import PRIVATE, USERS, open_replacement, writing


def find_output(path: Path) -> Path:
    """The file that the user has named for a result, with symlinks resolved.

    Raises:
        UsageError: it is a device, a pipe or a directory, which a file would replace.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{printable(str(path))} is a device, a pipe or a directory; name a file")
    return Path(os.path.realpath(path))  # if symlinks form a circle, the first one


@contextmanager
def open_output(path: Path | None, *, private: bool) -> Iterator[TextIO]:
    """Write UTF-8 text to ``path``, which is replaced at the end of the ``with``; None: write to stdout.

    ``private`` text goes to a file that only its owner can read, and never to a terminal.

    Raises:
        UsageError: private text would go to a terminal; or ``path`` is a device, a pipe or a directory.
        LocalFault: the file cannot be written.
    """
    if path is None:
        with _open_stdout(private=private) as out:
            yield out
        return
    target = find_output(path)
    if not target.parent.is_dir():
        missing = printable(str(target.parent), 1000)
        raise LocalFault(f"cannot write {printable(str(path), 1000)}: there is no directory {missing}")
    with writing(path), open_replacement(target, mode=PRIVATE if private else USERS) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            text.detach()  # the wrapper would close the file before it is flushed to disk


@contextmanager
def _open_stdout(*, private: bool) -> Iterator[TextIO]:
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
        out.detach()  # the wrapper would close stdout when it is deleted
