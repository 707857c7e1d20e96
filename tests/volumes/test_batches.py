"""Batches over several volumes, and over one: where they are, what is published, what a later run does."""

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from tests.volumes.scene import KIB, Scene, named

GONE = Fault(kind="status", status=404, first=0)


async def served_again(scene, origin, **settings):
    """Another run, and the paths that it asked for: no helper and no straggler asks twice."""
    asked = len(origin.requests)
    found = await scene.run(mitigation=False, **settings)
    return found, [request.path for request in origin.requests[asked:]]


@pytest.mark.parametrize(
    ("names", "placement", "durability"),
    [
        (True, "finish", "crash"),
        (False, "finish", "power"),
        (False, "count", "crash"),
        (True, "round-robin", "power"),
    ],
)
async def test_a_job_its_repetition_and_one_file_more(tmp_path, names, placement, durability):
    """Each batch on one volume with its record; what the metrics and the summary tell of it is so."""
    how = {"placement": placement, "durability": durability}
    files = named(6, 4)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, names=names)
        first = await scene.run(**how)
        assert (first.code, scene.faults(), scene.missing(), scene.debris()) == (0, [], [], [])
        volumes = scene.volumes()
        assert all(volume.files for volume in volumes)
        where = {name: str(scene.to[at]) for at, volume in enumerate(volumes) for name in volume.files}
        records = {id_: one for volume in volumes for id_, one in volume.records.items()}
        assert sum(record.files for record in records.values()) == len(scene.files)
        assert {path: told["volume"] for path, told in first.metrics.items()} == where
        for path, told in first.metrics.items():
            assert told["batch"] == path.partition("/")[0] if names else len(told["batch"]) == 8
        assert len(first.committed) == len(records)
        for volume, told in zip(volumes, first.summary["volumes"], strict=True):
            assert (told["files"], told["batches"]) == (len(volume.files), len(volume.records))

        again, asked = await served_again(scene, origin, **how)
        assert (again.code, asked, set(again.statuses().values())) == (0, [], {"skipped"})
        assert {path: told["volume"] for path, told in again.metrics.items()} == where

        origin.files = scene.files | {"b3/new": Synthetic("b3/new", 5 * KIB)}
        scene.files = dict(origin.files)
        scene.write_manifest()
        more, asked = await served_again(scene, origin, **how)
        assert (more.code, asked) == (0, ["b3/new"])
        assert (scene.faults(), scene.missing(), scene.debris()) == ([], [], [])


@pytest.mark.parametrize("volumes", [3, 1])
async def test_a_named_batch_is_published_as_a_whole(tmp_path, volumes):
    """Where one of its files cannot be had nothing of it is; what came is kept, and nothing comes twice."""
    files = named(4, 4, 100 * KIB)
    async with Origin(files, {"b2/1": GONE}) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=volumes)
        first = await scene.run()
        assert (first.code, scene.faults()) == (1, [])
        assert scene.missing() == ["b2/0", "b2/1", "b2/2", "b2/3"]
        told = {one["path"]: (one["kind"], one["message"]) for one in first.summary["failures"]}
        assert told.pop("b2/1") == ("refused", "HTTP 404: The origin was told to fail here")
        assert set(told) == {"b2/0", "b2/2", "b2/3"}
        assert {kind for kind, _ in told.values()} == {"batch"}
        assert all("held back, as 1 of the 4 files of batch b2 failed" in said for _, said in told.values())
        assert first.summary["bytes"]["wasted"] == 0
        home = first.metrics["b2/0"]["volume"]

        origin.script.faults = {}
        again, asked = await served_again(scene, origin)
        assert (again.code, asked) == (0, ["b2/1"])
        assert (scene.faults(), scene.missing(), scene.debris()) == ([], [], [])
        assert {again.metrics[f"b2/{n}"]["volume"] for n in range(4)} == {home}
        assert again.summary["bytes"]["fetched"] == files["b2/1"].size_bytes


async def test_of_a_batch_without_a_name_the_others_are_published(tmp_path):
    """It was put together for the placement only."""
    files = named(4, 4)
    async with Origin(files, {"b2/1": GONE}) as origin:
        scene = Scene(tmp_path, origin.url, files, names=False)
        first = await scene.run(batch_share=0.2)
        assert (first.code, scene.missing()) == (1, ["b2/1"])
        assert (scene.faults(), scene.debris()) == ([], [])
        assert (
            sum(one.files < one.entries for volume in scene.volumes() for one in volume.records.values()) == 1
        )
        origin.script.faults = {}
        again, asked = await served_again(scene, origin, batch_share=0.2)
    assert (again.code, asked) == (0, ["b2/1"])
    assert (scene.faults(), scene.missing(), scene.debris()) == ([], [], [])


async def test_a_batch_on_one_volume_stands_in_the_way_of_nothing(tmp_path):
    """With one volume entries without a batch are published one by one, and named ones with their record."""
    files = named(2, 3) | {"free/a": Synthetic("free/a", 10)}
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=1)
        found = await scene.run()
        assert (found.code, scene.faults(), scene.missing()) == (0, [], [])
        assert sorted(str(one.name) for one in scene.volume(0).records.values()) == ["b0", "b1", "free"]


@pytest.mark.parametrize("names", [True, False])
async def test_what_came_in_vain_adds_up(tmp_path, names):
    """Attempts of all entries together brought what was fetched; less what was wasted, it is the files."""
    files = named(4, 4, 50 * KIB)
    faults = {
        "b1/2": Fault(kind="reset", after_bytes=20 * KIB),
        "b2/0": Fault(kind="truncate", after_bytes=7),
    }
    async with Origin(files, faults) as origin:
        scene = Scene(tmp_path, origin.url, files, names=names)
        found = await scene.run()
    told = found.summary["bytes"]
    brought = [sum(one["bytes"] for one in record["attempts"]) for record in found.metrics.values()]
    assert (found.code, scene.faults()) == (0, [])
    assert sum(brought) == told["fetched"]
    assert told["fetched"] - told["wasted"] == sum(content.size_bytes for content in files.values())


async def test_a_record_counts_more_than_a_mark(tmp_path):
    """A volume that hung keeps the mark of a batch that was committed elsewhere: it is not fetched again."""
    files = named(3, 3)
    async with Origin(files, {"b2/1": GONE}) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        await scene.run()
        id_ = next(iter(scene.volume(1).records))
        (instant,) = {path.name for path in tmp_path.glob("v*/.cfetch/attempts/*")}
        attempt = scene.to[0] / ".cfetch/attempts" / instant / "1"
        attempt.mkdir(parents=True, exist_ok=True)
        (attempt / f"b{id_}").touch()
        origin.script.faults = {}
        again, asked = await served_again(scene, origin)
    assert (again.code, asked) == (0, ["b2/1"])
    assert (scene.faults(), scene.missing(), scene.debris()) == ([], [], [])


async def test_a_batch_that_lacks_only_its_record_gets_it(tmp_path):
    """Its run was killed between the last name and the record: nothing is fetched, and it is committed."""
    files = named(3, 2)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        await scene.run()
        (before,) = (one for held in scene.volumes() for one in held.records.values() if one.name == "b1")
        (path,) = tmp_path.glob(f"v*/.cfetch/batches/{before.id}.json")
        path.unlink()
        again, asked = await served_again(scene, origin)
    assert (again.code, asked, scene.faults()) == (0, [], [])
    (after,) = (one for held in scene.volumes() for one in held.records.values() if one.name == "b1")
    assert (after.paths, after.bytes, after.files) == (before.paths, before.bytes, before.files)


async def test_a_batch_that_two_volumes_have_stays_on_one(tmp_path):
    """It was brought to each of them alone, or one of them did not answer: then it is on one volume again."""
    files = named(2, 2)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        both = scene.to
        for root in both:
            scene.to = [root]
            assert (await scene.run()).code == 0
        scene.to = both
        assert len(scene.faults()) == len(files) + 1
        again, asked = await served_again(scene, origin)
    assert (again.code, asked) == (0, [])
    assert (scene.faults(), scene.missing(), scene.debris()) == ([], [], [])
