"""``follow --consistent``: what is published is the feed at one moment, and nothing less."""

import pytest

from cfetch.base.errors import ConfigError
from tests.engine.drive import tree
from tests.plugins.follow.follow_world import open_world


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as world:
        yield world


def published(tmp_path):
    return tree(tmp_path / "out/current")


def test_each_end_of_the_feed_is_published_once(world, tmp_path):
    world.served.write({"a": "1", "d/b": "2"})
    world.follow(consistent=tmp_path / "out", delete=True)
    assert published(tmp_path) == world.served.tree()
    assert "feed: 2 files are published as one generation" in world.lines
    first = (tmp_path / "out/current").readlink()
    world.follow(consistent=tmp_path / "out", delete=True)
    assert (tmp_path / "out/current").readlink() == first
    world.served.write({"a": "one", "d/b": None, "c": "3"})
    world.follow(consistent=tmp_path / "out", delete=True)
    assert published(tmp_path) == world.served.tree()


def test_a_mirror_that_lacks_a_file_is_not_published(world, tmp_path):
    world.served.write({"a": "1"})
    world.follow(consistent=tmp_path / "out")
    world.served.publish_row("gone", f'{{"url": "{world.served.url}files/gone", "size": 1}}')
    world.served.write({"a": "2"})
    assert world.follow(consistent=tmp_path / "out").exit_code == 1
    assert (world.tree()["a"], published(tmp_path)["a"]) == (b"2", b"1")
    world.served.publish_row("gone", None)
    world.follow(consistent=tmp_path / "out")
    assert published(tmp_path)["a"] == b"2"


def test_a_resync_is_published_though_the_position_is_the_same(world, tmp_path):
    world.served.write({"a": "1"})
    world.follow(consistent=tmp_path / "out")
    (world.to / "a").unlink()
    world.follow(consistent=tmp_path / "out", resync=True)
    (tmp_path / "out/current/a").stat()
    assert (world.to / "a").stat().st_ino == (tmp_path / "out/current/a").stat().st_ino


def test_it_is_for_one_directory(world, tmp_path):
    places = (str(tmp_path / "v0"), str(tmp_path / "v1"))
    with pytest.raises(ConfigError, match="one destination"):
        world.follow(consistent=tmp_path / "out", settings={"to": places})
