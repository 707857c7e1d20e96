"""A disk that can end at any change: real files in a real directory, and what a power cut leaves of them.

``Disk`` stands in for the module ``os`` in the rooms that write. A crash is a copy of the tree: the next run
works on the copy, and what the dead run still does happens where nobody looks.

The model of a power cut is that of a POSIX file system: a flush makes all bytes and names so far durable;
after it, bytes are lost from any place on, zeroed or scrambled, and name changes are lost from some point on
(an ordered journal) or each for itself, as far as one does not build upon another.
"""

import errno
import io
import os
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["Disk", "Node"]

REBUILT = ("cfetch.engine", "cfetch.wire", "cfetch.storage", "cfetch.timeline.files")
WRITING = os.O_WRONLY | os.O_RDWR


class Node:
    """A file's bytes as programs see them, and as they were at the last flush."""

    __slots__ = ("attributes", "data", "dirty", "durable")

    def __init__(self, data: bytes = b"", *, durable: bool = False) -> None:
        self.data = bytearray(data)
        self.durable = data if durable else b""
        self.dirty = not durable
        self.attributes: dict[str, bytes] = {}


class Disk:
    """``die_at``, ``full_at`` and ``eio_at`` count changes of the run; ``root`` is the tree as it is now."""

    def __init__(self, folder, rng, *, models_power, on_change):
        self.folder = Path(folder)
        self._rng = rng
        self._models_power = models_power
        self._on_change = on_change
        self._trees = 0
        self.root = self.folder / "tree0"
        self.boots = 0
        self.on_death: Any = lambda: None
        self.begin()

    def begin(self, *, die_at=None, power=False, full_at=None, eio_at=None):
        """A new process: what happens to it, and at which of its changes."""
        self.changes = 0
        self.dead = False
        self._die_at, self._power, self._full_at, self._eio_at = die_at, power, full_at, eio_at
        self._descriptors: dict[int, Node] = {}
        self._appending: set[int] = set()

    def load(self):
        """Take the tree as it is for durable."""
        if not self._models_power:
            return
        self._names: dict[str, Any] = {}
        for folder, below, files in os.walk(self.root):
            for name in [*below, *files]:
                full = os.path.join(folder, name)
                path = os.path.relpath(full, self.root)
                if os.path.islink(full):
                    self._names[path] = os.readlink(full)
                else:
                    self._names[path] = None if os.path.isdir(full) else _read(full)
        self._durable_names = dict(self._names)
        self._since: list[tuple[str, str, Any, str]] = []

    @contextmanager
    def installed(self):
        """Stand in for ``os``, the flush and the boot id, wherever the engine's rooms name them."""
        places = []
        for name, module in list(sys.modules.items()):
            if not name.startswith(REBUILT):
                continue
            stand_ins: dict[str, Any] = {"os": self, "flush_file_system": self.flush, "boot_id": self.boot_id}
            for attribute, stand_in in stand_ins.items():
                if attribute in vars(module):
                    places.append((module, attribute, vars(module)[attribute]))
                    setattr(module, attribute, stand_in)
        try:
            yield
        finally:
            for module, attribute, original in places:
                setattr(module, attribute, original)

    def __getattr__(self, name):
        return getattr(os, name)

    # What changes the disk.

    def open(self, path, flags, mode=0o777, *, dir_fd=None):
        if not flags & (WRITING | os.O_CREAT):
            return os.open(path, flags, mode, dir_fd=dir_fd)
        shown = self._shown(path, dir_fd)
        if flags & os.O_CREAT:
            self._change("create", shown, grows=True)
        descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
        if self._follows:
            node = self._names.get(shown)
            if node is None:
                node = self._names[shown] = Node()
                self._since.append(("link", shown, node, ""))
            if flags & os.O_TRUNC and node.data:
                node.data.clear()
                node.dirty = True
            self._descriptors[descriptor] = node
            (self._appending.add if flags & os.O_APPEND else self._appending.discard)(descriptor)
        return descriptor

    def write(self, descriptor, data):
        return self._write(descriptor, data, None)

    def pwrite(self, descriptor, data, offset):
        return self._write(descriptor, data, offset)

    def _write(self, descriptor, data, offset):
        if not self.dead and self.changes + 1 == self._die_at and len(data) > 1:
            data = data[: self._rng.randrange(1, len(data))]  # torn
            written = self._written(descriptor, data, offset)
            self._change("write", str(written), grows=True)
            return written
        self._change("write", str(len(data)), grows=True)
        return self._written(descriptor, data, offset)

    def _written(self, descriptor, data, offset):
        node = self._descriptors.get(descriptor) if self._follows else None
        if node is not None:
            at = offset
            if at is None or descriptor in self._appending:  # as Linux does
                end = len(node.data)
                at = end if descriptor in self._appending else os.lseek(descriptor, 0, os.SEEK_CUR)
            node.data.extend(bytes(max(0, at - len(node.data))))
            node.data[at : at + len(data)] = data
            node.dirty = True
        return os.write(descriptor, data) if offset is None else os.pwrite(descriptor, data, offset)

    def setxattr(self, descriptor, name, value):
        self._change("attribute", name)
        os.setxattr(descriptor, name, value)
        if self._follows and descriptor in self._descriptors:
            self._descriptors[descriptor].attributes[name] = value

    def ftruncate(self, descriptor, length):
        self._change("truncate", str(length))
        os.ftruncate(descriptor, length)
        node = self._descriptors.get(descriptor) if self._follows else None
        if node is not None:
            del node.data[length:]
            node.data.extend(bytes(length - len(node.data)))
            node.dirty = True

    def rename(self, source, target, *, src_dir_fd=None, dst_dir_fd=None):
        old, new = self._shown(source, src_dir_fd), self._shown(target, dst_dir_fd)
        self._change("rename", f"{old} -> {new}")
        os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if self._follows:
            node = self._names[new] = self._names.pop(old)
            self._since.append(("rename", old, node, new))

    def unlink(self, path, *, dir_fd=None):
        shown = self._shown(path, dir_fd)
        self._change("unlink", shown)
        os.unlink(path, dir_fd=dir_fd)
        if self._follows:
            self._since.append(("unlink", shown, self._names.pop(shown), ""))

    def mkdir(self, path, mode=0o777, *, dir_fd=None):
        shown = self._shown(path, dir_fd)
        self._change("mkdir", shown, grows=True)
        os.mkdir(path, mode, dir_fd=dir_fd)
        if self._follows:
            self._names[shown] = None
            self._since.append(("link", shown, None, ""))

    def rmdir(self, path, *, dir_fd=None):
        shown = self._shown(path, dir_fd)
        self._change("rmdir", shown)
        os.rmdir(path, dir_fd=dir_fd)
        if self._follows:
            self._names.pop(shown, None)
            self._since.append(("rmdir", shown, None, ""))

    def fdopen(self, descriptor, mode="r", **how):
        """A file object; one for writing writes here."""
        if mode != "wb":
            return os.fdopen(descriptor, mode, **how)
        return io.BufferedWriter(_Writer(self, descriptor))

    def close(self, descriptor):
        self._descriptors.pop(descriptor, None)
        os.close(descriptor)

    def flush(self, descriptor):
        """The stand-in for ``syncfs``."""
        self._change("flush", "")
        if self._eio_at is not None and self.changes >= self._eio_at and not self.dead:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self._follows:
            for node in self._names.values():
                if isinstance(node, Node) and node.dirty:
                    node.durable, node.dirty = bytes(node.data), False
            self._durable_names = dict(self._names)
            self._since.clear()

    def scandir(self, path):
        """In one order, whatever the file system's."""
        with os.scandir(path) as entries:
            return _Listed(sorted(entries, key=lambda entry: entry.name))

    # What happens to it.

    def boot_id(self):
        """Changes when the power went."""
        return f"boot {self.boots}"

    def die(self):
        """The process is no more; with ``power`` the machine neither."""
        if self.dead:
            return
        self.dead = True
        if self._power:
            self.cut_power()
        else:
            old, self.root = self.root, self._new_tree()
            shutil.copytree(old, self.root, symlinks=True)
        self.on_death()

    def cut_power(self):
        """Leave what a power cut leaves."""
        self.boots += 1
        names = self._names_after_cut()
        self.root = self._new_tree()
        self.root.mkdir()
        for path in sorted(names):
            full, what = self.root / path, names[path]
            if what is None:
                full.mkdir()
            elif isinstance(what, str):
                full.symlink_to(what)
            else:
                full.write_bytes(self._bytes_after_cut(what))
                for name, value in what.attributes.items():
                    os.setxattr(full, name, value)
        self.load()

    def forget_old_trees(self):
        """Remove what dead runs went on in."""
        for folder in self.folder.glob("tree*"):
            if folder != self.root:
                shutil.rmtree(folder, ignore_errors=True)

    def _new_tree(self):
        self._trees += 1
        return self.folder / f"tree{self._trees}"

    @property
    def _follows(self):
        return self._models_power and not self.dead

    def _change(self, kind, what, *, grows=False):
        if self.dead:
            return
        self.changes += 1
        self._on_change(kind, what)
        if self.changes == self._die_at:
            self.die()
        elif grows and self._full_at is not None and self.changes >= self._full_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _shown(self, path, dir_fd):
        name = os.fsdecode(path)
        if dir_fd is None:
            return os.path.relpath(name, self.root) if os.path.isabs(name) else name
        base = os.readlink(f"/proc/self/fd/{dir_fd}")
        return os.path.normpath(os.path.relpath(os.path.join(base, name), self.root))

    def _names_after_cut(self):
        names, rng = dict(self._durable_names), self._rng
        if rng.random() < 0.5:
            kept = self._since[: rng.randint(0, len(self._since))]
        else:
            share = rng.random()
            kept = [change for change in self._since if rng.random() < share]
        for kind, path, node, new in kept:
            parent = os.path.dirname(new or path)
            if parent and names.get(parent, "missing") is not None:
                continue
            if kind == "link" and path not in names:
                names[path] = node
            elif kind == "rename" and names.get(path, 0) is node:
                names[new] = names.pop(path)
            elif kind == "unlink" and names.get(path, 0) is node:
                del names[path]
            elif kind == "rmdir" and not any(name.startswith(path + "/") for name in names):
                names.pop(path, None)
        return names

    def _bytes_after_cut(self, node):
        if not node.dirty:
            return bytes(node.data)
        rng, fate = self._rng, self._rng.random()
        if fate < 0.25:
            return node.durable
        kept = rng.randint(0, len(node.data))
        if node.data.startswith(node.durable):
            kept = max(kept, len(node.durable))
        if fate < 0.6:
            return bytes(node.data[:kept])
        lost = len(node.data) - kept
        return bytes(node.data[:kept]) + (bytes(lost) if fate < 0.8 else rng.randbytes(lost))


def _read(full):
    node = Node(Path(full).read_bytes(), durable=True)
    with suppress(OSError):  # a file system without attributes
        node.attributes = {name: os.getxattr(full, name) for name in os.listxattr(full)}
    return node


class _Writer(io.RawIOBase):
    """What ``os.fdopen`` gives for writing, before its buffer."""

    def __init__(self, disk, descriptor):
        self._disk = disk
        self._descriptor = descriptor

    def writable(self):
        return True

    def fileno(self):
        return self._descriptor

    def seekable(self):
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        return os.lseek(self._descriptor, offset, whence)

    def tell(self):
        return self.seek(0, os.SEEK_CUR)

    def truncate(self, size=None):
        length = self.tell() if size is None else size
        self._disk.ftruncate(self._descriptor, length)
        return length

    def write(self, data):
        return self._disk.write(self._descriptor, bytes(data))

    def close(self):
        if not self.closed:
            super().close()
            self._disk.close(self._descriptor)


class _Listed:
    """What ``os.scandir`` gives, in order."""

    def __init__(self, entries):
        self._entries = entries

    def __enter__(self):
        return iter(self._entries)

    def __exit__(self, *_):
        return None
