"""A network as a value: what a connection is like follows from seed, host and number alone."""

import math
from statistics import median

import pytest

from cfetch.base.errors import ConfigError
from cfetch.plugins.lab.bench.network import (
    Burst,
    ConnectionTraits,
    HostShare,
    Loss,
    NetworkChange,
    NetworkModel,
    Slow,
    Stall,
    Wear,
    connection_of,
    factor_at,
    host_of,
)
from cfetch.plugins.lab.bench.scenario_file import find_scenario, load_scenario, simulated_names

MIB = 1 << 20
MANY = range(1, 3001)


def lines(network, seed=1, host=0):
    return [connection_of(network, seed, host, number) for number in MANY]


def test_the_draws_have_the_stated_medians_spreads_and_shares():
    """Log-normal rates and latencies; slow and stalling connections as often as stated."""
    network = NetworkModel(
        latency_s=0.1,
        latency_sigma=0.5,
        rate_bps=1e6,
        rate_sigma=0.25,
        slow=Slow(fraction=0.1, rate_bps=5.0, after_bytes=7),
        stalls=Stall(fraction=0.02, after_bytes=9),
    )
    drawn = lines(network)
    assert median(line.latency_s for line in drawn) == pytest.approx(0.1, rel=0.05)
    assert median(line.rate_bps for line in drawn) == pytest.approx(1e6, rel=0.03)
    logs = [math.log(line.rate_bps / 1e6) for line in drawn]
    assert math.sqrt(sum(x * x for x in logs) / len(logs)) == pytest.approx(0.25, rel=0.05)
    slow = [line for line in drawn if line.slow_after is not None]
    assert len(slow) / len(drawn) == pytest.approx(0.1, abs=0.02)
    assert {(line.slow_after, line.slow_bps) for line in slow} == {(7, 5.0)}
    stalls = [line.stall_after for line in drawn if line.stall_after is not None]
    assert len(stalls) / len(drawn) == pytest.approx(0.02, abs=0.01)
    assert set(stalls) == {9}
    assert sum(line.is_bad for line in drawn) >= len(slow)


def test_a_connection_is_the_same_whatever_else_is_stated():
    """A value that is added to a scenario changes no other draw; another seed or host changes all."""
    plain = NetworkModel(latency_s=0.1, latency_sigma=0.5, rate_bps=1e6, rate_sigma=0.25)
    more = NetworkModel(
        latency_s=0.1,
        latency_sigma=0.5,
        rate_bps=1e6,
        rate_sigma=0.25,
        stalls=Stall(fraction=0.5),
        hosts=(HostShare(), HostShare()),
    )
    assert [line[:4] for line in lines(plain)] == [line[:4] for line in lines(more)]
    rates = {line.rate_bps for line in lines(plain)}
    assert rates.isdisjoint(line.rate_bps for line in lines(more, host=1))
    assert rates.isdisjoint(line.rate_bps for line in lines(plain, seed=2))


def test_a_hosts_factors_are_its_connections():
    """Rates and latency of one host, against those of another that has the same median."""
    network = NetworkModel(
        latency_s=0.1, rate_bps=8.0, hosts=(HostShare(), HostShare(rate_factor=0.25, latency_factor=3))
    )
    assert connection_of(network, 1, 0, 1) == ConnectionTraits(0.1, 8.0)
    far = connection_of(network, 1, 1, 1)
    assert far.latency_s == pytest.approx(0.3)
    assert far == ConnectionTraits(far.latency_s, 2.0)


def test_recorded_rates_are_drawn_alike():
    """Each one about equally often, and nothing else."""
    drawn = [line.rate_bps for line in lines(NetworkModel(rates_bps=(1.0, 2.0, 4.0)))]
    assert set(drawn) == {1.0, 2.0, 4.0}
    assert min(map(drawn.count, set(drawn))) > 0.9 * len(drawn) / 3


def test_without_limits_there_are_none():
    """The default network."""
    assert connection_of(NetworkModel(), 1, 0, 1) == ConnectionTraits(0.0, math.inf)


@pytest.mark.parametrize(
    ("host", "now_s", "factor"),
    [(0, 0.9, 1), (0, 1, 2), (0, 2.5, 6), (1, 2.5, 2), (None, 2.5, 2), (0, 3, 3), (1, 3, 1), (0, 99, 3)],
)
def test_changes_hold_from_their_start_until_their_end(host, now_s, factor):
    """Several at once are multiplied; the link knows only those that are for all."""
    changes = (NetworkChange(at_s=1, until_s=3, factor=2), NetworkChange(at_s=2, factor=3, host=0))
    network = NetworkModel(hosts=(HostShare(), HostShare()), changes=changes)
    assert factor_at(network, host, now_s) == factor


def test_files_are_shared_out_evenly_all_along():
    """By the stated shares, in every segment of the manifest."""
    network = NetworkModel(hosts=(HostShare(share=2), HostShare(), HostShare(share=0)))
    for start in (0, 500, 123_456):
        hosts = [host_of(network, index) for index in range(start, start + 300)]
        assert hosts.count(0) == pytest.approx(200, abs=3)
        assert 2 not in hosts


@pytest.mark.parametrize("name", simulated_names())
def test_each_scenario_of_the_simulator_reads(name):
    """It has files and a network, and says what it shows."""
    scenario = find_scenario(name)
    assert scenario.files
    assert scenario.network is not None
    assert len(scenario.description) > 20


def test_there_are_enough_scenarios():
    """The table that policies are compared by."""
    assert len(simulated_names()) >= 31


EVERY_KEY = """
files: [{count: 2, size: 1KiB}]
network:
  latency: 50ms
  latency_sigma: 0.3
  rate: 10MiB/s
  rate_sigma: 0.2
  link: 100MiB/s
  requests: 100
  ranges: no
  sizes: no
  connections: 8
  drowns_above: 32
  slow_start: yes
  slow: {fraction: 2%, rate: 16KiB/s, after: 1MiB}
  stalls: {fraction: 0.01, after: 0}
  wear: {every: 4MiB, factor: 0.25, least: 16KiB/s}
  burst: {size: 2MiB, rate: 64KiB/s}
  loss: {every: 3MiB, for: 1MiB, factor: 0.1}
  changes:
    - {at: 20s, until: 50s, factor: 10, host: 1}
  hosts:
    - {share: 2}
    - {rate_factor: 0.5, latency_factor: 3}
volumes:
  - {rate: 1MiB/s}
"""


def test_every_key_arrives(tmp_path):
    """A network reads as it is written."""
    path = tmp_path / "mine.yaml"
    path.write_text(EVERY_KEY)
    scenario = load_scenario(path)
    assert scenario.volumes_bps == (1.0 * MIB,)
    assert scenario.network == NetworkModel(
        latency_s=0.05,
        latency_sigma=0.3,
        rate_bps=10.0 * MIB,
        rate_sigma=0.2,
        link_bps=100.0 * MIB,
        requests=100,
        ranges=False,
        sizes=False,
        connections=8,
        drowns_above=32,
        slow_start=True,
        wear=Wear(every_bytes=4 * MIB, factor=0.25, least_bps=16384),
        burst=Burst(size_bytes=2 * MIB, rate_bps=65536),
        loss=Loss(every_bytes=3 * MIB, for_bytes=MIB, factor=0.1),
        slow=Slow(fraction=0.02, rate_bps=16384, after_bytes=MIB),
        stalls=Stall(fraction=0.01),
        changes=(NetworkChange(at_s=20, until_s=50, factor=10, host=1),),
        hosts=(HostShare(share=2), HostShare(rate_factor=0.5, latency_factor=3)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network: fast", "'network' must be a mapping"),
        ("network: {speed: 1}", "unknown key 'network.speed'"),
        ("network: {rate: quick}", "'network.rate' is 'quick'"),
        ("network: {rate: 0}", "rates' is 0, not between 1"),
        ("network: {latency_sigma: nan}", "'network.latency_sigma' is 'nan', but must be a finite number"),
        ("network: {ranges: maybe}", "'network.ranges' is 'maybe', but must be yes or no"),
        ("network: {slow: {fraction: 2%}}", "'network.slow'.*something is missing"),
        ("network: {slow: {fraction: 200%, rate: 1}}", "'slow.fraction' is 2, not between 0 and 1"),
        ("network: {wear: {factor: 0.5}}", "'network.wear'.*something is missing"),
        ("network: {wear: {every: 1MiB, factor: 2}}", "'wear.factor' is 2, not between"),
        ("network: {burst: {size: 1MiB, rate: 0}}", "'burst.rate' is 0, not between 1"),
        ("network: {loss: {every: 1MiB, for: 1MiB, factor: 1}}", "'loss.for' is .* not between 1 and"),
        ("network: {connections: few}", "'network.connections' is 'few'"),
        ("network: {changes: {at: 1s}}", "'network.changes'.*must be a list"),
        ("network: {changes: [{at: 1s, factor: 0}]}", "'changes.factor' is 0"),
        ("network: {changes: [{at: 1s, factor: 2, host: 1}]}", "'changes.host' is 1, but there are 1 hosts"),
        ("network: {hosts: []}", "at least one host"),
        ("volumes: [{}]", "each of the volumes must have a rate"),
    ],
)
def test_a_wrong_network_is_refused_by_file_and_key(tmp_path, text, message):
    """The error names the file, the key and what is allowed."""
    path = tmp_path / "mine.yaml"
    path.write_text(f"files: [{{count: 2, size: 1KiB}}]\n{text}\n")
    with pytest.raises(ConfigError, match=message) as caught:
        load_scenario(path)
    assert "mine.yaml" in str(caught.value)
