"""The format of a state directory: one number in the file ``format``.

A later version of cfetch that keeps its files in another way raises the number, so that this version neither
misreads them nor removes what it does not know. A state without the file is of format 1, which had none.
"""

import os
from pathlib import Path

from cfetch.base.errors import NewerRecord
from cfetch.base.secret import printable
from cfetch.storage.files import local_fault

FORMAT_NAME = "format"
FORMAT = 1
MARKER = f"{FORMAT}\n".encode()
_MOST_BYTES = 64


def refuse_newer_state(state: Path) -> None:
    """Check that this version knows the format of ``state``; nothing is written.

    A state that this user may not enter is refused by whoever opens it, who can say whose it is.

    Raises NewerRecord; LocalFault: the marker cannot be read.
    """
    path = state / FORMAT_NAME
    try:
        data = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if not os.access(state, os.X_OK):
            return
        raise local_fault(error, f"cannot read the format of {printable(str(state), 1000)}") from None
    text = data.strip(b"\0 \n").decode("ascii", "replace")
    # A power cut may leave the file without its bytes.
    if not text or (text.isdecimal() and int(text) <= FORMAT):
        return
    raise NewerRecord(
        f"{printable(str(path), 1000)} says format {printable(text)!r}, and this version of cfetch knows "
        f"formats up to {FORMAT}: a newer version keeps its state there. Use that version, or name another "
        "directory with --state or --to"
    )


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)
