"""What one attempt's value says of itself."""

import pytest

from cfetch.straggler.attempt_figures import AttemptMetrics

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size_bytes", "end_s", "rate_bps"),
    [
        pytest.param(1024, None, None, id="M1-unfinished"),
        pytest.param(10 * MIB, 0.1, 104857600.0, id="M2-finished"),
        pytest.param(MIB, 0.0, 1048576000.0, id="M3-floor-of-1ms"),
        pytest.param(0, 1.0, None, id="M7-size-0"),
        pytest.param(-1, 1.0, None, id="M7-size-negative"),
        pytest.param(None, 1.0, None, id="M7-size-unknown"),
    ],
)
def test_metrics_table(size_bytes, end_s, rate_bps):
    """Throughput is size over duration, with a floor, and absent where either is."""
    attempt = AttemptMetrics(1, size_bytes, 0.0)
    if end_s is not None:
        attempt = attempt.finish(end_s, size_bytes)
    assert attempt.rate_bps == rate_bps


def test_first_end_stands():
    """M4: ending an attempt a second time changes nothing."""
    once = AttemptMetrics(1, MIB, 0.0).finish(1.0, MIB)
    assert once.finish(9.0, 5 * MIB).end_s == 1.0
    assert once.finish(9.0, 5 * MIB).rate_bps == MIB


def test_flagged_attempt_may_still_finish():
    """M5: a straggler whose last byte arrived is both a straggler and finished."""
    attempt = AttemptMetrics(1, MIB, 0.0).flag().finish(1.0, MIB)
    assert (attempt.straggler, attempt.end_s) == (True, 1.0)


def test_new_attempt_is_neither_finished_nor_flagged():
    """M6: an attempt starts without any judgement."""
    attempt = AttemptMetrics(12345, 10 * MIB, 0.0)
    assert (attempt.id, attempt.end_s, attempt.straggler) == (12345, None, False)


def test_size_learned_on_the_way_counts():
    """A size that only the reply told makes the finished attempt a sample."""
    assert AttemptMetrics(1, None, 0.0).finish(2.0, 4 * MIB).rate_bps == 2 * MIB


@pytest.mark.parametrize(("start_s", "forgiven_s"), [(0.0, 10.0), (14.0, 20.0), (20.0, 20.0)])
def test_forgiven_time_is_what_the_attempt_lived_of_it(start_s, forgiven_s):
    """A gap from 10 to 20 moves a start by the gap, or by the part of it after the start."""
    assert AttemptMetrics(1, MIB, start_s).forgive(10.0, 20.0).start_s == forgiven_s
