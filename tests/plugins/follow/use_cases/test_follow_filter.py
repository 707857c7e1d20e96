"""A follower that takes only some paths of its feed."""

import pytest

from cfetch.base.config.path_filter import PathFilter
from cfetch.plugins.follow.snapshot import Snapshot
from cfetch.plugins.follow.use_cases import follow as use_case
from tests.app.command import cfetch
from tests.plugins.follow.follow_world import open_world


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("include", "exclude", "taken"),
    [
        ((), (), {"a.txt", "d/b.txt", "d/e/c.bin"}),
        (("*.txt",), (), {"a.txt", "d/b.txt"}),
        (("d/*",), (), {"d/b.txt", "d/e/c.bin"}),
        (("a.txt", "*.bin"), (), {"a.txt", "d/e/c.bin"}),
        ((), ("d/e/*",), {"a.txt", "d/b.txt"}),
        (("*.txt",), ("d/*",), {"a.txt"}),
    ],
)
def test_a_path_is_taken_or_not(include, exclude, taken):
    paths = PathFilter(include, exclude)
    assert {path for path in ("a.txt", "d/b.txt", "d/e/c.bin") if paths.takes(path)} == taken


def test_only_some_paths_come_and_go(world):
    """News and deletes of other paths are passed over."""
    only = PathFilter(("d/*",))
    world.served.write({"a": "1", "d/b": "2", "d/c": "3"})
    assert world.follow(paths=only, delete=True).feed.entries == 2
    assert world.tree() == {"d/b": b"2", "d/c": b"3"}
    (world.to / "a").write_text("mine")
    world.served.write({"a": None, "d/b": None, "d/c": "4"})
    world.follow(paths=only, delete=True)
    assert world.tree() == {"a": b"mine", "d/c": b"4"}


def test_another_filter_reads_all_of_the_feed_again(world):
    """What it takes now comes; what it takes no longer stays, and is left alone."""
    world.served.write({"a": "1", "b": "2", "c": "3"})
    world.follow(paths=PathFilter((), ("b", "c")), delete=True)
    assert world.tree() == {"a": b"1"}
    found = world.follow(paths=PathFilter((), ("a", "c")), delete=True)
    assert "feed: other paths are taken than before" in world.lines
    assert (found.files.done, world.tree()) == (1, {"a": b"1", "b": b"2"})
    world.served.write({"a": None, "b": "5"})
    assert world.follow(paths=PathFilter((), ("a", "c")), delete=True).files.done == 1
    assert "feed: other paths are taken than before" not in world.lines
    assert world.tree() == {"a": b"1", "b": b"5"}
    world.follow(delete=True)
    assert world.tree() == world.served.tree()


def test_another_filter_deletes_nothing_that_a_stream_forgot(world, monkeypatch):
    """A stream names the changes of some days only; what it names no longer is not deleted."""
    world.served.write({"a": "1", "b": "2"})
    world.follow(paths=PathFilter((), ("c",)), delete=True)
    monkeypatch.setattr(use_case, "lists_all_files", lambda _: False)
    monkeypatch.setattr(Snapshot, "has", lambda _, path: path != "b")
    world.follow(delete=True)
    assert world.tree() == {"a": b"1", "b": b"2"}
    assert any("1 file that it lacks kept, as it may forget files" in line for line in world.lines)


def test_the_command_takes_patterns(world):
    """--verify compares with what they take."""
    world.served.write({"a": "1", "b.txt": "2", "c.txt": "3"})
    words = ("follow", world.served.url, "--to", world.to, "--include", "*.txt", "--exclude", "c*")
    assert cfetch(*words, "--once").returncode == 0
    assert world.tree() == {"b.txt": b"2"}
    assert cfetch(*words, "--verify").returncode == 0
