"""The space that a plan needs: what counts as space, and what follows when there is little."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.app import free_space
from cfetch.app.download import prepare
from cfetch.app.free_space import DISK_RESERVE_BYTES
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.engine.placement.foresight import foresee
from cfetch.run.volumes import Volumes
from cfetch.storage.directory import Directory

KIB = 1 << 10


@pytest.fixture
def prepared_with(tmp_path, monkeypatch):
    """Prepare a plan of 40 files of 100 KiB for several directories with so much free space each."""

    def go(free_bytes, *, volumes=2, part_bytes=0, batches=0, notes=False, **more):
        monkeypatch.setattr(Directory, "free_bytes", lambda _: free_bytes)
        manifest = tmp_path / "m.csv"
        lines = (f"http://h.test/{n},{100 * KIB},{'b' if n < batches else ''}\n" for n in range(40))
        manifest.write_text("url,size,batch\n" + "".join(lines))
        to = [tmp_path / f"v{n}" for n in range(volumes)]
        part = to[0] / ".cfetch/attempts/20260101T000000000Z-0000/1/h0"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(bytes(part_bytes))
        with prepare(str(manifest), Settings(to=tuple(map(str, to)), **more), env={}) as prepared:
            return list(prepared.notes) if notes else prepared._settings.batch_share

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


def test_a_run_over_several_volumes_says_before_whether_it_will_fit(prepared_with, monkeypatch):
    """Each is a disk of its own here; the space of both is enough, but none has it for the named batch."""
    monkeypatch.setattr(Volumes, "disks", lambda self: [(str(root), 3000 * KIB) for root in self.roots])
    monkeypatch.setattr(Volumes, "free_bytes", lambda self: 1 << 30)
    [fits] = prepared_with(3000 * KIB, batches=20, notes=True)
    assert "will fit; no disk will be full: at the end about" in fits
    [short] = prepared_with(3000 * KIB, batches=35, notes=True)
    assert (
        "will not all fit: after 0 B (0 %) no disk has room for 1 batch; the largest of them, 'b'," in short
    )
    assert "needs 3.4 MiB, and the most that a disk has left is 2.9 MiB" in short


def test_the_records_of_many_files_need_room_too(prepared_with, monkeypatch, tmp_path):
    """On the disk with the state alone, and only if they are written there."""
    monkeypatch.setattr(free_space, "RECORD_BYTES", 1 << 20)
    for elsewhere in ({"metrics": str(tmp_path / "metrics.jsonl")}, {"state": str(tmp_path / "state")}):
        assert prepared_with(25 << 20, volumes=1, **elsewhere)
    assert prepared_with(45 << 20, volumes=1)
    with pytest.raises(
        LocalFault, match="a reserve of 41,943,040 set aside for the metrics, which --metrics"
    ):
        prepared_with(43 << 20, volumes=1)
    disks = {"v0": 41 << 20, "v1": 100 << 20}
    monkeypatch.setattr(Volumes, "disks", lambda self: list(disks.items()))
    monkeypatch.setattr(Volumes, "free_bytes", lambda self: 1 << 30)
    [near] = prepared_with(0, notes=True)
    assert "v0 1.0 MiB left of 41.0 MiB" in near
    [apart] = prepared_with(0, notes=True, state=str(tmp_path / "state"))
    assert "3.9 MiB will fit" in apart


def test_the_disk_with_the_state_is_the_first(tmp_path):
    """Whichever directory was named first: the records take room there."""
    roots = [tmp_path / "a", tmp_path / "b"]
    for state in roots:
        with closing(Volumes(roots, state=state / ".cfetch", write_timeout_s=9.0)) as volumes:
            assert volumes.have_state
            [(name, _)] = volumes.disks() or []
            assert name.startswith(f"{state} and ")


def test_two_directories_of_one_disk_are_one_disk(prepared_with):
    """Its room, with the parts of dead runs, is told once."""
    [note] = prepared_with(1 << 30, notes=True, part_bytes=100 * KIB)
    assert note.startswith("space: 3.9 MiB will fit; no disk will be full: 1.0 GiB free on ")
    assert (note.count("1.0 GiB"), note.count("v0 and ")) == (1, 1)


def test_a_list_without_any_size_is_not_said_to_fit(tmp_path):
    """There are no other files whose mean its files could be taken for."""
    manifest = tmp_path / "urls.txt"
    manifest.write_text("".join(f"http://h.test/{n}.bin\n" for n in range(40)))
    to = tuple(str(tmp_path / name) for name in ("v0", "v1"))
    with prepare(str(manifest), Settings(to=to), env={}) as prepared:
        [note] = prepared.notes
    assert note.startswith("space: no size is stated, so it is not known whether all files will fit: ")


@given(st.lists(st.integers(0, 50), max_size=30), st.lists(st.integers(0, 200), min_size=1, max_size=5))
def test_batches_that_are_foreseen_have_room(batches, rooms):
    """No disk is overfull, no byte is lost, and what is homeless exceeds what any disk had left."""
    seen = foresee(batches, rooms)
    placed = sum(batches) - sum(batches[position] for position in seen.homeless)
    assert sum(rooms) - sum(seen.left_bytes) == placed
    assert all(left >= 0 for left in seen.left_bytes)
    if seen.homeless:
        assert max(batches[position] for position in seen.homeless) > seen.most_bytes
        assert seen.placed_bytes <= placed
