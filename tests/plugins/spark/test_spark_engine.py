"""Spark's engine keeps the contract of engines."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.clock import SystemClock
from cfetch.plugins.spark.engine import SparkPlugin
from cfetch.run.fresh_links import ManifestRef
from tests.run.engines import EngineContract

pytestmark = pytest.mark.usefixtures("spark")


class TestSparkEngine(EngineContract):
    """A job on two slots of this machine."""

    @contextmanager
    def engine_of(self, scene):
        """The state is in the destination, as tasks must see both."""
        context: Any = SimpleNamespace(
            volumes=SimpleNamespace(roots=(scene.to,)),
            state=scene.to / ".cfetch",
            settings=scene.settings,
            renewal=SimpleNamespace(origin=ManifestRef("m.json", None, None)),
            clock=SystemClock(),
        )
        yield SparkPlugin().make_engine(scene.plan, context)
