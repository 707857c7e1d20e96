"""Three nodes bring named batches to several volumes, with one fault at a time; a table of what came of it.

``python benchmarks/nodes_volumes.py [--volumes 2 4] [--folder DIR] [--json]``. Exit code 1 if anything was
wrong: each file has to stand on one volume, with its bytes, each batch on one volume as a whole, and nothing
else may be left. A volume that is full or dead needs root and FUSE.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.tasks.nodes.cells import FAULTS, bring_cell


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--volumes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--folder", type=Path, help="where; a temporary directory unless given")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="cfetch-cells-", dir=args.folder) as top:
        for volumes in args.volumes:
            for fault in args.faults:
                folder = Path(top, f"{volumes}-{fault.replace(' ', '-')}")
                folder.mkdir()
                cell = bring_cell(folder, volumes=volumes, fault=fault)
                wrong += len(cell.wrong)
                if args.json:
                    print(json.dumps({"schema": "cfetch.nodes-volumes/1", **msgspec.structs.asdict(cell)}))
                else:
                    print(
                        f"{volumes} volumes, {fault}: {cell.elapsed_s} s, exit codes {cell.codes}, "
                        f"{cell.twice:.2%} twice, wrong: {cell.wrong}",
                        flush=True,
                    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
