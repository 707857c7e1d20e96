"""Volumes that are full, read-only or gone: their batches go elsewhere, whole, and nothing is lost."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cfetch.base.errors import Held, VolumeFault
from cfetch.base.events import BatchCommitted, BatchPlaced, EntryFinished, Progress, RunStopping, VolumePaused
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.run.labels import Labels, require_mount
from cfetch.storage.directory import Directory
from tests.gate import Gate
from tests.volumes.scene import KIB, Scene, named, under


def whole(scene, below):
    """Nothing wrong, nothing missing, nothing left."""
    return scene.faults(below), scene.missing(below), scene.debris(below)


@pytest.mark.parametrize(("small", "names", "durability"), [(0, True, "power"), (1, False, "crash")])
async def test_one_volume_is_small(tmp_path, namespaces, small, names, durability):
    """It takes what it can, though no size is stated and so nobody could know."""
    files = named(8, 5, 60 * KIB)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2, sized=False, names=names)
        words = ("--state", "st", "--batch-share", "0.1", "--durability", durability)
        told, _ = await scene.in_namespace(f"mounted v{small} 700k", "", *words)
    assert (told["exit_code"], told["files"]["done"]) == (0, 40)
    assert whole(scene, tmp_path / "after") == ([], [], [])


async def test_a_volume_fills_up_in_the_middle(tmp_path, namespaces):
    """By somebody else; it is not out of use, and its batches go elsewhere."""
    files = named(8, 4, 40 * KIB)
    async with Gate(files, tmp_path / "full", head_bytes=KIB).open() as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        fill = "dd if=/dev/zero of=v1/.cfetch/other bs=1k count=3000 || true; touch full"
        told, _ = await scene.in_namespace("mounted v1 2m", f"parts v1; {fill}")
    assert (told["exit_code"], told["files"]["done"]) == (0, 32)
    assert whole(scene, tmp_path / "after") == ([], [], [])
    assert told["bytes"]["wasted"] > 0


async def test_all_volumes_are_too_small(tmp_path, namespaces):
    """Exit 3 names each of them and its reason; what was published before stays.

    The first batch is whole before another brings a byte: on a slow machine all of them filled the volumes
    together, and none was whole when the deadline came.
    """
    files = named(8, 5, 60 * KIB)
    late = {name: content for name, content in files.items() if not name.startswith("b0/")}
    async with Origin(files) as origin, Gate(late, tmp_path / "stored").open() as late_origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2, sized=False)
        scene.urls = {name: late_origin.url + name for name in late}
        scene.write_manifest()
        words = ("--state", "st", "--placement-deadline", "1s")
        stored = "until ls v?/.cfetch/batches/*.json >/dev/null 2>&1; do sleep 0.1; done; touch stored"
        told, said = await scene.in_namespace("mounted v0 700k; mounted v1 500k", stored, *words)
    assert (told["exit_code"], told["status"]) == (3, "partial")
    after = tmp_path / "after"
    assert scene.faults(after) == []
    assert 0 < told["files"]["done"] == 40 - len(scene.missing(after))
    failure = told["failures"][0]["message"]
    for root in scene.to:  # whichever step met it: the part, its directory, the batch's record
        assert re.search(rf"{re.escape(str(root))}: cannot [^;]*No space left on device", failure), failure
    assert failure in said


async def test_a_volume_becomes_read_only_in_the_middle(tmp_path, namespaces):
    """As after an error of its file system, which may come between the names of a batch and its record.

    Such names cannot be taken back; but what vouches for a batch is on one volume, and so are its files.
    """
    files = named(8, 4, 40 * KIB)
    late = {name: content for name, content in files.items() if name >= "b4"}
    async with (
        Origin(files, pace_bps=80.0 * KIB) as origin,
        Gate(late, tmp_path / "remounted").open() as late_origin,
    ):
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        scene.urls = {name: late_origin.url + name for name in late}
        scene.write_manifest()
        remount = "until mount -o remount,ro v0; do sleep 0.001; done; touch remounted"
        # else all late batches may go to the other volume, or v0 be left because they came late
        words = ("--state", "st", "--placement", "round-robin", "--no-mitigation")
        told, said = await scene.in_namespace("mounted v0 8m", f"parts v0; {remount}", *words)
    assert (told["exit_code"], told["status"], told["files"]["done"]) == (0, "completed", 32)
    assert "Read-only file system" in told["volumes"][0]["out_of_use"]
    assert "out of use" in said
    read_only, other = scene.volumes(tmp_path / "after")
    recorded = sorted(str(one.name) for volume in (read_only, other) for one in volume.records.values())
    assert recorded == [f"b{n}" for n in range(8)]
    for volume in (read_only, other):
        for record in volume.records.values():
            assert sum(name.startswith(f"{record.name}/") for name in volume.files) == 4
    at_v1 = {name for one in other.records.values() for name in files if name.startswith(f"{one.name}/")}
    assert set(other.files) == at_v1
    assert all(not fault.endswith("is wrong") for fault in scene.faults(tmp_path / "after"))


async def test_a_volume_is_read_only_from_the_start(tmp_path, namespaces):
    """And has been used before: it is left out, and named."""
    files = named(4, 3)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        told, _ = await scene.in_namespace("mounted v1 8m; mkdir v1/.cfetch; mount -o remount,ro v1", "")
    assert (told["exit_code"], told["files"]["done"]) == (0, 12)
    assert told["volumes"][1]["out_of_use"].endswith(
        "mounted read-only; name another place, or mount it for writing)"
    )
    assert whole(scene, tmp_path / "after") == ([], [], [])


async def test_a_volume_is_full_from_the_start(tmp_path, namespaces):
    """Not even a directory can be made there: it takes nothing, is named, and its files are not had again."""
    files = named(4, 3)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2, names=False, hashed=False)
        fill = "n=0; while touch v1/fill$n 2>/dev/null; do n=$((n+1)); done"
        mount = "mount -t tmpfs -o size=1m,nr_inodes=40 tmpfs v1; mkdir -p v1/.cfetch v1/b0"
        before = f"{mount}; head -c 3072 /dev/zero >v1/b0/0; {fill}"
        told, said = await scene.in_namespace(before, "", "--state", "st")
    assert (told["exit_code"], told["files"]["done"], told["files"]["skipped"]) == (0, 11, 1)
    assert "can hold no more files" in told["volumes"][1]["out_of_use"]
    assert str(scene.to[1]) in said


def test_a_record_that_cannot_be_written_leaves_nothing(tmp_path):
    """No draft of it, which nobody would look for."""
    volume = Directory(tmp_path, "attempts/i/0")
    volume.records.put("b1", b"{}")
    (tmp_path / ".cfetch/batches/b2.json").mkdir()
    with pytest.raises(VolumeFault, match="cannot write the record of a batch"):
        volume.records.put("b2", b"{}")
    found = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    volume.close()
    assert found == ["b1.json"]


def test_a_record_that_goes_while_they_are_confirmed_is_not_missed(tmp_path, monkeypatch):
    """The run itself removes the record of a batch that another volume has, in the disk's own thread."""
    volume = Directory(tmp_path, "attempts/i/0")
    records = volume.records
    records.put("b1", b"{}")
    has = records.has

    def look(batch):
        records.remove(batch)
        return has(batch)

    monkeypatch.setattr(records, "has", look)
    volume.confirm()
    volume.close()


async def test_a_volume_is_removed_in_the_middle(tmp_path):
    """Its batches go to the others."""
    files = named(8, 4, 40 * KIB)
    async with Origin(files, pace_bps=100.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, files)

        def listener(event):
            if isinstance(event, Progress) and event.active and scene.to[1].exists():
                shutil.rmtree(scene.to[1])

        found = await scene.run(listener)
    assert found.code == 0
    assert whole(scene, None) == ([], [], [])
    assert not scene.to[1].exists() or not scene.volume(1).files
    assert {one.volume for one in found.paused} == {str(scene.to[1])}
    assert str(scene.to[1]) not in {told["volume"] for told in found.metrics.values()}


@pytest.mark.parametrize("volumes", [1, 2])
async def test_a_volume_that_has_taken_files_is_not_there_at_the_end(tmp_path, volumes):
    """All files were in place, and some are not any more: exit 3, and the same command brings them."""
    files = named(6, 2, 20 * KIB)
    async with Origin(files, pace_bps=200.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=volumes, names=volumes > 1)
        victim, away = scene.to[-1], tmp_path / "away"

        def listener(event):
            is_last = isinstance(event, EntryFinished) and len(list(finished)) == len(files) - 1
            finished.extend([event] if isinstance(event, EntryFinished) else [])
            if is_last:
                victim.rename(away)
                victim.mkdir()

        finished: list[EntryFinished] = []
        found = await scene.run(listener, placement="round-robin", state=str(tmp_path / "state"))
        assert len(finished) == len(files)
        assert (found.code, found.summary["status"]) == (3, "partial" if volumes > 1 else "failed")
        assert found.summary["files"]["done"] == sum(len(under(root)) for root in scene.to)
        again = await scene.run(state=str(tmp_path / "state"))
    assert (again.code, again.summary["instant"]) == (0, found.summary["instant"])
    assert whole(scene, None) == ([], [], [])


@pytest.mark.parametrize("hashed", [False, True])
async def test_a_volume_goes_whose_files_were_found_in_place(tmp_path, hashed):
    """They are not in place at the end: exit 3, and none is counted."""
    files = named(2, 2)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=1, names=False, hashed=hashed)
        await scene.run(state=str(tmp_path / "state"))

        def listener(event):
            finished.extend([event] if isinstance(event, EntryFinished) else [])
            if len(finished) == len(files) and scene.to[0].exists():
                scene.to[0].rename(tmp_path / "away")

        finished: list[EntryFinished] = []

        found = await scene.run(listener, state=str(tmp_path / "state"))
    assert set(found.statuses().values()) == {"skipped"}
    assert (found.code, found.summary["status"]) == (3, "failed")
    assert (found.summary["files"]["done"], found.summary["files"]["skipped"]) == (0, 0)


async def test_runs_of_one_plan_whose_volumes_overlap_are_kept_apart(tmp_path):
    """Each has a state of its own, so no timeline keeps them apart; the volume that both use does."""
    files = named(6, 3, 40 * KIB)
    held = dict.fromkeys(files, Fault(kind="stall", after_bytes=20 * KIB, first=0))
    async with Origin(files, held) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=3)
        child = await scene.begun(scene.words())
        while not list(scene.to[2].glob(".cfetch/attempts/*/1/h*")):
            assert child.returncode is None, await child.communicate()
            await asyncio.sleep(0.01)
        with pytest.raises(Held, match=rf"process {child.pid} on .* brings the same files to {scene.to[1]}"):
            await scene.run(to=tuple(map(str, scene.to[1:])), state=str(tmp_path / "other"))
        child.kill()
        await child.wait()
        origin.script.faults = {}
        again = await scene.run(to=tuple(map(str, scene.to[1:])), state=str(tmp_path / "other"))
    assert again.code == 0


async def test_a_disk_that_is_not_mounted_is_not_filled_below_its_mount(tmp_path):
    """The directory there lacks the label of earlier runs: it is left out, unless the user says it is new."""
    files = named(6, 2)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=3)
        state = tmp_path / "state"
        await scene.run(state=str(state), placement="round-robin")
        assert scene.volume(1).files
        scene.to[1].rename(tmp_path / "unmounted")
        scene.to[1].mkdir()
        found = await scene.run(state=str(state))
        assert (found.code, scene.missing(), list(scene.to[1].iterdir())) == (0, [], [])
        why = f"{scene.to[1]} is not the volume that earlier runs have used; is it mounted?"
        assert found.summary["volumes"][1]["out_of_use"].startswith(why)
        (state / "volumes.json").unlink()
        assert (await scene.run(state=str(state))).paused == []
    assert {str(root) for root in scene.to} == set(json.loads((state / "volumes.json").read_text()))


def test_two_disks_that_were_swapped_are_told_from_new_ones(tmp_path):
    """Whoever removed the state's file of labels then would have their files brought twice."""
    roots = [tmp_path / "v0", tmp_path / "v1"]
    for root in roots:
        (root / ".cfetch").mkdir(parents=True)
        Labels(tmp_path).put(root)
    roots[0].rename(tmp_path / "aside")
    roots[1].rename(roots[0])
    (tmp_path / "aside").rename(roots[1])
    why = f"{roots[0]} is the volume that earlier runs have used as {roots[1]}; mount"
    with pytest.raises(VolumeFault, match=why):
        Labels(tmp_path).check(roots[0])


async def test_with_mounted_no_bare_directory_is_filled(tmp_path, namespaces):
    """A mount is, and gets a label; without the mount nothing is written below it, wherever the state is."""
    files = named(2, 2)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=1)
        words = ("--mounted", "--state", str(tmp_path / "state"))
        scene.to[0].mkdir()
        code, _, said = await scene.command(*words)
        assert (code, list(scene.to[0].iterdir()), (tmp_path / "state").exists()) == (3, [], False)
        assert f"{scene.to[0]} is no mounted volume" in said
        labelled = "test -s v0/.cfetch/volume"
        told, _ = await scene.in_namespace("mount -t tmpfs tmpfs v0", "", *words, afterwards=labelled)
        assert (told["exit_code"], told["files"]["done"]) == (0, 4)


def test_a_label_stands_for_a_directory_of_a_mounted_disk(tmp_path):
    """Which is no mount itself: an earlier run has put it."""
    with pytest.raises(VolumeFault, match="is no mounted volume: no file system is mounted there"):
        require_mount(tmp_path)
    (tmp_path / ".cfetch").mkdir()
    (tmp_path / ".cfetch/volume").write_text("0" * 32)
    require_mount(tmp_path)
    require_mount(Path("/proc"))


async def test_a_volume_comes_back(tmp_path):
    """One small batch is tried there after the pause; then it is used as before."""
    files = named(30, 2, 20 * KIB)
    async with Origin(files, pace_bps=150.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        away, steps = tmp_path / "away", iter([BatchPlaced, VolumePaused])
        waited_for: list[Any] = [next(steps)]

        def listener(event):
            if isinstance(event, waited_for[0]):
                waited_for[0] = next(steps, ())
                there = scene.to[1].exists()
                scene.to[1].rename(away) if there else away.rename(scene.to[1])

        found = await scene.run(listener, concurrency=4, placement="round-robin")
    assert found.code == 0
    assert whole(scene, None) == ([], [], [])
    assert [one.volume for one in found.paused] == [str(scene.to[1])]
    there = [one for one in found.placed if one.volume == str(scene.to[1])]
    after = there[[one.why for one in there].index("a probe after the pause") :]
    assert len(after) > 2
    assert len(scene.volume(1).records) >= len(after)


def unmount(root):
    """What stands under the name afterwards is the empty directory below the mount."""
    root.rename(root.with_name("elsewhere"))
    root.mkdir()


def empty(root):
    """It is the same directory as before."""
    for path in root.iterdir():
        shutil.rmtree(path)


@pytest.mark.parametrize(
    ("go", "why"), [(unmount, "moved, unmounted or removed"), (empty, "removed batches")]
)
async def test_c104_a_volume_goes_after_it_has_taken_a_batch(tmp_path, go, why):
    """The plan is not completed, whoever took the rest; the same command brings what is missing."""
    files = named(4, 3)
    gone: list[str] = []
    reasons: list[str] = []
    second = str(tmp_path / "v1")  # the state is on the first

    def listener(event):
        if isinstance(event, BatchCommitted) and event.volume == second and not gone:
            gone.append(event.batch)
            go(tmp_path / "v1")
        if isinstance(event, RunStopping):
            reasons.append(event.reason)

    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        run = await scene.run(listener)
        assert (run.code, len(gone), len(reasons)) == (3, 1, 1)
        readable = [len(under(root)) for root in scene.to]
        assert [row["files"] for row in run.summary["volumes"]] == readable
        assert (run.summary["files"]["done"], run.summary["status"]) == (sum(readable), "partial")
        assert f"{second}" in reasons[0]
        assert why in reasons[0]
        assert (await scene.run()).code == 0
    assert whole(scene, tmp_path) == ([], [], [])
