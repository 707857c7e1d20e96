"""The frame round an engine: what it asks when, what it commits, and what a run ends with."""

import errno
import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Held, Interrupted, LocalFault, UsageError
from cfetch.base.events import (
    EntryFinished,
    Event,
    RunExplained,
    RunFinished,
    RunNoted,
    RunStarted,
    RunStopping,
)
from cfetch.base.records import EndRecord
from cfetch.run.frame import RunFrame
from cfetch.run.signals import keep_handlers, listen
from cfetch.show.metrics import MetricsFile
from cfetch.show.metrics_reading import read_metrics
from cfetch.storage.lacking import FLUSH_DIRECTORY, note_lack, take_losses
from cfetch.straggler.knowledge import NOTHING
from tests.run.engines import FakeGuard
from tests.show.records import attempt, record

DONE = [record(0, 100, attempt()), record(1, 50, attempt(size=50))]
FAULT = LocalFault("the disk is full")


class FakePlan:
    """Two entries."""

    total_bytes = 150
    sizes_unknown = 0

    def __len__(self):
        return 2


class FakeEngine:
    """``records`` come to their ends; then ``act`` is called, and its result is what ended the run."""

    learned = NOTHING

    def __init__(self, *records, act=lambda: None):
        self.records = records
        self.act = act
        self.log = []
        self.counts: Any = None

    @contextmanager
    def open(self):
        self.log.append("open")
        yield
        self.log.append("close")

    def bring(self, run):
        self.log.append("bring")
        for one in self.records:
            run.emit(EntryFinished(t_s=one.end_s, record=one))
        self.counts = run.counts
        return self.act()

    def stop(self, reason):
        self.log.append(f"stop: {reason}")


@pytest.fixture
def run(tmp_path):
    """Run an engine in a frame: the summary, the guard and the events."""
    take_losses()  # of other tests in this process

    def go(
        engine,
        *,
        guard=None,
        metrics=tmp_path / "m.jsonl",
        **settings,
    ):
        guard, events = guard or FakeGuard(), list[Event]()
        plan: Any = FakePlan()
        frame = RunFrame(
            engine,
            plan,
            ["/a", "/b"],
            Settings(concurrency=7, **settings),
            SystemClock(),
        )
        summary = frame.go(guard, MetricsFile(metrics), events.append)
        return summary, guard, events

    return go


def stopping(events):
    """The reasons that were emitted for an early end."""
    return [event.reason for event in events if isinstance(event, RunStopping)]


def test_a_run_of_which_all_is_in_place_is_committed(run, tmp_path):
    """Between its start and its end; the metrics have its records, and the summary counts them."""
    engine = FakeEngine(*DONE)
    summary, guard, events = run(engine)
    assert engine.log == ["open", "bring", "close"]
    kinds = [type(event) for event in events]
    assert kinds == [RunStarted, EntryFinished, EntryFinished, RunExplained, RunFinished]
    begun = events[0]
    assert (begun.instant, begun.files, begun.bytes_known, begun.sizes_unknown) == (guard.instant, 2, 150, 0)
    assert (begun.destination, begun.destinations, begun.concurrency) == ("/a, /b", ("/a", "/b"), 7)
    assert (guard.committed, guard.asked) == ([(2, 150)], 0)
    assert events[-1].summary == summary
    assert (summary.status, summary.exit_code, summary.files.done) == ("completed", 0, 2)
    assert summary.metrics == str(tmp_path / "m.jsonl")
    assert [one.id for written in read_metrics([tmp_path / "m.jsonl"]) for one in written.files] == [0, 1]
    assert (engine.counts.ended.done, engine.counts.ended.in_place_bytes) == (2, 150)


def test_the_end_is_the_last_line_of_the_metrics(run, tmp_path):
    """It says how the run ended, and is what the dashboard gets; the summary says the same."""
    summary, guard, events = run(FakeEngine(*DONE, act=lambda: FAULT))
    (explained,) = [event.record for event in events if isinstance(event, RunExplained)]
    *_, last = (line for written in read_metrics([tmp_path / "m.jsonl"]) for line in written.records)
    assert last == explained
    assert (last.instant, last.done, last.exit_code, last.status) == (guard.instant, 2, 3, "partial")
    assert (last.tail.bound, last.tail.reason) == ("stopped", "the disk is full")
    assert (last.policy, last.places, last.saved_s) == ("adaptive", 7, summary.stragglers.saved_s)


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (record(1, 50, status="skipped"), 0),
        (record(1, 50, status="failed"), 1),
        (record(1, 50, status="cancelled"), 1),
    ],
    ids=["skipped", "failed", "cancelled"],
)
def test_only_a_run_of_which_all_is_in_place_is_committed(run, entry, code):
    """What stood there before counts as in place; what failed or was cancelled leaves the plan pending."""
    summary, guard, _ = run(FakeEngine(DONE[0], entry))
    assert (summary.exit_code, bool(guard.committed)) == (code, code == 0)


def test_an_error_that_the_engine_returns_is_the_runs(run):
    """The engine has emitted it, and the frame does not say it again."""
    summary, guard, events = run(FakeEngine(*DONE, act=lambda: Held("taken over")))
    assert (summary.exit_code, guard.committed, stopping(events)) == (4, [], [])


def test_an_error_that_the_engine_raises_is_the_runs(run):
    """It is emitted, and the run ends with a summary all the same."""

    def act():
        raise Held("taken over")

    summary, guard, events = run(FakeEngine(*DONE, act=act))
    assert (summary.exit_code, guard.committed, stopping(events)) == (4, [], ["taken over"])
    assert isinstance(events[-1], RunFinished)


def test_a_run_that_stood_still_at_its_end_is_committed(run):
    """It has lost its heartbeat and not its plan: it claims it again, and is asked once."""

    class Asleep(FakeGuard):
        def commit(self, *, files, size_bytes):
            if not self.asked:
                raise LocalFault("its heartbeat could not be written for 2 s")
            super().commit(files=files, size_bytes=size_bytes)

    guard = Asleep()
    summary, _, events = run(FakeEngine(*DONE), guard=guard)
    assert (summary.exit_code, guard.committed, guard.asked) == (0, [(2, 150)], 1)
    assert stopping(events) == []


@pytest.mark.parametrize(
    ("lost", "code", "reasons"),
    [(None, 3, []), (Held("taken over"), 4, ["taken over"]), (LocalFault(str(FAULT)), 3, [])],
    ids=["the plan is ours", "another's", "the same fault"],
)
def test_a_fault_may_be_another_runs_doing(run, lost, code, reasons):
    """The guard is asked after a fault, and knows better; what was said already is not said again."""
    guard = FakeGuard()
    guard.lost = lost
    summary, _, events = run(FakeEngine(*DONE, act=lambda: FAULT), guard=guard)
    assert (summary.exit_code, stopping(events), guard.asked) == (code, reasons, 1)
    assert guard.committed == []


def test_a_plan_that_cannot_be_committed_is_said(run):
    """Another run has taken it over at the very end: exit 4, although all is in place."""

    class Late(FakeGuard):
        def commit(self, *, files, size_bytes):
            raise Held("taken over")

    summary, _, events = run(FakeEngine(*DONE), guard=Late())
    assert (summary.exit_code, summary.files.done, stopping(events)) == (4, 2, ["taken over"])


def test_metrics_that_cannot_grow_stop_the_engine(run):
    """The first event that does not fit asks for the end; the run fails with that, whatever comes after."""
    engine = FakeEngine(*DONE, act=lambda: Held("later"))
    summary, guard, _ = run(engine, metrics=Path("/dev/full"))
    (stop,) = [entry for entry in engine.log if entry.startswith("stop")]
    assert "cannot write the metrics file /dev/full" in stop
    assert (summary.exit_code, guard.committed) == (3, [])


@pytest.mark.parametrize("kind", [RunStarted, EntryFinished, RunExplained, RunFinished])
def test_an_error_of_the_writer_of_metrics_ends_the_run(run, monkeypatch, kind):
    """The engine is asked once to end in good order; then the error is raised."""
    write = MetricsFile.__call__

    def fail(metrics, event):
        if isinstance(event, kind):
            raise IndexError("planted")
        write(metrics, event)

    monkeypatch.setattr(MetricsFile, "__call__", fail)
    engine = FakeEngine(*DONE)
    with pytest.raises(IndexError, match="planted"):
        run(engine)
    (stop,) = [entry for entry in engine.log if entry.startswith("stop")]
    assert "IndexError" in stop


@pytest.mark.parametrize(("step", "committed"), [("flush", []), ("close", [(2, 150)])])
def test_last_lines_of_the_metrics_that_do_not_fit_fail_the_run(run, monkeypatch, step, committed):
    """Those of files are written before the plan is committed; the end's own line comes after it."""
    write = getattr(MetricsFile, step)
    faults: list[LocalFault] = []  # from when the engine has done its work

    def fill_up(metrics):
        write(metrics)
        while faults:
            raise faults.pop()

    monkeypatch.setattr(MetricsFile, step, fill_up)
    summary, guard, events = run(FakeEngine(*DONE, act=lambda: faults.append(FAULT)))
    assert (summary.exit_code, guard.committed, stopping(events)) == (3, committed, [str(FAULT)])


def test_a_full_disk_that_cuts_the_metrics_too_is_told(run, monkeypatch):
    """The run's own fault stays its error; but nobody may think that the metrics name all."""
    write = MetricsFile.flush
    faults: list[LocalFault] = []

    def fill_up(metrics):
        write(metrics)
        while faults:
            raise faults.pop()

    def end():
        faults.append(LocalFault("cannot write the metrics file"))
        return FAULT

    monkeypatch.setattr(MetricsFile, "flush", fill_up)
    summary, _, events = run(FakeEngine(*DONE, act=end))
    notes = [event.note for event in events if isinstance(event, RunNoted)]
    assert (summary.exit_code, notes) == (3, ["the metrics are not whole: cannot write the metrics file"])


def test_a_run_tells_once_what_a_file_system_lacks(run):
    """What it gave up is a note, and no error."""

    def lack():
        note_lack(FLUSH_DIRECTORY, OSError(errno.EINVAL, "Invalid argument"))

    lack()
    summary, _, events = run(FakeEngine(*DONE, act=lack))
    notes = [event.note for event in events if isinstance(event, RunNoted)]
    assert summary.exit_code == 0
    assert notes == [f"a file system of this run {FLUSH_DIRECTORY.loss}"]


def test_the_last_line_of_the_metrics_knows_how_the_plan_was_settled(run, tmp_path):
    """The plan is another run's by then: the exit code of the line is the command's."""

    class Late(FakeGuard):
        def commit(self, *, files, size_bytes):
            raise Held("taken over")

    summary, _, _ = run(FakeEngine(*DONE), guard=Late())
    *_, last = (line for written in read_metrics([tmp_path / "m.jsonl"]) for line in written.records)
    assert isinstance(last, EndRecord)
    assert (last.exit_code, summary.exit_code) == (4, 4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_engine_and_is_what_ended_the_run(run, number):
    """With the exit code of shells; afterwards who listened before does so again, and has heard of it."""
    heard = []
    with keep_handlers():
        signal.signal(number, lambda number, _: heard.append(number))
        mine = signal.getsignal(number)
        engine = FakeEngine(*DONE, act=lambda: os.kill(os.getpid(), number))
        summary, guard, _ = run(engine)
        assert signal.getsignal(number) is mine
    name = signal.Signals(number).name
    assert engine.log[2:] == [f"stop: {name}: closing what is under way; once more to leave at once", "close"]
    assert (summary.status, summary.exit_code) == ("interrupted", 128 + number)
    assert (guard.committed, heard) == ([], [number])


def test_an_engine_that_cannot_be_had_leaves_no_open_file(run, tmp_path):
    """Its error is the caller's, as no run has begun; the metrics file is closed."""

    class Missing(FakeEngine):
        @contextmanager
        def open(self):
            if self.log == []:
                raise UsageError("no Java")
            yield

    with pytest.raises(UsageError, match="no Java"):
        run(Missing(), metrics=tmp_path / "m.json")
    assert (tmp_path / "m.json").read_bytes() == b"[\n\n]\n"  # the end of the array is written at the close


def test_a_signal_that_the_caller_ignores_stays_ignored():
    """As under nohup."""
    came: list[Interrupted] = []
    with keep_handlers():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with listen(came.append):
            os.kill(os.getpid(), signal.SIGHUP)
    assert came == []


class EndlessEngine(FakeEngine):
    """Brings its records, and then nothing more until it is stopped."""

    def __init__(self, *records):
        super().__init__(*records, act=self.wait)
        self.stopped = threading.Event()

    def wait(self):
        assert self.stopped.wait(60), "nobody stopped it"

    def stop(self, reason):
        super().stop(reason)
        self.stopped.set()


def test_a_run_ends_at_its_deadline(run):
    """What is not in place is left: no commit, exit code 1, and a reason that says what comes next."""
    engine = EndlessEngine(DONE[0])
    summary, guard, _ = run(engine, deadline=1.0)
    assert (summary.status, summary.exit_code, guard.committed) == ("partial", 1, [])
    reason = "stop: the deadline of 1s is over; what is not in place is left for the next run"
    assert engine.log == ["open", "bring", reason, "close"]


def test_a_deadline_that_comes_when_all_is_in_place_costs_nothing(run):
    """The last file was faster than the stop."""
    summary, guard, _ = run(EndlessEngine(*DONE), deadline=1.0)
    assert (summary.status, summary.exit_code, guard.committed) == ("completed", 0, [(2, 150)])


def test_a_run_that_is_over_before_its_deadline_is_not_stopped(run):
    """Its timer goes with it."""
    engine = FakeEngine(*DONE)
    summary, *_ = run(engine, deadline=3600.0)
    assert (summary.exit_code, engine.log) == (0, ["open", "bring", "close"])
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
