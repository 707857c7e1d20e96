"""What ``--durability power`` costs over ``crash``: 5,000 files of 16 KiB onto a real disk, in turn.

Prints median wall and CPU seconds of each and their ratios. Usage::

    python benchmarks/durability.py --folder DIRECTORY_ON_A_DISK [--rounds 5]
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.static_server import static_server

KINDS = ("crash", "power")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, required=True, help="on the disk to be measured")
    args = parser.parse_args()
    scenario = find_scenario("clean-16k")
    walls: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpus: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with (
        tempfile.TemporaryDirectory(dir=args.folder) as outer,
        static_server(scenario, Path(outer)) as (_, base_url, _),
    ):
        manifest = Path(outer, "manifest.json")
        manifest.write_bytes(scenario.manifest(base_url))
        for number in range(-1, args.rounds):
            for kind in sorted(KINDS, reverse=number % 2 == 0):
                with tempfile.TemporaryDirectory(dir=outer) as to:
                    options = ["--to", to, "--quiet", "--durability", kind]
                    command = [sys.executable, "-m", "cfetch", "download", str(manifest), *options]
                    outcome = run_child(command, limit_s=300.0)
                if outcome.exit_code:
                    raise SystemExit(outcome.error)
                if number >= 0:
                    walls[kind].append(outcome.wall_s)
                    cpus[kind].append(outcome.cpu_s)
    medians = {kind: (statistics.median(walls[kind]), statistics.median(cpus[kind])) for kind in KINDS}
    for kind, (wall_s, cpu_s) in medians.items():
        print(f"{kind:6} wall {wall_s:.2f} s, CPU {cpu_s:.2f} s")
    print(f"ratio  wall {medians['power'][0] / medians['crash'][0]:.2f}x, "
          f"CPU {medians['power'][1] / medians['crash'][1]:.2f}x")  # fmt: skip


if __name__ == "__main__":
    main()
