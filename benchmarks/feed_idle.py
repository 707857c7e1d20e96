"""The processor time of an idle feed server, scanning and watching: ``python benchmarks/feed_idle.py``.

A directory of many small files is published; when all are in the feed, nothing changes any more, and the
server's processor time is read from the system at the beginning and at the end of some seconds. Then one file
is written, to see how long it takes until the feed has it: a file is published when it has rested for 1 s.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path


def read_cpu_s(pid: int) -> float:
    """The processor time of a process, with its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def count_changes(state: Path) -> int:
    """The changes that the server has published."""
    with closing(sqlite3.connect(state / "feed.sqlite")) as database:
        return int(database.execute("SELECT count(*) FROM changes").fetchone()[0])


def measure(folder: Path, seconds: float, words: tuple[str, ...]) -> tuple[float, float]:
    """Share of a core while idle, in per cent, and the seconds until a new file is in the feed."""
    state = Path(tempfile.mkdtemp(dir=folder))
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "cfetch",
        "feed",
        "serve",
        folder / "data",
        "--state",
        state,
        *words,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()  # it is ready
            files = sum(1 for path in (folder / "data").rglob("*.txt"))
            while count_changes(state) < files:
                time.sleep(0.2)
            time.sleep(10)  # scans go on for a while after a change
            before_s, began_s = read_cpu_s(server.pid), time.monotonic()
            time.sleep(seconds)
            share = (read_cpu_s(server.pid) - before_s) / (time.monotonic() - began_s)
            (folder / "data" / f"{server.pid}.txt").write_text("new")
            began_s = time.monotonic()
            while count_changes(state) <= files:
                time.sleep(0.05)
            return 100 * share, time.monotonic() - began_s
        finally:
            server.terminate()


def main() -> None:
    """Publish the files twice, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(given.files):
            path = folder / "data" / f"{number // 500}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}")
        time.sleep(1.5)  # they rest
        ways: tuple[tuple[str, ...], ...] = ((), ("--watch",))
        for words in ways:
            share, seen_s = measure(folder, given.seconds, words)
            kind = " ".join(words) or "scans"
            print(f"{kind}: {share:.2f} % of a core at {given.files} files; a new file after {seen_s:.1f} s")


if __name__ == "__main__":
    main()
