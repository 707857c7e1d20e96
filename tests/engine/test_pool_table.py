"""End to end on virtual time: the CloudFetch tests E1-E12 and where cfetch does better, X1-X15.

E2, E3 and E12 of the original could not fail: they looked before the first check. Here each stands beside a
control, the same scene with one value changed, that does flag.
"""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from cfetch.base.events import Event, FallbackTriggered, Progress
from cfetch.base.virtual_clock import VirtualClock
from tests.engine.drive import drive, entries_for, entry_of
from tests.engine.fake import Reply

MIB = bytes(1 << 20)
SMALL = bytes(range(256)) * 64


def after(*latencies_s, body=SMALL):
    """One file per group: a number is its latency always, a list that of one request after the other."""
    return {
        f"{i}": [Reply(body=body, latency_s=s) for s in (latency if isinstance(latency, list) else [latency])]
        for i, latency in enumerate(latencies_s)
    }


def driven(tmp_path, scripts, **settings):
    defaults = {"padding": 1.0, "check_interval": 2.0, "concurrency": 10, "stall_timeout": 60.0}
    return drive(tmp_path, scripts, **(defaults | settings))


def done(outcome):
    return outcome.statuses == ["done"] * len(outcome.records)


def test_e1_one_of_ten_hangs(tmp_path):
    """It is found at the first check after its limit of 1.075 s, cancelled, and comes on its second try."""
    outcome = driven(tmp_path, after(*[0.05] * 9, [10.0, 0.05], body=MIB))
    (found,) = outcome.cancelled
    assert outcome.flagged == [9]
    assert (found.id, found.t_s, found.completed) == (9, 2.0, False)
    slow = outcome.records["9"].attempts[0]
    assert slow.expected_s == pytest.approx(1.075)
    assert slow.median_bps == pytest.approx(20 * 2**20)
    assert slow.outcome == "straggler"
    assert outcome.elapsed_s == pytest.approx(2.05)
    assert done(outcome)


@pytest.mark.parametrize(("padding", "flagged"), [(1.0, []), (0.2, [8, 9])])
def test_e2_normal_spread_is_left_alone(tmp_path, padding, flagged):
    """Files slower than the median but within their limit, at a check that can judge, are not touched."""
    scripts = after(*[0.05] * 8, [0.9, 0.05], [0.9, 0.05])
    outcome = driven(tmp_path, scripts, check_interval=0.5, padding=padding)
    assert outcome.flagged == flagged
    judging = [p.baseline for p in outcome.of(Progress) if 0.4 < p.t_s < 0.9]
    assert all(baseline.finished >= baseline.required for baseline in judging)
    assert done(outcome)


@pytest.mark.parametrize(("quantile", "flagged"), [(0.6, []), (0.4, [4, 5, 6, 7, 8, 9])])
def test_e3_nobody_is_judged_below_the_quantile(tmp_path, quantile, flagged):
    """With 4 of 10 finished and 6 required, twenty seconds of silence are no straggler."""
    outcome = driven(tmp_path, after(*[0.05] * 4, *[[20.0, 0.05]] * 6), quantile=quantile)
    assert outcome.flagged == flagged
    assert done(outcome)


def test_e4_many_stragglers_end_parallel_downloads(tmp_path):
    """Three are cancelled at the first check, and the fallback tells both numbers."""
    scripts = after(*[0.05] * 7, *[[8.0, 0.05]] * 3)
    outcome = driven(tmp_path, scripts, max_stragglers=2, sequential_fallback=True)
    (told,) = outcome.of(FallbackTriggered)
    assert outcome.flagged == [7, 8, 9]
    assert (told.t_s, told.stragglers, told.threshold) == (2.0, 3, 2)
    assert done(outcome)


def test_e4_without_the_option_downloads_stay_parallel(tmp_path):
    """The fallback is off unless asked for."""
    outcome = driven(tmp_path, after(*[0.05] * 7, *[[8.0, 0.05]] * 3), max_stragglers=2)
    assert outcome.of(FallbackTriggered) == []
    assert not outcome.last_progress.sequential


def test_e4_new_starts_are_gated_and_running_ones_go_on(tmp_path):
    """After the fallback concurrency decays to one; nothing is started beside another."""
    scripts = after(*[0.05] * 7, *[[8.0, 0.05]] * 3, *[3.0] * 4)
    outcome = driven(tmp_path, scripts, concurrency=10, max_stragglers=1, sequential_fallback=True, padding=4)
    late = sorted(a.start_s for r in outcome.all_records for a in r.attempts if a.start_s > 6.1)
    assert done(outcome)
    assert len(outcome.of(FallbackTriggered)) == 1
    assert all(b - a >= 0.04 for a, b in pairwise(late))


def test_e5_sequential_from_the_start(tmp_path):
    """With a limit of 0 stragglers no two downloads ever overlap."""
    scripts = after(*[0.1] * 5)
    outcome = driven(tmp_path, scripts, concurrency=5, max_stragglers=0, sequential_fallback=True)
    assert outcome.transport.most == 1
    assert outcome.elapsed_s == pytest.approx(0.5)
    assert driven(tmp_path, scripts, concurrency=5).transport.most == 5


def test_e6_sequential_mode_delivers_everything(tmp_path):
    """Detection goes on in sequential mode and no file is lost."""
    scripts = after(*[0.02] * 3, *[1.0] * 2)
    outcome = driven(tmp_path, scripts, max_stragglers=0, sequential_fallback=True)
    assert done(outcome)
    assert set(outcome.tree) == set("01234")


def test_e7_the_fallback_does_not_leak_into_the_next_run(tmp_path):
    """Both runs find the same stragglers; only the first falls back."""
    scripts = after(*[0.05] * 5, *[[8.0, 0.05]] * 2)
    first = driven(tmp_path, scripts, max_stragglers=1, sequential_fallback=True)
    second = driven(tmp_path, scripts, max_stragglers=10, sequential_fallback=True)
    assert first.flagged == second.flagged == [5, 6]
    assert len(first.of(FallbackTriggered)) == 1
    assert second.of(FallbackTriggered) == []
    assert second.transport.most == 7


def test_e8_p8_concurrency_is_a_hard_limit(tmp_path):
    """Three places and six files take exactly two rounds, three at a time."""
    outcome = driven(tmp_path, after(*[0.3] * 6), concurrency=3)
    assert outcome.transport.most == 3
    assert outcome.elapsed_s == pytest.approx(0.6)


def test_e9_a_cancelled_file_really_transfers_on_its_second_try(tmp_path):
    """The original's retry could be dead and its test still pass: here the bytes of try 2 are counted."""
    outcome = driven(tmp_path, after(*[0.05] * 7, *[[8.0, 0.05]] * 3))
    for path in "789":
        tries = outcome.records[path].attempts
        assert [(t.outcome, t.bytes) for t in tries] == [("straggler", 0), ("done", len(SMALL))]
        assert outcome.tree[path] == SMALL
    assert outcome.elapsed_s == pytest.approx(2.05)


def test_e10_only_the_slow_are_cancelled(tmp_path):
    """Files of 200 ms among 50 ms ones stay, files of 8 s go."""
    outcome = driven(tmp_path, after(*[0.05] * 5, *[0.2] * 3, *[[8.0, 0.05]] * 2))
    assert outcome.flagged == [8, 9]


def test_e11_stop_returns_at_once_and_leaves_nothing(tmp_path):
    """Stopped at 0.25 s of 5 s downloads, the run ends at 0.25 s without task, part or open reply."""
    scripts = {str(i): Reply(body=SMALL, rate_bps=len(SMALL) / 5) for i in range(5)}
    outcome = driven(tmp_path, scripts, stop_at=0.25)
    assert outcome.elapsed_s == pytest.approx(0.25)
    assert outcome.statuses == ["cancelled"] * 5
    assert (outcome.tasks, outcome.parts, outcome.tree) == (set(), [], {})
    assert outcome.transport.left_open() == []


@pytest.mark.parametrize(("mitigation", "flagged"), [(False, []), (True, [7, 8, 9])])
def test_e12_switched_off_nobody_is_cancelled(tmp_path, mitigation, flagged):
    """The same scene with and without mitigation."""
    outcome = driven(tmp_path, after(*[0.05] * 7, *[[5.0, 0.05]] * 3), mitigation=mitigation)
    assert outcome.flagged == flagged
    assert done(outcome)


def test_x1_the_last_wave_is_caught(tmp_path):
    """Two of three end at 0.4 s, the third never sends: found at 6 s, the first check after its 5.6 s."""
    scripts = after(0.4, 0.4, [1e6, 0.4])
    outcome = driven(tmp_path, scripts, concurrency=3, padding=5.0, check_interval=0.5)
    assert outcome.cancelled[0].t_s == pytest.approx(6.0)
    assert done(outcome)


@pytest.mark.parametrize("count", [1, 4])
def test_x2_all_stuck_from_the_start(tmp_path, count):
    """Where no median can be, the stall rule ends the silence."""
    outcome = driven(tmp_path, after(*[[1e6, 0.1]] * count), first_byte_timeout=30.0)
    assert done(outcome)
    assert {r.attempts[0].outcome for r in outcome.all_records} == {"stalled"}
    assert outcome.elapsed_s < 33
    assert outcome.flagged == []


def test_x4_a_rescued_file_is_a_sample_of_its_good_try_only(tmp_path):
    """8 s of silence and the back-off do not count: the median is the size over 0.4 s."""
    stuck = Reply(body=MIB, latency_s=1e6)
    good = Reply(body=MIB, latency_s=0.4)
    outcome = driven(tmp_path, {"a": [stuck, good]}, first_byte_timeout=7.9, check_interval=0.5)
    assert outcome.last_progress.baseline.median_bps == pytest.approx(len(MIB) / 0.4)


@pytest.mark.parametrize(("rest", "is_sample"), [(99, False), (64 << 10, True)])
def test_the_short_rest_of_a_resumed_file_is_no_sample(tmp_path, rest, is_sample):
    """A hundred bytes after a second of latency tell nothing of the server's speed."""
    broken = Reply(body=MIB, cut=len(MIB) - rest, then="reset")
    outcome = driven(tmp_path, {"a": [broken, Reply(body=MIB, latency_s=1.0)]})
    baseline = outcome.last_progress.baseline
    assert baseline.finished == 1
    assert baseline.median_bps == (pytest.approx(rest) if is_sample else None)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_x6_an_empty_file_and_one_of_unknown_length(tmp_path, framing):
    """Both end as successes; neither breaks the baseline."""
    scripts = {"empty": Reply(latency_s=0.1, framing=framing), "open": Reply(body=SMALL, framing="chunked")}
    entries = [entry_of(0, "empty", b""), entry_of(1, "open", SMALL, size=False)]
    outcome = driven(tmp_path, scripts, entries=entries)
    assert outcome.tree == {"empty": b"", "open": SMALL}
    assert [outcome.records[p].verified for p in ("empty", "open")] == ["size", "none"]


def test_x6_a_silent_download_of_unknown_length_meets_the_stall_rule(tmp_path):
    """Without a size there is no limit by median, but silence still ends the try."""
    scripts = after(*[0.05] * 9) | {"open": [Reply(body=SMALL, cut=99, then="stall"), Reply(body=SMALL)]}
    entries = [*entries_for(after(*[0.05] * 9)), entry_of(9, "open", SMALL, size=False, digest=True)]
    scripts["open"][0] = Reply(body=SMALL, cut=99, then="stall", framing="chunked")
    outcome = driven(tmp_path, scripts, entries=entries, stall_timeout=20.0)
    assert [a.outcome for a in outcome.records["open"].attempts] == ["stalled", "done"]
    assert outcome.flagged == []


def test_x8_entries_given_up_leave_the_denominator(tmp_path):
    """With 2 of 10 refused for good, 5 of the other 8 have to finish before anyone is judged."""
    scripts = after(*[0.05] * 5, *[[8.0, 0.05]] * 3) | {x: Reply(status=404) for x in ("gone", "lost")}
    entries = entries_for(after(*[0.05] * 8))
    entries += [entry_of(8, "gone", SMALL), entry_of(9, "lost", SMALL)]
    outcome = driven(tmp_path, scripts, entries=entries)
    at_two = next(p.baseline for p in outcome.of(Progress) if p.t_s > 1.9)
    assert (at_two.finished, at_two.required) == (5, 5)
    assert outcome.flagged == [5, 6, 7]


def test_x9_two_entries_with_one_offset(tmp_path):
    """The offset is no identity: each has its own record and its own file."""
    scripts = after(0.1, 0.2)
    entries = [entry_of(0, "0", SMALL, offset=7), entry_of(1, "1", SMALL, offset=7)]
    outcome = driven(tmp_path, scripts, entries=entries)
    assert sorted(r.id for r in outcome.all_records) == [0, 1]
    assert set(outcome.tree) == {"0", "1"}


class JumpingWall(VirtualClock):
    """An NTP step of an hour at 1 s."""

    def wall(self):
        return super().wall() + (3600 if self.monotonic() > 1 else 0)


def test_x10_a_jump_of_the_wall_clock_flags_nobody(tmp_path):
    """Durations are measured on the monotonic clock."""
    scripts = after(*[0.5] * 7, *[3.0] * 3)
    outcome = driven(tmp_path, scripts, clock=JumpingWall(), check_interval=0.5, padding=5.0)
    assert outcome.flagged == []
    assert all(r.end_s <= 3.1 for r in outcome.all_records)
    assert done(outcome)


def test_x11_the_last_permitted_try_is_immune(tmp_path):
    """A slow try after which no other is permitted is left to finish."""
    scripts = after(*[0.05] * 9) | {"9": [Reply(status=500), Reply(body=SMALL, latency_s=9.0)]}
    entries = entries_for(after(*[0.05] * 10))
    outcome = driven(tmp_path, scripts, entries=entries, max_attempts=2)
    assert outcome.flagged == []
    assert [a.outcome for a in outcome.records["9"].attempts] == ["error", "done"]
    control = driven(tmp_path, scripts, entries=entries, max_attempts=3)
    assert control.flagged == [9, 9]


def test_x12_a_file_that_is_slow_everywhere_is_left_in_peace(tmp_path):
    """The second limit is higher, and the third try runs to its end."""
    outcome = driven(tmp_path, after(*[1.0] * 9, 30.0), check_interval=0.1)
    first, second, third = outcome.records["9"].attempts
    assert (first.expected_s, second.expected_s) == (pytest.approx(2.5), pytest.approx(4.0))
    assert [a.outcome for a in (first, second, third)] == ["straggler", "straggler", "done"]
    assert third.end_s - third.start_s == pytest.approx(30.0)
    assert outcome.records["9"].stragglers == 2
    assert outcome.last_progress.stragglers == 1  # an entry counts once


def test_x14_a_machine_that_stood_still_blames_nobody(tmp_path):
    """A minute of suspension, or of a blocking disk, counts neither as slowness nor as silence."""
    scripts = after(*[0.05] * 9) | {"9": Reply(body=SMALL, at_s=(1.0, 65.0))}
    stood: list[Event] = []

    def listener(event):
        if isinstance(event, Progress) and event.t_s > 1.2 and not stood:
            stood.append(event)
            loop: Any = asyncio.get_running_loop()
            loop._jumping.now += 60

    outcome = driven(
        tmp_path, scripts, listener=listener, check_interval=0.5, padding=8.0, stall_timeout=30.0
    )
    assert stood
    assert outcome.flagged == []
    assert [a.outcome for a in outcome.records["9"].attempts] == ["done"]


def test_a_size_that_only_the_reply_states_is_judged_by(tmp_path):
    """The manifest has none, Content-Length does: it has a limit like the others."""
    scripts = after(*[0.05] * 9) | {"9": [Reply(body=SMALL, rate_bps=len(SMALL) / 40), Reply(body=SMALL)]}
    entries = [*entries_for(after(*[0.05] * 9)), entry_of(9, "9", SMALL, size=False)]
    outcome = driven(tmp_path, scripts, entries=entries)
    assert outcome.flagged == [9]
    assert outcome.tree["9"] == SMALL


SAME_TURN_S = 5e-10  # less than the loop's resolution: after the check, in the same turn of the loop


@pytest.mark.parametrize(("arrives_s", "completed"), [(2.0 + SAME_TURN_S, True), (2.001, False)])
def test_x15_the_last_byte_comes_while_it_is_cancelled(tmp_path, arrives_s, completed):
    """What is in our buffers at that moment is kept, and may make the file whole."""
    slow = Reply(body=SMALL, at_s=(0.1, arrives_s))
    outcome = driven(tmp_path, after(*[0.05] * 9) | {"9": [slow, Reply(body=SMALL)]})
    (told,) = outcome.cancelled
    assert told.completed is completed
    assert len(outcome.transport.of("9")) == (1 if completed else 2)
    assert outcome.tree["9"] == SMALL
    assert outcome.records["9"].attempts[0].outcome == ("done" if completed else "straggler")
