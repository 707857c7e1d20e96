"""Two runs of one plan, as real processes: who is refused, who goes on, and who may not when he wakes up."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from cfetch.app import plan_on_timeline
from cfetch.app.download import prepare
from cfetch.app.plan_on_timeline import Patience
from cfetch.app.planned import prepare_planned
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Held, Interrupted
from cfetch.base.events import RunStarted, RunStopping
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.files import make_private
from tests.app.test_download import manifest_of
from tests.cli.verbs import begun, cfetch, cfetch_plan, count_bytes, ended, plans_of, under_way, whole
from tests.crash.scene import serving
from tests.engine.drive import tree
from tests.gate import Gate

FILES = {f"d/{i}": Synthetic(f"d/{i}", 200_000) for i in range(4)}
OTHER = {"other": Synthetic("other", 1000)}
CRAWL = {name: Fault(kind="slow", rate_bps=2000, first=0) for name in FILES}
SIGNED = "?sv=2024-11-04&sr=b&se=2027&sig="  # a complete signature: it makes no other object
HASTY = ("--heartbeat-interval", "1s", "--heartbeat-misses", "0")


def stood(to):
    """All files with what any change of them would change."""
    return {
        str(path.relative_to(to)): (path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_size)
        for path in to.rglob("*")
        if path.is_file() and not path.is_relative_to(to / ".cfetch/plans")
    }


async def crawling(to, origin, *words):
    """A run of the manifest whose downloads have all begun."""
    child = await begun(
        "download", "-", "--to", to, *words, stdin=manifest_of(origin, FILES, query=SIGNED + "1")
    )
    await under_way(child, to, len(FILES))
    return child


async def stopped(child, to):
    """Stop a process, and wait until its heartbeat is too old to count as a sign of life."""
    child.send_signal(signal.SIGSTOP)
    (beat,) = (to / ".cfetch/heartbeats").iterdir()
    expiry_s = json.loads(beat.read_bytes())["expiry_s"]
    while time.time() - beat.stat().st_mtime <= expiry_s + 0.1:
        await asyncio.sleep(0.1)


async def test_a_store_in_other_hands(tmp_path, bucket):
    """Runs with states of their own see each other at the store: exit 4; a killed one is no hindrance."""

    def download(state):
        data = manifest_of(origin, FILES, query=SIGNED + "1")
        return begun("download", "-", "--to", bucket.url, "--state", tmp_path / state, stdin=data)

    async with Origin(FILES, CRAWL) as origin:
        first = await download("a")
        while len(origin.requests) < len(FILES):
            assert first.returncode is None
            await asyncio.sleep(0.02)
        second = await ended(await download("b"))
        assert second.code == 4
        assert f"another run is at it: process {first.pid} on {socket.gethostname()}" in second.err
        first.kill()
        await first.wait()
        origin.script.faults = {}
        assert (await ended(await download("c"))).code == 0
    assert {name: bucket.get(name) for name in FILES} == whole(FILES)
    assert [key for key in bucket.keys() if key.startswith(".cfetch/")] == []  # noqa: SIM118 - no mapping


async def test_a_plan_in_other_hands(tmp_path):
    """Exit 4: host, pid and age of the beat are named, and nothing changes; --all runs the others."""
    async with Origin(FILES | OTHER, CRAWL) as origin:
        first = await crawling(tmp_path, origin)
        first.send_signal(signal.SIGSTOP)  # so that what changes is not its work
        asked, before = len(origin.requests), stood(tmp_path)
        data = manifest_of(origin, FILES, query=SIGNED + "2")
        again = await cfetch("download", "-", "--to", tmp_path, "--json", stdin=data)
        ((instant, state, epoch),) = [
            (plan["instant"], plan["state"], plan["epoch"]) for plan in await plans_of(tmp_path)
        ]
        assert (state, epoch) == ("inflight", 1)
        by_name = await cfetch_plan("run", instant, "--to", tmp_path, "--json")
        for found in (again, by_name):
            assert found.code == 4
            assert f"plan {instant} is held by process {first.pid} on {socket.gethostname()}" in found.err
            assert " s ago" in found.err
        assert again.document["schema"] == "cfetch.held/1"
        assert (again.document["exit_code"], again.document["pid"]) == (4, first.pid)
        assert (stood(tmp_path), len(origin.requests)) == (before, asked)

        (plan,) = await plans_of(tmp_path)
        assert (plan["live"], plan["owner"]) == (True, f"process {first.pid} on {socket.gethostname()}")
        assert 0 <= plan["heartbeat_age_s"] < 60
        assert "(alive, last beat " in (await cfetch_plan("list", "--to", tmp_path)).out
        waits = await cfetch_plan("schedule", "-", "--to", tmp_path, stdin=manifest_of(origin, OTHER))
        every = await cfetch_plan("run", "--all", "--to", tmp_path, "--json")
        assert (every.code, [one["instant"] for one in every.document["summaries"]]) == (
            4,
            [waits.out.strip()],
        )
        assert f"process {first.pid} on" in every.err
        assert every.err.endswith(f"not run, as said above: 1 of 2 plans: {instant}\n")
        first.kill()
        await first.communicate()
    assert tree(tmp_path) == whole(OTHER)


async def waiting_for(child, to, origin):
    """A run with --wait that has said so."""
    data = manifest_of(origin, FILES, query=SIGNED + "2")
    waits = await begun("download", "-", "--to", to, "--json", "--wait", stdin=data)
    await waits.stderr.readuntil(f"waiting until another run has ended: process {child.pid} on".encode())
    return waits


async def test_who_waits_begins_when_the_other_has_ended(tmp_path):
    """It goes on with the other's parts; a signal ends the wait in good order."""
    total = sum(content.size_bytes for content in FILES.values())
    async with Origin(FILES, CRAWL) as origin:
        first = await crawling(tmp_path, origin, "--segments", "1")  # else parts are longer than their bytes
        gives_up = await waiting_for(first, tmp_path, origin)
        gives_up.send_signal(signal.SIGTERM)
        assert (await ended(gives_up)).code == 143
        waits = await waiting_for(first, tmp_path, origin)
        asked = len(origin.requests)
        assert first.returncode is None
        kept = held(tmp_path)  # later the waiting run adds its own bytes
        origin.script.faults = {}
        first.send_signal(signal.SIGINT)
        assert (await ended(first)).code == 130
        second = await ended(waits)
    assert (second.code, tree(tmp_path)) == (0, whole(FILES))
    assert second.document["bytes"]["fetched"] <= total - kept
    assert len(origin.requests) > asked
    assert [plan["state"] for plan in await plans_of(tmp_path) if plan["action"] == "download"] == [
        "completed"
    ]


def test_a_signal_at_any_step_of_the_wait_ends_it():
    """Its handler runs in the midst of what the thread does; where that held a lock, it would never end."""
    held = Held("another run has the plan", host="h", pid=1)
    ends: list[int] = []  # at which steps the signals came that ended a wait

    def wait(comes_at):
        patience, left = Patience(lambda: None, lambda _: None, waits=True), comes_at

        def step(frame, *_):
            nonlocal left
            if frame.f_code is not Patience._hear.__code__:
                left -= 1
                if left == 0:
                    patience._hear(Interrupted(signal.SIGTERM))
            return step

        sys.settrace(step)
        try:
            patience.pause(held)
            patience.pause(held)
        except Interrupted:
            ends.append(comes_at)
        finally:
            sys.settrace(None)
            patience.close()

    for comes_at in range(1, 1000):
        thread = threading.Thread(target=wait, args=[comes_at], daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        if comes_at not in ends:
            break  # it came after the second pause
    assert len(ends) > 20


async def test_after_a_kill_another_goes_on_at_once(tmp_path):
    """In epoch 2, without waiting for the heartbeat to expire; what was fetched is not fetched again."""
    total = sum(content.size_bytes for content in FILES.values())
    async with Origin(FILES, pace_bps=100_000) as origin:
        data = manifest_of(origin, FILES, query=SIGNED + "2")
        words = ["download", "-", "--to", tmp_path, "--segments", "1"]  # helpers meet, a few bytes come twice
        first = await begun(*words, stdin=data)
        while held(tmp_path) < total / 4:
            await asyncio.sleep(0.02)
            assert first.returncode is None
        first.kill()
        await first.communicate()
        kept = held(tmp_path)
        second = await cfetch(*words, "--json", stdin=data)
    assert second.code == 0
    assert "waiting" not in second.err
    assert second.document["bytes"]["fetched"] <= total - kept
    assert [(plan["action"], plan["state"], plan["epoch"]) for plan in await plans_of(tmp_path)] == [
        ("download", "completed", 2),
        ("rollback", "completed", 1),
    ]
    assert tree(tmp_path) == whole(FILES)


def held(to):
    """Bytes of the job that stand at the destination."""
    return count_bytes(to, ".cfetch/attempts/*/*/*") + count_bytes(to, "d/*")


async def test_c96_an_owner_that_wakes_up_after_its_plan_was_completed(tmp_path):
    """Exit 4; it has touched no final file, and left nothing, although all its bytes came while it slept."""
    async with Origin(FILES, pace_bps=40_000) as origin:
        first = await crawling(tmp_path, origin, *HASTY)
        await stopped(first, tmp_path)
        origin.script.faults = {name: Fault(kind="slow", rate_bps=1e9, first=0) for name in FILES}
        second = await cfetch(
            "download", "-", "--to", tmp_path, "--json", stdin=manifest_of(origin, FILES, query=SIGNED + "2")
        )
        assert second.code == 0
        assert "waiting" in second.err
        before = stood(tmp_path)
        first.send_signal(signal.SIGCONT)
        woken = await ended(first)
        # what it says of itself, and what it has learned of the host if a download has ended meanwhile
        its_own = {f".cfetch/metrics/{second.document['instant']}.jsonl", ".cfetch/baseline.json"}
        after = stood(tmp_path)
        assert {name: after[name] for name in after.keys() - its_own} == {
            name: before[name] for name in before.keys() - its_own
        }
    assert woken.code == 4
    assert "was completed by another run while this one stood still" in woken.err
    assert (
        f"completed by another run: {len(FILES)} of {len(FILES)} files in place by another run" in woken.err
    )
    assert tree(tmp_path) == whole(FILES)
    assert list((tmp_path / ".cfetch").glob("attempts/*")) == []
    assert [(plan["action"], plan["state"], plan["epoch"]) for plan in await plans_of(tmp_path)] == [
        ("download", "completed", 2),
        ("rollback", "completed", 1),
    ]


async def test_c96_an_owner_that_wakes_up_beside_its_successor(tmp_path):
    """Exit 4 and the successor's name; the successor ends undisturbed."""
    pace = {name: Fault(kind="slow", rate_bps=60_000, first=0) for name in FILES}
    async with Origin(FILES, CRAWL) as origin:
        first = await crawling(tmp_path, origin, *HASTY)
        await stopped(first, tmp_path)
        origin.script.faults = pace
        data = manifest_of(origin, FILES, query=SIGNED + "2")
        second = await begun("download", "-", "--to", tmp_path, "--json", "--no-mitigation", stdin=data)
        while not list((tmp_path / ".cfetch").glob("attempts/*/2/*")):
            assert second.returncode is None
            await asyncio.sleep(0.02)
        first.send_signal(signal.SIGCONT)
        woken = await ended(first)
        assert woken.code == 4
        assert f"was taken over by process {second.pid} on {socket.gethostname()}" in woken.err
        found = await ended(second)
    assert (found.code, found.document["retries"]) == (0, 0)
    assert tree(tmp_path) == whole(FILES)
    assert list((tmp_path / ".cfetch").glob("attempts/*")) == []


JUMPS = """
import itertools, sys, time
real, jumps = time.time, itertools.cycle([0.0, 4e7, -4e7, 4e7])
time.time = lambda: real() + next(jumps)
from cfetch.cli.app import main
sys.exit(main())
"""


async def test_c97_wall_clocks_that_jump_neither_kill_an_owner_nor_rob_him(tmp_path):
    """By more than a year at every look, forth and back: an owner keeps its plan, an observer is refused."""
    jumping = ("-c", JUMPS)
    patient = ("--no-mitigation", "--stall-timeout", "10m")
    async with Gate(FILES, tmp_path / "gate", head_bytes=1000).open() as origin:
        words = ["download", "-", "--to", tmp_path / "to", "--json"]
        data = manifest_of(origin, FILES, query=SIGNED + "2")
        first = await begun(*words, *HASTY[:2], *patient, stdin=data, program=jumping)
        await under_way(first, tmp_path / "to", len(FILES))
        for program in (jumping, ("-m", "cfetch")):
            again = await cfetch(*words, stdin=data, program=program)
            assert again.code == 4
            assert f"held by process {first.pid} on" in again.err
        clean = ("clean", "--rollback-delay", "0s", "--to", tmp_path / "to")
        assert (await cfetch_plan(*clean, program=jumping)).code == 0
        (tmp_path / "gate").touch()
        found = await ended(first)
    assert (found.code, found.document["retries"]) == (0, 0)
    assert tree(tmp_path / "to") == whole(FILES)


def test_c98_a_busy_event_loop_does_not_look_dead(tmp_path):
    """It hears of nothing for longer than a heartbeat lasts; the run still completes."""
    to, path = tmp_path / "to", tmp_path / "m.json"
    said: list[object] = []

    def count():
        (beat,) = (to / ".cfetch/heartbeats").iterdir()
        return json.loads(beat.read_bytes())["counter"]

    def listener(event):
        if not said:
            said.append(event)
            first, end_s = count(), time.monotonic() + 60
            while count() < first + 3 and time.monotonic() < end_s:  # one a second
                time.sleep(0.01)  # a computation would cost the tests beside it three seconds

    with serving(FILES) as origin:
        path.write_bytes(manifest_of(origin, FILES, query=SIGNED + "2"))
        settings = Settings(to=(str(to),), heartbeat_interval=1.0, heartbeat_misses=1)
        with prepare(str(path), settings, env=dict(os.environ)) as prepared:
            summary = prepared.run(listener)
    assert summary is not None
    assert (summary.exit_code, summary.files.done) == (0, len(FILES))
    assert tree(to) == whole(FILES)


def test_a_run_that_loses_its_plan_at_the_very_end_says_so(in_place, tmp_path):
    """Another one's claim is a rename; the commit that finds the name gone is exit 4, and told as events."""
    path, settings = in_place
    told: list[str] = []

    def listener(event):
        if isinstance(event, RunStopping):
            told.append(event.reason)
        if isinstance(event, RunStarted):
            (mine,) = (tmp_path / "to/.cfetch/timeline").glob("*.1.download.inflight")
            mine.rename(str(mine).replace(".1.download.inflight", ".2.download.requested"))

    with prepare(path, settings, env={}) as prepared:
        summary = prepared.run(listener)
    assert summary is not None
    assert (summary.exit_code, summary.files.skipped) == (4, 1)
    (reason,) = told
    assert "was taken over by another run" in reason


def test_a_plan_that_ends_while_fresh_links_are_laid_down_is_run_anew(in_place, tmp_path, monkeypatch):
    """Its directory vanishes under the second run's hands; that one finds nothing left to do."""
    path, settings = in_place
    with prepare(path, settings, env={}) as first:
        instant = first.schedule().instant
    make = make_private

    def meanwhile(directory, **where):
        make(directory, **where)
        if directory.name == instant:
            monkeypatch.undo()
            with prepare_planned(instant, settings, env={}) as other:
                assert other is not None
                other.run(lambda _: None)

    monkeypatch.setattr(plan_on_timeline, "make_private", meanwhile)
    with prepare(path, settings, env={}) as second:
        summary = second.run(lambda _: None)
    assert summary is not None
    assert (summary.exit_code, summary.instant == instant) == (0, False)
    assert not (tmp_path / "to/.cfetch/plans").exists()


def test_a_directory_is_made_although_another_run_tidies_up_above_it(tmp_path, monkeypatch):
    """``plans`` was there when it was looked at, and is gone when it is needed."""
    exists = Path.exists
    lied: list[Path] = []

    def once(path, **how):
        if path.name == "plans" and not lied:
            lied.append(path)
            return True
        return exists(path, **how)

    monkeypatch.setattr(Path, "exists", once)
    make_private(tmp_path / "plans/x")
    assert (tmp_path / "plans/x").is_dir()
