"""The soak of real executors, short; ``benchmarks/timeline_soak.py`` has the two minutes, with figures."""

import pytest

from tests.timeline_soak.soak import soak


@pytest.mark.parametrize(
    ("seconds", "seed"), [(3, 1), pytest.param(120, 2, marks=pytest.mark.slow)], ids=["short", "long"]
)
async def test_executors_that_are_killed_stopped_and_woken(tmp_path, seconds, seed):
    """In the end the tree is whole, every plan is completed once, and nothing of the dead is left."""
    report = await soak(tmp_path, seconds=seconds, seed=seed, executors=4)
    assert report.wrong == []
    assert report.kills + report.stops > 0
    assert report.manifests >= 2
