"""``cfetch download`` on real file systems: one table with a column for each, and a row for each promise.

Each file system is made in an image of ``IMAGE_BYTES`` and mounted by a loop device; a tmpfs needs no image,
and an overlay lies on ext4. Needs root. A file system whose tools or driver are absent is left out, with the
reason. Usage::

    python benchmarks/file_systems.py [--types ext4,xfs,btrfs,tmpfs,overlay,ntfs-3g,exfat-fuse] [--seed N]

Exit code 1 if a promise is broken.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from cfetch.plugins.lab.bench.content import Content, Synthetic
from tests.crash.process import ended, started
from tests.crash.scene import KIB, MIB, Children, Job, Scene, serving

IMAGE_BYTES = 512 * MIB
SMALL_TMPFS = "size=512m"
TYPES = ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "ntfs-3g", "exfat-fuse")
FORMAT: Mapping[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q"),
    "xfs": ("mkfs.xfs", "-q"),
    "btrfs": ("mkfs.btrfs", "-q"),
    "overlay": ("mkfs.ext4", "-q"),
    "ntfs-3g": ("mkfs.ntfs", "-F", "-q"),
    "exfat-fuse": ("mkfs.exfat",),
}
PACE_BPS = 4.0 * MIB  # of a connection: a run takes about two seconds, so that there is time to kill it
KILLS = 4
FILES = {f"l/{n}": Synthetic(f"l/{n}", 8 * MIB) for n in range(6)}
FILES |= {f"s/{n:03}": Synthetic(f"s/{n:03}", 16 * KIB) for n in range(300)}
JOB = Job(FILES, hashed=tuple(FILES))
NAMES: Mapping[str, Content] = {
    name: Synthetic(name, 1000 + n)
    for n, name in enumerate(
        ["q?", "star*", "<a>", 'quo"te', "x|y", "dot.", "space ", "con", "\u00e9", "x" * 255, "d/" + "y" * 99]
    )
}
LOCAL_FAULT, HELD = 3, 4  # exit codes


class Broken(Exception):
    """A promise does not hold on this file system."""


class Stage(NamedTuple):
    """One mounted file system, and the server of the job's files. ``remount`` gets options of mount."""

    folder: Path
    aside: Path
    url: str
    dice: random.Random
    remount: Callable[[str], bool]

    def scene(self, name: str, job: Job = JOB) -> Scene:
        """A destination of its own on the file system; the manifest and all else is elsewhere."""
        aside = self.aside / name
        aside.mkdir()
        scene = Scene(aside, self.url, Children(), job=job)
        scene.to = self.folder / name
        return scene


def words_for(scene: Scene, *more: str) -> list[str]:
    """The command line that brings a scene's job."""
    command = [sys.executable, "-m", "cfetch", "download", str(scene.manifest), "--to", str(scene.to)]
    return [*command, "--quiet", *more]


def run(scene: Scene, *more: str) -> tuple[int, str]:
    """Exit code and messages of a run."""
    outcome = ended(started(words_for(scene, *more)))
    return outcome.code, outcome.said


def must(holds: bool, otherwise: str) -> None:
    """Raise Broken unless something holds."""
    if not holds:
        raise Broken(otherwise)


def must_be_whole(scene: Scene) -> None:
    """Raise Broken unless all files are right and nothing else is there."""
    problems = scene.wrong() + scene.missing() + scene.debris()
    must(not problems, "; ".join(problems[:3]))


def bring_all(stage: Stage) -> str:
    """A run, and one that has nothing to do."""
    scene = stage.scene("all")
    code, said = run(scene)
    must(code == 0, f"exit code {code}: {said[-300:]}")
    must_be_whole(scene)
    before = {path: path.stat().st_mtime_ns for path in scene.to.rglob("*") if ".cfetch" not in path.parts}
    code, said = run(scene)
    must(code == 0, f"again: exit code {code}: {said[-300:]}")
    after = {path: path.stat().st_mtime_ns for path in scene.to.rglob("*") if ".cfetch" not in path.parts}
    must(before == after, "files were written again")
    return "yes"


def kill_runs(stage: Stage) -> str:
    """Runs that are killed at random; then one that is left alone."""
    scene = stage.scene("killed")
    for _ in range(KILLS):
        process = started(words_for(scene))
        time.sleep(stage.dice.uniform(0.7, 2.0))
        process.kill()
        process.communicate()
    code, said = run(scene)
    must(code == 0, f"exit code {code}: {said[-300:]}")
    must_be_whole(scene)
    return "yes"


def hold_destination(stage: Stage) -> str:
    """A second run at the same destination."""
    scene = stage.scene("held")
    first = started(words_for(scene, "--limit-rate", "20MiB"))
    time.sleep(1.5)
    code, said = run(scene)
    first_code = ended(first).code
    must(first_code == 0, f"the first run: exit code {first_code}")
    must(code == HELD, f"the second run: exit code {code}: {said[-300:]}")
    must_be_whole(scene)
    return "yes"


def fill_disk(stage: Stage) -> str:
    """The disk has room for half of the files; then it has room again."""
    scene = stage.scene("full")
    ballast = stage.folder / "ballast"
    with ballast.open("wb") as file:
        left = shutil.disk_usage(stage.folder).free - JOB.total_bytes // 2 - 24 * MIB
        while left > 0:
            left -= file.write(stage.dice.randbytes(MIB))
    code, said = run(scene, "--placement-deadline", "2s")
    must(code in (1, LOCAL_FAULT), f"on a full disk: exit code {code}: {said[-300:]}")
    must(not scene.wrong(), f"on a full disk: {scene.wrong()[:2]}")
    ballast.unlink()
    code, said = run(scene)
    must(code == 0, f"with room: exit code {code}: {said[-300:]}")
    must_be_whole(scene)
    return f"yes ({'told before' if 'needs' in said else 'told'})"


def turn_read_only(stage: Stage) -> str:
    """A run is killed, and the file system is mounted read-only; then it can be written again."""
    scene = stage.scene("read-only")
    process = started(words_for(scene))
    time.sleep(1.2)
    process.kill()
    process.communicate()
    if not stage.remount("remount,ro"):
        return "not tried: it cannot be mounted again"
    code, said = run(scene, "--placement-deadline", "2s")
    stage.remount("remount,rw")
    must(code == LOCAL_FAULT, f"read-only: exit code {code}: {said[-300:]}")
    must("Traceback" not in said, said)
    code, said = run(scene)
    must(code == 0, f"writable again: exit code {code}: {said[-300:]}")
    must_be_whole(scene)
    return "yes"


def use_names(stage: Stage) -> str:
    """Names that some file systems do not have, or take for the same: each file is right, or told."""
    scene = stage.scene("names", Job(NAMES, hashed=tuple(NAMES)))
    code, said = run(scene)
    wrong, missing = scene.wrong(), scene.missing()
    must(not wrong, f"{wrong[:3]}")
    must(bool(missing) == bool(code), f"exit code {code}, and missing are {missing[:3]}")
    must(not scene.debris() or code != 0, f"{scene.debris()[:3]}")
    if not code:
        return "all"
    must("Traceback" not in said, said)
    return f"{len(NAMES) - len(missing)} of {len(NAMES)}, exit code {code}"


CHECKS: Mapping[str, Callable[[Stage], str]] = {
    "all files right; nothing to do afterwards": bring_all,
    f"killed {KILLS} times, then whole, no debris": kill_runs,
    "a second run is refused (exit code 4)": hold_destination,
    "reports a full disk; continues when there is room": fill_disk,
    "reports a read-only disk; continues later": turn_read_only,
    "names with signs, a final dot or space, accents, 255 bytes": use_names,
}


@contextmanager
def mounted(kind: str, folder: Path) -> Iterator[tuple[Path, Callable[[str], bool]]]:
    """A new file system, and a function that mounts it again with other options.

    Raises OSError or CalledProcessError if there is none here.
    """
    image, below, place = folder / "image", folder / "below", folder / "mounted"
    below.mkdir()
    place.mkdir()
    loop, mounts = None, []

    def call(*words: str) -> str:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    try:
        if kind == "tmpfs":
            call("mount", "-t", "tmpfs", "-o", SMALL_TMPFS, "cfetch", str(place))
        else:
            with image.open("wb") as file:
                file.truncate(IMAGE_BYTES)
            call(*FORMAT[kind], str(image))
            loop = call("losetup", "-f", "--show", str(image))
            if kind == "overlay":
                call("mount", loop, str(below))
                mounts.append(below)
                for name in ("lower", "upper", "work"):
                    (below / name).mkdir()
                layers = ",".join(f"{name}dir={below / name}" for name in ("lower", "upper", "work"))
                call("mount", "-t", "overlay", "-o", layers, "cfetch", str(place))
            elif kind.endswith("fuse") or kind == "ntfs-3g":
                call("ntfs-3g" if kind == "ntfs-3g" else "mount.exfat-fuse", loop, str(place))
            else:
                call("mount", loop, str(place))
        mounts.append(place)

        def remount(options: str) -> bool:
            words = ["mount", "-o", options, str(place)]
            return subprocess.run(words, check=False, capture_output=True).returncode == 0

        yield place, remount
    finally:
        for mount in reversed(mounts):
            subprocess.run(["umount", str(mount)], check=False, capture_output=True)
        if kind == "tmpfs" and not mounts:
            subprocess.run(["umount", str(place)], check=False, capture_output=True)
        if loop is not None:
            subprocess.run(["losetup", "-d", loop], check=False, capture_output=True)


def measure(kind: str, seed: int) -> tuple[dict[str, str], int]:
    """The cells of one column, and how many promises are broken."""
    cells, broken = {}, 0
    with (
        tempfile.TemporaryDirectory(prefix="cfetch-fs-") as outer,
        serving(dict(FILES) | dict(NAMES), pace_bps=PACE_BPS) as origin,
        mounted(kind, Path(outer)) as (place, remount),
    ):
        aside = Path(outer, "aside")
        aside.mkdir()
        stage = Stage(place, aside, origin.url, random.Random(seed), remount)
        for name, check in CHECKS.items():
            try:
                cells[name] = check(stage)
            except Broken as problem:
                broken += 1
                cells[name] = "no"
                print(f"{kind}: {name}: {problem}", file=sys.stderr)
    return cells, broken


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("mounting a file system needs root")
    columns: dict[str, dict[str, str]] = {}
    broken = 0
    for kind in args.types.split(","):
        try:
            columns[kind], number = measure(kind, args.seed)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or error
            print(f"{kind} is left out: {str(said).strip()}", file=sys.stderr)
            continue
        broken += number
    print(f"| promise | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in CHECKS:
        print(f"| {name} | {' | '.join(cells[name] for cells in columns.values())} |")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
