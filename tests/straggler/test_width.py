"""How many attempts a host gets at a time: up and down again, by values; the engine is tested elsewhere."""

import itertools
import random

import pytest

from cfetch.straggler.width import FIRST_HOLD_S, HostReading, Width, WidthChange

MIB = 1 << 20


class Server:
    """A host in virtual time: ``rate(n)`` bytes a second with n attempts, looked at ten times a second."""

    def __init__(self, start, most, rate, *, served=0):
        self.width = Width(start, most, served)
        self.rate = rate
        self.now_s = 0.0
        self.busy = 0.0
        self.left_s = 0.0
        self.silent = 0
        self.received = 0.0
        self.changes = []
        self.seen = []

    def run(self, seconds, *, calm=True, running=None):
        for _ in range(round(seconds * 10)):
            slots = self.width.slots
            active = slots if running is None else running
            self.now_s += 0.1
            self.received += 0.1 * self.rate(active)
            cpu_s = self.busy * self.now_s
            reading = HostReading(self.now_s, int(self.received), active, cpu_s, self.left_s, self.silent)
            change = self.width.adjust(reading, calm=calm)
            self.seen.append(self.width.slots)
            if change is not None:
                self.changes.append(change)
        return self

    @property
    def mean(self):
        """Of the slots that it had."""
        return sum(self.seen) / len(self.seen)


def test_slots_double_within_seconds_while_that_is_worth_it():
    """A server that limits each connection has all 64 in two seconds, and each doubling is reported."""
    server = Server(16, 64, lambda n: MIB * n).run(2.5)
    assert [(change.before, change.slots) for change in server.changes] == [(16, 32), (32, 64)]
    assert server.changes[0].reason == "100 % more bytes a second with 32 than with 16 at a time"
    assert server.run(600).width.slots == 64
    assert set(server.seen[25:]) == {64}


def test_the_climb_goes_on_in_small_steps_where_doubling_is_too_much():
    """It gets faster up to 40 connections: the search ends near that."""
    server = Server(16, 128, lambda n: 4 * MIB * min(n, 40)).run(1200)
    assert 34 <= server.width.slots <= 50
    spent = sum(36 <= slots <= 50 for slots in server.seen[3000:]) / len(server.seen[3000:])
    assert spent > 0.7


def test_the_maximum_is_kept():
    """However much faster it would become."""
    server = Server(4, 30, lambda n: 10 * MIB * n).run(300)
    assert max(server.seen) == server.width.slots == 30


def test_a_full_link_stays_at_the_start():
    """More slots bring nothing: each trial is taken back, and they become rarer."""
    server = Server(16, 64, lambda n: 100 * MIB).run(600)
    assert server.changes == []
    assert sum(slots == 16 for slots in server.seen) > 0.9 * len(server.seen)
    assert set(server.seen) == {16, 20, 32}
    starts = [at / 10 for at, (a, b) in enumerate(itertools.pairwise(server.seen)) if a < b]
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert gaps == sorted(gaps)
    assert gaps[0] > FIRST_HOLD_S


def test_a_network_that_gets_faster_by_itself_is_not_mistaken_for_long():
    """The link grows just while more slots are on trial: they are given back at the next look."""
    server = Server(16, 64, lambda n: 100 * MIB)
    server.run(0.8)
    assert server.width.slots == 32
    server.rate = lambda n: 200 * MIB
    server.run(2)
    assert server.changes[0].slots == 32
    server.run(60)
    assert server.width.slots == 16
    assert server.changes[-1].reason == "it is as fast with 16 as with 20 at a time"


@pytest.mark.parametrize("seed", range(5))
def test_noise_leads_nowhere(seed):
    """A full link whose rate swings by some per cent a second does not make the search run away."""
    dice = random.Random(seed)
    server = Server(16, 256, lambda n: 100 * MIB * dice.gauss(1, 0.1)).run(1800)
    assert server.mean < 22


def test_nothing_more_is_tried_in_troubled_times():
    """A host that throttles, or a network that is slow for all: what was on trial is given up."""
    server = Server(16, 64, lambda n: 100 * MIB)
    server.run(0.8)
    assert server.width.slots == 32
    server.run(0.2, calm=False)
    assert server.width.slots == 16
    assert max(server.run(300, calm=False).seen[10:]) == 16


def test_a_host_that_drowns_with_more_than_the_start_gets_fewer_too():
    """The first doubling makes it slower: so what half of the start brings is worth a trial."""
    server = Server(16, 64, lambda n: 32768 * MIB / n**2).run(6)
    assert server.width.slots <= 8


def test_troubled_times_right_after_a_doubling_say_that_the_host_drowns():
    """All are slow at once since there are more: half of the start is tried within seconds."""
    server = Server(16, 64, lambda n: 32768 * MIB / n**2).run(0.8)
    assert server.width.slots == 32
    server.run(4, calm=False)
    assert server.width.slots <= 8


def test_a_rate_that_others_share_in_is_not_measured():
    """The attempts of a trial that is over go on for a while: until they have ended nothing is judged."""
    server = Server(16, 16, lambda n: 32768 * MIB / n**2)
    server.run(20, calm=False, running=24)
    assert set(server.seen) == {16}


def test_slots_that_a_host_bears_again_come_back():
    """It was relieved, and each doubling is worth it by now: all are there again within seconds."""
    server = Server(16, 64, lambda n: 32768 * MIB / n**2).run(6)
    assert server.width.slots < 16
    server.rate = lambda n: 40 * MIB * min(n, 16)
    server.run(30)
    assert server.width.slots >= 16


def test_a_slow_network_leaves_all_slots():
    """That all are slow at once says nothing of the number: pauses must not cost slots."""
    server = Server(16, 16, lambda n: MIB * n / 10).run(300, calm=False)
    assert set(server.seen) == {16}


@pytest.mark.parametrize("seed", range(5))
def test_a_host_in_order_is_narrowed_for_moments_only(seed):
    """However its rate swings: what trials of fewer slots cost is a small share of the run."""
    dice = random.Random(seed)
    server = Server(16, 16, lambda n: MIB * n * dice.choice((0.2, 1.0, 2.0))).run(600)
    assert server.mean > 0.97 * 16


def test_a_host_that_drowns_from_the_start_is_found_where_no_more_are_allowed():
    """Nothing speaks for fewer, so a small step down is tried: once its cost is a small share of the run."""
    server = Server(16, 16, lambda n: 4 * MIB * n * min(1.0, (8 / n) ** 2))
    server.run(10)
    assert set(server.seen) == {16}
    server.run(20)
    assert server.changes[0][:2] == (16, 12)
    assert server.width.slots in range(8, 11)


@pytest.mark.parametrize(("left_s", "is_found"), [(60.0, True), (5.0, False)])
def test_a_long_run_may_look_for_drowning_at_once(left_s, is_found):
    """What the trial can cost is a small share of the whole run, not of the time that has gone by."""
    server = Server(16, 16, lambda n: 4 * MIB * n * min(1.0, (8 / n) ** 2))
    server.left_s = left_s
    server.run(4)
    assert (server.width.slots < 16) is is_found


@pytest.mark.parametrize(("silent", "slots"), [(2, {12, 16}), (3, {16})])
def test_while_attempts_wait_for_their_first_byte_no_other_number_is_tried(silent, slots):
    """Theirs are the slots that a trial would take."""
    server = Server(16, 16, lambda n: MIB * n)
    server.left_s, server.silent = 60.0, silent
    assert set(server.run(4).seen) == slots


def test_relief_goes_on_to_the_best_number_and_stays_there():
    """By quarters, then slot by slot; and what is tried above it is given up."""
    server = Server(16, 16, lambda n: 4 * MIB * n * min(1.0, (8 / n) ** 2))
    server.left_s = 60.0
    server.run(9)
    assert server.width.slots in {8, 9, 10}
    server.run(60)
    assert sum(server.seen[90:]) / 600 == pytest.approx(8, abs=0.3)


def test_a_host_that_seemed_to_drown_gets_its_slots_back():
    """The network became faster by itself, just while fewer slots were on trial."""
    server = Server(16, 16, lambda n: MIB * n)
    server.left_s = 60.0
    server.run(2.4)
    assert server.width.slots == 12
    server.rate = lambda n: 2 * MIB * n
    server.run(8)
    assert server.width.slots == 16
    assert sum(server.seen) / len(server.seen) > 13


def test_a_rate_that_still_grows_is_no_base_for_a_trial_of_fewer():
    """TCP begins slowly: whatever was tried then would seem to help."""
    server = Server(16, 16, lambda n: MIB * n)
    server.left_s = 60.0
    for _ in range(6):
        server.rate = lambda n, now_s=server.now_s: MIB * n * (1 + now_s)
        server.run(1.0)
    assert set(server.seen) == {16}


@pytest.mark.parametrize("seconds", [12, 14, 16, 20, 30, 60, 600])
def test_a_trial_of_fewer_costs_a_fiftieth_of_a_run_of_any_length(seconds):
    """A server that limits each connection, with downloads of a minute that end at any time."""
    server = Server(16, 16, lambda n: MIB * n)
    left_s = [4.0 * n for n in range(1, 17)]
    brought = 0.0
    for _ in range(seconds * 10):
        running = len(left_s)
        server.run(0.1, running=running)
        brought += running
        left_s = [left - 0.1 for left in left_s if left > 0.1]
        left_s += [60.0] * (server.width.slots - len(left_s))
    assert 12 in server.seen or seconds < 14
    assert brought >= 0.98 * 16 * seconds * 10


def test_a_step_for_which_the_processor_has_no_room_is_not_tried():
    """A doubling must bring two fifths more: a thread that computes for 3/4 of its time cannot show that."""
    server = Server(16, 64, lambda n: MIB * n)
    server.busy = 0.75
    assert set(server.run(60).seen) == {16}
    server = Server(16, 64, lambda n: MIB * n)
    server.busy = 0.7
    assert server.run(1).width.slots == 32


def test_a_host_with_two_slots_is_left_alone():
    """And one with one: there is nothing to take."""
    assert set(Server(2, 2, lambda n: MIB / n).run(60, calm=False).seen) == {2}
    assert set(Server(1, 1, lambda n: MIB / n).run(60, calm=False).seen) == {1}


def test_slots_that_are_not_used_are_not_judged():
    """With fewer attempts than slots nothing is measured, and a trial that nobody fills ends."""
    server = Server(16, 64, lambda n: MIB * n * 4)
    assert server.run(60, running=8).changes == []
    server.run(0.8)
    assert server.width.slots == 32
    server.run(60, running=12)
    assert server.width.slots == 16


def test_slots_are_given_up_while_new_connections_hang():
    """One for each, but not below the number that is served; where hardly one is, nobody knows."""
    width = Width(16, 16)
    change = width.yield_slot(10.0, 8)
    assert change == WidthChange(16, 15, "new connections hang while others are served")
    for _ in range(20):
        width.yield_slot(10.0, 8)
    assert width.slots == 8
    assert width.yield_slot(10.0, 1) is None
    assert width.slots == 8


def test_a_slot_that_was_given_up_is_tried_again():
    """The server serves more by then: all come back."""
    server = Server(16, 16, lambda n: 4 * MIB * n)
    for _ in range(8):
        server.width.yield_slot(0.0, 8)
    assert server.run(9).width.slots == 8
    assert server.run(120).width.slots == 16


def test_a_slot_that_was_given_up_comes_back_only_where_it_is_worth_it():
    """Also to a host that had fewer because that was faster: it bears them, but serves no more."""
    server = Server(16, 16, lambda n: 4 * MIB * n * min(1.0, (8 / n) ** 2))
    server.left_s = 60.0
    relieved = server.run(9).width.slots
    server.rate = lambda n: 24 * MIB
    while server.width.slots > 6:
        server.width.yield_slot(server.now_s, 6)
    server.run(120)
    assert relieved < 11
    assert server.width.slots < 8


def test_a_host_that_let_connections_hang_begins_with_those_that_it_served():
    """One look shows that it still is so; the next one comes after a minute, not after ten seconds."""
    server = Server(16, 64, lambda n: MIB * min(n, 8), served=8).run(60)
    assert (server.seen[0], max(server.seen), server.width.slots) == (8, 10, 8)
    assert server.changes == []
    assert set(server.seen[30:]) == {8}


def test_a_host_that_serves_more_by_now_has_them_within_seconds():
    """The first look is faster, so the slots climb as those of a host that is new."""
    server = Server(16, 64, lambda n: MIB * n, served=8).run(6)
    assert server.width.slots == 64
    assert Width(16, 64, 1).slots == Width(16, 64, 20).slots == 16  # nobody begins alone, nor with more


def test_connections_that_hang_on_trial_cost_no_slot_of_before():
    """With the old number all were served; where some hang without a trial, that is forgotten."""
    server = Server(16, 64, lambda n: MIB * min(n, 8), served=8).run(0.8)
    assert server.width.slots == 10
    server.silent = 2
    server.run(2)
    assert server.width.slots == 8
    assert server.width.yield_slot(server.now_s, 6) is None
    server.run(70)
    change = server.width.yield_slot(server.now_s, 6)
    assert change is not None
    assert change.slots == 7
