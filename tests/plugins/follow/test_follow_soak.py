"""The soak with real processes, in short; ``benchmarks/feed_soak.py`` is the long one."""

import pytest

from tests.plugins.follow.restore_soak import soak_restores
from tests.plugins.follow.soak import soak


@pytest.mark.parametrize("seconds", [5.0, pytest.param(120.0, marks=pytest.mark.slow)])
def test_a_follower_that_is_killed_again_and_again(tmp_path, seconds):
    """The mirror is the source, every version was applied, none after a later one of its key."""
    report = soak(tmp_path, seconds=seconds, seed=7)
    assert report.wrong == []
    assert report.kills > 0
    assert report.splits > 0
    assert report.applied >= report.versions > 200


@pytest.mark.parametrize("seconds", [6.0, pytest.param(120.0, marks=pytest.mark.slow)])
def test_a_server_that_is_restored_from_backups(tmp_path, seconds):
    """The mirror is the source, perhaps after a resync that a follower has asked for."""
    report = soak_restores(tmp_path, seconds=seconds, seed=7)
    assert report.wrong == []
    assert report.backups > 0
    assert report.restores > 0
