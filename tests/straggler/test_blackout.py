"""All attempts at a host stand still: when one is asked anew, and when all are."""

from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.straggler.blackout import Blackouts
from cfetch.straggler.handshake import gains_by_another, next_syn_s
from cfetch.straggler.watched_attempts import JudgedAttempt
from tests.straggler.world import GIB, MIB, Stream, adaptive, at, play

TRIP_S = 0.05


@dataclass
class Cut(Stream):
    """An attempt over a network that is away from ``away_s`` until ``back_s``, as TCP sees it.

    One that was under way before goes on at ``goes_on_s``. The handshake of a new one is answered when the
    kernel asks again after the network is back, or at once if ``is_answered``.
    """

    away_s: float = 3.0
    back_s: float = 10.0
    goes_on_s: float = 14.0
    is_answered: bool = False

    @property
    def made_s(self):
        waits = self.away_s <= self.start_s < self.back_s and not self.is_answered
        return self.start_s + TRIP_S + (next_syn_s(self.back_s - self.start_s) if waits else 0.0)

    def look(self, now_s):
        made_s = self.made_s
        self.connecting_since_s = self.start_s if now_s < made_s else None
        self.handshake_s = made_s - self.start_s if now_s >= made_s else 0.0
        super().look(now_s)

    def bytes_at(self, now_s):
        if self.start_s < self.away_s:
            before = super().bytes_at(min(now_s, self.away_s))
            return before + int(10 * MIB * max(0.0, now_s - self.goes_on_s))
        return int(10 * MIB * max(0.0, now_s - max(self.made_s, self.back_s) - TRIP_S))


def flows(count=16, **how):
    """Attempts that begin before the network goes away; each goes on with others like it."""
    streams = [Cut(n, GIB, at(10 * MIB), **how) for n in range(count)]
    for stream in streams:
        again = replace(stream, mitigations=1)
        for _ in range(20):
            again = replace(again, again=replace(again))
        stream.again = again
    return streams


def test_after_a_blackout_all_are_asked_anew_at_the_first_sign_of_life():
    """Seven seconds without a byte: within half a second all flow again, where TCP goes on after four."""
    story = play(adaptive(), flows(), 12.0)
    early = [when_s for when_s, _ in story.flagged if when_s < 10.0]
    assert 7.5 <= early[0] <= 7.8
    assert max(later - sooner for sooner, later in zip(early, [*early[1:], 10.0], strict=True)) < 0.65
    last = {key: when_s for when_s, key in story.flagged}
    anew = {key for key, when_s in last.items() if 10.0 <= when_s < 10.6}
    asked = [Cut(key, GIB, at(MIB), start_s=last[key]) for key in set(range(16)) - anew]
    assert len(anew) > 10
    assert all(attempt.made_s < 10.6 for attempt in asked)
    assert max(last.values()) < 10.6


def test_a_server_that_pauses_is_not_asked_anew_by_all():
    """Its kernel answers handshakes, so one look suffices; when it goes on, all go on by themselves."""
    story = play(adaptive(), flows(is_answered=True, back_s=12.0, goes_on_s=12.0), 16.0)
    assert len([when_s for when_s, _ in story.flagged if when_s < 9.0]) == 1
    assert len(story.flagged) <= 3  # probes, as some are slow for long


def test_a_host_that_stays_away_is_left_to_the_attempts_own_time_outs():
    """After a minute: else no attempt would be old enough to fail."""
    story = play(adaptive(), flows(4, back_s=200.0, goes_on_s=200.0), 100.0)
    assert 55.0 <= max(when_s for when_s, _ in story.flagged) <= 63.1


def test_one_that_moves_is_no_blackout():
    """Fifteen stand still and one goes on: they are stragglers, and are judged as such."""
    moving = Stream(99, GIB, at(10 * MIB))
    story = play(adaptive(), [*flows(15), moving], 5.6)
    assert not [flag for flag in story.found if flag.is_probe]


def test_a_last_file_whose_handshake_is_lost_is_asked_anew():
    """Nobody is left to compare it with, and the kernel asks again over the same path; a dead host waits."""
    for rate_bps, expected in ((10 * MIB, [2.7, 4.3, 7.8]), (0, [])):
        others = [Stream(10 + n, 6 * MIB, at(rate_bps), latency_s=0.9) for n in range(2)]
        lost = [Stream(0, MIB, at(0), start_s=1.1, connecting_since_s=1.1, mitigations=n) for n in range(4)]
        for before, after in pairwise(lost):
            before.again = after
        story = play(adaptive(), [*others, lost[0]], 12.5)
        assert [round(when_s, 1) for when_s, key in story.flagged if key == 0][:3] == expected


def test_a_blackout_that_ended_while_few_were_left_is_over():
    """Its end was seen at three attempts; two that begin later wait for first bytes as others do."""
    judged = {key: JudgedAttempt(key, GIB, 0.0, 0.0, "h") for key in range(4)}
    judged |= {key: JudgedAttempt(key, GIB, 10.95, 10.95, "h") for key in (4, 5)}
    bars = SimpleNamespace(expected_s=lambda _: None, fresh=SimpleNamespace(of=lambda _: None))
    watch: Any = SimpleNamespace(live=judged, bars=bars)
    blackouts, flagged = Blackouts(watch), []
    for tick in range(140):
        now_s = tick / 10
        keys = range(4) if now_s < 9.0 else range(3) if now_s < 11.0 else (0, 1, 2, 4, 5)
        came = int(MIB * (min(now_s, 1.0) + max(0.0, now_s - 10.0)))
        lost = 0.0 if 1.0 <= now_s < 10.0 else None  # the handshake of attempt 0, which has no answer
        looks: Any = [
            SimpleNamespace(
                key=key,
                received=0 if key > 3 or (key == 0 and now_s < 10.0) else came,
                is_held=False,
                resumable=True,
                connecting_since_s=lost if key == 0 else None,
                slack_s=0.0,
            )
            for key in keys
        ]
        flagged += [flag.id for flag in blackouts.flag(now_s, now_s, looks)]
    assert {4, 5}.isdisjoint(flagged)


@pytest.mark.parametrize(
    ("crowd", "slack_s", "latency_s", "is_cut"),
    [(1, 0.0, 0.05, True), (6, -1.0, 0.05, True), (6, 0.0, 0.05, False), (6, -1.0, 0.5, False)],
)
def test_the_end_of_a_run_does_not_wait_for_the_kernel_to_repeat_a_handshake(
    crowd, slack_s, latency_s, is_cut
):
    """The host is near and answers others: a third of a second without an answer is a lost packet."""
    known = [Stream(100 + n, MIB, at(10 * MIB), latency_s=latency_s) for n in range(8)]
    others = [Stream(10 + n, 50 * MIB, at(10 * MIB), slack_s=slack_s) for n in range(crowd)]
    lost = Stream(0, MIB, at(0), start_s=1.0, connecting_since_s=1.0, slack_s=slack_s)
    story = play(adaptive(), [*known, *others, lost], 1.5 if latency_s < 0.1 else 2.7)
    assert [round(when_s - 1.0, 1) for when_s, key in story.flagged if key == 0] == [0.3] * is_cut


class Dies(Stream):
    """Its last packet comes at 2 s, or its packets go on coming every ``silent_s``."""

    def packet_age_s(self):
        return max(0.0, self.now_s - 2.0) if self.silent_s is None else self.silent_s


@pytest.mark.parametrize(
    ("rest", "silent_s", "slack_s", "is_cut"),
    [
        (MIB // 20, None, -1.0, True),
        (MIB // 20, 0.2, -1.0, False),  # packets come
        (MIB // 20, None, 0.0, False),  # nobody waits for it yet
        (MIB, None, -1.0, False),  # a fresh attempt needs longer for so much
    ],
)
def test_the_end_of_a_run_does_not_wait_for_a_dead_path(rest, silent_s, slack_s, is_cut):
    """Only its last bytes are missing, and its rate of the last seconds would bring them soon."""
    others = [Stream(10 + n, GIB, at(MIB), slack_s=slack_s) for n in range(6)]
    came = int(1.95 * MIB)
    dead = Dies(0, came + rest, ((0.0, MIB), (2.0, 0.0)), silent_s=silent_s, slack_s=slack_s)
    cut_s = [when_s for when_s, key in play(adaptive(), [*others, dead], 3.4).flagged if key == 0]
    assert [when_s > 3.0 for when_s in cut_s] == [True] * is_cut


@pytest.mark.parametrize(
    ("waited_s", "gains"),
    [
        (0.1, False),
        (0.4, True),
        (0.6, False),
        (1.2, False),
        (1.4, True),
        (2.4, True),
        (2.6, False),
        (3.4, True),
    ],
)
def test_another_connection_gains_between_two_questions_of_the_kernel(waited_s, gains):
    """It asks at once, after 1 s and after 3 s; an answer takes 0.3 s, and half a second is a gain."""
    assert gains_by_another(waited_s, 0.3) == gains
