"""Immutable plans on the real file system: rows IA to ID of the conformance table, and the RFC's A to C.

| RFC-79, plans that are not removable | here |
|---|---|
| A: many writers, a new plan | IA |
| B: X at work, Y starts | IB1, IB2, IB3 |
| C: the plan is inflight; X starts, Y starts | IC, IC' |
"""

import errno
import os
import shutil
import threading
import time

import pytest

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.storage import lacking
from cfetch.timeline.clean import clean
from cfetch.timeline.execution import Completed, Execution, roll_back
from cfetch.timeline.rollback import finish, schedule_rollback
from cfetch.timeline.states import Kind, Transition
from cfetch.timeline.tidying import tidy_up
from tests.timeline.real import MINUTE_S, nobody, start

EXPIRY_S = 180.0


def keep_all(dead):
    return dead.names


def inflight_and_dead(processes, *, proved=True):
    """A plan whose first owner has died at work, with a part; and that owner's execution."""
    x = processes.table("dead", host="elsewhere")
    instant = processes.schedule(x)
    execution = start(x, instant, on_lost=nobody)
    processes.part(execution, "one", b"first half")
    if proved:
        processes.kill(x)
    return instant, execution


def test_a_plan_is_found_behind_others_on_the_timeline(processes):
    """Behind one of another list, and one that is completed."""
    table = processes.table("x")
    start(table, processes.schedule(table, fingerprint="done"), on_lost=nobody).commit(files=2, size_bytes=20)
    processes.schedule(table, fingerprint="other")
    processes.time_s += 1.0
    wanted = processes.schedule(table)
    assert processes.schedule(processes.table("y")) == wanted


def test_IA_of_many_exactly_one_runs(processes):  # noqa: N802
    """Eight at the same time, in threads: one gets it, the others are told who has."""
    instant = processes.schedule(processes.table("scheduler"))
    tables = [processes.table(f"x{i}", sleep=time.sleep) for i in range(8)]
    barrier = threading.Barrier(8)
    got = []

    def run(table):
        barrier.wait()
        try:
            got.append(start(table, instant, on_lost=nobody))
        except Held as held:
            got.append(held)

    threads = [threading.Thread(target=run, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    executions = [one for one in got if isinstance(one, Execution)]
    assert len(executions) == 1
    held = [one for one in got if isinstance(one, Held)]
    assert len(held) == 7
    owner = executions[0]._table.node.owner
    assert {(one.host, one.pid, one.exit_code) for one in held} == {("here", owner.pid, 4)}
    executions[0].commit(files=2, size_bytes=20)
    assert all(isinstance(start(table, instant, on_lost=nobody), Completed) for table in tables)
    assert processes.names() == ["download.completed"]


def test_IB1_a_live_owner_is_not_disturbed(processes):  # noqa: N802
    """Y is refused at once, with host, pid and age, and no rollback instant appears."""
    x, y = processes.table("x", host="far"), processes.table("y")
    instant = processes.schedule(x)
    execution = start(x, instant, on_lost=nobody)
    with pytest.raises(Held) as caught:
        start(y, instant, on_lost=nobody)
    held = caught.value
    assert (held.host, held.pid, held.exit_code, held.kind) == ("far", x.node.owner.pid, 4, "held")
    assert held.age_s is not None
    assert 0 <= held.age_s < MINUTE_S
    assert f"process {held.pid} on far" in str(held)
    assert processes.names() == ["1.download.inflight"]
    assert processes.slept_s == 0
    execution.commit(files=2, size_bytes=20)


@pytest.mark.parametrize("proved", [True, False])
def test_IB2_a_dead_attempt_is_rolled_back_and_the_plan_completed(processes, proved):  # noqa: N802
    """Its part is kept for the successor; the plan stays, and is completed in the next epoch."""
    instant, _ = inflight_and_dead(processes, proved=proved)
    y = processes.table("y")
    if not proved:
        with pytest.raises(Held):
            start(y, instant, on_lost=nobody)
        processes.time_s += EXPIRY_S + 0.001
    execution = start(y, instant, on_lost=nobody, salvage=keep_all)
    assert execution.epoch == 2
    attempts = processes.state / "attempts" / instant
    assert sorted(path.name for path in attempts.iterdir()) == ["2", "2-1"]
    assert (attempts / "2-1/one").read_bytes() == b"first half"
    assert processes.names() == ["2.download.inflight", "rollback.completed"]
    (attempts / "2-1/one").rename(attempts / "2/one")
    (attempts / "2/one").rename(processes.root / "one")
    execution.commit(files=2, size_bytes=20)
    assert processes.names() == ["download.completed", "rollback.completed"]
    assert not list((processes.state / "attempts").iterdir())


def test_IB3_an_owner_that_wakes_up_is_fenced(processes):  # noqa: N802
    """It can neither publish, nor begin a part, nor commit; its late rollback changes nothing."""
    instant, x = inflight_and_dead(processes, proved=False)
    part = processes.state / x.staging / "one"
    y = processes.table("y")
    with pytest.raises(Held):
        start(y, instant, on_lost=nobody)
    processes.time_s += EXPIRY_S + 0.001
    execution = start(y, instant, on_lost=nobody)
    own = processes.part(execution, "one", b"the successor's")
    with pytest.raises(FileNotFoundError):
        part.rename(processes.root / "one")
    with pytest.raises(FileNotFoundError):
        part.with_name("two").touch()
    with pytest.raises(Held, match=r"taken over by process \d+ on here"):
        x.commit(files=2, size_bytes=20)
    x._table.attempts.roll_back(instant, x.epoch)
    assert own.read_bytes() == b"the successor's"
    execution.commit(files=2, size_bytes=20)
    with pytest.raises(Held, match="completed by another run"):
        x.commit(files=2, size_bytes=20)


def test_IB3_an_owner_that_looks_sees_its_successor(processes):  # noqa: N802
    """Its own heartbeat is still young: only the epoch on the timeline tells it."""
    instant, x = inflight_and_dead(processes, proved=True)
    x.confirm()
    start(processes.table("y"), instant, on_lost=nobody)
    x.check()
    with pytest.raises(Held, match=r"taken over by process \d+ on here"):
        x.confirm()


def test_IB3_a_stopped_owner_cannot_write_into_its_successors_part(processes):  # noqa: N802
    """It has a part open; the successor goes on with a copy, as it is not proved dead."""
    instant, x = inflight_and_dead(processes, proved=False)
    with (processes.state / x.staging / "one").open("r+b") as opened:
        y = processes.table("y")
        with pytest.raises(Held):
            start(y, instant, on_lost=nobody)
        processes.time_s += EXPIRY_S + 0.001
        start(y, instant, on_lost=nobody, salvage=keep_all)
        opened.write(b"LATE")
    kept = processes.state / "attempts" / instant / "2-1" / "one"
    assert kept.read_bytes() == b"first half"


def test_IB4_completed_is_the_answer_whatever_the_heartbeat_says(processes):  # noqa: N802
    """Y gets the completed record and starts no heartbeat, even if X's could not be removed."""
    x, y = processes.table("x"), processes.table("y")
    instant = processes.schedule(x)
    execution = start(x, instant, on_lost=nobody)
    beat = processes.state / "heartbeats" / f"{instant}.json"
    left = beat.read_bytes()
    execution.commit(files=2, size_bytes=20)
    assert not beat.exists()
    beat.write_bytes(left)
    done = start(y, instant, on_lost=nobody)
    assert isinstance(done, Completed)
    assert done.record is not None
    assert done.record.completion is not None
    assert (done.record.completion.epoch, done.record.completion.files) == (1, 2)
    assert done.record.completion.owner == x.node.owner
    assert beat.read_bytes() == left


def test_IC_the_first_to_lock_wins(processes):  # noqa: N802
    """X takes over a dead attempt, Y is refused; when X has died after its rollback, Y just runs."""
    instant, _ = inflight_and_dead(processes)
    x, y = processes.table("x"), processes.table("y")
    first = start(x, instant, on_lost=nobody)
    with pytest.raises(Held):
        start(y, instant, on_lost=nobody)
    assert first.epoch == 2
    processes.kill(x)
    (processes.state / first.staging).rmdir()
    timeline = processes.state / "timeline"
    (timeline / f"{instant}.2.download.inflight").rename(timeline / f"{instant}.2.download.requested")
    second = start(y, instant, on_lost=nobody)
    assert second.epoch == 3
    assert processes.names() == ["3.download.inflight", "rollback.completed"]


@pytest.mark.parametrize("begun", [False, True])
def test_IC_a_rollback_whose_executor_died_goes_on(processes, begun):  # noqa: N802
    """Requested or inflight: it is the same rollback instant that Y finishes, not a second one."""
    instant, _ = inflight_and_dead(processes)
    x = processes.table("x")

    class DiedError(Exception):
        pass

    def die(dead):
        raise DiedError

    with pytest.raises(DiedError):
        start(x, instant, on_lost=nobody, salvage=die)
    processes.kill(x)
    (rollback,) = (one for one in x.store.entries() if one.action.value == "rollback")
    if begun:
        x.store.move(rollback, Transition.CLAIM)
    execution = start(processes.table("y"), instant, on_lost=nobody, salvage=keep_all)
    assert processes.names() == ["3.download.inflight", "rollback.completed"]
    assert x.store.entry(rollback.instant, rollback.action) is not None
    assert (processes.state / "attempts" / instant / "3-1" / "one").read_bytes() == b"first half"
    execution.commit(files=2, size_bytes=20)


def test_IC_a_rollback_that_has_moved_on_is_still_brought_to_its_end(processes):  # noqa: N802
    """A stopped owner has woken up and claimed it at this very moment."""
    x = processes.table("x")
    instant = processes.schedule(x)
    with x.lock.hold():
        rollback = schedule_rollback(x, instant, Kind.IMMUTABLE)
    x.store.move(rollback[0], Transition.CLAIM)
    finish(x, rollback, below=2, salvage=None, gone_epoch=None, needs_all=True)
    assert processes.names() == ["download.requested", "rollback.completed"]


@pytest.mark.parametrize("backwards", [False, True])
def test_of_two_states_of_an_instant_the_later_counts(processes, monkeypatch, backwards):
    """A listing may show both names of a plan that moves meanwhile, in any order."""
    x = processes.table("x")
    instant = processes.schedule(x)
    execution = start(x, instant, on_lost=nobody)
    (name,) = x.files.names("timeline")
    both = [f"{instant}.download.requested", name]
    monkeypatch.setattr(x.files, "names", lambda path: both[::-1] if backwards else both)
    (entry,) = x.store.entries()
    assert (entry.name, entry.epoch) == (name, execution.epoch)


def test_ID_clean_never_takes_an_immutable_plan(processes):  # noqa: N802
    """Ten days old, inflight and dead: it stays, and its parts too."""
    instant, execution = inflight_and_dead(processes)
    processes.time_s += 10 * 86400
    (told,) = clean(processes.table("cleaner"), delay_s=0, keep_s=0)
    assert (told.entry.instant, told.kept) == (instant, True)
    assert "immutable" in told.why
    assert processes.names() == ["1.download.inflight"]
    assert (processes.state / execution.staging / "one").exists()


def test_a_released_plan_can_be_started_at_once(processes):
    """An execution that has ended in good order, unfinished, makes nobody wait; its parts are moved."""
    instant, x = inflight_and_dead(processes, proved=False)
    inode = (processes.state / x.staging / "one").stat().st_ino
    x.release()
    start(processes.table("y"), instant, on_lost=nobody, salvage=keep_all)
    assert processes.slept_s == 0
    assert (processes.state / "attempts" / instant / "2-1" / "one").stat().st_ino == inode


def test_a_failed_execution_lets_its_heartbeat_expire(processes):
    """Something of it may still write: nobody else starts before the beat is over."""
    instant, x = inflight_and_dead(processes, proved=False)
    x.fail()
    with pytest.raises(Held):
        start(processes.table("y"), instant, on_lost=nobody)


def test_an_old_beat_is_watched_until_it_is_over(processes):
    """A newcomer that finds an old file does not trust its date: it waits as long as the beat says."""
    instant, _ = inflight_and_dead(processes, proved=False)
    os.utime(processes.state / "heartbeats" / f"{instant}.json", (0, 0))
    told: list[Held] = []
    y = processes.table("y")

    def pause(held, pause_s):
        told.append(held)
        y.node.sleep(pause_s)

    execution = start(y, instant, on_lost=nobody, pause=pause)
    assert execution.epoch == 2
    assert EXPIRY_S < processes.slept_s <= EXPIRY_S + 10
    assert isinstance(told[0], Held)
    assert not told[0].is_certain


def test_a_watched_owner_that_beats_is_alive(processes):
    """Its file looks old, by a clock that is wrong; the first beat that is seen ends the watch."""
    instant, x = inflight_and_dead(processes, proved=False)
    beat = processes.state / "heartbeats" / f"{instant}.json"
    os.utime(beat, (0, 0))
    seen = []

    y = processes.table("y")

    def pause(held, pause_s):
        if held.is_certain:
            raise held
        seen.append(held)
        y.node.sleep(pause_s)
        if len(seen) == 3:
            processes.pulses["dead"].beat()
            os.utime(beat, (0, 0))

    with pytest.raises(Held):
        start(y, instant, on_lost=nobody, pause=pause)
    assert len(seen) == 3
    assert x.epoch == 1


def test_rolling_back_by_hand_keeps_the_plan(processes):
    """`plan rollback` of an immutable plan: parts gone, the plan requested, the next run in a new epoch."""
    instant, _ = inflight_and_dead(processes)
    y = processes.table("y")
    roll_back(y, instant)
    assert processes.names() == ["2.download.requested", "rollback.completed"]
    assert not list((processes.state / "attempts").iterdir())
    execution = start(y, instant, on_lost=nobody)
    assert execution.epoch == 3
    with pytest.raises(Held):
        roll_back(processes.table("z"), instant)
    execution.commit(files=2, size_bytes=20)
    with pytest.raises(UsageError, match="completed"):
        roll_back(y, instant)
    with pytest.raises(UsageError, match="no plan"):
        start(y, "20270115T080000000Z-ffff", on_lost=nobody)


def test_the_same_manifest_is_scheduled_once(processes):
    """Two who schedule it get the same instant, until that is completed; another manifest gets its own."""
    x, y = processes.table("x"), processes.table("y")
    first = processes.schedule(x)
    assert processes.schedule(y) == first
    assert processes.schedule(y, fingerprint="g") != first
    execution = start(y, first, on_lost=nobody)
    assert processes.schedule(x) == first
    execution.commit(files=2, size_bytes=20)
    assert processes.schedule(x) != first


def test_one_instant_is_scheduled_by_one(processes):
    """Exclusive create: whoever hits upon an id that is taken is told so, and replaces nothing."""
    x = processes.table("x")
    instant = processes.schedule(x)
    entry = x.store.entry(instant)
    before = (processes.state / "timeline" / entry.name).read_bytes()
    record = x.store.read_plan(entry)
    with pytest.raises(FileExistsError):
        x.store.put(entry, record)
    assert (processes.state / "timeline" / entry.name).read_bytes() == before
    assert [path.name for path in (processes.state / "timeline").iterdir()] == [entry.name]


def test_a_plan_that_cannot_be_read_is_named(processes):
    """Whatever tore it: nothing is guessed, and nothing is started."""
    x = processes.table("x")
    instant = processes.schedule(x)
    (processes.state / "timeline" / f"{instant}.download.requested").write_bytes(b'{"kind": "immu')
    with pytest.raises(UsageError, match=rf"cannot be read; move away timeline/{instant}.download.requested"):
        start(x, instant, on_lost=nobody)
    (told,) = clean(x, delay_s=0, keep_s=0)
    assert told.kept
    assert "cannot be read" in told.why


def test_a_lost_heartbeat_forbids_the_commit(processes):
    """Three intervals without a beat: the owner gives up before anybody has taken over, and stays lost."""
    x = processes.table("x")
    instant = processes.schedule(x)
    execution = start(x, instant, on_lost=nobody)
    execution.check()
    processes.time_s += EXPIRY_S
    with pytest.raises(LocalFault, match="heartbeat could not be written for 180 s"):
        execution.check()
    with pytest.raises(LocalFault):
        execution.commit(files=2, size_bytes=20)
    assert processes.names() == ["1.download.inflight"]


def test_a_run_that_stood_still_claims_its_plan_again(processes):
    """As long as nobody has taken it; from then on others see that it lives, and it can commit."""
    x = processes.table("x")
    instant = processes.schedule(x)
    execution = start(x, instant, on_lost=nobody)
    watching = processes.table("y", sleep=processes.sleep)
    processes.time_s += EXPIRY_S
    execution.confirm()
    execution.check()
    with pytest.raises(Held):
        start(watching, instant, on_lost=nobody)
    execution.commit(files=2, size_bytes=20)
    assert processes.names() == ["download.completed"]


def test_a_commit_that_came_too_late_can_be_tried_again(processes):
    """The run stood still just before it; nobody has taken the plan, so it claims it again and commits."""
    x = processes.table("x")
    execution = start(x, processes.schedule(x), on_lost=nobody)
    processes.time_s += EXPIRY_S
    with pytest.raises(LocalFault, match="heartbeat could not be written"):
        execution.commit(files=2, size_bytes=20)
    execution.confirm()
    execution.commit(files=2, size_bytes=20)
    assert processes.names() == ["download.completed"]


def test_a_commit_whose_lock_cannot_be_removed_is_a_commit(processes, monkeypatch):
    """The plan stands completed on the disk by then, and other runs break the lock of an ended process."""
    x = processes.table("x")
    execution = start(x, processes.schedule(x), on_lost=nobody)
    with monkeypatch.context() as patch:
        patch.setattr(x.files, "unlink", break_disk)
        execution.commit(files=2, size_bytes=20)
    assert processes.names() == ["download.completed"]


def test_a_commit_that_cannot_be_flushed_says_so_and_blames_no_other_run(processes, monkeypatch):
    """Also when it is tried again: the second rename fails, as the first was made."""
    x = processes.table("x")
    execution = start(x, processes.schedule(x), on_lost=nobody)
    monkeypatch.setattr(x.files, "flush_names", break_disk)
    for _ in range(2):
        with pytest.raises(LocalFault, match=r"cannot complete plan .*Input/output error"):
            execution.commit(files=2, size_bytes=20)
    assert processes.names() == ["download.completed"]


def break_disk(*_):
    """A disk that fails from now on."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_run_that_stood_still_does_not_take_its_plan_back(processes):
    """Another has claimed it meanwhile, and keeps it."""
    x = processes.table("x")
    instant = processes.schedule(x)
    execution = start(x, instant, on_lost=nobody)
    processes.kill(x)
    processes.time_s += EXPIRY_S
    other = start(processes.table("y"), instant, on_lost=nobody)
    with pytest.raises(Held, match="taken over by process 2 on here while this one stood still"):
        execution.confirm()
    other.confirm()
    other.check()


def test_a_state_directory_that_was_removed_is_no_other_run(processes):
    """Somebody has deleted the destination in the middle of the run."""
    x = processes.table("x")
    execution = start(x, processes.schedule(x), on_lost=nobody)
    shutil.rmtree(processes.state)
    with pytest.raises(LocalFault, match="something removed the timeline with plan"):
        execution.confirm()


def test_a_file_system_without_links_will_do(processes, monkeypatch):
    """FAT has none: a plan is scheduled by rename, and an id that is taken is still refused."""
    x = processes.table("x")

    def link(old, new):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(x.files, "link", link)
    monkeypatch.setattr(lacking, "_lacking", {})  # else the next run in this process would tell of it
    instant = processes.schedule(x)
    entry = x.store.entry(instant)
    with pytest.raises(FileExistsError):
        x.store.put(entry, x.store.read_plan(entry))
    assert processes.names() == ["download.requested"]
    start(x, instant, on_lost=nobody).commit(files=2, size_bytes=20)


@pytest.mark.parametrize("missed", [1, 2, 3])
def test_a_listing_that_misses_a_plan_while_it_moves_is_not_believed(processes, monkeypatch, missed):
    """A scan may show neither name of a file that is renamed meanwhile: one look is no proof of absence."""
    x = processes.table("x")
    instant = processes.schedule(x)
    (processes.state / "attempts" / instant / "1").mkdir(parents=True)
    processes.time_s += 2 * 86400
    names, asked = x.files.names, []

    def misses_at_first(path):
        asked.append(path)
        return [] if path == "timeline" and asked.count(path) == missed else names(path)

    monkeypatch.setattr(x.files, "names", misses_at_first)
    tidy_up(x, 1e9)
    assert (processes.state / "attempts" / instant / "1").exists()
    asked.clear()
    assert start(x, instant, on_lost=nobody).epoch == 1
