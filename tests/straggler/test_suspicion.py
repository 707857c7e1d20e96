"""Who may get to speed again by itself: where attempts fade and come back, and by the packets that come."""

import pytest

from tests.straggler.world import GIB, KIB, MIB, Stream, adaptive, at, play

STOPS_S = 12.0
LASTED_S = 3.2  # from the last fast moment to the first one after a fade of 3 s


class Stops(Stream):
    """It is as fast as the others, and then stands still; ``silent_s`` counts from then on."""

    def packet_age_s(self):
        return self.silent_s if self.now_s > STOPS_S + 1.0 else 0.0


def crowd(fade_s, from_s=1.0):
    """Twelve files; each nearly stands still for ``fade_s``, one after the other."""
    begins_s = [from_s + n / 4 for n in range(12)]
    fades = [((0.0, 10 * MIB), (then_s, MIB), (then_s + fade_s, 10 * MIB)) for then_s in begins_s]
    return [Stream(n, GIB, fades[n] if fade_s else at(10 * MIB)) for n in range(12)]


@pytest.mark.parametrize(
    ("fade_s", "packet_age_s", "slack_s", "from_s", "until_s"),
    [
        (0.0, None, 0.0, 1.0, 2.0),  # where none has come back, it is cancelled as soon as it shows
        (0.0, 0.1, 0.0, 1.0, 2.0),  # and packets alone tell nothing
        (3.0, None, 0.0, LASTED_S - 0.3, 6.0),  # it gets as long as others took to come back
        (3.0, 2.0, 0.0, LASTED_S - 0.3, 6.0),  # no packet: its path may be dead
        (3.0, 0.1, 0.0, None, 20.0),  # packets come: TCP waits for a lost one
        (3.0, 0.1, -1.0, 15.7, 19.0),  # the run waits for it, and no helper can tell what it will bring
        (6.0, 2.0, -1.0, 5.7, 8.0),  # a fade foretells as much again, and its rest takes 4 s
        (1.0, 2.0, -1.0, 1.0, 4.0),
    ],
)
def test_an_attempt_that_stands_still_is_left_alone_while_it_may_come_back(
    fade_s, packet_age_s, slack_s, from_s, until_s
):
    """It was as fast as the others, and stops; how much later it is cancelled."""
    rates = ((0.0, 10 * MIB), (STOPS_S, 0.0))
    stops = Stops(99, 160 * MIB, rates, silent_s=packet_age_s, slack_s=slack_s)
    story = play(adaptive(), [*crowd(fade_s), stops], STOPS_S + until_s + 1.0)
    cut_s = [when_s - STOPS_S for when_s, key in story.flagged if key == 99]
    assert [from_s <= when_s <= until_s for when_s in cut_s] == [True] * (from_s is not None)


def test_the_longest_fade_counts_and_not_only_the_latest():
    """A dozen short ones came after it."""
    long = Stream(50, GIB, ((0.0, 10 * MIB), (1.0, MIB), (4.0, 10 * MIB)))
    stops = Stops(99, 160 * MIB, ((0.0, 10 * MIB), (STOPS_S, 0.0)))
    story = play(adaptive(), [*crowd(0.6, from_s=5.0), long, stops], STOPS_S + 6.0)
    assert [when_s - STOPS_S > LASTED_S - 0.3 for when_s, key in story.flagged if key == 99] == [True]


@pytest.mark.parametrize(
    ("fade_s", "slack_s", "from_s"), [(0.0, 0.0, 0.5), (3.0, 0.0, 3.0), (3.0, -1.0, 0.5)]
)
def test_a_reply_may_be_as_late_as_a_fade_is_long_while_entries_wait(fade_s, slack_s, from_s):
    """Its first packet may be the one that was lost."""
    silent = Stream(99, MIB, at(0), start_s=STOPS_S, slack_s=slack_s)
    story = play(adaptive(), [*crowd(fade_s), silent], STOPS_S + 6.0)
    assert from_s <= story.flagged[0][0] - STOPS_S <= from_s + 1.0


@pytest.mark.parametrize("rate_bps", [0.0, 64.0 * KIB])
def test_one_that_was_never_fast_gets_no_time(rate_bps):
    """Its path is bad, though packets come over it."""
    slow = Stream(99, GIB, ((0.0, 16 * KIB), (13.2, rate_bps)), start_s=13.0, silent_s=0.1)
    story = play(adaptive(), [*crowd(3.0), slow], 19.5)
    assert 99 in story.keys


def test_one_whose_bytes_come_steadily_is_judged_by_its_rate():
    """It has become slow; TCP does not wait for a lost packet, so it gets as long as fades took."""
    rates = ((0.0, 10 * MIB), (STOPS_S, 64 * KIB))
    slow = Stream(99, GIB, rates, silent_s=0.0)
    story = play(adaptive(), [*crowd(3.0), slow], STOPS_S + 8.0)
    assert 99 in story.keys


def test_at_the_end_helpers_bring_the_rest_of_one_whose_packets_come():
    """A piece now and then shows a rate, so idle places take what it would bring too late."""
    pieces = tuple((STOPS_S + n, MIB * (n % 2 == 0)) for n in range(20))
    trickles = Stops(99, 160 * MIB, ((0.0, 10 * MIB), *pieces), silent_s=0.1, slack_s=-1.0, grain=2 * MIB)
    assert 99 not in play(adaptive(), [*crowd(3.0), trickles], STOPS_S + 19.0).keys


@pytest.mark.parametrize(
    ("has_lost", "silent_s", "handshake_s", "from_s"),
    [
        (True, 0.1, 0.05, 4.0),
        (True, 1.5, 0.05, 0.5),  # no packet for that long: its path may be dead
        (False, 0.1, 0.05, 0.5),  # packets come, and slowly: its path is slow
        (True, 0.1, 0.0, 0.5),  # a connection that was there before is not in slow start
    ],
)
def test_a_new_connection_whose_losses_tcp_mends_is_left_alone_for_some_seconds(
    has_lost, silent_s, handshake_s, from_s
):
    """Slow start has overflowed a limit; the repeats come one by one."""
    losing = Stream(99, 8 * MIB, at(16 * KIB), has_lost=has_lost, silent_s=silent_s, handshake_s=handshake_s)
    story = play(adaptive(), [*crowd(0.0), losing], 6.0)
    (cut_s,) = [when_s for when_s, key in story.flagged if key == 99]
    assert from_s <= cut_s <= from_s + 1.0
