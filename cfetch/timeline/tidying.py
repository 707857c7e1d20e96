"""Tidies up after each run: completed instants that are old go to the archive, leftovers of crashes go away.

It watches no heartbeat, and rolls nothing back: ``clean.py`` does.
"""

import re
from collections.abc import Callable
from contextlib import ExitStack, suppress

import msgspec

from cfetch.base.records import NOT_DECODED
from cfetch.timeline.files import TimelineFiles
from cfetch.timeline.frozen_plans import PLANS, remove_frozen
from cfetch.timeline.heartbeat import HEARTBEATS
from cfetch.timeline.owner import OWNER_NAME, Owner
from cfetch.timeline.states import (
    Action,
    State,
    instant_wall_s,
    is_instant,
    is_temporary,
    parse,
)
from cfetch.timeline.table import Table, on_this_machine

ORPHAN_AGE_S = 86400.0  # no process takes a day from one file operation to the next, or from plan to timeline
LOST_AGE_S = 30 * 86400.0  # no run takes a month: the state directory that had marked the attempts is lost
_TAKEN_LOCK = re.compile(
    r"lock\.[^.]+(\.broken|\.room)?"
)  # as ``lock.py`` and ``full_disk_reserve.py`` name them
_EVERY_EPOCH = 10**18


def tidy_up(table: Table, keep_s: float) -> None:
    """Archive completed instants of age ``keep_s``, and remove what no instant needs; watch no heartbeat.

    Raises LocalFault.
    """
    with on_this_machine("cannot read the timeline"):
        entries = table.store.entries()
    if any(entry.state is State.COMPLETED and table.age_s(entry) >= keep_s for entry in entries):
        from cfetch.timeline.archive import archive  # most runs find no plan that is old enough

        archive(table, keep_s)
    with on_this_machine("cannot remove what dead runs have left"):
        with table.lock.hold() as now_s:
            pass
        _sweep(table, now_s)


def _sweep(table: Table, now_s: float) -> None:
    """Remove what no pending instant needs: attempts, heartbeats, frozen plans, temporary files of the dead.

    ``now_s`` is by the file system's clock, which also dates the files.
    """
    entries = {entry.instant: entry for entry in table.store.entries_twice()}
    unknown = table.store.unknown_instants()

    def is_over(instant: str) -> bool:
        if instant in unknown:
            return False  # a later version has it in a state that this one cannot judge
        entry = entries.get(instant)
        if entry is not None:
            return entry.state is State.COMPLETED
        if parse(f"{instant}.download.completed") is None:
            return False  # this is no instant's name, so it is not ours
        return table.node.wall() - instant_wall_s(instant) >= ORPHAN_AGE_S

    for home in filter(None, (table.files, table.scratch)):
        _sweep_frozen(table, home, is_over, now_s)
    files = table.files
    with table.read_once():
        beats = [
            name
            for name in files.names(HEARTBEATS)
            if name.endswith(".json") and is_over(name.removesuffix(".json"))
        ]
        old = [path for path in _temporary(table) if now_s - _modified_s(table, path, now_s) >= ORPHAN_AGE_S]
    files.unlink_all([*(f"{HEARTBEATS}/{name}" for name in beats), *old])
    with ExitStack() as each:  # last, and all of them: one of several volumes may refuse
        for instant in filter(is_over, table.attempts.instants()):
            marked_s = table.attempts.marked_s(instant)
            if instant in entries or marked_s is None or now_s - marked_s >= LOST_AGE_S:
                each.callback(table.attempts.end, instant, _EVERY_EPOCH)


def _sweep_frozen(table: Table, files: TimelineFiles, is_over: Callable[[str], bool], now_s: float) -> None:
    """Remove the frozen plans in ``files`` that no pending instant needs."""
    with table.read_once():
        # with a dot: only the run that was freezing it uses this directory
        directories = [name for name in files.names(PLANS) if is_instant(name.removeprefix("."))]
        dead = {each for each in directories if _is_signed_by_the_dead(table, files, each)}
    # a dead owner puts nothing on the timeline any more, so the entries are looked for after its death
    entries = table.store.entries_twice()
    scheduled = {entry.instant for entry in entries if entry.action is Action.DOWNLOAD}
    scheduled |= table.store.unknown_instants()
    completed = {entry.instant for entry in entries if entry.state is State.COMPLETED}
    for directory in directories:
        instant = directory.removeprefix(".")
        if (directory in dead and directory not in scheduled) or (
            is_over(instant) and (instant in completed or not _is_fresh(files, directory, now_s))
        ):
            remove_frozen(files, directory)


def _is_fresh(files: TimelineFiles, directory: str, now_s: float) -> bool:
    """Whether a frozen plan was signed within a day by the file system's clock.

    The instant's own time does not tell: the clock of this machine may be days ahead of its maker's.
    """
    with suppress(OSError):
        return now_s - files.modified_s(f"{PLANS}/{directory}/{OWNER_NAME}") < ORPHAN_AGE_S
    return False


def _is_signed_by_the_dead(table: Table, files: TimelineFiles, directory: str) -> bool:
    with suppress(OSError, *NOT_DECODED):
        owner = msgspec.json.decode(files.read(f"{PLANS}/{directory}/{OWNER_NAME}"), type=Owner)
        return table.node.is_gone(owner)
    return False


def _temporary(table: Table) -> list[str]:
    beats = [f"{HEARTBEATS}/{name}" for name in table.files.names(HEARTBEATS) if is_temporary(name)]
    locks = [name for name in table.files.names(".") if _TAKEN_LOCK.fullmatch(name)]
    return table.store.debris() + beats + locks


def _modified_s(table: Table, path: str, now_s: float) -> float:
    try:
        return table.files.modified_s(path)
    except FileNotFoundError:
        return now_s
