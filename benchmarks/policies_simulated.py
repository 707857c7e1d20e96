"""Every policy over every simulated network and seed, beside the oracle and a model of curl: one table.

A ratio is a makespan over the oracle's with the same seed (``oracle_client.py`` says what the oracle
knows, and what it obeys). Usage::

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
from simulated_clients import play

from cfetch.plugins.lab.bench.scenario_file import find_scenario, simulated_names
from cfetch.plugins.lab.views.simulation_document import Played

JUDGED = "adaptive"
POLICIES = ("none", "cloudfetch", "curl", JUDGED)
BASE = "oracle"


class Game(NamedTuple):
    """One run; its fields are those of ``play``."""

    network: str
    policy: str
    seed: int

    def play(self) -> Played:
        """Play it."""
        return play(find_scenario(self.network), self.policy, self.seed)


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


def head(policies: Sequence[str]) -> str:
    """Format the head of the table; of ``adaptive`` it says most."""
    others = [f"{name} |" for name in policies if name != JUDGED]
    cells = " ".join(["| network | oracle, s |", *others])
    if JUDGED in policies:
        cells += f" {JUDGED}: median, worst (seed) | worst over none | in vain/cancelled |"
    return f"{cells}\n{'|---' * (cells.count('|') - 1)}|"


def line(rows: Sequence[Row]) -> str:
    """Format the row of a network, of which ``rows`` has one for each policy."""
    cells = [rows[0].network, f"{rows[0].oracle_s:.1f}"]
    others = [row for row in rows if row.policy != JUDGED]
    cells += [f"{row.ratio_p50:.2f}{'; failed' if row.failed else ''}" for row in others]
    for row in rows:
        if row.policy == JUDGED:
            cells += [
                f"{row.ratio_p50:.2f}, {row.ratio_worst:.2f} ({row.worst_seed})",
                f"{row.over_none_worst:.2f}{'; failed' if row.failed else ''}",
                f"{row.false_alarms:.1f}/{row.mitigations:.1f}",
            ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a Markdown table, a row for each network, or all rows as JSON at the end."""
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
        print(head(policies), flush=True)
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        games = [Game(*game) for game in product(networks, played, seeds)]
        results = pool.map(Game.play, games)
        for _ in networks:
            runs = {name: [next(results) for _ in seeds] for name in played}
            of_network = [summarize(runs[name], runs[BASE], runs["none"]) for name in policies]
            rows += of_network
            if not args.json:
                print(line(of_network), flush=True)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(rows) + b"\n")


if __name__ == "__main__":
    main()
