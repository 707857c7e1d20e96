"""The way from parallel to sequential, and that there is none back."""

from itertools import product

import pytest

from cfetch.config.straggler import StragglerConfig
from cfetch.straggler.fallback import TRANSITIONS, Count, Fallback, Mode


def test_table_is_complete():
    """Every mode has an answer to every count."""
    assert set(TRANSITIONS) == set(product(Mode, Count))


def test_sequential_is_final():
    """No count leads out of sequential mode."""
    assert {after for (before, _), after in TRANSITIONS.items() if before is Mode.SEQUENTIAL} == {
        Mode.SEQUENTIAL
    }


def test_reaching_the_threshold_is_told_once():
    """The call that reaches the threshold says so; none before, none after."""
    fallback = Fallback(StragglerConfig(max_stragglers_before_fallback=3, sequential_fallback=True))
    assert [fallback.observe(n) for n in (0, 2, 3, 4, 0)] == [False, False, True, False, False]
    assert fallback.mode is Mode.SEQUENTIAL


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({"sequential_fallback": True}, Mode.SEQUENTIAL),
        ({"sequential_fallback": False}, Mode.PARALLEL),
        ({"sequential_fallback": True, "enabled": False}, Mode.PARALLEL),
    ],
)
def test_threshold_zero_is_sequential_from_the_start(options, mode):
    """With a threshold of 0 no straggler is needed, but the fallback must be permitted."""
    assert Fallback(StragglerConfig(max_stragglers_before_fallback=0, **options)).mode is mode


def test_without_permission_any_number_stays_parallel():
    """With the fallback off, stragglers are counted but change nothing."""
    fallback = Fallback(StragglerConfig(max_stragglers_before_fallback=1))
    assert not fallback.observe(10**9)
    assert fallback.mode is Mode.PARALLEL


def test_a_new_run_starts_parallel():
    """E7: the fallback of one run says nothing about the next."""
    config = StragglerConfig(max_stragglers_before_fallback=1, sequential_fallback=True)
    Fallback(config).observe(1)
    assert Fallback(config).mode is Mode.PARALLEL
