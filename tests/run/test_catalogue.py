"""What a sync remembers of the files it has put in place."""

import os
import sqlite3

import pytest

from cfetch.base.errors import Held, LocalFault
from cfetch.manifest.entry import SafePath
from cfetch.run.catalogue import COMMIT_FILES, Catalogue, Own, locate_catalogue
from cfetch.storage.directory import Identity
from cfetch.storage.lock_holders import find_holder_of


def entered(catalogue, path, version=None, *, is_own=True):
    catalogue.add_listed(path, version)
    catalogue.enter(path, own(path) if is_own else None)


def own(path):
    return Own(path, "/to", Identity(1, 2, 3, 4))


def test_what_has_changed_and_what_has_gone(tmp_path):
    """By the versions that both lists state; a file is the sync's own as it was entered last."""
    with Catalogue(tmp_path / "syncs/c") as first:
        assert first.is_empty()
        for path, version in {"a": "1", "b": "1", "c": None, "d": "1", "e": "1"}.items():
            entered(first, path, version, is_own=path != "e")
        assert first.count_own() == 4
        assert not first.is_empty()
    with Catalogue(tmp_path / "syncs/c") as second:
        for path, version in {"a": "2", "b": "1", "c": None, "new": "1"}.items():
            second.add_listed(path, version)
        assert list(second.find_changed()) == ["a"]
        assert list(second.find_new()) == [("new", "1")]
        assert list(second.find_gone()) == [own("d")]
        second.enter(SafePath("a"), None)
        second.forget(SafePath("d"))
        assert (list(second.find_changed()), list(second.find_gone()), second.count_own()) == ([], [], 2)
        assert (second.find_own(SafePath("a")), second.find_own(SafePath("b"))) == (None, own("b"))


def test_a_name_that_differs_only_in_case_or_form_has_not_gone(tmp_path):
    """On some file systems both names are one file."""
    with Catalogue(tmp_path / "c") as catalogue:
        for path in ("Read.me", "d/\u00fc", "x"):
            entered(catalogue, path)
    with Catalogue(tmp_path / "c") as catalogue:
        for path in ("README", "read.ME", "d/U\u0308"):
            catalogue.add_listed(path, None)
        assert list(catalogue.find_gone()) == [own("x")]


@pytest.mark.parametrize("row", [
    ("../x", "/to", 1, 1, 1, 1), (b"x", "/to", 1, 1, 1, 1), ("x", b"/to", 1, 1, 1, 1),
    ("x", "/to", "a", 1, 1, 1), ("x\0", "/to", 1, 1, 1, 1), ("x", "/to", 1, 1, 1, None),
])  # fmt: skip
def test_a_row_is_checked_as_in_a_manifest(row, tmp_path):
    """Somebody else may have written it; nothing is deleted by it."""
    with Catalogue(tmp_path / "c"):
        pass
    with sqlite3.connect(tmp_path / "c") as database:
        database.execute("INSERT INTO files VALUES (?, NULL, ?, ?, ?, ?, ?)", row)
    database.close()
    with (
        Catalogue(tmp_path / "c") as catalogue,
        pytest.raises(LocalFault, match=r"remove the file .*/c; then"),
    ):
        list(catalogue.find_gone())


def test_text_that_is_no_utf_8_and_a_symlink(tmp_path):
    """Damage is told, with what to do."""
    with Catalogue(tmp_path / "c"):
        pass
    with sqlite3.connect(tmp_path / "c") as database:
        database.execute("INSERT INTO files VALUES (CAST(x'ff' AS TEXT), NULL, '/to', 1, 1, 1, 1)")
    database.close()
    with Catalogue(tmp_path / "c") as catalogue, pytest.raises(LocalFault, match="remove the file"):
        list(catalogue.find_gone())
    (tmp_path / "link").symlink_to("c")
    with pytest.raises(LocalFault, match="it is a symlink"), Catalogue(tmp_path / "link"):
        pass


def test_one_at_a_time(tmp_path):
    """The other one is told; nothing of it was changed."""
    path = tmp_path / "c"
    with Catalogue(path), pytest.raises(Held, match=f"process {os.getpid()} on") as held, Catalogue(path):
        pass
    assert "another run syncs this source to here" in str(held.value)
    with Catalogue(path):
        with pytest.raises(Held), Catalogue(path):
            pass
        assert find_holder_of(path).pid == os.getpid()  # the attempt has not ended the lock
    path.write_bytes(b"no database" * 100)
    with pytest.raises(LocalFault, match="SQLITE_NOTADB"), Catalogue(path):
        pass


def test_a_killed_sync_loses_few(tmp_path):
    """What was entered before the last commit stands."""
    path = tmp_path / "c"
    child = os.fork()
    if child == 0:
        with Catalogue(path) as catalogue:
            for number in range(COMMIT_FILES + 1):
                entered(catalogue, str(number))
            os._exit(0)
    os.waitpid(child, 0)
    with Catalogue(path) as catalogue:
        assert catalogue.count_own() == COMMIT_FILES


def test_each_source_and_place_has_its_own(tmp_path):
    """However a link is signed; and so has each place that its name may belong to."""
    query = "X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Signature="
    names = {
        locate_catalogue(tmp_path, source, roots)
        for source in (f"https://h/m?{query}1", f"https://h/m?{query}2", "https://h/n")
        for roots in ((tmp_path / "a",), (tmp_path / "b",))
    }
    assert len(names) == 4
    found = [
        locate_catalogue(tmp_path, "s3://b/", (), addresses=[end]) for end in ("http://h", "http://i", None)
    ]
    assert len(set(found)) == 3
