"""What is seen of a volume that is looked at."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cfetch.app.volume_moves import OpenedVolumes, _Group
from cfetch.app.volume_set import VolumeStanding, read_volume
from cfetch.run.labels import Labels


@pytest.mark.parametrize(("blocks", "state", "free"), [(0, "mounted", None), (10, "full", 0)])
def test_a_volume_that_reports_no_blocks_is_not_full(monkeypatch, tmp_path, blocks, state, free):
    """Mounts of stores report 0 blocks, 0 of them free, and take every file."""
    usage = SimpleNamespace(f_blocks=blocks, f_bavail=0, f_frsize=4096, f_flag=0)
    monkeypatch.setattr(os, "statvfs", lambda _: usage)
    standing = read_volume(tmp_path, Labels(tmp_path / "state"), 60.0)
    assert (standing.state, standing.free_bytes) == (state, free)


def test_batches_move_to_a_volume_that_does_not_say_its_room(tmp_path):
    """It counts as one with room for all of them, and one that is full has none."""
    standings = (
        VolumeStanding(Path("a"), None, "full", None, 0),
        VolumeStanding(Path("b"), None, "mounted", None, None),
    )
    roots = tuple(standing.root for standing in standings)
    opened = OpenedVolumes(roots, standings, Labels(tmp_path), ())
    batches = [_Group(0, (str(number),), None, 1, 1000) for number in range(3)]
    full, unknown = opened.shelves(batches)
    assert full.spare_bytes == 0
    assert unknown.spare_bytes >= 3000
