"""The simulated feed is one: it passes the suite that all sources pass."""

import pytest

from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry, safe_path
from cfetch.plugins.follow.ranges import key_of
from cfetch.plugins.follow.source import Change
from cfetch.testing.feed import MergeContract, RecreateContract, RetentionContract
from tests.plugins.follow.simulator import SimulatedFeed


class SimulatedWorld:
    """What the suite does to a feed."""

    def __init__(self):
        self.feed = SimulatedFeed(first=1)
        self.source = self.feed.source()

    async def append(self, path):
        self.change(
            path, Entry(id=0, url=SecretUrl(f"https://files.example/{len(path)}"), path=safe_path(path))
        )

    async def delete(self, path):
        self.change(path, None)

    def change(self, path, entry):
        key = key_of(path)
        node = next(one for one in self.feed.nodes.values() if one.is_live and one.keys.holds(key))
        node.changes.append(Change(node.head, key, safe_path(path), entry))
        node.head += 1

    async def split(self, of):
        self.feed.split(of)

    async def merge(self, one, other):
        self.feed.merge(one, other)

    async def recreate(self):
        self.feed.recreate(first=1)

    async def retire(self):
        for node in self.feed.nodes.values():
            node.kept_from = node.head

    def reopened(self):
        return self.feed.source()


class TestSimulatedFeed(MergeContract, RecreateContract, RetentionContract):
    @pytest.fixture
    def world(self):
        return SimulatedWorld()
