"""One baseline for many machines, and which of them is slow: known samples in, known verdicts out."""

import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler import merged as module
from cfetch.straggler.merged import Merged, SpeedSample

MIB = 1 << 20


def merged(machines, *, host="h", size_bytes=MIB, **options):
    """``machines``: rates in MiB/s by name."""
    found = Merged(StragglerConfig(**options))
    for machine, rates in machines.items():
        found.add(machine, [SpeedSample(host, size_bytes, rate * MIB) for rate in rates], len(rates))
    return found


@pytest.mark.parametrize(
    ("machines", "slow"),
    [
        ({"a": [10] * 9}, {}),  # nobody to be compared with
        ({"a": [10] * 9, "b": [10] * 9}, {}),
        ({"a": [10] * 9, "b": [5] * 9}, {"b": 0.5}),
        ({"a": [10] * 9, "b": [7] * 9}, {}),  # within the multiplier of 1.5
        ({"a": [10] * 9, "b": [5] * 4}, {}),  # four are bad luck
        ({"a": [10] * 9, "b": [1, 1, 1, 1, 10, 10, 10, 10, 10]}, {}),  # some stragglers make no slow machine
        ({"a": [10] * 9, "b": [1] * 9, "c": [10] * 9, "d": [2] * 9, "e": [10] * 9}, {"b": 0.1, "d": 0.2}),
    ],
)
def test_slow_machines(machines, slow):
    """Against the median of the others, by the run's multiplier."""
    assert merged(machines).slow([]) == pytest.approx(slow)


def test_a_slow_host_speaks_against_no_machine():
    """Only one asks it; and where several do, it is as slow for all."""
    found = merged({"a": [10] * 9, "b": [10] * 9})
    found.add("b", [SpeedSample("slow", MIB, MIB)] * 99, 99)
    assert found.slow([]) == {}
    found.add("a", [SpeedSample("slow", MIB, MIB)] * 9, 9)
    assert found.slow([]) == {}


def test_small_files_are_not_compared_with_large_ones():
    """They tell the latency: a machine that has only small ones is not slow."""
    found = merged({"a": [10] * 9, "b": [10] * 9})
    found.add("c", [SpeedSample("h", 1024, 1024)] * 9, 9)
    assert found.slow([]) == {}
    found.add("a", [SpeedSample("h", 1023, 1024)] * 9, 9)
    assert found.slow([]) == {}


def test_a_machine_is_known_to_be_slow_before_any_of_its_files_has_finished():
    """By the speed of what is under way there."""
    going = [("b", SpeedSample("h", MIB, MIB))] * 5
    assert merged({"a": [10] * 9}).slow(going) == {"b": pytest.approx(0.1)}
    assert merged({"a": [10] * 9}).slow(going[1:]) == {}


def test_a_machine_may_recover():
    """Its latest samples count."""
    found = merged({"a": [10] * 9, "b": [1] * 40})
    assert found.slow([])
    found.add("b", [SpeedSample("h", MIB, 10 * MIB)] * module.RECENT, module.RECENT)
    assert found.slow([]) == {}


def test_the_baseline_is_the_median_of_all_machines_once_enough_have_finished():
    """By the rule of one machine: the quantile of those that are finished or under way."""
    found = merged({"a": [10, 10], "b": [40]}, quantile=0.6)
    assert (found.finished, found.median_bps) == (3, 10 * MIB)
    assert (found.count_required(2), found.in_force_bps(2)) == (3, 10 * MIB)
    assert (found.count_required(3), found.in_force_bps(3)) == (4, None)
    assert merged({"a": [10] * 9}, enabled=False).in_force_bps(0) is None
    assert merged({}).in_force_bps(0) is None


def test_a_selection_of_samples_counts_for_all_that_finished():
    """A task with thousands of small files a second tells some of them."""
    found = Merged(StragglerConfig())
    found.add("a", [SpeedSample("h", MIB, MIB)], 100)
    assert (found.finished, found.in_force_bps(60)) == (100, MIB)


def test_kinds_are_bounded(monkeypatch):
    """A million hosts must not be remembered; the oldest go."""
    monkeypatch.setattr(module, "MOST_KINDS", 3)
    found = Merged(StragglerConfig())
    for n in range(9):
        found.add("a", [SpeedSample(f"h{n}", MIB, MIB)], 1)
    assert [host for host, _ in found._kinds] == ["h6", "h7", "h8"]
