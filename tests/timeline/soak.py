"""The simulation at length; the tests take samples of it. ``python -m tests.timeline.soak SECONDS``.

First every pair of stops of two executors; then chaos, from a second argument's seed on, until time is over.
"""

import sys
import time

from tests.timeline.test_simulation import CASES, Chaos, all_stops, executor

__all__ = ["main"]


def main(seconds, seed=0):
    """Says what it has done; a violation ends it, with the seed."""
    end_s = time.monotonic() + seconds
    for name, (_, case) in CASES.items():
        outcomes, runs = all_stops(executor, executor, stride=1, **case)
        print(f"{name}: {runs} schedules, {len(outcomes)} ways to end", flush=True)
    first = seed
    while time.monotonic() < end_s:
        try:
            Chaos(seed).run(400)
        except BaseException:
            print(f"seed {seed}", flush=True)
            raise
        seed += 1
    print(f"chaos: seeds {first} to {seed - 1}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), *map(int, sys.argv[2:]))
