"""Random worlds of names on each file system: every entry that it can hold is there, the others are named.

A judge of its own (``tests/storage/name_worlds.py``) asks the file system itself what it holds. Real ones are
made and mounted as in ``file_systems.py`` (root); those of ``odd_mount.py`` are emulated by FUSE (needs ``pip
install fusepy``, ``apt-get install fuse libfuse2``). Usage::

    python benchmarks/random_names.py [--types ext4,xfs,btrfs,tmpfs,overlay,vfat,folding,short] [--worlds N]
        [--seed N]

Exit code 1 if a world was wrong. A file system whose tools or driver are absent is left out, with the reason.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from file_systems import mounted

from tests.crash.scene import Children, serving
from tests.storage.name_worlds import files_of, judge, make_world, play

EMULATED = ("vfat", "folding", "short")
TYPES = ("ext4", "xfs", "btrfs", "tmpfs", "overlay", *EMULATED)
MOUNT_TRIES, MOUNT_PAUSE_S = 100, 0.05


@contextmanager
def emulated(kind: str, folder: Path) -> Iterator[Path]:
    """A file system of ``odd_mount.py``. Raises OSError: it could not be mounted."""
    real, place = folder / "real", folder / "mounted"
    real.mkdir()
    place.mkdir()
    command = [sys.executable, str(Path(__file__).with_name("odd_mount.py")), kind, str(real), str(place)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(MOUNT_TRIES):
            if place.is_mount() or process.poll() is not None:
                break
            time.sleep(MOUNT_PAUSE_S)
        if not place.is_mount():
            process.kill()
            raise OSError(process.communicate()[1].strip().rpartition("\n")[2])
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False, capture_output=True)
        process.kill()
        process.communicate()


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Path]:
    """A new file system. Raises OSError or CalledProcessError if there is none here."""
    if kind in EMULATED:
        with emulated(kind, folder) as place:
            yield place
        return
    with mounted(kind, folder) as (place, _):
        yield place


def play_all(kind: str, seeds: Sequence[int]) -> tuple[Counter[str], int]:
    """Counts of entries by the judge's word, and how many worlds were wrong."""
    counts: Counter[str] = Counter()
    bad = 0
    with (
        tempfile.TemporaryDirectory(prefix="cfetch-names-") as outer,
        opened(kind, Path(outer)) as place,
        serving(files_of()) as origin,
        Children() as children,
    ):
        aside = Path(outer, "aside")
        aside.mkdir()
        said = aside / "said"

        def run(words: Sequence[str]) -> tuple[int, str]:
            code = children.run(None, list(words), said)
            return code, said.read_text(errors="replace")

        for seed in seeds:
            world, folder = make_world(random.Random(seed)), place / str(seed)
            folder.mkdir()
            for word, indexes in judge(world, folder / "judge")._asdict().items():
                counts[word] += len(indexes)
            wrong = play(world, folder, aside, origin.url, run)
            bad += bool(wrong)
            for line in wrong:
                print(f"{kind}: world {seed}: {line}", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
    return counts, bad


def main() -> int:
    """Print a table with a row for each file system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("mounting a file system needs root")
    broken = 0
    print("| file system | worlds | held | clashing | not held | no safe path | worlds that are wrong |")
    print("|---|---|---|---|---|---|---|")
    for kind in args.types.split(","):
        try:
            counts, bad = play_all(kind, range(args.seed, args.seed + args.worlds))
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or error
            print(f"{kind} is left out: {str(said).strip()}", file=sys.stderr)
            continue
        broken += bad
        figures = (counts[word] for word in ("held", "clashing", "unheld", "unsafe"))
        print(
            f"| {kind} | {args.worlds} | {' | '.join(f'{number:,}' for number in figures)} | {bad} |",
            flush=True,
        )
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
