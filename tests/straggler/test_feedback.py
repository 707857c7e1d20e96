"""The bar by its own record, and what mitigation may cost."""

import pytest

from cfetch.straggler.feedback import FREE_BYTES, HIGHEST, LOWEST, MOST_HOSTS, WINDOW_S, Budget, Feedback


def judged(*ends_s, projected_s=10.0):
    feedback = Feedback()
    for key, end_s in enumerate(ends_s):
        feedback.note_mitigation(key, "h", projected_s, 1.0)
        feedback.note_finish(key, end_s, 0.1)
    return feedback.leniency


def test_bytes_that_are_asked_for_twice_have_a_bound_of_their_own():
    """Some are free; beyond them a twentieth of all bytes."""
    budget = Budget(16)
    budget.note_waste(FREE_BYTES)
    assert budget.allows_second(FREE_BYTES)
    assert not budget.allows_second(1)
    budget.note_finish(1.0, 40 * FREE_BYTES)
    assert budget.allows_second(FREE_BYTES)
    assert not budget.allows_second(1)


def test_the_bar_rises_at_once_and_comes_down_slowly():
    """Worse than foretold: half as high again; better: a twentieth lower, to a little below the start."""
    assert judged() == 1.0
    assert judged(11.0) == 1.5
    assert judged(9.0) == pytest.approx(0.95)
    assert judged(11.0, *[9.0] * 10) == pytest.approx(1.0)
    assert judged(*[9.0] * 50) == LOWEST
    assert judged(*[11.0] * 50) == HIGHEST


def test_one_bad_rescue_among_good_ones_does_not_raise_the_bar():
    """Five saved two seconds each, and one lost three; a second such one is too much."""
    good = [8.0] * 5
    assert judged(*good, 13.0) == judged(*good)
    assert judged(*good, 13.0, 13.0) == pytest.approx(1.5 * judged(*good))


def test_a_dozen_bad_verdicts_do_not_switch_it_off():
    """Who stands at a tenth of the usual rate is beyond the highest bar still."""
    assert judged(*[11.0] * 12) * 1.5 < 10


def test_the_silent_are_judged_by_their_first_byte():
    """As late again: the file is late, and the host's others are waited for; else the wait wears off."""
    feedback = Feedback()
    feedback.note_mitigation(1, "h", None, 2.0)
    feedback.note_finish(1, 99.0, 1.9)
    assert (feedback.leniency, feedback.patience_s("h")) == (1.0, 0.0)
    feedback.note_mitigation(2, "h", None, 2.0)
    feedback.note_finish(2, 99.0, 8.0)
    assert (feedback.leniency, feedback.patience_s("h"), feedback.patience_s("other")) == (1.0, 12.0, 0.0)
    for key in (3, 4):
        feedback.note_mitigation(key, "h", None, 2.0)
        feedback.note_finish(key, 99.0, 0.1)
    assert feedback.patience_s("h") == pytest.approx(12.0 * 0.8 * 0.8)


def test_a_second_wait_as_long_as_the_first_is_a_verdict_before_its_end():
    """So the files that are asked for meanwhile are waited for too."""
    feedback = Feedback()
    feedback.note_mitigation(1, "h", None, 2.0)
    feedback.note_mitigation(2, "h", 9.0, 2.0)
    feedback.note_silence(1, 1.9)
    feedback.note_silence(2, 5.0)
    feedback.note_silence(3, 5.0)
    assert feedback.patience_s("h") == 0.0
    feedback.note_silence(1, 2.0)
    assert feedback.patience_s("h") == 3.0


def wait_twice(*keys):
    feedback = Feedback()
    for key in keys:
        feedback.note_mitigation(key, "h", None, 1.0)
    for key in keys:
        feedback.note_silence(key, 1.0)
    return feedback


def test_of_two_that_wait_a_second_time_one_is_the_scout():
    """The others are waited for; and so is one that waits alone."""
    assert [wait_twice(1, 2, 3).patience_s("h", key) for key in (1, 2, 3)] == [1.5, 0.0, 1.5]
    alone = wait_twice(1)
    alone.note_silence(1, 1.1)
    assert alone.patience_s("h", 1) > 0


@pytest.mark.parametrize(
    ("key", "first_s", "is_proven", "patience_s"),
    [(2, 0.1, True, 0.0), (2, 0.1, False, 1.5), (2, 1.0, True, 1.5), (1, 0.1, True, 1.5)],
)
def test_a_scout_that_is_answered_over_a_proven_connection_ends_the_patience(
    key, first_s, is_proven, patience_s
):
    """Fresh connections hang there. A late answer, or one over a fresh connection, tells nothing of that."""
    feedback = wait_twice(1, 2, 3)
    feedback.note_answer(key, first_s, is_proven=is_proven)
    assert feedback.patience_s("h", 3) == patience_s
    feedback.note_silence(3, 1.2)
    assert (feedback.patience_s("h", 3) > 0) is (patience_s > 0)


def test_a_late_answer_over_a_fresh_connection_brings_the_patience_back():
    """So the host does serve them, and its objects are cold."""
    feedback = wait_twice(1, 2, 3)
    feedback.note_finish(2, 9.0, 0.1, is_proven=True)
    assert feedback.patience_s("h") == 0.0
    feedback.note_finish(3, 9.0, 4.0)
    assert feedback.patience_s("h") == 6.0


def test_hosts_with_cold_objects_are_forgotten_one_by_one():
    """The one that was met first."""
    feedback = Feedback()
    for key in range(MOST_HOSTS + 1):
        feedback.note_mitigation(key, f"h{key}", None, 1.0)
        feedback.note_finish(key, 99.0, 2.0)
    assert [feedback.patience_s(f"h{key}") for key in (0, 1, MOST_HOSTS)] == [0.0, 3.0, 3.0]


def test_one_verdict_for_each_entry():
    """The first projection counts; entries that were let alone, failed, or ended before give none."""
    feedback = Feedback()
    feedback.note_finish(7, 1.0, None)
    feedback.note_mitigation(1, "h", 10.0, 1.0)
    feedback.note_mitigation(1, "h", 99.0, 1.0)
    feedback.note_mitigation(2, "h", 10.0, 1.0)
    feedback.note_failure(2)
    feedback.note_finish(2, 99.0, None)
    assert feedback.leniency == 1.0
    feedback.note_finish(1, 50.0, None)
    feedback.note_finish(1, 50.0, None)
    assert feedback.leniency == 1.5


def test_at_a_check_a_quarter_at_most():
    """Two where there are few."""
    assert Budget(64).count_allowed(0.0) == 16
    assert Budget(4).count_allowed(0.0) == 2


def test_in_a_window_half_of_the_completions_at_most():
    """With room for each worker's first; and the window slides."""
    budget = Budget(8)
    for _ in range(8):
        budget.note_mitigation(1.0)
    assert budget.count_allowed(1.0) == 0
    for _ in range(18):
        budget.note_finish(2.0, 1)
    assert budget.count_allowed(2.0) == 1
    assert budget.count_allowed(1.0 + WINDOW_S + 0.1) == 2


def test_bytes_lost():
    """Some are free; then a twentieth of what came."""
    budget = Budget(8)
    assert budget.allows_bytes(FREE_BYTES, 0)
    assert not budget.allows_bytes(FREE_BYTES + 1, 0)
    budget.note_waste(FREE_BYTES)
    assert not budget.allows_bytes(1, 0)
    assert budget.allows_bytes(1, 20 * (FREE_BYTES + 1))
    budget.note_finish(0.0, 20 * FREE_BYTES + 20)
    assert budget.allows_bytes(1, 0)
    assert not budget.allows_bytes(2, 0)


def test_each_rescue_that_has_helped_pays_for_four_more():
    """Where most connections are slow, many have to be tried; where no rescue helps, the budget ends."""
    budget = Budget(4)
    for _ in range(4):
        budget.note_mitigation(0.0)
    assert budget.count_allowed(0.0) == 0
    budget.note_rescue(0.0)
    for allowed in (2, 2, 2, 1, 0):
        assert budget.count_allowed(0.0) == allowed
        budget.note_mitigation(0.0)
    budget.note_rescue(1.0)
    assert budget.count_allowed(31.5) == 2


def test_an_earlier_run_knew_that_connections_hang():
    """So nobody waits twice to find that out; a late answer shows that it is no longer so."""
    feedback = Feedback({"h"})
    for key in (1, 2):
        feedback.note_mitigation(key, "h", None, 1.0)
        feedback.note_silence(key, 1.0)
    assert feedback.patience_s("h", 1) == 0.0
    feedback.note_finish(2, 9.0, 1.2)
    assert feedback.patience_s("h") == pytest.approx(1.8)
