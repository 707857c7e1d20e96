"""Several volumes, brought by a job on Spark: each batch whole on one of them, each file once."""

import os
import signal
from pathlib import Path

import pytest

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.errors import UsageError
from cfetch.base.events import BatchPlaced, Event, Progress, RunStarted
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark import placed_run
from cfetch.tasks.shares import cut
from tests.cluster.standalone import children, descendants
from tests.engine.drive import tree
from tests.tasks.processes.test_named_batches import BATCHES, FILES, find_wrong, write_batches
from tests.tasks.scene import asked, everything, served, whole

pytestmark = pytest.mark.usefixtures("spark")


def bring(manifest, volumes, told=lambda _: None, **settings):
    """Bring the manifest to these volumes by a job; the summary."""
    to = tuple(map(str, volumes))
    options = Settings(to=to, engine="spark", mitigation=False, **settings)
    with prepare(str(manifest), options, env={}) as prepared:
        return prepared.run(told)


def test_each_batch_goes_to_one_volume_as_a_whole(tmp_path):
    """The summary counts files and batches by volume, and a second run asks for nothing."""
    told, volumes = list[Event](), [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    with served(FILES) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url)
        first = bring(manifest, volumes, told.append)
        assert asked(origin) == dict.fromkeys(FILES, 1)
        again = bring(manifest, volumes)
        assert sum(asked(origin).values()) == len(FILES)
    assert (first.exit_code, first.files.done, again.files.skipped) == (0, 60, 60)
    assert everything(volumes) == whole(FILES)
    assert find_wrong(volumes, BATCHES) == []
    standing = [len(tree(volume)) for volume in volumes]
    assert min(standing) > 0
    assert [volume.files for volume in first.volumes] == standing
    assert [volume.files for volume in again.volumes] == standing
    assert sum(volume.batches for volume in first.volumes) == 11 + 5
    placed = [event.batch for event in told if isinstance(event, BatchPlaced)]
    assert len(set(placed)) == 16


def test_what_a_volume_refuses_goes_to_the_other(tmp_path):
    """The tasks cannot stage there any more, which only they know; the summary names the volume."""
    volumes = [tmp_path / "a", tmp_path / "b"]

    def spoil(event):
        if isinstance(event, RunStarted):
            for epoch in (volumes[1] / ".cfetch/attempts").glob("*/1"):
                epoch.rmdir()

    with served(FILES) as origin:
        summary = bring(write_batches(tmp_path / "m.json", origin.url), volumes, spoil)
    assert (summary.exit_code, summary.files.done) == (0, 60)
    assert [len(tree(volume)) for volume in volumes] == [60, 0]
    assert everything(volumes) == whole(FILES)
    assert find_wrong(volumes, BATCHES) == []
    assert summary.volumes[1].out_of_use is not None


# the server holds these back, so that no run is over before it is disturbed, however late that comes
HELD = {name: Fault(kind="stall", after_bytes=0, first=0) for name in list(FILES)[-6:]}


def list_workers():
    """Python processes in which tasks run: children of the process that Spark's JVM forks them from."""
    daemons = [pid for pid in descendants(os.getpid()) if b"pyspark.daemon" in _read_command(pid)]
    return [worker for pid in daemons for worker in children(pid)]


def _read_command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_shares_of_tasks_that_die_go_on_elsewhere(tmp_path, monkeypatch):
    """Each batch is whole and counted once; on one machine Spark ends the job, and another one goes on."""
    monkeypatch.setattr(cut, "SHORTEST_S", 0.1)
    volumes, killed = [tmp_path / "a", tmp_path / "b"], list[int]()

    with served(FILES, HELD) as origin:

        def kill(event):
            if isinstance(event, Progress) and event.done >= 10 and not killed:
                killed.extend(list_workers())
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                origin.script.faults = {}

        manifest = write_batches(tmp_path / "m.json", origin.url)
        summary = bring(manifest, volumes, kill, concurrency=1)
        assert max(asked(origin).values()) <= 2
    assert killed
    assert (summary.exit_code, summary.files.done + summary.files.skipped) == (0, 60)
    assert everything(volumes) == whole(FILES)
    assert find_wrong(volumes, BATCHES) == []


def test_a_signal_ends_the_run_in_good_order_and_the_next_one_goes_on(tmp_path, monkeypatch):
    """No batch is torn, what was committed is not asked for again, and no order or part is left."""
    monkeypatch.setattr(cut, "SHORTEST_S", 0.1)
    volumes, sent = [tmp_path / "a", tmp_path / "b"], list[bool]()

    def interrupt(event):
        if isinstance(event, Progress) and event.done >= 10 and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    with served(FILES, HELD) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url)
        first = bring(manifest, volumes, interrupt, concurrency=1)
        assert (first.exit_code, find_wrong(volumes, BATCHES)) == (130, [])
        origin.script.faults = {}
        before = asked(origin)
        second = bring(manifest, volumes)
        again = sum((asked(origin) - before).values())
    assert (second.exit_code, second.files.skipped + second.files.done) == (0, 60)
    assert second.files.skipped >= first.files.done > 0
    assert again <= second.files.done
    assert everything(volumes) == whole(FILES)
    assert find_wrong(volumes, BATCHES) == []
    assert [path for volume in volumes for path in volume.glob(".cfetch/attempts/*/*/*")] == []


def test_a_session_that_tasks_cannot_reach_is_refused(tmp_path, monkeypatch):
    """Through Spark Connect nobody could tell them which volume a batch goes to; nothing is asked for."""
    monkeypatch.setattr(placed_run, "find_driver_address", lambda _: None)
    with served(FILES) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url)
        with pytest.raises(UsageError, match="Spark Connect"):
            bring(manifest, [tmp_path / "a", tmp_path / "b"])
        assert asked(origin) == {}


def test_lists_that_spark_prepares_are_refused(tmp_path):
    """No machine holds them that could place their files; nothing is asked for, and nothing done in part."""
    (tmp_path / "lists").mkdir()
    with served(FILES) as origin:
        write_batches(tmp_path / "lists/m.json", origin.url)
        with pytest.raises(UsageError, match="place its files on several volumes"):
            bring(tmp_path / "lists", [tmp_path / "a", tmp_path / "b"])
        assert asked(origin) == {}
