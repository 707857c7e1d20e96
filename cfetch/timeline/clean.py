"""Cleans lazily, in RFC-79's two steps: it schedules rollbacks under the lock and executes them outside it.

Each rollback is scheduled in a transaction of its own, which looks at its target again: the lock is held for
a few file operations however many instants there are, and an executor that came first is seen. Every instant
is explained, kept or not. Afterwards completed instants go to the archive, and the leftovers of crashes are
removed.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from cfetch.base.errors import Held, NewerRecord
from cfetch.base.records import NOT_DECODED
from cfetch.timeline.files import Files
from cfetch.timeline.frozen_plans import PLANS, remove_frozen
from cfetch.timeline.heartbeat import HEARTBEATS, Verdict
from cfetch.timeline.owner import OWNER_NAME, Owner
from cfetch.timeline.rules import Cleaning, View, to_clean
from cfetch.timeline.states import (
    Action,
    Entry,
    Event,
    Kind,
    State,
    instant_wall_s,
    is_instant,
    is_temporary,
    parse,
)
from cfetch.timeline.table import POLL_S, Table, on_this_machine

ORPHAN_AGE_S = 86400.0  # no process takes a day from one file operation to the next, or from plan to timeline
LOST_AGE_S = 30 * 86400.0  # no run takes a month: the state directory that had marked the attempts is lost
_TAKEN_LOCK = re.compile(
    r"lock\.[^.]+(\.broken|\.room)?"
)  # as ``lock.py`` and ``full_disk_reserve.py`` name them
_EVERY_EPOCH = 10**18


class Explained(NamedTuple):
    """The fate of one instant (in a dry run: its future), with the reason, for people and for ``--json``."""

    entry: Entry
    kept: bool
    why: str


class _Seen(NamedTuple):
    entry: Entry
    view: View
    verdict: Verdict


def clean(table: Table, *, delay_s: float, keep_s: float, dry_run: bool = False) -> list[Explained]:
    """Roll back removable plans, archive completed instants of age ``keep_s``; explain every instant.

    ``delay_s``: how old a removable plan must be. Heartbeats that look dead without proof are watched, for as
    long as they state. Raises LocalFault.
    """
    explained: list[Explained] = []
    for seen in _look(table, delay_s):
        entry, view, verdict = seen
        what, why = to_clean(view, delay_s)
        if view.is_live and verdict.beat is not None:
            why = f"{why}: {verdict.beat.owner.shown}"
        is_old = entry.state is State.COMPLETED and view.age_s >= keep_s
        if is_old:
            why = "completed, to the archive"
        explained.append(Explained(entry, what is Cleaning.KEEP and not is_old, why))
        if dry_run:
            continue
        if what is Cleaning.ROLL_BACK:
            from cfetch.timeline.rollback import condemn  # most tables have nothing to roll back

            try:
                rollback = condemn(table, entry.instant, delay_s=delay_s)
            except Held as held:
                explained[-1] = Explained(entry, True, f"it has been started since: {held}")
            else:
                if rollback is not None:  # at once: every pending rollback is read before the next one
                    _execute(table, rollback.instant)
        elif what is Cleaning.EXECUTE:
            _execute(table, entry.instant)
        elif what is Cleaning.DELETE:
            with on_this_machine("cannot remove a rollback"), suppress(FileNotFoundError):
                table.store.move(entry, Event.REMOVE)
    if not dry_run:
        tidy_up(table, keep_s)
    return explained


def _execute(table: Table, rollback: str) -> None:
    from cfetch.timeline.rollback import execute  # the same

    with suppress(Held):  # another cleaner executes it
        execute(table, rollback)


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


def _look(table: Table, delay_s: float) -> list[_Seen]:
    """All instants with their views; waits until it is certain which owners are dead, if that matters."""
    while True:
        with on_this_machine("cannot read the timeline"), table.look_once():
            seen = _look_once(table)
        undecided = [
            instant
            for instant in seen
            if instant.view.is_live
            and not instant.verdict.is_certain
            and to_clean(instant.view._replace(is_live=False), delay_s)[0] is not Cleaning.KEEP
        ]
        if not undecided:
            return seen
        table.pause(POLL_S)


def _look_once(table: Table) -> list[_Seen]:
    with table.look() as now_s:
        entries = table.store.entries()
    kinds: dict[Entry, Kind | None] = {}
    newer: set[Entry] = set()
    condemned: set[str] = set()
    for entry in entries:
        with suppress(FileNotFoundError):  # an instant that changes while we look is not ours to clean
            try:
                if entry.state is State.COMPLETED:
                    kinds[entry] = None
                elif entry.action is Action.DOWNLOAD:
                    plan = table.store.read_plan(entry)
                    kinds[entry] = plan.kind if plan is not None else None
                else:
                    rollback = table.store.read_rollback(entry)
                    kinds[entry] = rollback.kind if rollback is not None else None
                    condemned |= {rollback.target} if rollback is not None else set()
            except NewerRecord:
                kinds[entry] = None
                newer.add(entry)
    seen = []
    for entry, kind in kinds.items():
        verdict, age_s = Verdict(False, False, True, None, None), table.age_s(entry)
        if entry.state is not State.COMPLETED:
            verdict = table.verdict(entry, now_s)
            try:
                age_s = table.pending_s(entry, now_s)
            except FileNotFoundError:
                continue
        view = View(
            entry.action,
            kind,
            entry.state,
            verdict.is_live,
            entry.instant in condemned,
            age_s,
            is_newer=entry in newer,
        )
        seen.append(_Seen(entry, view, verdict))
    return seen


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

    for instant in filter(is_over, table.attempts.instants()):
        marked_s = table.attempts.marked_s(instant)
        if instant in entries or marked_s is None or now_s - marked_s >= LOST_AGE_S:
            table.attempts.end(instant, _EVERY_EPOCH)
    for home in filter(None, (table.files, table.scratch)):
        _sweep_frozen(table, home, is_over, now_s)
    files = table.files
    with table.look_once():
        beats = [
            name
            for name in files.names(HEARTBEATS)
            if name.endswith(".json") and is_over(name.removesuffix(".json"))
        ]
        old = [path for path in _temporary(table) if now_s - _modified_s(table, path, now_s) >= ORPHAN_AGE_S]
    files.unlink_all([*(f"{HEARTBEATS}/{name}" for name in beats), *old])


def _sweep_frozen(table: Table, files: Files, is_over: Callable[[str], bool], now_s: float) -> None:
    """Remove the frozen plans in ``files`` that no pending instant needs."""
    with table.look_once():
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


def _is_fresh(files: Files, directory: str, now_s: float) -> bool:
    """Whether a frozen plan was signed within a day by the file system's clock.

    The instant's own time does not tell: the clock of this machine may be days ahead of its maker's.
    """
    with suppress(OSError):
        return now_s - files.modified_s(f"{PLANS}/{directory}/{OWNER_NAME}") < ORPHAN_AGE_S
    return False


def _is_signed_by_the_dead(table: Table, files: Files, directory: str) -> bool:
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
