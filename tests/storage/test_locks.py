"""Locks of the kernel: who has one, and the one answer where a file system has none."""

import errno
import fcntl
import os
import re
import socket
import subprocess
import sys
import time

import pytest

from cfetch.base.errors import Held, LocalFault
from cfetch.storage.lock_holders import find_holder
from cfetch.storage.locks import NO_LOCKS, need_lock, take_lock
from cfetch.timeline.owner import this_owner

HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR if len(sys.argv) > 2 else os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def opened(tmp_path):
    """The descriptor of a directory."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_the_holder_of_a_lock_is_named(tmp_path, opened):
    """The message names the process that has the lock of a directory, where no note can stand."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        pid = int(other.stdout.readline())
        with pytest.raises(Held) as raised:
            take_lock(opened, "{holder} works here", shared=True)
        other.stdin.close()
    assert (raised.value.pid, raised.value.host) == (pid, socket.gethostname())
    assert re.fullmatch(rf"process {pid} on {socket.gethostname()}, for \d+ s works here", str(raised.value))


def test_the_note_in_a_file_names_its_holder_first(tmp_path):
    """A process of another machine is known by its note alone, which may hold more than host and pid."""
    path = tmp_path / "lock"
    path.write_bytes(b'{"host": "elsewhere", "pid": 17, "machine": "m"}')
    os.utime(path, (0, time.time() - 600))
    with path.open("rb") as file:
        assert find_holder(file.fileno()).shown == "process 17 on elsewhere, for 10 min"
    path.write_bytes(b"torn {")
    with path.open("rb") as file:
        assert find_holder(file.fileno()).shown == "another process"
    assert this_owner("").pid  # the fields that a journal writes have these names


@pytest.mark.parametrize("missing", ["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def test_a_file_system_without_locks_gets_one_answer(missing, tmp_path, opened, monkeypatch):
    """What can do without the lock goes on; what needs it is refused with the place and the next step."""
    code = getattr(errno, missing)
    assert code in NO_LOCKS

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    assert not take_lock(opened, "{holder}")
    with pytest.raises(LocalFault, match=r"its file system has no locks; use a local disk\Z"):
        need_lock(opened, "{holder}", name=tmp_path, remedy="use a local disk")


def test_another_error_of_a_lock_is_not_taken_for_missing_locks(opened, monkeypatch):
    """An interrupted or failing disk is the caller's to report."""

    def fail(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="broken"):
        take_lock(opened, "{holder}")
