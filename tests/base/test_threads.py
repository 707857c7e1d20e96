"""A limit of threads is a limit of this machine, with its remedy."""

import threading

import pytest

from cfetch.base.errors import LocalFault
from cfetch.base.threads import start_thread
from cfetch.storage.hanging_calls import call_within


def refuse(self):
    raise RuntimeError("can't start new thread")


def test_a_limit_of_threads_is_no_bug(monkeypatch):
    """The error names the limits that can be raised; also where a call on a disk would need a thread."""
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr("cfetch.storage.hanging_calls._idle", [])
    told = r"no more threads; raise the limit of the user \(ulimit -u\)"
    with pytest.raises(LocalFault, match=told):
        start_thread(print, "x")
    with pytest.raises(LocalFault, match=told):
        call_within(1.0, "/disk", list)


def test_a_thread_gets_its_arguments():
    """And ends by itself."""
    given: list[int] = []
    start_thread(given.append, "adds", 1).join()
    assert given == [1]
