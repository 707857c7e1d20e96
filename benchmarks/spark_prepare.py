"""How long Spark takes to prepare a very long manifest, and what memory that takes on two cores.

The manifest is synthetic JSON Lines: signed links of 2,000 hosts by Zipf's law, sizes from 1 KB to 100 MB
and some of 20 GB. Peaks are the kernel's VmHWM of the driver's Python, of the JVM, which has the driver and
the executor, and of the largest Python worker. Usage::

    python benchmarks/spark_prepare.py [--entries 1000000] [--folder /dev/shm] [--master 'local[2]']
"""

import argparse
import bisect
import itertools
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from cfetch.plugins.spark.prepare.manifests import prepare
from cfetch.plugins.spark.prepare.prepared import PreparedPlan
from cfetch.plugins.spark.session import spark_session

HOSTS = 2_000
ZIPF = 1.2
GIANT_BYTES = 20_000_000_000
ENTRIES_A_GIANT = 50_000
SEED = 7
SAMPLE_S = 0.2  # the peak only grows; what grows within the last moment of a worker is missed


def rows(entries: int) -> Iterator[str]:
    """Lines of JSON."""
    dice = random.Random(SEED)
    shares = list(itertools.accumulate(1 / rank**ZIPF for rank in range(1, HOSTS + 1)))
    for index in range(entries):
        host = bisect.bisect(shares, dice.random() * shares[-1])
        size = int(10 ** dice.uniform(3, 8)) if index % ENTRIES_A_GIANT else GIANT_BYTES
        yield (
            f'{{"url": "https://data{host}.example.org/set/{index % 1000:03d}/{index}.bin'
            f'?X-Amz-Expires=3600&X-Amz-Signature={dice.getrandbits(256):064x}", "size": {size}, '
            f'"path": "set/{index % 1000:03d}/{index}.bin"}}\n'
        )


class Peaks:
    """The peaks of this process and of all below it, by kind, in KiB, and what processor time they took."""

    def __init__(self) -> None:
        self.of = {"driver": 0, "JVM": 0, "worker": 0}
        self.cpu_s = -self._cpu_s()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()
        self.cpu_s += self._cpu_s()

    def _cpu_s(self) -> float:
        """Of all of them, and of those that have ended and were waited for."""
        ticks = 0
        for process in self._family():
            try:
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_S):
            for process in self._family():
                kind = "driver" if process == os.getpid() else self._kind(process)
                self.of[kind] = max(self.of[kind], self._peak(process))

    def _family(self) -> list[int]:
        parents = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
        found = [os.getpid()]
        for one in found:
            found += [child for child, parent in parents.items() if parent == one]
        return found

    def _kind(self, process: int) -> str:
        try:
            return "JVM" if Path(f"/proc/{process}/comm").read_text().startswith("java") else "worker"
        except OSError:
            return "worker"

    def _peak(self, process: int) -> int:
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def show(entries: int, size_bytes: int, elapsed_s: float, plan: PreparedPlan, peaks: Peaks) -> None:
    """Print the figures."""
    costs = sorted(plan.cost_s)
    print(f"{entries:,} entries, {size_bytes / 1e6:,.0f} MB of JSON Lines: prepared in {elapsed_s:.1f} s")
    print(f"processor time {peaks.cpu_s:.0f} s")
    print("peaks: " + ", ".join(f"{kind} {kib / 1024:,.0f} MiB" for kind, kib in peaks.of.items()))
    print(
        f"{len(costs):,} batches: {costs[0]:.0f} to {costs[-1]:.0f} s, median {costs[len(costs) // 2]:.0f} s"
    )
    print(f"rejected {plan.rejected}, merged {plan.merged}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--slots", type=int, default=64, help="tasks that would download at a time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-prepare-") as outer:
        manifest = Path(outer, "manifest.jsonl")
        with manifest.open("w") as file:
            file.writelines(rows(args.entries))
        with spark_session(args.master) as spark:
            peaks, start = Peaks(), time.monotonic()
            plan = prepare(spark, [manifest], Path(outer, "prepared"), slots=args.slots)
            elapsed_s = time.monotonic() - start
            peaks.end()
        show(args.entries, manifest.stat().st_size, elapsed_s, plan, peaks)


if __name__ == "__main__":
    main()
