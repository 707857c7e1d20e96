"""The adaptive policy in a small world: who is found, when, who never, and what is told."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest

from cfetch.straggler.knowledge import HostKnowledge, Knowledge
from tests.straggler.world import GIB, KIB, MIB, Stream, adaptive, at, play, teach


def crowd(count, size=GIB, rate=10 * MIB, first=100, **how):
    return [Stream(first + n, size, at(rate), **how) for n in range(count)]


def test_before_any_sample_those_under_way_tell():
    """15 connections at 10 MiB/s, one at 16 KiB/s, files of a GiB: found in five seconds."""
    story = play(adaptive(), [Stream(0, GIB, at(16 * KIB)), *crowd(15)], 10.0)
    ((when_s, key),) = story.flagged
    assert (key, when_s <= 5.1) == (0, True)
    (found,) = story.found
    assert found.projected_s == pytest.approx(65536, rel=0.01)
    assert found.elapsed_s == pytest.approx(when_s)


def test_of_a_silent_one_nobody_knows_when_it_would_have_ended():
    """Nor of one that stopped under way: its next packet may come at once."""
    story = play(adaptive(), [Stream(0, GIB, at(0)), *crowd(15)], 10.0)
    ((when_s, key),) = story.flagged
    assert (key, when_s) == (0, pytest.approx(0.6, abs=0.3))
    assert story.found[0].projected_s is None
    stops = Stream(0, GIB, ((0.0, 10 * MIB), (10.0, 0.0)))
    (found,) = play(adaptive(), [stops, *crowd(15)], 20.0).found
    assert found.projected_s is None


def test_an_unanswered_handshake_is_left_to_the_kernel_where_that_is_as_quick():
    """It asks again after 1 s and 3 s: a fresh one gains only well before that, and not just after it."""
    policy = adaptive()
    again = Stream(0, GIB, at(10 * MIB), latency_s=2.5, immune=True)
    lost = Stream(0, GIB, at(0), connecting_since_s=0.0, again=again)
    lone = Stream(1, GIB, at(0), start_s=2.0, connecting_since_s=2.0, again=replace(again, key=1))
    story = play(policy, [lost, lone, *crowd(14)], 6.0)
    assert story.flagged == [(pytest.approx(1.6, abs=0.15), 0), (pytest.approx(3.6, abs=0.15), 1)]
    assert policy._feedback.patience_s("h") == 0.0  # the fresh ones waited longer, and no object was cold


def test_who_waits_for_a_handshake_finds_no_object_cold():
    """A file that was cancelled in silence, and whose next connection has no answer, teaches no patience."""
    for connecting_since_s, is_patient in ((None, True), (0.7, False)):
        policy = adaptive()
        again = Stream(0, GIB, at(0), connecting_since_s=connecting_since_s, mitigations=1)
        play(policy, [Stream(0, GIB, at(0), again=again), *crowd(15)], 1.4)
        assert (policy._feedback.patience_s("h") > 0) == is_patient


def test_thirty_percent_are_slow_from_the_start():
    """They are doubted for a while, then found: the others do well at the same time."""
    slow = [Stream(n, GIB, at(64 * KIB)) for n in range(5)]
    story = play(adaptive(), [*slow, *crowd(11)], 10.0)
    assert sorted(story.keys) == [0, 1, 2, 3, 4]
    assert story.flagged[-1][0] <= 5.2


def test_seven_of_sixteen_are_slow_at_once():
    """They are watched for a while, and nothing is said of the network before that is clear."""
    slow = [Stream(n, GIB, ((0.0, 10 * MIB), (5.0, 64 * KIB))) for n in range(7)]
    story = play(adaptive(), [*slow, *crowd(9)], 8.0)
    assert story.flagged == []
    assert story.held == []
    assert sorted(play(adaptive(), [*slow, *crowd(9)], 12.0).keys) == [*range(7)]


def test_twelve_of_sixteen_crawl_while_four_do_well():
    """A network that is slow leaves nobody at the usual pace: so it is the connections, though most are."""
    policy = adaptive()
    end_s = teach(policy, [6.4] * 8, size=64 * MIB)
    slow = [Stream(n, 64 * MIB, at(64 * KIB), start_s=end_s) for n in range(12)]
    well = crowd(4, size=200 * MIB, start_s=end_s)
    story = play(policy, [*slow, *well], end_s + 12.0, from_s=end_s)
    assert sorted(story.keys) == [*range(12)]
    fewer = [Stream(n, GIB, ((0.0, 10 * MIB), (5.0, 64 * KIB))) for n in range(13)]
    assert play(adaptive(), [*fewer, *crowd(3)], 10.0).flagged == []


def test_a_global_slowdown_and_its_end_break_off_nobody():
    """A tenth for ten seconds; new files begin in the middle of it."""
    dip = ((0.0, 10 * MIB), (10.0, MIB), (20.0, 10 * MIB))
    old = [Stream(n, 256 * MIB, dip, start_s=0.3 * n) for n in range(16)]
    new = [Stream(50 + n, 64 * MIB, dip, start_s=10.5 + n) for n in range(12)]
    story = play(adaptive(), [*old, *new], 60.0)
    assert len(story.flagged) <= 1  # the probe
    assert len(story.ended) + len(story.flagged) == 28
    assert story.held


def test_one_of_three_hosts_becomes_slow():
    """Its files wait but for one probe, the other hosts' are not disturbed, and the words name it."""
    hosts = [
        Stream(10 * h + n, GIB, ((0.0, 10 * MIB), (5.0, MIB)) if h == 2 else at(10 * MIB), host=f"h{h}")
        for h in range(3)
        for n in range(5)
    ]
    assert play(adaptive(), hosts, 12.0).flagged == []
    story = play(adaptive(), hosts, 20.0)
    assert story.keys == [20]
    assert story.held[0] == "5 of 5 downloads from h2 are slow at once: the host, not the files"


def test_a_host_that_is_slow_from_its_first_file_is_known_by_its_own():
    """Its connections are compared with each other, not with the fast host's."""
    policy = adaptive()
    end_s = teach(policy, [0.15] * 30, host="fast")
    slow = [Stream(n, 64 * MIB, at(MIB), host="slow", start_s=end_s) for n in range(6)]
    assert play(policy, slow, end_s + 70, from_s=end_s).flagged == []


def test_one_that_stops_in_the_middle_is_found_in_seconds():
    """The sooner the smaller the file; of a gibibyte within four."""
    stops = Stream(0, GIB, ((0.0, 10 * MIB), (10.0, 0.0)))
    ((when_s, _),) = play(adaptive(), [stops, *crowd(15)], 20.0).flagged
    assert 12.0 < when_s <= 14.0


def test_one_that_pauses_is_not():
    """For two seconds, of files of a minute."""
    pauses = Stream(0, GIB, ((0.0, 10 * MIB), (10.0, 0.0), (12.0, 10 * MIB)))
    assert play(adaptive(), [pauses, *crowd(15)], 30.0).flagged == []


def test_a_quarter_of_the_rate_is_found():
    """64 MiB, six seconds instead of one and a half."""
    policy = adaptive()
    end_s = teach(policy, [1.65] * 20, 64 * MIB)
    slow = Stream(0, 64 * MIB, at(10 * MIB), start_s=end_s)
    ((when_s, _),) = play(
        policy, [slow, *crowd(5, 64 * MIB, 40 * MIB, start_s=end_s)], end_s + 6, from_s=end_s
    ).flagged
    assert when_s - end_s <= 1.0


def test_the_first_byte_may_be_late_by_what_is_usual():
    """First bytes after half a second, sometimes after one; then nobody is asked after one and a half."""
    policy = adaptive()
    at_s = 0.0
    for n in range(30):
        first_s = 1.0 if n % 5 == 0 else 0.5
        at_s = teach(policy, [first_s + 0.1], first_key=100 + n, at_s=at_s, first_byte_s=first_s)
    patient = [
        Stream(0, MIB, at(0), start_s=at_s),
        *crowd(5, 100 * MIB, 10 * MIB, start_s=at_s, latency_s=0.5),
    ]
    ((when_s, key),) = play(policy, patient, at_s + 10, from_s=at_s).flagged
    assert key == 0
    assert 1.5 < when_s - at_s < 8


def test_immune_attempts_are_never_flagged():
    """But they are witnesses, and their end is a sample."""
    story = play(adaptive(), [Stream(0, GIB, at(KIB), immune=True), *crowd(15)], 30.0)
    assert story.flagged == []


def test_each_is_flagged_once():
    """Though it is still there at the next check."""
    policy = adaptive()
    streams = [Stream(0, GIB, at(0)), *crowd(8)]
    for one in streams:
        policy.note_start(one.key, one.size, 0.0, host="h", immune=False, mitigations=0)
    found = []
    for tick in range(1, 60):
        for one in streams:
            one.look(tick / 10)
        found += policy.check(tick / 10, streams).stragglers
    assert [f.id for f in found] == [0]


def test_a_second_rescue_needs_more():
    """At a third of the rate: once, but not twice."""
    again = Stream(0, 256 * MIB, at(3 * MIB), mitigations=1)
    first = Stream(0, 256 * MIB, at(3 * MIB), again=again)
    assert play(adaptive(), [first, *crowd(12)], 30.0).keys == [0]
    worse = Stream(0, 256 * MIB, at(3 * MIB), again=Stream(0, 256 * MIB, at(64 * KIB), mitigations=1))
    assert play(adaptive(), [worse, *crowd(12)], 30.0).keys == [0, 0]


def test_what_would_be_lost_counts_where_the_server_resumes_nothing():
    """Forty of fifty MiB are there, at a tenth of the rate: to begin anew would take longer."""

    def world(*, resumable):
        rates = ((0.0, 40 * MIB), (1.05, 1 * MIB))
        return [Stream(0, 50 * MIB, rates, resumable=resumable), *crowd(10, 4 * GIB, 10 * MIB)]

    assert play(adaptive(), world(resumable=True), 5.0).keys == [0]
    assert play(adaptive(), world(resumable=False), 5.0).keys == []


def test_bytes_may_be_lost_within_the_budget_only():
    """64 MiB are free: one of two loses 50, the other stays, though it stands still."""
    rates = ((0.0, 25 * MIB), (2.05, 0.0))
    stuck = [Stream(n, 4 * GIB, rates, resumable=False) for n in range(2)]
    others = crowd(10, 4 * GIB, 2 * MIB)
    assert len(play(adaptive(), [*stuck, *others], 14.0).keys) == 1
    free = [Stream(n, 4 * GIB, rates) for n in range(2)]
    assert sorted(play(adaptive(), [*free, *crowd(10, 4 * GIB, 2 * MIB)], 14.0).keys) == [0, 1]


@pytest.mark.parametrize("pause_s", [2.0, 3600.0])
def test_time_in_which_our_process_stood_still_is_no_time(pause_s):
    """Nothing was read, and the rate is what it was before."""
    policy = adaptive()
    one = Stream(0, 100 * MIB, at(10 * MIB), latency_s=0.0)
    policy.note_start(0, one.size, 0.0, host="h", immune=False, mitigations=0)
    for tick in range(1, 31):
        one.look(tick / 10)
        policy.check(tick / 10, [one])
    check = policy.check(3.0 + pause_s, [one])
    assert (check.stragglers, check.gap_s) == ((), pause_s if pause_s > 5 else 0.0)
    policy.check(3.1 + pause_s, [one])
    assert policy.remaining_s(0) == pytest.approx(7.0, rel=0.2)


def test_a_check_that_follows_on_a_gap_flags_nobody():
    """Four are flagged at once, and two more are due at the next check, which comes a minute late."""
    policy = adaptive()
    streams = [*[Stream(n, GIB, at(16 * KIB)) for n in range(6)], *crowd(40)]
    story = play(policy, streams, 5.0)
    assert [when_s for when_s, _ in story.flagged] == [5.0] * 4
    left = [stream for stream in streams if stream.key not in story.keys]
    flagged = []
    for late_s, then_s in ((65.0, 5.0), (65.1, 5.1), (65.2, 5.2)):
        for stream in left:
            stream.look(then_s)  # as far as our process has read
        flagged.append([one.id for one in policy.check(late_s, left).stragglers])
    assert flagged[0] == []
    assert sorted(flagged[1] + flagged[2]) == [4, 5]


@pytest.mark.parametrize(("dips", "flagged"), [(8, []), (0, [99])])
def test_where_connections_pause_now_and_then_a_pause_is_no_offence(dips, flagged):
    """Lost packets: 0.6 s of nearly nothing, and then the usual rate; nobody is cancelled in such a time."""
    fast, slow = 4 * MIB, MIB // 8
    policy = adaptive()
    paused = [Stream(n, 64 * MIB, ((0, fast), (2, slow), (2.6, fast))) for n in range(dips)]
    others = [Stream(100 + n, 64 * MIB, at(fast)) for n in range(16)]
    last = Stream(99, 4 * MIB, ((0, slow), (6.7, fast)), start_s=6.0)
    assert play(policy, [*paused, *others, last], 8.0).keys == flagged


@pytest.mark.parametrize("slow", [1, 7, 16])
def test_the_start_of_a_long_download_says_little(slow):
    """Files of twenty seconds crawl for one and a half: they are left alone, and nothing is told of it."""
    policy = adaptive()
    end_s = teach(policy, [20.05] * 8, 200 * MIB)
    rates = ((0.0, 64 * KIB), (end_s + 1.5, 10 * MIB))
    crawling = [Stream(n, 200 * MIB, rates, start_s=end_s) for n in range(slow)]
    others = crowd(16 - slow, 200 * MIB, start_s=end_s)
    story = play(policy, [*crawling, *others], end_s + 6.0, from_s=end_s)
    assert (story.flagged, story.held) == ([], [])


def test_a_few_that_are_excused_are_not_all():
    """Six of sixteen have a third of their usual pace, the others two thirds: so most are not slow."""
    policy = adaptive()
    end_s = teach(policy, [20.05] * 8, 200 * MIB)
    slow = [Stream(n, 200 * MIB, at(3 * MIB), start_s=end_s) for n in range(6)]
    looks, real = [], policy.check

    def check(now_s, attempts):
        looks.append(real(now_s, attempts))
        return looks[-1]

    policy.check = check
    play(policy, [*slow, *crowd(10, 200 * MIB, 6 * MIB, start_s=end_s)], end_s + 3.0, from_s=end_s)
    held = {(look.held_back, look.is_general) for look in looks if look.held_back}
    assert held == {("6 of 16 downloads are slow at once: the network, not the files", False)}


def test_second_streams_are_judged_but_are_no_entries():
    """A negative key can be flagged; known, finished and the count of stragglers leave it out."""
    policy = adaptive()
    story = play(policy, [Stream(-1, GIB, at(0)), Stream(-2, MIB, at(10 * MIB)), *crowd(8)], 5.0)
    assert story.keys == [-1]
    assert (policy.known, policy.total_finished, policy.total_stragglers) == (8, 0, 0)


def test_counts_are_those_of_entries():
    """Finished again after another attempt, failed after it had finished: each counts as what it is last."""
    policy = adaptive()
    teach(policy, [0.1] * 3, first_key=0)
    policy.note_start(1, MIB, 1.0, host="h", immune=False, mitigations=0)
    assert (policy.known, policy.total_finished) == (3, 2)
    policy.note_finish(1, MIB, 1.2, first_byte_s=None)
    policy.note_finish(1, MIB, 1.3, first_byte_s=None)
    policy.note_failure(2)
    assert (policy.known, policy.total_finished, policy.sequential) == (2, 2, False)


def test_remaining_fresh_and_expected():
    """For who helps others: at the present rate, over a new connection, and the limit for the eye."""
    policy = adaptive()
    end_s = teach(policy, [0.15] * 30)
    story = play(policy, crowd(4, 100 * MIB, start_s=end_s), end_s + 5, from_s=end_s)
    assert story.flagged == []
    assert policy.remaining_s(100) == pytest.approx(5.05, rel=0.02)
    assert policy.fresh_s("h", MIB) == pytest.approx(0.2, rel=0.02)
    assert 0.2 < policy.expected_s(100) - 1.5 * 10 < 20
    assert policy.remaining_s(7) is policy.expected_s(7) is adaptive().fresh_s("h", MIB) is None
    stuck = Stream(5, MIB, at(0), start_s=end_s + 5)
    play(policy, [stuck], end_s + 5.4, from_s=end_s + 5)
    assert policy.remaining_s(5) == math.inf


def test_a_file_of_unknown_size_is_taken_for_a_usual_one():
    """It crawls where the host's files take 0.15 s; a large one at the usual rate is left alone."""
    policy = adaptive()
    end_s = teach(policy, [0.15] * 30)
    crawling = Stream(0, None, at(16 * KIB), start_s=end_s, resumable=False)
    large = Stream(1, None, at(10 * MIB), start_s=end_s)
    story = play(policy, [crawling, large, *crowd(3, start_s=end_s)], end_s + 10, from_s=end_s)
    assert story.keys == [0]
    assert story.flagged[0][0] < end_s + 3


def test_sizes_change_under_way():
    """The reply told, or another stream took some of it."""
    policy = adaptive()
    policy.note_start(0, None, 0.0, host="h", immune=False, mitigations=0)
    one = Stream(0, None, at(10 * MIB))
    for tick in range(1, 11):
        one.look(tick / 10)
        policy.check(tick / 10, [one])
    assert policy.remaining_s(0) is None
    policy.note_size(0, 100 * MIB)
    policy.note_size(99, 1)
    assert policy.remaining_s(0) == pytest.approx(9.05, rel=0.02)


def test_what_earlier_runs_learned_judges_the_very_first():
    """One slow connection to a known host, nothing finished yet, nobody else under way."""
    learned = Knowledge(hosts={"h": HostKnowledge(0.05, 10 * MIB, 0.2, 20, 1000.0)})
    slow = [Stream(0, 100 * MIB, at(64 * KIB))]
    assert play(adaptive(knowledge=learned, wall_s=1000.0), slow, 10.0).keys == [0]
    assert play(adaptive(), [Stream(0, 100 * MIB, at(64 * KIB))], 10.0).keys == []
    years_s = 3 * 365 * 86_400.0
    old = adaptive(knowledge=learned, wall_s=1000.0 + years_s)
    assert play(old, [Stream(0, 100 * MIB, at(64 * KIB))], 10.0).keys == []


def test_what_a_run_learns():
    """By host, as the next run's knowledge."""
    policy = adaptive()
    teach(policy, [0.45] * 10, 4 * MIB)
    (host,) = policy.collect_knowledge(77.0).hosts.values()
    assert host.rate_bps == pytest.approx(10 * MIB)
    assert host.wall_s == 77.0


def test_other_machines_speed_counts_where_nothing_is_known():
    """``use_median`` is the baseline of a whole cluster."""
    policy = adaptive()
    policy.use_median(10 * MIB)
    assert play(policy, [Stream(0, 100 * MIB, at(64 * KIB))], 10.0).keys == [0]


def test_bad_verdicts_raise_the_bar():
    """Fresh connections bring nothing better: after a few rescues nobody is disturbed any more."""

    def third(key):
        return Stream(
            key, 64 * MIB, at(3 * MIB), start_s=key * 2.0, again=Stream(key, 64 * MIB, at(2.9 * MIB))
        )

    story = play(adaptive(), [*crowd(8, 8 * GIB), *map(third, range(60))], 130.0)
    assert len([key for when_s, key in story.flagged if when_s < 60]) > 3
    assert not [key for when_s, key in story.flagged if when_s > 100]


@pytest.mark.parametrize(("after_s", "factor"), [(10.0, 0.95), (1e6, 1.5)])
def test_the_end_of_a_rescued_file_is_a_verdict(after_s, factor):
    """Earlier than foretold lowers every limit a little, later raises it at once."""
    policy = adaptive()
    one = Stream(0, GIB, at(64 * KIB))
    story = play(policy, [one, *crowd(15)], 6.0)
    assert story.keys == [0]
    before_s = policy.expected_s(100)
    policy.note_start(0, None, 6.1, host="h", immune=False, mitigations=1)
    policy.note_finish(0, None, 6.1 + after_s, first_byte_s=None)
    assert policy.expected_s(100) == pytest.approx(factor * before_s)


def test_three_that_cannot_be_told_from_the_network_are_tried_one_by_one():
    """Nobody else is there; the first tells what the others may hope for. One alone is not worth words."""
    learned = Knowledge(hosts={"h": HostKnowledge(0.05, 10 * MIB, 0.2, 20, 0.0)})
    story = play(adaptive(knowledge=learned), [Stream(n, GIB, at(0)) for n in range(3)], 10.0)
    first, second, third = (when_s for when_s, _ in story.flagged)
    assert (second - first >= 1.9, third - second >= 1.9) == (True, True)
    assert "3 of 3 downloads are slow at once: the network, not the files" in story.held
    assert play(adaptive(knowledge=learned), [Stream(0, GIB, at(0))], 10.0).held == []


def test_files_that_ended_since_are_witnesses():
    """Two are slow from their start; the four others ended well meanwhile, so it is not the network."""
    slow = [Stream(n, 16 * MIB, at(64 * KIB)) for n in range(2)]
    story = play(adaptive(), [*slow, *crowd(4, 16 * MIB)], 6.0)
    assert [when_s <= 3.2 for when_s, _ in story.flagged] == [True, True]


def test_files_that_ended_before_are_none():
    """Three are slow since the second five; what ended well before it does not speak against them."""
    turns = [Stream(n, 256 * MIB, ((0.0, 10 * MIB), (5.0, 10 * KIB))) for n in range(3)]
    small = [Stream(50 + n, MIB, at(10 * MIB), start_s=0.16 * n) for n in range(30)]
    story = play(adaptive(), [*turns, *small], 9.0)
    assert len(story.flagged) <= 1


def test_a_tiny_run_does_not_pay_for_numpy():
    """Nobody old enough to be looked at: it is not imported."""
    code = (
        "import sys; from tests.straggler.world import *; p = adaptive();"
        "play(p, [Stream(n, MIB, at(10 * MIB)) for n in range(4)], 0.15); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("gap_s", [2.0, 60.0])
def test_who_began_while_our_process_stood_still_is_no_sample(gap_s):
    """It would be one of a millisecond, as the whole gap would count as lost to it."""
    policy = adaptive()
    policy.check(0.1, [])
    for key in range(5):
        policy.note_start(key, MIB, 0.1 + gap_s - 0.5, host="h", immune=False, mitigations=0)
    policy.check(0.1 + gap_s, [])
    for key in range(5):
        policy.note_finish(key, MIB, 0.15 + gap_s, first_byte_s=None)
    assert (policy.total_finished, policy.median_bps, policy.fresh_s("h", MIB)) == (5, None, None)


def test_a_file_that_is_late_itself_is_asked_for_twice_at_most_and_teaches_patience():
    """A first byte after eight seconds, whoever asks: the next such file is waited for."""

    def cold(key, start_s):
        one = Stream(key, MIB, at(10 * MIB), start_s=start_s, latency_s=8.0)
        return replace(one, again=replace(one, mitigations=1, again=replace(one, immune=True)))

    policy = adaptive()
    story = play(policy, [*crowd(4, 8 * GIB), cold(0, 1.0), cold(1, 5.0), cold(2, 20.0)], 60.0)
    assert [key for _, key in story.flagged if key] == []
    assert story.keys == [0]
    assert story.ended[0] < 11


def test_who_is_silent_a_second_time_is_waited_for_twelve_seconds():
    """Two connections in a row that say nothing are rare; a file that is late is not."""
    silent = Stream(0, MIB, at(0), start_s=2.0)
    story = play(
        adaptive(), [*crowd(8, 8 * GIB), replace(silent, again=replace(silent, mitigations=1))], 40.0
    )
    first_s, second_s = (when_s for when_s, _ in story.flagged)
    assert (first_s < 3, 12 <= second_s - first_s <= 12.5) == (True, True)


def test_the_probe_is_not_spent_on_one_that_is_immune():
    """Though it is the slowest of all."""
    dip = ((0.0, 10 * MIB), (5.0, MIB))
    immune = Stream(0, GIB, ((0.0, 10 * MIB), (5.0, MIB / 2)), immune=True)
    others = [Stream(n, GIB, dip) for n in range(1, 8)]
    assert play(adaptive(), [immune, *others], 18.0).keys == [1]


def test_a_connection_that_gets_to_speed_is_left_alone():
    """TCP's slow start at a round trip of 150 ms: little comes in a second, but ever more."""
    policy = adaptive()
    end_s = teach(policy, [1.15] * 30, size=8 * MIB, first_byte_s=0.15)
    ramp = tuple((end_s + 0.3 + 0.15 * n, min(96 * KIB * 2**n, 8 * MIB)) for n in range(8))
    starting = Stream(0, 8 * MIB, ramp, start_s=end_s, latency_s=0.3)
    flat = Stream(1, 8 * MIB, at(400 * KIB), start_s=end_s, latency_s=0.3)
    well = crowd(14, size=8 * MIB, rate=8 * MIB, start_s=end_s, latency_s=0.15)
    assert play(policy, [starting, flat, *well], end_s + 3.0, from_s=end_s).keys == [1]


def test_a_slow_connection_is_no_straggler_but_is_left_after_its_file():
    """A little less than half of the rate: it is late by more than a connection costs."""
    policy = adaptive()
    end_s = teach(policy, [0.85] * 8, 8 * MIB)
    slow = Stream(0, 8 * MIB, at(9 * MIB / 2), start_s=end_s)
    story = play(policy, [slow, *crowd(15, 64 * MIB, start_s=end_s)], end_s + 3.0, from_s=end_s)
    assert (story.flagged, {key for _, key in story.lame}) == ([], {0})
    assert 0.5 < story.lame[0][0] - end_s < 0.8


@pytest.mark.parametrize(
    ("rates", "others"),
    [
        (((0, 10 * MIB), (52, 0), (53.5, 10 * MIB)), 10 * MIB),  # it pauses, and gets to speed again
        (((0, 6 * MIB),), 10 * MIB),  # three fifths
        (((0, 4 * MIB),), 4 * MIB),  # all are as slow
    ],
)
def test_connections_that_are_worth_another_file(rates, others):
    """None of them is left."""
    policy = adaptive()
    end_s = teach(policy, [6.45] * 8, 64 * MIB)
    slow = Stream(0, 64 * MIB, rates, start_s=end_s)
    crowded = crowd(15, 64 * MIB, others, start_s=end_s)
    assert play(policy, [slow, *crowded], end_s + 5.0, from_s=end_s).lame == []
