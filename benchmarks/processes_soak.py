"""Downloads by two or three processes, their workers and parents killed at random; then a look at it all.

``python benchmarks/processes_soak.py [--rounds 50] [--seed N] [--folder DIR] [--json]``. Exit code 1 if
anything was wrong: a file that is not its file or is missing, debris of dead runs, more than 2 % of the bytes
twice for each kill, an exit code that nobody can explain, a child that outlives its parent.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.tasks.processes.soak import soak


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where; a temporary directory unless given")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cfetch-soak-", dir=args.folder) as folder:
        report = soak(Path(folder), rounds=args.rounds, seed=args.seed)
    if args.json:
        print(json.dumps({"schema": "cfetch.processes-soak/1", **msgspec.structs.asdict(report)}))
    else:
        print("\n".join(f"{key}: {value}" for key, value in msgspec.structs.asdict(report).items()))
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main())
