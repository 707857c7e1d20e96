"""How long ``cfetch --help`` takes, in turn with a bare interpreter: ``python benchmarks/help_time.py``."""

import statistics
import sys

from cfetch.plugins.lab.bench.child import run_child

ROUNDS = 15


def main() -> None:
    """Measure and print, beside a bare interpreter in the same rounds."""
    commands = {
        "cfetch --help": [sys.executable, "-m", "cfetch", "--help"],
        "python -c pass": [sys.executable, "-c", "pass"],
    }
    walls: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            walls[name].append(run_child(command, limit_s=30.0).wall_s)
    for name, found in walls.items():
        print(f"{name:16} median {statistics.median(found):.3f} s, worst {max(found):.3f} s")


if __name__ == "__main__":
    main()
