"""What an attempt is judged by, computed by hand from its host's fit."""

import math

import pytest

from cfetch.straggler.attempt_limits import terms_of
from cfetch.straggler.fresh_attempt import Fit

FIT = Fit(latency_s=0.1, s_per_byte=0.01, spread=0.25, first_byte_s=0.2, late_s=0.4, reach_bytes=math.inf)


def test_terms_by_hand():
    """1.5 times and twice the spread, latency and connecting, and half a second."""
    terms = terms_of(FIT, 1000, 1.5, 1.0)
    assert terms.limit_s == pytest.approx(2.0 * (0.1 + 0.2) + 0.5)
    assert terms.limit_s_per_byte == pytest.approx(0.02)
    assert terms.guard_s == pytest.approx(0.8)  # four first bytes
    assert terms.silent_s == pytest.approx(1.2)  # 1.5 times a late first byte over a new connection
    assert terms.pace_s == 0.01


def test_leniency_raises_every_limit():
    """But not the guard."""
    once, twice = terms_of(FIT, 1000, 1.5, 1.0), terms_of(FIT, 1000, 1.5, 2.0)
    assert twice[:2] == pytest.approx([2 * once.limit_s, 2 * once.limit_s_per_byte])
    assert (twice.guard_s, twice.silent_s) == (once.guard_s, 2 * once.silent_s)


def test_quick_hosts_and_wide_spreads():
    """Nobody is judged within half a second; a wide spread adds one normal duration and no more."""
    quick = FIT._replace(first_byte_s=0.01, late_s=0.02, spread=1.5)
    terms = terms_of(quick, 1000, 1.5, 1.0)
    assert (terms.guard_s, terms.silent_s) == (0.5, 0.5)
    assert terms.limit_s_per_byte == pytest.approx(0.025)
