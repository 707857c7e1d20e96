"""Three runs of the real command on one seeded workload: no faults, faults, faults and mitigation.

Each run has an origin of its own in another process, its own empty folder, and default settings except for
the scenario's. All figures come from the metrics file that the run wrote, and from outside: wall and CPU time
of the process, and the comparison of its files with the origin's.
"""

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from cfetch.base.errors import LocalFault
from cfetch.base.events import Listener
from cfetch.base.records import FileRecord
from cfetch.plugins.lab.bench.child import Outcome, run_child
from cfetch.plugins.lab.bench.content import count_right
from cfetch.plugins.lab.bench.faults import Fault, fault_for
from cfetch.plugins.lab.bench.network import NetworkModel, connection_of
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.simulation.connections import GOOD, usual_bps
from cfetch.plugins.lab.bench.spec import JournalEntry
from cfetch.plugins.lab.bench.watching import watch_metrics
from cfetch.plugins.lab.views.bench_document import Figures, Machine
from cfetch.show.counts import Counts
from cfetch.show.format import plural
from cfetch.show.metrics_reading import MetricsRun, read_metrics

CFETCH = (sys.executable, "-m", "cfetch")
LIMIT_S = 600.0  # a run that takes longer hangs: the slowest file of any scenario needs less
METRICS = "metrics.jsonl"
FINISHES = 1000  # points of the picture in the document; no terminal shows more

Name = Literal["ideal", "none", "mitigated"]
_RUNS: tuple[tuple[Name, bool, tuple[str, ...]], ...] = (
    ("ideal", False, ()),
    ("none", True, ("--no-mitigation",)),
    ("mitigated", True, ()),
)
_HOLD_BACK = {"slow", "stall", "delay"}


def describe_machine() -> Machine:
    """Describe the machine of this bench."""
    return Machine(python=platform.python_version(), platform=platform.platform(), cpus=os.cpu_count() or 1)


def compare(
    scenario: Scenario,
    folder: Path,
    say: Callable[[str], None],
    keep_run: Callable[[MetricsRun], None] = lambda _: None,
    listener: Listener | None = None,
) -> list[Figures]:
    """Run all three, one after the other. ``folder`` holds one run's files at a time.

    ``keep_run`` gets the metrics of each, which are removed after that; ``listener`` gets them meanwhile.

    Raises:
        LocalFault: a run ended before it downloaded anything; the message quotes its stderr.
    """
    results: list[Figures] = []
    for name, faulty, flags in _RUNS:
        faults = len(scenario.faults) if faulty else 0
        say(f"{name}: {plural(len(scenario.names), 'file')}, {faults} of them faulty")
        with tempfile.TemporaryDirectory(prefix="cfetch-bench-", dir=folder) as inner:
            result = run_once(scenario, Path(inner), name, faulty=faulty, flags=flags, listener=listener)
            for recorded in read_metrics([Path(inner) / METRICS]):
                keep_run(recorded)
        ideal_s = results[0].wall_s if results else result.wall_s
        results.append(msgspec.structs.replace(result, slowdown=result.wall_s / ideal_s))
        say(f"{name}: {result.wall_s:.2f} s")
    return results


def run_once(
    scenario: Scenario,
    folder: Path,
    name: Name,
    *,
    faulty: bool,
    flags: Sequence[str] = (),
    listener: Listener | None = None,
) -> Figures:
    """Run the scenario once in an empty folder; ``flags`` come after the scenario's own.

    ``listener`` gets the run's events, as far as its metrics tell them.

    Raises:
        LocalFault: the run ended before it downloaded anything; the message quotes its stderr.
    """
    manifest, to, metrics = folder / "manifest.json", folder / "files", folder / METRICS
    journal = folder / "journal.json" if scenario.network else None
    with OriginProcess(scenario.spec(faulty=faulty, journal=journal)) as origin:
        manifest.write_bytes(scenario.manifest(*origin.urls))
        paths = [str(manifest), "--to", str(to), "--metrics", str(metrics)]
        command = [*CFETCH, "download", *paths, "--json", "--quiet", *scenario.arguments(), *flags]
        with nullcontext() if listener is None else watch_metrics(metrics, listener):
            outcome = run_child(command, limit_s=LIMIT_S)
    if outcome.exit_code not in {0, 1}:
        how = (
            f"did not end within {LIMIT_S:.0f} s"
            if outcome.killed
            else f"ended with code {outcome.exit_code}"
        )
        raise LocalFault(f"the {name!r} run of cfetch {how}; it said: {outcome.error or 'nothing'}")
    records = [record for run in read_metrics([metrics]) for record in run.files]
    wrong = len(scenario.names) - count_right(to, scenario.names, scenario.files)
    served = scenario if faulty else scenario.ideal()
    bad = find_slow_gets(served, JournalEntry.read(journal)) if journal else frozenset()
    return compute_figures(name, outcome, records, wrong, served.faults, bad)


def compute_figures(
    name: Name,
    outcome: Outcome,
    records: Sequence[FileRecord],
    wrong: int,
    faults: Mapping[str, tuple[Fault, ...]],
    bad: Collection[tuple[str, int]] = frozenset(),
) -> Figures:
    """One run's numbers; ``slowdown`` is 1 until the ideal run is known. ``bad``: of ``find_slow_gets``."""
    counts = Counts()
    for record in records:
        counts.add(record)
    done = [record for record in records if record.status == "done"]
    elapsed = np.array([record.end_s - record.start_s for record in done] or [0.0])
    p50, p95, p99, longest = np.percentile(elapsed, (50, 95, 99, 100)).tolist()
    return Figures(
        name=name,
        wall_s=outcome.wall_s,
        makespan_s=counts.end_s - min((record.start_s for record in records), default=0.0),
        cpu_s=outcome.cpu_s,
        exit_code=outcome.exit_code,
        done=len(done),
        failed=counts.failed,
        wrong=wrong,
        p50_s=p50,
        p95_s=p95,
        p99_s=p99,
        max_s=longest,
        mitigations=sum(attempt.outcome == "straggler" for record in records for attempt in record.attempts),
        in_segments=sum(any(attempt.helper for attempt in record.attempts) for record in records),
        false_alarms=count_false_alarms(records, faults, bad),
        retries=counts.retries,
        wasted_bytes=counts.wasted_bytes,
        slowdown=1.0,
        finishes_s=_thin(sorted(record.end_s for record in done)),
    )


def find_slow_gets(scenario: Scenario, requests: Sequence[JournalEntry]) -> frozenset[tuple[str, int]]:
    """The GETs, by path and number, over connections far slower than usual at their host, early or late."""
    network = scenario.network or NetworkModel()
    bad = set()
    for request in requests:
        traits = connection_of(network, scenario.seed, request.host, request.number)
        is_changing = traits.wear is not None or traits.burst is not None  # the journal lacks the moment
        if traits.is_bad or is_changing or traits.rate_bps < GOOD * usual_bps(network, request.host):
            bad.add((request.path, request.n))
    return frozenset(bad)


def count_false_alarms(
    records: Sequence[FileRecord],
    faults: Mapping[str, tuple[Fault, ...]],
    bad: Collection[tuple[str, int]] = frozenset(),
) -> int:
    """Count the cancelled attempts that the origin did not slow down. ``bad``: of ``find_slow_gets``."""
    alarms = 0
    for record in records:
        for attempt in record.attempts:
            if attempt.outcome == "straggler":
                fault = fault_for(faults.get(record.path), attempt.n)
                is_due = fault is not None and fault.kind in _HOLD_BACK
                alarms += not is_due and (record.path, attempt.n) not in bad
    return alarms


def _thin(values: list[float]) -> list[float]:
    if len(values) <= FINISHES:
        return values
    return [values[round(index)] for index in np.linspace(0, len(values) - 1, FINISHES)]
