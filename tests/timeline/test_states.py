"""The tables of states, the names of files, and the rules: pure."""

import itertools
from typing import Any

import pytest

from cfetch.timeline.rules import Cleaning, InstantView, Start, may_start, to_clean
from cfetch.timeline.states import (
    Action,
    InstantFile,
    Kind,
    State,
    Transition,
    after,
    instant_wall_s,
    new_instant,
    parse,
)

INSTANT = "20270115T080000000Z-0201"
R, I, C, X = State.REQUESTED, State.INFLIGHT, State.COMPLETED, State.REMOVED  # noqa: E741

ALLOWED = {
    (Action.DOWNLOAD, Kind.IMMUTABLE): {
        (R, Transition.CLAIM): (R, 6), (R, Transition.WORK): (I, 5),
        (R, Transition.ABANDON): (X, 5), (I, Transition.CLAIM): (R, 6), (I, Transition.COMMIT): (C, 0),
    },
    (Action.DOWNLOAD, Kind.REMOVABLE): {
        (R, Transition.CLAIM): (R, 6), (R, Transition.WORK): (I, 5), (I, Transition.COMMIT): (C, 0),
        (R, Transition.CONDEMN): (I, 6), (I, Transition.CONDEMN): (I, 6), (I, Transition.REMOVE): (X, 5),
    },
    (Action.ROLLBACK, Kind.IMMUTABLE): {
        (R, Transition.CLAIM): (I, 6), (I, Transition.CLAIM): (I, 6),
        (I, Transition.COMMIT): (C, 0), (R, Transition.REMOVE): (X, 5),
    },
}  # fmt: skip


@pytest.mark.parametrize(("action", "kind"), ALLOWED)
def test_the_table_is_complete(action, kind):
    """K3: every pair of state and event leads where the table says, and all others are refused."""
    for state, event in itertools.product(State, Transition):
        entry = InstantFile(INSTANT, action, state, 5)
        if (state, event) in ALLOWED[action, kind]:
            expected = InstantFile(INSTANT, action, *ALLOWED[action, kind][state, event])
            assert after(entry, event, kind) == expected
        else:
            with pytest.raises(ValueError, match="cannot happen"):
                after(entry, event, kind)


def test_nothing_leaves_completed_and_no_immutable_plan_is_removed_but_by_a_person():
    """K3, K5: as laws of the table."""
    for (action, kind), steps in ALLOWED.items():
        assert all(state is not C for state, _ in steps)
        if (action, kind) == (Action.DOWNLOAD, Kind.IMMUTABLE):
            assert {event for (_, event), (to, _) in steps.items() if to is X} == {Transition.ABANDON}


def test_an_epoch_never_comes_again():
    """Along every path the epoch only grows, until the end: names of earlier epochs stay dead."""
    for (action, kind), steps in ALLOWED.items():
        for state, event in steps:
            done = after(InstantFile(INSTANT, action, state, 5), event, kind)
            assert done.state is C or done.epoch >= 5
            assert event not in {Transition.CLAIM, Transition.CONDEMN} or done.epoch == 6


@pytest.mark.parametrize(
    "entry",
    [
        InstantFile(INSTANT, action, state, epoch)
        for action in Action
        for state in (R, I, C)
        for epoch in (0, 1, 10**17)
    ],
)
def test_names_are_read_as_they_are_written(entry):
    """And say what the design says: instant, action, state; the epoch where there is one."""
    assert parse(entry.name) == entry
    if entry.epoch == 0:
        assert entry.name == f"{INSTANT}.{entry.action.value}.{entry.state.value}"


@pytest.mark.parametrize(
    "name",
    ["", ".x.tmp", "archive", f"{INSTANT}.download.removed", f"{INSTANT}.01.download.inflight",
     f"{INSTANT}.download.inflight.tmp", "2027.download.inflight", f"{INSTANT}.0.download.inflight",
     f"{INSTANT}.upload.inflight"],
)  # fmt: skip
def test_other_names_are_nobodys(name):
    """They are not touched and not shown."""
    assert parse(name) is None


def test_instants_sort_by_time():
    """Their names and their times agree to the millisecond."""
    times = [0.001, 1.5, 1_800_000_000.123, 1_800_000_000.124, 4_000_000_000.0]
    instants = [new_instant(time, "beef") for time in times]
    assert instants == sorted(instants)
    assert [instant_wall_s(one) for one in instants] == pytest.approx(times, abs=1e-6)
    assert instants[2] == "20270115T080000123Z-beef"


def a_view(**how):
    fixed: dict[str, Any] = {"action": Action.DOWNLOAD, "kind": Kind.REMOVABLE, "state": R, "is_live": False,
             "is_condemned": False, "age_s": 100.0}  # fmt: skip
    return InstantView(**fixed | how)


@pytest.mark.parametrize(
    ("how", "answer"),
    [
        ({"state": C, "is_live": True}, Start.COMPLETED),
        ({"is_live": True, "is_condemned": True}, Start.HELD),
        ({"is_condemned": True}, Start.ONLY_ROLLBACK),
        ({"state": I}, Start.ONLY_ROLLBACK),
        ({}, Start.YES),
        ({"kind": Kind.IMMUTABLE, "state": I, "is_condemned": True}, Start.YES),
        ({"kind": None}, Start.UNREADABLE),
    ],
)
def test_who_may_start(how, answer):
    """RFC-79, steps 3 and 4, after a look at completed."""
    assert may_start(a_view(**how)) is answer


@pytest.mark.parametrize(
    ("how", "answer"),
    [
        ({"state": C}, Cleaning.KEEP),
        ({"is_live": True}, Cleaning.KEEP),
        ({"kind": Kind.IMMUTABLE, "state": I}, Cleaning.KEEP),
        ({"is_condemned": True}, Cleaning.KEEP),
        ({"age_s": 99.9}, Cleaning.KEEP),
        ({"age_s": -600.0}, Cleaning.KEEP),
        ({}, Cleaning.ROLL_BACK),
        ({"state": I}, Cleaning.ROLL_BACK),
        ({"kind": None}, Cleaning.KEEP),
        ({"action": Action.ROLLBACK, "age_s": 0.0}, Cleaning.EXECUTE),
        ({"action": Action.ROLLBACK, "state": I, "age_s": 0.0}, Cleaning.EXECUTE),
        ({"action": Action.ROLLBACK, "is_live": True}, Cleaning.KEEP),
        ({"action": Action.ROLLBACK, "kind": Kind.IMMUTABLE}, Cleaning.KEEP),
        ({"action": Action.ROLLBACK, "kind": None}, Cleaning.DELETE),
        ({"action": Action.ROLLBACK, "kind": None, "state": I}, Cleaning.KEEP),
    ],
)
def test_what_clean_does(how, answer):
    """RFC-79, clean, and a reason for each."""
    what, why = to_clean(a_view(**how), 100.0)
    assert what is answer
    assert why
