"""Kill a download on entering each of its system calls, run it again, and look at what stands there.

``python benchmarks/crash_points.py [--durability power|crash] [--twice N] [--json]``. Needs strace; takes
some four minutes for each durability. A violation is a final name with anything but its file, a second run
that does not end with the whole tree, or debris of a dead run after it.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.crash.scene import FILES, Children, Point, Scene, can_trace, serving

KILLED = 137


def run(
    url: str, children: Children, durability: str, points: tuple[Point, ...]
) -> tuple[int, int | None, str]:
    """How many of ``points`` were met, the bytes fetched that stood there already, and what was wrong."""
    where = ", ".join(f"{point.call} {point.n}" for point in points)
    with tempfile.TemporaryDirectory(prefix="cfetch-crash-") as folder:
        scene = Scene(Path(folder), url, children, durability=durability)
        met, held = 0, 0
        for point in points:
            killed = scene.killed_at(point)
            met += killed.code == KILLED
            held = killed.held_bytes
            if scene.wrong() or killed.code not in (0, KILLED):
                return met, None, f"{where}: exit {killed.code}, wrong {scene.wrong()}, {killed.said[-300:]}"
        try:
            fetched = scene.finish()
        except Exception as error:  # noqa: BLE001 - anything at all is a violation
            return met, None, f"{where}: {type(error).__name__}: {error}"
        return met, fetched + held - scene.job.total_bytes, ""


def measure(durability: str, twice: int, seed: int) -> dict[str, object]:
    """The figures for one durability."""
    start_s = time.monotonic()
    with serving(FILES) as origin, Children() as children:
        with tempfile.TemporaryDirectory(prefix="cfetch-crash-") as folder:
            points = Scene(Path(folder), origin.url, children, durability=durability).points()
        dice = random.Random(seed)
        pairs = [(dice.choice(points), dice.choice(points)) for _ in range(twice)]
        once = [run(origin.url, children, durability, (point,)) for point in points]
        both = [run(origin.url, children, durability, pair) for pair in pairs]
    again = [bytes_again for met, bytes_again, _ in once if met and bytes_again is not None]
    return {
        "durability": durability,
        "calls": len({point.call for point in points}),
        "points": len(points),
        "killed": sum(met for met, _, _ in once),
        "killed_twice": sum(met == 2 for met, _, _ in both),
        "violations": [wrong for _, _, wrong in once + both if wrong],
        "bytes_again_median": statistics.median(again) if again else None,
        "bytes_again_max": max(again, default=None),
        "elapsed_s": round(time.monotonic() - start_s, 1),
    }


def main() -> int:
    """Print the figures; exit 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--durability", choices=["power", "crash"])
    parser.add_argument("--twice", type=int, default=50, help="how many pairs of kills to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if why := can_trace():
        print(why, file=sys.stderr)
        return 2
    modes = [args.durability] if args.durability else ["power", "crash"]
    found = [measure(mode, args.twice, args.seed) for mode in modes]
    if args.json:
        print(json.dumps({"schema": "cfetch.crash-points/1", "runs": found}))
    else:
        for one in found:
            print("\n".join(f"{key}: {value}" for key, value in one.items()), end="\n\n")
    return int(any(one["violations"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
