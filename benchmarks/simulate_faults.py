"""The transfer engine in simulated worlds of faults, crashes and power cuts, from seeds, on virtual time.

Worlds draw segments, entries that are byte ranges, ranges that servers ignore, shift or refuse, rate
limits, and runs of several processes: pools that share a destination and die together, each with its own
directory for parts. The deaths of single processes, and the hub between them, are left to
``scripts/attack`` and the tests of their rooms.

Prints what was lived through and what was broken, and for each broken seed the command that replays it. Ends
with 1 if anything was. Usage::

    python benchmarks/simulate_faults.py [--seeds 2000] [--from 0] [--json]
    python benchmarks/simulate_faults.py --replay SEED
"""

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the worlds are those of the tests

CRASHES = ("kill", "kill at time", "power cut", "power cut between runs")
MAX_SHOWN = 20


def main() -> int:
    """Simulate and print."""
    from tests.faults.life import simulate

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--replay", type=int, metavar="SEED", help="show one seed step by step")
    args = parser.parse_args()
    if args.replay is not None:
        return replay(simulate, args.replay)
    figures, broken = measure(simulate, range(args.first, args.first + args.seeds))
    if args.json:
        print(json.dumps({**figures, "broken": broken}))
    else:
        show(figures, broken)
    return 1 if broken else 0


def measure(simulate: Callable[[int], Any], seeds: range) -> tuple[dict[str, Any], dict[int, list[str]]]:
    """The sums over all seeds, and by seed what was broken."""
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    totals: Counter[str] = Counter()
    drawn: Counter[str] = Counter()
    breaches: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    virtual_s = 0.0
    broken: dict[int, list[str]] = {}
    for seed in seeds:
        try:
            story = simulate(seed)
        except Exception:  # noqa: BLE001 - told with its seed; the other seeds go on
            broken[seed] = [traceback.format_exc(limit=-3)]
            breaches["simulation"] += 1
            continue
        virtual_s += story.virtual_s
        totals.update(runs=story.runs, entries=story.entries, requests=story.requests)
        faults += story.faults
        drawn += story.drawn
        endings += story.endings
        breaches.update(breach.kind for breach in story.violations)
        if story.violations:
            broken[seed] = [f"{breach.kind}: {breach.text}" for breach in story.violations]
    figures = {
        "seeds": len(seeds),
        "virtual_hours": round(virtual_s / 3600, 1),
        "elapsed_s": round(time.monotonic() - began_s, 1),
        "cpu_s": round(time.process_time() - began_cpu_s, 1),
        **totals,
        "crashes": sum(endings[kind] for kind in CRASHES),
        "silent_corruptions": breaches["corruption"] + breaches["promise"],
        "liveness_failures": breaches["liveness"],
        "breaches": dict(breaches),
        "runs_with": dict(drawn.most_common()),
        "faults": dict(faults.most_common()),
        "endings": dict(endings.most_common()),
    }
    return figures, broken


def show(figures: dict[str, Any], broken: dict[int, list[str]]) -> None:
    """For people."""
    for name, value in figures.items():
        text = (
            ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else value
        )
        print(f"{name.replace('_', ' '):20} {text or 'none'}")
    for seed in list(broken)[:MAX_SHOWN]:
        print(f"\nseed {seed}: python benchmarks/simulate_faults.py --replay {seed}")
        for text in broken[seed]:
            print(f"  {text}")
    if len(broken) > MAX_SHOWN:
        print(f"\n… and {len(broken) - MAX_SHOWN} more seeds")


def replay(simulate: Callable[[int], Any], seed: int) -> int:
    """One seed, every step: seconds of virtual time, and what happened."""
    story = simulate(seed)
    for line in story.trace:
        print(line)
    for breach in story.violations:
        print(f"BROKEN {breach.kind}: {breach.text}")
    return 1 if story.violations else 0


if __name__ == "__main__":
    sys.exit(main())
