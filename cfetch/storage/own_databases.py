"""Opens the SQLite files that cfetch keeps for itself, and puts their errors into words for a person."""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.storage.files import local_fault
from cfetch.storage.group_rights import make_file

NOT_OURS = "it is not what cfetch writes"
_OF_THE_SYSTEM = (
    ("SQLITE_FULL", errno.ENOSPC),
    ("SQLITE_IOERR", errno.EIO),
    ("SQLITE_READONLY", errno.EACCES),
    ("SQLITE_BUSY", errno.EBUSY),
)


@contextmanager
def open_database(path: Path | None, *, timeout_s: float = 5.0) -> Iterator[sqlite3.Connection]:
    """Open a database for longer than the block, which sets it up; close it again if the block fails.

    The directory of ``path`` must be private. ``path`` None: a database in memory. ``timeout_s``: how long to
    wait for a lock.

    Raises OSError: also if it is a symlink, or no file; sqlite3.Error.
    """
    if path is not None:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise OSError(errno.ELOOP, "it is a symlink, or no file")
        make_file(path)
    database = sqlite3.connect(
        path or ":memory:", timeout=timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        yield database
    except BaseException:
        database.close()
        raise


@contextmanager
def explain_errors(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Turn errors of a file, which holds ``what``, and of the rows in it into LocalFault.

    ``remedy`` is for a file that is damaged. It may cost what the file has told, so that a full disk, a lock
    or a lack of permission has its own.
    """
    doing = f"cannot use {printable(str(path), 1000)}, {what}"
    try:
        yield
        return
    except sqlite3.Error as error:
        if (fault := find_system_fault(error)) is not None:
            raise local_fault(fault, doing) from None
        reason = name_error(error)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise local_fault(error, doing) from None
        reason = error.strerror or type(error).__name__
    except (ValueError, *NOT_DECODED):
        reason = NOT_OURS
    raise LocalFault(f"{doing}: {reason}; {remedy}") from None


def find_system_fault(error: sqlite3.Error) -> OSError | None:
    """The system's error behind one of SQLite; None: it is about what is in the file."""
    number = next((number for name, number in _OF_THE_SYSTEM if name_error(error).startswith(name)), None)
    return None if number is None else OSError(number, os.strerror(number))


def name_error(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error. An error about text that is not UTF-8 has none."""
    return getattr(error, "sqlite_errorname", NOT_OURS)
