"""A follower on a full disk: what fits comes, and deletes make room for the rest."""

import pytest

from cfetch.app.free_space import DISK_RESERVE_BYTES
from cfetch.base.errors import LocalFault
from cfetch.run.volumes import Volumes
from tests.plugins.follow.follow_world import open_world

ROOM_BYTES = 100


@pytest.fixture
def world(tmp_path, monkeypatch):
    """The destination has room for 100 bytes; a step has one change."""
    with open_world(tmp_path) as found:

        def free(_):
            return DISK_RESERVE_BYTES + ROOM_BYTES - sum(map(len, found.tree().values()))

        monkeypatch.setattr(Volumes, "free_bytes", free)
        monkeypatch.setattr("cfetch.plugins.follow.server.handler.MAX_LIMIT", 1)
        monkeypatch.setattr("cfetch.plugins.follow.use_cases.follow.STEP_CHANGES", 1)
        yield found


def test_a_later_delete_makes_room(world):
    """The file before it waits meanwhile, and comes in the same run."""
    world.served.write({"a": "a" * 60})
    world.follow()
    world.served.write({"b": "b" * 60})
    world.served.write({"a": None})
    assert world.follow(delete=True).exit_code == 0
    assert world.tree() == world.served.tree()


def test_what_does_not_fit_is_told_and_the_rest_comes(world):
    """Exit code 3; the file waits, and a later run with more room brings it."""
    world.served.write({"large": "x" * 101})
    world.served.write({"small": "1"})
    with pytest.raises(LocalFault, match="no room for 1 file of the feed with 101 bytes"):
        world.follow()
    assert world.tree() == {"small": b"1"}
    world.served.write({"large": "fits"})
    assert world.follow().exit_code == 0
    assert world.tree() == world.served.tree()
