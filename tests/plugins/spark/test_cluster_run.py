"""Whole downloads as jobs on Spark: the same as on one machine, and what is special about them."""

import json
import os
import re
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Held, UsageError
from cfetch.base.events import STARTING, EntryFinished, Event, Progress, RunNoted, RunStarted, RunStopping
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark import cluster_run
from cfetch.plugins.spark.cluster_run import CutJob
from cfetch.plugins.spark.job import count_slots, note_missing_settings
from cfetch.plugins.spark.open_shares import OpenShares
from cfetch.plugins.spark.share_files import ShareFiles
from cfetch.plugins.spark.work import find_task_fault
from cfetch.run.fresh_links import ManifestRef
from cfetch.tasks.hub.server import HubPlace
from cfetch.tasks.shares import cut, driver
from cfetch.tasks.shares.task_destination import directory_destination
from cfetch.tasks.shares.work import RunSpec
from tests.engine.drive import tree
from tests.tasks.counting import counting
from tests.tasks.processes.test_named_batches import find_wrong, write_batches
from tests.tasks.scene import asked, download, files_of, served, whole, write_manifest

pytestmark = pytest.mark.usefixtures("spark")

FILES = files_of(40)
NAMES = list(FILES)
MANY_SHARES = {"concurrency": 1}
HELD = {"mitigation": False}  # what the server holds is held: no straggler, and no helper for its bytes


@pytest.fixture
def small_shares(monkeypatch):
    """Shares of a few files, one after another on a slot."""
    monkeypatch.setattr(cut, "SHORTEST_S", 0.1)


def told_of(summary):
    """A summary without what differs between any two runs."""
    found = msgspec.structs.asdict(summary)
    found["failures"] = [msgspec.structs.replace(failure, url="") for failure in summary.failures]  # its port
    return {key: found[key] for key in found if key not in ("instant", "elapsed_s", "rate_bps", "metrics")}


def list_notes(told):
    """The notes of a run, but for the one that Spark starts."""
    notes = [event.note for event in told if isinstance(event, RunNoted)]
    return [note for note in notes if not note.startswith(STARTING)]


def left_in(to):
    """Files of our own that a completed run leaves."""
    return {
        path.relative_to(to / ".cfetch").parts[0] for path in (to / ".cfetch").rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("failing", [False, True], ids=["all well", "one is missing"])
def test_the_same_as_on_one_machine(tmp_path, failing):
    """Tree, summary and lines of the metrics; and nothing is fetched the second time."""
    faults = {NAMES[7]: Fault(kind="status", status=404, first=0)} if failing else {}
    faults[NAMES[9]] = Fault(kind="reset", after_bytes=10)
    with served(FILES, faults) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        local = download(manifest, tmp_path / "local", **HELD)
    with served(FILES, faults) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        spark = download(manifest, tmp_path / "spark", engine="spark", **HELD)
        assert asked(origin) == {name: 2 if name == NAMES[9] else 1 for name in NAMES}
        again = download(manifest, tmp_path / "spark", engine="spark", **HELD)
        assert sum(asked(origin).values()) == 41 + failing
    assert told_of(spark) == told_of(local)
    assert spark.exit_code == failing
    assert [failure.path for failure in spark.failures] == [NAMES[7]] * failing
    assert tree(tmp_path / "spark") == tree(tmp_path / "local")
    assert (again.files.done, again.files.skipped, again.files.failed) == (0, 40 - failing, failing)
    lines = [msgspec.json.decode(line) for line in Path(spark.metrics).read_bytes().splitlines()]
    assert sorted(line["path"] for line in lines if line["schema"] == "cfetch.file/1") == NAMES
    if not failing:
        assert left_in(tmp_path / "spark") == {"ballast", "format", "metrics", "timeline"}


class Died(BaseException):
    """As if the driver were no more: nothing of ours catches it."""


def is_for_others(path):
    """Whether others may use it. A task that lives on may give its temporary file another name meanwhile."""
    with suppress(FileNotFoundError):
        return bool(path.stat().st_mode & 0o077)
    return False


def test_a_driver_that_dies_is_followed_by_one_that_goes_on(tmp_path, small_shares):
    """Only what has no receipt is asked for again, and what was taken away since."""
    done: list[str] = []

    def die(event):
        if isinstance(event, EntryFinished):
            done.append(event.record.path)
        if isinstance(event, Progress) and len(done) > 2:
            raise Died

    held = Fault(kind="stall", after_bytes=10, first=1)
    with served(FILES, {NAMES[-1]: held, NAMES[-2]: held}) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        with pytest.raises(Died):
            download(manifest, tmp_path / "to", die, engine="spark", **MANY_SHARES, **HELD)
        plans = tmp_path / "to/.cfetch/plans"
        assert [path for path in (plans, *plans.rglob("*")) if is_for_others(path)] == []
        (tmp_path / "to" / done[0]).unlink()
        (tmp_path / "to" / done[1]).write_bytes(b"cut short")
        before = asked(origin)
        told: list[Event] = []
        summary = download(manifest, tmp_path / "to", told.append, engine="spark", **MANY_SHARES)
        again = asked(origin) - before
    first_look = next(at for at, event in enumerate(told) if isinstance(event, Progress))
    known = [event.record.path for event in told[:first_look] if isinstance(event, EntryFinished)]
    assert set(known) >= set(done[2:])  # from receipts, before any task has begun
    assert summary.exit_code == 0
    assert 2 < len(done) < 40
    assert (again[done[0]], again[done[1]]) == (1, 1)
    assert set(again) & set(done[2:]) == set()
    assert summary.files.done + summary.files.skipped == 40
    assert tree(tmp_path / "to") == whole(FILES)


def test_a_signal_ends_the_run_in_good_order(tmp_path, small_shares):
    """Once what is under way is shown: tasks close it; exit 130; the next run goes on."""
    told: list[Event] = []

    sent: list[bool] = []

    def once(event):
        under_way = [one.path for one in event.active] if isinstance(event, Progress) and event.done else []
        if NAMES[-1] in under_way and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        told.append(event)

    handler = signal.getsignal(signal.SIGINT)
    held = Fault(kind="stall", after_bytes=10, first=1)
    with served(FILES, {NAMES[-1]: held}) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        first = download(manifest, tmp_path / "to", once, engine="spark", **MANY_SHARES, **HELD)
        assert (first.exit_code, first.status) == (130, "interrupted")
        assert signal.getsignal(signal.SIGINT) is handler
        assert len([one for one in told if isinstance(one, RunStopping)]) == 1
        before = asked(origin)
        second = download(manifest, tmp_path / "to", engine="spark", **MANY_SHARES)
        again = asked(origin) - before
    assert second.exit_code == 0
    assert second.files.skipped >= first.files.done > 0
    assert first.files.done < 40
    assert sum(again.values()) == second.files.done
    assert tree(tmp_path / "to") == whole(FILES)


# the slow files take ten seconds, and the others less than a second on a busy machine too
FORMULA = {"policy": "cloudfetch", "multiplier": 1.1, "quantile": 0.2, "padding": 2.0, "check_interval": 0.05}


@pytest.mark.parametrize("rule", [FORMULA, {"segments": 1}], ids=["cloudfetch", "adaptive"])
def test_stragglers_are_rescued_inside_their_task(tmp_path, rule):
    """By the rules of a run on one machine. Without segments no idle slot takes the rest first."""
    slow = Fault(kind="slow", rate_bps=100)
    with served(FILES, {NAMES[3]: slow, NAMES[30]: slow}) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, tmp_path / "to", engine="spark", **rule)
    assert (summary.exit_code, summary.stragglers.cancelled) == (0, 2)
    assert tree(tmp_path / "to") == whole(FILES)


def test_an_executor_that_cannot_work_ends_the_run(tmp_path):
    """Exit 3 in the executor's own words, without Spark's; nothing is asked for."""
    to = tmp_path / "to"

    told: list[Event] = []

    def spoil(event):
        told.append(event)
        if isinstance(event, RunStarted):
            for epoch in (to / ".cfetch/attempts").glob("*/*"):
                epoch.rmdir()

    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, to, spoil, engine="spark")
        assert asked(origin) == {}
    assert summary.exit_code == 3
    (stopping,) = [event.reason for event in told if isinstance(event, RunStopping)]
    assert re.fullmatch(r"an executor cannot work: .* is not there on .*", stopping)
    assert "Py4J" not in stopping


def test_a_task_that_does_not_see_the_drivers_directory_is_quoted(tmp_path, spark):
    """Its own sentence is found in what Spark makes of it."""
    spec = RunSpec(
        settings=Settings(),
        headers=(),
        env={},
        origin=ManifestRef("m.json", None, None),
        instant="i",
        epoch=1,
        wall_start_s=0.0,
        destination=directory_destination(Path("/r"), "i", 1),
        receipts="/r",
        part_s=1.0,
        at_a_time=1,
    )
    gone = ShareFiles(directory=str(tmp_path / "gone"), count=1, per_file=1)
    job = CutJob(spark, spec, OpenShares(gone, range(1), []), 1)
    assert job.wait(60)
    failure = job.failure
    said = failure and find_task_fault(failure)
    assert said
    assert said.startswith(f"cannot use {tmp_path}/gone/part-000000.parquet: ")
    assert "\n" not in said
    assert find_task_fault(ValueError("something else")) is None


@pytest.mark.parametrize("failing", [False, True], ids=["all well", "one is missing"])
def test_named_batches_come_whole_or_not_at_all(tmp_path, small_shares, failing):
    """Each by one task; the second run asks only for what is missing."""
    faults = {NAMES[7]: Fault(kind="status", status=404, first=0)} if failing else {}
    batches = {name: f"batch {n // 5}" for n, name in enumerate(NAMES[:35])}  # five files are alone
    receipts = list[str]()
    to = tmp_path / "to"

    def look(_):
        receipts.extend(path.name for path in to.glob(".cfetch/plans/*/receipts/share-*"))

    with served(FILES, faults) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url, FILES, batches)
        summary = download(manifest, to, look, engine="spark", **MANY_SHARES, **HELD)
        before = asked(origin)
        again = download(manifest, to, engine="spark", **MANY_SHARES, **HELD)
        assert asked(origin) - before == Counter({NAMES[7]: 1} if failing else {})
    assert len(set(receipts)) > 2
    assert (summary.exit_code, summary.files.done) == (failing, 40 - 5 * failing)
    assert (again.exit_code, again.files.skipped) == (failing, 40 - 5 * failing)
    assert find_wrong([to], batches) == []


@pytest.mark.parametrize("what", ["a store among several", "batches in a store"])
def test_what_spark_does_not_do_is_refused(tmp_path, what):
    """Before anything is asked for, and not done in part."""
    rows = [{"url": name, "path": name, "batch": "b"} for name in NAMES]
    to: tuple[str, ...] = (str(tmp_path / "to"),)
    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        pytest.importorskip("obstore")
        if what == "batches in a store":
            to = ("s3://bucket/set",)
            manifest.write_text(json.dumps({"version": 1, "base_url": origin.url, "files": rows}))
        else:
            to = (*to, "s3://bucket/set")
        settings = Settings(to=to, engine="spark", state=str(tmp_path / "state"))
        with (
            prepare(str(manifest), settings, env={}) as prepared,
            pytest.raises(UsageError, match=r"--engine spark"),
        ):
            prepared.run(lambda _: None)
        assert asked(origin) == {}


def test_another_live_run_keeps_this_one_off(tmp_path):
    """Exit 4, before anything is asked for."""
    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        settings = Settings(to=(str(tmp_path / "to"),), engine="spark", mitigation=False)
        seen: list[Event] = []

        def meanwhile(event):
            if not seen:
                seen.append(event)
                local = replace(settings, engine="local")
                with prepare(str(manifest), local, env={}) as other, pytest.raises(Held):
                    other.run(lambda _: None)

        with prepare(str(manifest), settings, env={}) as prepared:
            prepared.run(meanwhile)
        assert set(asked(origin).values()) == {1}
    assert tree(tmp_path / "to") == whole(FILES)


def session_of(**values) -> Any:
    """What is asked of a session."""
    return SimpleNamespace(conf={name.replace("_", "."): value for name, value in values.items()})


def test_a_session_of_somebody_else_is_told_what_it_lacks(spark):
    """On a cluster; on one machine there is no other for a copy."""
    assert note_missing_settings(session_of(spark_master="spark://m:7077", spark_speculation="true")) == [
        "the Spark session lacks spark.excludeOnFailure.enabled=true; see docs/spark.md"
    ]
    assert note_missing_settings(session_of(spark_master="local[4]")) == note_missing_settings(spark) == []
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.default.parallelism", "7")  # a host's limit would be divided by 7, or by 1
    try:
        assert (spark.sparkContext.defaultParallelism, count_slots(spark)) == (7, 2)
    finally:
        conf.remove("spark.default.parallelism")


def test_a_host_that_makes_more_executors_useless_is_told(tmp_path):
    """Before the run; it goes on."""
    told: list[Event] = []
    files = {"big": Synthetic("big", 3 << 30)} | files_of(3)
    with served(files, {"big": Fault(kind="status", status=404, first=0)}) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, files, digest=False)
        download(manifest, tmp_path / "to", told.append, engine="spark")
    (note,) = list_notes(told)
    assert re.fullmatch(
        r"127.0.0.1:\d+ alone takes about .*, and more executors do not make that shorter", note
    )


def test_tasks_together_keep_the_limit_of_a_host(tmp_path, small_shares):
    """Two at a time, eight files each: three connections in all, which no fixed share allows."""
    told: list[Event] = []
    rows = [{"path": f"f{n}", "size": 1000} for n in range(300)]
    with counting(together=3) as origin:
        files = [{"url": f"{origin.url}{row['path']}", **row} for row in rows]
        (tmp_path / "m.json").write_text(json.dumps({"version": 1, "files": files}))
        options = {"engine": "spark", "concurrency": 8, "per_host": 3, **HELD}
        summary = download(tmp_path / "m.json", tmp_path / "to", told.append, **options)
        assert (origin.requests, origin.most_asking) == (300, 3)
    assert summary.exit_code == 0
    seen = [event.executors for event in told if isinstance(event, Progress)]
    assert max(sum(one.tasks for one in executors) for executors in seen) == 2


def test_a_stop_comes_through_the_hub(tmp_path, monkeypatch):
    """Here the file that says so has a name that no task looks for."""
    monkeypatch.setattr(driver, "STOP_NAME", "elsewhere")
    sent: list[bool] = []

    def once(event):
        is_due = isinstance(event, Progress) and event.active and event.done == len(NAMES) - 1
        if is_due and not sent:
            sent.append({one.executor for one in event.active} == {one.name for one in event.executors})
            os.kill(os.getpid(), signal.SIGINT)

    held = Fault(kind="stall", after_bytes=10, first=0)
    with served(FILES, {NAMES[-1]: held}) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        summary = download(manifest, tmp_path / "to", once, engine="spark", stall_timeout=600.0, **HELD)
    assert sent == [True]
    assert (summary.exit_code, summary.status) == (130, "interrupted")
    assert summary.files.done == 39


@pytest.mark.parametrize("at", [HubPlace("192.0.2.1"), None])
def test_without_a_hub_a_run_is_the_same(tmp_path, monkeypatch, at):
    """No address to listen at, or Connect, which tells none: receipts alone report the files."""
    monkeypatch.setattr(cluster_run, "find_driver_address", lambda _: at)
    told: list[Event] = []
    with served(FILES) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        assert download(manifest, tmp_path / "to", told.append, engine="spark").exit_code == 0
    notes = list_notes(told)
    assert len(notes) == (at is not None)
    assert all(
        re.fullmatch(r"executors cannot be heard at 192.0.2.1 \(.+\): no live view of them", one)
        for one in notes
    )
    assert tree(tmp_path / "to") == whole(FILES)
