"""Rollbacks: an instant that names its target, scheduled under the lock and executed outside it.

The run that takes over an immutable plan rolls its dead attempts back, under the plan's own heartbeat, and
keeps the parts that it can use (``finish``). Any process may roll back a removable plan (``execute``), under
the rollback's heartbeat; the plan is removed too. Neither touches published files. An unfinished rollback is
continued, never scheduled twice; a rollback whose target is completed or gone does nothing.
"""

from contextlib import suppress

import msgspec

from cfetch.timeline.attempts import Salvage
from cfetch.timeline.frozen_plans import remove_frozen
from cfetch.timeline.heartbeat import HEARTBEATS
from cfetch.timeline.records import RollbackRecord
from cfetch.timeline.states import Action, InstantFile, Kind, State, Transition
from cfetch.timeline.table import Table, find, on_this_machine, when_free


def schedule_rollback(table: Table, target: str, kind: Kind) -> tuple[InstantFile, RollbackRecord]:
    """Put a rollback on the timeline; the caller holds the lock. Raises OSError."""
    record = RollbackRecord(target=target, kind=kind)
    entry = InstantFile(table.new_instant(), Action.ROLLBACK, State.REQUESTED)
    table.store.put(entry, record)
    return entry, record


def condemn(table: Table, target: str, *, delay_s: float | None = None) -> InstantFile | None:
    """Schedule the rollback of a removable plan that no run executes; returns a pending one if there is one.

    None: there is nothing to roll back, or it is younger than ``delay_s``. Raises Held, LocalFault.
    """

    def ask() -> InstantFile | None:
        what = f"cannot roll back plan {target}"
        with on_this_machine(what), table.lock.hold() as now_s, table.read_once():
            entries = table.store.entries()
            entry = find(entries, target)
            if entry is None or entry.state is State.COMPLETED:
                return None
            verdict = table.verdict(entry, now_s)
            if verdict.is_live:
                raise table.make_held_error(target, verdict)
            pending = table.rollbacks_of(target, entries)
            if pending:
                return pending[0][0]
            plan = table.store.read_plan(entry)
            too_young = delay_s is not None and table.pending_s(entry, now_s) < delay_s
            if plan is None or plan.kind is Kind.IMMUTABLE or too_young:
                return None
            return schedule_rollback(table, target, plan.kind)[0]

    return when_free(table, ask)


def execute(table: Table, rollback: str) -> bool:
    """Bring a rollback of a removable plan to its end; False: another process has done it, or does it.

    Raises Held if a live process executes it, LocalFault.
    """

    def claim() -> tuple[InstantFile, RollbackRecord] | None:
        what = f"cannot begin rollback {rollback}"
        with on_this_machine(what), table.lock.hold() as now_s, table.read_once():
            entry = find(table.store.entries(), rollback, Action.ROLLBACK)
            if entry is None or entry.state is State.COMPLETED:
                return None
            verdict = table.verdict(entry, now_s)
            if verdict.is_live:
                raise table.make_held_error(rollback, verdict)
            record = table.store.read_rollback(entry)
            if record is None or record.kind is Kind.IMMUTABLE:
                return None
            return table.store.move(entry, Transition.CLAIM), record

    claimed = when_free(table, claim)
    if claimed is None:
        return False
    entry, record = claimed
    with on_this_machine(f"cannot roll back plan {record.target}"):
        pulse = table.first_beat(entry)
        # A lost pulse ends nothing, as all steps may be done twice.
        beating = table.keep_beating(pulse, lambda _: None)
        try:
            _undo(table, record.target)
            _complete(table, entry, record)
        except FileNotFoundError:
            return False  # another cleaner has taken it over
        finally:
            beating.stop()
            pulse.remove()
    return True


def _undo(table: Table, target: str) -> None:
    """Take a removable plan from its holder, if any, then remove its attempts and the plan."""
    while True:
        entry = find(table.store.entries(), target)
        if entry is None or entry.state is State.COMPLETED:
            return
        with suppress(FileNotFoundError):  # its state has just changed: look again
            entry = table.store.move(entry, Transition.CONDEMN, Kind.REMOVABLE)
            table.attempts.end(target, entry.epoch)
            with suppress(FileNotFoundError):
                table.files.unlink(f"{HEARTBEATS}/{target}.json")
            remove_frozen(table.files, target)
            table.store.move(entry, Transition.REMOVE, Kind.REMOVABLE)


def finish(
    table: Table,
    rollback: tuple[InstantFile, RollbackRecord],
    *,
    below: int,
    salvage: Salvage | None,
    gone_epoch: int | None,
    needs_all: bool,
) -> None:
    """Bring a rollback of an immutable plan to its end; the caller is the plan's owner in epoch ``below``.

    ``needs_all`` as in ``Attempts.roll_back``; what a volume keeps then is found there by a later run.
    """
    entry, record = rollback
    table.attempts.roll_back(
        record.target, below, salvage=salvage, gone_epoch=gone_epoch, needs_all=needs_all
    )
    with on_this_machine(f"cannot complete rollback {entry.instant}"):
        while True:
            with suppress(FileNotFoundError):  # a stopped owner woke up and moved the rollback
                if entry.state is State.REQUESTED:
                    entry = table.store.move(entry, Transition.CLAIM)
                _complete(table, entry, record)
                return
            again = find(table.store.entries(), entry.instant, Action.ROLLBACK)
            if again is None or again.state is State.COMPLETED:
                return
            entry = again


def _complete(table: Table, entry: InstantFile, record: RollbackRecord) -> None:
    completion = table.completion(entry.epoch)
    done = table.store.move(entry, Transition.COMMIT)
    table.store.enrich(done, msgspec.structs.replace(record, completion=completion))
