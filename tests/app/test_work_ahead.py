"""Several threads work on the items of a row."""

import itertools
import os
import threading

import pytest

from cfetch.app.work_ahead import AHEAD_PER_THREAD, work_ahead


def test_results_come_in_the_order_of_the_items():
    """Whichever of them is ready first."""
    first_may_end = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert first_may_end.wait(30)
        elif item == 1:
            first_may_end.set()
        return 10 * item

    assert list(work_ahead(work, range(5), threading.Event())) == [0, 10, 20, 30, 40]


def test_the_threads_are_only_a_few_items_ahead():
    """A row without an end needs bounded memory, and work under way hears that the caller has left."""
    taken = itertools.count()
    items = (next(taken) for _ in itertools.count())
    stop = threading.Event()
    results = work_ahead(lambda item: item, items, stop)
    assert next(results) == 0
    assert next(taken) <= min(32, (os.cpu_count() or 1) + 4) * AHEAD_PER_THREAD + 1
    assert not stop.is_set()
    results.close()
    assert stop.is_set()


def test_an_error_of_the_work_is_the_callers():
    """It comes in the place of its result, and the rest is dropped."""
    stop = threading.Event()
    results = work_ahead(lambda item: 1 // item, [1, 0, 1], stop)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert stop.is_set()
