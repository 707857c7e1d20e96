"""Rates of attempts under way, by hand-computed scenes; and who of them is suspected."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cfetch.straggler.attempt_limits import AttemptLimits
from cfetch.straggler.evidence import DEPTH, LONG_S, Evidence

TERMS = AttemptLimits(limit_s=1.0, limit_s_per_byte=0.01, guard_s=0.5, silent_s=2.0, pace_s=0.01)


def watched(bytes_at, until_s, *, start_s=0.0, first_s=0.0, from_s=0.0, held_s=lambda _: 0.0, size=1000.0):
    """One attempt, observed ten times a second from ``from_s`` on."""
    evidence = Evidence()
    column = evidence.watch(start_s)
    evidence.judge(column, size, TERMS)
    if first_s is not None:
        evidence.flows(column, first_s)
    for tick in range(1, round((until_s - from_s) * 10) + 1):
        now_s = from_s + tick / 10
        evidence.observe(now_s, [column], [int(bytes_at(now_s))], [held_s(now_s)])
    return evidence, column


@pytest.mark.parametrize(("window_s", "rate"), [(0.3, 0), (1.0, 0), (3.0, 100 * 2 / 3)])
def test_rates_by_window(window_s, rate):
    """100 bytes a second for 4 s, then silence for a second."""
    evidence, column = watched(lambda t: 100 * min(t, 4.0), 5.0)
    assert evidence.rate_bps(window_s)[column] == pytest.approx(rate)


def test_a_young_attempt_is_measured_from_its_first_byte():
    """Latency is no part of the rate: 50 bytes in the half second since 1.5 s."""
    evidence, column = watched(lambda t: 100 * max(0.0, t - 1.5), 2.0, start_s=1.0, first_s=1.5, from_s=1.2)
    assert evidence.rate_bps(LONG_S)[column] == pytest.approx(100)
    assert evidence.age_s(column) == pytest.approx(1.0)


def test_a_dip_is_told_when_it_is_over():
    """A second at a twentieth, and what the shortest window adds; a rate that stays low is none."""
    evidence, column = watched(lambda t: 100 * (min(t, 2.0) + max(0.0, t - 3.0)) + 5, 3.3)
    assert evidence.dips == [(column, pytest.approx(1.3, abs=0.11))]
    assert watched(lambda t: 100 * min(t, 2.0) + 5 * t, 9.0)[0].dips == []


def test_a_piece_after_a_silence_is_no_slow_start():
    """Pieces in a row that grow are."""
    evidence, column = watched(lambda t: 10 * int(t), 3.1)
    assert not evidence.accelerates(column)
    evidence, column = watched(lambda t: 2 ** (t * 2), 3.1)
    assert evidence.accelerates(column)


@pytest.mark.parametrize(
    ("until_s", "rises"), [(0.6, True), (0.7, True), (0.8, True), (0.6, False), (0.7, False)]
)
def test_slow_start_is_seen_soon_after_the_first_byte(until_s, rises):
    """Round trips of 150 ms, each with twice the bytes of the one before; the first byte came after 0.3 s."""

    def came(now_s):
        trips = max(0.0, now_s - 0.3) / 0.15
        return 10_000 * (2**trips - 1 if rises else trips)

    evidence, column = watched(came, until_s, first_s=0.3, size=262_144)
    assert evidence.accelerates(column) is rises


def test_the_first_look_of_a_run_tells_a_rate():
    """Nothing had come when the first attempt began."""
    evidence = Evidence()
    column = evidence.watch(1.0)
    evidence.flows(column, 1.1)
    evidence.observe(1.2, [column], [50], [0.0])
    assert evidence.rate_bps(LONG_S)[column] == pytest.approx(500)


def test_rates_hold_when_the_ring_is_full():
    """After many turns of the ring the windows are still the latest seconds."""
    evidence, column = watched(lambda t: 100 * t * t, 3 * DEPTH / 10)
    now_s = evidence.now_s
    assert evidence.rate_bps(1.0)[column] == pytest.approx(100 * (2 * now_s - 1), rel=0.001)


def test_seconds_in_which_we_held_it_do_not_count():
    """A second of its three it was held: 200 bytes in two seconds are 100 a second."""
    evidence, column = watched(
        lambda t: 100 * (t - max(0.0, min(t, 2.5) - 1.5)),
        3.0,
        held_s=lambda t: max(0.0, min(t, 2.5) - 1.5),
    )
    assert evidence.rate_bps(LONG_S)[column] == pytest.approx(100)
    assert evidence.age_s(column) == pytest.approx(2.0)


def test_a_slot_is_used_again_without_a_trace():
    """Whoever gets it is measured from its own start."""
    evidence, column = watched(lambda t: 900 * t, 1.0)
    evidence.drop(column)
    assert evidence.suspects() == []
    again = evidence.watch(1.0)
    assert again == column
    evidence.judge(again, 1000.0, TERMS)
    evidence.observe(2.0, [again], [10], [0.0])
    assert evidence.present_bps()[again] == pytest.approx(10)


def test_many_slots_keep_what_is_known():
    """Growing loses nothing."""
    evidence, column = watched(lambda t: 100 * t, 3.0)
    more = [evidence.watch(3.0) for _ in range(40)]
    assert len({column, *more}) == 41
    assert evidence.rate_bps(1.0)[column] == pytest.approx(100)


@pytest.mark.parametrize(
    ("bytes_at", "until_s", "suspected"),
    [
        (lambda t: 100 * t, 2.0, False),  # 800 bytes at 100 a second: 8 s of 1 + 8
        (lambda t: 80 * t, 2.0, True),  # 840 at 80: 10.5 s of 9.4
        (lambda t: 80 * t, 0.4, False),  # too young
        (lambda t: 0, 1.9, False),  # the first byte may come late
        (lambda t: 0, 2.1, True),
        (lambda t: 9 * t if t < 1.5 else 500 * (t - 1.4), 2.0, False),  # has recovered
        (lambda t: 300 * min(t, 2.0), 2.5, False),  # pauses
        (lambda t: 300 * min(t, 2.0), 4.9, True),  # has stopped
    ],
)
def test_who_is_suspected(bytes_at, until_s, suspected):
    """By the limit of 1 s and a hundredth of a second for each byte of the rest of 1000."""
    evidence, column = watched(bytes_at, until_s)
    assert evidence.suspects() == ([column] if suspected else [])


def test_a_rate_needs_some_time_since_the_first_byte():
    """Two checks after it nobody is judged, however long it took to come."""
    slow = {"bytes_at": lambda t: max(0, 10 * (t - 1.9)), "first_s": 1.9}
    assert watched(until_s=2.1, **slow)[0].suspects() == []
    evidence, column = watched(until_s=2.3, **slow)
    assert evidence.suspects() == [column]


def test_unknown_size_and_no_terms_are_never_suspected():
    """Not a number compares with nothing; and nothing is warned of."""
    evidence = Evidence()
    columns = [evidence.watch(0.0), evidence.watch(0.0)]
    evidence.judge(columns[0], math.nan, TERMS)
    evidence.judge(columns[1], 1000.0, None)
    evidence.observe(100.0, columns, [0, 1], [0.0, 0.0])
    assert evidence.suspects() == []
    paces = evidence.paces()
    assert (paces[columns[0]], paces[columns[1]]) == ((0.0, 0.0, 0.0), None)


def test_remaining():
    """At the present rate; never, if there is none."""
    evidence, column = watched(lambda t: 100 * t, 2.0)
    assert evidence.remaining_s(column) == pytest.approx(8.0)
    evidence, column = watched(lambda t: 0, 2.0)
    assert evidence.remaining_s(column) == math.inf


@pytest.mark.parametrize(
    ("bytes_at", "rate"),
    [
        (lambda t: 100 * min(t, 4.0), 200 / 3),  # silent for the last second: the long window
        (
            lambda t: 10 * t + 90 * max(0.0, min(t, 4.7) - 4.0),
            73,
        ),  # had recovered a second ago: the short one
        (lambda t: 10 * t + 990 * max(0.0, t - 4.7), 1000),  # just now: the shortest
    ],
)
def test_the_present_rate_is_the_largest(bytes_at, rate):
    """Slow to accuse, quick to clear; after five seconds."""
    evidence, column = watched(bytes_at, 5.0)
    assert evidence.present_bps()[column] == pytest.approx(rate, rel=0.02)


stretches = st.lists(
    st.tuples(st.integers(0, 20_000), st.sampled_from([0.0, 0.0, 0.0, 0.02, 0.05, 0.09, 0.1])),
    min_size=4,
    max_size=40,
)


@given(stretches)
@example([(4, 0.1), (3, 0.1), (3, 0.1), (2, 0.1), (0, 0.0), (400, 0.0)])  # read in the gaps of a rate limit
def test_a_fall_lies_within_the_bytes_that_have_come(stretches):
    """However the bytes come, and however long our own side holds them back at each look."""
    evidence = Evidence()
    column = evidence.watch(0.0)
    evidence.judge(column, 1e9, TERMS)
    evidence.flows(column, 0.0)
    received, held_s = 0, 0.0
    for tick, (came, held_now_s) in enumerate(stretches, start=1):
        received, held_s = received + came, held_s + held_now_s
        evidence.observe(tick / 10, [column], [received], [held_s])
        for fall in evidence.falls().values():
            assert 0 <= fall.received <= received
            assert 0 <= fall.fell_s <= tick / 10


def test_time_that_our_own_side_holds_makes_no_fall():
    """A rate limit lets the bytes of a second through at once, and then none for a second."""
    for until_s in (2.5, 3.4, 4.5, 5.9):
        evidence, _ = watched(
            lambda t: 1000 * int(t + 1),
            until_s,
            held_s=lambda t: 0.95 * int(t) + min(t % 1.0, 0.95),
            size=1e6,
        )
        assert evidence.falls() == {}
