"""Hosts that ask for pauses: how many connections all tasks together may have there, pause by pause."""

import random

from cfetch.hub.learned_limits import CALM_S, DOUBLED_S, ROUND_S, LearnedLimits


def test_a_host_that_never_asked_for_a_pause_has_no_limit():
    """Others change nothing about it."""
    limits = LearnedLimits()
    limits.note_pause("h", 100, 1.0, 0.0)
    assert limits.find_limit("other", 5.0) is None


def test_a_pause_halves_what_all_tasks_have():
    """It grows evenly from the end of the pause on, and is forgotten after a long calm."""
    limits = LearnedLimits()
    limits.note_pause("h", 100, 3.0, 10.0)
    assert [limits.find_limit("h", t) for t in (10.0, 13.0)] == [50, 50]
    assert limits.find_limit("h", 13.0 + DOUBLED_S) == 100
    assert limits.find_limit("h", 13.0 + CALM_S + 0.1) is None
    assert limits.find_limit("h", 13.0) is None


def test_one_pause_is_counted_once():
    """Hundreds of tasks report it, and requests of the same second meet it too."""
    limits = LearnedLimits()
    for n in range(200):
        limits.note_pause("h", 1000, 3.0, n / 100)
    limits.note_pause("h", 1000, 3.0, 3.0 + ROUND_S - 0.1)
    assert limits.find_limit("h", 3.0) == 500
    limits.note_pause("h", 400, 3.0, 3.0 + ROUND_S)
    assert limits.find_limit("h", 3.0 + ROUND_S) == 200  # no task had more than it was allowed


def test_connections_that_a_cut_has_left_over_do_not_raise_the_limit():
    """Downloads under way go on, so tasks may have more than the limit for a while."""
    limits = LearnedLimits()
    limits.note_pause("h", 100, 0.0, 0.0)
    limits.note_pause("h", 90, 0.0, ROUND_S)
    assert limits.find_limit("h", ROUND_S) == int(50 * (1 + ROUND_S / DOUBLED_S)) // 2


def test_at_least_one_connection_is_left():
    """A host that refuses everything is asked now and then."""
    limits = LearnedLimits()
    for n in range(5):
        limits.note_pause("h", 0, 0.0, 10.0 * n)
    assert limits.find_limit("h", 40.0) == 1


def test_the_limit_finds_the_number_that_the_host_bears():
    """Of 4,000 tasks with a connection each, and with no pause longer than that of the host."""
    dice, limits, bears, now_s, used, pauses = random.Random(1), LearnedLimits(), 300, 0.0, [], 0
    while now_s < 300.0:
        limit = limits.find_limit("h", now_s)
        asking = 4000 if limit is None else min(4000, limit)
        if asking > bears:
            limits.note_pause("h", asking, 2.0, now_s)
            now_s += 2.0
            pauses += 1
        now_s += 0.5 + dice.random() / 2
        used.append(min(bears, limits.find_limit("h", now_s) or 4000) / bears)
    late = used[len(used) // 4 :]
    assert sum(late) / len(late) > 0.6
    assert pauses < 40
