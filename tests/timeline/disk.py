"""A fake file system for the simulation: every operation may be where a node stops, dies, or the power fails.

Names and bytes that nobody flushed may be lost in a power cut. Each change of names is one record of a
journal; it survives if it was flushed, or by chance, but never if an earlier change in one of its
directories was lost.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Disk", "DiskFiles"]


@dataclass(eq=False)
class Inode:
    """A file: its bytes, what of them survives a power cut, and when it was written."""

    data: bytes
    durable: bytes = b""
    modified_s: float = 0.0


@dataclass(eq=False)
class Change:
    """A change of names. ``undo`` and ``redo`` are the bindings before and after."""

    directories: frozenset[str]
    redo: list[tuple[str, Any]]
    durable: bool = False


def parent(path):
    return path.rpartition("/")[0]


@dataclass
class Disk:
    """What all nodes share. A path is bound to an Inode, or to "dir"."""

    now: Callable[[], float]
    bound: dict[str, Any] = field(default_factory=lambda: {"": "dir"})
    journal: list[Change] = field(default_factory=list)
    base: dict[str, Any] = field(default_factory=lambda: {"": "dir"})

    def change(self, *bindings):
        self.journal.append(Change(frozenset(parent(path) for path, _ in bindings), list(bindings)))
        self._apply(self.bound, bindings)

    @staticmethod
    def _apply(bound, bindings):
        for path, target in bindings:
            if target is None:
                bound.pop(path, None)
            else:
                bound[path] = target

    def flush(self, directory):
        """All changes in ``directory`` so far survive, and those they rest on."""
        need = {directory}
        for change in reversed(self.journal):
            if change.directories & need:
                change.durable = True
                need |= change.directories

    def power_cut(self, chance):
        """Lose what was not flushed: each change by ``chance``, with all that rests on a lost one."""
        lost: set[str] = set()
        bound = dict(self.base)
        for change in self.journal:
            if change.directories & lost or not (change.durable or chance() < 0.5):
                lost |= change.directories
            else:
                self._apply(bound, change.redo)
        self.bound = {path: it for path, it in bound.items() if self._is_reachable(bound, path)}
        for inode in self.bound.values():
            if isinstance(inode, Inode):
                if inode.data != inode.durable:
                    inode.data = inode.durable or inode.data[: int(chance() * len(inode.data))]
                inode.durable = inode.data
        self.base, self.journal = dict(self.bound), []

    @staticmethod
    def _is_reachable(bound, path):
        while path:
            path = parent(path)
            if bound.get(path) != "dir":
                return False
        return True

    def file(self, path):
        found = self.bound.get(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if found == "dir":
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return found

    def need_directory(self, path):
        if self.bound.get(path) != "dir":
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def below(self, path):
        return [one for one in self.bound if one and parent(one) == path]


class DiskFiles:
    """The ``Files`` of one node. ``step`` is called before every operation; it may never return."""

    def __init__(self, disk, step):
        self.disk = disk
        self.step = step

    def create(self, path, data, *, flush=False):
        self.step(f"create {path}")
        self.disk.need_directory(parent(path))
        if path in self.disk.bound:
            raise FileExistsError(errno.EEXIST, "exists", path)
        inode = Inode(b"", modified_s=self.disk.now())
        self.disk.change((path, inode))
        self.step(f"write {path}")  # the file is there, and empty
        inode.data = data
        if flush:
            self.step(f"flush {path}")
            inode.durable = data

    def read(self, path):
        self.step(f"read {path}")
        return self.disk.file(path).data

    def rewrite(self, path, head, data):
        self.step(f"rewrite {path}")
        inode = self.disk.file(path)
        if not inode.data.startswith(head):
            raise FileNotFoundError(errno.ENOENT, "another file", path)
        self.step(f"write over {path}")  # between the look and the write
        inode.data = data
        inode.modified_s = self.disk.now()

    def rename(self, old, new):
        self.step(f"rename {old} {new}")
        inode = self.disk.file(old)
        self.disk.need_directory(parent(new))
        self.disk.change((old, None), (new, inode))

    def link(self, old, new):
        self.step(f"link {old} {new}")
        inode = self.disk.file(old)
        self.disk.need_directory(parent(new))
        if new in self.disk.bound:
            raise FileExistsError(errno.EEXIST, "exists", new)
        self.disk.change((new, inode))

    def copy(self, old, new):
        self.step(f"open {old}")
        source = self.disk.file(old)
        self.create(new, source.data)

    def unlink(self, path):
        self.step(f"unlink {path}")
        self.disk.file(path)
        self.disk.change((path, None))

    def unlink_all(self, paths):
        for path in paths:
            with suppress(FileNotFoundError):
                self.unlink(path)

    def make_directory(self, path):
        done = ""
        for component in path.split("/"):
            self.disk.need_directory(done)
            done = f"{done}/{component}" if done else component
            if done not in self.disk.bound:
                self.step(f"mkdir {done}")
                if done not in self.disk.bound:
                    self.disk.need_directory(parent(done))
                    self.disk.change((done, "dir"))

    def lock(self, path):
        """Nothing here ends with a process."""

    def has_lost_lock(self, path, device):
        return False

    def remove_directory(self, path):
        self.step(f"rmdir {path}")
        self.disk.need_directory(path)
        if self.disk.below(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self.disk.change((path, None))

    def names(self, path):
        self.step(f"list {path}")
        return [one.rpartition("/")[2] for one in self.disk.below("" if path == "." else path)]

    def flush_names(self, path):
        self.step(f"flush {path}")
        self.disk.flush("" if path == "." else path)

    def modified_s(self, path):
        self.step(f"stat {path}")
        return self.disk.file(path).modified_s
