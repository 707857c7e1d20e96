"""Nightly runs onto volumes that have files already: how even the volumes are afterwards.

Each night the command brings one plan of ``--batches`` equal batches, which nobody has brought before, onto
file systems in memory. Three equal volumes; then four, of which one has half of the space, and one is added
empty after six nights. ``count`` should leave the volumes with equal numbers of files, and ``finish`` each
with its share of the space: both within one batch. With several batches a night, ``finish`` uses several
volumes at once for speed, so a new volume gets its share later; then only ``count`` is judged.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import msgspec

MIB = 1 << 20
FILES, FILE_BYTES = 8, MIB // 8  # of a batch
NIGHTS, EARLIER_NIGHTS = 8, 6
MODES = ("count", "finish", "round-robin")


class Volume(NamedTuple):
    """A volume: where it is mounted, and its space."""

    root: Path
    size_bytes: int

    def held_bytes(self) -> int:
        """The bytes of the files there."""
        return sum(path.stat().st_size for path in self.root.glob("night*/*/*"))


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def mount(root: Path, size_bytes: int) -> Volume:
    """Mount a file system in memory."""
    root.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", root], check=True)
    return Volume(root, size_bytes)


def bring(
    www: Path, url: str, folder: Path, volumes: Sequence[Volume], night: int, batches: int, mode: str
) -> None:
    """One night: new files at the server, and one run of the command."""
    rows = []
    for batch in range(batches):
        for number in range(FILES):
            name = f"night{night:02}/{batch}/{number}"
            path = www / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(FILE_BYTES))
            rows.append({"url": url + name, "path": name, "size": FILE_BYTES, "batch": f"{night}-{batch}"})
    manifest = folder / "manifest.json"
    manifest.write_bytes(msgspec.json.encode({"version": 1, "files": rows}))
    to = [word for volume in volumes for word in ("--to", str(volume.root))]
    words = ["download", str(manifest), *to, "--placement", mode, "--state", str(folder / "state"), "--quiet"]
    subprocess.run([sys.executable, "-m", "cfetch", *words], check=True)


def play(
    folder: Path, www: Path, url: str, mode: str, batches: int, *, four: bool
) -> tuple[list[int], float, float]:
    """Bring all nights; the batches on each volume, their spread, and how far one is off its share."""
    sizes = [64, 64, 32, 64] if four else [64, 64, 64]
    volumes = [mount(folder / f"v{number}", size * MIB) for number, size in enumerate(sizes)]
    nights = [*range(EARLIER_NIGHTS if four else 0)]
    for night in nights:
        bring(www, url, folder, volumes[:3], night, batches, mode)
    for night in range(len(nights), len(nights) + NIGHTS):
        bring(www, url, folder, volumes, night, batches, mode)
    held = [volume.held_bytes() for volume in volumes]
    for volume in volumes:
        subprocess.run(["umount", volume.root], check=True)
    batch_bytes = FILES * FILE_BYTES
    shares = [sum(held) * size / sum(sizes) for size in sizes]
    off = max(abs(own - share) for own, share in zip(held, shares, strict=True)) / batch_bytes
    return [own // batch_bytes for own in held], (max(held) - min(held)) / batch_bytes, off


def rows_of(folder: Path, batches: int) -> Iterable[tuple[str, str, list[int], float, float]]:
    """Play each mode with three and with four volumes."""
    www = folder / "www"
    www.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(www))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        for four in (False, True):
            for mode in MODES:
                name = f"{mode}-{'four' if four else 'three'}"
                yield name, mode, *play(folder / name, www, url, mode, batches, four=four)
        server.shutdown()


def main() -> None:
    """Print a row for each set of volumes and each mode; the exit code is 1 if one is not even."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1, help="batches a night")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:  # a user may mount file systems in a namespace of their own
        words = [sys.executable, __file__, "--batches", str(options.batches), "--inside"]
        sys.exit(subprocess.run(["unshare", "-Urm", *words], check=False).returncode)
    is_even = True
    print("mode, volumes        batches there      spread  off the share of space")
    with tempfile.TemporaryDirectory(prefix="cfetch-nightly-") as folder:
        world = mount(Path(folder) / "world", 1 << 30)  # nothing is left behind, however this ends
        for name, mode, there, spread, off in rows_of(world.root, options.batches):
            print(f"{name:20} {' '.join(map(str, there)):18} {spread:6.1f} {off:6.2f}")
            sys.stdout.flush()
            is_even &= {"count": spread, "finish": off if options.batches == 1 else 0.0}.get(mode, 0.0) <= 1.0
        subprocess.run(["umount", world.root], check=True)
    sys.exit(not is_even)


if __name__ == "__main__":
    main()
