"""Executors on one directory, killed, stopped and woken at random; then one last run, and a look at it all.

``python benchmarks/timeline_soak.py [--seconds 120] [--seed N] [--executors 4] [--folder DIR] [--json]``.
Exit code 1 if anything was wrong: a final file that is not its file, a plan that is not completed once,
debris of dead runs, an exit code that nobody can explain, a process that is left.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.timeline_soak.soak import soak


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--executors", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where; a temporary directory unless given")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cfetch-soak-", dir=args.folder) as folder:
        work = soak(Path(folder), seconds=args.seconds, seed=args.seed, executors=args.executors)
        report = asyncio.run(work)
    if args.json:
        print(json.dumps({"schema": "cfetch.timeline-soak/1", **msgspec.structs.asdict(report)}))
    else:
        print("\n".join(f"{key}: {value}" for key, value in msgspec.structs.asdict(report).items()))
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main())
