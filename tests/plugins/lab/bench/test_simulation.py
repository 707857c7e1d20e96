"""Whole runs in virtual time: the real pool over the model, figures that can be checked by hand."""

import asyncio
import io
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import typer
from rich.cells import cell_len
from rich.console import Console

from cfetch.base.errors import CfetchError, UsageError
from cfetch.base.events import EntryFinished
from cfetch.base.virtual_clock import run_virtual
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import Fault, FaultRule
from cfetch.plugins.lab.bench.network import NetworkChange, NetworkModel, Slow, Stall
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.simulation.compare import SimulationOptions, compare, run
from cfetch.plugins.lab.bench.simulation.plan import SimPlan
from cfetch.plugins.lab.bench.simulation.play import POLICIES, settings_of, simulate
from cfetch.plugins.lab.bench.simulation.volume import SimVolume
from cfetch.plugins.lab.verb_bench import bench
from cfetch.plugins.lab.views.simulation_document import PolicyRow, Simulation, verdict
from cfetch.plugins.lab.views.simulation_view import view
from cfetch.show.makespan import Makespan
from cfetch.straggler.evidence import Evidence
from tests.cli.test_command_line import cfetch
from tests.engine.drive import split

MB = 1_000_000


def scenario(*groups, network=None, concurrency=4, **more):
    """``groups``: pairs of count and size."""
    made = tuple(Group(f"{n}-", count, size) for n, (count, size) in enumerate(groups))
    return Scenario(name="mine", groups=made, network=network, concurrency=concurrency, **more)


SLOW = scenario(
    (100, MB),
    network=NetworkModel(
        latency_s=0.05, rate_bps=MB, rate_sigma=0.1, requests=4, slow=Slow(fraction=0.1, rate_bps=50_000)
    ),
)


def test_three_files_on_a_link_to_the_millisecond():
    """Caps of 2 MB/s on a link of 3: each has 1.5 while two flow, then 2.

    Two workers; files of 3, 3 and 3 MB; latency 0.1 s, twice for a new connection. The first two begin at
    0.2 s and end at 2.2 s; the third has a connection by then and begins at 2.3 s: 3 MB at 2 MB/s.
    """
    network = NetworkModel(latency_s=0.1, rate_bps=2 * MB, link_bps=3 * MB)
    played = simulate(scenario((3, 3 * MB), network=network, concurrency=2), "none")
    assert played.makespan_s == pytest.approx(3.8, abs=1e-3)
    assert (played.p50_s, played.max_s) == pytest.approx((2.2, 2.2), abs=1e-3)
    assert (played.requests, played.connections, played.done) == (3, 2, 3)


@pytest.mark.parametrize("policy", [*POLICIES])
def test_every_byte_of_every_file_is_delivered_once(policy):
    """Whatever is broken off; what came beyond is counted as having come twice."""
    played = simulate(SLOW, policy)
    assert played.done == played.files == 100
    assert sum(played.volumes) == 100 * MB
    assert played.sent_bytes == 100 * MB + played.twice_bytes
    assert 0 <= played.twice_bytes < 20 * MB
    assert played.events["EntryFinished"] == 100


def test_what_begins_anew_has_come_twice():
    """No ranges: 600,000 bytes of a file are lost with each connection that breaks there."""
    rules = (FaultRule(fraction=1, fault=Fault(kind="reset", after_bytes=600_000, first=2)),)
    network = NetworkModel(rate_bps=MB, ranges=False)
    played = simulate(scenario((1, MB), network=network, rules=rules), "none")
    assert (played.done, played.requests) == (1, 3)
    assert played.twice_bytes == pytest.approx(1_200_000, abs=100)


@pytest.mark.parametrize("policy", ["adaptive"])
def test_equal_seeds_make_equal_runs_in_any_process(policy):
    """The same document from another process, whose hashes are others; another seed makes another run."""
    first = msgspec.json.encode(simulate(SLOW, policy, 3))
    code = (
        "import sys, msgspec; from tests.plugins.lab.bench.test_simulation import SLOW, simulate;"
        f"sys.stdout.buffer.write(msgspec.json.encode(simulate(SLOW, {policy!r}, 3)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout == first
    assert msgspec.json.encode(simulate(SLOW, policy, 4)) != first


def test_the_ideal_run_has_no_bad_connections_but_the_rest():
    """Changes and the link stay: they are nobody's to mend."""
    network = NetworkModel(rate_bps=MB, stalls=Stall(fraction=1), changes=(NetworkChange(at_s=0, factor=3),))
    played = simulate(scenario((4, MB), network=network), "ideal")
    assert played.makespan_s == pytest.approx(3.0, abs=1e-3)
    assert played.mitigations == 0


def test_a_slow_volume_does_not_hold_the_places_of_a_quick_one():
    """16 connections of 10 MB/s; one of two disks writes 8 MB/s. Half of the places for it take 1.3 times."""
    network = NetworkModel(latency_s=0.02, rate_bps=10 * MB)
    mine = scenario((1000, 4 * MB), network=network, concurrency=16, volumes_bps=(200.0 * MB, 8.0 * MB))
    played = simulate(mine, "adaptive")
    assert played.makespan_s < 1.15 * 4000 / 158
    assert played.volumes[1] > 40 * MB


@pytest.mark.parametrize("policy", ["none", "adaptive"])
@pytest.mark.parametrize(("disks", "rate_bps"), [((15.0 * MB,) * 2, 10 * MB), ((10.0 * MB,) * 3, 10 * MB)])
def test_disks_share_what_their_host_bears(policy, disks, rate_bps):
    """A host that bears four serves all disks, whatever the run's own number of downloads at a time."""
    network = NetworkModel(latency_s=0.02, rate_bps=rate_bps)
    four = scenario((60, 10 * MB), network=network, volumes_bps=disks)
    borne = msgspec.structs.replace(four, concurrency=32, options={"per_host": "4"})
    assert simulate(borne, policy).makespan_s < 1.05 * simulate(four, policy).makespan_s


def test_a_volume_takes_what_it_can_and_then_they_wait():
    """24 MiB for a volume of 1 MiB/s: it bears 16 unwritten, so there is room after 8 s; done after 24."""
    mib = 1 << 20

    async def scene():
        now = asyncio.get_running_loop().time
        volume, ended = SimVolume("v", float(mib)), []
        part = volume.new_part(SimPlan(scenario((1, 1))).entry(0))
        part.write(bytes(16 * mib))
        waits = [part.must_wait]
        part.write(bytes(8 * mib))
        waits.append(part.must_wait)
        await part.wait_for_room()
        result = [now(), volume.written_bytes, volume.is_behind]
        running = asyncio.ensure_future(volume.run())
        volume.publish([part], lambda error: ended.append((error, now())))
        volume.drain()
        await running
        return waits, result, ended, (volume.done_files, volume.done_bytes, volume.is_behind)

    waits, result, ended, done = run_virtual(scene())
    assert waits == [False, True]
    assert result == [pytest.approx(8.0, abs=1e-3), pytest.approx(8 * mib, abs=9), True]
    assert ended == [(None, pytest.approx(24.0, abs=1e-3))]
    assert done == (1, 24 * mib, False)


def test_several_streams_write_one_part():
    """Each ends early, so the rest is missing again; what comes beyond an end is not written."""

    async def scene():
        volume = SimVolume("v")
        part = volume.new_part(SimPlan(scenario((1, 1))).entry(0))
        assert not part.can_split(100)  # no ETag yet
        part.validator = '"e"'
        part.write(bytes(10))
        ranges = part.split_into_ranges(100)
        assert part.segment is not None
        other = part.open_segment(split(ranges, part.segment, 60))
        other.write(bytes(15))
        other.release_segment()
        part.write(bytes(40))
        part.release_segment()
        assert (part.position, ranges.missing) == (65, [(50, 60), (75, 100)])
        for wanted in (10, 25):
            segment = ranges.take_first()
            assert segment is not None
            assert segment.left_bytes == wanted
            last = part.open_segment(segment)
            assert last.segment is segment
            last.write(bytes(30))
            last.release_segment()
        return part.position, ranges.is_whole, ranges.twice_bytes, volume._disk.taken_bytes

    assert run_virtual(scene()) == (100, True, 25, 100)


def test_a_stalled_connection_ends_by_the_stall_rule_where_nothing_is_mitigated():
    """30 s of silence, the engine's own time-out."""
    network = NetworkModel(rate_bps=MB, stalls=Stall(fraction=0.25, after_bytes=100_000), requests=1)
    played = simulate(scenario((40, MB), network=network), "none")
    assert played.done == 40
    assert played.makespan_s > 30
    assert played.events["RetryScheduled"] == played.connections - 40


def test_false_alarms_are_those_that_the_network_did_not_hold_back():
    """The CloudFetch formula takes a slower network for stragglers, all of them."""
    options = {"padding": "0s"}
    network = NetworkModel(rate_bps=MB, changes=(NetworkChange(at_s=10.5, factor=8),))
    played = simulate(scenario((60, MB), network=network, options=options), "cloudfetch")
    assert played.mitigations == played.false_alarms > 0


def test_requests_that_wait_in_line_at_their_server_are_not_cancelled_in_vain():
    """It serves eight connections, and none of the others before one of these closes."""
    network = NetworkModel(rate_bps=2 * MB, latency_s=0.04, connections=8)
    played = simulate(scenario((60, MB), network=network, concurrency=16), "adaptive")
    assert played.mitigations >= 8
    assert played.false_alarms == 0


def test_the_slower_of_two_volumes_gets_less():
    """Batches go through the real placement; all bytes arrive, on one volume or the other."""
    network = NetworkModel(rate_bps=10 * MB)
    played = simulate(
        scenario((400, MB), network=network, concurrency=8, volumes_bps=(100.0 * MB, 2.0 * MB)), "none"
    )
    fast, slow = played.volumes
    assert fast + slow == 400 * MB
    assert played.done == 400
    assert 0 < slow < fast / 4
    assert played.events["BatchCommitted"] == played.events["BatchPlaced"]


def test_a_slow_volume_holds_up_its_readers():
    """One volume of 1 MB/s under connections of 100: the disk decides, and nobody is a straggler."""
    network = NetworkModel(rate_bps=100 * MB)
    played = simulate(scenario((30, 2 * MB), network=network, volumes_bps=(float(MB),)), "cloudfetch")
    assert played.makespan_s == pytest.approx(60.0, abs=0.1)
    assert played.mitigations == 0


def test_the_plan_names_the_files_as_the_scenario_does():
    """In the same order, with the same sizes and the same faults; so loopback and simulation agree."""
    example = find_scenario("cloudfetch-example")
    plan = SimPlan(example)
    entries = [plan.entry(index) for index in range(len(plan))]
    assert [entry.path for entry in entries] == example.names
    assert {entry.size_bytes for entry in entries} == {1 << 20}
    assert {plan.name(index) for index in plan.faults} == example.faults.keys()


def test_options_of_the_scenario_hold_for_every_policy():
    """And the policy is what was asked for."""
    mine = scenario((1, 1), options={"padding": "2s", "policy": "adaptive"})
    settings = settings_of(mine, "cloudfetch")
    assert (settings.padding, settings.policy, settings.mitigation) == (2.0, "cloudfetch", True)
    assert not settings_of(mine, "none").mitigation
    with pytest.raises(UsageError, match=r"no policy 'odd'; known: ideal, none"):
        simulate(mine, "odd")


def test_rows_are_over_the_ideal_of_the_same_seed():
    """Medians and the worst of the ratios, means of the counts."""
    base = simulate(scenario((1, 1)), "none")

    def first(policy, seed, makespan_s, mitigations=0):
        return msgspec.structs.replace(
            base, policy=policy, seed=seed, makespan_s=makespan_s, mitigations=mitigations
        )

    ideal = [first("ideal", seed, 10.0 * seed) for seed in (1, 2, 3)]
    mine = [first("none", 1, 30.0, 1), first("none", 2, 20.0), first("none", 3, 60.0, 2)]
    result = compare(scenario((1, 1)), [*ideal, *mine])
    assert result.ideal_s == 20.0
    (row,) = result.rows
    assert (row.makespan_s, row.ratio_p50, row.ratio_worst, row.mitigations) == (30.0, 2.0, 3.0, 1.0)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        (
            {"none": 2.0, "cloudfetch": 1.5, "adaptive": 1.0},
            r"33% faster than.*\(cloudfetch\)$",
        ),
        (
            {"none": 1.0, "cloudfetch": 1.5, "adaptive": 1.1},
            r"10% slower than.*\(none\)$",
        ),
        ({"none": 1.0, "adaptive": 1.01}, r"level with the better of the others \(none\)$"),
        ({"none": 1.0}, "^$"),
    ],
)
def test_a_verdict_is_against_the_better_of_the_others(ratios, words):
    """It names the better one; a document without ``adaptive`` has no verdict."""
    rows = [
        PolicyRow(
            policy=name,
            makespan_s=1,
            ratio_p50=ratio,
            ratio_worst=ratio,
            mitigations=0,
            false_alarms=0,
            twice=0,
            not_done=0,
        )
        for name, ratio in ratios.items()
    ]
    assert re.search(words, verdict(rows))


def test_a_table_fits_a_terminal():
    """Every scenario with its description, every policy in one line of at most 80 columns."""
    options = SimulationOptions(scenarios=("cloudfetch-example",), seeds=1, policies=("none", "cloudfetch"))
    simulation = run(options)
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(view(simulation))
    lines = out.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].startswith("cloudfetch-example: 500 files of 1 MiB")
    (none,) = (line.split() for line in lines if line.startswith("  none"))
    assert float(none[-5]) > 8
    assert none[-3:] == ["0.0", "0.0", "0.00%"]


def test_figures_do_not_depend_on_how_many_processes_play(monkeypatch):
    """The same document from two processes as from this one."""
    options = SimulationOptions(scenarios=("cloudfetch-example",), seeds=2, policies=("none", "cloudfetch"))
    here = run(options)
    monkeypatch.setattr("cfetch.plugins.lab.bench.simulation.compare.FEW_FILES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert run(options) == here


def test_from_the_command_line(tmp_path):
    """A document that reads back; progress goes to stderr."""
    path = tmp_path / "tiny.yaml"
    path.write_text("files: [{count: 3, size: 1MiB}]\nnetwork: {rate: 1MiB/s}\n")
    result = cfetch("bench", "--simulate", "--scenario", str(path), "--seeds", "2", "--json")
    assert result.returncode == 0, result.stderr
    simulation = msgspec.json.decode(result.stdout, type=Simulation)
    assert simulation.schema == "cfetch.simulation/1"
    assert simulation.seeds == [1, 2]
    (comparison,) = simulation.scenarios
    assert [row.policy for row in comparison.rows] == ["none", "cloudfetch", "adaptive"]
    assert comparison.ideal_s == pytest.approx(1.0, abs=1e-3)
    assert len(simulation.runs) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"simulate": True, "peers": True}, "--simulate runs no other tool"),
        ({"simulate": True, "policy": "nope"}, "there is no policy 'nope'"),
        ({"seeds": 3}, "several scenarios or seeds are for --simulate"),
        ({"scenario": ["stalls", "stragglers"]}, "several scenarios or seeds are for --simulate"),
        ({"simulate": True, "scenario": ["nope"]}, "there is no scenario 'nope'"),
        (
            {"simulate": True, "scenario": ["stragglers"]},
            "'stragglers' does not say what its network is like",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    """Before anything runs."""
    with pytest.raises(CfetchError, match=message):
        bench(ctx=cast("typer.Context", SimpleNamespace(params=options)), **options)


def test_a_rate_limit_and_slow_volumes_are_no_fall_of_the_network(monkeypatch):
    """Our own side holds the bytes nearly always; no attempt is said to have become slow by the network."""
    falls: list[Any] = []
    look = Evidence.falls

    def note(evidence):
        falls.append(look(evidence))
        return falls[-1]

    monkeypatch.setattr(Evidence, "falls", note)
    mine = scenario(
        (12, MB),
        network=NetworkModel(latency_s=0.02, rate_bps=4e6, rate_sigma=0.5),
        concurrency=6,
        volumes_bps=(2e6, 3e5),
        options={"limit_rate": "300k"},
    )
    assert simulate(mine, "adaptive").done == 12
    assert falls
    assert not any(falls)


def test_a_file_over_a_link_with_slow_start_claims_no_more_than_the_whole_difference():
    """One file of 100 MiB over round trips of 600 ms: rates at its beginning foretell nothing."""
    network = NetworkModel(latency_s=0.6, rate_bps=12.5e6, link_bps=12.5e6, slow_start=True)
    mine = scenario((1, 100 << 20), network=network, concurrency=16)
    replay = Makespan()
    mitigated = simulate(
        mine,
        "adaptive",
        listen=lambda event: replay.add(event.record) if isinstance(event, EntryFinished) else None,
    )
    assert replay.saved_s() <= max(0.0, simulate(mine, "none").makespan_s - mitigated.makespan_s)
