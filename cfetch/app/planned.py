"""Prepares a plan that is on the timeline already, and lists those that wait."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cfetch.app.download import fit_descriptors, make_prepared, open_volumes, prove_destinations
from cfetch.app.engine_plan import load_frozen
from cfetch.app.plan_on_timeline import ORIGIN_NAME, read_origin
from cfetch.app.prepared import Prepared
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.run.directories import (
    find_destinations,
    find_timeline,
    is_shared,
    make_own_directory,
)
from cfetch.run.header_hosts import aim_repository_token
from cfetch.timeline.opening import open_to_read
from cfetch.timeline.states import Action, InstantFile, State
from cfetch.timeline.table import Table, existing, on_this_machine


@contextmanager
def prepare_planned(
    instant: str, settings: Settings, *, env: Mapping[str, str], clock: Clock | None = None
) -> Iterator[Prepared | None]:
    """Prepare a plan that is on the destination's timeline already; None if it is completed.

    Raises:
        UsageError: there is no such plan, or it is for another destination.
        LocalFault: its frozen manifest cannot be read, or as ``prepare``.
    """
    clock = clock or SystemClock()
    destinations = prove_destinations(settings)
    with ExitStack() as stack:
        directory = destinations.state / "plans" / instant
        if destinations.bucket is not None:  # a copy of this process's own
            directory = make_own_directory(stack, destinations.state, f"{instant}.{secrets.token_hex(8)}")
        with open_to_read(*find_timeline(settings)) as table:
            entry = existing(table, table.store.entries(), instant)
            if entry.state is State.COMPLETED:
                yield None
                return
            there = _elsewhere(settings, table, entry)
            if there:
                raise UsageError(f"plan {instant} is for {there}; give that as --to")
            if table.bucket is not None and not _bring_frozen(table, instant, directory):
                yield None
                return
        settings = fit_descriptors(settings, len(destinations.roots))
        plan = load_frozen(stack, directory)
        origin = read_origin(directory / ORIGIN_NAME)
        settings = aim_repository_token(settings, [origin.manifest], env)
        volumes = open_volumes(stack, settings)
        yield make_prepared(stack, instant, plan, volumes, settings, env, clock, origin, is_scheduled=True)


def _bring_frozen(table: Table, instant: str, directory: Path) -> bool:
    """Copy a plan's manifest to a directory of this process; False: another run has completed the plan.

    Raises UsageError: it is on the timeline no more, LocalFault.
    """
    assert table.bucket is not None
    with on_this_machine(f"cannot copy plan {instant} to {directory}"):
        with suppress(FileNotFoundError):
            table.bucket.get_directory(f"plans/{instant}", directory)
            return True
        # whoever ends a plan removes its manifest afterwards, so the timeline knows it by now
        entry = existing(table, table.store.entries(), instant)
    if entry.state is State.COMPLETED:
        return False
    raise LocalFault(
        f"the manifest of plan {instant} is missing; if nobody rolls the plan back just now, `cfetch plan "
        f"rollback {instant} --remove` removes it, then give the download again"
    )


def pending(settings: Settings, note: Callable[[str], None] = lambda _: None) -> list[str]:
    """The plans of this destination that wait for a run, oldest first; ``note`` gets where the others go.

    Raises UsageError, LocalFault.
    """
    prove_destinations(settings)
    instants = []
    with open_to_read(*find_timeline(settings)) as table:
        for entry in table.store.entries_twice():
            if entry.action is not Action.DOWNLOAD or entry.state is State.COMPLETED:
                continue
            if there := _elsewhere(settings, table, entry):
                note(f"plan {entry.instant} is for {there}, so it is not run here; give that as --to")
            else:
                instants.append(entry.instant)
    return instants


def _elsewhere(settings: Settings, table: Table, entry: InstantFile) -> str:
    """Name the destination of another run's plan on a shared timeline.

    A timeline moves with its destination.
    """
    with suppress(FileNotFoundError):  # the plan has changed its state, so another run has it
        record = table.store.read_plan(entry)
        if record is None or not (is_shared(settings) or " " in record.fingerprint):
            return ""
        if sorted(record.destinations) != sorted(map(str, find_destinations(settings).roots)):
            return printable(", ".join(record.destinations), 1000)
    return ""
