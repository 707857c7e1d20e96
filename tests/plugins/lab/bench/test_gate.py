"""The bench as a gate: which bounds a run can break, and that the command ends with 1 when one is."""

import subprocess
import sys

import msgspec
import pytest

from cfetch.plugins.lab.bench.gate import find_broken_bounds, measure_gain
from cfetch.plugins.lab.views.bench_document import Comparison
from tests.plugins.lab.bench.test_view import one_run

MIB = 1 << 20


def three_runs(ideal=None, none=None, mitigated=None):
    """An ideal run of 1 s, one without mitigation of 8 s, and a mitigated one of 2 s."""
    return [
        one_run("ideal", [1.0], **(ideal or {})),
        one_run("none", [8.0], **(none or {})),
        one_run("mitigated", [2.0], **(mitigated or {})),
    ]


def test_a_gain_is_the_time_without_mitigation_over_the_time_with_it():
    """Four times faster is enough for 4, and too little for more."""
    assert measure_gain(three_runs()) == 4.0
    assert find_broken_bounds(three_runs(), MIB, None) == []
    assert find_broken_bounds(three_runs(), MIB, 4.0) == []
    (sentence,) = find_broken_bounds(three_runs(), MIB, 4.1)
    assert sentence == (
        "with mitigation 2.00 s, without it 8.00 s: 4.00 times faster; at least 4.1 times was asked for"
    )


def test_mitigation_that_makes_a_run_slower_is_seen_at_one():
    """The least sensible bound: not slower than nothing."""
    runs = three_runs(mitigated={"wall_s": 8.5})
    assert find_broken_bounds(runs, MIB, None) == []
    assert len(find_broken_bounds(runs, MIB, 1.0)) == 1


@pytest.mark.parametrize("name", ["ideal", "none", "mitigated"])
def test_a_wrong_file_that_counts_as_done_breaks_the_bench(name):
    """Of whichever run. A failed file is missing too, but its run has said so."""
    (sentence,) = find_broken_bounds(three_runs(**{name: {"wrong": 2}}), MIB, None)
    assert f"{name!r} run has 2 wrong" in sentence
    said = {"wrong": 2, "failed": 2}
    assert find_broken_bounds(three_runs(none=said, mitigated=said), MIB, None) == []


def test_mitigation_must_not_fail_what_comes_without_it():
    """More failures than without it; and any at all where nothing was wrong."""
    (sentence,) = find_broken_bounds(
        three_runs(none={"failed": 1, "wrong": 1}, mitigated={"failed": 2, "wrong": 2}), MIB, None
    )
    assert sentence == "with mitigation 2 files failed, without it 1"
    (sentence,) = find_broken_bounds(three_runs(ideal={"failed": 1, "wrong": 1}), MIB, None)
    assert "'ideal'" in sentence


def test_bytes_that_mitigation_fetches_twice_have_a_bound():
    """Five in a hundred are allowed; what is lost without mitigation too does not count against it."""
    five = MIB // 20
    assert find_broken_bounds(three_runs(mitigated={"wasted_bytes": five}), MIB, None) == []
    (sentence,) = find_broken_bounds(three_runs(mitigated={"wasted_bytes": five + 1000}), MIB, None)
    assert sentence == f"mitigation wasted {five + 1000:,} bytes, 5.1% of all; the most is 5%"
    both = {"wasted_bytes": MIB}
    assert find_broken_bounds(three_runs(none=both, mitigated=both), MIB, None) == []


def run_bench(tmp_path, options, *flags):
    """The real command, on two files of which one takes a second if it is left alone."""
    scenario = tmp_path / "small.yaml"
    scenario.write_text(
        "files: [{count: 2, size: 16KiB}]\n"
        "faults: [{kind: slow, fraction: 50%, rate: 16KiB}]\n"
        f"options: {options}\n"
    )
    command = [sys.executable, "-m", "cfetch", "bench", "--scenario", str(scenario), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done, msgspec.json.decode(done.stdout, type=Comparison)


def test_the_command_ends_with_1_when_mitigation_does_nothing(tmp_path):
    """A padding of an hour switches it off. The document is printed, and stderr names the broken bound."""
    done, comparison = run_bench(tmp_path, "{padding: 1h}", "--must", "10")
    assert done.returncode == 1, done.stderr
    assert [run.mitigations for run in comparison.runs] == [0, 0, 0]
    assert (comparison.must, comparison.gain < 10) == (10.0, True)
    (sentence,) = comparison.broken
    assert f"cfetch: {sentence}" in done.stderr.splitlines()
    assert "at least 10 times was asked for" in sentence


def test_the_command_ends_with_0_when_no_bound_is_broken(tmp_path):
    """Without --must, however little is gained."""
    done, comparison = run_bench(tmp_path, "{padding: 1h}")
    assert (done.returncode, comparison.must, comparison.broken) == (0, None, []), done.stderr


def test_a_simulation_has_no_such_gate():
    """Its networks include some without a straggler, where nothing is to be gained."""
    command = [sys.executable, "-m", "cfetch", "bench", "--simulate", "--must", "1.3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.endswith("leave out --must\n")
