"""Errors of the SQLite files that cfetch keeps for itself, in words for a person."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfetch.errors import LocalFault
from cfetch.records import NOT_DECODED


@contextmanager
def explain_errors(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Turn errors of a file, which holds ``what``, and of the rows in it into LocalFault."""
    try:
        yield
        return
    except sqlite3.Error as error:
        reason = getattr(error, "sqlite_errorname", type(error).__name__)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except (ValueError, *NOT_DECODED):
        reason = "it is not what cfetch writes"
    raise LocalFault(f"cannot use {path}, {what}: {reason}; {remedy}") from None
