"""Chooses the engine that brings a plan: a pool in this process, several processes, or a job on Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cfetch.app.engine_plan import LOCAL, EnginePlan, find_engine
from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, UsageError
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Engine
from cfetch.run.fresh_links import Renewal
from cfetch.run.volumes import Volumes
from cfetch.straggler.knowledge import Knowledge
from cfetch.tasks.processes.choice import Work, choose_processes
from cfetch.tasks.processes.cores import count_cores
from cfetch.timeline.table import Table
from cfetch.wire.network import Network

if TYPE_CHECKING:
    from cfetch.tasks.nodes.board import SharedJob

SAMPLE = 256  # files that are looked for: some 5 ms


class RunContext(NamedTuple):
    """What a prepared plan has opened for the engine. ``state``: of the destination."""

    volumes: Volumes
    state: Path
    settings: Settings
    network: Network
    renewal: Renewal
    clock: Clock


def choose_engine(plan: EnginePlan, context: RunContext, knowledge: Knowledge) -> tuple[Engine, str | None]:
    """Make the engine that the settings ask for; with a note for the user if it differs from them.

    Raises:
        UsageError: with these settings, no engine can bring this plan.
    """
    if context.settings.engine != LOCAL:
        return _find_plugin_engine(plan, context), None
    if plan.here is None:
        raise ConfigError("engine is local, and Spark has prepared the plan: give --engine spark")
    processes, note = _count_processes(plan.here, context)
    if processes > 1:
        return _processes_engine(plan.here, context, knowledge, processes), note
    from cfetch.run.local_run import LocalEngine

    settings, renewal, clock = context.settings, context.renewal, context.clock
    engine = LocalEngine(
        plan.here,
        context.volumes,
        settings,
        network=context.network,
        refresher=lambda transport: renewal.refresher(settings.refresh_command, transport, clock),
        knowledge=knowledge,
    )
    return engine, note


def _count_processes(plan: Plan, context: RunContext) -> tuple[int, str | None]:
    """Return the number of processes, and a note if the settings ask for more."""
    settings, volumes = context.settings, context.volumes
    why = None
    if len(volumes.roots) > 1 or not volumes.local:
        why = "files go to one directory"
    elif plan.names_batches:
        why = "the manifest names no batches, which are published as a whole"
    if why is not None:
        asked = settings.processes or 1
        note = f"one process and not {asked}: several share the work only where {why}"
        return 1, note if asked > 1 else None
    work, cores = Work(len(plan), plan.total_bytes, plan.sizes), count_cores()
    if settings.processes is None and choose_processes(work, settings, cores=cores) > 1:
        work = _estimate_left(work, plan, volumes)
    return choose_processes(work, settings, cores=cores), None


def _estimate_left(work: Work, plan: Plan, volumes: Volumes) -> Work:
    """Estimate by a sample of the files what is left of the work: in a second run most may be in place."""
    sample = range(0, len(plan), -(-len(plan) // SAMPLE))
    left = len(sample) - volumes.count_in_place(plan.entry(index) for index in sample)
    files, known_bytes = (total * left // len(sample) for total in (work.files, work.known_bytes))
    return work._replace(files=files, known_bytes=known_bytes)


def _processes_engine(plan: Plan, context: RunContext, knowledge: Knowledge, processes: int) -> Engine:
    from cfetch.tasks.processes.engine import ProcessesEngine

    return ProcessesEngine(
        plan,
        context.volumes.local[0].root,
        context.state,
        context.settings,
        processes=processes,
        origin=context.renewal.origin,
        clock=context.clock,
        knowledge=knowledge,
    )


def make_nodes_engine(
    plan: EnginePlan,
    context: RunContext,
    knowledge: Knowledge,
    table: Table,
    joined: "SharedJob | None" = None,
) -> Engine:
    """Make the engine of one of several machines that bring the plan together.

    ``joined``: the job of the run that leads the others; None: this run leads.

    Raises:
        UsageError: with these settings, several machines cannot bring this plan.
    """
    from cfetch.tasks.nodes.engine import Here, NodesEngine

    if context.settings.engine != LOCAL or plan.here is None:
        raise ConfigError("--together is for the engine local; Spark has its own executors")
    if len(context.volumes.roots) > 1 or not context.volumes.local:
        raise UsageError("with --together the files go to one directory that all machines see; give one --to")
    if plan.here.names_batches:
        raise UsageError(
            "the manifest names batches, which are published as a whole; --together publishes each file by "
            "itself: run the plan on one machine"
        )
    processes, _ = _count_processes(plan.here, context)
    return NodesEngine(
        plan.here,
        context.volumes.local[0].root,
        context.state,
        context.settings,
        Here(table, processes, context.clock),
        origin=context.renewal.origin,
        knowledge=knowledge,
        joined=joined,
    )


def _find_plugin_engine(plan: EnginePlan, context: RunContext) -> Engine:
    check_for_spark(context.volumes, context.settings)
    if plan.frozen.names_batches:
        raise UsageError(
            "the manifest names batches, which are published as a whole; "
            f"--engine {context.settings.engine} publishes each file by itself: use --engine local"
        )
    return find_engine(context.settings.engine).make_engine(
        plan.frozen,
        context.volumes.roots[0],
        context.state,
        context.settings,
        origin=context.renewal.origin,
        clock=context.clock,
    )


def check_for_spark(volumes: Volumes, settings: Settings) -> None:
    """Raise UsageError unless there is one destination, and no file that only this machine has."""
    if settings.cookies is not None:
        raise ConfigError(
            f"cookies is a file of this machine, which executors do not see; with --engine "
            f"{settings.engine}, give the login as --bearer-env or --header, or use --engine local"
        )
    if len(volumes.roots) > 1:
        raise UsageError(
            f"--engine {settings.engine} downloads to one directory that all executors see, or to one object "
            "store; give one --to"
        )
