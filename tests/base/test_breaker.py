"""The breaker's table, row by row, and what holds for any story."""

from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.breaker import CLOSED, LONGEST_PAUSE_S, THRESHOLD, Breaker, BreakerState


def opened(now_s=0.0, failures=THRESHOLD):
    breaker = CLOSED
    for _ in range(failures):
        breaker = breaker.fail(now_s)
    return breaker


def test_c44_it_opens_at_the_threshold_and_not_before():
    """Failures in a row, counted from the last success."""
    assert opened(failures=THRESHOLD - 1).opens_s(5.0) == 5.0
    breaker = opened(3.0)
    assert (breaker.position, breaker.opens_s(3.0), breaker.opens_s(9.0)) == (BreakerState.OPEN, 3.5, 9.0)


def test_c44_after_the_pause_one_probe_and_no_more():
    """The second has to wait for what the first finds."""
    breaker = opened().admit()
    assert breaker.position is BreakerState.HALF_OPEN
    assert breaker.opens_s(99.0) == float("inf")


def test_c44_a_probe_that_fails_doubles_the_pause():
    """Up to the longest; a late failure of a start before the pause changes nothing."""
    breaker, now_s, pauses = opened(), 0.5, []
    for _ in range(9):
        assert breaker.fail(now_s) == breaker
        breaker = breaker.admit().fail(now_s)
        pauses.append(breaker.until_s - now_s)
        now_s = breaker.until_s
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, *[LONGEST_PAUSE_S] * 4]


def test_a_probe_that_tells_nothing_lets_another_follow():
    """It was cancelled, say."""
    breaker = opened().admit().end_probe(7.0)
    assert (breaker.position, breaker.opens_s(7.0), breaker.opened) == (BreakerState.OPEN, 7.0, 1)
    assert CLOSED.end_probe(7.0) is CLOSED


@given(st.lists(st.sampled_from(["failed", "started", "unsure", "wait"])))
def test_in_any_story_it_opens_again_in_time(story):
    """Nothing is locked out for longer than the longest pause, unless a probe is under way."""
    breaker, now_s = Breaker(), 0.0
    for word in story:
        if word == "wait":
            now_s += 1
        elif word == "failed":
            breaker = breaker.fail(now_s)
        elif word == "unsure":
            breaker = breaker.end_probe(now_s)
        elif breaker.opens_s(now_s) <= now_s:
            breaker = breaker.admit()
        if breaker.position is not BreakerState.HALF_OPEN:
            assert now_s <= breaker.opens_s(now_s) <= now_s + LONGEST_PAUSE_S
