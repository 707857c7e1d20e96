"""Every policy over every simulated network and seed, beside the oracle and a model of curl: one table.

A ratio is a makespan over the oracle's with the same seed (``cfetch/bench/simulation/oracle.py`` says what
the oracle knows, and what it obeys). Usage::

    python benchmarks/policies_simulated.py [--networks NAME,…] [--seeds 20] [--jobs 2] [--json]

Seeds are 1, 2, and so on; equal versions give equal tables. All networks with 20 seeds take about an hour of
two cores.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from cfetch.bench.scenario_file import find_scenario, simulated_names
from cfetch.bench.simulation.play import simulate
from cfetch.report.simulation_document import Played

POLICIES = ("none", "cloudfetch", "adaptive", "curl")
BASE = "oracle"


class Game(NamedTuple):
    """One run; its fields are those of ``simulate``."""

    network: str
    policy: str
    seed: int

    def play(self) -> Played:
        """Play it."""
        return simulate(find_scenario(self.network), self.policy, self.seed)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One policy in one network, over all seeds.

    ``ratio_p50`` and ``ratio_worst``: over the oracle. ``over_none_worst``: over the run without mitigation.
    ``mitigations``, ``false_alarms`` and ``twice`` (a share of the files' bytes) are means; ``failed`` files
    are those of all seeds.
    """

    network: str
    policy: str
    oracle_s: float
    makespan_s: float
    ratio_p50: float
    ratio_worst: float
    worst_seed: int
    over_none_worst: float
    mitigations: float
    false_alarms: float
    twice: float
    failed: int


def summarize(runs: Sequence[Played], oracle: Sequence[Played], none: Sequence[Played]) -> Row:
    """One row; all three are runs of one network, with the same seeds in the same order."""
    ratios = [run.makespan_s / max(best.makespan_s, 1e-6) for run, best in zip(runs, oracle, strict=True)]
    over_none = [run.makespan_s / max(left.makespan_s, 1e-6) for run, left in zip(runs, none, strict=True)]
    worst = max(range(len(runs)), key=ratios.__getitem__)
    return Row(
        network=runs[0].scenario,
        policy=runs[0].policy,
        oracle_s=round(median(best.makespan_s for best in oracle), 3),
        makespan_s=round(median(run.makespan_s for run in runs), 3),
        ratio_p50=round(median(ratios), 3),
        ratio_worst=round(ratios[worst], 3),
        worst_seed=runs[worst].seed,
        over_none_worst=round(max(over_none), 3),
        mitigations=round(fmean(run.mitigations for run in runs), 2),
        false_alarms=round(fmean(run.false_alarms for run in runs), 2),
        twice=round(fmean(run.twice_bytes / max(run.size_bytes, 1) for run in runs), 4),
        failed=sum(run.failed for run in runs),
    )


HEAD = (
    "| network | oracle, s | policy | median | worst (seed) | worst over none | cancelled | in vain | twice "
    "| failed |\n|---|---|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    """Format a row of the table."""
    cells = (
        row.network,
        f"{row.oracle_s:.1f}",
        row.policy,
        f"{row.ratio_p50:.2f}",
        f"{row.ratio_worst:.2f} ({row.worst_seed})",
        f"{row.over_none_worst:.2f}",
        f"{row.mitigations:.1f}",
        f"{row.false_alarms:.1f}",
        f"{row.twice:.1%}",
        f"{row.failed}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """A Markdown table, network by network, or all rows as JSON at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--networks", default="", help="names or YAML files with commas between; none: all")
    parser.add_argument("--policies", default=",".join(POLICIES), help="with commas between")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    networks = [name for name in args.networks.split(",") if name] or simulated_names()
    policies = [name for name in args.policies.split(",") if name]
    played = [BASE, *dict.fromkeys(("none", *policies))]
    seeds = range(1, args.seeds + 1)
    rows = []
    if not args.json:
        print(HEAD, flush=True)
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        games = [Game(*game) for game in product(networks, played, seeds)]
        results = pool.map(Game.play, games)
        for _ in networks:
            runs = {name: [next(results) for _ in seeds] for name in played}
            for name in policies:
                rows.append(summarize(runs[name], runs[BASE], runs["none"]))
                if not args.json:
                    print(line(rows[-1]), flush=True)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(rows) + b"\n")


if __name__ == "__main__":
    main()
