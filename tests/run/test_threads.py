"""The threads and the memory of a run are proved before it begins."""

import mmap
import subprocess
import sys
import threading

import pytest

from cfetch.base.errors import ConfigError
from cfetch.run.threads import OTHERS, PER_VOLUME, prove_threads


@pytest.fixture
def threads(monkeypatch):
    """The threads that are started, in order: those of other tests may still end meanwhile."""
    start, begun = threading.Thread.start, list[threading.Thread]()

    def started(thread):
        start(thread)
        begun.append(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    return begun


def count_alive(threads):
    """How many of the threads have not ended."""
    return sum(thread.is_alive() for thread in threads)


def test_all_that_a_run_needs_are_started_at_once_and_let_go(threads, monkeypatch):
    """Two volumes need a few more than one."""
    most = []
    start = threading.Thread.start

    def started(thread):
        start(thread)
        most.append(count_alive(threads))

    monkeypatch.setattr(threading.Thread, "start", started)
    prove_threads(2)
    assert max(most) == OTHERS + 2 * PER_VOLUME
    assert count_alive(threads) == 0


def test_a_system_that_starts_fewer_is_told_of_with_the_remedy(threads, monkeypatch):
    """Python raises RuntimeError; those that were started are let go."""
    start, left = threading.Thread.start, [1, 2, 3]

    def started(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    with pytest.raises(ConfigError, match=r"needs 12 threads, .* starts only 3; .*ulimit -u.*ulimit -v"):
        prove_threads(1)
    assert (len(threads), count_alive(threads)) == (3, 0)


def test_a_limit_of_addresses_below_what_numpy_needs_is_told_of(threads, monkeypatch):
    """Without it numpy would end the process in the middle of the run, with the exit code of failed files."""
    monkeypatch.setattr("cfetch.run.threads.ROOM_BYTES", sys.maxsize & -mmap.PAGESIZE)
    with pytest.raises(ConfigError, match=r"MiB of address space .*ulimit -v"):
        prove_threads(1)
    assert count_alive(threads) == 0


def test_a_real_limit_of_addresses_never_ends_a_command_with_the_code_of_failed_files(tmp_path):
    """Exit code 2, and the remedy."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/a.bin\n")
    words = [sys.executable, "-m", "cfetch", "download", "urls.txt", "--to", "data"]
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -v 600000; exec "$@"', "sh", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, "ulimit -v" in ended.stderr) == (2, True), ended.stderr
