"""`cfetch bench --simulate` as one call: scenarios and seeds in, a ``Simulation`` out."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product, starmap
from statistics import fmean, median

import msgspec

from cfetch.base.errors import ConfigError
from cfetch.base.version import __version__
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario, simulated_names
from cfetch.plugins.lab.bench.simulation.play import IDEAL, check_policy, simulate
from cfetch.plugins.lab.views.simulation_document import (
    Played,
    PolicyRow,
    ScenarioComparison,
    Simulation,
    verdict,
)

POLICIES = ("none", "cloudfetch", "adaptive")
SEEDS = 5  # median and worst of fewer show little; all scenarios then take two minutes on two processors
FEW_FILES = 20_000  # over all runs: they take a second or two, not more than the start of processes
SAY_EVERY_S = 2.0  # a run of a million files takes minutes


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. No ``scenarios``: all that come with cfetch for it; ``seeds``: the runs of each."""

    scenarios: tuple[str, ...] = ()
    seeds: int = SEEDS
    policies: tuple[str, ...] = POLICIES


_Job = tuple[Scenario, str, int]  # a scenario, a policy, a seed


def run(options: SimulationOptions, say: Callable[[str], None] = lambda _: None) -> Simulation:
    """Play every scenario under every policy and the ideal one, with seeds 1, 2, ... on all processors.

    ``say`` gets a line for a person now and then.

    Raises:
        ConfigError: no such scenario, or a wrong one.
        UsageError: no such policy.
    """
    scenarios = [_find_with_network(name) for name in options.scenarios or simulated_names()]
    for policy in options.policies:
        check_policy(policy)
    seeds = range(1, options.seeds + 1)
    names = (IDEAL, *options.policies)
    jobs = list(product(scenarios, names, seeds))
    played: list[Played] = []
    said_s = time.monotonic()
    for result in _play_all(jobs):
        played.append(result)
        if time.monotonic() - said_s >= SAY_EVERY_S:
            said_s = time.monotonic()
            say(f"{len(played)} of {len(jobs)} runs; {result.scenario}, {result.policy}")
    size = len(names) * len(seeds)
    return Simulation(
        version=__version__,
        seeds=list(seeds),
        scenarios=[
            compare(scenario, played[index * size : (index + 1) * size])
            for index, scenario in enumerate(scenarios)
        ],
        runs=played,
    )


def _find_with_network(name: str) -> Scenario:
    scenario = find_scenario(name)
    if scenario.network is None:
        raise ConfigError(
            f"scenario {scenario.name!r} does not say what its network is like, so nothing of it takes any "
            "time; give it a 'network', with a rate at least"
        )
    return scenario


def _play_all(jobs: Sequence[_Job]) -> Iterator[Played]:
    """Play the jobs on all processors; yield their results in order."""
    workers = min(os.cpu_count() or 1, len(jobs))
    if workers == 1 or sum(len(scenario.files) for scenario, *_ in jobs) < FEW_FILES:
        yield from starmap(simulate, jobs)
        return
    left_to_us = (signal.SIGINT, signal.SIG_IGN)  # only this process handles Ctrl-C, which all get
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, signal.signal, left_to_us) as pool:
        try:
            yield from pool.map(simulate, *zip(*jobs, strict=True))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def compare(scenario: Scenario, played: Sequence[Played]) -> ScenarioComparison:
    """The runs of one scenario under all policies and the ideal one, which has to be among them."""
    ideal_s = {run.seed: run.makespan_s for run in played if run.policy == IDEAL}
    policies = dict.fromkeys(run.policy for run in played if run.policy != IDEAL)
    rows = [_make_row(name, [run for run in played if run.policy == name], ideal_s) for name in policies]
    return ScenarioComparison(
        scenario=scenario.name,
        description=scenario.description,
        files=len(scenario.files),
        size_bytes=scenario.size_bytes,
        ideal_s=median(ideal_s.values()),
        rows=rows,
        verdict=verdict(rows),
    )


def _make_row(policy: str, runs: Sequence[Played], ideal_s: dict[int, float]) -> PolicyRow:
    ratios = [played.makespan_s / max(ideal_s[played.seed], 1e-6) for played in runs]
    return PolicyRow(
        policy=policy,
        makespan_s=median(played.makespan_s for played in runs),
        ratio_p50=round(median(ratios), 4),
        ratio_worst=round(max(ratios), 4),
        mitigations=fmean(played.mitigations for played in runs),
        false_alarms=fmean(played.false_alarms for played in runs),
        twice=fmean(played.twice_bytes / max(played.size_bytes, 1) for played in runs),
        not_done=sum(played.failed for played in runs),
    )
