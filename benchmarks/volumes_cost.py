"""What several volumes cost: the same download to one, two and four directories of one file system, in turn.

400 files of 1 MiB from nginx (or cfetch's own origin without it) to memory, so that neither the server nor a
disk is waited for. Prints medians of wall and processor time, and the ratio to one volume. Usage::

    python benchmarks/volumes_cost.py [--rounds 5] [--files 400] [--folder /dev/shm] [-- OPTIONS OF download]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from cfetch.plugins.lab.bench.clean import MEMORY
from cfetch.plugins.lab.bench.content import Group, count_right
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.static_server import static_server

VOLUMES = (1, 2, 4)
SIZE_BYTES = 1 << 20


class Cost(NamedTuple):
    """Wall and processor seconds of one run."""

    wall_s: float
    cpu_s: float


def measure_once(manifest: Path, volumes: int, scenario: Scenario, folder: Path, more: list[str]) -> Cost:
    """Download to so many new directories, and compare the files."""
    with tempfile.TemporaryDirectory(dir=folder) as to:
        places = [str(Path(to, f"v{number}")) for number in range(volumes)]
        words = [word for place in places for word in ("--to", place)]
        before = Cost(time.perf_counter(), sum(os.times()[2:4]))
        command = [sys.executable, "-m", "cfetch", "download", str(manifest), *words, "--quiet", *more]
        subprocess.run(command, check=True)
        cost = Cost(time.perf_counter() - before.wall_s, sum(os.times()[2:4]) - before.cpu_s)
        right = sum(count_right(Path(place), scenario.names, scenario.files) for place in places)
        if right != len(scenario.names):
            raise SystemExit(f"{len(scenario.names) - right} files are missing or wrong")
    return cost


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--folder", type=Path, default=MEMORY if MEMORY.is_dir() else None)
    parser.add_argument("more", nargs="*", help="options for cfetch download, after --")
    args = parser.parse_args()
    scenario = Scenario(name="volumes", groups=(Group("m", args.files, SIZE_BYTES),))
    costs: dict[int, list[Cost]] = {volumes: [] for volumes in VOLUMES}
    with (
        tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-volumes-") as outer,
        static_server(scenario, Path(outer)) as server,
    ):
        manifest = Path(outer, "manifest.json")
        manifest.write_bytes(scenario.manifest(server.url))
        for _ in range(args.rounds):
            for volumes in VOLUMES:
                costs[volumes].append(measure_once(manifest, volumes, scenario, Path(outer), args.more))
    one = statistics.median(cost.wall_s for cost in costs[1])
    print(f"{args.files} files of 1 MiB, served by {server.name}; medians of {args.rounds}")
    for volumes in VOLUMES:
        wall_s = statistics.median(cost.wall_s for cost in costs[volumes])
        cpu_s = statistics.median(cost.cpu_s for cost in costs[volumes])
        times = wall_s / one
        print(f"{volumes} volumes: {wall_s:.2f} s, {cpu_s:.2f} s of the processor, {times:.2f} times one's")


if __name__ == "__main__":
    main()
