"""`scripts/demo`: real files of this machine, a server that holds some of them back, and cfetch at work.

Everything is local. The server paces ordinary connections so that the job takes about ten seconds and can be
watched; eight larger files crawl at first, a few connections break, one is refused.
"""

import os
import random
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from urllib.parse import quote

import msgspec

from cfetch.manifest.entry import UnsafePathError, safe_path
from cfetch.manifest.folding import collision_key
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import RealFile
from cfetch.plugins.lab.bench.faults import Fault, FaultRule, draw
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec

ROOTS = (Path(sysconfig.get_path("stdlib")), Path("/usr/share"), Path("/usr/lib"))
MIN_BYTES, MAX_BYTES = 1 << 10, 2 << 20  # smaller files show nothing; a larger file takes too long
MAX_FILES, TOTAL_BYTES = 300, 120 << 20
LOOK_AT = 5_000  # files of each root; a machine may have millions and the demo should start at once
CONNECTIONS = 16
SECONDS = 9.0  # the time of the whole demo without faults
STRAGGLERS = 8
LARGE_BYTES = 256 << 10  # at a straggler's 16 KiB/s a smaller file would end before it is noticed
SEED = 2


def main() -> int:
    """Run the demo; the exit code is that of ``cfetch download``."""
    folder = Path(tempfile.mkdtemp(prefix="cfetch-demo-"))
    try:
        code = _run_demo(folder)
    except KeyboardInterrupt:  # before the download had begun
        shutil.rmtree(folder)
        return 130
    print("\n".join(epilogue_lines(folder, code)))
    return code


def _run_demo(folder: Path) -> int:
    files = pick_files()
    sizes = {name: path.stat().st_size for name, path in files.items()}
    total = sum(sizes.values())
    spec = OriginSpec(
        files={name: str(path) for name, path in files.items()},
        faults=_draw_faults(sizes),
        pace_bps=min(4 << 20, max(256 << 10, total / CONNECTIONS / SECONDS)),
    )
    print(f"{len(files)} real files, {total >> 20} MiB; {STRAGGLERS} of them will crawl at 16 KiB/s.\n")
    with OriginProcess(spec) as origin:
        (folder / "manifest.json").write_bytes(_build_manifest(origin.url, files, sizes))
        return _download(folder)


def pick_files() -> dict[str, Path]:
    """Up to 300 files, half of them large, by the name that they get; never more than 120 MiB in all."""
    candidates = [candidate for root in ROOTS for candidate in islice(_find_candidates(root), LOOK_AT)]
    random.Random(SEED).shuffle(candidates)  # noqa: S311 - a demo
    large = [candidate for candidate in candidates if candidate[2] >= LARGE_BYTES]
    small = [candidate for candidate in candidates if candidate[2] < LARGE_BYTES]
    picked: dict[str, Path] = {}
    seen: set[str] = set()
    left = TOTAL_BYTES
    for name, path, size in large[: MAX_FILES // 2] + small:
        if len(picked) < MAX_FILES and size <= left and collision_key(name) not in seen:
            picked[name] = path
            seen.add(collision_key(name))
            left -= size
    return picked


def _find_candidates(root: Path) -> Iterator[tuple[str, Path, int]]:
    """Readable regular files with a name that a manifest may have, and their sizes."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = f"{folder}/{name}"
            short = os.path.relpath(path, root.parent)
            try:
                safe_path(short)
                status = os.lstat(path)
            except (OSError, UnsafePathError):
                continue
            if (
                S_ISREG(status.st_mode)
                and MIN_BYTES <= status.st_size <= MAX_BYTES
                and os.access(path, os.R_OK)
            ):
                yield short, Path(path), status.st_size


def _draw_faults(sizes: dict[str, int]) -> dict[str, tuple[Fault, ...]]:
    large = sorted(name for name, size in sizes.items() if size >= LARGE_BYTES)
    number = max(1, len(large))
    rules = [
        FaultRule(fraction=min(0.5, STRAGGLERS / number), fault=Fault(kind="slow", rate_bps=16 << 10)),
        FaultRule(fraction=min(0.2, 3 / number), fault=Fault(kind="reset", after_bytes=100_000)),
        FaultRule(fraction=min(0.1, 1 / number), fault=Fault(kind="status", status=503, retry_after_s=1)),
    ]
    return draw(large, rules, SEED)


def _build_manifest(url: str, files: dict[str, Path], sizes: dict[str, int]) -> bytes:
    names = sorted(files)
    random.Random(SEED).shuffle(names)  # noqa: S311 - a demo
    rows = [
        {"url": quote(name), "path": name, "size": sizes[name], "sha256": RealFile.at(files[name]).sha256()}
        for name in names
    ]
    return msgspec.json.encode({"version": 1, "base_url": url, "files": rows})


def _download(folder: Path) -> int:
    paths = [
        str(folder / "manifest.json"),
        "--to",
        str(folder / "files"),
        "--metrics",
        str(folder / "metrics.jsonl"),
    ]
    command = [*CFETCH, "download", *paths]  # it begins with so many
    with subprocess.Popen(command) as process:  # noqa: S603 - our own command
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the child got the signal too and ends by itself
                continue


def epilogue_lines(folder: Path, code: int) -> list[str]:
    """The next commands to try; they work without the demo's server, which is gone by then."""
    installed = Path(sys.executable).with_name("cfetch")
    command = (
        shlex.quote(str(installed)) if installed.exists() else f"{shlex.quote(sys.executable)} -m cfetch"
    )
    if shutil.which("cfetch") == str(installed):
        command = "cfetch"
    manifest, to, metrics = (
        shlex.quote(str(folder / name)) for name in ("manifest.json", "files", "metrics.jsonl")
    )
    commands = [
        (f"{command} report {metrics}", (folder / "metrics.jsonl").exists()),
        (f"{command} bench --simulate-stragglers --quick", True),
        (f"{command} download {manifest} --to {to}  # nothing left to fetch", code == 0),
        (f"rm -r {shlex.quote(str(folder))}", True),
    ]
    ended = (
        ""
        if code == 0
        else "Not all files came, and the demo's server has gone; run it again to see the end.\n"
    )
    head = f"\n{ended}Everything is in {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}."
    return [f"{head}\nTo look further:", *(f"  {text}" for text, works in commands if works)]


if __name__ == "__main__":
    sys.exit(main())
