"""How much memory a very long manifest takes: the peak of ``cfetch download`` over a million tiny files.

The files have 1 to 16 bytes, so nearly all memory is what cfetch keeps for each entry. The peak is the
kernel's (VmHWM of the process), sampled until it ends. Usage::

    python benchmarks/memory_million.py [--entries 1000000] [--folder DIR] [-- OPTIONS OF cfetch download]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cfetch.bench.child import clean_environment
from cfetch.bench.compare import CFETCH
from cfetch.bench.content import Group
from cfetch.bench.process import OriginProcess
from cfetch.bench.spec import OriginSpec

SIZES = range(1, 17)
SAMPLE_S = 0.05  # the peak only grows, so that a rare look suffices; what grows within the last one is missed
REPORT_EVERY_S = 10.0


def groups(entries: int) -> tuple[Group, ...]:
    """``entries`` files, evenly of all sizes."""
    share, more = divmod(entries, len(SIZES))
    return tuple(
        Group(prefix=f"{size:02d}/", count=share + (index < more), size_bytes=size)
        for index, size in enumerate(SIZES)
    )


def write_manifest(path: Path, url: str, entries: int) -> None:
    """Native JSON, written as a stream."""
    rows = (
        f'{{"url": "{group.name(index)}", "size": {group.size_bytes}, "path": "{group.name(index)}"}}'
        for group in groups(entries)
        for index in range(group.count)
    )
    with path.open("w") as file:
        file.write(f'{{"version": 1, "base_url": "{url}", "files": [\n')
        file.write(next(rows))
        file.writelines(f",\n{row}" for row in rows)
        file.write("\n]}\n")


def peaks(process: "subprocess.Popen[bytes]") -> Iterator[int]:
    """The process's peak in KiB, again and again until it ends."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                yield int(line.split()[1])
        time.sleep(SAMPLE_S)


def measure(manifest: Path, folder: Path, more: list[str]) -> tuple[int, int, float]:
    """Exit code, peak in KiB, and seconds of one download."""
    options = ["--to", str(folder / "files"), "--metrics", str(folder / "metrics.jsonl"), "--quiet"]
    command = [*CFETCH, "download", str(manifest), *options, *more]
    peak, start = 0, time.monotonic()
    said = start
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.DEVNULL) as process:
        for peak in peaks(process):
            if time.monotonic() - said >= REPORT_EVERY_S:
                said = time.monotonic()
                print(f"{said - start:6.0f} s  {peak / 1024:7.1f} MiB", file=sys.stderr)
    return process.returncode, peak, time.monotonic() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the files go")
    parser.add_argument("more", nargs="*", help="options for cfetch download, after --")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-memory-") as outer:
        folder = Path(outer)
        with OriginProcess(OriginSpec(groups=groups(args.entries))) as origin:
            write_manifest(folder / "manifest.json", origin.url, args.entries)
            code, peak, elapsed_s = measure(folder / "manifest.json", folder, args.more)
        print(f"{args.entries:,} entries: peak {peak / 1024:.1f} MiB, {elapsed_s:.1f} s, exit code {code}")


if __name__ == "__main__":
    main()
