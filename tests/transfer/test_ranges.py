"""The laws of ranges: whatever the streams do, what is held, taken and missing is the file."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.transfer.ranges import Ranges, Stretch

SIZE = 60
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "advance", "advance", "split", "overlap", "give back", "forget"]),
        st.integers(0, 2**16),
        st.integers(0, 2**16),
    ),
    max_size=40,
)


class Model:
    """The file as single bytes, and the ranges that should tell the same."""

    def __init__(self):
        self.ranges = Ranges(SIZE)
        self.held: set[int] = set()
        self.received = self.forgotten = 0
        self.over: list[Stretch] = []
        self.ranges.on_over = self.over.append

    def do(self, what, which, much):
        ranges = self.ranges
        if what == "take":
            stretch = ranges.take_first()
            assert stretch is None or all(start > stretch.start for start, _ in ranges.missing)
            assert [one for one in ranges.out if one.is_owners] == [stretch] * (stretch is not None)
            return
        if not ranges.out:
            return
        stretch = ranges.out[which % len(ranges.out)]
        if what == "advance":
            came = much % (stretch.left_bytes + 2)  # perhaps one byte too many
            self.held |= set(range(stretch.position, min(stretch.position + came, stretch.end)))
            self.received += came
            ranges.advance(stretch, came)
        elif what == "split" and stretch.left_bytes > 1:
            at = stretch.position + 1 + much % (stretch.left_bytes - 1)
            end = stretch.end
            new = ranges.split(stretch, at)
            assert stretch.end <= at
            assert (new.start, new.end) == (at, end)
        elif what == "overlap" and stretch.left_bytes:
            new = ranges.overlap(stretch)
            assert (new.start, new.end) == (stretch.position, stretch.end)
        elif what == "give back":
            ranges.give_back(stretch)
            ranges.give_back(stretch)
        elif what == "forget":
            gone = set(range(stretch.start, stretch.position)) & self.held
            self.forgotten += len(gone)
            self.held -= gone
            ranges.forget(stretch)

    def check(self):
        ranges = self.ranges
        held = [byte for start, end in ranges.held for byte in range(start, end)]
        assert held == sorted(self.held)
        assert ranges.held_bytes == len(held)
        assert ranges.is_whole == (len(held) == SIZE)
        assert ranges.held_prefix == next((b for b in range(SIZE) if b not in self.held), SIZE)
        assert ranges.twice_bytes == self.received - len(held) - self.forgotten
        taken = {byte for one in ranges.out for byte in range(one.position, one.end)}
        missing = [byte for start, end in ranges.missing for byte in range(start, end)]
        assert missing == [byte for byte in range(SIZE) if byte not in taken | self.held]
        for pairs in (ranges.held, ranges.missing):
            assert all(a < b for a, b in pairs)
            assert all(before[1] < after[0] for before, after in pairwise(pairs))
        assert all(one.position <= one.end for one in ranges.out)
        assert all(one.end - 1 not in self.held for one in ranges.out if one.left_bytes)
        assert all(not one.left_bytes for one in self.over)


@given(STEPS)
def test_held_taken_and_missing_are_the_file(steps):
    """After any sequence of steps; what came twice is exact, and no stream is to bring what ends held."""
    model = Model()
    for step in steps:
        model.do(*step)
        model.check()


@given(STEPS, st.randoms(use_true_random=False))
def test_the_owner_always_comes_to_an_end(steps, dice):
    """Whatever the others have done and left: it takes what is missing until the file is whole."""
    model = Model()
    for step in steps:
        model.do(*step)
    for one in list(model.ranges.out):
        model.ranges.give_back(one)
    while (stretch := model.ranges.take_first()) is not None:
        model.held |= set(range(stretch.position, stretch.end))
        model.received += stretch.left_bytes
        model.ranges.advance(stretch, stretch.left_bytes)
        model.check()
    assert model.ranges.is_whole


@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE))), st.data())
def test_what_is_not_held_of_some_bytes(pairs, data):
    """In order, whole and nothing else."""
    held = [(a, b) for a, b in pairs if a < b]
    start = data.draw(st.integers(0, SIZE))
    end = data.draw(st.integers(start, SIZE))
    ranges = Ranges(SIZE, held)
    mine = {byte for a, b in held for byte in range(a, b)}
    found = [byte for a, b in ranges.unheld(start, end) for byte in range(a, b)]
    assert found == [byte for byte in range(start, end) if byte not in mine]


def watched():
    """A file of a hundred bytes, and the streams that are told they are over."""
    ranges: Any = Ranges(100)
    over: list[Stretch] = []
    ranges.on_over = over.append
    return ranges, over


def test_a_stretch_that_was_split_ends_where_the_other_begins():
    """Nothing comes twice, and bytes that were on their way already are counted."""
    ranges, _ = watched()
    first = ranges.take_first()
    ranges.advance(first, 10)
    second = ranges.split(first, 50)
    ranges.advance(second, 50)
    ranges.advance(first, 45)
    assert (ranges.is_whole, ranges.twice_bytes, first.left_bytes) == (True, 5, 0)


@pytest.mark.parametrize("at", [9, 10, 100, 101])
def test_where_a_stretch_cannot_be_split(at):
    """Each of the two has something to bring."""
    ranges, _ = watched()
    first = ranges.take_first()
    ranges.advance(first, 10)
    with pytest.raises(ValueError, match="cannot be split"):
        ranges.split(first, at)


def test_a_hedge_that_overtakes_ends_the_other():
    """Not before: the one that joined later has to catch up first."""
    ranges, over = watched()
    slow = ranges.take_first()
    hedge = ranges.overlap(slow)
    ranges.advance(slow, 10)
    ranges.advance(hedge, 10)
    assert (over, slow.left_bytes, hedge.left_bytes) == ([], 90, 90)
    ranges.advance(hedge, 1)
    assert (over, slow.left_bytes) == ([slow], 0)
    assert ranges.twice_bytes == 10


def test_a_hedge_that_is_behind_to_the_end_is_over():
    """The other has brought all of it."""
    ranges, over = watched()
    fast = ranges.take_first()
    hedge = ranges.overlap(fast)
    ranges.advance(hedge, 30)
    ranges.advance(fast, 20)
    assert fast.left_bytes == 0  # overtaken long ago
    assert over == [fast]
    second = ranges.overlap(hedge)
    ranges.advance(hedge, 70)
    assert over == [fast, second]
    assert ranges.is_whole


def test_the_end_of_a_stretch_shrinks_over_what_others_hold():
    """Of three that bring the same, the last need not read on to the end."""
    ranges, _ = watched()
    first = ranges.take_first()
    hedge = ranges.overlap(first)
    tail = ranges.split(first, 60)
    ranges.advance(tail, 40)
    assert (first.end, hedge.end) == (60, 60)


def test_a_hedge_is_split_where_the_other_holds_what_it_keeps():
    """It has nothing to bring then, and is told."""
    ranges, over = watched()
    first = ranges.take_first()
    hedge = ranges.overlap(first)
    ranges.advance(first, 50)
    rest = ranges.split(hedge, 40)
    assert (over, hedge.left_bytes) == ([hedge], 0)
    assert (rest.position, rest.end) == (40, 100)


def test_a_stretch_that_is_over_takes_nothing():
    """What is missing around its end is one piece."""
    ranges, _ = watched()
    first = ranges.take_first()
    hedge = ranges.overlap(first)
    ranges.advance(first, 10)
    ranges.advance(hedge, 20)
    ranges.forget(hedge)
    assert ranges.missing == [(0, 100)]


def test_an_abandoned_file_is_written_to_no_more():
    """Those that help are told, once; what comes for a stretch is dropped."""
    ranges, over = watched()
    own = ranges.take_first()
    others = [ranges.split(own, 50), ranges.split(own, 25)]
    ranges.abandon()
    ranges.abandon()
    assert over == others
    assert [one.left_bytes for one in [own, *others]] == [0, 0, 0]
    ranges.advance(others[0], 10)
    assert (ranges.held, ranges.twice_bytes) == ((), 10)
