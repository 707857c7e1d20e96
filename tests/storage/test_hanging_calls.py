"""The threads of calls that may hang."""

import threading
from functools import partial

import pytest

from cfetch.storage.hanging_calls import call_within


@pytest.fixture
def started(monkeypatch):
    """The threads that are started from now on."""
    begun, start = [], threading.Thread.start

    def note(thread):
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", note)
    return begun


def test_a_thread_whose_call_has_returned_takes_the_next_one(started):
    """A run to several volumes makes hundreds of calls, and the start of a thread takes longer than most."""
    assert [call_within(60.0, "/there", partial(int, number)) for number in range(200)] == [*range(200)]
    assert len(started) < 20


def test_a_call_that_hangs_keeps_its_thread():
    """Other places are asked meanwhile."""
    over = threading.Event()
    with pytest.raises(TimeoutError, match="has not answered"):
        call_within(0.01, "/hangs", over.wait)
    assert call_within(60.0, "/there", lambda: "here") == "here"
    with pytest.raises(TimeoutError, match="does not answer"):
        call_within(60.0, "/hangs", over.is_set)
    over.set()
