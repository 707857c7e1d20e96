"""The running median and the number of finished entries it needs."""

import statistics
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.straggler.baseline import RunningQuantile, count_required

rates = st.floats(min_value=1e-6, max_value=1e12)


@given(st.lists(rates, max_size=60))
def test_running_median_is_the_median_at_every_step(values):
    """After each number the value equals that of the statistics module over all so far."""
    running = RunningQuantile()
    assert running.value is None
    for count, value in enumerate(values, 1):
        running.add(value)
        assert running.value == statistics.median(values[:count])


@given(st.lists(rates, min_size=1, max_size=60), st.integers(1, 99))
def test_any_percentile_is_numpys_at_every_step(values, percentile):
    """With linear interpolation; the order of the numbers does not matter."""
    running = RunningQuantile(percentile / 100)
    for count, value in enumerate(values, 1):
        running.add(value)
        assert running.value == pytest.approx(np.percentile(values[:count], percentile), rel=1e-6)


def test_a_percentile_survives_thinning(monkeypatch):
    """Ten times more numbers than are kept."""
    monkeypatch.setattr(RunningQuantile, "MAX_SAMPLES", 1000)
    running = RunningQuantile(0.05)
    for i in range(10_000):
        running.add(float(i * 7919 % 10_000))
        assert len(running) <= 1000
    assert running.value == pytest.approx(500, abs=250)


@given(st.lists(rates, min_size=1, max_size=30).flatmap(lambda v: st.tuples(st.just(v), st.permutations(v))))
def test_order_of_samples_does_not_matter(pair):
    """The same samples in another order give the same median."""
    medians = []
    for values in pair:
        running = RunningQuantile()
        for value in values:
            running.add(value)
        medians.append(running.value)
    assert medians[0] == medians[1]


def test_memory_stays_bounded_and_the_median_close(monkeypatch):
    """Ten times more numbers than are kept still give the median to a few per cent of rank."""
    monkeypatch.setattr(RunningQuantile, "MAX_SAMPLES", 1000)
    running = RunningQuantile()
    for i in range(10_000):
        running.add(float(i * 7919 % 10_000))  # 7919 is coprime to 10,000: every rank once, in no order
        assert len(running) <= 1000
    assert running.value == pytest.approx(5000, abs=500)


def test_thinning_leaves_the_median_where_it_is(monkeypatch):
    """Letting go of every second sample moves neither of the two middle ones."""
    monkeypatch.setattr(RunningQuantile, "MAX_SAMPLES", 8)
    running = RunningQuantile()
    values = [5.0, 1.0, 9.0, 3.0, 7.0, 2.0, 8.0, 4.5]
    for value in values:
        running.add(value)
    assert len(running) == 4
    assert running.value == statistics.median(values)


def test_after_thinning_new_samples_weigh_as_much_as_old_ones(monkeypatch):
    """Once every second sample was let go, only every second new one is taken."""
    monkeypatch.setattr(RunningQuantile, "MAX_SAMPLES", 8)
    running = RunningQuantile()
    for value in range(10):
        running.add(float(value))
    assert len(running) == 5


@pytest.mark.parametrize("sign", [1, -1])
def test_after_thinning_the_median_walks_through_what_was_kept(monkeypatch, sign):
    """Only larger (or only smaller) new numbers move the median one way, step by step in order."""
    monkeypatch.setattr(RunningQuantile, "MAX_SAMPLES", 1000)
    running = RunningQuantile()
    for i in range(1000):
        running.add(float(i * 619 % 1000))  # 619 is coprime to 1000
    walk = []
    for _ in range(800):
        running.add(sign * 1e6)
        walk.append(running.value or 0.0)
    assert walk == sorted(walk, reverse=sign < 0)
    assert len(set(walk)) > 100


@pytest.mark.parametrize(
    ("known", "quantile", "needed"),
    [
        pytest.param(100, 0.55, 55, id="D20"),
        pytest.param(0, 0.6, 0, id="nothing-known"),
        pytest.param(1, 0.6, 1, id="one-known"),
        pytest.param(10, 0.6, 6, id="whole"),
        pytest.param(11, 0.6, 7, id="rounded-up"),
        pytest.param(7, 1.0, 7, id="all"),
    ],
)
def test_required(known, quantile, needed):
    """The share is rounded up, and a whole product is not."""
    assert count_required(known, quantile) == needed


@given(st.integers(0, 10_000), st.integers(1, 1000))
def test_required_equals_exact_arithmetic(known, thousandths):
    """For any quantile of three decimals the number is what fractions give."""
    assert count_required(known, thousandths / 1000) == ceil(Fraction(thousandths, 1000) * known)
