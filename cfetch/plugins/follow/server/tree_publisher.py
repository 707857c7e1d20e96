"""Publishes a directory as a feed, by looking at it again and again.

A scan publishes what it finds in small transactions, so after an interruption, by a signal or by kill -9, the
next scan simply continues. However many files there are, few of them are in memory.
"""

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from cfetch.app.delete_limit import count_allowed
from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.manifest.entry import UnsafePathError, safe_path
from cfetch.plugins.follow.protocol import LeftOut
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY, SourceRoot
from cfetch.plugins.follow.server.store import FeedStore, File, NewChange
from cfetch.storage.files import STATE_NAME
from cfetch.storage.tree import ReadOnlyTree

BATCH = 1000  # changes of one transaction: a flush costs some milliseconds
FLUSH_S = 1.0  # large files are published as they are hashed
SETTLE_S = 1.0  # a file is published only when it has not been written to for so long
READ_BYTES = 1 << 20
MAX_DELETE = 0.1  # of all files, by one scan
MAX_TOLD = 100  # files left out whose names the publisher and followers get; further ones are only counted


class SeenFile(NamedTuple):
    """A regular file, found on a walk. ``ctime_ns`` also tells an edit after which its time was set back."""

    path: str
    size_bytes: int
    mtime_ns: int
    inode: int
    ctime_ns: int


class TreePublisher:
    """Publishes every regular file below ``root``, and nothing through symlinks."""

    def __init__(
        self,
        root: Path,
        store: FeedStore,
        *,
        clock: Clock,
        emit_line: Callable[[str], None],
        split_entries: int | None = None,
        keep_s: float | None = None,
        settle_s: float = SETTLE_S,
        max_delete: float = MAX_DELETE,
    ) -> None:
        """``emit_line`` gets each file left out, with the reason. ``settle_s``: a file must rest for so long.

        ``max_delete``: files that one scan may find deleted, a number or (float) a share of all; a share of 1
        also takes whatever directory is at ``root`` now.

        Raises:
            UsageError: ``root`` is not a readable directory.
        """
        self.root = root
        self.store = store
        self.clock, self._emit_line = clock, emit_line
        self.split_entries, self._keep_s, self._settle_s = split_entries, keep_s, settle_s
        self.max_delete = max_delete
        self.source_root = SourceRoot(
            root, store, emit_line, takes_any=isinstance(max_delete, float) and max_delete >= 1
        )
        self._emitted: set[str] = set()
        self.left_out = LeftOut(0, ())  # by the last scan that came to its end
        with ReadOnlyTree(root) as tree:
            self._identity = tree.identity()

    def scan(self, stop: threading.Event) -> int:
        """Publish new changes, and return their number; ends early once ``stop`` is set.

        Raises:
            LocalFault: changes cannot be published. Published ones stay.
            UsageError: another directory has its place, or more files are missing than may be deleted.
        """
        with ReadOnlyTree(self.root) as tree:
            if tree.identity() != self._identity:  # an unmounted disk must not look like a deleted tree
                raise UsageError(
                    f"{printable(str(self.root))} is another directory than at the server's start; restart it"
                )
            self.source_root.check(tree)
            walk = _Walk(self, tree, stop)
            walk.run()
            if not stop.is_set():
                self.source_root.keep(tree)
                self.left_out = LeftOut(walk.left_out_count, walk.left_out)
        if self._keep_s is not None:
            now_s = self.clock.wall()
            self.store.forget(now_s - self._keep_s, now_s=now_s)
        return walk.changes

    def emit_once(self, path: str, why: str) -> None:
        """Report that a file is left out, unless that was reported before."""
        if path in self._emitted or len(self._emitted) > MAX_TOLD:
            return
        self._emitted.add(path)
        more = "; further files that are left out are not named" if len(self._emitted) > MAX_TOLD else ""
        self._emit_line(f"{printable(path)}: left out, {why}{more}")

    def has_settled(self, seen: SeenFile) -> bool:
        """Whether the file was not written to just now."""
        return not 0 <= self.clock.wall() - seen.mtime_ns / 1e9 < self._settle_s


class _Walk:
    """One walk over the tree, in batches."""

    def __init__(self, publisher: TreePublisher, tree: ReadOnlyTree, stop: threading.Event) -> None:
        self.changes = 0
        self.left_out: list[tuple[str, str]] = []
        self.left_out_count = 0
        self._publisher, self._tree, self._stop = publisher, tree, stop
        self._store = publisher.store
        self._before = self._store.count_files()
        self._known = 0  # files of the walk that were published before
        self._ready: list[tuple[File, bool]] = []  # hashed files; whether each is a new version
        self._new: list[str] = []  # the paths among these that were not known
        self._since = publisher.clock.monotonic()

    def run(self) -> None:
        batch: list[SeenFile] = []
        for seen in self._walk_files():
            if self._stop.is_set():
                return
            batch.append(seen)
            if len(batch) == BATCH:
                self._take_batch(batch)
                batch = []
        self._take_batch(batch)
        if self._known < self._before:
            self._sweep()

    def _walk_files(self) -> Iterator[SeenFile]:
        note_file = self._publisher.source_root.note_file
        for path, status, why in self._tree.regular_files(leave_out=(STATE_NAME, STATE_DIRECTORY)):
            if status is None:
                self._leave_out(path, why)
                continue
            try:
                safe_path(path)
            except UnsafePathError as error:
                self._leave_out(path, f"no feed can name it: {error}")
                continue
            note_file(path, status.st_dev, self._tree)
            yield SeenFile(path, *_version_of(status))

    def _leave_out(self, path: str, why: str) -> None:
        self._publisher.emit_once(path, why)
        self.left_out_count += 1
        if len(self.left_out) < MAX_TOLD:
            self.left_out.append((printable(path), why))

    def _take_batch(self, batch: list[SeenFile]) -> None:
        known = self._store.find_files([seen.path for seen in batch])
        self._known += len(known)
        for seen in batch:
            before = known.get(seen.path)
            if before is not None and before[:-1] == seen:
                continue
            if not self._publisher.has_settled(seen):
                continue
            self._hash_seen(seen, before)
        self._flush()

    def _hash_seen(self, seen: SeenFile, before: File | None) -> None:
        if self._stop.is_set():
            return
        try:
            file = _hash_file(self._tree, seen, self._stop)
        except FileNotFoundError:
            return
        except OSError as error:
            self._leave_out(seen.path, f"it cannot be read: {error.strerror}")
            return
        if file is None:
            return
        same = before is not None and (before.size_bytes, before.sha256) == (file.size_bytes, file.sha256)
        self._ready.append((file, not same))
        if before is None:
            self._new.append(file.path)
        if self._publisher.clock.monotonic() - self._since > FLUSH_S:
            self._flush()

    def _flush(self) -> None:
        """Publish the ready files, after deletes of files that were in the way of new paths."""
        gone = self._store.find_obstacles(self._new) if self._new and self._before else []
        changes = [NewChange(path) for path in gone]
        changes += [
            NewChange(file.path, file.size_bytes, file.sha256) for file, is_new in self._ready if is_new
        ]
        self._publish(changes, [file for file, _ in self._ready], gone)
        self._ready, self._new = [], []
        self._since = self._publisher.clock.monotonic()

    def _publish(self, changes: list[NewChange], files: list[File], removed: list[str]) -> None:
        if changes or files or removed:
            self._store.publish(
                changes,
                at_s=self._publisher.clock.wall(),
                files=files,
                removed=removed,
                split_entries=self._publisher.split_entries,
            )
            self.changes += len(changes)

    def _sweep(self) -> None:
        """Publish deletes of known files that have gone; called if the walk found fewer files than known.

        A first look counts them, and a second one publishes. Raises UsageError: too many files have gone.
        """
        unmounted = self._publisher.source_root.find_unmounted(self._tree)
        for mount in unmounted:
            self._publisher.emit_once(
                mount, "no disk is mounted there as before, so its files do not count as deleted"
            )
        lost = tuple(f"{mount}/" for mount in unmounted)
        total = sum(len(gone) for gone in self._find_gone(lost))
        files = self._store.count_files()
        allowed = count_allowed(self._publisher.max_delete, files)
        if total > allowed:
            raise UsageError(
                f"{total} of {files} files have gone from {printable(str(self._publisher.root))}, and "
                f"--max-delete allows {allowed}; none of them is deleted from the feed. If they are to go, "
                f"restart the server with --max-delete {total}"
            )
        for gone in self._find_gone(lost):
            self._publish([NewChange(path) for path in gone], [], gone)

    def _find_gone(self, lost: tuple[str, ...]) -> Iterator[list[str]]:
        """The known files that are not there any more, in batches; none whose path begins as in ``lost``."""
        last = ""
        while not self._stop.is_set() and (paths := self._store.list_files_after(last, BATCH)):
            last = paths[-1]
            yield [path for path in paths if not path.startswith(lost) and _has_gone(self._tree, path)]


def _has_gone(tree: ReadOnlyTree, path: str) -> bool:
    """Whether no regular file is there; a path that cannot be looked at has not gone."""
    try:
        return tree.size_of(path) is None
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def _hash_file(tree: ReadOnlyTree, seen: SeenFile, stop: threading.Event) -> File | None:
    """Hash the file as it was seen; None if it is being written, or once ``stop`` is set."""
    descriptor = tree.open_file(seen.path)
    try:
        running, size_bytes = hashlib.sha256(usedforsecurity=False), 0
        while data := os.read(descriptor, READ_BYTES):
            running.update(data)
            size_bytes += len(data)
            if stop.is_set():
                return None
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode) or _version_of(status) != seen[1:] or size_bytes != seen.size_bytes:
        return None
    return File(*seen, running.digest())


def _version_of(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns
