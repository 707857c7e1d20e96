"""What outlives a run: how it ages, and how two runs' knowledge becomes one."""

import math

import msgspec
import pytest

from cfetch.straggler.knowledge import (
    HALF_LIFE_S,
    MAX_SPREAD,
    MOST_HOSTS,
    MOST_WEIGHT,
    NOTHING,
    HostKnowledge,
    Knowledge,
    add_served,
    age_knowledge,
    is_sound,
    merge_knowledge,
)

DAY_S = 86_400.0
NOW_S = 1_800_000_000.0


def host(weight=100.0, wall_s=NOW_S, *, rate_bps=1e6, latency_s=0.1, spread=0.2):
    return HostKnowledge(latency_s, rate_bps, spread, weight, wall_s)


def known(**hosts):
    return Knowledge(hosts=hosts)


@pytest.mark.parametrize(("days", "weight"), [(0, 100.0), (7, 50.0), (14, 25.0), (-365, 100.0)])
def test_the_weight_halves_every_week(days, weight):
    """What a clock in the future has written counts as written now, and ages from now on."""
    old = known(a=host(wall_s=NOW_S - days * DAY_S))
    assert age_knowledge(old, NOW_S).hosts["a"] == host(weight)


def test_ageing_in_steps_is_ageing_at_once():
    """However many runs there were in between."""
    old = known(a=host())
    steps = age_knowledge(age_knowledge(old, NOW_S + 3 * DAY_S), NOW_S + 9 * DAY_S).hosts["a"]
    assert steps.weight == pytest.approx(age_knowledge(old, NOW_S + 9 * DAY_S).hosts["a"].weight)


def test_what_is_worth_less_than_a_file_is_forgotten():
    """And so is everything within sixty days, however much there was of it."""
    old = known(a=host(1.5), b=host(1e9))
    assert set(age_knowledge(old, NOW_S + 5 * DAY_S).hosts) == {"b"}
    assert age_knowledge(old, NOW_S + 60 * DAY_S) == NOTHING
    assert age_knowledge(old, NOW_S + HALF_LIFE_S * math.log2(MOST_WEIGHT) + 1) == NOTHING


def test_two_runs_count_by_their_files():
    """Rates by their logarithm: 1 and 4 MB/s are 2 MB/s."""
    old = known(a=host(50.0, rate_bps=1e6, latency_s=0.1, spread=0.2), b=host())
    new = known(a=host(50.0, rate_bps=4e6, latency_s=0.3, spread=0.4), c=host())
    both = merge_knowledge(old, new, NOW_S).hosts
    assert set(both) == {"a", "b", "c"}
    assert both["a"].rate_bps == pytest.approx(2e6)
    assert (both["a"].latency_s, both["a"].spread) == pytest.approx((0.2, 0.3))
    assert both["a"].weight == 100.0


def test_how_many_connections_a_host_serves_is_kept_for_a_week():
    """A later run that sees nothing else keeps the day it was found; what it sees counts from its own day."""
    first = add_served(known(a=host()), {"a": 8, "unknown": 3}, NOTHING, NOW_S)
    assert {name: one.serves for name, one in first.hosts.items()} == {"a": 8}
    later_s = NOW_S + 4 * DAY_S
    same = add_served(known(a=host(wall_s=later_s)), {"a": 8}, first, later_s)
    other = add_served(known(a=host(wall_s=later_s)), {"a": 6}, first, later_s)
    merged = merge_knowledge(first, same, later_s)
    assert merged.hosts["a"].serves == 8
    assert age_knowledge(merged, NOW_S + 8 * DAY_S).hosts["a"].serves == 0
    assert age_knowledge(other, NOW_S + 8 * DAY_S).hosts["a"].serves == 6
    assert merge_knowledge(first, known(a=host()), NOW_S).hosts["a"].serves == 0  # it proved wrong


def test_old_knowledge_does_not_outvote_the_present():
    """However many files it came from, as many new ones as are kept weigh the same."""
    old = known(a=host(1e9, rate_bps=1e6))
    new = known(a=host(MOST_WEIGHT, rate_bps=4e6))
    both = merge_knowledge(old, new, NOW_S).hosts["a"]
    assert both.rate_bps == pytest.approx(2e6)
    assert both.weight == MOST_WEIGHT


def test_it_is_bounded():
    """Hosts with most weight are kept."""
    many = Knowledge(hosts={f"h{n}": host(1.0 + n / 10) for n in range(2 * MOST_HOSTS)})
    kept = merge_knowledge(many, NOTHING, NOW_S).hosts
    assert set(kept) == {f"h{n}" for n in range(MOST_HOSTS, 2 * MOST_HOSTS)}


@pytest.mark.parametrize(
    "broken",
    [
        host(rate_bps=0.0),
        host(rate_bps=-1.0),
        host(rate_bps=math.inf),
        host(latency_s=-0.1),
        host(latency_s=math.nan),
        host(spread=-1.0),
        host(spread=2.1),
        host(spread=300.0),
        host(latency_s=1e6),
        host(rate_bps=1e-300),
        host(rate_bps=1e300),
        host(weight=-1.0),
        host(wall_s=math.inf),
        msgspec.structs.replace(host(), serves=-1),
        msgspec.structs.replace(host(), serves=1 << 40),
    ],
)
def test_numbers_that_no_run_can_have_measured(broken):
    """Are told apart from sound ones."""
    assert not is_sound(broken)
    assert is_sound(host(latency_s=0.0))


def test_the_widest_spread_is_sound_and_stays_so():
    """What one run may write, the next may read, however often it is merged."""
    widest = known(a=host(3.0, spread=MAX_SPREAD))
    for weight in range(2, 60):
        widest = merge_knowledge(widest, known(a=host(weight * 1.1, spread=MAX_SPREAD)), NOW_S)
        assert is_sound(widest.hosts["a"])
