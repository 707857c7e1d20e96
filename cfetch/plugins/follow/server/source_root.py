"""Tells a disk that is not mounted from files that were deleted, which both look like an empty directory.

If the feed's state lies elsewhere, its directory gets a *marker*, a file with a random id, and the state
knows that id. Without the marker the directory is not the feed's, whatever its name. A state within the
directory comes and goes with it, and needs none. A disk that is mounted below the directory is remembered by
the path of its mount point: while nothing is mounted there, its files are missing, not deleted.

When it fails: a directory in which nothing can be written has no marker, and then only ``--max-delete``
guards its files.
"""

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.plugins.follow.server.store import FeedStore
from cfetch.storage.files import local_fault, make_private, publish_once
from cfetch.storage.tree import ReadOnlyTree

STATE_DIRECTORY = ".cfetch-feed"
MARKER = "root"
ROOT, MOUNTS = "root", "mounts"  # names of marks in the feed's state
ID_BYTES = 16


class SourceRoot:
    """The directory ``root`` of a feed. ``takes_any``: any directory there is the feed's from now on."""

    def __init__(
        self, root: Path, store: FeedStore, emit_line: Callable[[str], None], *, takes_any: bool
    ) -> None:
        self._root = root
        self._store = store
        self._emit_line = emit_line
        self._takes_any = takes_any
        self._has_marker = not store.directory.resolve().is_relative_to(root.resolve())
        self._is_told = False
        self._device = 0
        self._mounts: set[str] = set(json.loads(store.read_mark(MOUNTS) or "[]"))
        self._seen: set[str] = set()  # mount points of this walk

    def check(self, tree: ReadOnlyTree) -> None:
        """Raise UsageError unless the tree is the one that was published before."""
        self._device, self._seen = tree.identity()[0], set()
        known = self._store.read_mark(ROOT)
        if known is None or self._takes_any or not self._has_marker:
            return
        if _read_marker(tree) != known:
            raise UsageError(
                f"{printable(str(self._root))} lacks the marker {STATE_DIRECTORY}/{MARKER} of this feed's "
                "directory, so no file of it counts as deleted. Is its disk mounted? If another directory "
                "is to take its place, restart the server with --max-delete 100%"
            )

    def note_file(self, path: str, device: int, tree: ReadOnlyTree) -> None:
        """Note a file of a walk, which may be on a disk of its own."""
        if device == self._device or any(path.startswith(f"{mount}/") for mount in self._seen):
            return
        parts = path.split("/")[:-1]
        above = ("/".join(parts[: n + 1]) for n in range(len(parts)))
        self._seen.add(next((folder for folder in above if tree.device_of(folder) != self._device), ""))

    def find_unmounted(self, tree: ReadOnlyTree) -> list[str]:
        """The paths of known mount points at which nothing is mounted now."""
        if self._takes_any:
            return []
        return sorted(mount for mount in self._mounts if not _is_mounted(tree, mount))

    def keep(self, tree: ReadOnlyTree) -> None:
        """Remember the directory and its mounts, after a walk that was published."""
        mounts = {mount for mount in self._seen if mount}
        if not self._takes_any:
            mounts |= self._mounts
        marks = {}
        if mounts != self._mounts:
            marks[MOUNTS] = json.dumps(sorted(mounts))
        if self._has_marker:
            marker = _read_marker(tree) or self._write_marker()
            if marker is not None and marker != self._store.read_mark(ROOT):
                marks[ROOT] = marker
        if marks:
            self._store.set_marks(marks)
        self._mounts = mounts

    def _write_marker(self) -> str | None:
        marker, folder = secrets.token_hex(ID_BYTES), self._root / STATE_DIRECTORY
        try:
            try:
                make_private(folder)
            except OSError as error:
                raise local_fault(error, f"cannot write {printable(str(folder))}") from None
            publish_once(folder / MARKER, f"{marker}\n".encode())
        except LocalFault as fault:
            if not self._is_told:
                self._is_told = True
                self._emit_line(f"{fault}; so only --max-delete tells an unmounted disk from deleted files")
            return None
        return marker


def _read_marker(tree: ReadOnlyTree) -> str | None:
    """The id in the tree's marker; None if there is none that can be read."""
    try:
        descriptor = tree.open_file(f"{STATE_DIRECTORY}/{MARKER}")
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(2 * ID_BYTES).decode("ascii", "replace") or None


def _is_mounted(tree: ReadOnlyTree, path: str) -> bool:
    above = path.rpartition("/")[0]
    device = tree.device_of(path)
    return device is not None and device != tree.device_of(above)
