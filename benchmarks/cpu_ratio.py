"""What cfetch costs beyond a bare aiohttp loop: CPU time of both on clean sets, metrics on, in turn.

Prints, for 500 files of 1 MiB and 5,000 of 16 KiB, the median CPU seconds of each (user + system of the
process, as the kernel accounts it) and their ratio: with start-up, and less the start-up measured on an empty
manifest. Every file is compared with what was served. Usage::

    python benchmarks/cpu_ratio.py [--rounds 7] [--folder /dev/shm] [-- OPTIONS OF cfetch download]
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import count_right
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.static_server import static_server

SETS = ("clean-1m", "clean-16k")
LIMIT_S = 300.0
EMPTY = '{"version": 1, "base_url": "http://127.0.0.1/", "files": []}'


class Times(NamedTuple):
    """Medians in seconds."""

    cpu_s: float
    wall_s: float


def once(kind: str, manifest: Path, folder: Path, more: list[str], scenario: Scenario | None) -> Times:
    """One run of either program into an empty folder."""
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        to = Path(inner, "files")
        to.mkdir()
        command = [sys.executable, str(Path(__file__).with_name("bare_loop.py")), str(manifest), str(to)]
        if kind == "cfetch":
            options = ["--to", str(to), "--metrics", str(Path(inner, "metrics.jsonl")), "--quiet", "--json"]
            command = [*CFETCH, "download", str(manifest), *options, *more]
        outcome = run_child(command, limit_s=LIMIT_S)
        if outcome.exit_code != 0:
            raise SystemExit(f"{kind} ended with code {outcome.exit_code}: {outcome.error}")
        if scenario is not None and count_right(to, scenario.names, scenario.files) != len(scenario.names):
            raise SystemExit(f"{kind} left files that are missing or wrong")
    return Times(outcome.cpu_s, outcome.wall_s)


def measure(
    scenario: Scenario | None, manifest: Path, folder: Path, rounds: int, more: list[str]
) -> dict[str, Times]:
    """Medians of ``rounds`` runs of each, in turn, after one of each that does not count."""
    runs: dict[str, list[Times]] = {"bare loop": [], "cfetch": []}
    for number in range(-1, rounds):
        for kind in sorted(runs, reverse=number % 2 == 0):
            times = once(kind, manifest, folder, more, scenario)
            if number >= 0:
                runs[kind].append(times)
    return {kind: Times(*map(statistics.median, zip(*times, strict=True))) for kind, times in runs.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where files go; a RAM disk measures CPU best"
    )
    parser.add_argument("more", nargs="*", help="options for cfetch download, after --")
    args = parser.parse_args()
    print(f"{'set':10} {'':10} {'CPU':>8} {'wall':>8}   CPU less start-up")
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-cpu-") as outer:
        folder = Path(outer)
        empty = folder / "empty.json"
        empty.write_text(EMPTY)
        start = measure(None, empty, folder, args.rounds, args.more)
        for kind, times in start.items():
            print(f"{'start-up':10} {kind:10} {times.cpu_s:7.3f}s {times.wall_s:7.3f}s")
        for name in SETS:
            report(find_scenario(name), folder, start, args)


def report(scenario: Scenario, folder: Path, start: dict[str, Times], args: argparse.Namespace) -> None:
    """One set: both programs and their ratio."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as inner,
        static_server(scenario, Path(inner)) as server,
    ):
        manifest = folder / f"{scenario.name}.json"
        manifest.write_bytes(scenario.manifest(server.url))
        medians = measure(scenario, manifest, folder, args.rounds, args.more)
    work = {kind: times.cpu_s - start[kind].cpu_s for kind, times in medians.items()}
    for kind, times in medians.items():
        row = f"{scenario.name:10} {kind:10} {times.cpu_s:7.3f}s {times.wall_s:7.3f}s {work[kind]:7.3f}s"
        print(f"{row}   from {server.name}")
    ratio = medians["cfetch"].cpu_s / medians["bare loop"].cpu_s
    print(f"{scenario.name:10} {'ratio':10} {ratio:7.2f}x {'':8} {work['cfetch'] / work['bare loop']:7.2f}x")


if __name__ == "__main__":
    main()
