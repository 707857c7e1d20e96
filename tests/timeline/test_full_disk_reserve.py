"""The timeline's verbs on a disk that is full."""

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cfetch.timeline.files import LocalFiles
from cfetch.timeline.full_disk_reserve import BALLAST, BALLAST_BYTES, leave_ballast, use_ballast
from tests.crash.test_real_faults import has_namespaces

PROJECT = Path(__file__).parents[2]


class Full(LocalFiles):
    """A disk that has room for ``free`` bytes."""

    free = 0

    def create(self, path, data, *, flush=False):
        if len(data) > self.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().create(path, data, flush=flush)
        self.free -= len(data)

    def unlink(self, path):
        size_bytes = (self.root / path).stat().st_size
        super().unlink(path)
        self.free += size_bytes


@pytest.fixture
def files(tmp_path):
    made = Full(tmp_path)
    yield made
    made.close()


def left(files):
    return [path.name for path in files.root.iterdir()]


def test_the_ballast_is_let_go_where_nothing_else_is_free(files):
    """Whoever frees something has room for it, and the ballast is back afterwards."""
    files.free = BALLAST_BYTES
    assert leave_ballast(files)
    with use_ballast(files, "t"):
        assert (left(files), files.free) == ([], BALLAST_BYTES)
    assert left(files) == [BALLAST]
    with use_ballast(files, "t"):
        files.create("kept", b"x")
    assert left(files) == ["kept"]  # there is no room for it


def test_the_ballast_stays_where_there_is_room(files):
    """And an earlier version's timeline has it from then on."""
    files.free = 2 * BALLAST_BYTES
    with use_ballast(files, "t"):
        assert left(files) == []
    with use_ballast(files, "t"):
        assert left(files) == [BALLAST]
    assert left(files) == [BALLAST]


@pytest.mark.skipif(not has_namespaces(), reason="no user namespaces with mounts here")
def test_a_plan_is_listed_and_removed_on_a_full_disk(tmp_path):
    """And then the disk has room again."""
    (tmp_path / "m.txt").write_text("".join(f"http://h.test/{n}\n" for n in range(2000)))
    (tmp_path / "d").mkdir()
    cfetch = shlex.join([sys.executable, "-m", "cfetch", "plan"])
    script = f"""
        mount -t tmpfs -o size=1m tmpfs d || exit 99
        instant=$({cfetch} schedule m.txt --to d) || exit 98
        cat /dev/zero > d/fill 2>/dev/null
        {cfetch} list --to d --json > listed || exit 97
        {cfetch} clean --to d > cleaned || exit 96
        {cfetch} rollback --remove "$instant" --to d || exit 95
        {cfetch} list --to d --json > listed-then || exit 94
        stat -f -c %a d > free
        ls d/.cfetch > state
    """
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    before, after = (json.loads((tmp_path / name).read_text())["plans"] for name in ("listed", "listed-then"))
    assert [plan["files"] for plan in before] == [2000]
    assert after == []
    assert int((tmp_path / "free").read_text()) > 0
    assert BALLAST in (tmp_path / "state").read_text().split()
