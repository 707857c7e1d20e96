"""A run on a thousand executors, simulated file by file with the real batches and straggler rules.

    python benchmarks/scale_simulation.py --files 10000000 --executors 1000    (about half an hour, 6 GB)
    python benchmarks/scale_simulation.py [--seed N] [--json]    1,000,000 files on 100 executors
    python benchmarks/scale_simulation.py --constants            other values of cut.py's
    python benchmarks/scale_simulation.py --per-host 64          a limit for each host
    python benchmarks/scale_simulation.py --paper                the table of docs/scale.md

What is real and what is modelled: ``scale_model.py``. All is against the ideal: every connection, or every
task's bandwidth, busy until all is done. Deterministic: a seed has one result.
"""

import argparse
import json
import random
import sys
import time
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from scale_model import Cluster
from scale_paper import paper
from scale_world import ALL, Job, Result, Rules, World, clean, ideal_s, job_of

from cfetch.tasks.shares import cut

KIB, MIB = 1 << 10, 1 << 20
COLUMNS = (
    "what is done",
    "makespan / ideal",
    "half of the files",
    "99 %",
    "broken off",
    "… not slow ones",
    "copies",
    "lost executors",
    "fetched twice",
)
BILLION = 1_000_000_000


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--executors", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--per-host", type=int, default=None)
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--paper", action="store_true")
    args = parser.parse_args()
    world = World(files=args.files, executors=args.executors, seed=args.seed)
    if args.paper:
        sys.stdout.write(paper())
    elif args.constants:
        constants(args.seed)
    elif args.per_host is not None:
        limits(world._replace(hosts=20, zipf=0.0, per_host=args.per_host))
    else:
        rules(world, as_json=args.json)


def rules(world: World, *, as_json: bool) -> None:
    """A row for each set of rules, and what a billion files would take by the batches of the last."""
    job = job_of(world)
    rows = [figures("a clean world", run(clean(world), Rules(), job))]
    if not as_json:
        print(f"{world.files:,} files on {world.executors:,} executors, {len(job.cut.cost_s):,} batches; ")
        print(f"the ideal is {job.ideal_s:.0f} s, {world.files / job.ideal_s:,.0f} files a second\n")
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
        print(line(rows[0]), flush=True)
    result = None
    for name, rule in ALL.items():
        began_s = time.process_time()
        result = run(world, rule, job)
        rows.append(figures(name, result) | {"cpu_s": round(time.process_time() - began_s, 1)})
        if not as_json:
            print(line(rows[-1]), flush=True)
    assert result is not None
    longer = extrapolated(world, job, result)
    if as_json:
        print(json.dumps({"world": world._asdict(), "rows": rows, "billion": longer}))
    else:
        print(f"\nhub: {1e6 * result.book_s / max(result.beats, 1):.0f} µs of one core a beat")
        print(f"a billion such files, batch by batch: {longer:.3f} of the ideal")


def run(world: World, rule: Rules, job: Job) -> Result:
    """One simulation."""
    return Cluster(world, rule, job._replace(ideal_s=ideal_s(world, job.sizes))).run()


def figures(name: str, result: Result) -> dict[str, Any]:
    """What a row tells."""
    return {
        "name": name,
        "makespan": round(result.ratio, 3),
        "half": round(result.until(0.5), 3),
        "most": round(result.until(0.99), 3),
        "rescues": result.rescues,
        "needless": result.needless,
        "copies": result.copies,
        "lost": result.lost,
        "twice": int((result.fetched > 1).sum()),
    }


def line(row: dict[str, Any]) -> str:
    """Of the table."""
    shares_ = [f"{row[key]:.2f}" for key in ("makespan", "half", "most")]
    counts = [f"{row[key]:,}" for key in ("rescues", "needless", "copies", "lost", "twice")]
    return f"| {' | '.join([row['name'], *shares_, *counts])} |"


def extrapolated(world: World, job: Job, result: Result) -> float:
    """The makespan of a billion files against the ideal, in batches that take what these took, drawn again.

    The last batches of a run are a smaller part of a longer one.
    """
    dice = random.Random(world.seed)
    batches = round(len(job.cut.cost_s) * BILLION / world.files)
    slow = round(world.executors * world.slow_executors) * world.slots
    at = [(n / world.launches_a_s, n < slow) for n in range(world.tasks)]
    heapify(at)
    usual, slower = result.task_s[False], result.task_s[True] or result.task_s[False]
    end_s = launched_s = 0.0
    for _ in range(batches):
        free_s, is_slow = heappop(at)
        launched_s = max(free_s, launched_s + 1 / world.launches_a_s)
        done_s = launched_s + dice.choice(slower if is_slow else usual)
        end_s = max(end_s, done_s)
        heappush(at, (done_s, is_slow))
    return end_s / (job.ideal_s * BILLION / world.files)


def constants(seed: int) -> None:
    """Other values of the constants of the cut, each in a world where it matters."""
    worlds = {
        "SHARES_PER_SLOT": (World(files=125_000, executors=12, slow_executors=0.08), (1, 2, 4, 8, 16)),
        "LONGEST_S": (World(files=250_000, executors=5, slow_executors=0.2), (30, 60, 120, 240, 480)),
        "SHORTEST_S": (
            World(files=200_000, executors=12, slow_executors=0.08, median_bytes=32 * KIB, sigma=1.2),
            (2.5, 5, 10, 20, 40),
        ),
    }
    print("| constant | value | batches | clean: makespan / ideal | both and hub: makespan / ideal | 99 % |")
    print("|---|---|---|---|---|---|")
    for name, (world, values) in worlds.items():
        stands = getattr(cut, name)
        for value in values:
            setattr(cut, name, value)
            found = []
            for more in range(3):
                one = world._replace(seed=seed + more)
                job = job_of(one)
                calm, both = run(clean(one), Rules(), job), run(one, ALL["both and hub"], job)
                found.append((len(job.cut.cost_s), calm.ratio, both.ratio, both.until(0.99)))
            batches, *others = np.mean(found, axis=0)
            shown = " | ".join(f"{one:.2f}" for one in others)
            mark = f"**{value:g}**" if value == stands else f"{value:g}"
            print(f"| `{name}` | {mark} | {batches:.0f} | {shown} |", flush=True)
        setattr(cut, name, stands)


def limits(world: World) -> None:
    """Hosts with a limit, by fixed shares and by the hub's leases."""
    job = job_of(world)
    alone_s = world.latency_s + float(job.sizes.mean()) / world.connection_bps
    floor_s = max(job.ideal_s, world.files * alone_s / (world.hosts * (world.per_host or 1)))
    first = {int(job.host_of[job.order[start]]) for start in job.starts[: world.tasks]}
    print(f"{world.files:,} files, {world.hosts} hosts alike, {world.per_host} connections each;")
    print(f"{world.tasks} tasks at a time, and the first {world.tasks} batches are of {len(first)} hosts;")
    print(f"no order of work takes less than {floor_s:.0f} s\n")
    print("| limits by | makespan / that | 99 % | most connections at a host |\n|---|---|---|---|")
    for name, rule in {"fixed shares": ALL["both"], "leases": ALL["both and hub"]}.items():
        result = Cluster(world, rule, job._replace(ideal_s=floor_s), watched=True).run()
        most = max(result.most_at_host.values())
        print(f"| {name} | {result.ratio:.2f} | {result.until(0.99):.2f} | {most} |", flush=True)


if __name__ == "__main__":
    main()
