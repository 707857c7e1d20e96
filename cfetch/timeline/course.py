"""What other processes see of a plan that one of them executes."""

import enum
from contextlib import suppress

from cfetch.timeline.states import State
from cfetch.timeline.table import Table, find, on_this_machine


class Course(enum.Enum):
    """What has become of a run: it goes on, it has completed its plan, or it has ended without that."""

    RUNNING = "running"
    COMPLETED = "completed"
    ENDED = "ended"


def read_course(table: Table, instant: str, epoch: int) -> Course:
    """Look what has become of the execution of an epoch. Raises LocalFault."""
    with on_this_machine(f"cannot look at plan {instant}"):
        entry = find(table.store.entries(), instant) or table.store.entry(instant)
        if entry is None:
            return Course.ENDED
        if entry.state is State.COMPLETED:
            return Course.COMPLETED
        is_live = table.verdict(entry, table.node.wall()).is_live
    return Course.RUNNING if entry.epoch == epoch and is_live else Course.ENDED


def count_completed(table: Table, instant: str) -> int | None:
    """The files in place by the record of a completed plan; None: there is none. Raises LocalFault."""
    with on_this_machine(f"cannot look at plan {instant}"), suppress(FileNotFoundError):
        entry = table.store.entry(instant)
        record = None if entry is None else table.store.read_plan(entry)
        if record is not None and record.completion is not None:
            return record.completion.files
    return None


def find_epoch(table: Table, instant: str) -> int:
    """The present epoch of a plan; 0: it is not on the timeline. Raises LocalFault."""
    with on_this_machine(f"cannot look at plan {instant}"):
        entry = find(table.store.entries(), instant) or table.store.entry(instant)
    return 0 if entry is None else entry.epoch
