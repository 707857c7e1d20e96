"""Several processes keep the contract of engines."""

from contextlib import contextmanager

from cfetch.clock import SystemClock
from cfetch.processes.engine import ProcessesEngine
from cfetch.run.fresh_links import ManifestRef
from tests.run.engines import EngineContract


class TestProcessesEngine(EngineContract):
    """Two children of this process."""

    @contextmanager
    def engine_of(self, scene):
        """The state is in the destination."""
        yield ProcessesEngine(
            scene.plan,
            scene.to,
            scene.to / ".cfetch",
            scene.settings,
            processes=2,
            origin=ManifestRef("m.json", None, None),
            clock=SystemClock(),
        )
