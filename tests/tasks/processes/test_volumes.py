"""Several volumes, brought by two processes: each batch whole on one of them, each file once."""

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.events import BatchPlaced, Event, RunNoted
from cfetch.plugins.lab.bench.origin import Origin
from tests.engine.drive import tree
from tests.tasks.processes.test_named_batches import BATCHES, FILES, find_wrong, write_batches
from tests.tasks.processes.test_processes import workers
from tests.tasks.scene import asked, everything, files_of, served, whole, write_manifest
from tests.volumes.conftest import namespaces
from tests.volumes.scene import KIB, Scene, named
from tests.volumes.test_dead_mount import DEAD, dead_mounts

__all__ = ["dead_mounts", "namespaces", "workers"]
TWO = ("--processes", "2")


def bring(manifest, volumes, told=lambda _: None, **settings):
    """Bring the manifest to these volumes over two processes; the summary."""
    to = tuple(map(str, volumes))
    with prepare(
        str(manifest), Settings(to=to, processes=2, mitigation=False, **settings), env={}
    ) as prepared:
        return prepared.run(told)


def test_each_batch_goes_to_one_volume_as_a_whole(tmp_path, workers):
    """The summary counts files and batches by volume, and a second run asks for nothing."""
    told, volumes = list[Event](), [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    with served(FILES) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url)
        first = bring(manifest, volumes, told.append)
        assert asked(origin) == dict.fromkeys(FILES, 1)
        again = bring(manifest, volumes)
        assert sum(asked(origin).values()) == len(FILES)
    assert [event.note for event in told if isinstance(event, RunNoted) and "process" in event.note] == []
    assert len(workers) == 4
    assert (first.exit_code, first.files.done, again.files.skipped) == (0, 60, 60)
    assert everything(volumes) == whole(FILES)
    assert find_wrong(volumes, BATCHES) == []
    standing = [len(tree(volume)) for volume in volumes]
    assert [volume.files for volume in first.volumes] == standing
    assert [volume.files for volume in again.volumes] == standing
    assert sum(volume.batches for volume in first.volumes) == 11 + 5
    assert min(standing) > 0
    placed = [event.batch for event in told if isinstance(event, BatchPlaced)]
    assert len(set(placed)) == 16


def test_files_without_a_batch_stay_where_they_are(tmp_path):
    """Those of an earlier run with one volume are checked there, and only new ones are fetched."""
    files = files_of(60)
    early = dict(list(files.items())[::2])
    volumes = [tmp_path / "a", tmp_path / "b"]
    with served(files) as origin:
        bring(write_manifest(tmp_path / "m.json", origin, early), volumes[:1])
        summary = bring(write_manifest(tmp_path / "m.json", origin, files), volumes, batch_share=0.1)
        assert asked(origin) == dict.fromkeys(files, 1)
    assert (summary.exit_code, summary.files.done, summary.files.skipped) == (0, 30, 30)
    assert everything(volumes) == whole(files)
    assert set(early) <= set(tree(volumes[0]))


async def test_what_a_small_volume_refuses_goes_to_the_other(tmp_path, namespaces):
    """No size is stated, so nobody could know; what had been committed there stays."""
    files = named(8, 5, 60 * KIB)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2, sized=False)
        told, _ = await scene.in_namespace("mounted v1 700k", "", "--state", "st", *TWO)
    assert (told["exit_code"], told["files"]["done"]) == (0, 40)
    after = tmp_path / "after"
    assert (scene.faults(after), scene.missing(after), scene.debris(after)) == ([], [], [])


async def test_a_volume_that_dies_in_the_middle_loses_its_batches_to_the_other(tmp_path, dead_mounts):
    """All files are in place, and the summary names the volume that is out of use."""
    files = named(8, 4, 40 * KIB)
    async with Origin(files, pace_bps=80.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        begun = "while ! ls v1/.cfetch/attempts/*/*/t*/h* >/dev/null 2>&1; do sleep 0.01; done"
        told, _ = await scene.in_namespace(
            "mounted v1 8m", f"{begun}; {DEAD} v1", "--state", "st", *TWO, afterwards="umount v1"
        )
    assert (told["exit_code"], told["files"]["done"]) == (0, 32)
    assert told["volumes"][1]["out_of_use"] is not None


def test_what_earlier_runs_have_left_counts(tmp_path):
    """Each of three runs brings one batch, and each to a volume that has none yet."""
    volumes = [tmp_path / name for name in "abc"]
    for night in range(3):
        files = files_of(5, folder=f"night{night}")
        batches = dict.fromkeys(files, str(night))
        with served(files) as origin:
            manifest = write_batches(tmp_path / "m.json", origin.url, files, batches)
            assert bring(manifest, volumes, placement="count").exit_code == 0
        assert find_wrong(volumes, batches) == []
    assert [len(tree(volume)) for volume in volumes] == [5, 5, 5]


def test_two_processes_fill_four_volumes_evenly(tmp_path):
    """A process that is done goes to the volume with the fewest shares, and takes no batches from it."""
    files, volumes = files_of(80), [tmp_path / name for name in "abcd"]
    batches = {name: str(n // 4) for n, name in enumerate(files)}
    with served(files) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url, files, batches)
        assert bring(manifest, volumes).exit_code == 0
    assert find_wrong(volumes, batches) == []
    standing = [len(tree(volume)) for volume in volumes]
    assert max(standing) - min(standing) <= 8
