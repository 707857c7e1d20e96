"""What a very long manifest takes: memory and processor time of ``cfetch`` over a million tiny files.

Two commands are measured: a download, and the same when all files stand in place. With ``--check`` instead
that the manifest is checked, which takes no server. The files have
1 to 16 bytes, so nearly all memory is what cfetch keeps for each entry. The peak is the kernel's (VmHWM of
the process), sampled until it ends; the time is the processor's, however busy the machine is. Usage::

    python benchmarks/memory_million.py [--entries 1000000] [--format json|jsonl|csv|parquet] [--check]
        [--folder DIR] [-- OPTIONS OF cfetch download]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cfetch.plugins.lab.bench.child import clean_environment
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec

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


class Row(NamedTuple):
    """An entry of the manifest; its size in bytes."""

    url: str
    size: int
    path: str


def write_manifest(path: Path, url: str, entries: int) -> None:
    """Write it as a stream, in the format that the ending names."""
    rows = (
        Row(url + group.name(index), group.size_bytes, group.name(index))
        for group in groups(entries)
        for index in range(group.count)
    )
    if path.suffix == ".parquet":
        write_parquet(path, rows)
        return
    with path.open("w") as file:
        if path.suffix == ".csv":
            file.write("url,size,path\n")
            file.writelines(f"{row.url},{row.size},{row.path}\n" for row in rows)
            return
        objects = (f'{{"url": "{row.url}", "size": {row.size}, "path": "{row.path}"}}' for row in rows)
        if path.suffix == ".jsonl":
            file.writelines(f"{text}\n" for text in objects)
            return
        file.write('{"version": 1, "files": [\n')
        file.write(next(objects))
        file.writelines(f",\n{text}" for text in objects)
        file.write("\n]}\n")


def write_parquet(path: Path, rows: Iterator[Row]) -> None:
    """Write a table of row groups of 100,000 entries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema({"url": pa.string(), "size": pa.int64(), "path": pa.string()})
    with pq.ParquetWriter(path, schema) as writer:
        while some := list(islice(rows, 100_000)):
            writer.write_table(pa.table(list(zip(*some, strict=True)), schema=schema))


def peaks(process: "subprocess.Popen[bytes]") -> Iterator[int]:
    """The process's peak in KiB, again and again until it ends."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                yield int(line.split()[1])
        time.sleep(SAMPLE_S)


def measure(what: str, arguments: list[str], entries: int) -> None:
    """Run one command of cfetch, and print what it took."""
    command = [*CFETCH, *arguments]
    peak, start, before_s = 0, time.monotonic(), processor_s()
    said = start
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.DEVNULL) as process:
        for peak in peaks(process):
            if time.monotonic() - said >= REPORT_EVERY_S:
                said = time.monotonic()
                print(f"{said - start:6.0f} s  {peak / 1024:7.1f} MiB", file=sys.stderr)
    used_s = processor_s() - before_s
    print(
        f"{entries:,} entries, {what}: peak {peak / 1024:.1f} MiB, {time.monotonic() - start:.1f} s, "
        f"{used_s:.1f} s of the processor ({1e6 * used_s / entries:.1f} µs an entry), "
        f"exit code {process.returncode}",
        flush=True,
    )


def processor_s() -> float:
    """What all children that have ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--format", choices=["json", "jsonl", "csv", "parquet"], default="json")
    parser.add_argument("--check", action="store_true", help="only check the manifest")
    parser.add_argument("--folder", type=Path, default=None, help="where the files go")
    parser.add_argument("more", nargs="*", help="options for cfetch download, after --")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-memory-") as outer:
        folder = Path(outer)
        manifest = folder / f"manifest.{args.format}"
        if args.check:
            write_manifest(manifest, "http://origin.test/", args.entries)
            measure("checked", ["manifest", "check", str(manifest)], args.entries)
            return
        metrics = str(folder / "metrics.jsonl")
        download = ["download", str(manifest), "--to", str(folder / "files"), "--metrics", metrics, "--quiet"]
        with OriginProcess(OriginSpec(groups=groups(args.entries))) as origin:
            write_manifest(manifest, origin.url, args.entries)
            measure("downloaded", [*download, *args.more], args.entries)
        measure("nothing to do", [*download, *args.more], args.entries)


if __name__ == "__main__":
    main()
