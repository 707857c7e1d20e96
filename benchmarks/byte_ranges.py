"""10,000 records out of 20 objects, as of WARC files by an index: cfetch beside curl, every record compared.

Half of the records stand alone in their object, half in runs of ``RUN`` neighbours. ``joined`` fetches each
run as one range and keeps it as one file: the most that joining neighbours could gain. A loop of curl, which
takes a process for each record, fetches ``--loop`` of them only. Usage::

    python benchmarks/byte_ranges.py [--records 10000] [--latency-ms 0] [--rounds 3] [--loop 500]
"""

import argparse
import hashlib
import json
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group, Synthetic
from cfetch.plugins.lab.bench.network import NetworkModel
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import JournalEntry, OriginSpec

OBJECTS = Group(prefix="warc/", count=20, size_bytes=1 << 30)
MEDIAN_BYTES, SIGMA = 8 << 10, 1.0  # of a compressed page with its headers, log-normal
RUN = 10  # neighbours in an object, as pages of one site are
PARALLEL = 16
LIMIT_S = 1200.0


class Record(NamedTuple):
    """A range of an object, and the file that it becomes."""

    name: str
    start: int
    size_bytes: int

    @property
    def path(self) -> str:
        """As cfetch names it in this benchmark."""
        return f"{self.name}/{self.start}"

    def read(self) -> bytes:
        """What the server has there."""
        content, data = Synthetic(self.name, OBJECTS.size_bytes), bytearray()
        while len(data) < self.size_bytes:
            data += content.read(self.start + len(data), self.size_bytes - len(data))
        return bytes(data)


def draw_runs(records: int) -> list[list[Record]]:
    """Runs of records, in a random order; a record that stands alone is a run of one."""
    rng = random.Random("byte ranges")
    runs: list[list[Record]] = []
    drawn = 0
    while drawn < records:
        length = min(RUN if rng.random() < 1 / (RUN + 1) else 1, records - drawn)
        name, start = (
            OBJECTS.name(rng.randrange(OBJECTS.count)),
            rng.randrange(OBJECTS.size_bytes - (64 << 20)),
        )
        run = []
        for _ in range(length):
            size_bytes = min(max(400, int(rng.lognormvariate(0, SIGMA) * MEDIAN_BYTES)), 1 << 20)
            run.append(Record(name, start, size_bytes))
            start += size_bytes
        runs.append(run)
        drawn += length
    return runs


def write_manifest(path: Path, records: Sequence[Record], base_url: str, *, hashes: bool) -> None:
    """JSON Lines, with the hash of each record."""
    with path.open("w") as file:
        file.write(json.dumps({"version": 1, "base_url": base_url}) + "\n")
        for record in records:
            row = {
                "url": record.name,
                "path": record.path,
                "offset": record.start,
                "length": record.size_bytes,
            }
            if hashes:
                row["sha256"] = hashlib.sha256(record.read()).hexdigest()
            file.write(json.dumps(row) + "\n")


def write_curl_config(path: Path, records: Sequence[Record], base_url: str, to: Path) -> None:
    """One section a record."""
    sections = (
        f'url = "{base_url}{record.name}"\nrange = {record.start}-{record.start + record.size_bytes - 1}\n'
        f'output = "{to}/{record.path}"\ncreate-dirs\nfail\nsilent\nshow-error\n'
        for record in records
    )
    path.write_text("next\n".join(sections))


def write_loop(path: Path, records: Sequence[Record], base_url: str, to: Path) -> None:
    """A shell loop, a process a record."""
    lines = (
        f"curl -sS --fail --create-dirs -r {record.start}-{record.start + record.size_bytes - 1} "
        f"-o {to}/{record.path} {base_url}{record.name}\n"
        for record in records
    )
    path.write_text("".join(lines))


Commands = Callable[[Path, Path, str], list[str]]


def make_contenders(
    records: list[Record], joined: list[Record], loop: int
) -> dict[str, tuple[list[Record], Commands]]:
    """By name: the files that each is to bring, and its command for a folder, a destination and a server."""

    def cfetch(wanted: list[Record], *, hashes: bool) -> Commands:
        def command(folder: Path, to: Path, url: str) -> list[str]:
            write_manifest(folder / "m.jsonl", wanted, url, hashes=hashes)
            return [*CFETCH, "download", str(folder / "m.jsonl"), "--to", str(to), "--quiet"]

        return command

    def curl(*options: str) -> Commands:
        def command(folder: Path, to: Path, url: str) -> list[str]:
            write_curl_config(folder / "K", records, url, to)
            return ["curl", *options, "-K", str(folder / "K")]

        return command

    def shell(folder: Path, to: Path, url: str) -> list[str]:
        write_loop(folder / "loop.sh", records[:loop], url, to)
        return ["sh", str(folder / "loop.sh")]

    return {
        "cfetch": (records, cfetch(records, hashes=True)),
        "cfetch, joined": (joined, cfetch(joined, hashes=False)),
        f"curl -Z --parallel-max {PARALLEL} -K": (
            records,
            curl("-Z", "--parallel-max", str(PARALLEL), "--parallel-immediate"),
        ),
        "curl -K": (records, curl()),
        f"a loop of curl, {loop} records": (records[:loop], shell),
    }


class Trial(NamedTuple):
    """One run: seconds, and what the server saw; ``right`` of the files are what the server has."""

    wall_s: float
    cpu_s: float
    requests: int
    connections: int
    right: int


def try_once(wanted: list[Record], command: Commands, latency_s: float) -> Trial:
    """Run one contender in an empty folder, against a server of its own."""
    with tempfile.TemporaryDirectory(prefix="cfetch-ranges-") as name:
        folder, to = Path(name), Path(name, "to")
        to.mkdir()
        journal = folder / "journal"
        network = NetworkModel(latency_s=latency_s) if latency_s else None
        with OriginProcess(OriginSpec(groups=(OBJECTS,), network=network, journal=str(journal))) as origin:
            words = command(folder, to, origin.url)
            outcome = run_child(words, limit_s=LIMIT_S)
        if outcome.exit_code:
            print(f"exit code {outcome.exit_code}: {outcome.error[:300]}", flush=True)
        seen = JournalEntry.read(journal)
        right = sum(
            (to / record.path).is_file() and (to / record.path).read_bytes() == record.read()
            for record in wanted
        )
        connections = len({(entry.host, entry.number) for entry in seen})
        return Trial(outcome.wall_s, outcome.cpu_s, len(seen), connections, right)


def main() -> None:
    """Print a line for each contender; medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", type=int, default=500)
    parser.add_argument("--only", default="", help="the beginning of a contender's name")
    args = parser.parse_args()
    runs = draw_runs(args.records)
    records = [record for run in runs for record in run]
    joined = [Record(run[0].name, run[0].start, sum(record.size_bytes for record in run)) for run in runs]
    total = sum(record.size_bytes for record in records)
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True)
    print(f"{len(records)} records, {total / 1e6:.1f} MB, {len(runs)} runs; {version.stdout.split(' (')[0]}")
    print(f"{'':32} {'wall':>8} {'CPU':>8} {'requests':>9} {'connections':>12} {'right':>14}")
    for name, (wanted, command) in make_contenders(records, joined, args.loop).items():
        if not name.startswith(args.only):
            continue
        trials = [try_once(wanted, command, args.latency_ms / 1000) for _ in range(args.rounds)]
        wall_s, cpu_s = (statistics.median(trial[place] for trial in trials) for place in (0, 1))
        last = trials[-1]
        print(
            f"{name:32} {wall_s:6.2f} s {cpu_s:6.2f} s {last.requests:9} {last.connections:12} "
            f"{min(trial.right for trial in trials):6} of {len(wanted)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
