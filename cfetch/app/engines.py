"""Chooses the engine that brings a plan: a pool in this process, several processes, or a job on Spark."""

import os
from contextlib import suppress
from pathlib import Path

from cfetch.app.engine_plan import LOCAL, EnginePlan, RunContext
from cfetch.app.process_count import Work, choose_processes
from cfetch.base.errors import ConfigError
from cfetch.base.events import STARTING
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Engine
from cfetch.run.volumes import Volumes
from cfetch.straggler.knowledge import Knowledge

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # a container's quota
SAMPLE = 256  # files that are looked for: some 5 ms


def choose_engine(plan: EnginePlan, context: RunContext, knowledge: Knowledge) -> tuple[Engine, str | None]:
    """Make the engine that the settings ask for; with a note for the user if it differs from them.

    Raises:
        UsageError: with these settings, no engine can bring this plan.
    """
    if context.settings.engine != LOCAL:
        from cfetch.app.task_engines import make_plugin_engine  # one process needs none of these

        return make_plugin_engine(plan, context), f"{STARTING}{context.settings.engine.capitalize()}"
    if plan.here is None:
        raise ConfigError("engine is local, and Spark has prepared the plan: give --engine spark")
    processes, note = count_processes(plan.here, context)
    if processes > 1:
        from cfetch.app.task_engines import make_processes_engine  # the same

        return make_processes_engine(plan.here, context, knowledge, processes), note
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


def count_processes(plan: Plan, context: RunContext) -> tuple[int, str | None]:
    """Return the number of processes, and a note if the settings ask for more."""
    settings, volumes = context.settings, context.volumes
    why = None
    if volumes.stores or not volumes.local:
        why = "files go to directories"
    elif context.network.stays_here:
        why = "no session of a program's own makes the requests"
    if why is not None:
        asked = settings.processes or 1
        note = f"one process and not {asked}: several share the work only where {why}"
        return 1, note if asked > 1 else None
    if settings.processes is None and len(volumes.roots) > 1:
        return 1, None  # a process has one volume at a time, which pays only where processors are short
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


def count_cores() -> int:
    """Count them: no more than its affinity and its container's quota permit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota_us, period_us = map(int, _QUOTA.read_text("ascii").split())  # "max" is no number
        cores = min(cores, quota_us // period_us)
    return max(1, cores)
