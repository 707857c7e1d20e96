"""Plans in the bucket: machines without a common disk see them, hold them, take them over, and clean."""

import asyncio
import signal

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from tests.app.test_download import manifest_of
from tests.cli.verbs import begun, cfetch, cfetch_plan, ended, whole
from tests.gate import Gate

FILES = {f"d/{i}": Synthetic(f"d/{i}", 200_000) for i in range(6)}
SLOW = {name: Fault(kind="slow", rate_bps=2000, first=0) for name in list(FILES)[3:]}
HASTY = ("--heartbeat-interval", "1s", "--heartbeat-misses", "3")  # a store may answer a beat late
MACHINE = """
import runpy, sys
from cfetch.timeline import owner
machine = sys.argv.pop(1)
owner.boot_id, owner._machine = lambda: machine, lambda: machine
runpy.run_module("cfetch", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def on(tmp_path, monkeypatch):
    """The options by which a process belongs to a machine with a disk of its own."""

    def choose(machine):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
        return {"program": ("-c", MACHINE, machine)}

    return choose


def at(bucket):
    return ("--to", bucket.url, "--state", bucket.url)


def own_keys(bucket):
    return [key for key in bucket.keys() if key.startswith(".cfetch/")]  # noqa: SIM118 - no mapping


async def half_done(bucket, origin, data, how):
    """A run that has put the quick files, and asked for the slow ones."""
    run = await begun("download", "-", *at(bucket), *HASTY, stdin=data, **how)
    while len(set(bucket.keys()) & set(FILES)) < 3 or len(origin.requests) < len(FILES):
        assert run.returncode is None, await run.communicate()
        await asyncio.sleep(0.02)
    return run


async def plans(bucket, how):
    listed = await cfetch_plan("list", *at(bucket), "--json", **how)
    assert listed.code == 0
    return listed.document["plans"]


async def test_another_machine_completes_what_a_killed_one_began(bucket, on, tmp_path):
    """It has an empty disk; files in place are not fetched again, and no signed link is left anywhere."""
    async with Origin(FILES, SLOW) as origin:
        data = manifest_of(origin, FILES)
        first = await half_done(bucket, origin, data, on("a"))
        while not (seen := (await plans(bucket, on("b")))[0])["live"]:  # until the next beat, if one was late
            assert first.returncode is None
        assert seen["state"] == "inflight"
        refused = await cfetch("download", "-", *at(bucket), *HASTY, stdin=data, **on("b"))
        assert (refused.code, f"held by process {first.pid} on " in refused.err) == (4, True)
        first.kill()
        await first.wait()
        before, origin.script.faults = len(origin.requests), {}
        again = await cfetch_plan("run", "--all", "--wait", *at(bucket), *HASTY, **on("b"))
        assert again.code == 0, again.err
        assert {request.path.lstrip("/") for request in list(origin.requests)[before:]} == set(SLOW)
    assert {name: bucket.get(name) for name in FILES} == whole(FILES)
    listed = [(plan["action"], plan["state"], plan["epoch"]) for plan in await plans(bucket, on("c"))]
    assert listed == [("download", "completed", 2), ("rollback", "completed", 1)]
    assert own_keys(bucket) == [".cfetch/timeline.json"]
    assert (await cfetch_plan("clean", *at(bucket), "--keep", "0s", **on("c"))).code == 0
    assert await plans(bucket, on("c")) == []
    assert list((tmp_path / "b").rglob("entries*")) == []


async def test_a_paused_machine_that_wakes_up_has_lost_the_plan(bucket, on):
    """It ends with exit code 4, and puts nothing over its successor's files."""
    async with Origin(FILES, SLOW) as origin:
        data = manifest_of(origin, FILES)
        first = await half_done(bucket, origin, data, on("a"))
        first.send_signal(signal.SIGSTOP)
        origin.script.faults = {}
        again = await cfetch_plan("run", "--all", "--wait", *at(bucket), *HASTY, **on("b"))
        assert again.code == 0, again.err
        before = {name: bucket.head(name)["last-modified"] for name in FILES}
        await asyncio.sleep(1)
        first.send_signal(signal.SIGCONT)
        late = await ended(first)
        assert (late.code, "by another run while this one stood still" in late.err) == (4, True), late.err
    assert {name: bucket.head(name)["last-modified"] for name in FILES} == before
    assert own_keys(bucket) == [".cfetch/timeline.json"]


async def test_of_two_machines_that_begin_at_once_only_one_has_the_plan(bucket, on, tmp_path):
    """Every file is requested once."""
    async with Gate(FILES, tmp_path / "gate").open() as origin:
        data = manifest_of(origin, FILES)
        words = ("download", "-", *at(bucket), "--no-mitigation", "--stall-timeout", "10m")
        ends = [asyncio.create_task(ended(await begun(*words, stdin=data, **on(name)))) for name in "ab"]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        (tmp_path / "gate").touch()
        runs = sorted(await asyncio.gather(*ends), key=lambda run: run.code)
        assert [run.code for run in runs] == [0, 4], [run.err for run in runs]
        assert origin.requests == len(FILES)
    assert [plan["epoch"] for plan in await plans(bucket, on("c"))] == [1]


async def test_another_machine_removes_a_plan(bucket, on):
    """Also what was frozen for it."""
    async with Origin(FILES) as origin:
        data = manifest_of(origin, FILES)
        put = await cfetch_plan("schedule", "-", *at(bucket), stdin=data, **on("a"))
        instant = put.out.strip()
        shown = await cfetch_plan("show", instant, *at(bucket), **on("b"))
        assert (shown.code, instant in shown.out) == (0, True)
        removed = await cfetch_plan("rollback", instant, "--remove", *at(bucket), **on("b"))
        assert (removed.code, removed.err) == (0, "")
        assert own_keys(bucket) == [".cfetch/timeline.json"]
        late = await cfetch_plan("run", instant, *at(bucket), **on("a"))
        assert (late.code, "there is no plan" in late.err) == (2, True)


async def test_a_store_without_conditional_writes_needs_a_state(bucket, on, tmp_path):
    """Nothing is downloaded without one; with one it works."""
    bucket.server.treat_conditions("ignored")
    try:
        async with Origin(FILES) as origin:
            refused = await cfetch("download", "-", *at(bucket), stdin=manifest_of(origin, FILES), **on("a"))
            assert (refused.code, "name another store, or a directory, with --state" in refused.err) == (
                2,
                True,
            )
            assert len(origin.requests) == 0
            words = ("download", "-", "--to", bucket.url, "--state", tmp_path / "state")
            assert (await cfetch(*words, stdin=manifest_of(origin, FILES), **on("a"))).code == 0
    finally:
        bucket.server.treat_conditions("kept")


async def test_no_plans_in_a_bucket(bucket, on):
    """To list them makes nothing."""
    listed = await cfetch_plan("list", *at(bucket), **on("a"))
    assert (listed.code, f"there is no timeline in {bucket.url}" in listed.err) == (2, True)
    assert bucket.keys() == []


READING = {"GET", "HEAD", "GET list-type"}


async def test_a_login_that_may_only_read_sees_the_plans(bucket, on):
    """One look at the index answers a list of all; what would change something says what is missing."""
    async with Origin(FILES) as origin:
        data = manifest_of(origin, FILES)
        assert (await cfetch("download", "-", *at(bucket), stdin=data, **on("a"))).code == 0
        other = data.replace(b"d/5", b"d/4a")
        instant = (await cfetch_plan("schedule", "-", *at(bucket), stdin=other, **on("a"))).out.strip()
        with bucket.server.only_reading():
            bucket.server.take_asked()
            assert [plan["state"] for plan in await plans(bucket, on("b"))] == ["completed", "requested"]
            assert bucket.server.take_asked() == {"GET": 1}
            for words in (
                ("show", instant),
                ("list", "--archived"),
                ("clean", "--dry-run"),
                ("run", instant, "--dry-run"),
                ("run", "--all", "--dry-run"),
            ):
                shown = await cfetch_plan(*words, *at(bucket), **on("b"))
                assert (shown.code, shown.err, bool(shown.out)) == (0, "", True), words
            assert bucket.server.take_asked().keys() <= READING
            for writing in (("run", instant), ("clean",), ("rollback", instant), ("schedule", "-")):
                refused = await cfetch_plan(*writing, *at(bucket), stdin=data, **on("b"))
                said = "the store denies it to this login, with which `cfetch plan list`"
                assert (refused.code, said in refused.err) == (3, True), (writing, refused.err)
    assert len(origin.requests) == len(FILES)


MEANWHILE = """
import runpy, subprocess, sys
from cfetch.storage.buckets.object_versions import VersionedObjects
words, bring = sys.argv.pop(1).split("|"), VersionedObjects.get_file
def bring_late(*how):
    VersionedObjects.get_file = bring
    subprocess.run([sys.executable, "-m", "cfetch", *words], check=True)
    return bring(*how)
VersionedObjects.get_file = bring_late
runpy.run_module("cfetch", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(("others", "dry"), [(("run",), ()), (("rollback", "--remove"), ("--dry-run",))])
async def test_a_plan_that_another_machine_ends_while_its_manifest_is_read(bucket, on, others, dry):
    """It is completed, or gone, and no fault of this machine: `--all` has nothing left to do."""
    async with Origin(FILES) as origin:
        data = manifest_of(origin, FILES)
        instant = (await cfetch_plan("schedule", "-", *at(bucket), stdin=data, **on("a"))).out.strip()
        program = ("-c", MEANWHILE, "|".join(("plan", *others, instant, *at(bucket))))
        done = await cfetch_plan("run", "--all", *dry, *at(bucket), program=program)
    said = "there is no plan" if dry else "is completed already"
    assert (done.code, said in done.err) == (0, True), done.err
    assert len(origin.requests) == (0 if dry else len(FILES))
