"""What stands on volumes by their records: each file once, where its newest record is."""

import pytest

from cfetch.storage import recorded_files
from cfetch.storage.recorded_files import Recorded, RecordedFiles, count_recorded
from cfetch.storage.volume_values import BatchRecord


def record(instant, paths, size_bytes, *, files=None):
    count = len(paths or ()) if files is None else files
    return BatchRecord(
        id=instant,
        name=None,
        instant=instant,
        entries=count,
        files=count,
        bytes=size_bytes,
        why="",
        paths=paths,
    )


def test_a_file_counts_at_its_newest_record():
    """An older record beside it, or on another volume, adds nothing; one without names is counted whole."""
    first = RecordedFiles(
        [record("1", ("a", "b"), 20), record("2", ("b", "c"), 60), record("1", None, 5, files=7)]
    )
    second = RecordedFiles([record("3", ("c",), 8)])
    assert count_recorded([first, second]) == [Recorded(9, 45), Recorded(1, 8)]


def test_of_many_files_a_sample_is_compared(monkeypatch):
    """Memory is bounded, and the number stays near the truth."""
    monkeypatch.setattr(recorded_files, "MOST_KEPT", 1000)
    volume = RecordedFiles(
        record(str(n), tuple(f"{n}/{file}" for file in range(1000)), 10_000) for n in range(40)
    )
    assert len(volume.mentions) <= 1000
    (counted,) = count_recorded([volume])
    assert counted.files == pytest.approx(40_000, rel=0.3)
    assert counted.size_bytes == pytest.approx(400_000, rel=0.3)
