"""The timeline for people and scripts: which plans are on it, and how to tidy it up; no download here."""

import os
from collections.abc import Callable, Collection
from contextlib import suppress

from cfetch.base.config.settings import Settings
from cfetch.base.errors import NewerRecord, UsageError
from cfetch.run.directories import find_destinations, find_timeline
from cfetch.run.volumes import OBJECTS
from cfetch.show.plan_view import Cleaned, CleanedInstant, ListedPlan, Plans
from cfetch.storage.buckets.object_uploads import abort_dead_uploads
from cfetch.timeline.archive import archive, read_archive
from cfetch.timeline.clean import clean
from cfetch.timeline.execution import roll_back
from cfetch.timeline.frozen_plans import forget_frozen
from cfetch.timeline.opening import open_existing, open_to_read
from cfetch.timeline.owner import Owner
from cfetch.timeline.records import PlanRecord, RollbackRecord
from cfetch.timeline.states import Action, InstantFile, State
from cfetch.timeline.table import Table, find, ignore_note, on_this_machine


def list_plans(settings: Settings, *, also_archived: bool = False) -> Plans:
    """List the plans and rollbacks on the timeline, and with ``also_archived`` those in its archive."""
    with open_to_read(*find_timeline(settings)) as table:
        plans = (
            [_describe_completed(entry, record) for entry, record in read_archive(table)]
            if also_archived
            else []
        )
        with on_this_machine("cannot read the timeline"), table.hold_moment() as now_s:
            entries = table.store.entries_twice()
        seen = {(plan.instant, plan.action) for plan in plans}
        for entry in entries:
            if (entry.instant, entry.action.value) not in seen:
                with (
                    on_this_machine("cannot read the timeline"),
                    suppress(FileNotFoundError),
                ):  # state may change
                    plans.append(_describe_plan(table, entry, now_s))
    return Plans(plans=sorted(plans, key=lambda plan: (plan.instant, plan.action)))


def show_plan(settings: Settings, instant: str) -> Plans:
    """One plan with the rollbacks that name it. Raises UsageError if there is none."""
    plans = [
        plan
        for plan in list_plans(settings, also_archived=True).plans
        if instant in (plan.instant, plan.target)
    ]
    if not plans:
        raise UsageError(f"there is no plan {instant} here; `cfetch plan list` shows what there is")
    return Plans(plans=plans)


def roll_back_plan(
    settings: Settings, instant: str, *, remove: bool, note: Callable[[str], None] = ignore_note
) -> None:
    """Roll back dead runs of a plan, and with ``remove`` the plan. Raises Held, UsageError, LocalFault."""
    with open_existing(*find_timeline(settings), note=note) as table:
        roll_back(table, instant, remove=remove)
        if find(table.store.entries(), instant) is None:
            with on_this_machine("cannot remove the frozen plan"):  # it holds signed links
                forget_frozen(table, find_destinations(settings).state, instant)


def archive_plans(settings: Settings, instants: Collection[str]) -> None:
    """Move completed plans from the timeline to its archive. Raises LocalFault."""
    with open_existing(*find_timeline(settings)) as table:
        archive(table, 0.0, only=frozenset(instants))


def clean_plans(
    settings: Settings,
    *,
    rollback_delay_s: float,
    keep_s: float,
    dry_run: bool,
    note: Callable[[str], None] = ignore_note,
) -> Cleaned:
    """Roll back plans whose run died, archive old plans; give a reason for every instant.

    Uploads to object stores that killed runs have left open are aborted too.
    """
    place = find_timeline(settings)
    with open_to_read(*place) if dry_run else open_existing(*place, note=note) as table:
        verdicts = clean(table, delay_s=rollback_delay_s, keep_s=keep_s, dry_run=dry_run)
    if not dry_run:
        abort_dead_uploads(find_destinations(settings).state / OBJECTS, os.environ)
    instants = [
        CleanedInstant(
            instant=entry.instant, action=entry.action.value, state=entry.state.value, kept=kept, why=why
        )
        for entry, kept, why in verdicts
    ]
    return Cleaned(dry_run=dry_run, instants=instants)


def _describe_plan(table: Table, entry: InstantFile, now_s: float) -> ListedPlan:
    record: PlanRecord | RollbackRecord | None = None
    with suppress(NewerRecord):  # it is listed with as much as its name tells
        is_plan = entry.action is Action.DOWNLOAD
        record = table.store.read_plan(entry) if is_plan else table.store.read_rollback(entry)
    if entry.state is State.COMPLETED:
        return _describe_completed(entry, record)
    verdict = table.verdict(entry, now_s)
    beat, age_s = verdict.beat, verdict.age_s
    live = None if verdict.is_live and not verdict.is_certain else verdict.is_live
    released = beat is not None and beat.is_released and not verdict.is_live
    owner = None if beat is None else beat.owner
    return _compose_row(entry, record, owner, entry.epoch, live=live, released=released, age_s=age_s)


def _describe_completed(entry: InstantFile, record: PlanRecord | RollbackRecord | None) -> ListedPlan:
    done = None if record is None else record.completion
    if done is None:
        return _compose_row(entry, record, None, 0, live=False, age_s=None)
    return _compose_row(entry, record, done.owner, done.epoch, live=False, age_s=None)


def _compose_row(
    entry: InstantFile,
    record: PlanRecord | RollbackRecord | None,
    owner: Owner | None,
    epoch: int,
    *,
    live: bool | None,
    age_s: float | None,
    released: bool = False,
) -> ListedPlan:
    plan = record if isinstance(record, PlanRecord) else None
    rollback = record if isinstance(record, RollbackRecord) else None
    return ListedPlan(
        instant=entry.instant,
        action=entry.action.value,
        kind=None if record is None else record.kind.value,
        state=entry.state.value,
        owner=None if owner is None else owner.shown,
        live=live,
        released=released,
        epoch=epoch,
        heartbeat_age_s=None if age_s is None else round(age_s, 3),
        files=None if plan is None else plan.files,
        bytes=None if plan is None else plan.bytes,
        manifest=None if plan is None else plan.manifest,
        destinations=() if plan is None else plan.destinations,
        target=None if rollback is None else rollback.target,
    )
