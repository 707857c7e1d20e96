"""What stands on the timeline, for people and for ``--json``: reads only, takes no lock."""

from contextlib import suppress
from typing import NamedTuple

from cfetch.timeline.heartbeat import look
from cfetch.timeline.owner import Owner
from cfetch.timeline.records import PlanRecord, RollbackRecord
from cfetch.timeline.states import Action, Entry, State
from cfetch.timeline.table import Table, on_this_machine

__all__ = ["Listed", "listing"]


class Listed(NamedTuple):
    """An instant. ``owner`` has, had or completed it; ``epoch`` is 0 if nobody ever did.

    ``record`` is None if it cannot be read. ``heartbeat_age_s`` compares the file's date with this machine's
    clock, and is None where there is no heartbeat.
    """

    entry: Entry
    record: PlanRecord | RollbackRecord | None
    owner: Owner | None
    epoch: int
    heartbeat_age_s: float | None


def listing(table: Table) -> list[Listed]:
    """All instants, oldest first, without the archived ones. Raises LocalFault."""
    found = []
    with on_this_machine("cannot read the timeline"):
        for entry in table.store.entries():
            with suppress(FileNotFoundError):  # it moves on just now: the next listing shows it
                found.append(_listed(table, entry))
    return found


def _listed(table: Table, entry: Entry) -> Listed:
    record: PlanRecord | RollbackRecord | None
    if entry.action is Action.DOWNLOAD:
        record = table.store.read_plan(entry)
    else:
        record = table.store.read_rollback(entry)
    if entry.state is State.COMPLETED:
        completion = record.completion if record is not None else None
        if completion is None:
            return Listed(entry, record, None, 0, None)
        return Listed(entry, record, completion.owner, completion.epoch, None)
    beat, age_s = look(table.files, entry.instant, table.node.wall())
    return Listed(entry, record, beat.owner if beat is not None else None, entry.epoch, age_s)
