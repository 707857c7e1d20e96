"""RFC-79's rules about instants as functions of values. Pure.

The RFC's steps for an execution, with two corrections: *completed* is looked at before the heartbeat, and an
age of exactly the delay is old enough to clean.
"""

from enum import Enum
from typing import NamedTuple

from cfetch.timeline.states import Action, Kind, State


class InstantView(NamedTuple):
    """An instant as one transaction sees it. ``age_s`` is since it was scheduled."""

    action: Action
    kind: Kind | None  # None: the instant's record cannot be read
    state: State
    is_live: bool  # its heartbeat is active
    is_condemned: bool  # a pending rollback names it
    age_s: float
    is_newer: bool = False  # a newer version of cfetch has written the instant's record


class Start(Enum):
    """The answer to a process that wants to execute a download."""

    YES = "yes"
    COMPLETED = "completed"
    HELD = "held"
    ONLY_ROLLBACK = "only rollback"
    UNREADABLE = "unreadable"


def may_start(view: InstantView) -> Start:
    """Whether an executor may claim this download (RFC-79, execution, steps 3 and 4)."""
    if view.state is State.COMPLETED:
        return Start.COMPLETED
    if view.is_live:
        return Start.HELD
    if view.kind is None:
        return Start.UNREADABLE
    if view.kind is Kind.REMOVABLE and (view.state is State.INFLIGHT or view.is_condemned):
        return Start.ONLY_ROLLBACK
    return Start.YES


class Cleaning(Enum):
    """The things that clean may do with an instant."""

    KEEP = "keep"
    ROLL_BACK = "roll back"  # schedule a rollback of it, then execute that
    EXECUTE = "execute"  # it is a pending rollback
    DELETE = "delete"  # it is a rollback that cannot be read and was never begun


def to_clean(view: InstantView, delay_s: float) -> tuple[Cleaning, str]:
    """Decide what clean does with an instant; the reason is for a person (RFC-79, clean)."""
    if view.state is State.COMPLETED:
        return Cleaning.KEEP, "completed, and not old enough for the archive"
    if view.is_newer:
        return Cleaning.KEEP, "a newer version of cfetch has written its record; clean with that version"
    if view.action is Action.ROLLBACK:
        return _rollback(view)
    if view.is_live:
        return Cleaning.KEEP, "its owner is alive"
    if view.kind is None:
        return Cleaning.KEEP, "its record cannot be read; look at the file, and remove it by hand"
    if view.kind is Kind.IMMUTABLE:
        return Cleaning.KEEP, "immutable: it waits until a run completes it"
    if view.is_condemned:
        return Cleaning.KEEP, "a rollback of it is pending already"
    if view.age_s < delay_s:
        return Cleaning.KEEP, f"younger than the rollback delay ({view.age_s:.0f} s of {delay_s:.0f} s)"
    what = "its only attempt has died" if view.state is State.INFLIGHT else "nobody has run it"
    return Cleaning.ROLL_BACK, f"removable, {view.age_s:.0f} s old, and {what}"


def _rollback(view: InstantView) -> tuple[Cleaning, str]:
    if view.is_live:
        return Cleaning.KEEP, "somebody executes it now"
    if view.kind is None and view.state is State.REQUESTED:
        return Cleaning.DELETE, "its record cannot be read, and nothing was done for it yet"
    if view.kind is None:
        return Cleaning.KEEP, "its record cannot be read; look at the file, and remove it by hand"
    if view.kind is Kind.IMMUTABLE:
        return Cleaning.KEEP, "the next run of its target finishes it, and keeps what can be kept"
    return Cleaning.EXECUTE, "pending"
