"""The window of a stream: which entries may begin, and what they hold."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.stream_window import StreamWindow
from cfetch.engine.streaming import Streaming
from tests.engine.drive import ListPlan, entry_of

LIMIT = 1000


def admitted(window, count):
    """The entries that may begin."""
    return [index for index in range(count) if window.admits(index)]


def test_entries_are_admitted_in_order_while_memory_lasts():
    """A small entry behind a large one does not go before it, and the first is admitted whatever its size."""
    window = StreamWindow([400, 400, 400, 1], LIMIT)
    assert admitted(window, 4) == [0, 1]
    window.give_away(1)
    assert admitted(window, 4) == [0, 1, 2, 3]
    assert admitted(StreamWindow([5000, 1], LIMIT), 2) == [0]


def test_a_stream_begins_in_the_order_of_the_list():
    """Whatever the sizes, whether memory has room for all or not."""
    entries: Any = ListPlan([entry_of(n, f"f{n}", b"x" * size) for n, size in enumerate((10, 400, 20, 300))])
    other: Any = SimpleNamespace()
    window = StreamWindow(entries.sizes, LIMIT)
    stream = Streaming(
        entries, other, window, other, other, IdleWorkers(), other, concurrency=1, lose=lambda *_: None
    )
    assert [stream.schedule.take(0.0, stream.opens_s) for _ in range(4)] == [0, 1, 2, 3]


def test_a_second_copy_takes_only_memory_that_is_free():
    """What is lent counts until it is given back."""
    window = StreamWindow([400, 400, 400], LIMIT)
    assert (window.lend(201), window.lend(200)) == (False, True)
    window.give_away(0)
    assert not window.admits(2) or window.held_bytes <= LIMIT
    window.give_back(200)
    assert window.admits(2)


def test_a_size_that_is_stated_late_admits_more():
    """Later entries of unknown size count as the largest that was stated, and no longer with a guess."""
    window = StreamWindow([-1] * 100, LIMIT)
    assert len(admitted(window, 100)) == 16
    assert window.note_size(0, 10)
    assert len(admitted(window, 100)) == 22
    for index in range(22):
        window.note_size(index, 10)
    assert len(admitted(window, 100)) == 100


def test_entries_of_unknown_size_wait_when_they_hold_too_much_together():
    """All but the first, for which the reader waits; and later ones count with the largest seen."""
    window = StreamWindow([-1] * 100, LIMIT)
    begun = admitted(window, 100)
    assert len(begun) == 16
    for index in begun:
        window.note_bytes(index, 100)
    assert [window.must_wait(index) for index in begun] == [False] + [True] * 15
    for index in begun[:7]:
        window.give_away(index)
    assert not any(map(window.must_wait, begun[7:]))
    assert window.held_bytes <= LIMIT


@given(st.lists(st.integers(0, 600), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_whatever_is_read_first_the_bound_holds_and_all_entries_come(sizes, random):
    """A reader in order and one who takes any whole entry both get all, within the memory."""
    for ordered in (True, False):
        window, waiting = StreamWindow(sizes, LIMIT), list(range(len(sizes)))
        while waiting:
            here = [index for index in waiting if window.admits(index)]
            assert here[:1] == waiting[:1] or not ordered
            assert window.held_bytes <= LIMIT
            taken = here[0] if ordered else random.choice(here)
            waiting.remove(taken)
            window.give_away(taken)
        assert window.held_bytes == 0
