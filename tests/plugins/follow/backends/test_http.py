"""The HTTP source against the real server on loopback, and against servers that break the rules."""

import pytest

from cfetch.testing.feed import MergeContract, RecreateContract, RetentionContract
from tests.plugins.follow.http_world import HttpWorld


class TestHttp(MergeContract, RecreateContract, RetentionContract):
    """All that a feed can."""

    @pytest.fixture
    async def world(self, tmp_path):
        world = await HttpWorld().start(tmp_path / "tree")
        yield world
        await world.close()
