"""How many connections a file may have, by what TCP shows of those that bring it."""

from typing import Any

import pytest

from cfetch.straggler.segment_growth import ALL, LOOK, LinkSigns, SegmentGrowth

MIB = 1 << 20
TRIP_S = 0.05
STEADY = (0.5, 10 * MIB)  # from this second on as fast as it gets; before, twice as fast with each round trip
CLEAN = LinkSigns(TRIP_S, TRIP_S, has_lost=False)
QUEUED = LinkSigns(TRIP_S, 2 * TRIP_S, has_lost=True)
LOSSY = LinkSigns(TRIP_S, 1.1 * TRIP_S, has_lost=True)


def play(signs, until_s, *, new_trip_s=None, faster=1.0, stops_s=9e9, slows_to=1.0, most=16, begins=True):
    """The answers, a look each tenth of a second: (second, answer). What is allowed begins at once.

    ``faster``: times the rate with more connections; ``slows_to``: times the rate after 1.5 s. A look's
    piece is there after half a second; no look begins unless ``begins``.
    """
    growth, answers, attempts, held, look_ends_s, newest = SegmentGrowth(), [], 1, 0.0, 9e9, 0
    for tick in range(1, round(until_s * 10) + 1):
        now_s = tick / 10
        rate = STEADY[1] * min(1.0, 2 ** ((now_s - STEADY[0]) / TRIP_S)) * (faster if attempts > 2 else 1.0)
        held += rate / 10 * (now_s <= stops_s) * (slows_to if now_s > 1.5 else 1.0)
        answer = growth.allow(
            7,
            now_s,
            began_s=0.0,
            first_bytes=0,
            held_bytes=int(held),
            attempts=attempts,
            signs=signs(now_s) if callable(signs) else signs,
            newest=newest,
            new_trip_s=new_trip_s if attempts > 1 else None,
            most=most,
        )
        answers.append((now_s, answer))
        if answer == LOOK:
            if begins:
                attempts, look_ends_s, newest = attempts + 1, now_s + 0.5, newest - 1
        elif attempts < min(answer, most):
            attempts, newest = min(answer, most), newest - 1
        if now_s >= look_ends_s:
            attempts, look_ends_s = attempts - 1, 9e9
    return answers


def first(answers, wanted):
    return next((now_s for now_s, answer in answers if answer >= wanted), None)


def looks(answers):
    return [now_s for now_s, answer in answers if answer == LOOK]


def test_a_connection_that_gets_to_speed_is_left_alone():
    """Slow start for half a second, nothing lost: no other before its rate stands, and then all at once."""
    assert 0.5 < first(play(CLEAN, 3.0), 2) <= 0.8
    assert first(play(CLEAN, 3.0), 16) == first(play(CLEAN, 3.0), 2)


def test_a_full_link_gets_a_look_now_and_then_and_no_more():
    """It loses packets, its round trips are twice as long, and so is the handshake of a look: 2, 4, 8 s."""
    answers = play(QUEUED, 20.0, new_trip_s=2 * TRIP_S)
    assert first(answers, 3) is None
    waits = [round(later - sooner) for sooner, later in zip(looks(answers), looks(answers)[1:], strict=False)]
    assert waits == [2, 4, 8]


def test_a_queue_of_its_own_path_is_told_by_two_short_handshakes():
    """A router has dealt out the first connection to a slow path: one short handshake may be chance."""
    answers = play(QUEUED, 5.0, new_trip_s=TRIP_S)
    assert len(looks(answers)) == 2
    assert looks(answers)[1] < first(answers, 16) < 2.0


@pytest.mark.parametrize(("faster", "most"), [(3.0, 16), (1.0, 4)])
def test_where_packets_are_lost_in_no_queue_a_few_come_first(faster, most):
    """All come if these make the file faster; else the link has only a short queue, and is full."""
    answers = play(LOSSY, 2.5, faster=faster)
    assert 1.0 <= first(answers, 4) < 1.3  # by then its losses are no longer those of slow start
    assert max(answer for _, answer in answers) == most


def test_a_queue_that_tcp_has_just_emptied_is_still_that_of_a_full_link():
    """It is full and empty in turn, twice a second: no few connections at a moment when it is empty."""
    answers = play(lambda now_s: QUEUED if now_s % 0.5 < 0.2 else LOSSY, 3.0, new_trip_s=2 * TRIP_S)
    assert looks(answers)
    assert first(answers, 3) is None


@pytest.mark.parametrize(("slows_to", "from_s", "until_s"), [(1.0, 7.5, 8.5), (0.3, 2.5, 3.5)])
def test_after_a_queue_a_few_come_once_tcp_could_have_filled_it_again(slows_to, from_s, until_s):
    """At 10 MiB/s that takes 6.6 s (CUBIC's K); sooner if the rate has fallen, as a server limits it."""
    answers = play(
        lambda now_s: QUEUED if now_s < 1.05 else LOSSY, 9.0, new_trip_s=2 * TRIP_S, slows_to=slows_to
    )
    assert from_s <= first(answers, 4) <= until_s


def test_two_looks_show_no_growth():
    """The first one came late, in the middle of slow start."""
    growth = SegmentGrowth()
    state: dict[str, Any] = {
        "began_s": 0.0,
        "first_bytes": 0,
        "attempts": 1,
        "signs": CLEAN,
        "newest": 0,
        "new_trip_s": None,
    }
    assert growth.allow(7, 0.18, held_bytes=130_000, most=16, **state) == 1
    assert growth.allow(7, 0.28, held_bytes=400_000, most=16, **state) == 1
    assert growth.allow(7, 0.38, held_bytes=450_000, most=16, **state) == 16


def test_a_connection_without_bytes_gets_help():
    """Its path has died while it stood in a queue."""
    assert 3.5 <= first(play(QUEUED, 6.0, new_trip_s=2 * TRIP_S, stops_s=3.0), 16) <= 3.8


def test_where_nobody_knows_tcp_all_come_at_once():
    """A system without these figures, or a connection of another kind."""
    assert play(LinkSigns(), 0.1) == [(0.1, 16)]
    assert ALL > 16


def test_a_look_that_had_no_place_is_not_judged_by_an_older_handshake():
    """Four connections of a step that brought nothing had short handshakes; the queue came after them."""
    answers = play(lambda now_s: LOSSY if now_s < 3.0 else QUEUED, 20.0, new_trip_s=TRIP_S, begins=False)
    assert first(answers, 4) < 1.3
    assert len(looks(answers)) > 2
    assert first(answers, 5) is None
