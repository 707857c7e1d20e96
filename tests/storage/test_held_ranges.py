"""The laws of ranges: whatever the streams do, what is held, taken and missing is the file."""

from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.storage.held_ranges import HeldRanges, Segment
from tests.engine.drive import split

SIZE = 60
NUMBER = st.integers(0, 2**16)


def steps_of(*kinds):
    """What streams may do, in any order; the numbers choose who and how much."""
    return st.lists(st.tuples(st.sampled_from(kinds), NUMBER, NUMBER), max_size=40)


HONEST = steps_of("take", "advance", "advance", "advance", "join", "join", "rival", "give back")
STEPS = steps_of("take", "advance", "advance", "join", "join", "rival", "give back", "forget")


def bytes_of(streams):
    """What these are to bring yet."""
    return {byte for one in streams for byte in range(one.position, one.end)}


class Model:
    """The file as single bytes, and the ranges that should tell the same."""

    def __init__(self):
        self.ranges = HeldRanges(SIZE)
        self.held: set[int] = set()
        self.received = self.forgotten = 0
        self.over: list[Segment] = []
        self.cut: list[tuple[Segment, int]] = []
        self.never: Segment | None = None  # does nothing
        self.ranges.on_over = self.over.append
        self.ranges.on_cut = lambda one: self.cut.append((one, one.end))

    @property
    def others(self):
        """The streams under way that do something."""
        return [one for one in self.ranges.out if one is not self.never]

    def do(self, what, which, much):
        ranges = self.ranges
        if what == "take":
            segment = ranges.take_first()
            assert segment is None or all(start > segment.start for start, _ in ranges.missing)
            assert [one for one in ranges.out if one.is_owners] == [segment] * (segment is not None)
            return
        if not self.others:
            return
        segment = self.others[which % len(self.others)]
        if what == "advance":
            self._advance(segment, much % (segment.left_bytes + 2))  # perhaps one byte too many
        elif what == "join" and segment.left_bytes > 1:
            start = segment.position + 1 + much % (segment.left_bytes - 1)
            end = segment.end - much // SIZE % (segment.end - start)
            before = [(one, one.position, one.end) for one in ranges.out]
            new = ranges.join(start, end)
            assert (new.start, new.position, new.end) == (start, start, end)
            assert [(one, one.position, one.end) for one in ranges.out] == [*before, (new, start, end)]
        elif what == "rival" and segment.left_bytes:
            new = ranges.join(segment.position, segment.end)
            assert (new.start, new.end) == (segment.position, segment.end)
        elif what == "give back":
            ranges.give_back(segment)
            ranges.give_back(segment)
        elif what == "forget":
            gone = set(range(segment.start, segment.position)) & self.held
            self.forgotten += len(gone)
            self.held -= gone
            ranges.forget(segment)

    def _advance(self, segment, came):
        ranges = self.ranges
        self.held |= set(range(segment.position, min(segment.position + came, segment.end)))
        self.received += came
        was, told = {one: one.end for one in ranges.out}, len(self.cut)
        has_begun = segment.position > segment.start
        ranges.advance(segment, came)
        starts = {one.start for one in ranges.out if one.position > one.start}
        for one, at in self.cut[told:]:
            assert at < was[one]
            assert at in starts
        assert all(one.end - 1 not in self.held for one in ranges.out if one.left_bytes)
        if not has_begun and segment.position > segment.start:
            self._check_yielded()

    def _check_yielded(self):
        """Nobody goes on beyond where another has begun, if all behind comes without it."""
        begun = [one for one in self.ranges.out if one.position > one.start]
        for one in self.ranges.out:
            others = [other for other in begun if other is not one]
            comes = bytes_of(others) | self.held
            for other in others:
                if one.position < other.start < one.end:
                    assert not set(range(other.start, one.end)) <= comes

    def check(self):
        ranges = self.ranges
        held = [byte for start, end in ranges.held for byte in range(start, end)]
        assert held == sorted(self.held)
        assert ranges.held_bytes == len(held)
        assert ranges.is_whole == (len(held) == SIZE)
        assert ranges.twice_bytes == self.received - len(held) - self.forgotten
        taken = bytes_of(ranges.out)
        missing = [byte for start, end in ranges.missing for byte in range(start, end)]
        assert missing == [byte for byte in range(SIZE) if byte not in taken | self.held]
        for pairs in (ranges.held, ranges.missing):
            assert all(a < b for a, b in pairs)
            assert all(before[1] < after[0] for before, after in pairwise(pairs))
        assert all(one.position <= one.end for one in ranges.out)
        assert all(not one.left_bytes for one in self.over)


@given(STEPS)
def test_held_taken_and_missing_are_the_file(steps):
    """After any sequence of steps; what came twice is exact, no stream is to bring what ends held."""
    model = Model()
    for step in steps:
        model.do(*step)
        model.check()


@given(HONEST)
def test_only_a_stream_that_ends_makes_bytes_missing(steps):
    """Whoever joins or begins: what somebody was sent for is held, or somebody is sent for it still.

    So it is for those that have begun alone: nobody yields to one that only might come.
    """
    model = Model()
    for step in steps:
        out = model.ranges.out
        sure = bytes_of(one for one in out if one.position > one.start)
        sent = bytes_of(out)
        model.do(*step)
        if step[0] not in ("take", "give back"):
            assert sent <= bytes_of(out) | model.held
            assert sure <= bytes_of(one for one in out if one.position > one.start) | model.held
            assert not {byte for pair in model.ranges.missing for byte in range(*pair)} & sent


@given(HONEST, steps_of("advance", "advance", "join", "rival", "give back"), NUMBER, NUMBER)
def test_who_never_begins_changes_nothing_for_the_others(before, after, which, much):
    """It waits for its reply and is refused in the end: with it and without, the same has come of all."""
    found = []
    for is_there in (False, True):
        model = Model()
        for step in before:
            model.do(*step)
        ranges = model.ranges
        helped = model.others[which % len(model.others)] if model.others else None
        if is_there and helped is not None and helped.left_bytes > 1:
            start = helped.position + 1 + much % (helped.left_bytes - 1)
            model.never = ranges.join(start, helped.end - much // SIZE % (helped.end - start))
        for step in after:
            model.do(*step)
            model.check()
        if model.never is not None:
            ranges.give_back(model.never)
        ends = [(one.start, one.position, one.end) for one in ranges.out]
        cut = [(one.start, at) for one, at in model.cut if one is not model.never]
        over = [one.start for one in model.over if one is not model.never]
        found.append((ends, cut, over, ranges.held, ranges.missing, ranges.twice_bytes))
    assert found[0] == found[1]


@given(STEPS)
def test_the_owner_always_comes_to_an_end(steps):
    """Whatever the others have done and left: it takes what is missing until the file is whole."""
    model = Model()
    for step in steps:
        model.do(*step)
    for one in list(model.ranges.out):
        model.ranges.give_back(one)
    while (segment := model.ranges.take_first()) is not None:
        model.held |= set(range(segment.position, segment.end))
        model.received += segment.left_bytes
        model.ranges.advance(segment, segment.left_bytes)
        model.check()
    assert model.ranges.is_whole


@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE))), st.data())
def test_what_is_not_held_of_some_bytes(pairs, data):
    """In order, whole and nothing else."""
    held = [(a, b) for a, b in pairs if a < b]
    start = data.draw(st.integers(0, SIZE))
    end = data.draw(st.integers(start, SIZE))
    ranges = HeldRanges(SIZE, held)
    mine = {byte for a, b in held for byte in range(a, b)}
    found = [byte for a, b in ranges.unheld(start, end) for byte in range(a, b)]
    assert found == [byte for byte in range(start, end) if byte not in mine]


def watched():
    """A file of a hundred bytes, and the streams that are told they are over."""
    ranges: Any = HeldRanges(100)
    over: list[Segment] = []
    ranges.on_over = over.append
    return ranges, over


def cuts_of(ranges):
    """The streams that are told that they became shorter, with their new ends."""
    cuts: list[tuple[Segment, int]] = []
    ranges.on_cut = lambda one: cuts.append((one, one.end))
    return cuts


def test_a_stream_ends_where_another_has_begun():
    """Not before it has begun; then nothing comes twice, and bytes that were on their way are counted."""
    ranges, over = watched()
    cuts = cuts_of(ranges)
    first = ranges.take_first()
    ranges.advance(first, 10)
    second = ranges.join(50, 100)
    ranges.advance(first, 10)
    assert (first.end, cuts, ranges.missing) == (100, [], [])
    ranges.advance(second, 1)
    assert (first.end, cuts, over) == (50, [(first, 50)], [])
    ranges.advance(second, 49)
    ranges.advance(first, 35)
    assert (ranges.is_whole, ranges.twice_bytes, first.left_bytes) == (True, 5, 0)
    assert cuts == [(first, 50)]


def test_what_nobody_else_was_sent_for():
    """Bytes that are held are not asked for again, although the stream is on its way through them."""
    ranges, _ = watched()
    first = ranges.take_first()
    ranges.advance(first, 10)
    late = ranges.join(60, 100)
    assert ranges.find_untended(first) == (10, 60)
    middle = ranges.join(40, 60)
    ranges.advance(middle, 20)
    assert (ranges.find_untended(first), ranges.find_untended(late)) == ((10, 40), (60, 100))
    ranges.give_back(middle)
    ranges.advance(first, 50)
    assert ranges.find_untended(first) == (60, 60)  # the late one is sent for the rest
    ranges.give_back(late)
    assert ranges.find_untended(first) == (60, 100)
    ranges.give_back(first)
    assert ranges.find_untended(first) == (60, 60)


def test_a_stream_that_is_refused_costs_nothing():
    """The other brings all of it, and no byte is missing at any time."""
    ranges, over = watched()
    cuts = cuts_of(ranges)
    first = ranges.take_first()
    ranges.advance(first, 10)
    refused = ranges.join(50, 100)
    ranges.advance(first, 10)
    ranges.give_back(refused)
    assert (ranges.missing, first.end) == ([], 100)
    ranges.advance(first, 80)
    assert (ranges.is_whole, ranges.twice_bytes, cuts, over) == (True, 0, [], [])


def test_a_stream_that_begins_after_the_other_has_passed_it():
    """It is late: who stands beyond its beginning goes on, and what comes of it is counted."""
    ranges, over = watched()
    first = ranges.take_first()
    late = ranges.join(50, 100)
    ranges.advance(first, 60)
    ranges.advance(late, 1)
    assert (first.end, over, ranges.twice_bytes) == (100, [], 1)
    ranges.advance(first, 40)
    assert (over, late.left_bytes, ranges.is_whole) == ([late], 0, True)


PIECES = ((40, 60), (60, 80), (80, 100))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_pieces_that_begin_in_any_order(order):
    """The first stream ends where all that follows is on its way from there on, and nothing comes twice."""
    ranges, _ = watched()
    first = ranges.take_first()
    ranges.advance(first, 10)
    pieces = [ranges.join(*ends) for ends in PIECES]
    begun = set()
    for number in order:
        ranges.advance(pieces[number], 1)
        begun.add(number)
        sure = next(n for n in range(4) if begun >= set(range(n, 3)))
        assert first.end == [40, 60, 80, 100][sure]
        assert [(one.start, one.end) for one in pieces] == list(PIECES)
        assert ranges.missing == []
    for one in [*pieces, first]:
        ranges.advance(one, one.left_bytes)
    assert (ranges.is_whole, ranges.twice_bytes) == (True, 0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("refused", range(3))
def test_a_gap_is_nobodys_end(order, refused):
    """One of three is refused: the first stream goes on to where all behind is sure to come."""
    ranges, _ = watched()
    first = ranges.take_first()
    ranges.advance(first, 10)
    pieces = [ranges.join(*ends) for ends in PIECES]
    for number in order:
        if number == refused:
            ranges.give_back(pieces[number])
        else:
            ranges.advance(pieces[number], 1)
        assert ranges.missing == []
    assert first.end == PIECES[refused][1]


def test_one_that_fails_after_it_began_leaves_its_rest_missing():
    """The first has ended where it began: it is the owner's to take what is left."""
    ranges, _ = watched()
    first = ranges.take_first()
    ranges.advance(first, 10)
    second = ranges.join(50, 100)
    ranges.advance(second, 20)
    ranges.give_back(second)
    assert (ranges.missing, first.end) == ([(70, 100)], 50)
    ranges.advance(first, 40)
    again = ranges.take_first()
    assert (again.start, again.end) == (70, 100)
    ranges.advance(again, 30)
    assert (ranges.is_whole, ranges.twice_bytes) == (True, 0)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (50, 50), (60, 50), (0, 101), (100, 101)])
def test_nobody_is_sent_for_bytes_that_are_none(start, end):
    """Nothing has changed then."""
    ranges, _ = watched()
    ranges.take_first()
    with pytest.raises(ValueError, match="no bytes"):
        ranges.join(start, end)
    assert len(ranges.out) == 1


def test_a_later_one_of_the_same_bytes_that_overtakes_ends_the_other():
    """Not before: the one that joined later has to catch up first."""
    ranges, over = watched()
    slow = ranges.take_first()
    rival = ranges.join(slow.position, slow.end)
    ranges.advance(slow, 10)
    ranges.advance(rival, 10)
    assert (over, slow.left_bytes, rival.left_bytes) == ([], 90, 90)
    ranges.advance(rival, 1)
    assert (over, slow.left_bytes) == ([slow], 0)
    assert ranges.twice_bytes == 10


def test_a_later_one_of_the_same_bytes_that_is_behind_to_the_end_is_over():
    """The other has brought all of it."""
    ranges, over = watched()
    fast = ranges.take_first()
    rival = ranges.join(fast.position, fast.end)
    ranges.advance(rival, 30)
    ranges.advance(fast, 20)
    assert fast.left_bytes == 0  # overtaken long ago
    assert over == [fast]
    second = ranges.join(rival.position, rival.end)
    ranges.advance(rival, 70)
    assert over == [fast, second]
    assert ranges.is_whole


def test_the_end_of_a_stretch_shrinks_over_what_others_hold():
    """Of three that bring the same, the last need not read on to the end."""
    ranges, _ = watched()
    first = ranges.take_first()
    rival = ranges.join(first.position, first.end)
    tail = ranges.join(60, 100)
    ranges.advance(tail, 40)
    assert (first.end, rival.end) == (60, 60)


def test_both_of_two_that_bring_the_same_yield():
    """A third has begun; the rival goes on up to there as the other does."""
    ranges, over = watched()
    cuts = cuts_of(ranges)
    first = ranges.take_first()
    ranges.advance(first, 50)
    rival = ranges.join(first.position, first.end)
    rest = ranges.join(70, 100)
    ranges.advance(rest, 1)
    assert cuts == [(first, 70), (rival, 70)]
    ranges.advance(first, 20)
    assert (over, rival.left_bytes, rest.end) == ([rival], 0, 100)


def test_a_stretch_that_is_over_takes_nothing():
    """What is missing around its end is one piece."""
    ranges, _ = watched()
    first = ranges.take_first()
    rival = ranges.join(first.position, first.end)
    ranges.advance(first, 10)
    ranges.advance(rival, 20)
    ranges.forget(rival)
    assert ranges.missing == [(0, 100)]


def test_an_abandoned_file_is_written_to_no_more():
    """Those that help are told, once; what comes for a segment is dropped."""
    ranges, over = watched()
    own = ranges.take_first()
    others = [split(ranges, own, 50), split(ranges, own, 25)]
    ranges.abandon()
    ranges.abandon()
    assert over == others
    assert [one.left_bytes for one in [own, *others]] == [0, 0, 0]
    ranges.advance(others[0], 10)
    assert (ranges.held, ranges.twice_bytes) == ((), 10)


def test_who_is_sent_for_more_goes_on_beside_one_that_is_ahead():
    """It has come to where another began and stands further on; but beyond that one's end it is alone."""
    ranges = HeldRanges(60)
    all_of_it = ranges.take_first()
    assert all_of_it is not None
    ranges.advance(all_of_it, 5)
    short = ranges.join(10, 30)
    ranges.advance(short, 10)
    ranges.advance(all_of_it, 10)
    assert (all_of_it.position, all_of_it.end) == (15, 60)
    assert ranges.missing == []
    beside = ranges.join(15, 60)
    ranges.advance(beside, 10)
    assert (all_of_it.left_bytes, beside.end, ranges.missing) == (0, 60, [])
