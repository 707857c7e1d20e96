"""Several volumes, brought by a job on Spark: each batch whole on one of them, each file once."""

from collections import Counter

import pytest

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.events import BatchPlaced, Event
from tests.engine.drive import tree
from tests.tasks.processes.test_named_batches import BATCHES, FILES, find_wrong, write_batches
from tests.tasks.scene import asked, served, whole

pytestmark = pytest.mark.usefixtures("spark")


def bring(manifest, volumes, told=lambda _: None, **settings):
    """Bring the manifest to these volumes by a job; the summary."""
    settings = {"engine": "spark", "mitigation": False} | settings
    with prepare(str(manifest), Settings(to=tuple(map(str, volumes)), **settings), env={}) as prepared:
        return prepared.run(told)


def everything(volumes):
    """All files, each of which has to stand once."""
    assert max(Counter(name for volume in volumes for name in tree(volume)).values()) == 1
    return {name: data for volume in volumes for name, data in tree(volume).items()}


def test_each_batch_goes_to_one_volume_as_a_whole(tmp_path):
    """The summary counts files and batches by volume, and a second run asks for nothing."""
    told, volumes = list[Event](), [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    with served(FILES) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url)
        first = bring(manifest, volumes, told.append)
        assert asked(origin) == dict.fromkeys(FILES, 1)
        again = bring(manifest, volumes)
        assert sum(asked(origin).values()) == len(FILES)
    assert (first.exit_code, first.files.done, again.files.skipped) == (0, 60, 60)
    assert everything(volumes) == whole(FILES)
    assert find_wrong(volumes, BATCHES) == []
    standing = [len(tree(volume)) for volume in volumes]
    assert min(standing) > 0
    assert [volume.files for volume in first.volumes] == standing
    assert [volume.files for volume in again.volumes] == standing
    assert sum(volume.batches for volume in first.volumes) == 11 + 5
    placed = [event.batch for event in told if isinstance(event, BatchPlaced)]
    assert len(set(placed)) == 16
