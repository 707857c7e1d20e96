"""The engine ``spark``, as the core finds it by its name: see ``EnginePlugin``."""

from contextlib import ExitStack
from pathlib import Path

from cfetch.app.engine_plan import LargeManifest
from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Engine
from cfetch.run.fresh_links import ManifestRef
from cfetch.run.volumes import Volumes


class SparkPlugin:
    """Each part is imported when it is asked for: a plan of a cluster is read without PySpark."""

    def is_large(self, path: Path, settings: Settings) -> bool:
        """Whether Spark prepares this manifest itself."""
        from cfetch.plugins.spark.prepare.large import is_large
        from cfetch.plugins.spark.session import count_local_slots

        return is_large(path, count_local_slots(settings.spark_master or "local[*]"))

    def prepare(self, stack: ExitStack, large: LargeManifest) -> Frozen:
        """Check and freeze a manifest by a job."""
        from cfetch.plugins.spark.prepare.large import prepare_on_spark

        return prepare_on_spark(stack, large)

    def load_prepared(self, directory: Path) -> Frozen:
        """Read a plan that a job has prepared."""
        from cfetch.plugins.spark.prepare.prepared import load_prepared

        return load_prepared(directory)

    def make_engine(
        self,
        plan: Frozen,
        root: Path | str,
        state: Path,
        settings: Settings,
        *,
        origin: ManifestRef,
        clock: Clock,
    ) -> Engine:
        """Make the engine that brings the plan by a job."""
        from cfetch.plugins.spark.cluster_run import SparkTasks
        from cfetch.tasks.shares.driver import DriverSetup, ShareEngine

        return ShareEngine(
            SparkTasks(plan, settings), DriverSetup(plan, root, state, settings, origin, clock)
        )

    def make_placed_engine(
        self,
        plan: Plan,
        volumes: Volumes,
        state: Path,
        settings: Settings,
        *,
        origin: ManifestRef,
        clock: Clock,
    ) -> Engine:
        """Make the engine that brings the plan to several directories by a job."""
        from cfetch.plugins.spark.placed_run import PlacedSparkTasks
        from cfetch.tasks.shares.driver import DriverSetup, ShareEngine

        tasks = PlacedSparkTasks(plan, volumes, settings, clock)
        return ShareEngine(tasks, DriverSetup(plan, tasks.roots[0], state, settings, origin, clock))
