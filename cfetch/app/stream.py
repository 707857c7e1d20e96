"""Brings the files of a plan into memory, for a reader who takes them in order or as they come.

The plan is prepared as any other, in a directory of its own that goes with the run. So manifests, links,
logins and names mean the same; only what keeps files, a destination and its timeline, is left out.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cfetch.app.engine_plan import LOCAL, EnginePlan, RunContext
from cfetch.base.config.settings import Settings
from cfetch.base.config.units import size_text
from cfetch.base.errors import ConfigError, ManifestError, Problem, UsageError
from cfetch.base.events import MEMORY
from cfetch.base.secret import printable
from cfetch.manifest.plan import Plan
from cfetch.run.stream_run import Outbox, StreamEngine, StreamGuard
from cfetch.storage.files import local_fault

LEAST_BYTES = 1 << 20  # of memory: some 16 downloads with a buffer of 64 KiB each


@contextmanager
def open_plan_place(settings: Settings) -> Iterator[Settings]:
    """Settings whose destination is a temporary directory, for the plan alone. Raises LocalFault."""
    try:
        place = tempfile.TemporaryDirectory(prefix="cfetch-", ignore_cleanup_errors=True)
    except OSError as error:
        raise local_fault(error, "cannot keep the plan in a temporary directory") from None
    with place as name:
        yield replace(settings, to=(name,), state=None, mounted=False, group=False)


def _check_for_stream(plan: EnginePlan, settings: Settings, most_bytes: int) -> Plan:
    """Return the plan, if its files can be streamed.

    Raises:
        UsageError: one of them is larger than ``most_bytes``, or is to be joined from pieces; or another
            engine is wanted.
    """
    if settings.engine != LOCAL or plan.here is None:
        raise ConfigError(f"engine is {settings.engine}, and files are streamed from this machine only")
    if most_bytes < LEAST_BYTES:
        raise UsageError(
            f"memory leaves {size_text(most_bytes)} for files under way, and {size_text(LEAST_BYTES)} is the "
            "least; give more"
        )
    frozen, largest = plan.here, max(plan.here.sizes, default=0)
    if largest > most_bytes:
        name = frozen.entry(frozen.sizes.index(largest)).path
        raise UsageError(
            f"{printable(name)} has {largest:,} bytes, and memory leaves {most_bytes:,} for files under way; "
            "give more memory, or download to a directory"
        )
    if frozen.names_batches:
        piece = next((entry for entry in frozen.entries() if entry.piece is not None), None)
        if piece is not None:
            problem = f"{printable(piece.path)} is joined from pieces, which needs a directory"
            raise ManifestError(frozen.source, (Problem(piece.line, problem),), 1)
    return frozen


def make_stream_engine(
    plan: EnginePlan, context: RunContext, outbox: Outbox, most_bytes: int
) -> tuple[StreamEngine, str]:
    """Make the engine that brings ``plan`` into ``outbox``, and name where the files go.

    Raises UsageError: a file is larger than ``most_bytes``, or cannot be streamed.
    """
    settings, renewal, clock = context.settings, context.renewal, context.clock
    limit = most_bytes if settings.max_file_size is None else min(most_bytes, settings.max_file_size)
    engine = StreamEngine(
        _check_for_stream(plan, settings, most_bytes),
        context.volumes,
        replace(settings, max_file_size=limit),
        outbox,
        most_bytes,
        network=context.network,
        refresher=lambda transport: renewal.refresher(settings.refresh_command, transport, clock),
    )
    return engine, MEMORY


def make_stream_guard(instant: str) -> StreamGuard:
    """Make the guard of a stream: no other run can have its plan."""
    return StreamGuard(instant)
