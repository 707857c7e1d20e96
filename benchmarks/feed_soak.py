"""A feed that grows, splits and deletes; its server and its follower are killed again and again.

``python benchmarks/feed_soak.py [--restores] [--seconds 120] [--seed N] [--folder DIR] [--json]``.
Exit code 1 if anything was wrong: the mirror is not the source, a version was left out or came after a later
one, debris.

With ``--restores`` a directory is served with ``--keep``, and the server's database is replaced by old
backups; wrong is a mirror that differs though no follower has said so, or that ``--resync`` does not repair.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.plugins.follow.restore_soak import soak_restores
from tests.plugins.follow.soak import soak


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where; a temporary directory unless given")
    parser.add_argument("--restores", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cfetch-soak-", dir=args.folder) as folder:
        play = soak_restores if args.restores else soak
        report = play(Path(folder), seconds=args.seconds, seed=args.seed)
    if args.json:
        print(json.dumps({"schema": "cfetch.feed-soak/1", **msgspec.structs.asdict(report)}))
    else:
        print("\n".join(f"{key}: {value}" for key, value in msgspec.structs.asdict(report).items()))
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main())
