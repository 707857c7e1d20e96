"""What all rooms' tests share: the hypothesis profile, and how tests are shared out."""

import os

from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.spark.session import spark  # noqa: F401 - a fixture
from tests.storage.s3_server import bucket, moto_server  # noqa: F401 - fixtures

settings.register_profile("cfetch", deadline=None)  # a loaded machine is slow, not wrong
settings.load_profile("cfetch")
SPARK = ("tests/spark/", "tests/tuning/test_tune.py")


class SparkTogether(LoadScopeScheduling):  # type: ignore[misc]
    """All tests that use Spark go to one process, which has one JVM; elsewhere each function is a unit.

    xdist's own groups are lost under pytest 9.2 (pytest-xdist #1386).
    """

    def _split_scope(self, nodeid):
        return "spark" if nodeid.startswith(SPARK) else nodeid.partition("[")[0]


def pytest_xdist_auto_num_workers(config):
    """One process more than processors: half of a run's time its tests wait for processes and files."""
    return (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config, log):
    return SparkTogether(config, log)
