"""What idle slots are best for, by hand-computed scenes."""

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.engine.segment_split import Candidate, Split, choose, estimate_sure_bytes
from cfetch.straggler.attempt_limits import MIN_SEGMENT_BYTES

MIB = 1 << 20


def fresh(latency_s=0.1, rate_bps=10 * MIB):
    return lambda _host, size_bytes: latency_s + size_bytes / rate_bps


def stream(key=0, left=100 * MIB, remaining_s=10.0, streams=1, sure=0):
    return Candidate(key, "h", left, remaining_s, streams, sure)


def choice(*streams, idle=1, fresh_s=None, most=8):
    return choose(streams, idle=idle, fresh_s=fresh_s or fresh(), most_attempts=most)


def test_an_even_stream_is_split_in_the_middle():
    """10 MiB/s each, and the fresh one loses 0.1 s: they meet at 5.05 s."""
    assert choice(stream()) == [Split(0, int(10 * MIB * 5.05), 1)]


def test_a_crawling_stream_keeps_what_it_can_bring_meanwhile():
    """At 1 MiB/s beside 10: it keeps about an eleventh."""
    (found,) = choice(stream(remaining_s=100.0))
    assert found.keeps_bytes == int(MIB * (101 / 11))


def test_a_stream_that_stands_still_is_left_to_the_policy():
    """It would keep a rest that nobody brings."""
    assert choice(stream(remaining_s=math.inf)) == []
    assert choice(stream(left=MIB, remaining_s=math.inf)) == []


def test_many_slots_share_one_stream():
    """Seven fresh ones beside it: eight in all, and no more than that."""
    (found,) = choice(stream(), idle=15)
    assert (found.fresh_attempts, found.keeps_bytes) == (7, int(10 * MIB * (10 + 0.7) / 8))


def test_slots_are_shared_out_among_streams():
    """The last to be done first; each its share, and what one cannot use is for the others."""
    found = choice(stream(0, remaining_s=11.0), stream(1, remaining_s=10.0), stream(2, 1 * MIB, 0.1), idle=5)
    assert [(one.key, one.fresh_attempts) for one in found] == [(0, 2), (1, 2)]


def test_before_anything_is_known_a_fresh_stream_is_like_this_one():
    """A single file at the start of a run: no sample, but it runs."""
    (found,) = choice(stream(), fresh_s=lambda _host, _size: None)
    assert found == Split(0, 50 * MIB, 1)


class Seen(NamedTuple):
    """An attempt that began at 10 s."""

    received: int
    first_byte_s: float | None
    start_s: float = 10.0


def test_a_small_file_of_an_unknown_server_keeps_hardly_more_than_has_come():
    """A first piece may be all that comes for long: its own rate, its wait included, is what is sure."""
    (split,) = choice(stream(left=MIB, sure=1300), idle=15, most=16, fresh_s=lambda _host, _size: None)
    assert split == Split(0, 1300, 15)
    assert estimate_sure_bytes(Seen(1460, 10.18), 10.2) == int(1460 * 0.18 / 0.2)
    assert estimate_sure_bytes(Seen(0, None), 10.2) == 0


@pytest.mark.parametrize(
    "one",
    [
        stream(left=1, remaining_s=60.0),  # one byte has no parts
        stream(remaining_s=0.5),  # gains less than the fresh one costs
        stream(streams=8),
    ],
)
def test_what_is_not_worth_a_stream_gets_none(one):
    """Nothing is fetched twice either."""
    assert choice(one) == []


def test_a_few_kilobytes_that_crawl_are_asked_for_elsewhere_too():
    """Only seconds count: 60 KiB at 1 KiB/s are worth one request, the same in 0.2 s are not."""
    assert choice(stream(left=60 << 10, remaining_s=60.0), idle=8) == [Split(0, 1, 1)]
    assert choice(stream(left=60 << 10, remaining_s=0.2), idle=8) == []
    (halved,) = choice(stream(left=60 << 10, remaining_s=60.0), fresh_s=fresh(rate_bps=1 << 10))
    assert halved.keeps_bytes > 20 << 10  # a fresh one is no faster: each brings a part


@given(
    st.lists(
        st.builds(
            stream,
            key=st.integers(),
            left=st.integers(0, 1 << 40),
            remaining_s=st.floats(0, math.inf),
            streams=st.integers(1, 9),
        ),
        max_size=6,
    ),
    st.integers(0, 40),
    st.floats(0, 5),
    st.floats(1, 1e12),
)
def test_help_is_always_possible(streams, idle, latency_s, rate_bps):
    """Never more slots than there are, never more streams than allowed, never an empty piece."""
    found = choice(*streams, idle=idle, fresh_s=fresh(latency_s, rate_bps))
    assert sum(one.fresh_attempts for one in found) <= idle
    for one in found:
        assert any(
            s.attempts + one.fresh_attempts <= 8
            and s.left_bytes - one.keeps_bytes
            >= min(MIN_SEGMENT_BYTES, s.left_bytes // (one.fresh_attempts + 1))
            for s in streams
            if s.key == one.key
        )
        assert one.keeps_bytes > 0


@pytest.mark.parametrize(("left", "splits"), [(MIB, 1), (MIB - 1, 0)])
def test_a_small_rest_must_gain_more(left, splits):
    """A third of a second: enough for a mebibyte, not for less, of which a run's end would be made."""
    assert len(choice(stream(left=left, remaining_s=0.5))) == splits
