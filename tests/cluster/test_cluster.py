"""A real cluster that loses an executor, its driver or a machine's speed: nothing is lost.

Run by ``scripts/cluster-test``; each test prints what it has measured (``-s``).
"""

import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from cfetch.base.events import Event, ExecutorSlow
from cfetch.plugins.spark.job import SETTINGS
from cfetch.tasks.shares import cut
from tests.cluster.scene import FILES, LATE, begin, ended, in_place, result, wait_until
from tests.cluster.standalone import Cluster, descendants
from tests.tasks.processes.test_named_batches import find_wrong, write_batches
from tests.tasks.scene import download, served, whole, write_manifest

pytestmark = pytest.mark.cluster

MOST_EXTRA_PERCENT = 2.0
MOST_EXTRA_OF_BATCHES_PERCENT = 5.0  # two tasks die, each with some batches of 25 files that begin anew


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One for all tests: a lost executor is replaced."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def origin(tmp_path):
    """With its manifest in ``tmp_path``."""
    with served(FILES, LATE) as running:
        write_manifest(tmp_path / "m.json", running, FILES)
        yield running


def rows_of(manifest):
    """Its entries."""
    return json.loads(manifest.read_text())["files"]


def check(found, most_extra=MOST_EXTRA_PERCENT):
    """Everything is there, and was told once."""
    print(found.line())
    assert (found.code, found.is_whole) == (0, True), found.said
    assert (set(found.told), set(found.told.values())) == (set(FILES), {1})
    assert found.extra < most_extra


def test_an_executor_is_killed(cluster, origin, tmp_path):
    """Its tasks go on elsewhere, where they were."""
    to = tmp_path / "to"
    driver = begin(cluster, tmp_path / "m.json", to)
    wait_until(lambda: in_place(to) > len(FILES) // 3, driver)
    (executor,) = cluster.executors("127.0.0.3")
    os.kill(executor, signal.SIGKILL)
    check(ended(driver, origin, to))
    assert list((to / ".cfetch/attempts").iterdir()) == []


def test_an_executor_is_killed_and_the_files_are_in_batches(cluster, origin, tmp_path):
    """Each named batch is whole and there once, whoever brings it in the end."""
    to, batches = tmp_path / "to", {name: f"batch {n // 25}" for n, name in enumerate(FILES)}
    driver = begin(cluster, write_batches(tmp_path / "m.json", origin.url, FILES, batches), to)
    wait_until(lambda: in_place(to) > len(FILES) // 3, driver)
    (executor,) = cluster.executors("127.0.0.3")
    os.kill(executor, signal.SIGKILL)
    check(ended(driver, origin, to), MOST_EXTRA_OF_BATCHES_PERCENT)
    assert find_wrong([to], batches) == []


@pytest.mark.parametrize("count", [2, 4])
def test_an_executor_is_killed_and_batches_go_to_several_volumes(cluster, origin, tmp_path, count):
    """Each batch is whole on one volume, whoever asks for its share in the end."""
    batches = {name: f"batch {n // 25}" for n, name in enumerate(FILES)}
    volumes = [tmp_path / f"to{n}" for n in range(count)]
    more = [word for volume in volumes[1:] for word in ("--to", str(volume))]
    driver = begin(cluster, write_batches(tmp_path / "m.json", origin.url, FILES, batches), volumes[0], *more)
    wait_until(lambda: sum(map(in_place, volumes)) > len(FILES) // 3, driver)
    (executor,) = cluster.executors("127.0.0.3")
    os.kill(executor, signal.SIGKILL)
    check(ended(driver, origin, *volumes), MOST_EXTRA_OF_BATCHES_PERCENT)
    assert find_wrong(volumes, batches) == []
    assert min(map(in_place, volumes)) > 0


def test_an_executor_is_killed_and_the_files_are_objects(cluster, origin, tmp_path, bucket):
    """Its tasks go on elsewhere; each object is whole, and each file was told once."""
    state = tmp_path / "state"
    driver = begin(cluster, tmp_path / "m.json", bucket.url, "--state", str(state))
    wait_until(lambda: len(origin.requests) > len(FILES) // 3, driver)
    (executor,) = cluster.executors("127.0.0.3")
    os.kill(executor, signal.SIGKILL)
    out, said = driver.communicate(timeout=600)
    summary = json.loads(out)
    lines = [json.loads(line) for line in Path(summary["metrics"]).read_text().splitlines()]
    told = Counter(line["path"] for line in lines if line["schema"] == "cfetch.file/1")
    print(f"{summary['files']}; {len(origin.requests)} requests, {summary['elapsed_s']:.1f} s")
    assert (driver.returncode, told) == (0, dict.fromkeys(FILES, 1)), said
    wrong = [name for name, data in whole(FILES).items() if bucket.get(name) != data]
    assert (wrong, bucket.uploads(), list(state.glob("attempts/*"))) == ([], [], [])
    assert len(origin.requests) < len(FILES) * (1 + MOST_EXTRA_PERCENT / 100)


def test_a_session_by_spark_connect(cluster, origin, tmp_path):
    """The driver has no JVM, and the server's executors do the work."""
    to = tmp_path / "to"
    try:
        found = ended(begin(cluster, tmp_path / "m.json", to, master=cluster.connect()), origin, to)
    finally:
        cluster.stop("connect")  # else it keeps its executors, and later tests find no room
    check(found)
    assert "Warning" not in found.said


def test_a_directory_of_manifests_outlives_an_executor_and_a_driver(cluster, origin, tmp_path):
    """Prepared by the cluster; then an executor dies, the driver, and the second driver goes on."""
    folder, to = tmp_path / "manifests", tmp_path / "to"
    folder.mkdir()
    rows = [{**row, "url": origin.url + row["url"]} for row in rows_of(tmp_path / "m.json")]
    for at in range(4):
        lines = (json.dumps(row) + "\n" for row in rows[at::4])
        (folder / f"{at}.jsonl").write_text("".join(lines))
    first = begin(cluster, folder, to)
    wait_until(lambda: in_place(to) > len(FILES) // 4, first)
    (executor,) = cluster.executors("127.0.0.3")
    os.kill(executor, signal.SIGKILL)
    wait_until(lambda: in_place(to) > len(FILES) // 2, first)
    first.kill()
    first.communicate()
    found = ended(begin(cluster, folder, to), origin, to)
    print(found.line())
    assert (found.code, found.is_whole) == (0, True), found.said
    assert (set(found.told), set(found.told.values())) == (set(FILES), {1})
    assert found.extra < 2 * MOST_EXTRA_PERCENT  # two have died
    assert list((to / ".cfetch/plans").glob("*")) == []


def test_the_driver_is_killed_and_run_again(cluster, origin, tmp_path):
    """The second finds what the tasks of the first have told, and what they have published."""
    to = tmp_path / "to"
    first = begin(cluster, tmp_path / "m.json", to)
    wait_until(lambda: in_place(to) > len(FILES) // 3, first)
    first.kill()
    first.communicate()
    found = ended(begin(cluster, tmp_path / "m.json", to), origin, to)
    check(found)
    assert found.summary["files"]["skipped"] > len(FILES) // 4


def test_a_signal_ends_a_cluster_in_good_order(cluster, origin, tmp_path):
    """All executors close what they have begun: exit 130, and nothing runs on."""
    to = tmp_path / "to"
    first = begin(cluster, tmp_path / "m.json", to)
    wait_until(lambda: in_place(to) > len(FILES) // 3, first)
    first.send_signal(signal.SIGINT)
    stopped = ended(first, origin, to)
    assert (stopped.code, stopped.summary["status"]) == (130, "interrupted")
    requests = len(origin.requests)
    time.sleep(1)  # a task that lived on would ask in this time
    assert len(origin.requests) == requests
    check(ended(begin(cluster, tmp_path / "m.json", to), origin, to))


def test_a_slow_machine_is_helped(cluster, origin, tmp_path, monkeypatch):
    """One that runs a tenth of the time: copies on the other begin at the other end."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(cut, "SHORTEST_S", 1.0)  # some shares a slot, as in a long run
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    quick = {"spark.speculation.minTaskRuntime": "3s", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.master(cluster.url).config(map={**SETTINGS, **quick})
    session = builder.getOrCreate()
    over = threading.Event()

    def hold_up():
        wait_until(lambda: in_place(tmp_path / "to") > 0 or over.is_set())
        while not over.is_set():
            pids = [pid for one in cluster.executors("127.0.0.2") for pid in (one, *descendants(one))]
            _signal(pids, signal.SIGSTOP)
            over.wait(1.8)
            _signal(pids, signal.SIGCONT)
            over.wait(0.2)

    holding = threading.Thread(target=hold_up)
    holding.start()
    told: list[Event] = []
    try:
        summary = download(tmp_path / "m.json", tmp_path / "to", told.append, engine="spark")
    finally:
        over.set()
        holding.join()
        session.stop()
    check(result(summary.exit_code, msgspec.to_builtins(summary), "", origin, tmp_path / "to"))
    named = {one.executor.rpartition(" on ")[2] for one in told if isinstance(one, ExecutorSlow)}
    assert named == {"127.0.0.2"}


def _signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
