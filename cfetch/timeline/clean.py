"""Cleans lazily, in RFC-79's two steps: it schedules rollbacks under the lock and executes them outside it.

Each rollback is scheduled in a transaction of its own, which looks at its target again: the lock is held for
a few file operations however many instants there are, and an executor that came first is seen. Every instant
is explained, kept or not. Afterwards ``tidying.py`` archives completed instants and removes the leftovers of
crashes.
"""

from contextlib import suppress
from typing import NamedTuple

from cfetch.base.errors import Held, NewerRecord
from cfetch.timeline.heartbeat import OwnerVerdict
from cfetch.timeline.rules import Cleaning, InstantView, to_clean
from cfetch.timeline.states import (
    Action,
    InstantFile,
    Kind,
    State,
    Transition,
)
from cfetch.timeline.table import POLL_S, Table, on_this_machine
from cfetch.timeline.tidying import tidy_up


class InstantFate(NamedTuple):
    """The fate of one instant (in a dry run: its future), with the reason, for people and for ``--json``."""

    entry: InstantFile
    kept: bool
    why: str


class _Seen(NamedTuple):
    entry: InstantFile
    view: InstantView
    verdict: OwnerVerdict


def clean(table: Table, *, delay_s: float, keep_s: float, dry_run: bool = False) -> list[InstantFate]:
    """Roll back removable plans, archive completed instants of age ``keep_s``; explain every instant.

    ``delay_s``: how old a removable plan must be. Heartbeats that look dead without proof are watched, for as
    long as they state. Raises LocalFault.
    """
    explained: list[InstantFate] = []
    for seen in _read_views(table, delay_s):
        entry, view, verdict = seen
        what, why = to_clean(view, delay_s)
        if view.is_live and verdict.beat is not None:
            why = f"{why}: {verdict.beat.owner.shown}"
        is_old = entry.state is State.COMPLETED and view.age_s >= keep_s
        if is_old:
            why = "completed, to the archive"
        explained.append(InstantFate(entry, what is Cleaning.KEEP and not is_old, why))
        if dry_run:
            continue
        if what is Cleaning.ROLL_BACK:
            from cfetch.timeline.rollback import condemn  # most tables have nothing to roll back

            try:
                rollback = condemn(table, entry.instant, delay_s=delay_s)
            except Held as held:
                explained[-1] = InstantFate(entry, True, f"it has been started since: {held}")
            else:
                if rollback is not None:  # at once: every pending rollback is read before the next one
                    _execute(table, rollback.instant)
        elif what is Cleaning.EXECUTE:
            _execute(table, entry.instant)
        elif what is Cleaning.DELETE:
            with on_this_machine("cannot remove a rollback"), suppress(FileNotFoundError):
                table.store.move(entry, Transition.REMOVE)
    if not dry_run:
        tidy_up(table, keep_s)
    return explained


def _execute(table: Table, rollback: str) -> None:
    from cfetch.timeline.rollback import execute  # the same

    with suppress(Held):  # another cleaner executes it
        execute(table, rollback)


def _read_views(table: Table, delay_s: float) -> list[_Seen]:
    """All instants with their views; waits until it is certain which owners are dead, if that matters."""
    while True:
        with on_this_machine("cannot read the timeline"), table.read_once():
            seen = _read_views_now(table)
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


def _read_views_now(table: Table) -> list[_Seen]:
    with table.hold_moment() as now_s:
        entries = table.store.entries()
    kinds: dict[InstantFile, Kind | None] = {}
    newer: set[InstantFile] = set()
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
        verdict, age_s = OwnerVerdict(False, False, True, None, None), table.age_s(entry)
        if entry.state is not State.COMPLETED:
            verdict = table.verdict(entry, now_s)
            try:
                age_s = table.pending_s(entry, now_s)
            except FileNotFoundError:
                continue
        view = InstantView(
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
