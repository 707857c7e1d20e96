"""Scenarios of the simulator on a real wire: what each policy needs there, beside what was simulated.

Every run is a `cfetch download` of its own against an origin process that enacts the scenario's network. For
one machine the scenarios are made smaller: sizes and rates by the same factor, so that every file takes as
long as before, and there are fewer files. Both sides play the smaller one. Usage::

    python benchmarks/policies_loopback.py [--only NAME …] [--against-simulation] [--json]

With ``--against-simulation`` ten of them are run without mitigation and with the adaptive policy, and the
exit code is 1 if one took over 15 % more or less than it took simulated.

A makespan is from the first attempt's start to the last file's end. The simulator knows of no processor time;
so the machine has to be quiet.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.plugins.lab.bench.compare import run_once
from cfetch.plugins.lab.bench.network import NetworkChange, NetworkModel
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import load_scenario
from cfetch.plugins.lab.bench.simulation.play import simulate
from cfetch.plugins.lab.views.bench_document import Figures

FOLDER = Path(__file__).parent / "scenarios" / "simulated"
POLICIES = ("ideal", "none", "cloudfetch", "adaptive")


class Smaller(NamedTuple):
    """Sizes and rates are divided by ``bytes_by``; numbers of files and times of changes by ``files_by``.

    ``seed``: another than the scenario's, where with its own the few connections that are left are all good.
    """

    bytes_by: int = 1
    files_by: int = 1
    seed: int | None = None


CHOSEN = {
    "cloudfetch-example": Smaller(),
    "slow-small-files": Smaller(),
    "stalls": Smaller(bytes_by=16, files_by=4),
    "full-link": Smaller(bytes_by=4, files_by=4, seed=3),
    "slow-host": Smaller(bytes_by=16, files_by=4),
    "network-dip": Smaller(bytes_by=16, files_by=3),
    "slow-thirty-percent": Smaller(),
    "eight-connections": Smaller(),
    "cold-cache": Smaller(),
    "wear": Smaller(),
    "burst": Smaller(bytes_by=2),
    "unknown-sizes": Smaller(),
    "slow-start": Smaller(files_by=4),
}
COMPARED = (*(name for name in CHOSEN if name not in ("stalls", "slow-small-files", "full-link")),)
MOST_APART = 0.15


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run on the wire and the same simulated."""

    scenario: str
    policy: str
    real_s: float
    simulated_s: float
    mitigations: int
    simulated_mitigations: int
    false_alarms: int
    twice_bytes: int
    not_done: int
    cpu_s: float


def smaller(scenario: Scenario, by: Smaller) -> Scenario:
    """The same in little; raises ValueError where bytes of faults would have to shrink as well."""
    if scenario.rules and by.bytes_by != 1:
        raise ValueError(f"{scenario.name} has faults, which keep their rates")
    groups = tuple(
        msgspec.structs.replace(
            group, count=-(-group.count // by.files_by), size_bytes=group.size_bytes // by.bytes_by
        )
        for group in scenario.groups
    )
    network = _thinner(scenario.network, by) if scenario.network else None
    seed = scenario.seed if by.seed is None else by.seed
    return msgspec.structs.replace(scenario, groups=groups, network=network, seed=seed)


def _thinner(network: NetworkModel, by: Smaller) -> NetworkModel:
    slow, stalls, factor = network.slow, network.stalls, by.bytes_by
    wear, burst, loss = network.wear, network.burst, network.loss
    return msgspec.structs.replace(
        network,
        rate_bps=network.rate_bps and network.rate_bps / factor,
        rates_bps=tuple(rate / factor for rate in network.rates_bps),
        link_bps=network.link_bps and network.link_bps / factor,
        slow=slow
        and msgspec.structs.replace(
            slow, rate_bps=slow.rate_bps / factor, after_bytes=slow.after_bytes // factor
        ),
        stalls=stalls and msgspec.structs.replace(stalls, after_bytes=stalls.after_bytes // factor),
        wear=wear
        and msgspec.structs.replace(
            wear, every_bytes=wear.every_bytes // factor, least_bps=wear.least_bps / factor
        ),
        burst=burst
        and msgspec.structs.replace(
            burst, size_bytes=burst.size_bytes // factor, rate_bps=burst.rate_bps / factor
        ),
        loss=loss
        and msgspec.structs.replace(
            loss, every_bytes=loss.every_bytes // factor, for_bytes=loss.for_bytes // factor
        ),
        changes=tuple(_sooner(change, by.files_by) for change in network.changes),
    )


def _sooner(change: NetworkChange, factor: int) -> NetworkChange:
    return msgspec.structs.replace(
        change, at_s=change.at_s / factor, until_s=change.until_s and change.until_s / factor
    )


def on_the_wire(scenario: Scenario, policy: str) -> Figures:
    """One run of the real command."""
    with tempfile.TemporaryDirectory(prefix="cfetch-policies-") as folder:
        if policy == "ideal":
            return run_once(scenario, Path(folder), "ideal", faulty=False, flags=["--no-mitigation"])
        if policy == "none":
            return run_once(scenario, Path(folder), "none", faulty=True, flags=["--no-mitigation"])
        return run_once(scenario, Path(folder), "mitigated", faulty=True, flags=["--policy", policy])


def measure(scenario: Scenario, policy: str) -> Row:
    """Both sides of one policy."""
    real, played = on_the_wire(scenario, policy), simulate(scenario, policy)
    return Row(
        scenario=scenario.name,
        policy=policy,
        real_s=real.makespan_s,
        simulated_s=played.makespan_s,
        mitigations=real.mitigations,
        simulated_mitigations=played.mitigations,
        false_alarms=real.false_alarms,
        twice_bytes=real.wasted_bytes,
        not_done=len(scenario.names) - real.done + real.wrong,
        cpu_s=real.cpu_s,
    )


def line(row: Row) -> str:
    """Of the table."""
    cells = (
        row.scenario,
        row.policy,
        f"{row.real_s:.1f} s",
        f"{row.simulated_s:.1f} s",
        f"{row.simulated_s / row.real_s:.2f}",
        f"{row.mitigations} ({row.simulated_mitigations})",
        f"{row.false_alarms}",
        f"{row.twice_bytes / 2**20:.1f} MiB",
        f"{row.not_done}",
        f"{row.cpu_s:.1f} s",
    )
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| scenario | policy | on the wire | simulated | ratio | mitigations (simulated) | false alarms "
    "| fetched twice | not done | CPU |\n|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """A Markdown table, line by line, or all rows as JSON at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=CHOSEN)
    parser.add_argument("--policies", nargs="+", choices=POLICIES)
    parser.add_argument("--against-simulation", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    names = args.only or (COMPARED if args.against_simulation else CHOSEN)
    policies = args.policies or (("none", "adaptive") if args.against_simulation else POLICIES)
    rows = []
    if not args.json:
        print(HEAD)
    for name in names:
        scenario = smaller(load_scenario(FOLDER / f"{name}.yaml"), CHOSEN[name])
        for policy in policies:
            rows.append(measure(scenario, policy))
            if not args.json:
                print(line(rows[-1]), flush=True)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(rows) + b"\n")
    if args.against_simulation and any(abs(row.simulated_s / row.real_s - 1) > MOST_APART for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
