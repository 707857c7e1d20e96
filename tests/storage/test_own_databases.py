"""The SQLite files that cfetch keeps for itself."""

import errno
import sqlite3

import pytest

from cfetch.base.errors import LocalFault
from cfetch.storage.own_databases import explain_errors, open_database


def test_a_database_stays_open_unless_it_cannot_be_set_up(tmp_path):
    """It outlives the block; after a failure it is closed, so that its locks are gone."""
    with open_database(tmp_path / "a") as database:
        database.execute("CREATE TABLE a (b)")
    database.execute("INSERT INTO a VALUES (1)")
    database.close()
    with pytest.raises(sqlite3.OperationalError), open_database(tmp_path / "a") as database:
        database.execute("CREATE TABLE a (b)")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")


def test_a_symlink_is_named_with_the_remedy(tmp_path):
    """The file that a symlink leads to is not opened, and the message says what to do."""
    (tmp_path / "link").symlink_to("elsewhere")
    refused = pytest.raises(LocalFault, match="link, the log: it is a symlink, or no file; begin anew")
    with (
        refused,
        explain_errors(tmp_path / "link", "the log", "begin anew"),
        open_database(tmp_path / "link"),
    ):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("SQLITE_FULL", r"a, the log: No space left on device \(free some space .*\)"),
        ("SQLITE_IOERR_WRITE", r"a, the log: Input/output error \(the disk reports .*\)"),
        ("SQLITE_READONLY_DIRECTORY", r"a, the log: Permission denied \(check the permissions\)"),
        ("SQLITE_BUSY", "a, the log: Device or resource busy"),
        ("SQLITE_CORRUPT", "a, the log: SQLITE_CORRUPT; remove it"),
    ],
)
def test_only_a_damaged_file_is_to_be_removed(tmp_path, name, told):
    """On a full disk that would lose what the file tells, for nothing."""
    error = sqlite3.OperationalError("x")
    error.sqlite_errorname = name
    with pytest.raises(LocalFault, match=f"{told}$"), explain_errors(tmp_path / "a", "the log", "remove it"):
        raise error


def test_a_file_that_the_system_refuses_is_not_to_be_removed_either(tmp_path):
    """The directory is full, or not the user's."""
    refused = pytest.raises(LocalFault, match=r"the log: No space left on device \(free some space")
    with refused, explain_errors(tmp_path / "a", "the log", "remove it"):
        raise OSError(errno.ENOSPC, "No space left on device")
