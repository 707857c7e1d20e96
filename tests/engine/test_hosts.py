"""What each host bears: windows, holds, breakers, speeds; pure values in a table of stories."""

import re

import pytest

from cfetch.base.breaker import THRESHOLD
from cfetch.base.errors import Corrupt, RangeRefused, Refused, Straggling, Throttled, Transient
from cfetch.engine.connection_limit import PREVAILS
from cfetch.engine.hosts import BEARS, KEPT_S, RESETS, Hosts, Pause
from cfetch.straggler.width import Width, WidthChange
from cfetch.wire.retry import Limits, RetryBudget

NEVER = float("inf")
BUSY = Throttled("HTTP 503")
REFUSED = Throttled("HTTP 503", http_status=503, retry_after_s=60.0)


def hosts_of(most=4, **limits):
    return Hosts(most, Limits(**{"max_attempts": 5, "retry_budget_s": 300.0, **limits}))


def tell(
    hosts,
    error,
    now_s=0.0,
    *,
    started_s=None,
    received=0,
    name="h",
    file=None,
    being_served=0,
    broke_again=False,
):
    """An attempt starts and ends with ``error``."""
    hosts.take_slot(name)
    pause = hosts.note_end(
        name,
        error,
        now_s,
        started_s=now_s if started_s is None else started_s,
        received=received,
        jitter=0.5,
        file=file,
        being_served=being_served,
        broke_again=broke_again,
    )
    hosts.free_slot(name, now_s)
    return pause


def slots(hosts, now_s=0.0, name="h"):
    """How many more may start now."""
    count = 0
    while hosts.opens_s(name, now_s) <= now_s:
        hosts.take_slot(name)
        count += 1
    for _ in range(count):
        hosts.free_slot(name, now_s)
    return count


def test_a_host_nothing_is_known_of_has_all_slots():
    """And costs no memory after use."""
    hosts = hosts_of()
    assert slots(hosts) == 4
    assert hosts._hosts == {}


def test_c41_a_throttled_host_gets_half_the_window_and_a_pause():
    """Half per round, never less than one; success brings one back per round."""
    hosts = hosts_of(16)
    assert tell(hosts, BUSY, 1.0) == Pause("h", 0.25, "HTTP 503", is_certain=True)
    assert (slots(hosts, 1.2), slots(hosts, 1.25)) == (0, 8)
    for now_s in (10.0, 20.0, 30.0, 40.0):
        tell(hosts, BUSY, now_s)
    assert slots(hosts, 100.0) == 1
    tell(hosts, None, 100.0)
    assert slots(hosts, 100.0) == 2
    for _ in range(200):
        tell(hosts, None, 100.0)
    assert slots(hosts, 100.0) == 16


def test_a_host_that_others_ask_too_gets_more_slots_with_each_answer():
    """From the few that it begins with up to all; bytes of a large file count too, and a refusal ends it."""
    hosts = hosts_of(most=8)
    hosts.begin_with(2)
    for answers, expected in ((0, 2), (2, 4), (4, 8), (3, 8)):
        for _ in range(answers):
            tell(hosts, None)
        assert slots(hosts) == expected
    for _ in range(2):
        hosts.take_slot("large")
    assert not hosts.adjust_widths(0.0, 0.0, {}, calm=True, waiting={"large": 1})
    assert hosts.adjust_widths(0.0, 0.0, {}, calm=True)
    assert hosts.bears("large") == (2, 4)
    tell(hosts, Throttled("no", http_status=429), name="large")
    assert not hosts.adjust_widths(0.0, 0.0, {}, calm=True)
    assert hosts.bears("large") == (2, 2)


def test_c41_one_round_of_refusals_halves_once():
    """Requests that were under way when the window was cut say nothing new."""
    hosts = hosts_of(16)
    for _ in range(16):
        hosts.take_slot("h")
    for _ in range(16):
        hosts.note_end("h", BUSY, 2.0, started_s=1.0, received=0, jitter=0.5)
        hosts.free_slot("h", 2.0)
    assert slots(hosts, 9.0) == 8


def test_c42_retry_after_holds_the_host():
    """The longer of several counts, from whichever request."""
    hosts = hosts_of()
    hosts.take_slot("h")
    tell(hosts, Throttled("x", retry_after_s=7.0), 1.0)
    assert hosts.opens_s("h", 1.0) == 8.0
    pause = hosts.note_end(
        "h", Throttled("x", retry_after_s=60.0), 2.0, started_s=0.5, received=0, jitter=0.5
    )
    assert pause is not None
    assert (pause.pause_s, hosts.opens_s("h", 2.0)) == (60.0, 62.0)
    assert hosts.opens_s("other", 2.0) == 2.0


def test_c42_a_503_for_one_file_leaves_a_host_that_serves_others_alone():
    """However often that file is refused; a 429, or a refusal of a part of a file, is the host's."""
    hosts = hosts_of(16)
    tell(hosts, None)
    assert [tell(hosts, REFUSED, 1.0 + n / 10, file=7) for n in range(20)] == [None] * 20
    assert slots(hosts, 4.0) == 16
    assert tell(hosts, REFUSED, 4.0) is not None
    other = Throttled("HTTP 429", http_status=429, retry_after_s=60.0)
    tell(hosts, None, name="o")
    assert tell(hosts, other, 4.0, name="o", file=7) == Pause("o", 60.0, "HTTP 429", is_certain=True)


def test_c42_503s_for_different_files_hold_the_host():
    """Five in a row; not if as many come in between, and not if that takes long."""
    hosts = hosts_of(16)
    for name, between, every_s in (("a", 0, 1.0), ("b", 2, 1.0), ("c", 0, 3.0)):
        tell(hosts, None, name=name)
        pauses = []
        for n in range(5):
            pauses.append(tell(hosts, REFUSED, n * every_s, file=n, name=name))
            for _ in range(between):
                tell(hosts, None, n * every_s, name=name)
        assert pauses[:4] == [None] * 4
        assert (pauses[4] is not None) == (name == "a")
    assert (slots(hosts, 30.0, "a"), slots(hosts, 70.0, "a"), slots(hosts, 30.0, "b")) == (0, 8, 16)


def test_c42_a_first_503_holds_the_host_until_it_serves_another():
    """Nothing is known of it yet; bytes of a request that was under way show whom it meant."""
    hosts = hosts_of(16)
    hosts.take_slot("h")
    assert tell(hosts, REFUSED, 1.0, file=1) == Pause("h", 60.0, "HTTP 503")
    assert slots(hosts, 1.5) == 0
    assert hosts.note_life("h")
    assert slots(hosts, 1.5) == 15
    hosts = hosts_of(16)
    tell(hosts, REFUSED, 1.0, file=1)
    tell(hosts, None, 1.5)
    assert slots(hosts, 1.5) == 16
    hosts = hosts_of(16)
    for n in range(5):
        tell(hosts, REFUSED, 1.0, file=n)
    tell(hosts, None, 1.5)
    assert slots(hosts, 1.5) == 0


def test_c43_a_pause_beyond_the_budget_gives_the_host_up():
    """Its entries are not to wait."""
    hosts = hosts_of(retry_budget_s=60.0)
    tell(hosts, Throttled("x", retry_after_s=61.0), 1.0)
    assert (hosts.given_up("h", 1.0), hosts.opens_s("h", 1.0)) == (None, 1.25)  # perhaps it is that file only
    tell(hosts, Throttled("x", retry_after_s=61.0), 2.0)
    assert hosts.given_up("h", 2.0) == "h asks for a pause of 61 s, longer than the retry budget of 60 s"
    assert hosts.given_up("h", 4.0) is None


def test_c43_one_file_that_is_to_wait_for_long_does_not_hold_the_host():
    """Another is asked for, comes, and nothing is left of it."""
    hosts = hosts_of(retry_budget_s=60.0)
    for now_s in (1.0, 11.0, 21.0):
        tell(hosts, Throttled("x", retry_after_s=86_400.0), now_s)
        tell(hosts, None, now_s + 5)
        assert (hosts.given_up("h", now_s + 5), hosts.opens_s("h", now_s + 5)) == (None, now_s + 5)


@pytest.mark.parametrize("error", [None, Refused("404"), Corrupt("x"), RangeRefused("x")])
def test_c44_any_answer_closes_the_breaker(error):
    """A 404 is a sign of life."""
    hosts = hosts_of()
    for _ in range(THRESHOLD - 1):
        assert tell(hosts, Transient("reset")) is None
    tell(hosts, error)
    assert tell(hosts, Transient("reset")) is None
    assert slots(hosts) == 4


def test_c44_a_dead_host_is_asked_by_one_probe_at_a_time():
    """After each pause; two hosts have nothing to do with each other."""
    hosts = hosts_of()
    pauses = [tell(hosts, Transient("reset")) for _ in range(THRESHOLD)]
    assert pauses[-1] == Pause("h", 0.5, f"failed {THRESHOLD} times in a row", is_failing=True)
    assert (slots(hosts, 0.4), slots(hosts, 0.5), slots(hosts, 0.5, "other")) == (0, 1, 4)


@pytest.mark.parametrize(("being_served", "left"), [(3, 3), (20, 16), (0, 16)])
def test_a_host_that_fails_all_but_those_that_it_serves_gets_no_more(being_served, left):
    """It allows a client so many. A host that serves none is dead, which says nothing of slots."""
    hosts = hosts_of(16)
    for n in range(THRESHOLD):
        assert slots(hosts, 1.0) == (16 if n < PREVAILS else left)
        pause = tell(hosts, Transient("reset"), 1.0, being_served=being_served)
        assert (pause is None) is (n < THRESHOLD - 1)
    hosts.take_slot("h")
    hosts.note_end("h", Corrupt("x"), 2.0, started_s=2.0, received=0, jitter=0.5)
    hosts.free_slot("h", 2.0)
    assert slots(hosts, 2.0) == left


def test_a_breaker_that_closes_is_noted():
    """Once, when a probe brings bytes; and not where none had opened."""
    hosts = hosts_of()
    tell(hosts, None)
    assert hosts.closed_breakers == []
    for _ in range(THRESHOLD):
        tell(hosts, Transient("reset"))
    hosts.take_slot("h")
    hosts.note_life("h")
    hosts.note_life("h")
    assert hosts.closed_breakers == ["h"]


def test_c44_slowness_and_broken_bodies_are_no_sign_of_death():
    """A straggler tells nothing; a body that brought bytes tells that the host lives."""
    hosts = hosts_of()
    for _ in range(3 * THRESHOLD):
        tell(hosts, Straggling("slow"))
        tell(hosts, Transient("cut"), 1.0, started_s=0.0, received=1 << 20)
    assert slots(hosts, 1.0) == 4


def test_a_file_that_breaks_off_again_at_its_byte_tells_that_the_host_answers():
    """Its breaker closes, however many files are broken."""
    hosts = hosts_of()
    for _ in range(THRESHOLD):
        tell(hosts, Transient("cut"), received=300)
    assert slots(hosts) == 0
    tell(hosts, Transient("cut"), 1.0, received=300, broke_again=True)
    assert (slots(hosts, 1.0), hosts.closed_breakers) == (4, ["h"])


def test_c64_a_host_that_is_back_is_asked_within_seconds():
    """A probe costs a connection, however long it has been away."""
    hosts = hosts_of()
    tell(hosts, None)
    now_s = fail_for_long(hosts, 0.0, 200.0)
    assert hosts.opens_s("h", now_s) == now_s + 5.0


def fail_for_long(hosts, now_s, until_s, error=None):
    while now_s < until_s:
        now_s = max(now_s, hosts.opens_s("h", now_s))
        tell(hosts, error or Transient("refused"), now_s)
    return now_s


def test_a_host_that_does_nothing_but_throttle_is_given_up():
    """After the time of the retry budget: else each of its files would wait for its own tries, one by one."""
    hosts = hosts_of()
    now_s = fail_for_long(hosts, 0.0, 270.0, BUSY)
    assert hosts.given_up("h", now_s) is None
    now_s = fail_for_long(hosts, now_s, 310.0, BUSY)
    reason = hosts.given_up("h", now_s)
    assert re.fullmatch("h has not given a good answer for 3.. s, only HTTP 429 or 503", reason)
    assert hosts.given_up("h", hosts.opens_s("h", now_s)) is None  # the next is the probe
    hosts.trusted = ["h"]
    assert hosts.given_up("h", now_s) is None  # it serves another process
    hosts.trusted = []
    hosts.take_slot("h")
    assert hosts.given_up("h", now_s) is None  # it may be about to serve this one


def test_a_host_that_throttles_again_after_long_is_not_given_up():
    """Nobody had asked it since: that is no time of trouble."""
    hosts = hosts_of()
    for now_s in (0.0, 400.0):
        tell(hosts, BUSY, now_s)
        assert hosts.given_up("h", now_s) is None


def test_c44_a_host_that_never_answered_is_given_up_soon():
    """After as many probes as a file has tries."""
    hosts = hosts_of()
    now_s = fail_for_long(hosts, 0.0, 7.0)
    assert hosts.given_up("h", now_s) is None
    now_s = fail_for_long(hosts, now_s, 20.0)
    assert "has not given one good answer" in hosts.given_up("h", now_s)


def test_c64_a_host_that_did_answer_is_waited_for():
    """The network may be down: the whole retry budget, and a probe may always end it."""
    hosts = hosts_of()
    tell(hosts, None)
    now_s = fail_for_long(hosts, 0.0, 270.0)
    assert hosts.given_up("h", now_s) is None
    now_s = fail_for_long(hosts, now_s, 310.0)
    assert "has not given a good answer for 3" in hosts.given_up("h", now_s)
    later_s = hosts.opens_s("h", now_s)
    assert hosts.given_up("h", later_s) is None  # the next is the probe
    tell(hosts, None, later_s)
    assert slots(hosts, later_s) == 4


def test_c64_a_probe_that_brings_bytes_ends_the_trouble_at_once():
    """All slots are open while it goes on; nobody is given up while a probe is out."""
    hosts = hosts_of()
    tell(hosts, None)
    now_s = fail_for_long(hosts, 0.0, 310.0)
    later_s = hosts.opens_s("h", now_s)
    hosts.take_slot("h")
    assert (hosts.given_up("h", later_s), hosts.opens_s("h", later_s)) == (None, NEVER)
    assert hosts.note_life("h")
    assert hosts.opens_s("h", later_s) == later_s
    assert not hosts.note_life("h")


def test_the_speed_of_a_host_follows_what_it_brings():
    """Small replies tell the latency; the newest samples weigh most."""
    hosts = hosts_of()
    tell(hosts, None, 1.0, started_s=0.0, received=1000)
    assert hosts.finish_s("h", 1_000_000) == float("inf")
    tell(hosts, None, 1.0, started_s=0.0, received=1_000_000)
    assert hosts.finish_s("h", 2_000_000) == 2.0
    for _ in range(20):
        tell(hosts, None, 10.0, started_s=0.0, received=1_000_000)
    assert hosts.finish_s("h", 100_000) == pytest.approx(1.0, rel=0.02)


def test_a_million_hosts_are_not_remembered():
    """A speed is kept for as many as fit a table, troubles as long as they last."""
    hosts = hosts_of()
    for n in range(6000):
        tell(hosts, None, 1.0, started_s=0.0, received=1_000_000, name=f"h{n}")
    assert len(hosts._hosts) <= 4097


def test_c44_the_runs_retries_are_a_share_of_its_requests():
    """A burst is allowed, then ten a second; requests earn one retry for every five."""
    budget = RetryBudget()
    assert [budget.spend_s(0.0) for _ in range(100)] == [0.0] * 100
    assert [budget.spend_s(0.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert budget.spend_s(1.0) == 0.0
    for _ in range(1000):
        budget.earn()
    assert [budget.spend_s(1.0) for _ in range(101)] == pytest.approx([0.0] * 100 + [0.1])
    assert max(budget.spend_s(1.0) for _ in range(9999)) == 32.0  # what one host owes, others do not pay for


def test_what_is_under_way_at_a_host_counts_until_it_has_left():
    """The placement's rule: a fast host with much to do may be later than a slower idle one."""
    hosts = hosts_of()
    hosts.take_slot("h")
    hosts.note_end("h", None, 1.0, started_s=0.0, received=1_000_000, jitter=0.5)
    hosts.free_slot("h", 1.0)
    hosts.take_slot("h", 3_000_000)
    assert hosts.finish_s("h", 1_000_000) == 4.0
    hosts.free_slot("h", 2.0, 3_000_000)
    assert hosts.finish_s("h", 1_000_000) == 1.0


def test_a_lease_limits_a_host_as_long_as_it_lasts():
    """Where it is less than the host bears; what is under way goes on."""
    hosts = hosts_of(4)
    hosts.lease({"h": 2}, 1)
    assert (slots(hosts), slots(hosts, name="other")) == (2, 1)
    hosts.take_slot("h")
    hosts.take_slot("h")
    hosts.lease({"h": 1}, None)
    assert (slots(hosts), slots(hosts, name="other")) == (0, 4)
    hosts.free_slot("h", 0.0)
    assert slots(hosts) == 0
    hosts.lease({"h": 9}, None)
    assert slots(hosts) == 3
    hosts.lease({"h": 0}, None)
    assert slots(hosts, name="h") == 0


def test_what_a_host_would_be_asked_for_without_a_lease():
    """What waits there, within its window; and one for those that may go elsewhere, if any was refused."""
    hosts = hosts_of(4)
    hosts.lease({"h": 1}, None)
    assert hosts.demand("h", 0) == (0, 0)
    hosts.take_slot("h")
    assert hosts.demand("h", 0) == (1, 1)
    assert (hosts.demand("h", 2), hosts.demand("h", 9)) == ((1, 3), (1, 4))
    assert slots(hosts) == 0
    assert (hosts.demand("h", 0), hosts.demand("h", 0)) == ((1, 2), (1, 1))
    tell(hosts, BUSY, name="busy")
    assert hosts.demand("busy", 9) == (0, 2)


def wide(seconds, hosts, *, from_s=0.0, calm=True):
    """``hosts`` is looked at, with all slots in use and 4 MiB a second for each; whether more may start."""
    rose = False
    for tick in range(int(seconds * 4)):
        now_s = from_s + tick / 4
        while hosts.opens_s("h", now_s) <= now_s:
            hosts.take_slot("h")
        received = int(now_s * 4 * (1 << 20) * 64)
        rose = hosts.adjust_widths(now_s, 0.0, {"h": received}, calm=calm) or rose
    return rose


def test_a_host_gets_more_slots_while_that_is_faster():
    """The caller is told when to start more; what stays is told with its reason."""
    hosts = Hosts(64, Limits(5, 300.0), new_width=lambda _served: Width(8, 64))
    assert slots(hosts) == 8
    assert wide(1, hosts) is True
    assert hosts.demand("h", 100) == (16, 16)
    assert hosts.changes == []
    # no faster with 16: eight are taken back, and end by themselves
    assert wide(2, hosts, from_s=1.0) is False
    assert hosts._hosts["h"].slots == 8
    assert hosts.opens_s("h", 3.0) == NEVER


def test_a_host_that_throttles_gets_no_more_slots():
    """What is on trial is given up, and the window is half of what was in use."""
    hosts = Hosts(64, Limits(5, 300.0), new_width=lambda _served: Width(8, 64))
    wide(1, hosts)
    assert hosts._hosts["h"].slots == 16
    hosts.note_end("h", BUSY, 1.0, started_s=0.5, received=0, jitter=0.5)
    hosts.free_slot("h", 1.0)
    assert wide(0.25, hosts, from_s=1.0) is False
    hosts.note_end("h", None, 6.0, started_s=5.0, received=0, jitter=0.5)
    host = hosts._hosts["h"]
    assert host.slots == 8
    assert host.width is not None
    assert host.width.slots == 8


def test_stragglers_leave_a_host_its_slots():
    """Bad connections are bad at any width: only the host's rate says how many it bears."""
    hosts = Hosts(16, Limits(5, 300.0), new_width=lambda _served: Width(16, 16))
    for _ in range(50):
        tell(hosts, Straggling("slow"), received=1)
    assert slots(hosts) == 16


def test_what_a_host_served_is_remembered_until_it_serves_more():
    """It begins with that many slots, over proven connections first; a wider host is no such host."""
    hosts = Hosts(64, Limits(5, 300.0), new_width=lambda served: Width(16, 64, served), served={"h": 8})
    assert (hosts.bears("h"), hosts.bears("other")) == ((0, 8), (0, 16))
    hosts.take_slot("h")
    hosts.take_slot("other")
    assert (hosts.is_capped("h"), hosts.is_capped("other")) == (True, False)
    for served in (14, 14, 13):
        hosts.note_hanging("other", 1.0, served=served)
    assert hosts.served == {"h": 8, "other": 14}
    total = 0
    for tick in range(40):
        while hosts.opens_s("h", tick / 4) <= tick / 4:
            hosts.take_slot("h")
        total += hosts._hosts["h"].running << 20
        hosts.adjust_widths(tick / 4, 0.0, {"h": total}, calm=True)
    assert hosts.served == {"other": 14}


def test_a_host_whose_new_connections_hang_gets_fewer_and_proven_ones():
    """Whoever asks it next does so over a connection that was idle, if there is one."""
    hosts = Hosts(16, Limits(5, 300.0), new_width=lambda _served: Width(16, 16))
    hosts.take_slot("h")
    assert not hosts.is_capped("h")
    hosts.note_hanging("h", 1.0, served=8)
    assert slots(hosts) == 14  # one is taken, and one given up
    assert hosts.is_capped("h")
    assert not hosts.is_capped("other")
    ((name, change),) = hosts.changes
    assert (name, change.slots) == ("h", 15)
    for _ in range(9):
        hosts.note_hanging("h", 2.0, served=4)
    assert slots(hosts) == 7  # eight were served a moment ago: four of them wait for their next reply
    hosts.note_hanging("h", 60.0, served=4)
    assert slots(hosts) == 6


def test_a_pause_that_another_process_was_asked_for_is_kept_too():
    """Half the slots after it; what is told again, or a little later, cuts no more."""
    hosts = hosts_of(16)
    hosts.join_pause("h", 5.0, 1.0)
    assert (slots(hosts, 5.9), slots(hosts, 6.0)) == (0, 8)
    hosts = hosts_of(16)
    hosts.join_pause("h", 5.0, 1.0)
    hosts.join_pause("h", 4.5, 2.0)
    hosts.join_pause("h", 9.0, 2.0)
    assert (slots(hosts, 10.9), slots(hosts, 11.0)) == (0, 8)
    hosts.join_pause("h", 5.0, 20.0)
    assert slots(hosts, 25.0) == 4


def test_a_pause_that_is_told_again_with_another_spread_is_not_made_longer():
    """The hub tells it each second, and the largest of many random numbers would be taken."""
    hosts = hosts_of(16)
    hosts.join_pause("h", 60.0, 1.0, spread_s=1.0)
    hosts.join_pause("h", 59.0, 2.0, spread_s=15.0)
    assert (slots(hosts, 61.9), slots(hosts, 62.0)) == (0, 8)
    hosts = hosts_of(16)
    tell(hosts, REFUSED, 1.0)
    hosts.join_pause("h", 59.1, 1.9, spread_s=15.0)
    assert (slots(hosts, 60.9), slots(hosts, 61.0)) == (0, 8)


def test_its_own_pause_told_by_others_changes_nothing():
    """The hub repeats it a second later."""
    hosts = hosts_of(16)
    tell(hosts, REFUSED, 1.0)
    hosts.join_pause("h", 60.0, 1.9)
    assert (slots(hosts, 60.9), slots(hosts, 61.0)) == (0, 8)


def test_no_slot_is_kept_when_an_attempt_has_brought_bytes():
    """Who was told a later time has to be told that once."""
    hosts = Hosts(16, Limits(max_attempts=5, retry_budget_s=300.0), keeps_one=True)
    for _ in range(15):
        hosts.take_slot("h")
    assert hosts.opens_s("h", 1.0) == 1.0 + KEPT_S
    hosts.note_end("h", None, 1.1, started_s=0.0, received=100, jitter=0.5)
    assert hosts.opens_s("h", 1.1) == 1.1
    hosts.free_slot("h", 1.1)
    assert hosts.opens_early
    hosts.opens_early = False
    hosts.free_slot("h", 1.1)
    assert not hosts.opens_early


def test_more_than_the_kept_slot_may_open_before_the_stated_time():
    """An attempt that brought nothing has left a second slot; the last one is kept until the same time."""
    hosts = Hosts(16, Limits(max_attempts=5, retry_budget_s=300.0), keeps_one=True)
    for _ in range(15):
        hosts.take_slot("h")
    assert hosts.opens_s("h", 1.0) == 1.0 + KEPT_S
    hosts.free_slot("h", 1.1)
    assert (hosts.opens_early, hosts.opens_s("h", 1.1)) == (True, 1.1)
    hosts.take_slot("h")
    assert hosts.opens_s("h", 1.2) == 1.0 + KEPT_S


def test_a_pause_that_was_about_one_file_opens_the_host_before_its_end():
    """Queues that were told its end have to be looked at again, whether bytes have come or an end."""
    hosts = hosts_of()
    tell(hosts, REFUSED, 1.0, file=1)
    assert (hosts.opens_s("h", 2.0), hosts.opens_early) == (61.0, False)
    tell(hosts, None, 2.0, file=2)
    assert (hosts.opens_s("h", 2.0), hosts.opens_early) == (2.0, True)
    hosts = hosts_of()
    tell(hosts, REFUSED, 1.0, file=1)
    hosts.take_slot("h")
    assert hosts.note_life("h")
    assert not hosts.note_life("h")


def test_a_limit_of_connections_is_a_change_of_the_width():
    """When it is learned, and when more were borne for a while."""
    hosts = hosts_of(16)
    for _ in range(PREVAILS):
        tell(hosts, Transient("reset"), 1.0, being_served=3)
    assert hosts.changes == [("h", WidthChange(16, 3, RESETS, is_refused=True))]
    for now_s in (10.0, 20.0):
        tell(hosts, None, now_s)
    assert hosts.changes[1:] == [("h", WidthChange(3, 4, BEARS))]


def test_a_host_that_serves_other_processes_is_not_given_up():
    """It has no connection left for this one yet."""
    hosts = hosts_of()
    now_s = fail_for_long(hosts, 0.0, 20.0)
    assert hosts.given_up("h", now_s)
    hosts.trusted = ["h"]
    assert hosts.given_up("h", now_s) is None
