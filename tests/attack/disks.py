"""The disks of a world: plain, small, read-only, limited, or with somebody else at work in the destination.

- "full", "inodes", "read-only": a small tmpfs where root may mount one. Else a limit on the size of files
  stands in for the first two, and a directory without permission to write for the third.
- "fsize": files may not grow beyond a limit.
- "swapped": the directory ``d`` is exchanged for a symlink out of the destination and back, again and again.
- "linked state": a directory of the state is a symlink out of the destination.
"""

import asyncio
import contextlib
import os
import random
import subprocess
from pathlib import Path

from tests.attack.world import World

__all__ = ["Disk"]

MOUNTED = {"full", "inodes", "read-only"}
LINKED = ("plans", "metrics", "timeline", "heartbeats", "attempts", "batches")
MIB = 1 << 20


class Disk:
    """The disk of the first volume, ``root``. ``fsize``: the limit on files that a run gets, or 0."""

    def __init__(self, world: World, root: Path, state: Path, outside: Path):
        self._world, self._root, self._state, self._outside = world, root, state, outside
        self._dice = random.Random(f"disk {world.seed}")
        self._is_mounted = False
        self._link: Path | None = None
        self.fsize = 0

    def prepare(self) -> None:
        """Before anything stands there."""
        kind, room = self._world.disk, self._world.disk_bytes
        if kind in MOUNTED:
            size = {"full": f"size={room + (256 << 10)}", "inodes": "nr_inodes=40"}.get(kind, "size=64m")
            self._is_mounted = _call("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._root))
        if kind == "fsize" or (kind in ("full", "inodes") and not self._is_mounted):
            self.fsize = room
        if kind == "linked state":
            self._link = self._state / self._dice.choice(LINKED)
            self._link.parent.mkdir(parents=True, exist_ok=True)
            self._link.symlink_to(self._outside)

    def begin(self) -> None:
        """What stood there before stands there: now it gets bad."""
        if self._world.disk == "read-only" and not (self._is_mounted and self._remount("ro")):
            self._root.chmod(0o500)

    @contextlib.asynccontextmanager
    async def at_work(self):
        """As long as a run lives."""
        if self._world.disk != "swapped":
            yield
            return
        swapping = asyncio.create_task(self._swap())
        try:
            yield
        finally:
            swapping.cancel()
            await asyncio.wait({swapping})
            self._put_back()

    async def _swap(self) -> None:
        place, aside = self._root / "d", self._root / "d.aside"
        while True:
            await asyncio.sleep(self._dice.uniform(0, 0.02))
            with contextlib.suppress(OSError):
                place.rename(aside)
                place.symlink_to(self._outside)
            await asyncio.sleep(self._dice.uniform(0, 0.02))
            self._put_back()

    def _put_back(self) -> None:
        place, aside = self._root / "d", self._root / "d.aside"
        if place.is_symlink():
            place.unlink()
        if not aside.exists():
            return
        with contextlib.suppress(OSError):  # it was made anew meanwhile, and files stand in it
            aside.rename(place)
            return
        for full in [path for path in aside.rglob("*") if path.is_file()]:
            target = place / full.relative_to(aside)
            target.parent.mkdir(parents=True, exist_ok=True)
            full.rename(target)
        for full in sorted(aside.rglob("*"), reverse=True):
            full.rmdir()
        aside.rmdir()

    def mend(self) -> None:
        """From now on it is a good disk."""
        self.fsize = 0
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        if self._is_mounted:
            self._remount("rw,size=256m,nr_inodes=10000")
        self._root.chmod(0o755)

    def remove(self) -> None:
        """Leave nothing mounted."""
        if self._is_mounted:
            _call("umount", "-l", str(self._root))

    def _remount(self, how: str) -> bool:
        return _call("mount", "-o", f"remount,{how}", str(self._root))


def _call(*words: str) -> bool:
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
