"""What stands on the volumes counts: placement goes on where earlier runs have ended."""

import asyncio
import json
import os
import shutil
from contextlib import closing

import msgspec
import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.directory import Directory
from tests.app.command import cfetch
from tests.volumes.scene import KIB, Scene, under


def batches(**files):
    """A batch for each name, with so many small files; ``large`` files have a size of their own."""
    return {
        f"{name}/{n}": Synthetic(f"{name}/{n}", 200 + 7 * n)
        for name, count in files.items()
        for n in range(count)
    }


async def bring(scene, origin, files, *words):
    """Another manifest to the same volumes, by the command; what it said."""
    origin.files = scene.files = files
    scene.write_manifest()
    code, summary, said = await scene.command(*words)
    assert code == 0, said
    assert summary["files"]["done"] == len(files)
    return said


def counts(scene):
    return [len(under(root)) for root in scene.to]


async def test_the_two_rounds_of_the_adr_and_a_third(tmp_path):
    """``count`` gives ADR 19's numbers over runs of the command, and ``--explain`` says what stands."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, {}, volumes=4)
        words = ("--placement", "count", "--explain")
        await bring(scene, origin, batches(a=50, b=30, c=100), *words)
        assert counts(scene) == [50, 30, 100, 0]
        said = await bring(scene, origin, batches(d=20, e=100, f=100), *words)
        assert counts(scene) == [50, 130, 100, 120]
        assert "v0 50 files there" in said
        await bring(scene, origin, batches(g=70, h=10, i=20), *words)
        assert counts(scene) == [120, 130, 130, 120]


@pytest.mark.parametrize("mode", ["finish", "count", "round-robin"])
async def test_five_nightly_runs_fill_three_volumes_evenly(tmp_path, mode):
    """Each night's one batch goes to another volume, so that after five nights none is a batch ahead."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, {}, volumes=3)
        for night in range(5):
            origin.files = scene.files = batches(**{f"n{night}": 5})
            scene.write_manifest()
            assert (await scene.run(placement=mode)).code == 0
        assert counts(scene) == [10, 10, 5]


async def test_records_of_an_earlier_version_count(tmp_path):
    """A state without a turn, and records that name no files, are what today's version has left."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, batches(a=5), volumes=2)
        origin.files = scene.files
        assert (await scene.run(placement="round-robin")).code == 0
        (scene.to[0] / ".cfetch/placement.json").unlink()
        (record,) = scene.to[0].glob(".cfetch/batches/*.json")
        old = {
            key: value
            for key, value in json.loads(record.read_bytes()).items()
            if key not in ("paths", "moves")
        }
        record.write_bytes(msgspec.json.encode(old))
        (row, _) = await volume("rescan", "--to", scene.to[0], "--to", scene.to[1])
        assert (row["files_before"], row["files"]) == (5, 5)  # its files do not count once more
        origin.files = scene.files = batches(b=5)
        scene.write_manifest()
        assert (await scene.run(placement="count")).code == 0
        assert counts(scene) == [5, 5]


async def test_a_batch_that_is_in_place_counts_once(tmp_path):
    """A second run of the same manifest, and a new version of it, leave the counts as they are."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, batches(a=5), volumes=2, hashed=False)
        origin.files = scene.files
        for _ in range(2):
            assert (await scene.run(placement="count")).code == 0
        origin.files = scene.files = {name: Synthetic(name, 3 * KIB) for name in batches(a=5)}
        scene.write_manifest()
        assert (await scene.run(placement="count")).code == 0
        assert counts(scene) == [0, 5]  # the older version is gone from v0, although its record stays
        origin.files = scene.files = batches(c=4)
        scene.write_manifest()
        assert (await scene.run(placement="count")).code == 0
        assert counts(scene) == [4, 5]


async def volume(verb, *words):
    """Run ``cfetch volume`` as a process of its own; its document."""
    done = await asyncio.to_thread(cfetch, "volume", verb, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["volumes"]


async def test_a_paused_volume_gets_nothing_until_it_is_resumed(tmp_path):
    """The run names it, its files count as in place, and if all are paused the run says what to do."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, batches(a=5), volumes=2)
        origin.files = scene.files
        v0, v1 = scene.to
        assert (await scene.run()).code == 0
        (paused,) = await volume("pause", v0)
        assert paused == {"volume": str(v0), "paused": True, "changed": True}
        rows = await volume("list", "--to", v0)
        assert {row["volume"]: row["state"] for row in rows} == {str(v0): "paused", str(v1): "mounted"}
        origin.files = scene.files = batches(a=5, b=3, c=2)
        scene.write_manifest()
        found = await scene.run(placement="count")
        assert (found.code, counts(scene), len(scene.faults())) == (0, [5, 5], 0)
        assert "`cfetch volume resume` ends that" in found.paused[0].reason
        await volume("pause", v1)
        code, _, said = await scene.command()
        assert (code, "every destination is paused" in said) == (3, True)
        rows = await volume("resume", v0, v1)
        assert [row["changed"] for row in rows] == [True, True]
        origin.files = scene.files = batches(d=4)
        scene.write_manifest()
        assert (await scene.run(placement="count")).code == 0
        assert counts(scene) == [9, 5]


@pytest.mark.parametrize("kept", [1, 2])
async def test_a_run_without_a_volume_of_earlier_runs_names_it(tmp_path, kept):
    """Its files are fetched again, also where only one directory is left."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, batches(a=2, b=2, c=2), volumes=3)
        origin.files = scene.files
        assert "leaves it out" not in await bring(scene, origin, scene.files)
        scene.to, gone = scene.to[:kept], scene.to[kept:]
        code, summary, said = await scene.command()
        assert (code, summary["files"]["done"]) == (0, 2 * len(gone))
        for root in gone:
            assert f"earlier runs have filled {root} too" in said


async def test_files_that_were_removed_by_hand_count_until_a_rescan(tmp_path):
    """Records are read at the beginning of a run; ``rescan`` makes them true again."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, batches(a=6, b=4), volumes=2)
        origin.files = scene.files
        v0, v1 = scene.to
        assert (await scene.run(placement="count")).code == 0
        assert counts(scene) == [6, 4]
        for name in under(v0):
            (v0 / name).unlink()
        rows = await volume("rescan", "--to", v0, "--to", v1)
        assert [(row["files_before"], row["files"], row["missing"]) for row in rows] == [(6, 0, 6), (4, 4, 0)]
        origin.files = scene.files = batches(c=3)
        scene.write_manifest()
        assert (await scene.run(placement="count")).code == 0
        assert counts(scene) == [3, 4]


async def test_space_that_is_to_be_kept_free_is_not_used(tmp_path):
    """A volume that has no more than that takes nothing; a share is of its file system."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, batches(a=5), volumes=1)
        origin.files = scene.files
        code, _, said = await scene.command("--keep-free", "99.9999999%")  # of an empty tmpfs of many GiB too
        assert (code, "has room for 0" in said) == (3, True)
        usage = os.statvfs(tmp_path)
        with closing(Directory(tmp_path / "v0", keep_free=1 << 20)) as directory:
            free_bytes = directory.free_bytes()
        assert free_bytes is not None
        assert abs(usage.f_bavail * usage.f_frsize - free_bytes) < 1 << 30
        assert (await scene.run(keep_free=1 << 20)).code == 0


@pytest.mark.parametrize("processes", [None, 2])
async def test_what_comes_while_one_of_two_volumes_is_lost_is_recorded(tmp_path, processes):
    """A run of which all volumes but one are out of use from the beginning leaves records as any other."""
    files = batches(a=12)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2, names=False, hashed=False, sized=False)
        assert (await scene.run(batch_share=0.2)).code == 0
        assert min(counts(scene)) > 0
        shutil.rmtree(scene.to[1])
        again = await scene.run(batch_share=0.2, processes=processes)
        assert (again.code, [event.volume for event in again.paused]) == (0, [str(scene.to[1])])
        first, lost = scene.volumes()
        assert (sorted(first.files), lost.files) == (sorted(files), {})
        recorded = [record.paths or () for record in first.records.values()]
        assert sorted(path for paths in recorded for path in paths) == sorted(files)
        assert len(recorded) == 6  # cut as before
        assert sum(record.bytes for record in first.records.values()) == sum(map(len, first.files.values()))
        third = await scene.run(batch_share=0.2, processes=processes)
        (row, _) = third.summary["volumes"]
        assert (row["files"], row["bytes"], row["batches"]) == (12, sum(map(len, first.files.values())), 0)


async def test_a_rescan_counts_files_that_no_record_names(tmp_path):
    """A run to a single volume leaves no records: the next batch goes to the other only after a rescan."""
    files = batches(a=6)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2, names=False)
        v0, v1 = both = scene.to
        scene.to = [v1]
        assert (await scene.run()).code == 0
        scene.to = both
        (v1 / "by hand").touch()
        (v1 / os.fsdecode(b"\xff")).touch()  # no manifest can name it
        stand_bytes = sum(map(len, under(v1).values()))
        for before in (0, 7):  # what a rescan has counted is replaced by the next
            rows = await volume("rescan", "--to", v0, "--to", v1)
            assert [(row["files_before"], row["files"], row["missing"]) for row in rows] == [
                (0, 0, 0),
                (before, 7, 0),
            ]
        (_, listed) = await volume("list", "--to", v0, "--to", v1)
        assert (listed["batches"], listed["files"], listed["bytes"]) == (0, 7, stand_bytes)
        (v1 / "by hand").unlink()
        (_, listed) = await volume("list", "--to", v0, "--to", v1)
        assert (listed["files"], listed["missing"]) == (6, 0)  # nobody misses a file that is in no batch
        origin.files = scene.files = batches(b=7, c=2)
        scene.names = True
        scene.write_manifest()
        assert (await scene.run(placement="count")).code == 0
        assert counts(scene) == [9, 6 + 1]
