"""The way from parallel to sequential, and that there is none back."""

import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.fallback import SequentialFallback


def test_reaching_the_threshold_is_told_once():
    """The call that reaches the threshold says so; none before, none after."""
    fallback = SequentialFallback(StragglerConfig(max_stragglers_before_fallback=3, sequential_fallback=True))
    assert [fallback.observe(n) for n in (0, 2, 3, 4, 0)] == [False, False, True, False, False]
    assert fallback.sequential


@pytest.mark.parametrize(
    ("options", "sequential"),
    [
        ({"sequential_fallback": True}, True),
        ({"sequential_fallback": False}, False),
        ({"sequential_fallback": True, "enabled": False}, False),
    ],
)
def test_threshold_zero_is_sequential_from_the_start(options, sequential):
    """With a threshold of 0 no straggler is needed, but the fallback must be permitted."""
    assert (
        SequentialFallback(StragglerConfig(max_stragglers_before_fallback=0, **options)).sequential
        is sequential
    )


def test_without_permission_any_number_stays_parallel():
    """With the fallback off, stragglers are counted but change nothing."""
    fallback = SequentialFallback(StragglerConfig(max_stragglers_before_fallback=1))
    assert not fallback.observe(10**9)
    assert not fallback.sequential


def test_a_new_run_starts_parallel():
    """E7: the fallback of one run says nothing about the next."""
    config = StragglerConfig(max_stragglers_before_fallback=1, sequential_fallback=True)
    SequentialFallback(config).observe(1)
    assert not SequentialFallback(config).sequential
