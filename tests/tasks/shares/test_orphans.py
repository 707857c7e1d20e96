"""Directories of dead attempts, on a real disk and with a clock of the test's."""

import os

from cfetch.tasks.shares.orphans import LOOK_S, STILL_S, Orphans


class Watch:
    def __init__(self, directory):
        self.now_s = 0.0
        self.orphans = Orphans(directory, lambda: self.now_s)

    def wait(self, seconds):
        for _ in range(int(seconds / LOOK_S)):
            self.now_s += LOOK_S
            self.orphans.remove_if_due()


def test_one_in_which_nothing_moves_goes_and_others_stay(tmp_path):
    """Ten minutes by the driver's own clock, from when it was first seen so."""
    for name in ("t1", "t2", "tother"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_bytes(b"x")
    watch = Watch(tmp_path)
    watch.wait(STILL_S)
    (tmp_path / "t2/part").write_bytes(b"more")
    watch.wait(LOOK_S)
    assert sorted(os.listdir(tmp_path)) == ["t2", "tother"]
    watch.wait(STILL_S + LOOK_S)
    assert os.listdir(tmp_path) == ["tother"]


def test_all_go_in_the_end(tmp_path):
    """Then nothing of them is of use; where the run never had a directory nothing happens."""
    for name in ("2/t1", "2-1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "part").write_bytes(b"x")
    Orphans(tmp_path / "2", lambda: 0.0).clear()
    Orphans(tmp_path / "gone", lambda: 0.0).clear()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["2"]
