"""How long a run still takes, by the numbers of one moment."""

import pytest

from cfetch.base.events import BaselineView, SlowdownOver, SlowdownSeen
from cfetch.show.live.prediction import predict
from cfetch.show.live.time_left import Rest, estimate_time_left
from cfetch.show.live.view import View
from tests.show.records import active, progress, started

FAST = active(0, rate_bps=900.0)  # 1 s
SLOW = {"rate_bps": 6.0, "elapsed_s": 1.0, "expected_s": 3.0}  # 150 s alone; 2 s + 2 s with a restart


def rest(*attempts, **more):
    fields = {
        "waiting": 0,
        "left_bytes": 900,
        "rate_bps": 100.0,
        "left_files": 4,
        "files_per_s": 2.0,
        "median_bps": 500.0,
        "cancels": True,
    }
    return Rest(active=[*attempts], **{**fields, **more})


def test_a_slow_file_may_hope_for_a_restart():
    """A young attempt will be cancelled at its limit; that is a guess, and says so."""
    assert estimate_time_left(rest(FAST, active(1, **SLOW))) == (4.0, True)


@pytest.mark.parametrize(
    "immune",
    [{"is_spared": True}, {"n": 3}, {"elapsed_s": 4.6}, {"expected_s": None}],
    ids=["spared", "restarted twice", "long past its limit", "without a limit"],
)
def test_a_file_that_is_left_alone_ends_at_its_own_rate(immune):
    """The hope of a restart would be the same four seconds again and again until the end."""
    assert estimate_time_left(rest(FAST, active(1, **{**SLOW, **immune}))) == (150.0, False)


def test_nothing_is_cancelled_during_a_slowdown():
    """The view knows of it, and of a run without mitigation; afterwards the hope is back."""
    assert estimate_time_left(rest(active(1, **SLOW), cancels=False)) == (150.0, False)
    baseline = BaselineView(median_bps=500.0, finished=9, required=6)
    last = progress(5.0, bytes_done=8000, active=[active(1, **SLOW)], baseline=baseline)
    seen = SlowdownSeen(t_s=4.0, active=1, reason="all are slow")
    over = SlowdownOver(t_s=4.5, lasted_s=0.5)
    for events, seconds in (([], 4.0), ([seen], 150.0), ([seen, over], 4.0)):
        view = View()
        for event in (started(9, 9000), *events, last):
            view.apply(event)
        assert (left := predict(view)) is not None
        assert left.seconds == seconds
    view = View()
    for event in (started(9, 9000, settings={"mitigation": False}), last):
        view.apply(event)
    assert predict(view) == (150.0, False)


def test_the_slowest_file_counts_while_others_wait_too():
    """The run cannot end before it, however fast the rest comes."""
    crawling = active(1, **SLOW, is_spared=True)
    assert estimate_time_left(rest(FAST, crawling, waiting=3)) == (150.0, False)
    assert estimate_time_left(rest(FAST, waiting=3)) == (9.0, False)


def test_a_large_file_may_hope_for_segments_while_others_wait():
    """Such a run was predicted ten times too long; at its end the own rate of the file counts."""
    crawling = active(1, **SLOW, is_spared=True)
    hoped = estimate_time_left(rest(FAST, crawling, waiting=3, left_bytes=1840, connections=16))
    assert hoped == (10.0 + (150.0 - 10.0) / 16, True)  # the others at 94 B/s, then sixteen connections
    stuck = estimate_time_left(rest(crawling, waiting=3, rate_bps=6.0, connections=16))
    assert stuck == (150.0, False)  # nothing but this file comes
    assert estimate_time_left(rest(FAST, crawling, connections=16)) == (150.0, False)
    settings = {"policy": "adaptive", "segments": 8, "rate": None}
    look = progress(5.0, bytes_done=3000, waiting=3, active=[active(1, **SLOW, is_spared=True)])
    view = View()
    for event in (started(9, 9000, settings=settings), look):
        view.apply(event)
    assert (left := predict(view)) is not None
    assert 10.0 < left.seconds < 50.0  # 10 s of work, and then an eighth of the rest


def test_what_stands_still_has_no_end():
    """No number is better than a wrong one; also for an average that only approaches zero."""
    for bps in (0.0, 0.2):
        assert estimate_time_left(rest(FAST, active(1, rate_bps=bps, is_spared=True))) is None
    assert estimate_time_left(rest(waiting=3, rate_bps=0.0)) is None


def test_a_file_that_has_only_begun_does_not_stand_still():
    """Its first byte is awaited; without this, each new file of a list without sizes hid the prediction."""
    begun = active(1, bytes=0, rate_bps=0.0, elapsed_s=0.1, expected_s=None)
    assert estimate_time_left(rest(FAST, begun, waiting=3)) == (20.0, False)  # half of the rate
    silent = active(1, bytes=0, rate_bps=0.0, elapsed_s=9.0, expected_s=None)
    assert estimate_time_left(rest(FAST, silent, waiting=3)) is None


def test_unknown_sizes():
    """Files are counted while some wait; afterwards there is nothing to go by."""
    unknown = active(1, size_bytes=None)
    assert estimate_time_left(rest(unknown, waiting=3, left_bytes=None)) == (2.0, True)
    assert estimate_time_left(rest(unknown, left_bytes=None)) is None
    assert estimate_time_left(rest(FAST, unknown)) == (1.0, True)


def test_a_file_that_is_whole_needs_no_time():
    """It waits only for its name."""
    assert estimate_time_left(rest(FAST, active(1, bytes=1000, rate_bps=0.0))) == (1.0, False)
