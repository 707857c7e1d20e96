"""Plays a scenario with clients that are not cfetch: the oracle, and a model of curl.

They are measures for the engine's policies, so they stand beside the benchmarks that need them, and not in
the package that people install.
"""

from math import inf

import msgspec
from curl_client import CurlClient
from oracle_client import OracleClient

from cfetch.base.clock import RunClock
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.plugins.lab.bench.network import NetworkModel
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.simulation.plan import SimPlan
from cfetch.plugins.lab.bench.simulation.play import settings_of, simulate
from cfetch.plugins.lab.bench.simulation.transport import SimTransport
from cfetch.plugins.lab.views.simulation_document import Played

CLIENTS = ("curl", "oracle")
OWN_PLACES = 64  # of the oracle, if the scenario does not state ``max-concurrency``


def play(scenario: Scenario, policy: str, seed: int | None = None) -> Played:
    """Play one of ``CLIENTS``, or a policy in the engine (``simulate``), once and in virtual time."""
    if policy not in CLIENTS:
        return simulate(scenario, policy, seed)
    scenario = scenario if seed is None else msgspec.structs.replace(scenario, seed=seed)
    return run_virtual(_play_client(scenario, policy))


async def _play_client(scenario: Scenario, policy: str) -> Played:
    """Play a client that is not the engine; it writes as fast as all volumes together."""
    network, plan, clock = scenario.network or NetworkModel(), SimPlan(scenario), RunClock(VirtualClock())
    transport = SimTransport(network, scenario.seed, plan.true_sizes, plan.faults, clock=clock)
    curl: CurlClient | None = None
    if policy == "curl":
        curl = CurlClient(network, transport, plan.true_sizes, plan.host_of, scenario.concurrency)
        await curl.run()
    else:
        most = settings_of(scenario, "adaptive").max_concurrency or max(OWN_PLACES, scenario.concurrency)
        await OracleClient(network, transport, plan.true_sizes, plan.host_of, most).run()
    failed = 0 if curl is None else curl.failed
    disks_bps = sum(scenario.volumes_bps) or inf
    return Played(
        scenario=scenario.name,
        policy=policy,
        seed=scenario.seed,
        makespan_s=round(max(clock.now(), scenario.size_bytes / disks_bps), 6),
        files=len(plan),
        size_bytes=scenario.size_bytes,
        done=len(plan) - failed,
        failed=failed,
        mitigations=0 if curl is None else curl.ended,
        false_alarms=0 if curl is None else curl.false_alarms,
        requests=transport.requests,
        connections=transport.connections,
        sent_bytes=transport.sent_bytes,
        twice_bytes=transport.sent_bytes - scenario.size_bytes,
        p50_s=0.0,
        p95_s=0.0,
        p99_s=0.0,
        max_s=0.0,
        events={},
        volumes=[],
    )
