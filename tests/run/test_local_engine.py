"""The engine of one machine keeps the contract of engines."""

from contextlib import closing, contextmanager

from cfetch.run.local_run import LocalEngine
from cfetch.run.volumes import Volumes
from cfetch.wire.network import make_network
from tests.run.engines import EngineContract


class TestLocalEngine(EngineContract):
    """A pool in this process."""

    @contextmanager
    def engine_of(self, scene):
        """One directory, no way to fresh links."""
        state = scene.to / ".cfetch"
        with (
            closing(Volumes([scene.to], state=scene.to, write_timeout_s=30.0)) as volumes,
            volumes.stage_parts(scene.staging, scene.guard.instant, 1, state, "digest"),
        ):
            yield LocalEngine(
                scene.plan,
                volumes,
                scene.settings,
                network=make_network(scene.settings.network, {}),
                refresher=lambda _: None,
            )
