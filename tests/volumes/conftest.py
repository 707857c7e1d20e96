"""What tests with namespaces and tracers need of the machine."""

import shutil
import subprocess

import pytest

from tests.crash.conftest import children
from tests.crash.scene import can_trace
from tests.volumes.hold import can_hold

__all__ = ["children"]


@pytest.fixture(scope="session")
def namespaces():
    """Skips the test where a user may not mount a file system of his own."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    command = ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces with mounts here")


@pytest.fixture(scope="session")
def holding():
    """Skips the test where a thread of another process cannot be held."""
    if why := can_hold():
        pytest.skip(why)


@pytest.fixture(scope="session")
def strace():
    """Skips the test where there is none."""
    if why := can_trace():
        pytest.skip(why)
