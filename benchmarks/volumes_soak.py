"""Downloads to three volumes that hang, fill up, turn read-only and go away, while runs are killed.

``python benchmarks/volumes_soak.py [--seconds 120] [--seed N] [--json]``. The volumes are FUSE file systems
of this script's own, in its own mount name space; needs /dev/fuse and unshare. Exit code 1 if anything was
wrong: a file that is missing or not its file, a batch that is whole nowhere or partly on two volumes, an exit
code that is not true, a run that does not end.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.volumes.soak import soak

INSIDE = "CFETCH_SOAK_INSIDE"


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if os.environ.pop(INSIDE, None) is None:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-Urm", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory(prefix="cfetch-soak-") as folder:
        report = soak(Path(folder), seconds=args.seconds, seed=args.seed)
    if args.json:
        print(json.dumps({"schema": "cfetch.volumes-soak/1", **msgspec.structs.asdict(report)}))
    else:
        print("\n".join(f"{key}: {value}" for key, value in msgspec.structs.asdict(report).items()))
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main())
