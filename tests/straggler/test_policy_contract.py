"""What every policy promises the engine, asked of each: formula, adaptive, and the counter round one.

The counter asks the simulated network which connections are held back; here a list tells it, by key.
"""

import math
from types import SimpleNamespace

import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.plugins.lab.bench.simulation.alarms import PolicyWatch
from cfetch.straggler.detector import Detector
from cfetch.straggler.knowledge import Knowledge
from tests.straggler.world import KIB, MIB, Stream, adaptive, at, play, teach

HOST = "0"


class HeldBack:
    """In place of the simulated wire: the attempts whose keys are in ``keys`` stand still."""

    def __init__(self):
        self.keys = set()
        self.link = SimpleNamespace(factor=lambda _host: 1.0)

    def exchange(self, key):
        return SimpleNamespace(
            is_held_back=key in self.keys, left_s=lambda _size: math.inf if key in self.keys else 0.5
        )

    def begins(self, key):
        """As the wire's."""

    def ends(self, key):
        """As the wire's."""


MAKERS = {
    "cloudfetch": lambda _wire: Detector(StragglerConfig()),
    "adaptive": lambda _wire: adaptive(),
    "PolicyWatch": lambda wire: PolicyWatch(adaptive(), wire),
}


@pytest.fixture(params=MAKERS)
def wire():
    return HeldBack()


@pytest.fixture
def policy(request, wire):
    return MAKERS[request.node.callspec.params["wire"]](wire)


def start(policy, key, size_bytes=MIB, now_s=0.0, *, immune=False, mitigations=0):
    policy.note_start(key, size_bytes, now_s, host=HOST, immune=immune, mitigations=mitigations)


def test_an_entry_counts_once_when_it_has_finished(policy):
    """However many attempts it took, and whatever its further segments did."""
    start(policy, 0)
    policy.note_pause(0)
    start(policy, 0, now_s=1.0)
    start(policy, -1, now_s=1.0)
    policy.note_finish(-1, MIB, 2.0, first_byte_s=1.1)
    assert policy.total_finished == 0
    policy.note_finish(0, MIB, 2.0, first_byte_s=1.1)
    start(policy, 0, now_s=3.0)
    policy.note_finish(0, MIB, 4.0, first_byte_s=3.1)
    assert policy.total_finished == 1
    policy.note_failure(0)
    assert policy.total_finished == 0


def test_a_check_counts_the_attempts_in_flight(policy):
    """All that have started and not ended, entries and further segments alike."""
    assert policy.check(policy.tick_s).active == 0
    for key in (0, 1, 2, 3):
        start(policy, key, now_s=policy.tick_s)
    policy.note_finish(0, MIB, 2 * policy.tick_s, first_byte_s=None)
    policy.note_pause(1)
    policy.note_failure(2)
    check = policy.check(2 * policy.tick_s)
    assert (check.active, check.finished, check.stragglers) == (1, 1, ())
    assert check.required == policy.required > 0


def test_what_is_not_in_flight_may_end_again(policy):
    """The engine may tell of an end twice, and of one whose start nobody saw."""
    for end in (policy.note_pause, policy.note_failure):
        end(7)
        end(-7)
    policy.note_cancellation(7, 1.0, 0)
    policy.note_size(7, 5)
    policy.note_finish(7, MIB, 1.0, first_byte_s=None)
    assert policy.check(policy.tick_s).active == 0
    assert policy.expected_s(7) is None


def slow_among_normal(wire, **options):
    """A stream that all but stands still beside files that come in a second each."""
    wire.keys.add(99)
    normal = [
        Stream(key, MIB, at(float(MIB)), start_s=1.0 * wave, host=HOST)
        for wave in range(30)
        for key in (2 * wave, 2 * wave + 1)
    ]
    return [*normal, Stream(99, MIB, at(1.0 * KIB), start_s=12.0, host=HOST, **options)]


def test_a_straggler_is_flagged_once_and_counted(policy, wire):
    """The attempt that stands still beside normal ones, and nobody else."""
    story = play(policy, slow_among_normal(wire), 32.0)
    assert story.keys == [99]
    assert policy.total_stragglers == 1
    flagged = story.found[0]
    assert flagged.elapsed_s >= 0
    assert 0 < flagged.expected_s < math.inf
    assert flagged.projected_s is None or flagged.projected_s > story.flagged[0][0]


def test_an_immune_attempt_is_left_alone(policy, wire):
    """Its cancellation could cost the file."""
    story = play(policy, slow_among_normal(wire, immune=True), 32.0)
    assert story.keys == []
    assert policy.total_stragglers == 0


def test_figures_are_times_or_unknown(policy, wire):
    """No negative second, no number for an attempt that has ended."""
    teach(policy, [1.0] * 20, host=HOST)
    start(policy, 0, now_s=20.0)
    live = Stream(0, MIB, at(float(MIB)), start_s=20.0, host=HOST)
    for tick in range(1, 6):
        live.look(20.0 + tick * policy.tick_s)
        policy.check(live.now_s, [live])
        for figure in (policy.expected_s(0), policy.remaining_s(0), policy.fresh_s(HOST, MIB)):
            assert figure is None or figure >= 0
    policy.note_finish(0, MIB, 21.0, first_byte_s=20.1)
    assert policy.expected_s(0) is None
    assert policy.median_bps is None or policy.median_bps > 0


def test_a_normal_speed_from_elsewhere_is_taken_and_given_back(policy):
    """Many processes on one plan share their baseline; without it a policy judges by its own files."""
    own = policy.median_bps
    policy.use_median(5.0 * MIB)
    policy.use_median(None)
    assert policy.median_bps == own


def test_what_was_learned_is_a_value_for_the_next_run(policy):
    """Names and numbers only; nothing of it holds on to the run."""
    teach(policy, [1.0] * 20, host=HOST)
    assert isinstance(policy.collect_knowledge(1e9), Knowledge)
    assert policy.sequential is False
    assert policy.tick_s > 0
