"""What stands on the volumes counts: placement goes on where earlier runs have ended."""

import json

import msgspec
import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.origin import Origin
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
async def test_eight_nightly_runs_fill_three_volumes_evenly(tmp_path, mode):
    """Each night's one batch goes to another volume, so that after eight nights none is a batch ahead."""
    async with Origin({}) as origin:
        scene = Scene(tmp_path, origin.url, {}, volumes=3)
        for night in range(8):
            origin.files = scene.files = batches(**{f"n{night}": 5})
            scene.write_manifest()
            assert (await scene.run(placement=mode)).code == 0
        assert counts(scene) == [15, 15, 10]


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
