"""Runs over several volumes that are killed or interrupted, anywhere; the next one brings all to its end."""

import asyncio
import json
import random
import signal

import pytest

from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from tests.crash.scene import serving
from tests.volumes.scene import KIB, TIMEOUT_S, Scene, named

FILES = named(6, 4, 70 * KIB)


async def all_is_well_after(scene, **settings):
    """What vouches for a batch is true, and the next run has all it needs."""
    assert scene.faults() == []
    found = await scene.run(**settings)
    assert (found.code, scene.faults(), scene.missing(), scene.debris()) == (0, [], [], [])
    again = await scene.run()
    assert set(again.statuses().values()) == {"skipped"}
    records = [one for volume in scene.volumes() for one in volume.records.values()]
    recorded = {path for one in records for path in one.paths or ()}
    assert recorded == set(scene.files)
    return found


async def ended_at(scene, moment, number, *more):
    """A run that gets a signal so long after its first part was there; its exit code and what it printed."""
    child = await scene.begun(scene.words(*more))
    while child.returncode is None and not list(scene.folder.glob("v*/.cfetch/attempts/*/1/h*")):
        await asyncio.sleep(0.005)
    await asyncio.sleep(moment)
    if child.returncode is None:
        child.send_signal(number)
    out, _ = await asyncio.wait_for(child.communicate(), TIMEOUT_S)
    return child.returncode, out


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 60))]
)
async def test_killed_at_any_moment(tmp_path, seed):
    """Every batch is wholly on one volume, none on two, and nothing is left over."""
    rng = random.Random(seed)
    async with Origin(FILES, pace_bps=150.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, FILES, names=rng.random() < 0.6)
        words = ("--durability", rng.choice(["crash", "power"]), "--batch-share", "0.1")
        await ended_at(scene, rng.uniform(0, 1.2), signal.SIGKILL, *words)
        origin.script.faults = {}
        await all_is_well_after(scene)


@pytest.mark.parametrize("moment", [0.0, 0.5])
async def test_interrupted_in_the_middle(tmp_path, moment):
    """Ctrl-C: exit 130; both runs together fetch each byte once. Where segments meet, some may come twice."""
    files = named(6, 4, 300 * KIB)
    held = {name: Fault(kind="stall", after_bytes=200 * KIB, first=0) for name in files if name[:2] == "b5"}
    async with Origin(files, held, pace_bps=500.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, files)
        code, out = await ended_at(scene, moment, signal.SIGINT, "--segments", "1")
        assert code == 130
        origin.script.faults = {}
        found = await all_is_well_after(scene, segments=1)
    fetched = [summary["bytes"]["fetched"] for summary in (json.loads(out), found.summary)]
    assert (sum(fetched), fetched[0] > 0) == (sum(content.size_bytes for content in files.values()), True)


POINTS = [("renameat", n) for n in (1, 3, 5, 10)] + [("openat", 5)]


@pytest.mark.parametrize("durability", ["crash", pytest.param("power", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("call", "n"), POINTS)
async def test_killed_at_a_call(tmp_path, strace, children, call, n, durability):
    """As the n-th rename (of files and of records) or open of one of the volumes' threads begins."""
    with serving(FILES) as origin:
        scene = Scene(tmp_path, origin.url, FILES)
        options = [f"-etrace={call}", f"-einject={call}:signal=SIGKILL:when={n}", "-o", "/dev/null"]
        words = [*scene.words()[3:], "--quiet", "--durability", durability]
        code = await asyncio.to_thread(children.run, options, words, tmp_path / "said")
        assert code == 137
        await all_is_well_after(scene)
