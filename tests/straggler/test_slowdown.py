"""When a slowdown of all downloads is reported, and when its end."""

import pytest

from cfetch.straggler.slowdown import Begin, End, Slowdown

REASON = "7 of 8 are slow"


def look(*looks):
    """News by time, of looks (time, whether all are slow, whether some were cancelled)."""
    slowdown = Slowdown()
    news = {}
    for now_s, is_slow, cancelled in looks:
        told = slowdown.note_check(now_s, REASON if is_slow else None, is_clear=is_slow and not cancelled)
        if told is not None:
            news[now_s] = told
    return news


def test_a_slowdown_is_reported_once_it_lasts():
    """Not in the first three seconds, and once."""
    assert look(*((float(t), True, False) for t in range(10))) == {3.0: Begin(REASON)}


def test_whoever_is_cancelled_was_to_blame():
    """After each cancellation three more seconds must pass without one: then it was the network after all."""
    assert look(*((float(t), True, t in (1, 3)) for t in range(10))) == {6.0: Begin(REASON)}


def test_what_is_over_before_it_is_reported_is_not_reported():
    """Neither its begin nor its end; a new one has to last by itself."""
    looks = [(0.0, True, False), (1.0, True, True), *((float(t), False, False) for t in range(2, 30))]
    assert look(*looks) == {}
    assert look(*looks, (30.0, True, False), (33.0, True, False)) == {33.0: Begin(REASON)}


@pytest.mark.parametrize("gap_s", [1.0, 9.0])
def test_a_short_relief_is_no_end(gap_s):
    """Its end is reported after ten seconds without anyone slow; it lasted since the first was."""
    looks = [(0.0, True, False), (3.0, True, False), (3.5, False, False), (3.0 + gap_s, True, False)]
    looks += [(25.0, False, False), (40.0, False, False)]
    assert look(*looks) == {3.0: Begin(REASON), 25.0: End(25.0)}
