"""Disks that are full, broken or forbidden in the middle of a run: said in words, and gone on after."""

import errno
import random

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.process import command, ended, started
from tests.crash.scene import KIB, MIB, Job, Point, Scene, serving
from tests.crash.test_points import MOST_AGAIN, sample

pytestmark = pytest.mark.usefixtures("strace")
ERRORS = {
    "openat": ["EMFILE", "EACCES", "ENOSPC", "EIO"],
    "write": ["ENOSPC", "EDQUOT", "EFBIG", "EIO"],
    "renameat": ["ENOSPC", "EROFS", "EACCES", "EIO"],
    "mkdirat": ["ENOSPC", "EACCES", "EROFS"],
    "mkdir": ["ENOSPC", "EROFS"],
    "syncfs": ["EIO", "ENOSPC"],
    "unlinkat": ["EIO"],
    "flock": ["ENOLCK"],
    "fsetxattr": ["EOPNOTSUPP", "ENOSPC"],
}
WORDS = {
    "EMFILE": "Too many open files",
    "EACCES": "Permission denied",
    "ENOSPC": "No space left on device",
    "EDQUOT": "Disk quota exceeded",
    "EFBIG": "File too large",
    "EIO": "Input/output error",
    "EROFS": "Read-only file system",
    "EOPNOTSUPP": "",
    "ENOLCK": "",
}


def fail_and_finish(folder, url, children, durability, point, error, *, on):
    """The run says what is wrong or does without; what stands there is right; the next run completes it."""
    folder.mkdir()
    scene = Scene(folder, url, children, durability=durability)
    failed = scene.failing_at(point, error, on=on)
    where = (point, error, on, failed)
    assert failed.code in (0, 1, 3), where
    assert "Traceback" not in failed.said, where
    assert scene.wrong() == [], where
    if failed.code:
        assert WORDS[error] in failed.said, where
    else:
        assert scene.missing() == [], where
    again = scene.finish(tidy=False) + failed.held_bytes - scene.job.total_bytes
    assert again <= MOST_AGAIN, where
    return failed.code


@pytest.mark.parametrize("durability", ["power", "crash"])
def test_c87_some_calls_fail(tmp_path, url, children, durability):
    """Once, or from then on: the true cause with exit code 3, or 1 if it may be one file's; or no harm."""
    check(tmp_path, url, children, durability, 7)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["power", "crash"])
def test_c87_every_call_fails(tmp_path, url, children, durability):
    """The long form."""
    check(tmp_path, url, children, durability, 10_000)


def check(tmp_path, url, children, durability, count):
    dice = random.Random(87)
    points = Scene(tmp_path, url, children, durability=durability).points()
    # libuv wakes its loop through a pipe, and aborts where that fails: no disk is at fault there.
    points = [point for point in points if point.call in ERRORS and "<pipe:" not in point.line]
    points = sample(points, count, dice)
    codes = [
        fail_and_finish(
            tmp_path / str(i),
            url,
            children,
            durability,
            point,
            dice.choice(ERRORS[point.call]),
            on=i % 2 == 0 and point.call != "write",  # stderr is written too
        )
        for i, point in enumerate(points)
    ]
    assert len(codes) - codes.count(0) > len(codes) / 3


def test_c91_what_could_not_be_flushed_is_thrown_away(tmp_path, url, children):
    """The kernel forgets which pages it could not write, so they read well and are lost: all of them go."""
    scene = Scene(tmp_path, url, children)
    failed = scene.failing_at(Point("syncfs", 1, ""), "EIO")
    assert failed.code == 3
    assert "cannot make what was written to" in failed.said
    assert "Input/output error" in failed.said
    assert failed.held_bytes == 0
    assert scene.missing() == list(scene.job.files)
    assert sum("syncfs(" in line for line in scene.trace.read_text().splitlines()) == 1
    assert scene.finish() == scene.job.total_bytes


BIG = Job({"big": Synthetic("big", 8 * MIB)}, hashed=("big",))


# Which write comes behind so many bytes, differs from run to run.
BROKEN = """
import os
import runpy
from cfetch.storage.part_file import PartFile

write, taken = PartFile._write, 0

def refuse(self, data):
    global taken
    taken += len(data)
    if taken > {held}:
        raise OSError({error}, os.strerror({error}))
    write(self, data)

PartFile._write = refuse
runpy.run_module("cfetch", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("error", "kept", "code"), [("EIO", False, 3), ("ENOSPC", True, 3), ("EDQUOT", True, 1)]
)
def test_c87_c91_a_part_that_met_a_full_disk_is_kept_and_one_that_met_a_broken_one_is_not(
    tmp_path, children, error, kept, code
):
    """No byte that is kept is fetched again."""
    with serving(BIG.files) as origin:
        scene = Scene(tmp_path, origin.url, children, job=BIG)
        script = BROKEN.format(held=BIG.total_bytes // 2, error=getattr(errno, error))
        python, _, _, *words = command(scene, "--quiet")
        failed = ended(started([python, "-c", script, *words]))
        assert failed.code == code, failed.said
        assert f"cannot write big: {WORDS[error]}" in failed.said
        held = scene.held_bytes()
        assert (held > MIB) is kept
        assert (held == 0) is not kept
        assert scene.finish() == scene.job.total_bytes - held


def test_c91_parts_of_a_run_that_lost_writes_are_not_kept(tmp_path, children):
    """The flush of a small file fails while a large one is under way; whose pages were lost nobody knows."""
    files = {"small": Synthetic("small", 10 * KIB), "large": Synthetic("large", 12 * MIB)}
    with serving(files, pace_bps=6.0 * MIB) as origin:
        scene = Scene(tmp_path, origin.url, children, job=Job(files, hashed=tuple(files)))
        failed = scene.failing_at(Point("syncfs", 2, ""), "EIO")
        assert failed.code == 3
        assert not list(scene.to.glob(".cfetch/attempts/*/*/*"))
