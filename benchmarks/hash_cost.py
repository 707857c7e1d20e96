"""What a stated SHA-256 costs a large file: one file of 1 GiB with it and without it, in turn.

Files are in memory where the system has a folder there. Prints medians and their ratio::

    python benchmarks/hash_cost.py [--rounds 5] [--files 1] [-- OPTIONS OF cfetch download]
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from cfetch.bench.child import Outcome, run_child
from cfetch.bench.clean import MEMORY
from cfetch.bench.compare import CFETCH
from cfetch.bench.content import Group, count_right
from cfetch.bench.scenario import Scenario
from cfetch.bench.static_server import static_server

LIMIT_S = 300.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("more", nargs="*", help="options for cfetch download, after --")
    args = parser.parse_args()
    scenario = Scenario(name="large", groups=(Group("large-", args.files, 1 << 30),))
    runs: dict[str, list[Outcome]] = {"without": [], "sha256": []}
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="cfetch-hash-") as outer,
        static_server(scenario, Path(outer)) as server,
    ):
        manifests = {name: Path(outer, f"{name}.json") for name in runs}
        document = json.loads(scenario.manifest(server.url))
        manifests["without"].write_text(json.dumps(document))
        for file in document["files"]:
            file["sha256"] = scenario.files[file["url"]].sha256()
        manifests["sha256"].write_text(json.dumps(document))
        for number in range(args.rounds):
            for name in sorted(runs, reverse=number % 2 == 0):
                with tempfile.TemporaryDirectory(dir=outer) as to:
                    command = [*CFETCH, "download", str(manifests[name]), "--to", to, "--quiet", *args.more]
                    outcome = run_child(command, limit_s=LIMIT_S)
                    if count_right(Path(to), scenario.names, scenario.files) != args.files:
                        raise SystemExit(f"a file is missing or wrong: {outcome.error}")
                    runs[name].append(outcome)
    walls = {
        name: statistics.median(outcome.wall_s for outcome in outcomes) for name, outcomes in runs.items()
    }
    for name, outcomes in runs.items():
        cpu_s = statistics.median(outcome.cpu_s for outcome in outcomes)
        print(f"{name:8} wall {walls[name]:.2f} s, CPU {cpu_s:.2f} s")
    print(f"ratio    {walls['sha256'] / walls['without']:.2f}")


if __name__ == "__main__":
    main()
