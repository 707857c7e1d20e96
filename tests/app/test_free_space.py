"""The space that a plan needs: what counts as space, and what follows when there is little."""

import pytest

from cfetch.app.download import prepare
from cfetch.app.free_space import DISK_RESERVE_BYTES
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.storage.directory import Directory

KIB = 1 << 10


@pytest.fixture
def prepared_with(tmp_path, monkeypatch):
    """Prepare a plan of 40 files of 100 KiB for several directories with so much free space each."""

    def go(free_bytes, *, volumes=2, part_bytes=0):
        monkeypatch.setattr(Directory, "free_bytes", lambda _: free_bytes)
        manifest = tmp_path / "m.csv"
        manifest.write_text("url,size\n" + "".join(f"http://h.test/{n},{100 * KIB}\n" for n in range(40)))
        to = [tmp_path / f"v{n}" for n in range(volumes)]
        part = to[0] / ".cfetch/attempts/20260101T000000000Z-0000/1/h0"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(bytes(part_bytes))
        with prepare(str(manifest), Settings(to=tuple(map(str, to))), env={}) as prepared:
            return prepared._settings.batch_share

    return go


def test_batches_are_cut_to_fit_the_space_that_is_left(prepared_with):
    """Where there is plenty, the share stays as it is set."""
    assert prepared_with(1 << 30) == Settings().batch_share
    assert prepared_with(4040 * KIB + DISK_RESERVE_BYTES) < Settings().batch_share


def test_the_parts_of_a_killed_run_are_no_reason_to_refuse_its_successor(prepared_with):
    """They take space, and the files that they will be are missing: this must not count twice."""
    free_bytes = DISK_RESERVE_BYTES + 1000 * KIB
    with pytest.raises(LocalFault, match="the plan needs 4,096,000 more bytes"):
        prepared_with(free_bytes, volumes=1)
    assert prepared_with(free_bytes, volumes=1, part_bytes=3000 * KIB)


def test_two_directories_of_one_file_system_have_its_space_once(prepared_with):
    """Else a plan for which there is half of the space would begin."""
    with pytest.raises(LocalFault, match="has room for 3,072,000"):
        prepared_with(DISK_RESERVE_BYTES + 3000 * KIB, volumes=2)
