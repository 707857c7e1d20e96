"""Hosts that ask for pauses: how many connections all tasks together may have there, pause by pause."""

import random

import pytest

from cfetch.tasks.hub.learned_limits import DOUBLED_S, FORGOTTEN, HEARD_S, ROUND_S, SLOWLY, LearnedLimits


def test_a_host_that_never_asked_for_a_pause_has_no_limit():
    """Others change nothing about it."""
    limits = LearnedLimits()
    limits.note_pause("h", 100, 1.0, 0.0)
    assert limits.find_limit("other", 7, 5.0) is None


def test_the_limit_is_the_number_of_connections_that_a_refusal_leaves():
    """Nothing is added until all tasks have told; what is left then is what the host serves."""
    limits = LearnedLimits()
    limits.note_pause("h", 100, 3.0, 0.0)
    assert limits.find_limit("h", 80, 1.0) == 80
    assert [limits.find_limit("h", 60, t) for t in (HEARD_S, 2.0, 3.0)] == [60, 60, 60]
    assert limits.find_limit("h", 0, 3.0 + 10.0) == int(60 * (1 + 10.0 * SLOWLY))


def test_a_host_that_counts_requests_is_soon_asked_as_before():
    """It leaves no connections to count: a quarter of before, doubled up to half, and then slowly more."""
    limits = LearnedLimits()
    limits.note_pause("h", 128, 2.0, 0.0)
    assert limits.find_limit("h", 0, HEARD_S) == 32
    assert limits.find_limit("h", 0, 2.0 + DOUBLED_S) == 64
    assert limits.find_limit("h", 0, 2.0 + 2 * DOUBLED_S) == int(64 * (1 + SLOWLY * DOUBLED_S))


def test_a_host_that_bears_few_of_many_is_known_at_once():
    """One in thirty that is left is enough to count."""
    limits = LearnedLimits()
    limits.note_pause("h", 1280, 2.0, 0.0)
    assert limits.find_limit("h", 41, 2.0) == 41


def test_one_pause_is_counted_once():
    """Hundreds of tasks report it, and requests of the same second meet it too."""
    limits = LearnedLimits()
    for n in range(100):
        limits.note_pause("h", 700, 3.0, n / 100)
    assert limits.find_limit("h", 400, HEARD_S) == 400
    limits.note_pause("h", 1, 3.0, 3.0 + ROUND_S - 0.1)
    assert limits.find_limit("h", 1, 3.0 + ROUND_S) == int(400 * (1 + SLOWLY * ROUND_S))
    limits.note_pause("h", 390, 3.0, 3.0 + ROUND_S)
    assert limits.find_limit("h", 300, 3.0 + ROUND_S + HEARD_S) == 300


def test_a_long_calm_ends_the_limit():
    """By then it is four times as large as it was."""
    limits = LearnedLimits()
    limits.note_pause("h", 10, 0.0, 0.0)
    calm_s = HEARD_S + (FORGOTTEN - 1) / SLOWLY
    assert limits.find_limit("h", 10, calm_s) == 40
    assert limits.find_limit("h", 10, calm_s + 10.0) is None
    assert limits.find_limit("h", 10, 0.0) is None


@pytest.mark.parametrize("bears", [3, 40, 300])
def test_the_limit_finds_the_number_that_the_host_bears(bears):
    """4,000 tasks want a connection each; a refusal costs two seconds, in which none begins."""
    used: list[int] = []
    dice, limits, now_s, pauses = random.Random(1), LearnedLimits(), 0.0, 0
    while now_s < 300.0:
        limit = limits.find_limit("h", used[-1] if used else 0, now_s)
        asking = 4000 if limit is None else min(4000, limit)
        used.append(min(bears, asking))
        if asking > bears:
            limits.note_pause("h", asking, 2.0, now_s)
            pauses += 1
            now_s += 2.0
        now_s += 0.5 + dice.random() / 2
    late = used[len(used) // 4 :]
    assert sum(late) / len(late) > 0.8 * bears
    assert pauses < 120  # one for each 2.5 s: the limit has to grow by 2 % in between


def test_a_host_that_resets_connections_bears_those_that_it_has():
    """And perhaps more, as some may be idle; under a limit that is too high it is soon found."""
    limits = LearnedLimits()
    limits.note_reset("h", 4, 0.0)
    assert (limits.resetting, limits.find_limit("h", 4, 0.0)) == ({"h": 4}, 4)
    limits.note_reset("h", 1, ROUND_S - 0.1)  # of the same moment
    doubled_s = HEARD_S + DOUBLED_S
    later_s = doubled_s + 1.01 / SLOWLY
    assert [limits.find_limit("h", 4, t) for t in (doubled_s + 0.1, later_s)] == [8, 16]
    limits.note_reset("h", 8, later_s)
    assert limits.find_limit("h", 8, later_s) == 8
    assert limits.find_limit("h", 8, later_s + doubled_s) == 12


@pytest.mark.parametrize("bears", [1, 3, 40])
def test_resets_do_not_take_more_from_a_host_than_it_refuses(bears):
    """A thousand tasks want a connection each, for five minutes."""
    used, limits, resets = [bears], LearnedLimits(), 0
    for t in range(300):
        asking = limits.find_limit("h", used[-1], float(t)) or 1000
        used.append(min(bears, asking))
        if asking > bears:
            limits.note_reset("h", used[-1], float(t))
            resets += 1
    assert sum(used[75:]) > 0.9 * bears * len(used[75:])
    assert resets < 150


def test_a_long_calm_ends_the_limit_of_a_host_that_reset_connections():
    """Nothing of it is left."""
    limits = LearnedLimits()
    limits.note_reset("h", 4, 0.0)
    assert limits.find_limit("h", 4, 1000.0) is None
    assert limits.resetting == {}
