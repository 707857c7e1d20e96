"""Removable plans and clean, on the real file system: rows RA to RE3, and the RFC's A to E.

| RFC-79, removable plans | here |
|---|---|
| A: many writers, a new plan | RA |
| B: X at work, Y starts | RB1, RB2, RB3 |
| C: the plan is inflight; X and Y start | RC |
| D: X starts, Y cleans | RD1 to RD5 |
| E: X cleans, Y starts | RE1 to RE3 |
"""

import os
import time

import msgspec
import pytest

from cfetch.base.errors import Held, NewerRecord, UsageError
from cfetch.timeline.archive import archive
from cfetch.timeline.attempts import ELSEWHERE
from cfetch.timeline.clean import clean
from cfetch.timeline.execution import Completed, Execution, roll_back
from cfetch.timeline.rollback import condemn, execute, schedule_rollback
from cfetch.timeline.states import Kind, Transition
from tests.timeline.real import MINUTE_S, nobody, start

DELAY_S = 60 * MINUTE_S
YEAR_S = 365 * 86400.0


def plan(processes):
    return processes.schedule(processes.table("scheduler"), Kind.REMOVABLE)


def cleaned(processes, **how):
    """What clean tells of each instant, by its file's name then."""
    told = clean(processes.table("cleaner"), delay_s=DELAY_S, keep_s=YEAR_S, **how)
    return {one.entry.name.partition(".")[2]: (one.kept, one.why) for one in told}


def inflight_and_dead(processes, instant):
    x = processes.table("x")
    execution = start(x, instant, on_lost=nobody)
    processes.part(execution, "one")
    processes.kill(x)
    return execution


def test_RA_one_completes(processes):  # noqa: N802
    """The others are refused while it runs, and get its record afterwards."""
    instant = plan(processes)
    first = start(processes.table("x"), instant, on_lost=nobody)
    assert isinstance(first, Execution)
    with pytest.raises(Held):
        start(processes.table("y"), instant, on_lost=nobody)
    first.commit(files=2, size_bytes=20)
    assert isinstance(start(processes.table("y"), instant, on_lost=nobody), Completed)


def test_RB1_a_live_owner_is_not_disturbed(processes):  # noqa: N802
    """Neither by an executor nor by one who wants it rolled back."""
    instant = plan(processes)
    start(processes.table("x"), instant, on_lost=nobody)
    for verb in (
        lambda table: start(table, instant, on_lost=nobody),
        lambda table: roll_back(table, instant),
    ):
        with pytest.raises(Held):
            verb(processes.table("y"))
    assert processes.names() == ["1.download.inflight"]


@pytest.mark.parametrize("later_s", [0.0, 1000.0])
def test_RB2_after_a_death_it_can_only_be_rolled_back(processes, later_s):  # noqa: N802
    """Y errors, before and after expiry, and nothing has changed."""
    instant = plan(processes)
    execution = inflight_and_dead(processes, instant)
    processes.time_s += later_s
    with pytest.raises(UsageError, match=f"plan rollback {instant}"):
        start(processes.table("y"), instant, on_lost=nobody)
    assert processes.names() == ["1.download.inflight"]
    assert (processes.state / execution.staging / "one").exists()


def test_RB3_completed_is_the_answer(processes):  # noqa: N802
    """Y returns the completed record."""
    instant = plan(processes)
    start(processes.table("x"), instant, on_lost=nobody).commit(files=2, size_bytes=20)
    assert isinstance(start(processes.table("y"), instant, on_lost=nobody), Completed)


@pytest.mark.parametrize("kind", Kind)
def test_a_plan_that_is_being_rolled_back_is_scheduled_anew_if_it_will_be_gone(processes, kind):
    """An immutable plan comes out of its rollback as the same plan; a removable one does not."""
    x = processes.table("x")
    instant = processes.schedule(x, kind)
    with x.lock.hold():
        schedule_rollback(x, instant, kind)
    assert (processes.schedule(x, kind) == instant) is (kind is Kind.IMMUTABLE)


def test_RC_an_inflight_plan_is_started_by_nobody(processes):  # noqa: N802
    """Both fail."""
    instant = plan(processes)
    inflight_and_dead(processes, instant)
    for name in ("y", "z"):
        with pytest.raises(UsageError, match="only attempt is over"):
            start(processes.table(name), instant, on_lost=nobody)


def test_a_claimed_plan_whose_owner_died_before_it_worked_may_be_started(processes):
    """Requested, with an expired heartbeat: nothing was written, so this is still its first attempt."""
    instant = plan(processes)
    x = processes.table("x")
    x.store.move(x.store.entry(instant), Transition.CLAIM)
    assert start(processes.table("y"), instant, on_lost=nobody).epoch == 2


def test_RD1_a_running_plan_is_kept(processes):  # noqa: N802
    """Three hours old, but its owner beats."""
    instant = plan(processes)
    x = processes.table("x")
    processes.time_s += 3 * 3600
    start(x, instant, on_lost=nobody)
    kept, why = cleaned(processes)["1.download.inflight"]
    assert kept
    assert why == f"its owner is alive: process {x.node.owner.pid} on here"
    assert processes.names() == ["1.download.inflight"]


@pytest.mark.parametrize(
    ("row", "age_s", "kept"),
    [("RD2", 59 * MINUTE_S, True), ("RD3", DELAY_S - 0.001, True), ("RD3", DELAY_S, False)],
)
def test_RD2_RD3_an_unstarted_plan_is_cleaned_from_the_delay_on(processes, row, age_s, kept):  # noqa: N802
    """Exactly the delay is old enough; then plan and rollback are done with."""
    plan(processes)
    processes.time_s += age_s
    assert cleaned(processes)["download.requested"][0] is kept
    assert processes.names() == (["download.requested"] if kept else ["rollback.completed"])


@pytest.mark.parametrize(("age_s", "kept"), [(30 * MINUTE_S, True), (DELAY_S, False)])
def test_RD4_a_dead_plan_is_cleaned_from_the_delay_on(processes, age_s, kept):  # noqa: N802
    """The text's rule, not table D's: a young one is kept even if its attempt has died."""
    instant = plan(processes)
    execution = inflight_and_dead(processes, instant)
    processes.time_s += age_s
    assert cleaned(processes)["1.download.inflight"][0] is kept
    assert (processes.state / execution.staging / "one").exists() is kept
    assert (processes.state / "heartbeats" / f"{instant}.json").exists() is kept
    assert (processes.state / "attempts" / instant).exists() is kept


def test_RD5_whoever_locks_first_is_seen(processes):  # noqa: N802
    """The cleaner first: X finds the rollback and errors. X first: the cleaner finds the heartbeat."""
    instant = plan(processes)
    processes.time_s += DELAY_S
    assert condemn(processes.table("cleaner"), instant, delay_s=DELAY_S) is not None
    with pytest.raises(UsageError, match="only attempt is over"):
        start(processes.table("x"), instant, on_lost=nobody)
    other = processes.schedule(processes.table("scheduler"), Kind.REMOVABLE, fingerprint="g")
    processes.time_s += DELAY_S
    start(processes.table("x"), other, on_lost=nobody)
    with pytest.raises(Held):
        condemn(processes.table("cleaner"), other, delay_s=DELAY_S)


def test_RE1_a_young_plan_survives_clean(processes):  # noqa: N802
    """And Y runs it."""
    instant = plan(processes)
    assert cleaned(processes)["download.requested"][0]
    start(processes.table("y"), instant, on_lost=nobody).commit(files=2, size_bytes=20)


def test_RE2_an_old_plan_does_not(processes):  # noqa: N802
    """It is gone; Y is told so."""
    instant = plan(processes)
    processes.time_s += DELAY_S
    cleaned(processes)
    with pytest.raises(UsageError, match="no plan"):
        start(processes.table("y"), instant, on_lost=nobody)


@pytest.mark.parametrize("begun", [False, True])
def test_RE3_the_next_clean_executes_the_same_rollback(processes, begun, monkeypatch):  # noqa: N802
    """A cleaner that died with its rollback requested, or inflight: Y errors, no second one appears."""
    instant = plan(processes)
    processes.time_s += DELAY_S
    dead = processes.table("dead cleaner")
    rollback = condemn(dead, instant, delay_s=DELAY_S)
    assert rollback is not None
    if begun:

        def die(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(dead.attempts, "roll_back", die)
        with pytest.raises(KeyboardInterrupt):
            execute(dead, rollback.instant)
    processes.kill(dead)
    with pytest.raises(UsageError):
        start(processes.table("y"), instant, on_lost=nobody)
    told = cleaned(processes)
    assert told["1.rollback.inflight" if begun else "rollback.requested"] == (False, "pending")
    assert processes.names() == ["rollback.completed"]
    (left,) = dead.store.entries()
    assert left.instant == rollback.instant


def test_two_cleaners_make_one_rollback(processes):
    """The second finds the first's, and its execution is a no-op."""
    instant = plan(processes)
    processes.time_s += DELAY_S
    a, b = processes.table("a"), processes.table("b")
    first = condemn(a, instant, delay_s=DELAY_S)
    assert condemn(b, instant, delay_s=DELAY_S) == first
    assert first is not None
    assert execute(a, first.instant)
    assert not execute(b, first.instant)
    assert condemn(b, instant) is None
    assert processes.names() == ["rollback.completed"]


def test_a_cleaner_that_was_overtaken_says_so(processes, monkeypatch):
    """It stood still, counted as dead, and another has brought its rollback to the end."""
    instant = plan(processes)
    processes.time_s += DELAY_S
    a, b = processes.table("a"), processes.table("b")
    rollback = condemn(a, instant)
    assert rollback is not None
    roll_back_attempts = a.attempts.roll_back

    def meanwhile(*how, **more):
        processes.kill(a)
        assert execute(b, rollback.instant)
        roll_back_attempts(*how, **more)

    monkeypatch.setattr(a.attempts, "roll_back", meanwhile)
    assert not execute(a, rollback.instant)
    assert processes.names() == ["rollback.completed"]


def test_a_rollback_that_is_being_executed_is_left_alone(processes, monkeypatch):
    """Its own heartbeat says so."""
    instant = plan(processes)
    processes.time_s += DELAY_S
    a, b = processes.table("a"), processes.table("b")
    rollback = condemn(a, instant)
    assert rollback is not None
    told = []
    roll_back_attempts = a.attempts.roll_back

    def meanwhile(*how, **more):
        with pytest.raises(Held):
            execute(b, rollback.instant)
        told.extend(clean(b, delay_s=DELAY_S, keep_s=YEAR_S))
        roll_back_attempts(*how, **more)

    monkeypatch.setattr(a.attempts, "roll_back", meanwhile)
    assert execute(a, rollback.instant)
    assert [one.kept for one in told] == [True, True]
    assert "somebody executes it now" in told[1].why
    assert not list((processes.state / "heartbeats").iterdir())


def test_completed_plans_are_never_rolled_back(processes):
    """Even where a rollback of one stands on the timeline, because the lock was lost: it does nothing."""
    instant = plan(processes)
    processes.time_s += DELAY_S
    x = processes.table("x")
    execution = start(x, instant, on_lost=nobody)
    (processes.root / "final").write_bytes(b"final")
    rollback, _ = schedule_rollback(x, instant, Kind.REMOVABLE)
    execution.commit(files=2, size_bytes=20)
    assert execute(processes.table("y"), rollback.instant)
    assert processes.names() == ["download.completed", "rollback.completed"]
    assert (processes.root / "final").read_bytes() == b"final"


@pytest.mark.parametrize("how", ["completed", "removable", "immutable"])
def test_marks_of_a_killed_run_go_with_its_plan(processes, how):
    """They tell other timelines that the attempts are not theirs; the owner's clean and rollback end that."""
    instant = processes.schedule(
        processes.table("scheduler"), Kind.IMMUTABLE if how == "immutable" else Kind.REMOVABLE
    )
    x = processes.table("x")
    execution = start(x, instant, on_lost=nobody)
    if how == "completed":
        execution.commit(files=1, size_bytes=1)
    attempts = processes.state / "attempts" / instant
    attempts.mkdir(parents=True, exist_ok=True)
    (attempts / ELSEWHERE).touch()
    processes.kill(x)
    processes.time_s += DELAY_S
    if how == "immutable":
        roll_back(processes.table("cleaner"), instant)
    else:
        cleaned(processes)
    assert not attempts.exists()


@pytest.mark.parametrize(("age_s", "stay"), [(30 * 86400.0 - 60, True), (30 * 86400.0 + 60, False)])
def test_parts_whose_timeline_is_elsewhere_go_when_it_must_be_lost(processes, age_s, stay):
    """A state directory that is there would have been used, or cleaned, within a month."""
    table = processes.table("x")
    instant = table.new_instant()
    attempts = processes.state / "attempts" / instant
    (attempts / "1").mkdir(parents=True)
    (attempts / "1/part").write_bytes(b"part")
    (attempts / ELSEWHERE).touch()
    processes.time_s += 2 * age_s
    os.utime(attempts / ELSEWHERE, (time.time() - age_s,) * 2)
    cleaned(processes)
    assert attempts.exists() is stay


def test_clean_touches_no_file_outside_the_attempts(processes):
    """Final files, strangers' files and other instants' parts stay."""
    instant = plan(processes)
    inflight_and_dead(processes, instant)
    for name in ("final", ".cfetch/attempts/stranger", ".cfetch/timeline/notes.txt", ".cfetch/mine"):
        (processes.root / name).write_bytes(b"precious")
    processes.time_s += 10 * 86400
    cleaned(processes)
    assert not (processes.state / "attempts" / instant).exists()
    for name in ("final", ".cfetch/attempts/stranger", ".cfetch/timeline/notes.txt", ".cfetch/mine"):
        assert (processes.root / name).read_bytes() == b"precious"


def test_a_dry_run_changes_nothing(processes):
    """And tells what would be done."""
    instant = plan(processes)
    inflight_and_dead(processes, instant)
    processes.time_s += DELAY_S
    before = sorted(processes.state.rglob("*"))
    kept, why = cleaned(processes, dry_run=True)["1.download.inflight"]
    assert not kept
    assert why == "removable, 3600 s old, and its only attempt has died"
    assert sorted(processes.state.rglob("*")) == before


def test_rolling_back_by_hand_needs_no_age(processes):
    """`plan rollback` of a removable plan removes it, however young, whatever the clocks say."""
    instant = plan(processes)
    roll_back(processes.table("y", wall_error_s=-600.0), instant)
    assert processes.names() == ["rollback.completed"]


@pytest.mark.parametrize("error_s", [2 * 3600.0, -2 * 3600.0])
def test_a_cleaner_whose_clock_is_wrong(processes, error_s):
    """Two hours ahead it takes no new plan for an old one; two hours behind it still removes the old one."""
    instant = plan(processes)
    cleaner = processes.table("cleaner", wall_error_s=error_s)
    (new,) = clean(cleaner, delay_s=DELAY_S, keep_s=YEAR_S)
    assert (new.kept, condemn(cleaner, instant, delay_s=DELAY_S)) == (True, None)
    processes.time_s += DELAY_S
    (old,) = clean(cleaner, delay_s=DELAY_S, keep_s=YEAR_S)
    assert not old.kept


def test_the_work_of_clean_grows_with_the_plans_and_not_with_their_square(processes, monkeypatch):
    """Each rollback is over before the next one is scheduled, which would have to read it."""
    scheduler, cleaner = processes.table("scheduler"), processes.table("cleaner")
    plans = 20
    for number in range(plans):
        processes.schedule(scheduler, Kind.REMOVABLE, f"f{number}")
    processes.time_s += DELAY_S
    reads: list[str] = []
    read = cleaner.store.read_rollback

    def counted(entry):
        reads.append(entry.instant)
        return read(entry)

    monkeypatch.setattr(cleaner.store, "read_rollback", counted)
    told = clean(cleaner, delay_s=DELAY_S, keep_s=YEAR_S)
    assert (len(told), any(one.kept for one in told)) == (plans, False)
    assert len(reads) <= 2 * plans


def test_unreadable_rollbacks(processes):
    """One that nobody has begun is removed; one at work is left for a person to look at."""
    table = processes.table("x")
    timeline = processes.state / "timeline"
    for number, state in enumerate(["requested", "1.rollback.inflight"]):
        name = state if "." in state else f"rollback.{state}"
        (timeline / f"20270115T08000000{number}Z-abcd.{name}").write_bytes(b"{torn")
    told = {one.entry.state.value: one for one in clean(table, delay_s=0, keep_s=YEAR_S)}
    assert not told["requested"].kept
    assert told["inflight"].kept
    assert "remove it by hand" in told["inflight"].why
    assert processes.names() == ["1.rollback.inflight"]


@pytest.mark.parametrize("schema", ["cfetch.plan/2", "cfetch.rollback/2"])
def test_records_of_a_newer_version_are_left_alone(processes, schema):
    """Neither cleaned, nor archived, nor executed, whether or not their other fields can be read."""
    instant = plan(processes)
    action = schema.removeprefix("cfetch.").removesuffix("/2")
    name = f"{instant}.{'download' if action == 'plan' else action}.requested"
    timeline = processes.state / "timeline"
    known = (timeline / f"{instant}.download.requested").read_bytes()
    (timeline / f"{instant}.download.requested").unlink()
    data = known.replace(b"cfetch.plan/1", schema.encode())
    (timeline / name).write_bytes(data)
    processes.time_s += YEAR_S
    (told,) = clean(processes.table("x"), delay_s=0, keep_s=YEAR_S)
    assert (told.kept, "a newer version of cfetch" in told.why) == (True, True)
    for begin in (plan, lambda one: start(one.table("y"), instant, on_lost=nobody)):
        if action == "plan":
            with pytest.raises(NewerRecord, match=rf"timeline/{name} \({schema}\); use that version here"):
                begin(processes)
    done = timeline / name.replace("requested", "completed")
    (timeline / name).rename(done)
    assert archive(processes.table("x"), 0.0) == []
    assert done.read_bytes() == data


@pytest.mark.parametrize("state", ["paused", "7.paused", "requested.sealed"])
def test_a_plan_in_a_state_of_a_later_version_keeps_all_that_it_has(processes, state):
    """A file of the timeline with a state unknown here is somebody else's: nothing of its instant goes."""
    table = processes.table("x")
    instant = table.new_instant()
    made = [
        f"timeline/{instant}.download.{state}",
        f"attempts/{instant}/1/part",
        f"plans/{instant}/entries.msgpack",
        f"heartbeats/{instant}.json",
    ]
    for name in made:
        (processes.state / name).parent.mkdir(parents=True, exist_ok=True)
        (processes.state / name).write_bytes(b"x")
    (processes.state / f"plans/{instant}/owner.json").write_bytes(msgspec.json.encode(table.node.owner))
    processes.kill(table)
    processes.time_s += YEAR_S
    cleaned(processes)
    assert [name for name in made if not (processes.state / name).exists()] == []


def test_names_that_no_version_here_has_made_are_kept(processes):
    """Whatever their age and owner: beside the lock, the plans, the beats and the records."""
    table = processes.table("x")
    instant = table.new_instant()
    names = [
        "lock.of.another",
        "timeline/others.tmp",
        f"heartbeats/{instant}",
        "heartbeats/.others.tmp",
        "plans/shared/owner.json",
        f"attempts/{instant}/pool/part",
    ]
    for name in names:
        path = processes.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(table.node.owner))
        os.utime(path, (0, 0))
    processes.kill(table)
    processes.time_s += YEAR_S
    cleaned(processes)
    assert [name for name in names if not (processes.state / name).exists()] == []


def test_a_plan_that_a_dead_run_has_not_put_on_the_timeline_goes_at_once(processes):
    """It holds links. A living run's stays, and so does one that is on the timeline.

    What a run freezes beside it, with a dot before its name, is its own, and goes with it.
    """
    scheduled, dead, alive = (processes.table(name) for name in ("scheduled", "dead", "alive"))
    owners = {processes.schedule(scheduled): scheduled, dead.new_instant(): dead, alive.new_instant(): alive}
    for name, table in [*owners.items(), *((f".{name}", table) for name, table in owners.items())]:
        folder = processes.state / "plans" / name
        folder.mkdir(parents=True)
        (folder / "entries.msgpack").write_bytes(b"x")
        (folder / "owner.json").write_bytes(msgspec.json.encode(table.node.owner))
    for table in (scheduled, dead):
        processes.kill(table)
    cleaned(processes)
    left = {path.name for path in (processes.state / "plans").iterdir()}
    kept = {owner: name for name, owner in owners.items()}
    assert left == {kept[scheduled], kept[alive], f".{kept[alive]}"}


def test_the_list_of_a_slow_run_survives_a_machine_whose_clock_is_ahead(processes):
    """Its age is by the file system's clock: two days that only another machine's clock has seen are none."""
    slow = processes.table("slow")
    folder = processes.state / "plans" / f".{slow.new_instant()}"
    folder.mkdir(parents=True)
    (folder / "owner.json").write_bytes(msgspec.json.encode(slow.node.owner))
    processes.time_s += 2 * 86400.0
    cleaned(processes)
    assert folder.exists()
    os.utime(folder / "owner.json", (0, 0))
    cleaned(processes)
    assert not folder.exists()


def test_what_crashes_have_left_goes_after_a_day(processes):
    """Temporary files, stray locks, attempts and frozen plans of instants that are over; young ones stay."""
    table = processes.table("x")
    instant = plan(processes)
    start(table, instant, on_lost=nobody).commit(files=2, size_bytes=20)
    never = table.new_instant()
    made = [
        f"attempts/{instant}/1/part", f"attempts/{never}/1/part", f"plans/{instant}/entries.msgpack",
        f"plans/{never}/entries.msgpack", f"heartbeats/{instant}.json", "lock.abc",
        f"timeline/.{instant}.x.tmp",
        f"plans/{never}/receipts/batch-1-000000", f"plans/{instant}/plan-1/part-000000.parquet",
    ]  # fmt: skip
    for name in made:
        (processes.state / name).parent.mkdir(parents=True, exist_ok=True)
        (processes.state / name).write_bytes(b"x")

    def left():
        return [name for name in made if (processes.state / name).exists()]

    cleaned(processes)
    assert left() == [made[1], made[3], made[5], made[6], made[7]]
    processes.time_s += 86400.0
    for name in left():
        os.utime(processes.state / name, (0, 0))
    cleaned(processes)
    assert left() == []
