"""Runs two checkouts of cfetch in turn: start, small files, files of 1 MiB, stragglers.

The other has an environment of its own; servers are this checkout's for both. Prints the median of each and,
for each work, the median ratio of the pairs with its least and most. Every file is compared with what was
served. Usage::

    python benchmarks/two_checkouts.py OTHER/.venv/bin/python [--rounds 9] [--folder /dev/shm] [--work NAME]
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from start_time import time_first_request

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.content import count_right
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.static_server import static_server

LIMIT_S = 300.0
Run = Callable[[Sequence[str], Path], float]  # cfetch's command, an empty folder -> seconds


def run_help(cfetch: Sequence[str], _: Path) -> float:
    """``cfetch --help``."""
    return run_child([*cfetch, "--help"], limit_s=LIMIT_S).wall_s


def run_first_request(cfetch: Sequence[str], folder: Path) -> float:
    """From the start of a download to its first request."""
    return time_first_request(folder, cfetch)


def run_download(cfetch: Sequence[str], folder: Path, scenario: Scenario, url: str) -> float:
    """A whole download of a scenario's files."""
    manifest, to = folder / "manifest.json", folder / "files"
    manifest.write_bytes(scenario.manifest(url))
    options = ["--to", str(to), "--metrics", str(folder / "metrics.jsonl"), "--quiet", "--json"]
    command = [*cfetch, "download", str(manifest), *options, *scenario.arguments()]
    outcome = run_child(command, limit_s=LIMIT_S)
    if outcome.exit_code != 0 or count_right(to, scenario.names, scenario.files) != len(scenario.names):
        raise SystemExit(f"{cfetch[0]} ended with code {outcome.exit_code}: {outcome.error}")
    return outcome.wall_s


@contextmanager
def open_work(name: str, folder: Path) -> Iterator[Run]:
    """What is timed of a work; a scenario without faults has one server for all its runs."""
    if name in STARTS:
        yield STARTS[name]
        return
    scenario = find_scenario(name)
    if not scenario.faults:
        with static_server(scenario, folder) as server:
            yield lambda cfetch, inner: run_download(cfetch, inner, scenario, server.url)
        return

    def run(cfetch: Sequence[str], inner: Path) -> float:
        with OriginProcess(scenario.spec(faulty=True)) as origin:  # it counts the connections that crawl
            return run_download(cfetch, inner, scenario, origin.url)

    yield run


STARTS: dict[str, Run] = {"help": run_help, "first request": run_first_request}
WORKS = [*STARTS, "clean-16k", "clean-1m", "stragglers-quick"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("other", type=Path, help="the Python of the other checkout")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, default=None, help="where files go")
    parser.add_argument("--work", choices=WORKS, action="append", help="only this one; may be repeated")
    args = parser.parse_args()
    pythons = {"this": sys.executable, "other": args.other}
    # -P: otherwise both would import the cfetch of the directory in which this was started
    commands = {kind: (str(python), "-P", "-m", "cfetch") for kind, python in pythons.items()}
    print(f"{'work':17} {'this':>8} {'other':>8}   this over other, least to most")
    for name in args.work or WORKS:
        walls: dict[str, list[float]] = {kind: [] for kind in commands}
        with (
            tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-pairs-") as outer,
            open_work(name, Path(outer)) as run,
        ):
            for number in range(-1, args.rounds):
                for kind in sorted(commands, reverse=number % 2 == 0):
                    with tempfile.TemporaryDirectory(dir=outer) as inner:
                        wall_s = run(commands[kind], Path(inner))
                    if number >= 0:  # the first of each does not count
                        walls[kind].append(wall_s)
        ratios = [this / other for this, other in zip(walls["this"], walls["other"], strict=True)]
        this_s, other_s = statistics.median(walls["this"]), statistics.median(walls["other"])
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:17} {this_s:7.3f}s {other_s:7.3f}s   {spread}", flush=True)


if __name__ == "__main__":
    main()
