"""Suites that tell whether a class keeps a port of cfetch: for plug-ins of anybody, and for our own classes.

A test module derives a class from a suite and gives it what the suite asks for, mostly a fixture ``world``::

    from cfetch.testing.feed import FeedContract

    class TestMine(FeedContract):
        @pytest.fixture
        async def world(self, tmp_path):
            world = MyWorld(tmp_path)  # keeps the port World of that module
            yield world
            await world.close()

    transport.py   of a scheme: ``TransportContract``, for the ``Transport`` that an opener returns
    feed.py        of a feed: ``FeedContract``, and one for splits, merges, feeds made anew, and retention
    policy.py      of a policy: ``PolicyContract``
    formats.py     of a format: ``FormatContract``, by samples that are the format's and that are not
    volume.py      of a destination: ``VolumeContract``, ``KeepingVolumeContract``, ``DiskContract``
    checks.py      what these modules share
    mocking.py     no suite: ``mock_servers`` answers requests without a server, by aioresponses

Nothing here imports pytest: any runner will do which calls the methods named ``test_…`` of a class. Many are
coroutines, which pytest-asyncio runs. With ``pytest.register_assert_rewrite("cfetch.testing")`` in
conftest, pytest shows the values of an assert that fails.

When it fails: the name and the docstring of the test say what the port asks.
"""
