"""How many attempts a host gets at a time: down and up again, by values; the engine is tested elsewhere."""

import itertools
import random

import pytest

from cfetch.straggler.width import FIRST_HOLD_S, FLOOR, Width

MIB = 1 << 20


def ends(width, story):
    """Attempts end, all at once: "s" as a straggler, "." well. The changes."""
    return [change for one in story if (change := width.note_end(0.0, straggler=one == "s"))]


def test_x13_ten_early_stragglers_and_a_thousand_healthy_files():
    """Half the places at once, and all of them again long before the end. The seed stays at one."""
    width = Width(16, 16)
    first = ends(width, "s" * 10)
    assert [(one.before, one.places) for one in first] == [(16, 8)]
    assert first[0].reason == "5 of the last 5 attempts were stragglers"
    after = ends(width, "." * 1000)
    assert [one.places for one in after] == [16]
    assert width.places == 16


def test_x13_the_way_back_goes_by_one_for_each_healthy_window():
    """Twenty ends each; a window with a straggler in five is not healthy."""
    width = Width(16, 16)
    ends(width, "sssss" + "." * 19)
    assert width.places == 8
    ends(width, ".")
    assert width.places == 9
    ends(width, "s...." * 8)
    assert width.places == 9
    ends(width, "." * 170)
    assert width.places == 16


def test_places_are_halved_again_while_that_helps():
    """As far as two; one alone would have no witness."""
    width = Width(16, 16)
    for _ in range(4):
        ends(width, "sssss")
        ends(width, "." * 15 + "sssss")  # a quarter: it helped, and goes on
    assert width.places == FLOOR
    ends(narrow := Width(3, 3), "sssss")
    assert narrow.places == FLOOR


def test_narrowing_that_does_not_help_is_taken_back():
    """The connections are slow by themselves: all places again, and no further attempt for a while."""
    width = Width(16, 16)
    down, up = ends(width, "sssss" + "ss." * 7)
    assert (down.places, up.places) == (8, 16)
    assert up.reason == "with fewer at a time 70 % of the attempts were stragglers still"
    assert ends(width, "s" * 128) == []
    assert [one.places for one in ends(width, "s" * 5)] == [8]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_connections_that_are_slow_by_nature_seldom_narrow(share):
    """Up to three in ten: the run keeps its width, or gets it back."""
    least = []
    for seed in range(50):
        dice, width = random.Random(seed), Width(16, 16)
        places = 0
        for _ in range(500):
            width.note_end(0.0, straggler=dice.random() < share)
            places += width.places
        least.append(places / 500)
    assert sum(mean < 15 for mean in least) <= 2


def test_a_host_with_two_places_is_left_alone():
    """And one with one: there is nothing to take."""
    assert ends(Width(2, 2), "s" * 100) == []
    assert ends(Width(1, 1), "s" * 100) == []


class Drowning:
    """A host in virtual time that brings ``fast`` files a second with up to ``bears``, else ``slow``."""

    def __init__(self, bears, fast, slow):
        self.width = Width(16, 16)
        self.bears, self.fast, self.slow = bears, fast, slow
        self.now_s = self.files = self.ended = 0.0
        self.told = []

    def run(self, seconds):
        for _ in range(int(seconds * 4)):
            self.now_s += 0.25
            self.files += 0.25 * (self.fast if self.width.places <= self.bears else self.slow)
            found = [self.width.look(self.now_s, int(self.files * MIB), self.width.places, calm=True)]
            while self.ended < int(self.files):
                self.ended += 1
                found.append(self.width.note_end(self.now_s, straggler=False))
            self.told += filter(None, found)
        return self


def test_places_with_which_it_is_slower_are_given_back():
    """A host that drowns with more than eight: all are slow alike then, and only the rate tells."""
    host = Drowning(8, 16.0, 2.0)
    ends(host.width, "sssss")
    assert host.width.places == 8
    host.run(600)
    assert {(one.before, one.places) for one in host.told} == {(9, 8)}
    assert host.told[0].reason == "with 9 at a time it is slower"
    assert host.files > 0.85 * 600 * 16
    assert len(host.told) <= 8


def test_a_host_that_bears_all_gets_them_back_in_time_too():
    """The same without a limit."""
    host = Drowning(16, 16.0, 2.0)
    ends(host.width, "sssss")
    host.run(60)
    assert [one.places for one in host.told] == [16]


def test_troubled_times_are_no_healthy_windows():
    """While all is slow nobody gets places back."""
    width = Width(16, 16)
    ends(width, "sssss")
    for _ in range(100):
        ends(width, "." * 15)
        width.look(0.0, 0, 8, calm=False)
    assert width.places == 8


class Server:
    """A host in virtual time: ``rate(n)`` bytes a second with n attempts, looked at four times a second."""

    def __init__(self, start, most, rate):
        self.width = Width(start, most)
        self.rate = rate
        self.now_s = 0.0
        self.received = 0.0
        self.told = []
        self.seen = []

    def run(self, seconds, *, calm=True, running=None):
        for _ in range(int(seconds * 4)):
            places = self.width.places
            active = places if running is None else running
            self.now_s += 0.25
            self.received += 0.25 * self.rate(active)
            change = self.width.look(self.now_s, int(self.received), active, calm=calm)
            self.seen.append(self.width.places)
            if change is not None:
                self.told.append(change)
        return self


def test_a_server_that_limits_each_connection_is_climbed():
    """It gets faster up to 40 connections: the search ends near that, and tells of each step."""
    server = Server(16, 128, lambda n: 4 * MIB * min(n, 40)).run(1200)
    assert 34 <= server.width.places <= 50
    assert max(server.seen) <= 62
    assert server.told[0].reason == "25 % more bytes a second with 20 than with 16 at a time"
    spent = sum(36 <= one <= 50 for one in server.seen[1200:]) / len(server.seen[1200:])
    assert spent > 0.7


def test_the_maximum_is_kept():
    """However much faster it would become."""
    server = Server(4, 30, lambda n: 10 * MIB * n).run(300)
    assert max(server.seen) == server.width.places == 30


def test_a_full_link_stays_at_the_start():
    """More places bring nothing: each trial is taken back, and they become rarer."""
    server = Server(16, 64, lambda n: 100 * MIB).run(600)
    assert server.told == []
    assert sum(one == 16 for one in server.seen) > 0.9 * len(server.seen)
    assert set(server.seen) == {16, 20}
    starts = [at / 4 for at, (a, b) in enumerate(itertools.pairwise(server.seen)) if a < b]
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert gaps == sorted(gaps)
    assert gaps[0] > FIRST_HOLD_S


def test_a_network_that_gets_faster_by_itself_is_not_mistaken_for_long():
    """The link grows just while more places are on trial: they are given back at the next look."""
    server = Server(16, 64, lambda n: 100 * MIB)
    server.run(4)
    assert server.width.places == 20
    server.rate = lambda n: 200 * MIB
    server.run(8)
    assert server.told[0].places == 20
    server.run(120)
    assert server.width.places == 16
    assert server.told[-1].reason == "it is as fast with 16 as with 20 at a time"


@pytest.mark.parametrize("seed", range(5))
def test_noise_leads_nowhere(seed):
    """A full link whose rate swings by some per cent a second does not make the search run away."""
    dice = random.Random(seed)
    server = Server(16, 256, lambda n: 100 * MIB * dice.gauss(1, 0.1)).run(1800)
    assert sum(server.seen) / len(server.seen) < 22


def test_no_search_in_troubled_times():
    """A host that throttles, or a network that is slow for all: what was on trial is given up."""
    server = Server(16, 64, lambda n: MIB * n * 4)
    server.run(4)
    assert server.width.places == 20
    server.run(1, calm=False)
    assert server.width.places == 16
    assert server.run(300, calm=False).told == []


def test_stragglers_end_a_measurement():
    """A period in which one was found tells nothing of the width."""
    server = Server(16, 64, lambda n: MIB * n * 4)
    for _ in range(100):
        server.run(2)
        server.width.note_end(server.now_s, straggler=True)
        for _ in range(4):
            server.width.note_end(server.now_s, straggler=False)
    assert server.told == []


def test_places_that_are_not_used_are_not_judged():
    """With fewer attempts than places nothing is measured, and a trial that nobody fills ends."""
    server = Server(16, 64, lambda n: MIB * n * 4)
    assert server.run(60, running=8).told == []
    server.run(4)
    assert server.width.places == 20
    server.run(60, running=12)
    assert server.width.places == 16
