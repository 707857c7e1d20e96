"""Time a whole small Spark run with and without the archive of Spark's classes, in turn.

    python benchmarks/spark_start.py --rounds 3

It makes the archive in a directory of its own, serves 100 files on loopback, and prints medians and a ratio.
"""

import argparse
import contextlib
import functools
import http.server
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

FILES, SIZE = 100, 16 << 10


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def run_once(listing: Path, cache: Path) -> float:
    """Download once by ``--engine spark``; return the seconds."""
    with tempfile.TemporaryDirectory() as to:
        command = [
            sys.executable,
            "-m",
            "cfetch",
            "download",
            str(listing),
            "--to",
            to,
            "--engine",
            "spark",
            "-q",
        ]
        start = time.monotonic()
        subprocess.run(
            command, env=os.environ | {"XDG_CACHE_HOME": str(cache)}, capture_output=True, check=True
        )
        wall_s = time.monotonic() - start
        if sum(1 for path in Path(to).iterdir() if path.is_file()) != FILES:
            raise SystemExit("not all files came")
    return wall_s


def main() -> None:
    """Print one line each, and the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        (directory / "files").mkdir()
        for number in range(FILES):
            (directory / "files" / f"{number}.bin").write_bytes(os.urandom(SIZE))
        handler = functools.partial(_Quiet, directory=str(directory / "files"))
        server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        listing = directory / "list.txt"
        base = f"http://127.0.0.1:{server.server_address[1]}"
        listing.write_text("".join(f"{base}/{number}.bin\n" for number in range(FILES)))
        caches = {"with the archive": directory / "cache", "without": directory / "none"}
        start = time.monotonic()
        command = [sys.executable, "-m", "cfetch", "spark", "cache-classes"]
        subprocess.run(command, env=os.environ | {"XDG_CACHE_HOME": str(directory / "cache")}, check=True)
        print(f"making the archive: {time.monotonic() - start:.1f} s", flush=True)
        taken: dict[str, list[float]] = {label: [] for label in caches}
        for _ in range(rounds):
            for label, cache in caches.items():
                taken[label].append(run_once(listing, cache))
    for label, walls in taken.items():
        print(f"{label}: median {statistics.median(walls):.1f} s of {rounds}")
    print(f"ratio {statistics.median(taken['with the archive']) / statistics.median(taken['without']):.2f}")


if __name__ == "__main__":
    main()
