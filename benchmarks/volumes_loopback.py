"""Four real directories, one of them ten times slower, filled by the real program from a loopback server.

Each volume's own thread (``GuardedDisk``) sleeps for as long as a disk of its speed would need for a write.
That is the only thing that is not real: no block device can be throttled here, so the page cache of one disk
stands for all four. Files are log-uniform from 1 KiB to 8 MiB; mitigation is off, as it would move files from
the slow volume as well. Usage::

    python benchmarks/volumes_loopback.py [--files N] [--repeats N]

The ideal is all bytes over all speeds. "Work" is what a volume took over its speed.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from math import log
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import msgspec

import cfetch.run.volumes
from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.plugins.lab.bench.content import Group, SyntheticSet
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec
from cfetch.storage.guarded_disk import GuardedDisk

KIB, MIB = 1 << 10, 1 << 20
FAST_BPS, SLOW_BPS = 24.0 * MIB, 2.4 * MIB  # together less than this program takes from a loopback server
SPEEDS_BPS = (FAST_BPS, FAST_BPS, FAST_BPS, SLOW_BPS)
SMALLEST, LARGEST = 1 * KIB, 8 * MIB
DISK = "GuardedDisk"
PLACEMENTS = ("round-robin", "count", "finish")


class ThrottledDisk(GuardedDisk):
    """Writes at ``speed_bps``: the thread is as late as a disk of that speed would be."""

    def __init__(self, name: str, monotonic: Callable[[], float], *, speed_bps: float) -> None:
        super().__init__(name, monotonic)
        self._speed_bps = speed_bps
        self._free_s = 0.0

    def do(self, step: Callable[..., None], *args: Any, size_bytes: int = 0) -> None:  # noqa: ANN401
        """As the real one, a little later."""
        super().do(self._slowly, step, args, size_bytes, size_bytes=size_bytes)

    def _slowly(self, step: Callable[..., None], args: tuple[Any, ...], size_bytes: int) -> None:
        step(*args)
        if size_bytes:
            self._free_s = max(self._free_s, time.monotonic()) + size_bytes / self._speed_bps
            time.sleep(max(0.0, self._free_s - time.monotonic()))


class Result(NamedTuple):
    """``makespan_s`` of one run, and the bytes that each volume has at its end."""

    makespan_s: float
    taken: tuple[int, ...]

    @property
    def work(self) -> float:
        """The most over the mean."""
        work = [size / speed for size, speed in zip(self.taken, SPEEDS_BPS, strict=True)]
        return max(work) / fmean(work)

    @property
    def bytes(self) -> float:
        """The most over the mean."""
        return max(self.taken) / fmean(self.taken)


def one_run(manifest: Path, folder: Path, placement: str) -> Result:
    """The whole command but for its words."""
    roots = tuple(str(folder / f"v{n}") for n in range(len(SPEEDS_BPS)))
    speed_of = dict(zip(roots, SPEEDS_BPS, strict=True))

    def throttled(name: str, monotonic: Callable[[], float]) -> ThrottledDisk:
        return ThrottledDisk(name, monotonic, speed_bps=speed_of[name])

    settings = Settings(to=roots, placement=placement, durability="crash", mitigation=False)
    setattr(cfetch.run.volumes, DISK, throttled)
    try:
        with prepare(str(manifest), settings, env={}) as prepared:
            summary = prepared.run(lambda _: None)
    finally:
        setattr(cfetch.run.volumes, DISK, GuardedDisk)
    assert summary is not None
    assert summary.exit_code == 0, summary.failures
    volumes = msgspec.to_builtins(summary)["volumes"]
    return Result(summary.elapsed_s, tuple(one["bytes"] for one in volumes))


def groups_of(files: int, seed: int) -> tuple[Group, ...]:
    """Files of log-uniform sizes."""
    rng = random.Random(seed)
    sizes = [round(SMALLEST * 2 ** rng.uniform(0, log(LARGEST / SMALLEST, 2))) for _ in range(files)]
    return tuple(Group(prefix=f"f{n}-", count=1, size_bytes=size) for n, size in enumerate(sizes))


def main() -> None:
    """A table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=80)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    results: dict[str, list[Result]] = {placement: [] for placement in PLACEMENTS}
    ideals = []
    for seed in range(args.repeats):
        spec = OriginSpec(groups=groups_of(args.files, seed))
        served = SyntheticSet(spec.groups, spec.seed)
        total = sum(group.size_bytes for group in spec.groups)
        ideals.append(total / sum(SPEEDS_BPS))
        with OriginProcess(spec) as origin, tempfile.TemporaryDirectory(prefix="cfetch-volumes-") as folder:
            rows = [{"url": name, "path": name, "size": served[name].size_bytes} for name in served]
            manifest = Path(folder, "m.json")
            manifest.write_bytes(msgspec.json.encode({"version": 1, "base_url": origin.url, "files": rows}))
            for placement in PLACEMENTS:
                results[placement].append(one_run(manifest, Path(folder, placement), placement))
    print(f"{args.files} files, {args.repeats} runs each, one of four volumes ten times slower")
    print()
    print("| placement | makespan, s | / ideal | / round-robin | bytes max/mean | work max/mean |")
    print("| --- | --: | --: | --: | --: | --: |")
    for placement, runs in results.items():
        makespan_s = median(run.makespan_s for run in runs)
        ideal = median(run.makespan_s / ideal_s for run, ideal_s in zip(runs, ideals, strict=True))
        ratio = median(
            run.makespan_s / other.makespan_s for run, other in zip(runs, results["round-robin"], strict=True)
        )
        print(
            f"| {placement} | {makespan_s:.1f} | {ideal:.2f} | {ratio:.2f} "
            f"| {median(run.bytes for run in runs):.2f} | {median(run.work for run in runs):.2f} |"
        )


if __name__ == "__main__":
    main()
