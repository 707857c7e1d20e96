"""Several nodes bring plans together, killed, stopped and ended at random; then a look at it all.

``python benchmarks/nodes_soak.py [--seconds 120] [--nodes 4] [--volumes 1] [--seed N] [--folder DIR]
[--json]``. With several volumes, one of them fills up, becomes read-only, hangs and goes at random, where
root may mount FUSE. Exit code 1 if anything was wrong: a file that is not its file, is missing or on two
volumes, a batch that is not whole, debris of dead runs, a file with two records or none, an exit code that
nobody can explain. Before that, one plan by one node and by all of them, with one volume.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.tasks.nodes.soak import measure_speed, soak


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--volumes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where; a temporary directory unless given")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cfetch-soak-", dir=args.folder) as folder:
        one_s, all_s = measure_speed(Path(folder), nodes=args.nodes)
        report = soak(
            Path(folder), seconds=args.seconds, nodes=args.nodes, seed=args.seed, volumes=args.volumes
        )
    figures = {"one_node_s": round(one_s, 2), "all_nodes_s": round(all_s, 2)}
    figures |= msgspec.structs.asdict(report)
    if args.json:
        print(json.dumps({"schema": "cfetch.nodes-soak/1", **figures}))
    else:
        print("\n".join(f"{key}: {value}" for key, value in figures.items()))
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main())
