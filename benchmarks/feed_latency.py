"""From a write in a served directory to the file in its mirror: ``python benchmarks/feed_latency.py``.

Files are written at a steady rate, some of them several times, while ``cfetch feed serve`` publishes them and
``cfetch follow`` mirrors them. The time of a file's last version goes from its rename in the source to its
rename in the mirror, which is its ctime there; versions that were replaced before they came are not fetched.
The processor times are those of the two processes, for all of it.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from feed_idle import read_cpu_s

PATIENCE_S = 300.0  # after the last write
OLD_S = 1_000_000_000  # files that look old are published at once


def write_files(
    root: Path, upserts: int, files: int, rate: float
) -> tuple[dict[str, tuple[int, float]], float]:
    """Write; return number and time of each path's last version, and the seconds that it took."""
    dice, last = random.Random(1), dict[str, tuple[int, float]]()
    began_s = time.monotonic()
    new = root.with_name("new")
    for number in range(upserts):
        file = dice.randrange(files)
        path = root / f"{file // 500}/{file}"
        new.write_text(str(number))
        os.utime(new, (OLD_S + number, OLD_S + number))
        new.rename(path)
        last[f"{file // 500}/{file}"] = number, time.time()
        time.sleep(max(0.0, began_s + (number + 1) / rate - time.monotonic()))
    return last, time.monotonic() - began_s


def wait_for_mirror(mirror: Path, last: dict[str, tuple[int, float]]) -> list[float]:
    """The seconds of each file that has come, sorted."""
    waiting, seconds = dict(last), list[float]()
    end_s = time.monotonic() + PATIENCE_S
    while waiting and time.monotonic() < end_s:
        for path, (number, written_s) in list(waiting.items()):
            try:
                if (mirror / path).read_text() == str(number):
                    seconds.append((mirror / path).stat().st_ctime - written_s)
                    del waiting[path]
            except FileNotFoundError:
                continue
        time.sleep(0.5)
    return sorted(seconds)


def main() -> int:
    """Write, mirror, and print the figures; exit code 1 if files are missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("--upserts", type=int, default=4_000)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--rate", type=float, default=200.0, help="upserts in a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cfetch-latency-") as name:
        root, mirror = Path(name) / "source", Path(name) / "to"
        for directory in range((given.files - 1) // 500 + 1):
            (root / str(directory)).mkdir(parents=True)
        serve = ["feed", "serve", str(root), "--rescan", "500ms"]
        with begin(serve) as server:
            assert server.stdout is not None
            url = server.stdout.readline().split('"')[3]
            follow = [
                "follow",
                url,
                "--to",
                str(mirror),
                "--poll",
                "500ms",
                "--durability",
                "crash",
                "--quiet",
            ]
            with begin(follow) as follower:
                try:
                    last, took_s = write_files(root, given.upserts, given.files, given.rate)
                    seconds = wait_for_mirror(mirror, last)
                    cpu = read_cpu_s(server.pid), read_cpu_s(follower.pid)
                finally:
                    follower.terminate()
                    server.terminate()
    missing = len(last) - len(seconds)
    print(f"{given.upserts:,} upserts of {len(last):,} files in {took_s:.1f} s; {missing} did not come")
    for share in (0.5, 0.99, 1.0) if seconds else ():
        print(f"p{100 * share:g} {seconds[min(int(share * len(seconds)), len(seconds) - 1)]:.2f} s")
    print(f"processor time: server {cpu[0]:.1f} s, follower {cpu[1]:.1f} s")
    return int(missing > 0)


def begin(words: list[str]) -> "subprocess.Popen[str]":
    """A command of cfetch."""
    return subprocess.Popen(
        [sys.executable, "-m", "cfetch", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
