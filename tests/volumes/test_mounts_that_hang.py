"""Mounts that answer no call any more, for any thread: a FUSE file system that a test rules."""

import os
import re
import subprocess

import pytest

from cfetch.plugins.lab.bench.origin import Origin
from tests.gate import Gate
from tests.volumes.scene import KIB, PROJECT, PYTHON, Scene, named

MIRROR = f"{PYTHON} -m tests.volumes.mount"


def mirror(root):
    """A script that mounts ``root``, and lets words written to descriptor 3 rule it."""
    return f"""
        mkfifo rule; mkdir -p below
        {MIRROR} below {root} <rule >told 2>&1 & exec 3>rule
        while ! grep -q mounted told; do sleep 0.01; done
        said() {{ echo $1 >&3; while ! grep -q $1 told; do sleep 0.01; done; }}
    """


@pytest.fixture(scope="session")
def mirrors(namespaces):
    """Skips the test where FUSE cannot be mounted."""
    command = ["unshare", "-Urm", *MIRROR.split(), "/", "/mnt"]
    env = os.environ | {"PYTHONPATH": str(PROJECT)}
    if subprocess.run(command, input=b"", capture_output=True, check=False, env=env).returncode:
        pytest.skip("no FUSE here")


@pytest.fixture
async def gate(tmp_path):
    """An origin that sends the rest of its files when `gate` is there, so that nobody misses the parts."""
    async with Gate(named(8, 4, 40 * KIB), tmp_path / "gate", head_bytes=KIB).open() as made:
        yield made


async def test_a_volume_that_hangs_for_ever(tmp_path, mirrors, gate):
    """The run ends without any call on it, and the others take all."""
    scene = Scene(tmp_path, gate.url, gate.files, volumes=2)
    script = "parts v1 'not answered' said; said hang; touch gate"  # a slow mount may be left before
    told, _ = await scene.in_namespace(mirror("v1"), script, "--write-timeout", "1s", afterwards="said well")
    assert (told["exit_code"], told["files"]["done"]) == (0, 32)
    assert "v1 has not answered for 1 s" in told["volumes"][1]["out_of_use"]


async def test_the_volume_with_the_state_hangs(tmp_path, mirrors, gate):
    """The run ends, and names that volume and no healthy one; a later run has it all."""
    words = ("--write-timeout", "1s", "--heartbeat-interval", "1s", "--heartbeat-misses", "9")
    scene = Scene(tmp_path, gate.url, gate.files, volumes=2)
    script = "parts v0; said hang; touch gate"
    told, said = await scene.in_namespace(mirror("v0"), script, *words, afterwards="said well")
    assert (told["exit_code"], scene.faults(tmp_path / "after")) == (3, [])
    assert told["volumes"][1]["out_of_use"] is None
    # the second, if another call has waited for it already
    assert re.search(r"v0 (has not answered for 1 s|does not answer); see whether it is still there", said)


async def test_a_volume_that_hangs_from_the_start(tmp_path, mirrors):
    """It is named and left out; the others take all."""
    files = named(4, 3)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        before = mirror("v1") + "said hang"
        told, said = await scene.in_namespace(before, "", "--write-timeout", "1s", afterwards="said well")
    assert (told["exit_code"], told["files"]["done"]) == (0, 12)
    assert "v1 does not answer" in said
