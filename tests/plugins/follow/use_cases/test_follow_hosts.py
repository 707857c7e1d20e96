"""Where a follower sends requests because a feed says so."""

import json

import pytest

from cfetch.base.errors import FeedError
from tests.plugins.follow.follow_world import open_world
from tests.plugins.follow.http_world import HttpWorld


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


def test_a_link_to_another_host_is_not_requested(world, tmp_path):
    """The follower stops before the step and names the option; with it, the file comes."""
    other = HttpWorld()
    world.served.do(other.start(tmp_path / "other"))
    try:
        (tmp_path / "other/x").write_text("secret")
        world.served.do(other.scan())
        world.served.write({"a": "1"})
        row = {"url": f"{other.url}files/x", "size": 6}
        world.served.publish_row("stolen", json.dumps(row))
        with pytest.raises(FeedError, match=r"stolen of the feed lies at 127\.0\.0\.1:\d+, .* --allow-host"):
            world.follow()
        assert not world.to.exists() or "stolen" not in world.tree()
        assert world.follow(allow_hosts=(other.url.split("/")[2],)).files.done == 2
        assert world.tree() == {"a": b"1", "stolen": b"secret"}
    finally:
        world.served.do(other.close())


def test_a_public_feed_does_not_lead_into_the_own_network(world, monkeypatch):
    """Its files are then refused at addresses that are not public, whatever name leads there."""
    world.served.write({"a": "1"})
    monkeypatch.setattr("cfetch.plugins.follow.link_hosts.is_public", lambda address: address == "127.0.0.1")
    found = world.follow(settings={"max_attempts": 1})
    assert (found.exit_code, found.files.failed) == (1, 1)
    assert "not public" in found.failures[0].message
    assert world.follow(allow_hosts=("*",)).files.done == 1
