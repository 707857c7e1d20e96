"""What a long directory costs the feed server: time until all of it is published, and its peak memory.

Tiny files, a thousand to a directory or all in one (``--flat``). ``--follow``: and what it costs to mirror it
by ``cfetch follow --once``, which fetches each file from the same server. Peaks are the kernel's. Usage::

    python benchmarks/feed_million.py [--entries N] [--flat] [--split-entries N] [--follow] [--folder DIR]
"""

import argparse
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from cfetch.plugins.lab.bench.child import clean_environment

PER_DIRECTORY = 1000
POLL_S = 0.2
ALL = "0" * 32 + "-"


def make_tree(root: Path, entries: int, *, flat: bool) -> None:
    """``entries`` files of some ten bytes, an hour old."""
    root.mkdir()
    an_hour_ago = time.time() - 3600
    for number in range(entries):
        directory = root if flat else root / f"{number // PER_DIRECTORY:05d}"
        if not flat and number % PER_DIRECTORY == 0:
            directory.mkdir()
        path = directory / f"{number:08d}.txt"
        path.write_text(f"file {number}")
        os.utime(path, (an_hour_ago, an_hour_ago))


class Server:
    """``cfetch feed serve`` as a process."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        words = [sys.executable, "-m", "cfetch", "feed", "serve", str(root), *options]
        self.child = subprocess.Popen(words, stdout=subprocess.PIPE, env=clean_environment())
        assert self.child.stdout is not None
        self.url = json.loads(self.child.stdout.readline())["url"]
        self.connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)

    def get(self, target: str) -> tuple[int, dict[str, object]]:
        """Status and document."""
        self.connection.request("GET", target)
        reply = self.connection.getresponse()
        body = reply.read()
        return reply.status, json.loads(body) if body else {}

    def entries(self) -> int:
        """All that were published, of closed ranges too: from the first LSN to the head of each."""
        with closing(
            sqlite3.connect(f"file:{self.root}/.cfetch-feed/feed.sqlite?mode=ro", uri=True)
        ) as found:
            count: int = found.execute("SELECT sum(next - first) FROM ranges").fetchone()[0]
        return count

    def peak_mib(self) -> float:
        """VmHWM."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024

    def read_all(self) -> tuple[int, float]:
        """All entries of a feed of one range, by pages of a thousand: how many, and seconds."""
        _, listed = self.get("/")
        begin, next_lsn, entries = time.monotonic(), 0, 0
        while True:
            asked = f"/read?feed={listed['feed']}&via=0&of=0&next_lsn={next_lsn}&keys={ALL}&limit=1000"
            _, page = self.get(asked)
            changes = page["changes"]
            assert isinstance(changes, list)
            if not changes:
                return entries, time.monotonic() - begin
            entries += len(changes)
            next_lsn = int(str(page["next_lsn"]))

    def stop(self) -> None:
        """SIGTERM, which ends it in good order."""
        self.connection.close()
        self.child.send_signal(signal.SIGTERM)
        assert self.child.wait(60) == 0
        assert self.child.stdout is not None
        self.child.stdout.close()


def mirror(server: Server, to: Path, entries: int) -> None:
    """Follow the feed from its beginning; print a line."""
    words = ["follow", server.url, "--to", str(to), "--once", "--json", "--quiet", "--durability", "crash"]
    begin = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "cfetch", *words], stdout=subprocess.PIPE, env=clean_environment()
    )
    assert child.stdout is not None
    told = json.loads(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    seconds, peak_mib = time.monotonic() - begin, usage.ru_maxrss / 1024
    child.stdout.close()
    assert (os.waitstatus_to_exitcode(status), told["files"]["done"]) == (0, entries), told
    pairs = ((path, server.root / path.relative_to(to)) for path in files(to))
    same = sum(here.read_bytes() == there.read_bytes() for here, there in pairs)
    assert same == entries, f"{same} of {entries} files are as they are at the source"
    print(f"followed {entries} in {seconds:.1f} s, peak {peak_mib:.0f} MiB")
    print(f"server's peak {server.peak_mib():.0f} MiB")
    print(f"followed: {told['feed']}")


def files(root: Path) -> Iterator[Path]:
    """Of a mirror."""
    for above, directories, names in os.walk(root):
        directories[:] = [one for one in directories if one != ".cfetch"]
        yield from (Path(above, name) for name in names)


def measure(folder: Path, entries: int, *, flat: bool, split_entries: int | None, follow: bool) -> None:
    """Publish, read, restart, publish one more; print a line for each."""
    root = folder / "tree"
    make_tree(root, entries, flat=flat)
    options = [] if split_entries is None else ["--split-entries", str(split_entries)]
    begin = time.monotonic()
    server = Server(root, "--rescan", "1h", *options)  # the first look begins at once
    while server.entries() < entries:
        time.sleep(POLL_S)
    print(f"published {entries} in {time.monotonic() - begin:.1f} s, peak {server.peak_mib():.0f} MiB")
    if split_entries is None:
        found, seconds = server.read_all()
        print(f"read {found} in {seconds:.1f} s, peak {server.peak_mib():.0f} MiB")
    if follow:
        mirror(server, folder / "to", entries)
    server.stop()
    server = Server(root, "--rescan", "50ms", *options)
    before = server.entries()
    begin = time.monotonic()
    (root / "one more").write_text("one more")
    os.utime(root / "one more", (begin, begin))
    while server.entries() == before:
        time.sleep(POLL_S)
    print(f"one more after a restart: {time.monotonic() - begin:.1f} s, peak {server.peak_mib():.0f} MiB")
    database = sum(path.stat().st_size for path in (root / ".cfetch-feed").iterdir())
    print(f"database {database / (1 << 20):.0f} MiB")
    server.stop()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--split-entries", type=int)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        where = Path(folder)
        measure(where, given.entries, flat=given.flat, split_entries=given.split_entries, follow=given.follow)


if __name__ == "__main__":
    main()
