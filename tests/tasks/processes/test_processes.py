"""Whole downloads by several processes: the same as by one, and what is special about them."""

import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cfetch.app import engines, process_count
from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.base.events import (
    EntriesFinished,
    EntryFinished,
    Event,
    Progress,
    RunNoted,
    RunStarted,
    RunStopping,
)
from cfetch.base.records import RecordBlock
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.tasks.processes import child_processes, engine, worker
from cfetch.tasks.shares.dealing import OwnShares
from cfetch.tasks.shares.protocol import Renewed
from tests import warm
from tests.crash.process import command, ended, started
from tests.crash.scene import MIB, Children, Job, Scene, serving
from tests.engine.drive import tree
from tests.tasks.counting import counting
from tests.tasks.processes.soak import children_of, is_alive, soak
from tests.tasks.scene import asked, download, files_of, served, whole, write_manifest

FILES = files_of(40)
NAMES = list(FILES)
TWO = {"processes": 2}
HELD = {"mitigation": False}  # what the server holds is held: no straggler, and no helper for its bytes


@pytest.fixture
def workers(monkeypatch):
    """The processes that were started, in order."""
    started_workers: list[Any] = []

    class Noted(worker.Worker):
        def __init__(self, spec):
            super().__init__(spec)
            self.spec, self.order = spec, None
            proc = Path(f"/proc/{self.pid}")
            while not (arguments := (proc / "cmdline").read_bytes()):
                assert is_alive(self.pid)  # it is just becoming another program
            self.known_to_all = arguments + (proc / "environ").read_bytes()
            started_workers.append(self)

        def bring(self, order, *watch):
            self.order = order
            return super().bring(order, *watch)

    monkeypatch.setattr(child_processes, "Worker", Noted)
    return started_workers


def summary_without_times(summary):
    """What does not differ between any two runs."""
    values = msgspec.structs.asdict(summary)
    failures = [msgspec.structs.replace(failure, url="") for failure in summary.failures]  # each has its port
    values["failures"] = failures
    return {key: values[key] for key in values if key not in ("instant", "elapsed_s", "rate_bps", "metrics")}


def records_of(summary):
    """The lines of the metrics about files, without times and places."""
    lines = [msgspec.json.decode(line) for line in Path(summary.metrics).read_bytes().splitlines()]
    return sorted(
        (line["path"], line["status"], line["verified"], line["bytes"], len(line["attempts"]))
        for line in lines
        if line["schema"] == "cfetch.file/1"
    )


def files_left_in(to):
    """Where in the state a completed run leaves files."""
    state = to / ".cfetch"
    return {path.relative_to(state).parts[0] for path in state.rglob("*") if path.is_file()}


@pytest.mark.parametrize("failing", [False, True], ids=["all well", "one is missing"])
def test_the_same_as_by_one_process(tmp_path, workers, failing):
    """Tree, summary, exit code, lines of the metrics; and nothing is fetched the second time."""
    faults = {NAMES[7]: Fault(kind="status", status=404, first=0)} if failing else {}
    faults[NAMES[9]] = Fault(kind="reset", after_bytes=10)
    with served(FILES, faults) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        alone = download(manifest, tmp_path / "one", processes=1, **HELD)
    assert workers == []
    with served(FILES, faults) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        shared = download(manifest, tmp_path / "two", **TWO, **HELD)
        assert asked(origin) == {name: 2 if name == NAMES[9] else 1 for name in NAMES}
        again = download(manifest, tmp_path / "two", **TWO, **HELD)
        assert sum(asked(origin).values()) == 41 + failing
    assert len(workers) == 4
    assert summary_without_times(shared) == summary_without_times(alone)
    assert (shared.exit_code, records_of(shared)) == (failing, records_of(alone))
    assert (again.files.done, again.files.skipped, again.files.failed) == (0, 40 - failing, failing)
    assert tree(tmp_path / "two") == tree(tmp_path / "one")
    if not failing:
        assert files_left_in(tmp_path / "two") == files_left_in(tmp_path / "one")
    assert not any(is_alive(member.pid) for member in workers)


def test_c92_a_process_that_is_killed_is_replaced(tmp_path, workers):
    """Its successor goes on where its parts end, and asks for nothing that stands."""
    held = "0.big"
    files = {held: Synthetic(held, 4 << 20)} | FILES
    stall = Fault(kind="stall", after_bytes=3 << 20, first=1)
    ended: list[str] = []
    killed: list[bool] = []

    def kill(event):
        if isinstance(event, EntryFinished):
            ended.append(event.record.path)
        is_due = isinstance(event, Progress) and any(attempt.bytes >= 3 << 20 for attempt in event.active)
        if is_due and len(ended) == len(FILES) and len(workers) == 2 and not killed:  # no other is under way
            killed.append(True)
            for member in workers:
                member.kill()

    with served(files, {held: stall}) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, files)
        summary = download(manifest, tmp_path / "to", kill, **TWO, **HELD, stall_timeout=600.0)
        again = [request.range for request in origin.requests if request.path == held]
        assert asked(origin) == {name: 2 if name == held else 1 for name in files}
    assert again == [None, f"bytes={3 << 20}-"]
    assert (summary.exit_code, summary.files.failed) == (0, 0)
    assert summary.files.done + summary.files.skipped == 41
    assert tree(tmp_path / "to") == whole(files)
    assert len(workers) > 2


@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [(9, 3, "ended with exit code 9 over the same files"), (70, 70, "met a bug in cfetch")],
    ids=["killed", "bug"],
)
def test_processes_that_die_again_and_again_end_the_run(tmp_path, monkeypatch, code, exit_code, said):
    """With what to do about it; a bug at once."""
    monkeypatch.setattr(worker, "_BOOT", f"import os; os._exit({code})")
    told: list[Event] = []
    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, tmp_path / "to", told.append, **TWO)
        assert asked(origin) == {}
    assert summary.exit_code == exit_code
    (stopping,) = [event.reason for event in told if isinstance(event, RunStopping)]
    assert said in stopping


class Stopper:
    """A listener that stops the process which holds the first file, while the server holds that file back.

    ``worker``: the process's handle, once it is stopped; ``notes``: of the run.
    """

    held = dict.fromkeys(NAMES[:1], Fault(kind="stall", after_bytes=500))  # once: a copy gets all of it

    def __init__(self, workers, **limits):
        self.workers, self.limits = workers, limits
        self.worker: Any = None
        self.notes = list[str]()

    def __call__(self, event):
        """Take the next event of the run."""
        if isinstance(event, RunNoted):
            self.notes.append(event.note)
        active = event.active if isinstance(event, Progress) and self.worker is None else []
        if any(attempt.path == NAMES[0] and attempt.bytes for attempt in active):
            (self.worker,) = (held for held in self.workers if holds_the_first(held))
            os.kill(self.worker.pid, signal.SIGSTOP)
            vars(self.worker).update(self.limits)  # only of this one: the other may be slow


def holds_the_first(held):
    """Whether the process brings the share with the first file."""
    return held.order is not None and any(entry.path == NAMES[0] for entry in held.order.share.entries)


def test_a_process_that_stands_still_loses_its_files_to_another(tmp_path, workers):
    """A note names it, and the run ends as if nothing had happened."""
    stopper = Stopper(workers, most_silent_s=3.0)  # a few signs of life
    with served(FILES, Stopper.held) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, tmp_path / "to", stopper, **TWO, **HELD)
    assert (summary.exit_code, summary.files.failed) == (0, 0)
    assert tree(tmp_path / "to") == whole(FILES)
    (note,) = stopper.notes
    assert f"process {stopper.worker.pid} of this run gave no sign of life" in note
    assert not is_alive(stopper.worker.pid)


def test_an_idle_process_brings_a_copy_of_what_stands_still(tmp_path, monkeypatch, workers):
    """Long before the one that stands still is given up; the run does not wait for it either."""
    stopper = Stopper(workers, useless_s=1.0, most_silent_s=math.inf)

    class Expired(OwnShares):
        """Of the stopped process, the lease is over."""

        def take(self):
            with self._lock:
                if stopper.worker is not None and not self._units[stopper.worker.order.turn.share].is_over:
                    self._units.step(
                        stopper.worker.order.turn.share, Renewed(stopper.worker.order.turn.task, 0.0)
                    )
            return super().take()

    monkeypatch.setattr(engine, "OwnShares", Expired)
    with served(FILES, Stopper.held) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, tmp_path / "to", stopper, **TWO, **HELD)
    assert (summary.exit_code, summary.files.failed) == (0, 0)
    assert tree(tmp_path / "to") == whole(FILES)
    (note,) = stopper.notes
    assert f"process {stopper.worker.pid} of this run gave no sign of life" in note
    assert not is_alive(stopper.worker.pid)
    assert len(workers) == 2


def test_a_process_that_cannot_be_let_go_ends_the_run(tmp_path, monkeypatch, workers):
    """With the error, instead of a run that waits for ever with all its files in place."""
    close, in_place, brought = worker.Worker.close, list[Event](), threading.Event()

    def fail(self):
        close(self)
        assert brought.wait(60)  # the error stops the other process too, which may not have begun yet
        raise LocalFault("the process cannot be reaped")

    def listen(event):
        in_place.extend([event] if isinstance(event, EntryFinished) else [])
        if len(in_place) == len(FILES):
            brought.set()

    monkeypatch.setattr(worker.Worker, "close", fail)
    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, tmp_path / "to", listen, **TWO)
    assert (summary.exit_code, summary.files.done) == (3, len(FILES))


def test_a_fault_of_one_process_ends_the_run(tmp_path):
    """Exit 3, said once: here the directory of the run has gone."""
    to, told = tmp_path / "to", list[Event]()

    def spoil(event):
        told.append(event)
        if isinstance(event, RunStarted):
            for epoch in (to / ".cfetch/attempts").glob("*/*"):
                epoch.rmdir()

    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, to, spoil, **TWO)
        assert asked(origin) == {}
    assert summary.exit_code == 3
    assert len([event for event in told if isinstance(event, RunStopping)]) == 1


def test_processes_together_keep_the_limit_of_a_host(tmp_path, workers):
    """Three connections in all, which no fixed share of two processes allows."""
    rows = [{"path": f"f{n}", "size": 1000} for n in range(200)]
    with counting(together=3) as origin:
        files = [{"url": f"{origin.url}{row['path']}", **row} for row in rows]
        (tmp_path / "m.json").write_bytes(msgspec.json.encode({"version": 1, "files": files}))
        summary = download(tmp_path / "m.json", tmp_path / "to", concurrency=8, per_host=3, **TWO, **HELD)
        assert (origin.requests, origin.most_asking) == (200, 3)
    assert (summary.exit_code, len(workers)) == (0, 2)


def test_processes_share_the_places_and_the_rate(tmp_path, workers):
    """No more downloads at a time than by one process, and each has its part of the rate."""
    rows = [{"path": f"f{n}", "size": 1000} for n in range(60)]
    with counting() as origin:
        files = [{"url": f"{origin.url}{row['path']}", **row} for row in rows]
        (tmp_path / "m.json").write_bytes(msgspec.json.encode({"version": 1, "files": files}))
        options = {"concurrency": 5, "max_concurrency": 5, "limit_rate": 1 << 20}
        assert download(tmp_path / "m.json", tmp_path / "to", **options, **TWO).exit_code == 0
        assert origin.most_asking <= 5
    assert [(member.spec.settings.concurrency, member.spec.at_a_time) for member in workers] == [(2, 2)] * 2


def test_many_small_files_are_shared_out_without_being_asked(tmp_path, monkeypatch, workers):
    """As the rule in ``process_count.py`` says, which is made smaller here."""
    monkeypatch.setattr(process_count, "LEAST_FILES", 20)
    monkeypatch.setattr(engines, "count_cores", lambda: 4)
    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        assert download(manifest, tmp_path / "to").exit_code == 0
    assert len(workers) == 2


@pytest.mark.parametrize("roots", [("s3://bucket",), ("/a", "s3://bucket")])
def test_what_several_processes_cannot_share_is_brought_by_one(roots):
    """An object store: a note says so."""
    local = [root for root in roots if root.startswith("/")]
    volumes: Any = SimpleNamespace(roots=roots, local=local, stores=["s3://bucket"])
    network: Any = SimpleNamespace(stays_here=False)
    context: Any = SimpleNamespace(settings=Settings(processes=2), volumes=volumes, network=network)
    plan: Any = None
    count, note = engines.count_processes(plan, context)
    assert (count, note) == (
        1,
        "one process and not 2: several share the work only where files go to directories",
    )


def test_c109_no_secret_is_in_the_arguments_or_the_environment_of_a_process(tmp_path, workers, monkeypatch):
    """Signed links and headers go through the pipe."""
    monkeypatch.setattr(warm, "CHILD", "\n")  # so that none is forked: then it has the arguments of another
    with served(FILES) as origin:
        rows = [{"url": f"{name}?signature=s3cr3t", "path": name} for name in NAMES]
        document = {"version": 1, "base_url": origin.url, "headers": {"X-Key": "s3cr3t"}, "files": rows}
        (tmp_path / "m.json").write_bytes(msgspec.json.encode(document))
        assert download(tmp_path / "m.json", tmp_path / "to", **TWO).exit_code == 0
        assert {request.query for request in origin.requests} == {"signature=s3cr3t"}
    assert len(workers) == 2
    assert all(worker._BOOT.encode() in member.known_to_all for member in workers)
    assert not any(b"s3cr3t" in member.known_to_all for member in workers)


LARGE = {f"d/{i}": Synthetic(f"d/{i}", 2 * MIB) for i in range(8)}


@pytest.fixture
def holding():
    """An origin that holds each file in its middle, until the test takes its faults away."""
    held = dict.fromkeys(LARGE, Fault(kind="stall", after_bytes=MIB, first=0))
    with serving(LARGE, faults=held) as origin:
        yield origin


@pytest.fixture
def scene(tmp_path, holding):
    """A job as the command line runs it; it cannot end on its own while the test sees to its processes."""
    return Scene(tmp_path, holding.url, Children(), job=Job(LARGE, hashed=tuple(LARGE)))


def wait_for_parts(scene, process):
    """Until a process has begun, and the other one is there."""
    while not list(scene.to.glob(".cfetch/attempts/*/*/t*/*")) or len(children_of(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_c101_a_signal_to_all_processes_ends_the_run_in_good_order(scene, holding, number):
    """As Ctrl-C does: exit code and words of one process, records of what was cut off, and no child stays."""
    process = started(command(scene, "--processes", "2", "--json"), start_new_session=True)
    wait_for_parts(scene, process)
    workers = children_of(process.pid)
    os.killpg(process.pid, number)
    result = ended(process)
    assert (result.code, len(workers)) == (128 + number, 2)
    assert f"stopped by {number.name}" in result.said
    assert not any(map(is_alive, workers))
    summary = msgspec.json.decode(result.out)
    assert (summary["status"], summary["exit_code"]) == ("interrupted", 128 + number)
    lines = map(msgspec.json.decode, Path(summary["metrics"]).read_bytes().splitlines())
    statuses = [line["status"] for line in lines if line["schema"] == "cfetch.file/1"]
    assert "cancelled" in statuses
    assert scene.wrong() == []
    holding.script.faults = {}
    scene.finish()


PATHS = json.dumps(sys.path).encode() + b"\n"


@pytest.mark.parametrize("had", [b"", PATHS[:-1], PATHS, PATHS + b"\0\0"], ids=range(4))
def test_a_child_leaves_in_silence_when_its_parent_dies_at_the_start(had):
    """Whatever it has been told by then."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", worker._BOOT], input=had, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_children_leave_when_their_parent_is_killed(scene, holding):
    """At once; and the next run goes on with what they have left."""
    process = started(command(scene, "--processes", "2", "--quiet"))
    wait_for_parts(scene, process)
    workers = children_of(process.pid)
    process.kill()
    process.communicate()
    while any(map(is_alive, workers)):
        time.sleep(0.01)
    assert len(workers) == 2
    left = [path.stat().st_size for path in scene.to.glob(".cfetch/attempts/*/*/t*/*")]
    stands = sum(path.stat().st_size for path in scene.to.glob("d/*"))
    holding.script.faults = {}
    assert scene.finish() == scene.job.total_bytes - sum(left) - stands


def test_c92_killed_at_random(tmp_path):
    """One round of ``benchmarks/processes_soak.py``, with a small set."""
    report = soak(tmp_path, rounds=1, seed=2, large=8, small=100, twice=1.0)
    assert report.wrong == []
    assert report.workers_killed + report.parents_killed > 0


def test_each_file_ends_once_however_often_it_is_reported(tmp_path, workers):
    """By a part of a dead process and by its successor."""
    records: list[str] = []
    killed: list[int] = []

    def kill(event):
        if isinstance(event, EntryFinished):
            records.append(event.record.path)
            if not killed:
                killed.append(1)
                for member in workers:
                    member.kill()

    slow = {NAMES[-1]: Fault(kind="delay", delay_s=2.5)}
    with served(FILES, slow) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, tmp_path / "to", kill, **TWO, **HELD)
    assert summary.exit_code == 0
    assert sorted(records) == NAMES


def test_the_driver_reads_no_record_of_a_file_in_place(tmp_path, monkeypatch):
    """It copies the lines of its tasks to the metrics: one for each file, as a task has made it."""
    monkeypatch.setattr(RecordBlock, "read_records", None)
    lost = {NAMES[3]: Fault(kind="status", status=404, first=0)}
    told: list[Event] = []
    with served(FILES, lost) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        settings = Settings(to=(str(tmp_path / "to"),), processes=2)
        with prepare(str(manifest), settings, env={}) as prepared:
            summary = prepared.run(told.append)
    assert summary is not None
    assert (summary.files.done, summary.files.failed) == (39, 1)
    assert [line[0] for line in records_of(summary)] == NAMES
    assert [event.record.path for event in told if isinstance(event, EntryFinished)] == [NAMES[3]]
    assert sum(len(event.ids) for event in told if isinstance(event, EntriesFinished)) == 39


def test_reports_that_cannot_be_read_end_the_run(tmp_path, monkeypatch):
    """By the disk's fault, and not by a bug; the next run has nothing to fetch."""

    def fail(_block):
        raise OSError(errno.EIO, "Input/output error")

    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        settings = Settings(to=(str(tmp_path / "to"),), processes=2)
        with monkeypatch.context() as patch, prepare(str(manifest), settings, env={}) as prepared:
            patch.setattr(RecordBlock, "read_lines", fail)
            told: list[Event] = []
            summary = prepared.run(told.append)
        assert summary is not None
        assert summary.exit_code == 3
        (reason,) = (event.reason for event in told if isinstance(event, RunStopping))
        assert re.match(r"cannot read /.*/receipts/(share|part)-1-.*: Input/output error", reason)
        before = asked(origin)
        assert download(manifest, tmp_path / "to", processes=2).exit_code == 0
        assert sum((asked(origin) - before).values()) < len(FILES)
