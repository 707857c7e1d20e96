"""The oracle and the model of curl: how close the oracle is to what no client could beat."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

from oracle_client import usable_bytes
from simulated_clients import play

from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import Fault, FaultRule
from cfetch.plugins.lab.bench.network import (
    Burst,
    HostShare,
    Loss,
    NetworkChange,
    NetworkModel,
    Slow,
    Stall,
    Wear,
    connection_of,
)
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario

MB = 1_000_000


def scenario(*groups, network, slots=4, **more):
    """``groups``: pairs of count and size; ``slots``: for everybody."""
    made = tuple(Group(f"{n}-", count, size) for n, (count, size) in enumerate(groups))
    options = {"max_concurrency": str(slots)}
    return Scenario(name="mine", groups=made, network=network, concurrency=slots, options=options, **more)


def of(**network):
    """A network of 1 MB/s a connection and 10 ms."""
    return NetworkModel(**({"latency_s": 0.01, "rate_bps": float(MB)} | network))


SLOW = FaultRule(fraction=1, fault=Fault(kind="slow", rate_bps=1000, first=1))
CASES = {
    "nothing in the way": (of(), 10.0),
    "half of the connections slow": (of(slow=Slow(fraction=0.5, rate_bps=1000)), 10.0),
    "half of them slow later": (of(slow=Slow(fraction=0.5, rate_bps=1000, after_bytes=3 * MB)), 10.0),
    "half of them stall": (of(stalls=Stall(fraction=0.5, after_bytes=3 * MB)), 10.0),
    "a full link": (of(link_bps=2.0 * MB), 20.0),
    "a server with two connections": (of(connections=2), 20.0),
    "a server that drowns above two": (of(drowns_above=2), 20.0),
    "bursts": (of(burst=Burst(size_bytes=MB, rate_bps=1000)), 10.0 + 0.1),
    "wear": (of(wear=Wear(every_bytes=2 * MB, factor=0.1)), 10.0 + 0.1),
    "a pause of three seconds": (of(changes=(NetworkChange(at_s=2, until_s=5, factor=1e6),)), 13.0),
    "half of the bytes at half of the rate": (
        of(loss=Loss(every_bytes=MB, for_bytes=MB // 2, factor=0.5)),
        15.0,
    ),
    "connections that close": (of(requests=1), 10.0),
    "two hosts": (of(hosts=(HostShare(), HostShare(rate_factor=1.0))), 10.0),
}


@pytest.mark.parametrize(("network", "floor_s"), CASES.values(), ids=CASES)
def test_the_oracle_is_close_to_what_nobody_can_beat(network, floor_s):
    """Four connections of 1 MB/s and 40 MB: ten seconds, and longer where the network takes more."""
    played = play(scenario((4, 10 * MB), network=network), "oracle")
    assert floor_s <= played.makespan_s <= 1.1 * floor_s + 0.1
    assert (played.done, played.twice_bytes) == (4, 0)


def test_it_takes_the_largest_first_where_there_are_no_ranges():
    """Files of 4, 3, 2, 2 and 1 MB on three connections: 4, 3 + 1 and 2 + 2."""
    network = of(latency_s=0.0, ranges=False)
    played = play(
        scenario((1, MB), (2, 2 * MB), (1, 3 * MB), (1, 4 * MB), network=network, slots=3), "oracle"
    )
    assert played.makespan_s == pytest.approx(4.0, abs=1e-3)


def test_it_knows_which_requests_meet_a_fault():
    """It breaks the first request of each file off when its head comes; the second is as fast as any."""
    played = play(scenario((4, 10 * MB), network=of(), rules=(SLOW,)), "oracle")
    assert 10.0 < played.makespan_s < 10.5
    delay = FaultRule(fraction=0.5, fault=Fault(kind="delay", delay_s=60, first=1))
    assert play(scenario((4, 10 * MB), network=of(), rules=(delay,)), "oracle").makespan_s < 10.5


def test_it_fetches_what_is_refused_or_reset_again():
    """Refusals cost a request each; what a broken connection has brought is kept."""
    refused = FaultRule(fraction=0.5, fault=Fault(kind="status", status=503, first=1, retry_after_s=9))
    reset = FaultRule(fraction=0.5, fault=Fault(kind="reset", after_bytes=MB, first=1))
    played = play(scenario((8, 5 * MB), network=of(), rules=(refused, reset)), "oracle")
    assert played.makespan_s < 10.6
    assert played.twice_bytes == 0


def test_it_has_the_slots_that_max_concurrency_allows():
    """Eight connections in place of four, whatever the run without mitigation has."""
    wide = scenario((8, 5 * MB), network=of(), slots=8)
    assert play(wide, "oracle").makespan_s == pytest.approx(5.0, rel=0.06)


def test_a_small_file_is_shared_by_all_slots():
    """A quarter for each of the four; where that is under 16 KiB, some get nothing."""
    makespans_s = [
        play(scenario((1, size_bytes), network=of()), "oracle").makespan_s
        for size_bytes in (4 * 24_000, 3 << 14)
    ]
    assert makespans_s == pytest.approx([2 * 0.01 + 0.024, 2 * 0.01 + (1 << 14) / MB], abs=1e-3)


def test_a_connection_is_left_before_it_is_bad():
    """Bytes that it brings well: until it stalls, is slow or worn, or a burst is over."""

    def line(**network):
        return connection_of(of(**network), 1, 0, 1)

    assert usable_bytes(line(), 5.0) == math.inf
    assert usable_bytes(line(stalls=Stall(fraction=1, after_bytes=100)), 60.0) == 39
    assert usable_bytes(line(slow=Slow(fraction=1, rate_bps=9, after_bytes=100)), 60.0) == 40
    assert usable_bytes(line(slow=Slow(fraction=1, rate_bps=9)), 0.0) == 0
    assert usable_bytes(line(burst=Burst(size_bytes=70, rate_bps=9)), 1e6) == 70
    assert usable_bytes(line(wear=Wear(every_bytes=2000, factor=0.8)), 0.0) == 4000


def test_curl_ends_what_is_slow_and_begins_anew():
    """A first request of 1000 B/s is ended after two seconds; a second later the file comes whole."""
    played = play(scenario((1, MB), network=of(), rules=(SLOW,)), "curl")
    assert (played.mitigations, played.false_alarms, played.done) == (1, 0, 1)
    assert played.sent_bytes == MB + played.twice_bytes
    assert played.makespan_s == pytest.approx(2 + 1 + 0.02 + 1, abs=0.01)
    assert played.twice_bytes == pytest.approx(1980, abs=5)


def test_curl_takes_a_pause_of_the_network_for_slow_files():
    """Four downloads are ended though nothing is wrong with their connections."""
    pause = of(changes=(NetworkChange(at_s=2, until_s=6, factor=1e6),))
    played = play(scenario((4, 10 * MB), network=pause), "curl")
    assert played.false_alarms == played.mitigations >= 4


@pytest.mark.parametrize(
    ("network", "ratio"),
    [
        ("eight-connections", 1.1),
        ("slow-sixty-percent", 1.2),
        ("unknown-sizes", 1.15),
        ("slow-thirty-percent", 1.2),
        ("many-connections", 1.3),
        ("burst", 1.25),
        ("cold-cache", 1.2),
        ("wear", 1.2),
        ("one-huge-file", 1.15),
    ],
)
def test_the_default_policy_comes_near_a_client_that_knows_all(network, ratio):
    """Networks in which a fixed number of rescues, slots or sizes that are stated would cost much.

    And those in which all attempts are slow at once, but a server asked in another way is not.
    """
    best, played = (play(find_scenario(network), policy, 1) for policy in ("oracle", "adaptive"))
    assert played.failed == 0
    assert played.makespan_s <= ratio * best.makespan_s
