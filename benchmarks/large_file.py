"""What one large file costs: ``cfetch get`` beside ``aria2c -x16`` and curl; and what a stated SHA-256 costs.

Each tool gets the file from a plain server, and from one that limits each connection (nginx, ``limit_rate``).
Files are in memory where the system has a folder there. Prints medians::

    python benchmarks/large_file.py [--rounds 5] [--size-mib 1024] [--limit-mib 4]
    python benchmarks/large_file.py --hash [--files 1] [-- OPTIONS OF cfetch download]
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from cfetch.plugins.lab.bench.child import Outcome, run_child
from cfetch.plugins.lab.bench.clean import MEMORY
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group, count_right
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.static_server import static_server

LIMIT_S = 300.0
LIMITED_BYTES = 128 << 20  # of the file from a server that limits connections: curl takes half a minute

Command = Callable[[str], list[str]]
"""The words of a tool for a folder."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--limit-mib", type=int, default=4, help="MiB/s of a connection to the limited server"
    )
    parser.add_argument("--size-mib", type=int, default=1024, help="of the file from the plain server")
    parser.add_argument("--hash", action="store_true", help="compare with and without a stated SHA-256")
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("more", nargs="*", help="options for cfetch download, after --")
    args = parser.parse_args()
    if args.hash:
        measure_hash(args.rounds, args.files, args.more)
    else:
        measure_tools(args.rounds, args.size_mib << 20, None)
        measure_tools(args.rounds, LIMITED_BYTES, args.limit_mib << 20)


def measure_tools(rounds: int, size_bytes: int, connection_bps: int | None) -> None:
    """Compare cfetch with other tools."""
    scenario = Scenario(name="large", groups=(Group("large-", 1, size_bytes),))
    limit = "" if connection_bps is None else f", {connection_bps >> 20} MiB/s a connection"
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="cfetch-large-") as outer,
        static_server(scenario, Path(outer), connection_bps=connection_bps) as server,
    ):
        url = server.url + scenario.names[0]
        tools: dict[str, Command] = {
            "cfetch get": lambda to: [*CFETCH, "get", url, "--to", to, "--quiet"],
            "aria2c -x16": lambda to: [
                *("aria2c", "-q", "--no-conf", "-x16", "-s16", "-k1M", "--file-allocation=none"),
                *("-d", to, url),
            ],
            "curl": lambda to: ["curl", "-sS", "--fail", "--output-dir", to, "-O", url],
        }
        there = {name: tool for name, tool in tools.items() if shutil.which(tool("")[0])}
        print(f"one file of {size_bytes >> 20} MiB from {server.name}{limit}")
        show(run_in_turn(scenario, Path(outer), rounds, there))


def measure_hash(rounds: int, files: int, more: list[str]) -> None:
    """Compare downloads with a stated SHA-256 and without."""
    scenario = Scenario(name="large", groups=(Group("large-", files, 1 << 30),))
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="cfetch-hash-") as outer,
        static_server(scenario, Path(outer)) as server,
    ):
        manifests = {name: Path(outer, f"{name}.json") for name in ("without", "sha256")}
        document = json.loads(scenario.manifest(server.url))
        manifests["without"].write_text(json.dumps(document))
        for file in document["files"]:
            file["sha256"] = scenario.files[file["url"]].sha256()
        manifests["sha256"].write_text(json.dumps(document))

        def download(name: str) -> Command:
            return lambda to: [*CFETCH, "download", str(manifests[name]), "--to", to, "--quiet", *more]

        runs = run_in_turn(scenario, Path(outer), rounds, {name: download(name) for name in manifests})
        show(runs)
        print(f"ratio        {median_wall_s(runs['sha256']) / median_wall_s(runs['without']):.2f}")


def run_in_turn(
    scenario: Scenario, outer: Path, rounds: int, commands: Mapping[str, Command]
) -> dict[str, list[Outcome]]:
    """Run the commands in turn, forwards and backwards, each into an empty folder; check every file."""
    runs: dict[str, list[Outcome]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in sorted(commands, reverse=number % 2 == 0):
            with tempfile.TemporaryDirectory(dir=outer) as to:
                outcome = run_child(commands[name](to), limit_s=LIMIT_S)
                if count_right(Path(to), scenario.names, scenario.files) != len(scenario.names):
                    raise SystemExit(f"{name}: a file is missing or wrong: {outcome.error}")
                runs[name].append(outcome)
    return runs


def show(runs: Mapping[str, list[Outcome]]) -> None:
    """Print the medians."""
    for name, outcomes in runs.items():
        cpu_s = statistics.median(outcome.cpu_s for outcome in outcomes)
        print(f"{name:12} wall {median_wall_s(outcomes):.2f} s, CPU {cpu_s:.2f} s", flush=True)


def median_wall_s(outcomes: list[Outcome]) -> float:
    """The median of the wall times."""
    return statistics.median(outcome.wall_s for outcome in outcomes)


if __name__ == "__main__":
    main()
