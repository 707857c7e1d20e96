"""The bar by its own record, and what mitigation may cost."""

import pytest

from cfetch.straggler.feedback import FREE_BYTES, HIGHEST, LOWEST, WINDOW_S, Budget, Feedback


def judged(*ends_s, projected_s=10.0):
    feedback = Feedback()
    for key, end_s in enumerate(ends_s):
        feedback.mitigated(key, projected_s)
        feedback.finished(key, end_s)
    return feedback.leniency


def test_the_bar_rises_at_once_and_comes_down_slowly():
    """Worse than foretold: half as high again; better: a twentieth lower, to a little below the start."""
    assert judged() == 1.0
    assert judged(11.0) == 1.5
    assert judged(9.0) == pytest.approx(0.95)
    assert judged(11.0, *[9.0] * 10) == pytest.approx(1.0)
    assert judged(*[9.0] * 50) == LOWEST
    assert judged(*[11.0] * 50) == HIGHEST


def test_one_verdict_for_each_entry():
    """The first projection counts; entries that were let alone, failed, or ended before give none."""
    feedback = Feedback()
    feedback.finished(7, 1.0)
    feedback.mitigated(1, 10.0)
    feedback.mitigated(1, 99.0)
    feedback.mitigated(2, 10.0)
    feedback.failed(2)
    feedback.finished(2, 99.0)
    assert feedback.leniency == 1.0
    feedback.finished(1, 50.0)
    feedback.finished(1, 50.0)
    assert feedback.leniency == 1.5


def test_at_a_check_a_quarter_at_most():
    """Two where there are few."""
    assert Budget(64).allowed(0.0) == 16
    assert Budget(4).allowed(0.0) == 2


def test_in_a_window_half_of_the_completions_at_most():
    """With room for each worker's first; and the window slides."""
    budget = Budget(8)
    for _ in range(8):
        budget.mitigated(1.0)
    assert budget.allowed(1.0) == 0
    for _ in range(18):
        budget.finished(2.0, 1)
    assert budget.allowed(2.0) == 1
    assert budget.allowed(1.0 + WINDOW_S + 0.1) == 2


def test_bytes_lost():
    """Some are free; then a twentieth of what came."""
    budget = Budget(8)
    assert budget.allows_bytes(FREE_BYTES, 0)
    assert not budget.allows_bytes(FREE_BYTES + 1, 0)
    budget.wasted(FREE_BYTES)
    assert not budget.allows_bytes(1, 0)
    assert budget.allows_bytes(1, 20 * (FREE_BYTES + 1))
    budget.finished(0.0, 20 * FREE_BYTES + 20)
    assert budget.allows_bytes(1, 0)
    assert not budget.allows_bytes(2, 0)
