"""X1 to X15: where the seed's formula is wrong, its answer beside that of the adaptive policy.

X13 (concurrency after a bad start) is about width, see ``test_width``.
"""

import asyncio
from dataclasses import replace

import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.events import Progress
from cfetch.base.virtual_clock import VirtualClock
from cfetch.straggler.detector import Detector
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply
from tests.straggler.world import GIB, KIB, MIB, Stream, adaptive, at, play, teach

BOTH = pytest.mark.parametrize("policy", ["cloudfetch", "adaptive"])


def seed(**options):
    return Detector(StragglerConfig(**options))


def body(size):
    return bytes(size)


def reply(size=MIB, rate_bps=10 * MIB, **more):
    return Reply(body(size), latency_s=more.pop("latency_s", 0.05), rate_bps=rate_bps, **more)


@pytest.mark.parametrize(("judge", "by_s"), [(seed, 6.5), (adaptive, 2.0)])
def test_x1_the_third_of_three_never_sends(judge, by_s):
    """The seed's detector waits for its padding; two witnesses are enough for the adaptive one."""
    streams = [
        Stream(0, 20 * MIB, at(50 * MIB)),
        Stream(1, 20 * MIB, at(50 * MIB)),
        Stream(2, 20 * MIB, at(0)),
    ]
    ((when_s, key),) = play(judge(), streams, 10.0).flagged
    assert key == 2
    assert when_s <= by_s


@BOTH
@pytest.mark.parametrize("files", [1, 4])
def test_x2_all_are_stuck_from_the_start(tmp_path, policy, files):
    """Nothing to compare with: the limit of a first byte ends them, and nobody is called a straggler."""
    stuck = {str(n): [Reply(latency_s=1e6), reply()] for n in range(files)}
    outcome = drive(tmp_path, stuck, policy=policy, concurrency=4, first_byte_timeout=30)
    assert outcome.flagged == []
    assert {r.attempts[0].outcome for r in outcome.all_records} == {"stalled"}
    assert 30 < outcome.elapsed_s < 40


def test_x3_the_network_becomes_slow():
    """Five files at a tenth of the rate that five had: the seed breaks off all. We say why, and try one."""

    def streams(first, start_s, rate):
        return [Stream(first + n, 200 * MIB, at(rate), start_s=start_s) for n in range(5)]

    fast, slow = streams(0, 0.0, 100 * MIB), streams(5, 2.1, 10 * MIB)
    assert sorted(play(seed(quantile=0.5), [*fast, *slow], 12.0).keys) == [5, 6, 7, 8, 9]
    fast, slow = streams(0, 0.0, 100 * MIB), streams(5, 2.1, 10 * MIB)
    fresh = [replace(one, again=replace(one, immune=True)) for one in slow]
    story = play(adaptive(), [*fast, *fresh], 60.0)
    assert [when_s - 2.1 >= 6 for when_s, _ in story.flagged] == [True] * len(story.flagged)
    assert len({key for _, key in story.flagged}) <= 2
    assert story.held[0] == "5 of 5 downloads are slow at once: the network, not the files"
    assert len(story.ended) == 10


@BOTH
def test_x4_a_rescued_file_is_a_sample_of_its_good_attempt(tmp_path, policy):
    """Half a second at 4 MiB/s, in three of five after a try that was silent: so says the median."""
    good = reply(2 * MIB, 4 * MIB, latency_s=0)
    stuck = [Reply(latency_s=1e6), good]
    scripts = {"0": good, "1": good, "2": good, "3": stuck, "4": stuck, "5": stuck, "6": stuck}
    outcome = drive(tmp_path, scripts, policy=policy, concurrency=7, quantile=0.4)
    assert sorted(outcome.flagged) == [3, 4, 5, 6]
    assert outcome.of(Progress)[-1].baseline.median_bps == pytest.approx(4 * MIB, rel=0.01)


def test_x5_ninety_five_percent_are_there():
    """Half a second is left when the median is known: the seed throws 95 MiB away for it."""

    def late():
        rates = ((0.0, 95 * MIB / 8.0), (8.1, 10 * MIB))
        return Stream(9, 100 * MIB, rates, latency_s=0.1, resumable=False)

    for judge, expected in ((seed(), [9]), (adaptive(), [])):
        normal = [Stream(n, 100 * MIB, at(50 * MIB), start_s=6.0) for n in range(6)]
        assert play(judge, [*normal, late()], 9.0).keys == expected


@BOTH
def test_x6_nothing_to_fetch_and_nothing_known(tmp_path, policy):
    """A file of 0 bytes and one without a length end well, and are no samples."""
    endless = Reply(body(KIB), framing="chunked")
    good = reply(2 * MIB, 4 * MIB, latency_s=0)
    scripts = {"0": Reply(b""), "1": Reply(b""), "2": endless, "3": good, "4": good}
    entries = [entry_of(n, str(n), b"") for n in (0, 1)]
    entries.append(entry_of(2, "2", body(KIB), size=False, digest=True))
    entries += [entry_of(n, str(n), body(2 * MIB)) for n in (3, 4)]
    outcome = drive(tmp_path, scripts, entries, policy=policy)
    assert outcome.statuses == ["done"] * 5
    assert outcome.of(Progress)[-1].baseline.median_bps == pytest.approx(4 * MIB, rel=0.01)


def test_x6_an_unknown_size_is_supposed_by_the_adaptive_policy():
    """The formula leaves it to the stall rule; among fast files of its host it is found nonetheless."""
    policy = adaptive()
    end_s = teach(policy, [0.15] * 20)
    assert play(policy, [Stream(0, None, at(KIB), start_s=end_s)], end_s + 60, from_s=end_s).keys == [0]


def test_x7_small_files_say_little_about_a_large_one():
    """60 files of 100 KiB, then a GiB at 0.2 MiB/s: the seed is patient for 791 s."""
    for judge, expected in ((seed(), []), (adaptive(), [0])):
        end_s = teach(judge, [0.05] * 60, 100 * KIB, first_byte_s=0.04)
        large = Stream(0, GIB, at(0.2 * MIB), start_s=end_s)
        assert play(judge, [large], end_s + 20, from_s=end_s).keys == expected
    patient = seed()
    end_s = teach(patient, [0.05] * 60, 100 * KIB)
    late = play(patient, [Stream(0, GIB, at(0.2 * MIB), start_s=end_s)], end_s + 800, from_s=end_s)
    assert late.flagged[0][0] - end_s == pytest.approx(791.4, abs=1)


@pytest.mark.parametrize("judge", [seed, adaptive])
def test_x8_who_failed_for_good_is_not_known_any_more(judge):
    """Two of ten leave, eight stay; the seed then needs five of them, the adaptive policy five at all."""
    policy = judge()
    for key in range(10):
        policy.note_start(key, MIB, 0.0, host="h", immune=False, mitigations=0)
    policy.note_failure(0)
    policy.note_pause(1)
    policy.note_failure(1)
    assert (policy.known, policy.required) == (8, 5)


@pytest.mark.parametrize("judge", [seed, adaptive])
def test_x9_two_entries_of_one_offset_are_two(judge):
    """Keys are opaque and unique; an offset is not looked at."""
    streams = [Stream(n, MIB, at(10 * MIB)) for n in range(6)]
    twins = [Stream(6, MIB, at(KIB)), Stream(7, MIB, at(0.2 * MIB))]
    story = play(judge(), [*streams, *twins], 8.0)
    assert 6 in story.keys
    assert story.keys.count(7) <= 1


@BOTH
def test_x10_the_wall_clock_jumps(tmp_path, policy):
    """By an hour, in the middle: nobody's time is measured on it."""

    class Jumping(VirtualClock):
        def wall(self):
            return super().wall() + 3600 * (asyncio.get_running_loop().time() > 0.3)

    scripts = {str(n): reply(rate_bps=MIB) for n in range(12)}
    assert drive(tmp_path, scripts, policy=policy, clock=Jumping(), concurrency=6).flagged == []


@BOTH
def test_x11_the_last_permitted_try_is_immune(tmp_path, policy):
    """However slow it is."""
    failed = Reply(status=503)
    slow = [failed, reply(rate_bps=64 * KIB)]
    scripts = {str(n): reply() for n in range(12)} | {"slow": slow}
    outcome = drive(tmp_path, scripts, policy=policy, max_attempts=2, concurrency=4, segments=1)
    assert outcome.flagged == []
    assert [a.outcome for a in outcome.records["slow"].attempts] == ["error", "done"]


@BOTH
def test_x12_a_second_time_and_then_never_again(tmp_path, policy):
    """A file that is slow itself: some rescues, over a bar that rises, then it is left in peace."""
    crawl = reply(rate_bps=16 * KIB)
    scripts = {str(n): reply() for n in range(12)} | {"slow": crawl}
    outcome = drive(tmp_path, scripts, policy=policy, concurrency=4, segments=1)
    assert set(outcome.flagged) == {12}
    assert len(outcome.flagged) == 2 if policy == "cloudfetch" else 2 <= len(outcome.flagged) <= 10
    own = outcome.records["slow"].attempts
    assert [attempt.outcome for attempt in own] == ["straggler"] * (len(own) - 1) + ["done"]
    first, second = own[:2]
    assert second.expected_s > 1.1 * first.expected_s or policy == "cloudfetch"


@pytest.mark.parametrize("judge", [seed, adaptive])
def test_x14_our_own_side_does_not_read_from_all(judge):
    """Ten seconds of a full disk: their silence is ours. One that is really stuck is found meanwhile."""
    policy = judge()
    end_s = teach(policy, [0.15] * 20)
    held = (end_s + 0.1, end_s + 10.1)
    blocked = [Stream(n, 4 * MIB, at(10 * MIB), start_s=end_s, held=held) for n in range(4)]
    stuck = Stream(9, 4 * MIB, at(0), start_s=end_s)
    assert play(policy, [*blocked, stuck], end_s + 12, from_s=end_s).keys == [9]


@pytest.mark.parametrize(("held_from_s", "told", "expected"), [(3.0, True, []), (3.0, False, [9])])
def test_x14_our_own_side_does_not_read_from_one(held_from_s, told, expected):
    """Four others run well all the time: only that we held it excuses it, while we do and after."""

    class Untold(Stream):
        is_held, carried_bytes = False, 0

        def held_s(self, now_s):
            return 0.0

    policy = adaptive()
    kind = Stream if told else Untold
    one = kind(9, 100 * MIB, at(10 * MIB), held=(held_from_s, held_from_s + 6))
    crowd = [Stream(n, 400 * MIB, at(10 * MIB)) for n in range(4)]
    assert play(policy, [one, *crowd], 20.0).keys == expected


@pytest.mark.parametrize(("arrives_s", "completed"), [(0.8 + 5e-10, True), (0.8001, False)])
def test_x15_the_last_byte_comes_while_it_is_cancelled(tmp_path, arrives_s, completed):
    """What is in our buffers then is kept; the seed's policy has the same test in ``test_pool_table``."""
    late = Reply(body(MIB), at_s=(0.05, arrives_s))
    normal = {str(n): reply(rate_bps=20 * MIB) for n in range(12)}
    outcome = drive(tmp_path, normal | {"late": [late, reply()]}, policy="adaptive", concurrency=16)
    (told,) = outcome.cancelled
    assert (told.t_s, told.completed) == (pytest.approx(0.8), completed)
    assert outcome.records["late"].attempts[0].outcome == ("done" if completed else "straggler")
