"""What a run keeps open and in memory, and what it fetches again after kill -9 half-way.

Three tables: the peak of resident memory against the size of the file; the most descriptors that were open
against the number of files; bytes fetched again after a run of large files was killed when half of the bytes
were there, for manifests with hashes and with sizes only (then by ETag). Usage::

    python benchmarks/bounds.py [--folder DIR]
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from cfetch.plugins.lab.bench.child import clean_environment
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group, SyntheticSet
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec

MIB = 1 << 20
SEED = 1
SIZES = (MIB, 64 * MIB, 1024 * MIB)
COUNTS = (100, 10_000)
CONCURRENCY = 16
LARGE = Group(prefix="large/", count=32, size_bytes=16 * MIB)
LIMIT_S = 300.0


def names(group: Group) -> list[str]:
    """All files of a group."""
    return [group.name(index) for index in range(group.count)]


def manifest(path: Path, url: str, group: Group, *, hashed: bool = False) -> Path:
    """A native manifest of a group."""
    files: list[dict[str, object]] = [{"url": name, "size": group.size_bytes} for name in names(group)]
    if hashed:
        contents = SyntheticSet((group,), SEED)
        for file in files:
            file["sha256"] = contents[str(file["url"])].sha256()
    path.write_text(json.dumps({"version": 1, "base_url": url, "files": files}))
    return path


def start(path: Path, to: Path, *more: str) -> "subprocess.Popen[bytes]":
    """A run; its summary goes to standard output."""
    words = ["download", str(path), "--to", str(to), "--json", "--quiet", "--concurrency", str(CONCURRENCY)]
    command = [*CFETCH, *words, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=clean_environment())


def ended(process: "subprocess.Popen[bytes]") -> dict[str, dict[str, int]]:
    """Its summary."""
    output, _ = process.communicate(timeout=LIMIT_S)
    if process.returncode != 0:
        raise SystemExit(f"cfetch ended with code {process.returncode}")
    found: dict[str, dict[str, int]] = json.loads(output)
    return found


def watched(process: "subprocess.Popen[bytes]") -> tuple[int, int]:
    """The peak of resident memory in bytes, and the most descriptors that were seen open."""
    peak_bytes = descriptors = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            descriptors = max(descriptors, len(list(Path(f"/proc/{process.pid}/fd").iterdir())))
        except OSError:
            break
        peaks = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
        peak_bytes = max(peak_bytes, *(1024 * peak for peak in peaks), 0)
        time.sleep(0.005)
    ended(process)
    return peak_bytes, descriptors


def bounds(folder: Path, group: Group) -> tuple[int, int]:
    """One run over a group: see ``watched``."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as inner,
        OriginProcess(OriginSpec(seed=SEED, groups=(group,), faults={})) as origin,
    ):
        return watched(start(manifest(Path(inner, "m.json"), origin.url, group), Path(inner, "to")))


def fetched_again(folder: Path, *, hashed: bool) -> tuple[int, int]:
    """Bytes fetched twice, and all bytes, of a run that was killed at half of them and its successor."""
    total = LARGE.count * LARGE.size_bytes
    with (
        tempfile.TemporaryDirectory(dir=folder) as inner,
        OriginProcess(OriginSpec(seed=SEED, groups=(LARGE,), faults={})) as origin,
    ):
        path, to = manifest(Path(inner, "m.json"), origin.url, LARGE, hashed=hashed), Path(inner, "to")
        first = start(path, to, "--limit-rate", "100M")
        while on_disk(to) < total / 2:
            if first.poll() is not None:
                raise SystemExit("the run ended before it could be killed")
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        kept = on_disk(to)
        summary = ended(start(path, to))
    return summary["bytes"]["fetched"] + kept - total, total


def on_disk(to: Path) -> int:
    """Bytes of files and parts; those that go while we look count as gone."""
    found = 0
    for folder, _, files in os.walk(to):
        if "metrics" not in folder and "plans" not in folder:
            for name in files:
                try:
                    found += Path(folder, name).stat().st_size
                except OSError:
                    continue
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=None, help="where files go")
    folder = parser.parse_args().folder or Path(tempfile.gettempdir())
    print("file size    peak memory")
    for size_bytes in SIZES:
        peak, _ = bounds(folder, Group(prefix="one/", count=1, size_bytes=size_bytes))
        print(f"{size_bytes // MIB:6d} MiB  {peak / MIB:7.1f} MiB", flush=True)
    print(f"files        most descriptors, {CONCURRENCY} at a time")
    for count in COUNTS:
        _, descriptors = bounds(folder, Group(prefix="many/", count=count, size_bytes=1000))
        print(f"{count:8,d}    {descriptors:4d}", flush=True)
    print("killed at 50 %   fetched again")
    for hashed in (True, False):
        twice, total = fetched_again(folder, hashed=hashed)
        by = "by hash" if hashed else "by ETag"
        print(f"{by:15}  {twice:,} of {total:,} bytes ({100 * twice / total:.2f} %)", flush=True)


if __name__ == "__main__":
    main()
