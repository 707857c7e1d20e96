"""Makes the engines that cut a plan for many tasks: processes of this machine, several machines, Spark."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from cfetch.app.engine_plan import LOCAL, EnginePlan, RunContext, find_engine
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Engine
from cfetch.run.volumes import Volumes
from cfetch.straggler.knowledge import Knowledge
from cfetch.timeline.table import Table

if TYPE_CHECKING:
    from cfetch.tasks.nodes.board import SharedJob
    from cfetch.tasks.nodes.engine import NodesEngine
    from cfetch.tasks.shares.driver import DriverSetup

NOT_HERE = (
    "Spark prepares a list of this size, or a directory of lists, by itself, and this program, which would "
    "place its files on several volumes, does not hold it; give one --to, or lists with fewer files"
)


class PlacingEngine(Protocol):
    """What the core asks besides of an engine that brings a plan to several directories."""

    def make_placed_engine(self, plan: Plan, context: RunContext) -> Engine:
        """Make the engine that brings ``plan`` to all destinations."""


def make_processes_engine(plan: Plan, context: RunContext, knowledge: Knowledge, processes: int) -> Engine:
    """Make the engine of several processes of this machine."""
    from cfetch.tasks.processes.engine import LocalTasks
    from cfetch.tasks.shares.driver import ShareEngine

    several = context.volumes if len(context.volumes.roots) > 1 else None
    tasks = LocalTasks(plan, context.settings, processes, context.clock, several)
    return ShareEngine(tasks, _set_up(plan, context, knowledge))


def _set_up(plan: Plan, context: RunContext, knowledge: Knowledge) -> "DriverSetup":
    """The facts of a run by processes."""
    from cfetch.tasks.shares.driver import DriverSetup

    root, origin = context.volumes.local[0].root, context.renewal.origin
    return DriverSetup(plan, root, context.state, context.settings, origin, context.clock, knowledge)


def make_nodes_engine(
    plan: EnginePlan,
    context: RunContext,
    knowledge: Knowledge,
    table: Table,
    joined: "SharedJob | None" = None,
    *,
    count_processes: Callable[[Plan, RunContext], tuple[int, str | None]],
) -> "NodesEngine":
    """Make the engine of one of several machines that bring the plan together.

    ``joined``: the job of the run that leads the others; None: this run leads. ``count_processes``: how many
    processes this machine has, as for a run on one machine.

    Raises:
        ConfigError: with these settings, several machines cannot bring this plan.
    """
    from cfetch.tasks.nodes.engine import Here, NodePart, NodesEngine, NodeTasks
    from cfetch.tasks.nodes.placed_nodes import JoinedTasks, LeadingTasks, refuse_other_volumes

    if context.settings.engine != LOCAL or plan.here is None:
        raise ConfigError("--together is for the engine local; Spark has its own executors")
    volumes, settings = context.volumes, context.settings
    if volumes.stores or not volumes.local:
        raise ConfigError(
            "with --together the files go to directories that all machines see, and not to object stores; "
            "give directories as --to, or leave --together out, and this machine brings the plan alone"
        )
    processes, _ = count_processes(plan.here, context)
    here = Here(table, processes, context.clock)
    tasks: NodePart
    if joined is not None:
        refuse_other_volumes(volumes.roots, joined)
    if len(volumes.roots) == 1:
        tasks = NodeTasks(plan.here, settings, here, joined)
    elif joined is None:
        tasks = LeadingTasks(plan.here, volumes, settings, here)
    else:
        tasks = JoinedTasks(plan.here, volumes, settings, here, joined)
    return NodesEngine(tasks, _set_up(plan.here, context, knowledge), table)


def make_plugin_engine(plan: EnginePlan, context: RunContext) -> Engine:
    """Make the engine of a plug-in, as Spark's. Raises ConfigError: it cannot bring the plan like this."""
    engine, volumes = context.settings.engine, context.volumes
    _check_for_spark(context.settings)
    if plan.frozen.names_batches and not volumes.local:
        raise ConfigError(
            f"the manifest names batches, which are published as a whole; --engine {engine} "
            "does that in a directory, and not in an object store: give a directory that all executors see, "
            "or use --engine local"
        )
    if context.network.stays_here:
        raise ConfigError(
            f"--engine {engine} asks from other processes, which do not have this program's "
            "session; use engine local"
        )
    if len(volumes.roots) > 1:
        return _make_placing_engine(plan, context)
    return find_engine(engine).make_engine(plan.frozen, context)


def _make_placing_engine(plan: EnginePlan, context: RunContext) -> Engine:
    """Make the engine of a plug-in for several destinations. Raises ConfigError."""
    name, volumes = context.settings.engine, context.volumes
    plugin = find_engine(name)
    if not hasattr(plugin, "make_placed_engine"):
        raise ConfigError(f"--engine {name} downloads to one destination; give one --to")
    if volumes.stores or not volumes.local:
        raise ConfigError(
            f"with several --to, --engine {name} downloads to directories that all executors see; give one "
            f"--to for an object store, or leave --engine {name} out, and one process brings the plan"
        )
    if plan.here is None:
        raise ConfigError(NOT_HERE)
    return cast("PlacingEngine", plugin).make_placed_engine(plan.here, context)


def _check_for_spark(settings: Settings) -> None:
    """Raise ConfigError if the run needs a file that only this machine has."""
    if settings.cookies is not None:
        raise ConfigError(
            f"cookies is a file of this machine, which executors do not see; with --engine "
            f"{settings.engine}, give the login as --bearer-env or --header, or use --engine local"
        )


def check_for_preparing(volumes: Volumes, settings: Settings) -> None:
    """Raise ConfigError if the run needs what no list has that Spark prepares."""
    _check_for_spark(settings)
    if len(volumes.roots) > 1:
        raise ConfigError(NOT_HERE)
