"""A policy that fails costs a run its mitigation, and no file."""

from importlib.metadata import EntryPoint

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import UsageError
from cfetch.base.events import Event, RunNoted
from cfetch.engine.policies import guard_policy, make_policy
from cfetch.straggler.adaptive import Adaptive
from cfetch.straggler.base_policy import BasePolicy
from cfetch.straggler.check import Check, Flagged
from cfetch.straggler.policy import Policy
from tests.engine.drive import drive
from tests.engine.fake import Reply

MEMBERS = sorted(name for name in vars(Policy) if not name.startswith("_") and name != "tick_s")
SCRIPTS = {f"{n}.bin": Reply(b"x" * 5000, latency_s=0.2) for n in range(12)}


def fail(*_, **__):
    """Stands in for a member of a policy."""
    raise ZeroDivisionError("secret")


@pytest.mark.parametrize("name", [name for name in MEMBERS if name in vars(Adaptive)])
def test_an_error_in_any_member_of_a_policy_leaves_the_run_whole(name, tmp_path, monkeypatch):
    """All files come; a member that this run asks gives one note, which tells the place and not the text."""
    is_value = not callable(getattr(Adaptive, name))
    monkeypatch.setattr(Adaptive, name, property(fail) if is_value else fail)
    outcome = drive(tmp_path, SCRIPTS, concurrency=4)
    assert outcome.statuses == ["done"] * 12
    notes = [event.note for event in outcome.of(RunNoted)]
    if name in {
        "check",
        "note_start",
        "note_finish",
        "expected_s",
        "seconds",
        "sequential",
        "total_finished",
    }:
        assert len(notes) == 1
    for note in notes:
        assert note.startswith(
            "a bug in cfetch: the policy adaptive failed with ZeroDivisionError at test_guarded.py:"
        )
        assert note.endswith("; mitigation is off for the rest of this run")


class Blind(BasePolicy):
    """Flags an attempt that does not exist."""

    def check(self, now_s, attempts=()):
        flagged = (Flagged(id=77, elapsed_s=1.0, expected_s=0.5),)
        return Check(
            stragglers=flagged, median_bps=None, finished=0, required=0, active=0, fell_back=False, gap_s=0.0
        )


def test_a_policy_that_flags_nobody_we_know_is_switched_off():
    """What a policy answers is checked where it is asked: later it would look like a fault of the engine."""
    events: list[Event] = []
    policy = guard_policy(Blind(tick_s=0.5), "blind", events.append)
    check = policy.check(3.0)
    assert (check.stragglers, policy.tick_s) == ((), 0.5)
    assert events == [
        RunNoted(
            t_s=3.0,
            note="the policy blind failed with KeyError: 'no attempt in flight has the key 77'; "
            "mitigation is off for the rest of this run",
        )
    ]


def test_a_policy_of_a_package_that_cannot_be_made_is_named(monkeypatch):
    """With its text, as a usage error; it is no bug in cfetch."""
    point = EntryPoint("odd", "tests.straggler.test_guarded:fail", "cfetch.policies")
    monkeypatch.setattr("cfetch.base.entry_points.list_points", lambda _: (point,))
    with pytest.raises(
        UsageError, match=r"^the policy odd failed with ZeroDivisionError: secret; nothing was"
    ):
        make_policy(Settings(policy="odd"))


def test_the_base_policy_has_every_member_of_the_port():
    """A member that the port gains needs a default there."""
    base = BasePolicy()
    assert [name for name in MEMBERS if not hasattr(base, name)] == []
