"""Jobs on Spark whose files become objects, at a real S3 API server: whole, told once, and fenced."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark.preflight import Look, probe_executor
from cfetch.storage.buckets.object_store import pick_login
from cfetch.tasks.shares.task import bring_share
from cfetch.tasks.shares.task_destination import store_destination
from cfetch.tasks.shares.work import Turn
from tests.tasks.scene import asked, files_of, served, share_of, spec_of, whole, write_manifest

FILES = files_of(20)
NAMES = list(FILES)


def download(manifest, bucket, state):
    """A whole run by Spark; its summary."""
    settings = Settings(to=(bucket.url,), state=str(state), engine="spark")
    with prepare(str(manifest), settings, env=dict(os.environ)) as prepared:
        summary = prepared.run(lambda _: None)
    assert summary is not None
    return summary


def objects(bucket):
    keys = bucket.keys()
    return {key: bucket.get(key) for key in keys}


@pytest.mark.usefixtures("spark")
def test_all_files_become_objects_and_are_not_had_again(tmp_path, bucket):
    """With a fault on the way; the second run asks the store for the rest, and the source for one file."""
    faults = {NAMES[3]: Fault(kind="reset", after_bytes=10)}
    faults[NAMES[4]] = Fault(kind="status", status=404, first=0)
    state = tmp_path / "state"
    with served(FILES, faults) as origin:
        manifest = write_manifest(tmp_path / "m.json", origin, FILES)
        first = download(manifest, bucket, state)
        assert (first.exit_code, first.files.done, first.files.failed) == (1, 19, 1)
        lines = [msgspec.json.decode(line) for line in Path(first.metrics).read_bytes().splitlines()]
        told = Counter(line["path"] for line in lines if line["schema"] == "cfetch.file/1")
        assert told == dict.fromkeys(NAMES, 1)
        origin.script.faults = {}
        before = asked(origin)
        again = download(manifest, bucket, state)
        assert (again.exit_code, again.files.done, again.files.skipped) == (0, 1, 19)
        assert asked(origin) - before == {NAMES[4]: 1}
    assert objects(bucket) == whole(FILES)
    assert bucket.uploads() == []
    assert not list(state.glob("attempts/*"))


def test_a_task_whose_run_was_taken_over_puts_no_more_objects(tmp_path, bucket):
    """Whoever takes the plan over removes the fence; the task looks at it before each object."""
    settings = Settings(concurrency=1)
    destination = store_destination(bucket.url, tmp_path / "state", "i", 1)
    spec = msgspec.structs.replace(
        spec_of(tmp_path, settings), env=pick_login(bucket.url, os.environ), destination=destination
    )
    Path(destination.fence).mkdir(parents=True)
    late = {name: Fault(kind="delay", delay_s=0.1, first=0) for name in FILES}
    with served(FILES, late) as origin:
        share = share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, FILES))
        with ThreadPoolExecutor(1) as thread:
            task = thread.submit(bring_share, spec, share, Turn(0, 1, 0, "x"))
            while not bucket.keys():
                assert not task.done(), task.result()
            Path(destination.fence).rmdir()
            with pytest.raises(LocalFault, match="another run has taken the plan over"):
                task.result(60)
    put = objects(bucket)
    assert 0 < len(put) < len(FILES)
    assert put.items() <= whole(FILES).items()


def test_a_task_without_its_fence_asks_for_nothing(tmp_path, bucket):
    """And says which directory all executors have to see; with the fence it brings its share."""
    spec = spec_of(tmp_path, Settings(concurrency=2))
    login = pick_login(bucket.url, os.environ)
    spec = msgspec.structs.replace(
        spec, env=login, destination=store_destination(bucket.url, tmp_path / "state", "i", 1)
    )
    with served(FILES) as origin:
        share = share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, FILES))
        with pytest.raises(LocalFault, match=r"is not there on .*: all executors must see .* of --state"):
            bring_share(spec, share, Turn(0, 1, 0, "x"))
        assert (asked(origin), bucket.keys()) == ({}, [])
        Path(spec.destination.fence).mkdir(parents=True)
        bring_share(spec, share, Turn(0, 2, 0, "x"))
    assert objects(bucket) == whole(FILES)


def test_an_executor_that_does_not_reach_the_store_is_named(tmp_path, bucket):
    """By the look before the run, with the driver's login."""
    login = pick_login(bucket.url, os.environ)
    directories = (("--state", str(tmp_path)),)
    assert probe_executor(Look(directories, None, (bucket.url, login))).faults == []
    gone = f"{bucket.url.partition('/some')[0]}-gone/x"
    (fault,) = probe_executor(Look(directories, None, (gone, login))).faults
    assert fault.startswith("cannot use the object store of --to: ")


def test_the_login_that_goes_to_tasks_names_no_file_of_this_machine():
    env = {"AWS_ACCESS_KEY_ID": "a", "AWS_PROFILE": "p", "GOOGLE_APPLICATION_CREDENTIALS": "/f", "HOME": "/h"}
    assert pick_login("s3://b/p", env) == {"AWS_ACCESS_KEY_ID": "a"}
    assert pick_login("gs://b/p", env) == {}
