"""When a file has been rescued often enough: by the luck that so many slow connections would take."""

import pytest

from cfetch.straggler.fresh_attempt import MOST_HOSTS
from cfetch.straggler.rescues import Rescues, luck


def most_rescues(slow, good):
    """Rescues after which a file is left alone, where other fresh connections were so."""
    rescues = Rescues()
    for is_slow in [True] * slow + [False] * good:
        rescues.note("h", slow=is_slow)
    for met in range(1, 200):
        if rescues.are_over("h", met):
            return met
        if met > 1:
            rescues.note("h", slow=True)  # the next one of the file's own was slow as well
    return None


def test_luck_is_that_of_the_beta_binomial_distribution():
    assert luck(0, 5, 5) == 1.0
    assert luck(1, 0, 0) == pytest.approx(1 / 5)
    assert luck(2, 0, 0) == pytest.approx(1 / 5 * 2 / 6)
    assert luck(3, 10**9, 10**9) == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("slow", "good", "most"),
    [(0, 0, 10), (0, 20, 3), (0, 500, 2), (1, 20, 3), (6, 14, 6), (60, 140, 6), (60, 40, 14), (0, 2, 7)],
)
def test_the_more_connections_are_slow_the_longer_a_file_is_rescued(slow, good, most):
    """Never only because of a number: two are enough where hardly one is slow, 14 where most are."""
    assert most_rescues(slow, good) == most


def test_a_files_own_bad_connections_do_not_speak_for_the_host():
    """Else a slow file would be rescued the longer, the more often that was in vain."""
    rescues = Rescues()
    for _ in range(9):
        rescues.note("h", slow=True)
    assert rescues.are_over("h", 10)
    assert not rescues.are_over("h", 1)


def test_hosts_are_told_apart_and_their_number_is_bounded():
    rescues = Rescues()
    for number in range(2 * MOST_HOSTS):
        rescues.note(f"h{number}", slow=number % 2 == 0)
    for _ in range(50):
        rescues.note("good", slow=False)
    assert rescues.are_over("good", 3)
    assert not rescues.are_over("other", 3)
    assert len(rescues._slow) <= MOST_HOSTS
