"""Cancelling is compared with slow attempts that are left alone."""

import pytest

from cfetch.straggler.common_cause import NORMAL
from cfetch.straggler.own_control import EARNED, FIRST_PATIENCE_S, UNPROVEN, VERDICTS, OwnControl
from cfetch.straggler.ways_to_ask import MUCH
from tests.straggler.world import GIB, MIB, Stream, adaptive, at, play

FLOWS, SILENT = ("h", False), ("h", True)
CROWD = dict.fromkeys(range(900, 908), 1.0)


def cut(control, key, now_s, group=FLOWS, pace=NORMAL):
    """Cancel an attempt if that is allowed; whether it was."""
    allowed = control.allows(group, key, now_s, pace)
    if allowed:
        control.note_cut(group, key, now_s, pace)
    return allowed


def runs(control, key, now_s, pace=1.0, group=FLOWS):
    """The attempt now has this pace, the others at the host have the usual one."""
    control.judge(group, {**CROWD, key: pace}, now_s)


def proven_at(now_s):
    """A control whose first cancellations, at 1 s, have brought attempts that run well since then."""
    control = OwnControl()
    for key in range(UNPROVEN):
        cut(control, key, 1.0)
        runs(control, key, now_s)
    return control


def test_further_slow_attempts_wait_until_a_fresh_one_runs_well():
    """Of many slow attempts two are cancelled at once; each proof allows four more."""
    control = OwnControl()
    assert [cut(control, key, 1.0) for key in range(9)] == [True] * UNPROVEN + [False] * (9 - UNPROVEN)
    runs(control, 0, 1.8)
    assert sum(cut(control, key, 1.9) for key in range(UNPROVEN, 9)) == EARNED


def test_one_slow_attempt_is_left_alone_as_a_control_and_cancelled_if_it_stays_slow():
    """After the first proofs the next slow attempt gets its time; the ones after it are cancelled at once."""
    control = OwnControl()
    for key in range(UNPROVEN):
        assert cut(control, key, 1.0)
        runs(control, key, 1.5)
    assert not cut(control, 10, 2.0)
    assert cut(control, 11, 2.1)
    assert not cut(control, 10, 2.0 + FIRST_PATIENCE_S - 0.1)
    assert cut(control, 10, 2.0 + FIRST_PATIENCE_S)
    assert cut(control, 12, 2.1 + FIRST_PATIENCE_S)


@pytest.mark.parametrize(("back_s", "goes_on"), [(0.6, False), (1.9, True)])
def test_cancelling_stops_where_those_left_alone_come_back_as_soon(back_s, goes_on):
    """A fresh attempt takes 0.8 s to get to speed: more than two thirds of 0.6 s, but not of 1.9 s."""
    control = proven_at(1.8)
    assert not cut(control, 10, 2.0)
    runs(control, 10, 2.0 + back_s)
    assert cut(control, 11, 5.0) is goes_on


def test_where_cancelling_is_in_vain_a_slow_attempt_gets_twice_the_longest_control():
    """A control came back after 1.5 s; the next slow attempt may be cancelled after 3 s, not before."""
    control = proven_at(3.0)
    assert not cut(control, 10, 4.0)
    runs(control, 10, 5.5)
    assert [cut(control, 11, now_s) for now_s in (6.0, 8.9, 9.0)] == [False, False, True]


def test_attempts_without_a_first_byte_have_a_control_of_their_own():
    """That fades pass by themselves says nothing about connections that are dead."""
    control = proven_at(3.0)
    assert not cut(control, 10, 4.0)
    runs(control, 10, 4.5)
    assert not cut(control, 11, 5.0)
    assert cut(control, 12, 5.0, SILENT)


def test_a_suspicion_about_the_whole_host_cancels_one_attempt_until_that_has_helped_much():
    """The others are the control: a fresh attempt that is as fast as they are proves nothing."""
    control = OwnControl()
    assert [cut(control, key, 1.0, pace=MUCH) for key in range(3)] == [True, False, False]
    runs(control, 0, 1.8, pace=1.0)
    assert not cut(control, 1, 1.9, pace=MUCH)
    runs(control, 0, 2.0, pace=MUCH)
    assert cut(control, 1, 2.1, pace=MUCH)


def test_slow_rates_are_believed_once_many_controls_have_stayed_slow():
    """Eight were left alone and stayed slow: a slow rate then foretells the end."""
    control = OwnControl()
    for key in range(UNPROVEN):
        cut(control, key, 0.0)
    for key in range(10, 10 + VERDICTS):
        assert not control.stays_slow(FLOWS)
        assert not cut(control, key, 20.0 * key)
        assert cut(control, key, 20.0 * key + 16.0)
    assert control.stays_slow(FLOWS)


def host_with_slow_ones(fade):
    """Sixteen files, each with a ``fade`` at another time; four more crawl after 6 s, from other bytes."""
    slow = (
        Stream(
            100 + n,
            GIB,
            ((0.0, 10 * MIB), (6.0, 64 << 10)),
            start_s=float(n),
            again=Stream(100 + n, GIB, at(10 * MIB), mitigations=1),
        )
        for n in range(4)
    )
    others = (
        Stream(n, GIB, ((0.0, 10 * MIB), (2 + n / 5, fade), (2.6 + n / 5, 10 * MIB))) for n in range(16)
    )
    return [*others, *slow]


def test_where_attempts_fade_and_come_back_slow_ones_are_not_all_cancelled_at_once():
    """Two of four go first, and a fade foretells as much again; where none fades, all go and rates count."""
    careful = play(adaptive(), host_with_slow_ones(fade=MIB), 14.0)
    sure = play(adaptive(), host_with_slow_ones(fade=10 * MIB), 14.0)
    counts = [sum(when_s == story.flagged[0][0] for when_s, _ in story.flagged) for story in (careful, sure)]
    assert counts == [UNPROVEN, 4]
    assert [{*story.keys} for story in (careful, sure)] == [{100, 101, 102, 103}] * 2
    assert max(found.projected_s for found in careful.found) < 150
    assert min(found.projected_s for found in sure.found) > 1000


@pytest.mark.parametrize(
    ("before", "rate_bps", "slack_s", "count"),
    [
        (0, 0, 0.0, UNPROVEN),
        (0, 0, -1.0, 4),
        (MIB, 0, 0.0, UNPROVEN),
        (MIB, 0, -1.0, 4),
        (MIB, 9, -1.0, UNPROVEN),
    ],
)
def test_a_run_that_waits_only_for_dead_connections_asks_again_without_proof(
    before, rate_bps, slack_s, count
):
    """Slots are idle, so that a connection is all that it costs; the files that flow need their proof."""
    fading = [Stream(n, GIB, ((0.0, 10 * MIB), (2 + n / 5, MIB), (2.6 + n / 5, 10 * MIB))) for n in range(12)]
    rates = ((0.0, before), (8.1, rate_bps))
    dead = [Stream(100 + n, GIB, rates, start_s=8.0, slack_s=slack_s) for n in range(4)]
    story = play(adaptive(), [*fading, *dead], 13.0)
    assert sum(when_s == story.flagged[0][0] for when_s, _ in story.flagged) == count


def test_a_probe_needs_no_proof():
    """Two that crawl are cancelled and never come again; all others crawl too from 14 s: one is tried."""
    still = [
        Stream(n, GIB, ((0.0, 10 * MIB), (2 + n / 5, MIB), (2.6 + n / 5, 10 * MIB), (14.0, 1000.0)))
        for n in range(14)
    ]
    crawl = [Stream(100 + n, GIB, ((0.0, 10 * MIB), (6.0, 64 << 10)), start_s=float(n)) for n in range(2)]
    story = play(adaptive(), [*still, *crawl], 23.0)
    assert {*story.keys[:UNPROVEN]} == {100, 101}
    assert [20 <= when_s < 23 for when_s, key in story.flagged if key < 100] == [True]
