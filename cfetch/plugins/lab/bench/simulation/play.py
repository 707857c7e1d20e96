"""One simulated run: a scenario, a policy and a seed in, figures out."""

import asyncio
import random
from array import array
from collections import Counter
from math import inf
from typing import Any, cast

import msgspec
import numpy as np

from cfetch.base.clock import RunClock
from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.errors import UsageError
from cfetch.base.events import EntryFinished, Event, Listener
from cfetch.base.registry import find, list_names
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.policies import make_policy
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.plugins.lab.bench.network import NetworkModel
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.simulation.alarms import PolicyWatch
from cfetch.plugins.lab.bench.simulation.plan import SimPlan
from cfetch.plugins.lab.bench.simulation.transport import SimTransport
from cfetch.plugins.lab.bench.simulation.volume import SimVolume
from cfetch.plugins.lab.views.simulation_document import Played
from cfetch.show.counts import LiveCounts
from cfetch.storage.volume import Volume
from cfetch.straggler.policy import Policy

IDEAL = "ideal"
POLICIES: dict[str, dict[str, Any]] = {
    "none": {"mitigation": False, "policy": "cloudfetch"},
    "cloudfetch": {"policy": "cloudfetch"},
    "adaptive": {"policy": "adaptive"},
}
LONGEST_S = 7 * 86_400.0  # of virtual time: a run that is not over by then never ends


def simulate(
    scenario: Scenario, policy: str, seed: int | None = None, *, listen: Listener = lambda _: None
) -> Played:
    """Play the scenario once, in virtual time; no process, no socket and no file is needed.

    ``policy``: one of ``POLICIES``, or one of an installed package; or ``ideal``: nothing is mitigated, on a
    network without slow connections, stalls and faults. Changes of the network, slow hosts, the spread of
    rates and the link's limit are in the ideal run too, because no policy can remove them. The ideal run has
    one stream a file and no more slots than ``concurrency``, so it is no bound. ``seed`` None: the
    scenario's own; it decides the order of the files, the faults, every connection and the jitter of
    back-offs. ``listen`` gets the engine's events.

    To compare it with real processes on loopback: ``run_once`` of ``compare.py`` plays the same scenario
    there, on the same connections, and its ``makespan_s`` is the same figure.

    Raises:
        UsageError: there is no such policy.
    """
    check_policy(policy)
    scenario = scenario if seed is None else msgspec.structs.replace(scenario, seed=seed)
    if policy == IDEAL:
        scenario = scenario.ideal()
    return run_virtual(_play(scenario, policy, listen))


def check_policy(policy: str) -> None:
    """Raise UsageError unless ``simulate`` knows the policy."""
    if policy not in (known := (IDEAL, *POLICIES)) and find("policies", policy) is None:
        raise UsageError(
            f"there is no policy {policy!r}; known: {', '.join((*known, *list_names('policies')))}"
        )


def settings_of(scenario: Scenario, policy: str) -> Settings:
    """The options of ``cfetch download`` for one run."""
    options: dict[str, Any] = {key: KINDS[key].parse(text) for key, text in scenario.options.items()}
    options |= POLICIES.get("none" if policy == IDEAL else policy, {"policy": policy})
    return Settings(concurrency=scenario.concurrency, **options)


class _Events:
    """Counts events by kind, sums up the files, and notes the seconds that each took."""

    def __init__(self, listen: Listener) -> None:
        self._listen = listen
        self.kinds: Counter[str] = Counter()
        self.counts = LiveCounts()
        self.took_s = array("d")

    def note(self, event: Event) -> None:
        """Count an event; this is a listener."""
        self._listen(event)
        self.kinds[type(event).__name__] += 1
        self.counts(event)
        if isinstance(event, EntryFinished) and event.record.status == "done":
            self.took_s.append(event.record.end_s - event.record.start_s)


async def _play(scenario: Scenario, policy: str, listen: Listener) -> Played:
    network, settings, plan = (
        scenario.network or NetworkModel(),
        settings_of(scenario, policy),
        SimPlan(scenario),
    )
    clock, events = RunClock(VirtualClock()), _Events(listen)
    transport = SimTransport(network, scenario.seed, plan.true_sizes, plan.faults, clock=clock)
    volumes = [SimVolume(f"volume {n}", rate) for n, rate in enumerate(scenario.volumes_bps or (inf,))]
    as_ports: list[Volume] = [*volumes]
    watch = PolicyWatch(make_policy(settings), transport)
    pool = Pool(
        plan,
        settings,
        as_ports,
        transport,
        PoolInputs(
            instant="simulated",
            clock=clock,
            jitter=random.Random(scenario.seed).random,  # noqa: S311 - reproducible, not secret
            emit=events.note,
            counts=events.counts,
        ),
        policy=cast("Policy", watch),
    )
    late = asyncio.get_running_loop().call_later(LONGEST_S, pool.stop, "the simulated run takes for ever")
    await pool.run()
    late.cancel()
    p50, p95, p99, longest = np.percentile(events.took_s or [0.0], (50, 95, 99, 100)).tolist()
    return Played(
        scenario=scenario.name,
        policy=policy,
        seed=scenario.seed,
        makespan_s=round(events.counts.ended.end_s, 6),
        files=len(plan),
        size_bytes=scenario.size_bytes,
        done=events.counts.ended.done,
        failed=len(plan) - events.counts.ended.done,
        mitigations=watch.mitigations,
        false_alarms=watch.false_alarms,
        requests=transport.requests,
        connections=transport.connections,
        sent_bytes=transport.sent_bytes,
        twice_bytes=transport.sent_bytes - events.counts.ended.done_bytes,
        p50_s=round(p50, 6),
        p95_s=round(p95, 6),
        p99_s=round(p99, 6),
        max_s=round(longest, 6),
        events=dict(sorted(events.kinds.items())),
        volumes=[volume.done_bytes for volume in volumes],
    )
