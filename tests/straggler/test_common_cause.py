"""Me or the network: who is to blame, by what the others of the host do."""

from itertools import pairwise

import pytest

from cfetch.straggler.common_cause import HOLD_S, MOST_TRY_S, TRY_S, Crowd, Ruling, Suspect, Trials
from cfetch.straggler.ruling import rule

NOW = 100.0


def suspect(key=0, *, excuse=0.0, since_s=95.0, seen_s=NOW, confirm_s=0.0, is_free=True):
    return Suspect(key, excuse, since_s, seen_s, confirm_s, is_free)


def crowd(paces, *, ended_since=()):
    return Crowd([(pace, pace, pace) for pace in paces], list(ended_since))


def test_one_among_many_is_to_blame_at_once():
    """Fifteen run well."""
    assert rule([suspect(7)], crowd([0.1] + [1.0] * 15), NOW).guilty == [7]


@pytest.mark.parametrize(("witnesses", "guilty"), [(12, [0, 1, 2, 3]), (11, [])])
def test_several_are_to_blame_at_once_where_a_quarter_is_slow(witnesses, guilty):
    """Three witnesses for each; with fewer they have to stay slow for a while."""
    suspects = [suspect(key) for key in range(4)]
    assert rule(suspects, crowd([0.1] * 4 + [1.0] * witnesses), NOW).guilty == guilty


def test_a_uniformly_slow_world_excuses_all():
    """Each is as fast as the network is."""
    suspects = [suspect(key, excuse=0.3) for key in range(16)]
    assert rule(suspects, crowd([0.1] * 16), NOW) == ([], None, 16, None)


def test_in_a_slow_world_the_slowest_is_found():
    """All have a quarter of the usual pace, and one far less."""
    suspects = [suspect(0, excuse=0.01), *(suspect(n, excuse=0.5) for n in range(1, 12))]
    assert rule(suspects, crowd([0.01] + [0.25] * 15), NOW).guilty == [0]


def test_the_network_is_measured_by_the_slowest_window():
    """A change shows in the shortest first; and a fast network is a usual one."""
    assert Crowd([(0.1, 1.0, 1.0)] * 8, ()).network(0) == 0.1
    assert Crowd([(1.0, 1.0, 0.1)] * 8, ()).network(0) == 0.1
    assert Crowd([(1.5, 1.0, 1.2)] * 8, ()).network(0) == 1.0


@pytest.mark.parametrize(("count", "others", "expected"), [(3, 0, 1.0), (4, 4, 1.0), (4, 3, 0.1)])
def test_few_tell_nothing_and_ended_ones_count(count, others, expected):
    """Those under way for long are the slow ones: files that have ended since belong to the crowd."""
    assert crowd([0.1] * count).network(others) == expected


def test_those_that_ended_well_move_the_median():
    """Five slow ones, one that runs well, four that ended: the median is one of the good."""
    assert crowd([0.1] * 5 + [0.8]).network(4) == 0.8


@pytest.mark.parametrize(("seen_s", "guilty"), [(NOW - 0.9, []), (NOW - 1.0, [3])])
def test_who_may_pause_has_to_be_seen_for_longer(seen_s, guilty):
    """A second here."""
    paused = suspect(3, seen_s=seen_s, confirm_s=1.0)
    assert rule([paused], crowd([0.1] + [1.0] * 15), NOW).guilty == guilty


def test_seven_of_sixteen_are_held_first():
    """Nine others do well all the time: then it is not the network."""
    paces = [0.05] * 7 + [1.0] * 9
    fresh = [suspect(key) for key in range(7)]
    assert rule(fresh, crowd(paces), NOW) == ([], None, 0, None)
    old = [suspect(key, seen_s=NOW - HOLD_S) for key in range(7)]
    assert rule(old, crowd(paces), NOW).guilty == [*range(7)]


@pytest.mark.parametrize(("slow", "excuse", "guilty"), [(12, 0.2, True), (12, 0.3, False), (13, 0.2, False)])
def test_three_quarters_that_crawl_are_to_blame_while_the_others_are_normal(slow, excuse, guilty):
    """Not those that are merely slow: rates may be spread so widely; and not where fewer are normal."""
    paces = [0.05] * slow + [1.0] * (16 - slow)
    suspects = [suspect(key, excuse=excuse, seen_s=NOW - HOLD_S) for key in range(slow)]
    ruling = rule(suspects, crowd(paces), NOW)
    assert (ruling.guilty == [*range(slow)]) is guilty
    early = [one._replace(seen_s=NOW) for one in suspects]
    assert rule(early, crowd(paces), NOW).guilty == []


def test_who_has_crawled_from_its_beginning_is_not_held_while_a_quarter_is_normal():
    """No change of the network makes some slow for all of their time, and leaves others normal."""
    crawling = [suspect(key, excuse=0.8)._replace(crawls=True) for key in range(12)]
    assert rule(crawling, crowd([0.05] * 12 + [1.0] * 4), NOW).guilty == [*range(12)]
    assert rule(crawling, crowd([0.05] * 13 + [1.0] * 3), NOW).guilty == []


def test_where_too_few_do_well_one_is_tried():
    """The one that has been slow for longest; the others wait for what it tells."""
    suspects = [suspect(key, seen_s=NOW - HOLD_S - key) for key in range(3)]
    assert rule(suspects, crowd([0.0] * 3), NOW) == ([], 2, 3, None)


def test_a_file_that_ended_is_a_witness_only_if_it_began_since():
    """What ended well before it became slow says nothing of the network after."""
    stuck = [suspect(key, since_s=50.0) for key in range(2)]
    assert rule(stuck, crowd([0.0, 0.0], ended_since=[50.0] * 6), NOW).guilty == [0, 1]
    assert rule(stuck, crowd([0.0, 0.0], ended_since=[49.9] * 6), NOW).guilty == []


def test_a_witness_does_well_in_all_windows():
    """Not only on average; half is what the network has now."""
    paces = [(0.0, 0.0, 0.0), *[(0.5, 1.0, 1.0)] * 3]
    assert Crowd(paces, ()).witnesses(1.0) == 0
    assert rule([suspect(0)], Crowd(paces, ()), NOW).guilty == [0]


def test_of_those_who_excuse_one_another_the_slowest_may_be_tried():
    """Once they have done so for long; never one that would lose bytes by it, or is immune."""
    slow = crowd([0.1] * 16)

    def probe(*, seen_s=NOW - TRY_S, is_free=True):
        others = [suspect(n, excuse=0.3, seen_s=NOW - TRY_S) for n in (3, 4)]
        return rule([*others, suspect(7, excuse=0.2, seen_s=seen_s, is_free=is_free)], slow, NOW)

    assert probe() == ([], None, 3, 7)
    assert probe(is_free=False) == ([], None, 3, 3)
    assert probe(seen_s=NOW - TRY_S + 0.1) == ([], None, 3, 3)


def test_nobody_is_probed_while_one_can_be_tested():
    """Who is doubtful tells more."""
    doubtful = [suspect(key, excuse=0.0, seen_s=NOW - TRY_S) for key in range(3)]
    excused = suspect(9, excuse=2.0, seen_s=NOW - TRY_S)
    assert rule([*doubtful, excused], crowd([0.0] * 3), NOW) == ([], 0, 4, None)


def test_tests_come_one_by_one_until_one_does_well():
    """Every two seconds; probes ever more seldom; the next at once where the last one came out well."""
    tests = Trials()
    doubtful, excused = Ruling([], 1, 2, None), Ruling([], None, 2, 5)
    assert tests.choose(Ruling([], None, 0), 0.0, runs_well=False) == []
    assert tests.choose(doubtful, 0.0, runs_well=False) == [1]
    assert tests.choose(doubtful, HOLD_S - 0.1, runs_well=False) == []
    assert tests.choose(doubtful, HOLD_S, runs_well=False) == [1]
    tried = [now_s for now_s in range(3, 500) if tests.choose(excused, float(now_s), runs_well=False)]
    assert [later - now for now, later in pairwise(tried)][:4] == [12, 24, 48, MOST_TRY_S]
    assert tests.choose(Ruling([], None, 0), 500.0, runs_well=True) == []
    assert tests.choose(excused, 500.1, runs_well=False) == [5]
    assert tests.choose(excused, 500.2, runs_well=False) == []
    assert tests.choose(excused, 500.1 + HOLD_S, runs_well=False) == [5]
