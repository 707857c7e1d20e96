"""A full link shows in handshakes: the search for more slots ends there, and slow attempts get time."""

import pytest

from cfetch.straggler.handshake import round_trip_s
from cfetch.straggler.link_queue import LinkQueue
from cfetch.straggler.width import MENDED_S, HostReading, TcpSigns, Width
from tests.straggler.world import GIB, KIB, MIB, Stream, adaptive, at, play

NO_SIGNS, DROPS, QUEUES = TcpSigns(False, False), TcpSigns(False, True), TcpSigns(True, True)


class Link:
    """A link in virtual time: it carries ``most_bps``, each attempt ``each_bps``; what exceeds it queues."""

    def __init__(self, *, each_bps, most_bps, usual_s=0.05, queue_s=0.04, waits=0.0):
        self.width = Width(16, 64)
        self.each_bps, self.most_bps, self.waits = each_bps, most_bps, waits
        self.usual_s, self.queue_s = usual_s, queue_s
        self.handshakes_s = []
        self.now_s = self.received = 0.0
        self.is_calm = True
        self.ask_tcp = None
        self.seen = []

    def run(self, seconds):
        for _ in range(round(10 * seconds)):
            running = self.width.slots
            is_full = running * self.each_bps > self.most_bps and self.received > MIB
            new = max(0, running - len(self.handshakes_s))
            self.handshakes_s += [self.usual_s + self.queue_s * is_full] * new
            self.now_s += 0.1
            self.received += 0.1 * min(running * self.each_bps, self.most_bps)
            reading = HostReading(
                self.now_s,
                int(self.received),
                running,
                left_s=100.0,
                waiting=round(self.waits * running),
                handshakes_s=self.handshakes_s,
                ask_tcp=self.ask_tcp,
            )
            self.width.adjust(reading, calm=self.is_calm)
            self.seen.append(self.width.slots)
        return self


def test_a_climb_ends_at_the_first_connection_that_stands_in_the_links_queue():
    """16 attempts fill the link: two more connections show that, and no other 14 are made."""
    link = Link(each_bps=4 * MIB, most_bps=24 * MIB).run(9)
    assert max(link.seen) == 18
    assert link.width.slots == 16
    assert link.width.slack_s == pytest.approx(50.0)


def test_no_climb_begins_where_tcp_shows_that_most_connections_stand_in_a_queue():
    """Their latest round trips tell it, beside those at the start; once the queue is gone, it begins."""
    link = Link(each_bps=MIB / 4, most_bps=100 * MIB)
    link.ask_tcp = lambda usual_s: QUEUES if usual_s == pytest.approx(0.05) else NO_SIGNS
    assert set(link.run(9).seen) == {16}
    assert link.width.fills_link
    link.ask_tcp = lambda usual_s: NO_SIGNS
    assert link.run(6).width.slots == 64


@pytest.mark.parametrize(("usual_s", "is_full"), [(0.6, True), (0.05, False)])
def test_no_climb_begins_until_tcp_could_have_filled_the_queue_again(usual_s, is_full):
    """It stands in one for a moment each four seconds: ten round trips of a satellite take longer."""
    link = Link(each_bps=MIB / 4, most_bps=100 * MIB, usual_s=usual_s)
    link.ask_tcp = lambda usual_s: QUEUES if link.now_s % 4 < 1.2 else NO_SIGNS
    link.run(20)
    assert (set(link.seen) == {16}) == link.width.fills_link == is_full


def test_a_climb_little_by_little_begins_after_slow_start():
    """Fifteen round trips of 0.6 s: until then flows may fill the queue of a link that they do not fill."""
    link = Link(each_bps=MIB / 4, most_bps=100 * MIB, usual_s=0.6)
    assert set(link.run(8.9).seen) == {16}
    assert link.run(1.5).width.slots > 16


def test_a_rate_that_does_not_grow_shows_a_full_link_too():
    """A server nearby: its handshakes show nothing, and twice the slots bring nothing."""
    link = Link(each_bps=4 * MIB, most_bps=24 * MIB, usual_s=0.001, queue_s=0.0).run(3)
    assert max(link.seen) == 32
    assert link.width.slack_s == pytest.approx(50.0)


def test_a_climb_on_a_link_that_is_not_full_reaches_all_places_little_by_little():
    """A server that limits each connection has 64 in seconds, and slots are scarce: nobody gets slack."""
    link = Link(each_bps=MIB / 4, most_bps=100 * MIB).run(6)
    assert link.width.slots == 64
    assert {18, 20, 22, 32, 36, 40} <= set(link.seen)
    assert link.width.slack_s == 0.0


@pytest.mark.parametrize("how", [{"waits": 0.9}, {"usual_s": 0.001}])
def test_small_files_from_afar_and_servers_nearby_get_twice_the_places_at_once(how):
    """The first use a small part of the link; the handshakes of the second show no queue."""
    link = Link(each_bps=MIB, most_bps=100 * MIB, **how).run(1)
    assert set(link.seen) == {16, 32}


def test_a_lost_packet_of_a_handshake_shows_no_queue():
    """The kernel has repeated it a second later: the climb goes on."""
    link = Link(each_bps=4 * MIB, most_bps=24 * MIB, queue_s=1.0).run(3)
    assert max(link.seen) == 32


def test_a_path_that_became_longer_ends_one_climb():
    """What ended it is usual from then on; outside a climb nothing is learned from a slow handshake."""
    queue = LinkQueue(0.005)
    assert not queue.is_felt([0.05, 0.052, 0.15], is_empty=True, is_climb=False)
    assert not queue.is_felt([0.05, 0.06], is_empty=False, is_climb=True)
    for is_climb, is_felt in ((False, True), (True, True), (True, False)):
        assert queue.is_felt([0.05, 0.2, 0.2], is_empty=False, is_climb=is_climb) == is_felt


def test_one_connection_over_a_slow_path_shows_no_full_link():
    """One flow in twenty stands in a queue of its own path: the others are as before."""
    queue = LinkQueue(0.005)
    queue.is_felt([0.05, 0.052], is_empty=True, is_climb=False)
    for made_s in ([0.05, 0.05, 0.4], [0.05, 0.4, 0.05], [0.05, 0.4, 1.4]):
        assert not queue.is_felt(made_s, is_empty=False, is_climb=True)
    assert queue.is_felt([0.05, 0.4, 0.4], is_empty=False, is_climb=True)


def test_connections_over_a_slow_path_are_seen_longest_and_end_no_doubling():
    """Small files over the other new connections have ended: two of sixteen show no full link."""
    link = Link(each_bps=MIB, most_bps=100 * MIB, waits=0.9)
    link.handshakes_s = [0.05] * 62 + [0.4] * 2
    assert link.run(1).width.slots == 32


@pytest.mark.parametrize(("signs", "slots"), [(QUEUES, 16), (None, 16), (NO_SIGNS, 32)])
def test_a_climb_in_troubled_times_goes_on_where_tcp_shows_no_queue(signs, slots):
    """A path has died, so many are slow: that says nothing about the link, unless nobody can tell."""
    link = Link(each_bps=MIB / 4, most_bps=100 * MIB, waits=0.9)
    while link.width.slots == 16:
        link.run(0.1)
    link.ask_tcp = lambda usual_s: signs
    link.is_calm = False
    assert link.run(0.5).width.slots == slots
    assert link.width.fills_link == (slots == 16)


@pytest.mark.parametrize("signs", [QUEUES, NO_SIGNS])
def test_where_all_are_slow_tcp_is_asked_whether_the_link_is_full(signs):
    """No trial of more slots begins in such times, so none can show it."""
    link = Link(each_bps=MIB / 4, most_bps=100 * MIB)
    link.is_calm, link.ask_tcp = False, lambda usual_s: signs
    assert link.run(3).width.fills_link == signs.queue
    assert set(link.seen) == {16}


def test_more_places_that_brought_nothing_do_not_fill_a_link_without_a_queue():
    """TCP shows none: something else was in their way."""
    link = Link(each_bps=4 * MIB, most_bps=64 * MIB, queue_s=0.0)
    link.ask_tcp = lambda usual_s: NO_SIGNS
    link.run(9)
    assert max(link.seen) > 16
    assert not link.width.fills_link


def test_a_limit_that_drops_packets_is_a_full_link_until_more_slots_have_brought_something():
    """No queue shows it. The first trial waits until TCP has repeated what was dropped in slow start."""
    link = Link(each_bps=4 * MIB, most_bps=64 * MIB, queue_s=0.0)
    link.ask_tcp = lambda usual_s: DROPS
    link.run(MENDED_S - 0.5)
    assert (link.width.slots, link.width.fills_link) == (16, True)
    link.most_bps = 1000 * MIB
    assert link.run(6).width.slots > 32
    assert not link.width.fills_link


@pytest.mark.parametrize(("signs", "is_full"), [(DROPS, True), (NO_SIGNS, False)])
def test_more_slots_in_vain_show_a_full_link_where_most_connections_lose_packets(signs, is_full):
    """Nothing was known of it before the trial."""
    link = Link(each_bps=4 * MIB, most_bps=64 * MIB, queue_s=0.0)
    link.ask_tcp = lambda usual_s: signs if link.width.slots > 16 else NO_SIGNS
    while not link.width.slots > 16:
        link.run(0.1)
    while link.width.slots > 16:
        link.run(0.1)
    assert link.width.fills_link == is_full


def test_a_link_that_was_full_is_so_after_a_trial_that_brought_nothing():
    """Its queue was empty at that moment, or is taken for a longer path."""
    link = Link(each_bps=4 * MIB, most_bps=24 * MIB).run(9)
    assert link.width.fills_link
    link.queue_s, link.ask_tcp = 0.0, lambda usual_s: NO_SIGNS
    link.run(60)
    assert max(link.seen[90:]) > 18
    assert link.width.fills_link


def test_a_second_of_the_handshake_is_the_kernels():
    """The last SYN is the one that was answered."""
    assert [round(round_trip_s(each_s), 2) for each_s in (0.05, 0.9, 1.1, 3.2)] == [0.05, 0.9, 0.1, 0.2]


@pytest.mark.parametrize(("slack_s", "is_cut"), [(0.0, True), (4.0, True), (5.0, False)])
@pytest.mark.parametrize("rate_bps", [0, 16 * KIB, MIB])
def test_a_slow_attempt_that_can_be_cancelled_later_is_left_alone(rate_bps, slack_s, is_cut):
    """Others fill the link, and a fresh attempt needs 4 s and half a second more until it can be judged."""
    crowd = [Stream(100 + n, GIB, at(10 * MIB)) for n in range(15)]
    slow = Stream(0, 40 * MIB, at(rate_bps), slack_s=slack_s)
    assert bool(play(adaptive(), [slow, *crowd], 10.0).flagged) == is_cut


@pytest.mark.parametrize(("slow", "fades", "is_cut"), [(4, False, False), (6, False, True), (6, True, False)])
def test_slow_attempts_wait_while_the_others_keep_the_link_full(slow, fades, is_cut):
    """Three of four attempts do; where attempts have faded and come back by themselves, every second one."""
    rates = [((0.0, 10 * MIB), (2 + n / 5, MIB), (2.6 + n / 5, 10 * MIB)) for n in range(12)]
    crowd = [Stream(n, GIB, rates[n] if fades else at(10 * MIB)) for n in range(12)]
    stops = [Stream(100 + n, GIB, ((0.0, 10 * MIB), (6.0, 0.0)), slack_s=1000.0) for n in range(slow)]
    assert bool(play(adaptive(), [*crowd, *stops], 10.0).flagged) == is_cut


def test_a_host_whose_link_was_full_does_not_drown():
    """A later trial of more slots ends in troubled times: the link became slower; fewer would not help."""
    link = Link(each_bps=4 * MIB, most_bps=24 * MIB).run(9)
    link.queue_s = 0.0
    while link.width.slots == 16:
        link.run(0.1)
    link.most_bps, link.is_calm = 6 * MIB, False
    assert set(link.run(30).seen[-300:]) == {16}


def test_an_attempts_time_begins_when_its_connection_is_made():
    """A SYN was lost, so it was made after 1.1 s: the request is not late at the same moment."""
    crowd = [Stream(100 + n, GIB, at(10 * MIB)) for n in range(15)]
    for handshake_s, first_s in ((0.0, 0.6), (1.1, 1.7)):
        silent = Stream(0, GIB, at(0), handshake_s=handshake_s)
        ((when_s, _),) = play(adaptive(), [silent, *crowd], 3.0).flagged
        assert when_s == pytest.approx(first_s, abs=0.3)


@pytest.mark.parametrize(("handshake_s", "is_cut"), [(0.05, True), (0.3, False)])
def test_slow_start_through_a_full_queue_is_no_crawl(handshake_s, is_cut):
    """A round trip of 0.3 s: two seconds with little are its start."""
    crowd = [Stream(100 + n, 8 * MIB, at(MIB)) for n in range(15)]
    starts = Stream(0, 8 * MIB, ((0.0, 8 * KIB), (2.0, MIB)), handshake_s=handshake_s)
    assert bool(play(adaptive(), [starts, *crowd], 5.0).flagged) == is_cut


def test_a_handshake_that_lost_a_packet_says_little_about_the_round_trip():
    """It took 2.1 s, so the answer was lost too: eight times the second of the kernel's wait is too long."""
    crowd = [Stream(100 + n, GIB, at(MIB)) for n in range(15)]
    dead = Stream(0, 8 * MIB, ((0.0, 8 * KIB), (3.0, 0.0)), handshake_s=2.1)
    assert play(adaptive(), [dead, *crowd], 8.0).keys == [0]
