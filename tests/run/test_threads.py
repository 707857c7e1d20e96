"""The threads of a run are proved before it begins."""

import threading

import pytest

from cfetch.errors import ConfigError
from cfetch.run.threads import OTHERS, PER_VOLUME, prove_threads


def test_all_that_a_run_needs_are_started_at_once_and_let_go(monkeypatch):
    """Two volumes need a few more than one."""
    most = []
    start = threading.Thread.start

    def started(thread):
        start(thread)
        most.append(threading.active_count() - before)

    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", started)
    prove_threads(2)
    assert max(most) == OTHERS + 2 * PER_VOLUME
    assert threading.active_count() == before


def test_a_system_that_starts_fewer_is_told_of_with_the_remedy(monkeypatch):
    """Python raises RuntimeError; those that were started are let go."""
    start, left = threading.Thread.start, [1, 2, 3]

    def started(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", started)
    with pytest.raises(ConfigError, match=r"needs 12 threads, .* starts only 3; .*ulimit -u"):
        prove_threads(1)
    assert threading.active_count() == before
