"""What a host bears that resets all further connections: a pure value in stories."""

from math import inf

from cfetch.engine.connection_limit import FIRST_S, PREVAILS, ConnectionLimit


def refuse(limit, now_s, others=8, times=PREVAILS, being_served=0):
    """So many refusals, then a file that was under way before them."""
    for _ in range(times):
        limit.note_refusal(now_s, others, being_served)
    limit.note_file(now_s + 0.1, now_s - 1.0)


def test_a_host_that_refuses_beside_what_it_serves_has_a_limit():
    """The least that was under way beside a refused one."""
    limit = ConnectionLimit()
    limit.note_refusal(1.0, 11, 0)
    refuse(limit, 1.0)
    assert limit.slots == 8


def test_bodies_under_way_prove_it_at_once():
    """Nobody need wait for the end of a large file."""
    limit = ConnectionLimit()
    for _ in range(PREVAILS):
        limit.note_refusal(1.0, 8, 3)
    assert limit.slots == 8


def test_an_outage_is_no_limit():
    """What comes after it was begun after it."""
    limit = ConnectionLimit()
    for _ in range(50):
        limit.note_refusal(1.0, 8, 0)
    limit.note_file(3.0, 2.0)
    assert limit.slots == inf


def test_a_network_that_loses_one_in_ten_connections_is_no_limit():
    """Files outweigh it."""
    limit = ConnectionLimit()
    for n in range(1000):
        if n % 10 == 0:
            limit.note_refusal(float(n), 15, 0)
        limit.note_file(n + 0.5, n - 0.5)
    assert limit.slots == inf


def test_more_is_tried_more_and_more_until_it_is_refused():
    """Then the limit is as before, and the next try comes later."""
    limit = ConnectionLimit()
    refuse(limit, 0.0)
    seen = []
    for t in range(1, 17):
        limit.raise_if_due(float(t))
        seen.append(limit.slots)
    assert sorted(set(seen)) == [8, 9, 11, 15]
    refuse(limit, 17.0, others=11, times=1)
    assert limit.slots == 11  # of which none was refused
    limit.raise_if_due(17.0 + 1.5 * FIRST_S)
    assert limit.slots == 11
    limit.raise_if_due(17.2 + 2 * FIRST_S)
    assert limit.slots == 12


def test_the_lease_of_a_host_takes_the_place_of_the_own_limit():
    """Once the hub has heard of it: it counts for all processes."""
    limit = ConnectionLimit()
    refuse(limit, 0.0)
    assert limit.change == (inf, 8)
    limit.raise_if_due(FIRST_S - 1, is_leased=True)
    assert limit.slots == 8
    limit.raise_if_due(FIRST_S + 1, is_leased=True)
    assert limit.slots == inf
    refuse(limit, FIRST_S + 2, others=3, times=1)
    assert limit.slots == inf  # one reset is no limit
    refuse(limit, FIRST_S + 2, others=3)
    assert limit.slots == 3
