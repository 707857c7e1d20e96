"""What the timeline costs a run: 5,000 files of 16 KiB, with it and without it.

Times what the timeline does inside real runs (opening, schedule, start, commit, tidying up), and counts the
file operations of runs of two sizes under strace: those at ``timeline``, ``heartbeats`` and ``lock`` must not
grow with the number of files, and all others must be those of a run without the timeline. Usage::

    python benchmarks/timeline_cost.py [--rounds 5] [--folder DIR] [--json]
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cfetch.app import download, plan_on_timeline, prepared
from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.manifest.plan import Plan
from cfetch.plugins.lab.bench.child import clean_environment
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.static_server import static_server
from cfetch.run.frame import RunFrame
from cfetch.run.local_run import LocalEngine
from cfetch.show.metrics import MetricsFile
from cfetch.timeline.execution import Execution
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.table import Table

SMALL, LARGE = 500, 5000
LIMIT_S = 300.0
CALLS = (
    "openat,open,creat,mkdir,mkdirat,rmdir,unlink,unlinkat,link,linkat,rename,renameat,renameat2,stat,lstat,"
    "newfstatat,statx,fstat,read,pread64,write,pwrite64,fsync,fdatasync,syncfs,ftruncate,getdents64,close,"
    "chmod,fchmod,flock,fsetxattr,fgetxattr"
)
ROOMS = re.compile(r"/to/[.]cfetch/(timeline|heartbeats|lock)|/to/[.]cfetch>, \"(timeline|heartbeats|lock)")


class Spent:
    """Wall and CPU seconds inside the functions that were given to ``timed``, without what they share."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0
        self.by: dict[str, float] = defaultdict(float)
        self._depth = 0

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed; calls inside another timed one are that one's."""

        def call(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - whatever it was given
            self._depth += 1
            wall_s, cpu_s = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **more)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.wall_s += time.perf_counter() - wall_s
                    self.cpu_s += time.thread_time() - cpu_s
                    self.by[name] += time.perf_counter() - wall_s

        return call


class Nobody:
    """Guards nothing."""

    instant = "20260101T000000000Z-0000"
    epoch = 1

    def confirm(self) -> None:
        """It is."""

    def commit(self, *, files: int, size_bytes: int) -> None:
        """Nothing to complete."""

    @property
    def run_id(self) -> str:
        """Of nobody's run."""
        return f"{self.instant}.1"

    def release(self) -> None:
        """Nothing to give back."""


class Outcome(NamedTuple):
    """Seconds: of the whole run from the manifest to its end, and of the timeline's part in it."""

    run_s: float
    run_cpu_s: float
    own_s: float
    own_cpu_s: float
    by: dict[str, float]


def child(manifest: str, to: str, *, bare: bool) -> Outcome:
    """One run in this process; ``bare``: the same without a timeline."""
    spent = Spent()
    for module, name in ((plan_on_timeline, "start"), (prepared, "tidy_up")):
        setattr(module, name, spent.timed(name, getattr(module, name)))
    row = plan_on_timeline.PlanOnTimeline
    setattr(row, "put", spent.timed("schedule", row.put))  # noqa: B010
    for owner, method, name in (
        (Table, "__init__", "open"),
        (LocalFiles, "__init__", "open"),
        (Execution, "commit", "commit"),
        (Execution, "release", "release"),
    ):
        setattr(owner, method, spent.timed(name, getattr(owner, method)))
    settings = Settings(to=(to,), heartbeat_interval=3600.0, metrics=f"{to}.jsonl", quiet=True)
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    with download.prepare(manifest, settings, env={}) as plan:
        if bare:
            staging = f"attempts/{Nobody.instant}/1"
            Path(to, ".cfetch", staging).mkdir(parents=True)
            (volume,) = plan._volumes.local
            volume.stage(staging)
            assert isinstance(plan.plan, Plan)
            engine = LocalEngine(
                plan.plan,
                plan._volumes,
                settings,
                network=plan._context.network,
                refresher=lambda _: None,
            )
            frame = RunFrame(engine, plan.plan, [to], settings, SystemClock())
            summary = frame.go(Nobody(), MetricsFile(Path(f"{to}.jsonl")), lambda _: None)
        else:
            found = plan.run(lambda _: None)
            assert found is not None
            summary = found
    if summary.exit_code:
        raise SystemExit(f"a run ended with {summary.exit_code}")
    run_s, run_cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    return Outcome(run_s, run_cpu_s, spent.wall_s, spent.cpu_s, dict(spent.by))


def run(manifest: Path, folder: Path, *, bare: bool, trace: Path | None = None) -> Outcome:
    """One run in a process of its own, into an empty directory."""
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        command = [sys.executable, __file__, "--child", str(manifest), f"{inner}/to"]
        command += ["--bare"] if bare else []
        if trace is not None:
            command = ["strace", "-qq", "-f", "-y", "-o", str(trace), f"-etrace={CALLS}", *command]
        done = subprocess.run(
            command, capture_output=True, check=False, env=clean_environment(), timeout=LIMIT_S
        )
    if done.returncode:
        raise SystemExit(done.stderr.decode(errors="replace")[-1000:])
    return Outcome(*json.loads(done.stdout))


def count(manifest: Path, folder: Path, *, bare: bool) -> tuple[int, int]:
    """File operations below the destination: the timeline's own, and all others."""
    trace = folder / "trace"
    run(manifest, folder, bare=bare, trace=trace)
    lines = [line for line in trace.read_text(errors="replace").splitlines() if "/to" in line]
    below = [line for line in lines if str(folder) in line and "resumed>" not in line]
    own = sum(ROOMS.search(line) is not None for line in below)
    return own, len(below) - own


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where; a temporary directory unless given")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(*args.child, bare=args.bare)))
        return
    scenario = find_scenario("clean-16k")
    with (
        tempfile.TemporaryDirectory(dir=args.folder) as outer,
        static_server(scenario, Path(outer)) as (server, url, _),
    ):
        folder = Path(outer)
        large, small = folder / "large.json", folder / "small.json"
        large.write_bytes(scenario.manifest(url))
        document = msgspec.json.decode(large.read_bytes())
        assert len(document["files"]) == LARGE
        small.write_bytes(msgspec.json.encode(document | {"files": document["files"][:SMALL]}))
        runs: dict[bool, list[Outcome]] = {True: [], False: []}
        for number in range(-1, args.rounds):
            for bare in (True, False) if number % 2 else (False, True):
                outcome = run(large, folder, bare=bare)
                if number >= 0:
                    runs[bare].append(outcome)
        counts = {
            (size, bare): count(path, folder, bare=bare)
            for size, path in ((SMALL, small), (LARGE, large))
            for bare in (True, False)
        }
    tell(args, server, runs, counts)


def tell(
    args: argparse.Namespace,
    server: str,
    runs: dict[bool, list[Outcome]],
    counts: dict[tuple[int, bool], tuple[int, int]],
) -> None:
    """The figures; medians."""

    def median(values: list[float]) -> float:
        return statistics.median(values)

    with_it = runs[False]
    figures: dict[str, object] = {
        "server": server,
        "run_s": round(median([one.run_s for one in with_it]), 4),
        "timeline_s": round(median([one.own_s for one in with_it]), 4),
        "timeline_percent_of_wall": round(100 * median([one.own_s / one.run_s for one in with_it]), 3),
        "timeline_percent_of_cpu": round(100 * median([one.own_cpu_s / one.run_cpu_s for one in with_it]), 3),
        "run_without_s": round(median([one.run_s for one in runs[True]]), 4),
        "parts_ms": {
            name: round(1000 * median([one.by.get(name, 0.0) for one in with_it]), 3)
            for name in with_it[0].by
        },
        "timeline_operations": {str(size): counts[size, False][0] for size in (SMALL, LARGE)},
        "other_operations_per_entry": {
            name: round((counts[LARGE, bare][1] - counts[SMALL, bare][1]) / (LARGE - SMALL), 3)
            for name, bare in (("with", False), ("without", True))
        },
    }
    if args.json:
        print(json.dumps({"schema": "cfetch.timeline-cost/1", "rounds": args.rounds, **figures}))
    else:
        print("\n".join(f"{key}: {value}" for key, value in figures.items()))


if __name__ == "__main__":
    os.umask(0o022)
    main()
