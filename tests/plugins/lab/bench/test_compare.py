"""The figures of a run, what counts as a false alarm, and the whole bench once on a small workload."""

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from cfetch.base.errors import ConfigError, LocalFault
from cfetch.base.records import AttemptRecord, FileRecord
from cfetch.plugins.lab.bench.child import Outcome
from cfetch.plugins.lab.bench.compare import (
    FINISHES,
    compute_figures,
    count_false_alarms,
    find_slow_gets,
    run_once,
)
from cfetch.plugins.lab.bench.content import Group, SyntheticSet, count_right, pieces
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.network import HostShare, NetworkModel, Slow, Stall, connection_of
from cfetch.plugins.lab.bench.run import BenchOptions, run
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.spec import JournalEntry
from cfetch.plugins.lab.views.bench_document import Comparison
from cfetch.plugins.monitors.page_state import PageState
from tests.conditions.runner import call

OUTCOME = Outcome(wall_s=3.0, cpu_s=1.5, exit_code=0, killed=False, output=b"", error="")
SLOW = (Fault(kind="slow", rate_bps=1),)


def attempt(n, outcome="done", got=100, from_byte=0, *, helper=False):
    return AttemptRecord(
        n=n,
        start_s=0,
        first_byte_s=0,
        end_s=1,
        from_byte=from_byte,
        bytes=got,
        http_status=200,
        outcome=outcome,
        error=None,
        peer=None,
        median_bps=None,
        expected_s=None,
        samples=[],
        helper=helper,
    )


def record(index, *attempts, start=0.0, end=1.0, status="done"):
    return FileRecord(
        instant="i",
        id=index,
        offset=index,
        path=f"f{index}",
        host="h",
        size_bytes=100,
        bytes=100,
        status=status,
        verified="size",
        volume="v",
        queued_s=0,
        start_s=start,
        end_s=end,
        rate_bps=1.0,
        stragglers=0,
        attempts=list(attempts) or [attempt(1)],
    )


def test_times_are_from_first_attempt_to_end():
    """Waiting in the queue is not a file's time; percentiles are numpy's; finishes are sorted."""
    records = [record(i, start=10.0 - i, end=10.0) for i in range(1, 5)] + [
        record(9, end=5.0, status="failed")
    ]
    result = compute_figures("none", OUTCOME, records, 0, {})
    assert (result.p50_s, result.max_s) == (2.5, 4.0)
    assert result.p95_s == pytest.approx(3.85)
    assert (result.done, result.failed) == (4, 1)
    assert result.finishes_s == [10.0] * 4
    assert compute_figures("none", OUTCOME, records[:4], 0, {}).makespan_s == 4.0  # from the first start
    assert (result.wall_s, result.cpu_s, result.makespan_s) == (3.0, 1.5, 10.0)


def test_mitigations_retries_and_bytes_fetched_twice():
    """Cancelled attempts are no retries, and only the bytes that were not kept are waste."""
    kept = record(1, attempt(1, "straggler", got=40), attempt(2, got=60, from_byte=40))
    thrown = record(2, attempt(1, "straggler", got=40), attempt(2, got=100))
    failed_once = record(3, attempt(1, "error", got=0), attempt(2), attempt(3, got=0, helper=True))
    result = compute_figures("mitigated", OUTCOME, [kept, thrown, failed_once], 1, {"f1": SLOW, "f2": SLOW})
    assert (result.mitigations, result.retries, result.wasted_bytes, result.wrong) == (2, 1, 40, 1)
    assert result.in_segments == 1
    assert result.false_alarms == 0


@pytest.mark.parametrize(
    ("script", "outcomes", "alarms"),
    [
        (SLOW, ["straggler", "done"], 0),
        (SLOW, ["straggler", "straggler", "done"], 1),
        (None, ["straggler", "done"], 1),
        ((Fault(kind="reset", after_bytes=1),), ["straggler", "done"], 1),
        ((Fault(kind="stall", after_bytes=1),), ["straggler", "done"], 0),
        ((Fault(kind="delay", delay_s=1),), ["straggler", "done"], 0),
        (None, ["error", "done"], 0),
    ],
)
def test_a_false_alarm_is_a_cancel_that_the_origin_gave_no_cause_for(script, outcomes, alarms):
    """Attempt by attempt: a second cancel of a file that was slow only once is false."""
    entry = record(1, *(attempt(n, outcome) for n, outcome in enumerate(outcomes, 1)))
    assert count_false_alarms([entry], {} if script is None else {"f1": script}) == alarms


def test_a_slow_connection_is_cause_enough():
    """By the journal: slow or stalling lines, and rates far below usual; that request, no other."""
    slow = NetworkModel(rate_bps=1e6, slow=Slow(fraction=1, rate_bps=1))
    stalling = NetworkModel(stalls=Stall(fraction=1, after_bytes=10))
    scattered = NetworkModel(rates_bps=(100.0, 1e6, 1e6))
    asked = [JournalEntry("f1", 1, 0, number) for number in range(1, 30)]
    entry = record(1, attempt(1, "straggler"), attempt(2, "straggler"), attempt(3))
    for network in (slow, stalling):
        bad = find_slow_gets(scenario_with(network), asked[:1])
        assert bad == {("f1", 1)}
        assert count_false_alarms([entry], {}, bad) == 1
    assert find_slow_gets(scenario_with(NetworkModel(rate_bps=1e6)), asked) == frozenset()
    rates = [connection_of(scattered, 0, 0, number).rate_bps for number in range(1, 30)]
    number = rates.index(100.0) + 1
    assert find_slow_gets(scenario_with(scattered), [JournalEntry("f1", 2, 0, number)]) == {("f1", 2)}
    assert (
        find_slow_gets(scenario_with(scattered), [JournalEntry("f1", 2, 0, rates.index(1e6) + 1)])
        == frozenset()
    )


def scenario_with(network):
    return Scenario(name="s", groups=(Group("g-", 1, 1000),), network=network)


def test_a_network_is_enacted_and_judged_by_its_journal(tmp_path):
    """Two hosts; every second connection crawls: whoever is broken off there is no false alarm."""
    hosts = (HostShare(), HostShare())
    network = NetworkModel(rate_bps=4e6, hosts=hosts, requests=2, slow=Slow(fraction=0.3, rate_bps=4_000))
    scenario = Scenario(
        name="s",
        groups=(Group("g-", 40, 20_000),),
        network=network,
        options={"policy": "cloudfetch", "padding": "200ms"},
    )
    result = run_once(scenario, tmp_path, "mitigated", faulty=True)
    assert (result.done, result.wrong, result.exit_code) == (40, 0, 0)
    assert result.mitigations >= 1
    assert result.false_alarms == 0
    assert 0 < result.makespan_s <= result.wall_s
    journal = JournalEntry.read(tmp_path / "journal.json")
    assert {request.host for request in journal} == {0, 1}


def test_many_finishes_are_thinned_but_the_last_stays():
    """The document stays small and the tail stays true."""
    records = [record(i, end=float(i)) for i in range(5000)]
    finishes = compute_figures("ideal", OUTCOME, records, 0, {}).finishes_s
    assert len(finishes) == FINISHES
    assert (finishes[0], finishes[-1]) == (0.0, 4999.0)


def test_a_run_in_which_nothing_arrived_has_figures_too():
    """No file, no percentile, no crash."""
    result = compute_figures("none", OUTCOME, [], 3, {})
    assert (result.done, result.wrong, result.max_s, result.finishes_s) == (0, 3, 0.0, [])


def test_count_right_sees_missing_short_long_and_altered_files(tmp_path):
    """Only files that are the same to the last byte count."""
    files = SyntheticSet((Group("g-", 6, 3000),), seed=1)
    names = list(files)
    for name in names:
        (tmp_path / name).write_bytes(b"".join(pieces(files[name])))
    assert count_right(tmp_path, names, files) == 6
    (tmp_path / names[0]).unlink()
    (tmp_path / names[1]).write_bytes((tmp_path / names[1]).read_bytes()[:-1])
    (tmp_path / names[2]).write_bytes((tmp_path / names[2]).read_bytes() + b"x")
    (tmp_path / names[3]).write_bytes(b"x" + (tmp_path / names[3]).read_bytes()[1:])
    assert count_right(tmp_path, names, files) == 2


def test_the_whole_bench_on_a_small_workload(tmp_path):
    """Three real runs: every file right in each, mitigation only where it was on; the document reads back."""
    scenario = tmp_path / "small.yaml"
    scenario.write_text(
        "files: [{count: 40, size: 16KiB}]\n"
        "faults: [{kind: slow, fraction: 5%, rate: 6KiB}]\n"
        "options: {padding: 200ms}\n"
    )
    said: list[str] = []
    page = PageState(("a", "b", "c"))
    result = run(BenchOptions(scenario=str(scenario), folder=tmp_path), said.append, listener=page.apply)
    ideal, none, mitigated = result.runs
    assert [request.name for request in result.runs] == ["ideal", "none", "mitigated"]
    assert [(request.done, request.failed, request.wrong, request.exit_code) for request in result.runs] == [
        (40, 0, 0, 0)
    ] * 3
    assert (ideal.slowdown, ideal.false_alarms, none.mitigations) == (1.0, ideal.mitigations, 0)
    assert mitigated.mitigations >= 1
    assert (result.faulty, result.files, result.contenders) == (2, 40, [])
    assert msgspec.json.decode(msgspec.json.encode(result), type=Comparison) == result
    assert any("2 of them faulty" in line for line in said)
    assert list(tmp_path.iterdir()) == [scenario], "the bench left files behind"
    assert page.make_live().text == "c: completed: 40 of 40 files in place, exit code 0"


def test_a_run_that_does_not_download_says_why(tmp_path, monkeypatch):
    """The child's own words are in the error."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("files: [{count: 1, size: 1KiB}]")
    monkeypatch.setattr(
        "cfetch.plugins.lab.bench.compare.run_child",
        lambda *_, **__: OUTCOME._replace(exit_code=3, error="no luck"),
    )
    with pytest.raises(LocalFault, match=r"'ideal' run of cfetch ended with code 3.*no luck"):
        run(BenchOptions(scenario=str(scenario), folder=tmp_path))


def test_too_little_room_is_said_before_anything_runs(tmp_path):
    """A workload larger than the disk is refused, with both numbers."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("files: [{count: 2, size: 8000PiB}]")
    with pytest.raises(LocalFault, match=r"the bench needs [\d,]+ bytes in"):
        run(BenchOptions(scenario=str(scenario), folder=tmp_path))


def test_an_unknown_scenario_is_a_usage_error():
    """It is refused before anything starts."""
    with pytest.raises(ConfigError, match="no scenario 'x'"):
        run(BenchOptions(scenario="x"))


def test_a_policy_stands_in_for_the_scenario_s_options(tmp_path, monkeypatch):
    """Its defaults, not what was set by hand for another; without one the scenario's options hold."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("files: [{count: 1, size: 1KiB}]\noptions: {padding: 200ms}")
    asked = []

    def compare(scenario, *_):
        asked.append(scenario.arguments())
        return [compute_figures(name, OUTCOME, [], 0, {}) for name in ("ideal", "none", "mitigated")]

    monkeypatch.setattr("cfetch.plugins.lab.bench.run.compare", compare)
    error = run(BenchOptions(scenario=str(scenario), folder=tmp_path, policy="adaptive", concurrency=3))
    plain = run(BenchOptions(scenario=str(scenario), folder=tmp_path))
    assert asked == [
        ["--concurrency", "3", "--policy", "adaptive"],
        ["--padding", "200ms"],
    ]
    assert (error.policy, error.options) == ("adaptive", {"policy": "adaptive"})
    assert (plain.policy, plain.options) == ("cloudfetch", {"padding": "200ms"})
    with pytest.raises(ConfigError, match="policy"):
        run(BenchOptions(scenario=str(scenario), folder=tmp_path, policy="best"))


def test_the_command_serves_its_runs(tmp_path, monkeypatch):
    """At an address that it prints first; where nothing runs live, it is refused."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("files: [{count: 1, size: 1KiB}]")
    asked = []

    def compare(scenario, folder, say, keep_run, listener):
        asked.append((scenario.concurrency, listener is not None))
        return [compute_figures(name, OUTCOME, [], 0, {}) for name in ("ideal", "none", "mitigated")]

    monkeypatch.setattr("cfetch.plugins.lab.bench.run.compare", compare)
    ran = call("bench", "--scenario", scenario, "-j", "3", "--serve", "0", "--json")
    assert ran.err.startswith("the run is shown at http://127.0.0.1:")
    assert call("bench", "--scenario", scenario, "--json").code == ran.code == 0
    assert asked == [(3, True), (16, False)]
    for mode in ("--clean", "--simulate"):
        refused = call("bench", mode, "--serve", "0")
        assert (refused.code, "leave out --serve" in refused.err) == (2, True)


def test_other_tools_are_not_run_on_several_hosts(tmp_path):
    """They would be asked for everything at one of them, which is another scenario."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("files: [{count: 1, size: 1KiB}]\nnetwork: {hosts: [{share: 1}, {share: 1}]}")
    with pytest.raises(ConfigError, match="s has several hosts"):
        run(BenchOptions(scenario=str(scenario), folder=tmp_path, peers=True))


def test_sigterm_removes_what_the_bench_has_made(tmp_path):
    """Its files may be gigabytes, and its server and the run under way are processes of their own."""
    words = [sys.executable, "-m", "cfetch", "bench", "--scenario", "clean-1m"]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as bench:
        assert bench.stderr is not None
        line = bench.stderr.readline()
        assert line.startswith("ideal: ")
        while not list(tmp_path.glob("cfetch-bench-*/manifest.json")):
            time.sleep(0.01)
        bench.send_signal(signal.SIGTERM)
        assert bench.stderr.read() == ""
    assert bench.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
