"""What a sync remembers of the files it has put in place."""

import os

import pytest

from cfetch.errors import Held, LocalFault
from cfetch.run.catalogue import COMMIT_FILES, Catalogue, Entered, locate_catalogue


def entered(catalogue, path, version=None, *, is_own=True):
    catalogue.add_listed(path, version)
    catalogue.enter(Entered(path, 1, 2.5), is_own=is_own)


def test_what_has_changed_and_what_has_gone(tmp_path):
    """By the versions that both lists state; a file that was the sync's own stays so."""
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
        assert list(second.find_gone()) == [Entered("d", 1, 2.5)]
        second.enter(Entered("a", 3, 4.0), is_own=False)
        second.forget("d")
        assert (list(second.find_changed()), list(second.find_gone()), second.count_own()) == ([], [], 3)


def test_one_at_a_time(tmp_path):
    """The other one is told; nothing of it was changed."""
    path = tmp_path / "c"
    with Catalogue(path), pytest.raises(Held, match="syncs this source"), Catalogue(path):
        pass
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
    """However a link is signed."""
    query = "X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Signature="
    names = {
        locate_catalogue(tmp_path, source, roots)
        for source in (f"https://h/m?{query}1", f"https://h/m?{query}2", "https://h/n")
        for roots in ((tmp_path / "a",), (tmp_path / "b",))
    }
    assert len(names) == 4
