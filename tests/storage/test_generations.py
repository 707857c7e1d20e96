"""Generations of a tree: whole, replaced in one step, and nothing of the user is touched."""

import os

import pytest

from cfetch.base.errors import ConfigError, LocalFault
from cfetch.storage.generations import Generations


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "d/e").mkdir(parents=True)
    (root / "a").write_text("1")
    (root / "d/e/b").write_text("2")
    (root / ".cfetch").mkdir()
    (root / ".cfetch/private").write_text("no")
    return root


def read(directory):
    return {
        str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()
    }


def replace(path, text):
    other = path.with_name(".other")
    other.write_text(text)
    other.replace(path)


def test_a_generation_stays_as_it_was(tree, tmp_path):
    generations = Generations(tree, tmp_path / "out")
    assert not generations.has_current("1f-2")
    assert generations.publish("1f-2") == 2
    first = (tmp_path / "out/current").resolve()
    replace(tree / "a", "one")
    (tree / "d/e/b").unlink()
    assert read(tmp_path / "out/current") == read(first) == {"a": "1", "d/e/b": "2"}
    assert generations.has_current("1f-2")
    assert not generations.has_current("20-2")
    generations.publish("20-2")
    assert (read(tmp_path / "out/current"), read(first)) == ({"a": "one"}, {"a": "1", "d/e/b": "2"})
    generations.publish("30-2")
    assert not first.exists()
    assert len(os.listdir(tmp_path / "out")) == 3


def test_what_a_dead_follower_has_begun_is_removed_and_nothing_else(tree, tmp_path):
    out = tmp_path / "out"
    generations = Generations(tree, out)
    generations.publish("ab-1")
    for name in ("generation-2-ab-2", "2024-01-05", "generation-x"):
        (out / name).mkdir(parents=True)
    (out / ".current.next").symlink_to("generation-2-ab-2")
    generations.publish("ab-2")
    assert read(out / "current") == {"a": "1", "d/e/b": "2"}
    assert sorted(os.listdir(out)) == [
        "2024-01-05", "current", "generation-1-ab-1", "generation-2-ab-2", "generation-x"
    ]  # fmt: skip


def test_the_generation_before_stays_until_the_next_one_is_there(tree, tmp_path, monkeypatch):
    """A program may read it; the follower is killed, or the disk is full, before there is a next one."""
    generations = Generations(tree, tmp_path / "out")
    generations.publish("1-1")
    being_read = (tmp_path / "out/current").resolve()
    generations.publish("2-1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space")))
        for version in ("3-1", "4-1"):
            with pytest.raises(LocalFault, match="No space"):
                generations.publish(version)
    assert generations.has_current("2-1")
    assert read(being_read) == {"a": "1", "d/e/b": "2"}
    generations.publish("3-1")
    assert not being_read.exists()
    assert len(os.listdir(tmp_path / "out")) == 3


def test_without_the_symlink_no_generation_is_removed(tree, tmp_path):
    """Somebody has deleted it; programs may still read the generation to which it led."""
    generations = Generations(tree, tmp_path / "out")
    generations.publish("1-1")
    being_read = (tmp_path / "out/current").resolve()
    (tmp_path / "out/current").unlink()
    Generations(tree, tmp_path / "out").publish("1-1")
    assert read(being_read) == read(tmp_path / "out/current") == {"a": "1", "d/e/b": "2"}
    generations.publish("2-1")
    assert not being_read.exists()


def test_a_fault_leaves_the_present_generation(tree, tmp_path, monkeypatch):
    generations = Generations(tree, tmp_path / "out")
    generations.publish("1-1")
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        with pytest.raises(LocalFault, match="No space left"):
            generations.publish("2-1")
    assert generations.has_current("1-1")
    generations.publish("2-1")
    assert generations.has_current("2-1")


@pytest.mark.parametrize("where", ["tree/out", "."])
def test_one_does_not_lie_in_the_other(tree, tmp_path, where):
    with pytest.raises(ConfigError, match="one lies in the other"):
        Generations(tree, tmp_path / where)


def test_a_current_of_somebody_else_stays(tree, tmp_path):
    (tmp_path / "out/current").mkdir(parents=True)
    with pytest.raises(ConfigError, match="no symlink"):
        Generations(tree, tmp_path / "out")


def test_a_symlink_of_somebody_else_stays(tree, tmp_path):
    """Such a name is usual for releases of programs."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/current").symlink_to("releases/7")
    with pytest.raises(ConfigError, match="leads to releases/7, which is no generation"):
        Generations(tree, tmp_path / "out")
    (tmp_path / "out/current").unlink()
    generations = Generations(tree, tmp_path / "out")
    (tmp_path / "out/current").touch()
    with pytest.raises(ConfigError, match="no symlink"):
        generations.publish("1-1")
    (tmp_path / "out/current").unlink()
    (tmp_path / "out/current").symlink_to("releases/8")
    with pytest.raises(ConfigError, match="leads to releases/8"):
        generations.publish("1-1")
    assert (tmp_path / "out/current").readlink().name == "8"


def test_another_disk_is_told_before_anything_is_downloaded(tree, tmp_path, monkeypatch):
    monkeypatch.setattr("cfetch.storage.generations._device_of", lambda path: int(path == tree))
    with pytest.raises(ConfigError, match="it is on another file system"):
        Generations(tree, tmp_path / "out/not/yet")


def test_another_file_system_is_told(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(
        os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(18, "Invalid cross-device link"))
    )
    with pytest.raises(ConfigError, match="cross-device link; give a directory on the same file system"):
        Generations(tree, tmp_path / "out").publish("1-1")
