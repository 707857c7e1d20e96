"""What `cfetch tune` costs, whether its advice is worth taking, and whether its promises hold.

Speed: synthetic runs of 10,000 files, 5 million attempts in all, through the 36 settings of the default grid,
by the local engine and by Spark on two threads. Every run is made by the code that replays it, from its seed,
so the figures are of the arithmetic and not of a disk. Usefulness: five real downloads from the loopback
origin, under the formula, are the history; the setting picked from them and the default then run on five
other seeds. Promises: five downloads under the adaptive policy are the history; what the replay of them says
of other multipliers is compared with downloads of other seeds that have these multipliers. Usage::

    python benchmarks/tune_replay.py [--runs N] [--rounds N] [--engine local|spark|both]
    python benchmarks/tune_replay.py --usefulness | --promises | --simulated [NETWORK …]

The first two take about 90 seconds and three minutes. The third makes the promises of runs in virtual time,
so that no other work on the machine has a part in them: for each network five runs are the history, five of
other seeds the test.
"""

import argparse
import heapq
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from cfetch.base.clock import SystemClock
from cfetch.base.errors import UsageError
from cfetch.base.events import RunStarted
from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import Fault, FaultRule
from cfetch.plugins.lab.bench.network import NetworkModel, Slow
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario, simulated_names
from cfetch.plugins.lab.bench.simulation.play import simulate
from cfetch.plugins.lab.tuning.choice import RunResult
from cfetch.plugins.lab.tuning.history import WHOLE, History
from cfetch.plugins.lab.tuning.recommendation import DEFAULT_GRID, format_config
from cfetch.plugins.lab.tuning.replay import Setting
from cfetch.plugins.lab.tuning.replay_job import CHUNK_BYTES, replay_on_spark
from cfetch.plugins.lab.tuning.runs import RecordedRun, replay_runs
from cfetch.plugins.lab.tuning.use_case import TuneOptions, tune
from cfetch.plugins.spark.session import spark_session
from cfetch.show.metrics import MetricsFile
from cfetch.show.metrics_reading import read_metrics

FILES = 10_000
WORKERS = 16
CHUNK = 10  # runs a task: 100,000 attempts
DEFAULT = Setting(1.5, 0.6, 5.0)
CHECKED = (1.5, 5.0)  # multipliers whose promises are compared with fresh runs


def synthetic(item: str, files: int = FILES) -> Iterator[RecordedRun]:
    """One run from its seed: sizes from 1 MiB to 256 MiB, 2 % of the attempts 5 to 30 times too slow."""
    dice = np.random.default_rng(int(item))
    size = np.exp(dice.uniform(np.log(1 << 20), np.log(1 << 28), files)).round()
    seconds = size / (20e6 * dice.lognormal(0, 0.3, files)) + 0.05
    slow = dice.random(files) < 0.02
    seconds[slow] *= dice.uniform(5, 30, int(slow.sum()))
    start, free = np.empty(files), [0.0] * WORKERS
    for at, lasting in enumerate(seconds.tolist()):
        start[at] = free[0]
        heapq.heapreplace(free, free[0] + lasting)
    none, zero = np.full(files, np.nan), np.zeros(files)
    columns = History(
        start_s=start, busy_s=seconds, end_s=start + seconds, before_s=zero, size_bytes=size, seen_s=seconds,
        got_bytes=size, rest_s=zero, ended=zero + WHOLE, fresh_bps=none, kept=none, sample_bps=size / seconds,
        host=zero,
    )  # fmt: skip
    yield RecordedRun(f"seed {item}", item, None, columns, WORKERS, 0.5, DEFAULT)


def speed(runs: int, rounds: int, engines: list[str]) -> None:
    """Print the median of the rounds' times, for each engine."""
    items, attempts = [str(seed) for seed in range(runs)], runs * FILES
    print(f"{attempts:,} attempts in {runs} runs x {len(DEFAULT_GRID)} settings, median of {rounds} rounds")
    answers = {}
    if "local" in engines:
        answers["local"] = timed(
            "local, one process", attempts, rounds, lambda: [*replay_runs(items, synthetic, DEFAULT_GRID)]
        )
    if "spark" in engines:
        began_s = time.perf_counter()
        with spark_session("local[2]") as spark:
            print(f"spark, start of the session  {time.perf_counter() - began_s:8.1f} s")
            sized = [(item, CHUNK_BYTES // CHUNK) for item in items]
            call = partial(replay_on_spark, spark, sized, synthetic, DEFAULT_GRID)
            answers["spark"] = timed("spark, local[2]", attempts, rounds, call)
    if len(answers) == 2:
        print(f"both engines answer alike: {answers['local'] == answers['spark']}")


def timed(name: str, attempts: int, rounds: int, call: Callable[[], list[RunResult]]) -> list[RunResult]:
    """The call's answer; prints its times."""
    times = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - began_s)
    middle = statistics.median(times)
    rate = attempts * len(DEFAULT_GRID) / middle
    print(
        f"{name:27}  {middle:8.1f} s  {attempts / middle:12,.0f} rows/s  {rate:14,.0f} rows x settings/s  "
        f"({', '.join(f'{one:.1f}' for one in times)})",
        flush=True,
    )
    return answer


def crawl(seed: int, count: int = 300) -> Scenario:
    """``count`` files of 256 KiB, 3 % of the first requests at 24 KiB/s: each 10.7 s if left alone."""
    slow = Fault(kind="slow", rate_bps=24 * 1024.0, first=1)
    return Scenario(
        name="tuning", seed=seed, groups=(Group(prefix="f-", count=count, size_bytes=256 << 10),),
        rules=(FaultRule(fraction=0.03, fault=slow),),
    )  # fmt: skip


def lag(seed: int) -> Scenario:
    """320 files of 1 MiB over connections of 1 MiB/s, of which one in twelve has a third of that."""
    mib = float(1 << 20)
    return Scenario(
        name="lagging", seed=seed, groups=(Group(prefix="f-", count=320, size_bytes=1 << 20),),
        network=NetworkModel(rate_bps=mib, latency_s=0.02, slow=Slow(fraction=1 / 12, rate_bps=mib / 3)),
    )  # fmt: skip


def download(one: Scenario, metrics: Path, *flags: str) -> float:
    """One run of the real command; its makespan by its own metrics."""
    with tempfile.TemporaryDirectory() as folder, OriginProcess(one.spec(faulty=True)) as origin:
        manifest = Path(folder) / "manifest.json"
        manifest.write_bytes(one.manifest(origin.url))
        command = [sys.executable, "-m", "cfetch", "download", str(manifest), "--to", f"{folder}/to"]
        done = run_child([*command, "--metrics", str(metrics), "--quiet", *flags], limit_s=120)
    if done.exit_code:
        raise SystemExit(f"a download ended with {done.exit_code}: {done.error}")
    return max(record.end_s for run in read_metrics([metrics]) for record in run.files)


def usefulness() -> None:
    """Print what the picked setting and the default make of runs that the choice has not seen."""
    formula = ("--policy", "cloudfetch")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{seed}.jsonl" for seed in range(5)]
        took = [download(crawl(seed), path, *formula) for seed, path in enumerate(paths)]
        print(f"history: 5 runs under the default, mean {statistics.fmean(took):.2f} s")
        found = tune(TuneOptions(metrics=tuple(paths)), SystemClock())
        config = Path(folder) / "tuned.yaml"
        config.write_text(format_config(found, "today"), encoding="utf-8")
        print(f"picked: {msgspec.json.encode(found.choice.recommended).decode()}")
        choice = found.choice
        print(f"promised: {choice.ratio.mean:.2f}, on runs held out {choice.held_out.ratio.mean:.2f}")
        for run in found.runs:
            print(f"  replayed as it was set {run.replayed_s:6.2f} s, recorded {run.recorded_s:6.2f} s")
        other, tuned = Path(folder) / "other.jsonl", []
        default = []
        for seed in range(100, 105):
            default.append(download(crawl(seed), other, *formula))
            tuned.append(download(crawl(seed), other, "--config", str(config)))
            print(f"  seed {seed}: default {default[-1]:6.2f} s, picked {tuned[-1]:6.2f} s", flush=True)
        gain = statistics.fmean(one / two for one, two in zip(tuned, default, strict=True))
        means = f"default {statistics.fmean(default):.2f} s, picked {statistics.fmean(tuned):.2f} s"
        print(f"other runs: {means}, {gain:.2f} of the default's")


def promises() -> None:
    """Print what the replay says of some multipliers, and what downloads with them take."""
    for name, scenario in (("crawl", crawl), ("long crawl", partial(crawl, count=2400)), ("lag", lag)):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{seed}.jsonl" for seed in range(5)]
            took = [download(scenario(seed), path) for seed, path in enumerate(paths)]
            print(f"{name}: history under the adaptive policy, {statistics.fmean(took):.2f} s", flush=True)
            try:
                tuning = tune(TuneOptions(metrics=tuple(paths)), SystemClock())
            except UsageError as refusal:
                print(f"  refused: {refusal}", flush=True)
                continue
            print(f"  advice: {tuning.leave or msgspec.json.encode(tuning.choice.recommended).decode()}")
            for run in tuning.runs:
                print(f"  replayed as it was set {run.replayed_s:6.2f} s, recorded {run.recorded_s:6.2f} s")
            for omission in tuning.left_out:
                print(f"  left out: {omission.reason}")
            for score in tuning.settings:
                if score.values.multiplier not in CHECKED:
                    continue
                given = ("--multiplier", str(score.values.multiplier))
                other, promised = Path(folder) / "other.jsonl", score.makespan_s.mean
                mean = statistics.fmean(download(scenario(seed), other, *given) for seed in range(100, 103))
                figures = f"promised {promised:6.2f} s, fresh runs {mean:6.2f} s: {promised / mean:.2f}"
                print(f"  multiplier {score.values.multiplier:<4} {figures}", flush=True)
            formula = tune(TuneOptions(metrics=tuple(paths), policy="cloudfetch"), SystemClock())
            print(f"  the formula on these runs: {formula.leave or formula.choice.recommended}")


def simulate_run(scenario: Scenario, seed: int, multiplier: float, metrics: Path) -> float:
    """One run in virtual time, and its metrics; its makespan."""
    options = {**scenario.options, "multiplier": str(multiplier)}
    scenario = msgspec.structs.replace(scenario, seed=seed, options=options)
    header = RunStarted(
        t_s=0.0, instant=str(seed), wall_start="2026-01-01T00:00:00Z", version="", host="",
        files=len(scenario.names), bytes_known=scenario.size_bytes, sizes_unknown=0, destination="",
        concurrency=scenario.concurrency, settings={"policy": "adaptive", "multiplier": multiplier},
    )  # fmt: skip
    with MetricsFile(metrics) as listen:
        listen(header)
        return simulate(scenario, "adaptive", listen=listen).makespan_s


def simulated(networks: list[str]) -> None:
    """Print for each network what the replay promises for each multiplier, and what fresh runs take."""
    print("| network | advice | multiplier | promised, s | fresh runs, s | promised / fresh |")
    print("|---|---|---|---|---|---|")
    for network in networks:
        scenario = find_scenario(network)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{seed}.jsonl" for seed in range(1, 6)]
            for seed, path in enumerate(paths, 1):
                simulate_run(scenario, seed, DEFAULT.multiplier, path)
            try:
                tuning = tune(TuneOptions(metrics=tuple(paths), policy="adaptive"), SystemClock())
            except UsageError as refusal:
                print(f"| {network} | refused: {str(refusal).splitlines()[0]} | | | | |", flush=True)
                continue
            advice = "leave the default" if tuning.leave else f"{tuning.choice.recommended.multiplier}"
            for score in tuning.settings:
                if score.values.multiplier not in CHECKED:
                    continue
                fresh_s = statistics.fmean(
                    simulate_run(scenario, seed, score.values.multiplier, Path(folder) / "other.jsonl")
                    for seed in range(101, 106)
                )
                promised_s = score.makespan_s.mean
                figures = f"{promised_s:.1f} | {fresh_s:.1f} | {promised_s / fresh_s:.2f}"
                print(f"| {network} | {advice} | {score.values.multiplier} | {figures} |", flush=True)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=("local", "spark", "both"), default="both")
    parser.add_argument("--usefulness", action="store_true")
    parser.add_argument("--promises", action="store_true")
    parser.add_argument("--simulated", nargs="*", metavar="NETWORK", help="without a name: all")
    given = parser.parse_args()
    if given.simulated is not None:
        simulated(given.simulated or simulated_names())
    elif given.promises:
        promises()
    elif not given.usefulness:
        speed(given.runs, given.rounds, ["local", "spark"] if given.engine == "both" else [given.engine])
    else:
        usefulness()


if __name__ == "__main__":
    main()
