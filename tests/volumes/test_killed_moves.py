"""Moves that were killed, and what people and downloads do before the next move: no batch is ever split."""

import shutil
from contextlib import closing
from unittest.mock import patch

import pytest

from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.batch_records import read_records
from cfetch.storage.directory import Directory
from cfetch.storage.moves import move_batch, recover
from cfetch.storage.occupancy import register_run
from cfetch.storage.volume_values import BatchRecord
from tests.volumes.scene import Scene, named, under
from tests.volumes.test_moves import filled, homes, is_well, to, volume


def move_and_die(scene, step, calls):
    """Move the only batch from the first volume to the second; it is killed after so many calls of a step."""
    source, target = scene.to[:2]
    work, left = getattr(Directory, step), [calls]

    def die(*words):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return work(*words)

    records = [record for record in read_records(source) if isinstance(record, BatchRecord)]
    with (
        closing(Directory(source, sharers=2)) as opened,
        patch.object(Directory, step, die),
        pytest.raises(KeyboardInterrupt),
    ):
        move_batch(opened, target, records, lambda *_: None)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("deletes", [0, 2])
async def test_a_download_after_a_killed_move(tmp_path, deletes, lost):
    """The source has a record, and some of the files: the batch stays whole, and no file is fetched again."""
    files = named(1, 3)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        whole, scene.to = scene.to, scene.to[:1]
        assert (await scene.run()).code == 0
        scene.to = whole
        move_and_die(scene, "delete_exactly", deletes)
        if lost:
            (scene.to[1] / "b0/2").unlink()
        asked = len(origin.requests)
        assert (await scene.run()).code == 0
        assert len(origin.requests) - asked == (deletes > 0 and lost)
        assert (scene.faults(), scene.missing(), scene.debris()) == ([], [], [])
    done = await volume("drain", "--from", scene.to[0], *to(scene.to[1]))
    assert done.returncode == 0, done.stdout + done.stderr
    is_well(scene)
    assert homes(scene) == {"b0": 1}


async def test_a_move_whose_target_has_lost_a_file_empties_nothing(tmp_path):
    """Else each volume would have a part of the batch."""
    scene = await filled(tmp_path, named(1, 3), volumes=2)
    move_and_die(scene, "delete_exactly", 0)
    (scene.to[1] / "b0/1").unlink()
    assert list(recover(scene.to)) == []
    assert set(under(scene.to[0])) == set(scene.files)


async def test_an_undone_move_leaves_what_a_download_has_brought_since(tmp_path):
    """The target was the only destination of that download, and has a record of its own."""
    files = named(1, 2)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        whole = source, target = scene.to
        scene.to = [source]
        await scene.run()
        scene.to = whole
        move_and_die(scene, "publish", 0)
        scene.to = [target]
        assert (await scene.run()).code == 0
    for name in files:
        shutil.copystat(source / name, target / name)
    assert list(recover(whole)) == []
    assert set(under(source)) == set(under(target)) == set(files)
    assert not (target / ".cfetch/moves").exists()


async def test_an_undone_move_leaves_a_file_that_it_had_not_copied(tmp_path):
    """It was killed at the second copy; somebody has put the third file there since."""
    scene = await filled(tmp_path, named(1, 3), volumes=2)
    source, target = scene.to
    move_and_die(scene, "open_existing", 1)
    (target / "b0").mkdir(parents=True)
    shutil.copy2(source / "b0/2", target / "b0/2")
    assert [done.is_done for done in recover(scene.to)] == [False]
    assert set(under(target)) == {"b0/2"}


async def test_an_undone_move_that_had_copied_nothing_leaves_all_files(tmp_path):
    """It was killed before its first copy; somebody has put the very files there since, with their times."""
    scene = await filled(tmp_path, named(1, 2), volumes=2)
    source, target = scene.to
    move_and_die(scene, "open_existing", 0)
    shutil.copytree(source / "b0", target / "b0")
    assert [done.is_done for done in recover(scene.to)] == [False]
    assert set(under(target)) == set(scene.files)


@pytest.mark.parametrize("volumes", [2, 3])
@pytest.mark.parametrize(("step", "calls"), [("open_existing", 1), ("publish", 0), ("publish", 2)])
async def test_a_download_ends_a_killed_move(tmp_path, step, calls, volumes):
    """It removes the copies, which need room; while another run is at work the next one does that."""
    files = named(2, 3)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=volumes)
        whole, scene.to = scene.to, scene.to[:1]
        assert (await scene.run()).code == 0
        scene.to = whole
        move_and_die(scene, step, calls)
        assert list(scene.to[1].glob(".cfetch/moves/*/*"))
        asked = len(origin.requests)
        with closing(Directory(scene.to[0])) as other:
            register_run(other)
            assert (await scene.run()).code == 0
        assert list(scene.to[1].glob(".cfetch/moves/*/*"))
        assert (await scene.run()).code == 0
        assert len(origin.requests) == asked
    is_well(scene)
    assert homes(scene) == {"b0": 0, "b1": 0}
