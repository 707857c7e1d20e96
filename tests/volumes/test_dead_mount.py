"""Mounts whose server has gone: every call fails, also those that only ask whether something is there."""

import os
import shlex
import subprocess
import sys

import pytest

from cfetch.plugins.lab.bench.origin import Origin
from tests.gate import Gate
from tests.volumes.scene import KIB, PROJECT, Scene, named

DEAD = f"{sys.executable} -m tests.volumes.dead"


@pytest.fixture(scope="session")
def dead_mounts(namespaces):
    """Skips the test where FUSE cannot be mounted."""
    command = ["unshare", "-Urm", *DEAD.split(), "/mnt"]
    env = os.environ | {"PYTHONPATH": str(PROJECT)}
    if subprocess.run(command, capture_output=True, check=False, env=env).returncode:
        pytest.skip("no FUSE here")


async def test_a_dead_mount_is_left_out_at_the_start(tmp_path, dead_mounts):
    """The run names it, and the others take all."""
    files = named(4, 3)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        told, said = await scene.in_namespace(f"{DEAD} v1", "", "--state", "st", afterwards="umount v1")
    assert (told["exit_code"], told["files"]["done"]) == (0, 12)
    assert "Transport endpoint is not connected" in told["volumes"][1]["out_of_use"]
    assert str(scene.to[1]) in said


async def test_a_mount_dies_in_the_middle(tmp_path, dead_mounts):
    """Its batches go to the others. None is whole there before: what is committed would be lost with it."""
    files = named(8, 4, 40 * KIB)
    async with Gate(files, tmp_path / "died", head_bytes=KIB).open() as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        told, _ = await scene.in_namespace(
            "mounted v1 8m", f"parts v1; {DEAD} v1; touch died", "--state", "st", afterwards="umount v1"
        )
    assert (told["exit_code"], told["files"]["done"]) == (0, 32)
    assert told["volumes"][1]["out_of_use"] is not None


def test_a_dead_mount_is_a_fault_of_this_machine(tmp_path, dead_mounts):
    """For each command that is pointed at one; it is no bug of cfetch."""
    (tmp_path / "m.txt").write_text("http://127.0.0.1:9/a\n")
    (tmp_path / "dead").mkdir()
    commands = {
        "download m.txt --to dead/below": 3,
        "download dead/m.txt --to there": 3,
        "get dead/a": 2,
        "sync m.txt --to dead --dry-run": 3,
        "plan list --to dead": 3,
        "report dead": 3,
        "manifest build dead": 3,
    }
    calls = "\n".join(f'{sys.executable} -m cfetch {words} >/dev/null; echo "$?"' for words in commands)
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", f"{DEAD} dead || exit 99\n{calls}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, shlex.join(done.args) + done.stderr
    assert dict(zip(commands, map(int, done.stdout.split()), strict=True)) == commands, done.stderr
    assert "Traceback" not in done.stderr
