"""Attacks the real command with random worlds until the time is over, and prints what fell.

Usage: ``scripts/attack [--seconds 1200] [--seed 0] [--rounds N] [--json]``; for one world ``scripts/attack
--replay SEED`` or ``scripts/attack --world FILE``. Ends with 1 if a promise was broken; each such world is
printed with its seed and then made as small as it still fails.
"""

import argparse
import json
import logging
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

from tests.attack.battle import Story, fight
from tests.attack.shrink import shrink
from tests.attack.world import World, draw_world

PROGRESS_S = 10.0
SHRINK_S = 90.0
MAX_SHRUNK = 2  # of each kind: the third tells nothing new


def main() -> int:
    """Fight, and print."""
    parser = argparse.ArgumentParser(prog="scripts/attack", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="so many seeds at most")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.add_argument("--replay", type=int, metavar="SEED", help="fight one seed, with all that was said")
    parser.add_argument("--world", type=Path, metavar="FILE", help="fight one world, as a failure prints it")
    args = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # clients that have gone are what we are here for
    if args.replay is not None or args.world is not None:
        world = draw_world(args.replay) if args.world is None else load(args.world)
        return show_one(fight(world))
    return campaign(args.seconds, args.seed, args.rounds, as_json=args.json)


def load(path: Path) -> World:
    """A world that was printed."""
    return msgspec.json.decode(path.read_bytes(), type=World)


def show_one(story: Story) -> int:
    """Every life, then what was broken."""
    print("\n".join(story.trace))
    for breach in story.breaches:
        print(f"BROKEN {breach.kind}: {breach.text}")
    return 1 if story.breaches else 0


def campaign(seconds: float, first: int, rounds: int, *, as_json: bool) -> int:
    """Seed after seed."""
    began_s = told_s = time.monotonic()
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    disks: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    peak_bytes, seed = 0, first
    while seed < first + rounds and time.monotonic() - began_s < seconds:
        world = draw_world(seed)
        try:
            story = fight(world)
        except KeyboardInterrupt:
            break
        peak_bytes = max(peak_bytes, story.counts.pop("peak_bytes"))
        counts += story.counts
        faults += story.faults
        disks[world.disk] += 1
        if story.breaches:
            kind = story.breaches[0].kind
            broken[kind] += 1
            report(world, story, may_shrink=broken[kind] <= MAX_SHRUNK)
        seed += 1
        if time.monotonic() - told_s > PROGRESS_S:
            told_s = time.monotonic()
            print(
                f"{told_s - began_s:.0f} s: {seed - first} worlds, {sum(broken.values())} broken",
                file=sys.stderr,
                flush=True,
            )
    figures = {
        "rounds": seed - first,
        "elapsed_s": round(time.monotonic() - began_s),
        **counts,
        "kills": sum(count for name, count in counts.items() if name.startswith("killed")),
        "peak_bytes": peak_bytes,
        "faults_played": faults.total(),
        "faults": dict(faults.most_common()),
        "disks": dict(disks.most_common()),
        "broken": dict(broken),
    }
    if as_json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            if isinstance(value, dict):
                value = ", ".join(f"{key} {count}" for key, count in value.items())  # noqa: PLW2901
            print(f"{name.replace('_', ' '):16} {value or 'none'}")
    return 1 if broken else 0


def report(world: World, story: Story, *, may_shrink: bool) -> None:
    """A failure, its seed, and the smallest world that still fails so."""
    print(f"\nseed {world.seed}: scripts/attack --replay {world.seed}", flush=True)
    for breach in story.breaches:
        print(f"  BROKEN {breach.kind}: {breach.text}", flush=True)
    if not may_shrink:
        return
    kind = story.breaches[0].kind
    least = shrink(world, lambda smaller: kind in {b.kind for b in fight(smaller).breaches}, limit_s=SHRINK_S)
    print("  the smallest world that still fails, for --world FILE:")
    print(f"  {msgspec.json.encode(least).decode()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
