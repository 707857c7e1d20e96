"""The engine ``spark``, as the core finds it by its name: see ``EnginePlugin``."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.app.engine_plan import LargeManifest, RunContext
from cfetch.base.config.settings import Settings
from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Engine

if TYPE_CHECKING:
    from cfetch.plugins.spark.cluster_run import SparkTasks


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

    def make_engine(self, plan: Frozen, context: RunContext) -> Engine:
        """Make the engine that brings the plan by a job."""
        from cfetch.plugins.spark.cluster_run import SparkTasks

        return _drive(SparkTasks(plan, context.settings), plan, context.volumes.roots[0], context)

    def make_placed_engine(self, plan: Plan, context: RunContext) -> Engine:
        """Make the engine that brings the plan to several directories by a job."""
        from cfetch.plugins.spark.placed_run import PlacedSparkTasks

        tasks = PlacedSparkTasks(plan, context.volumes, context.settings, context.clock)
        return _drive(tasks, plan, tasks.roots[0], context)


def _drive(tasks: "SparkTasks", plan: Frozen, root: Path | str, context: RunContext) -> Engine:
    from cfetch.tasks.shares.driver import DriverSetup, ShareEngine

    origin = context.renewal.origin
    setup = DriverSetup(plan, root, context.state, context.settings, origin, context.clock)
    return ShareEngine(tasks, setup)
