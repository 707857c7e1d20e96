"""The SQLite files that cfetch keeps for itself."""

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
