"""Processor time of a file in runs of one and of several processes: the parent's, its children's.

``python benchmarks/processes_cost.py [--files 20000] [--processes 1,2,3]``. The origin is a process of its
own, and does not count. The cost of starting is part of it: compare two numbers of files to part them.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import msgspec

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec

SIZE_BYTES = 16 << 10


def main() -> None:
    """Print a line for each number of processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--processes", default="1,2,3")
    args = parser.parse_args()
    group = Group(prefix="small/", count=args.files, size_bytes=SIZE_BYTES)
    print("processes  wall      a file: parent  children")
    with (
        tempfile.TemporaryDirectory(prefix="cfetch-cost-") as name,
        OriginProcess(OriginSpec(groups=(group,), seed=1)) as origin,
    ):
        names = (group.name(index) for index in range(group.count))
        rows = [{"url": path, "path": path, "size": SIZE_BYTES} for path in names]
        manifest = Path(name, "m.json")
        manifest.write_bytes(msgspec.json.encode({"version": 1, "base_url": origin.url, "files": rows}))
        for number in map(int, args.processes.split(",")):
            wall_s, own_s, children_s = measure(manifest, Path(name, f"to{number}"), number)
            own, children = (f"{1e6 * part_s / args.files:.0f} µs" for part_s in (own_s, children_s))
            print(f"{number:9}  {wall_s:5.2f} s   {own:>14}  {children:>8}", flush=True)


def measure(manifest: Path, to: Path, processes: int) -> tuple[float, float, float]:
    """Wall time, processor time of this process and of its children, in seconds."""
    with prepare(str(manifest), Settings(to=(str(to),), processes=processes), env={}) as prepared:
        began_s, own_s, children_s = (
            time.monotonic(),
            cpu_s(resource.RUSAGE_SELF),
            cpu_s(resource.RUSAGE_CHILDREN),
        )
        summary = prepared.run(lambda _: None)
        assert summary is not None
        assert summary.exit_code == 0
        return (
            time.monotonic() - began_s,
            cpu_s(resource.RUSAGE_SELF) - own_s,
            cpu_s(resource.RUSAGE_CHILDREN) - children_s,
        )


def cpu_s(who: int) -> float:
    """User and system time in seconds."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
