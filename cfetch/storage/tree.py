"""Reads a directory tree: follows no symlink, and creates nothing.

Everything is opened beneath one held directory descriptor, so that neither a name nor a symlink leads
outside. Any thread may use it.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable
from cfetch.manifest.hashing import new_hash
from cfetch.storage.files import STATE_NAME, input_fault, local_fault

READ_BYTES = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # to open a pipe must not block


class Stopped(Exception):
    """The hash is not needed any more; the function ``read`` of ``hash_of`` raises this."""


class FoundFile(NamedTuple):
    """A name in the tree at ``path``, which may be no valid Unicode; ``is_file``: a regular file."""

    path: str
    is_file: bool


class Tree(Protocol):
    """Files that are compared with a manifest: those of a directory, or the objects below a prefix."""

    @property
    def root(self) -> Path | str:
        """The directory, or the URL of the prefix."""

    def size_of(self, path: str) -> int | None:
        """The size of a file in bytes, as ``ReadOnlyTree.size_of``."""

    def stated_hash_of(self, path: str, algorithm: str) -> str | None:
        """A hash that is known without the file's bytes, if there is one."""

    def hash_of(
        self,
        path: str,
        algorithm: str,
        read: Callable[[int], None],
        *,
        start_byte: int = 0,
        most_bytes: int | None = None,
    ) -> tuple[str, int]:
        """The hash of a file and the number of bytes, as ``ReadOnlyTree.hash_of``."""

    def walk(self) -> Iterator[FoundFile]:
        """Yield all files, as ``ReadOnlyTree.walk``."""


class ReadOnlyTree:
    """A tree that is only read. Close it, or use it in a ``with``."""

    def __init__(self, root: Path) -> None:
        """Open the directory. Raises UsageError: there is none, or it is closed; LocalFault."""
        self.root = root
        try:
            self._root_fd = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
        except OSError as error:
            raise input_fault(error, f"cannot read the directory {printable(str(root))}") from None

    def size_of(self, path: str) -> int | None:
        """The size in bytes of the regular file at ``path``; None if it is no regular file.

        Raises:
            FileNotFoundError: nothing is there.
            OSError: its status cannot be read.
        """
        parent, leaf = self._parent_of(path)
        try:
            status = os.stat(leaf, dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def stated_hash_of(self, path: str, algorithm: str) -> str | None:  # noqa: ARG002
        """None: a directory states no hashes."""
        return None

    def hash_of(
        self,
        path: str,
        algorithm: str,
        read: Callable[[int], None],
        *,
        start_byte: int = 0,
        most_bytes: int | None = None,
    ) -> tuple[str, int]:
        """Hash a file; return the hex digest and the number of bytes. ``read`` gets the size of each read.

        Only ``most_bytes`` from ``start_byte`` on are hashed; None: all.

        Raises:
            OSError: it cannot be read.
        """
        descriptor = self.open_file(path)
        try:
            whole_bytes = os.fstat(descriptor).st_size if most_bytes is None else most_bytes
            running, size_bytes = new_hash(algorithm, whole_bytes), 0
            os.lseek(descriptor, start_byte, os.SEEK_SET)
            while data := os.read(
                descriptor, READ_BYTES if most_bytes is None else min(READ_BYTES, most_bytes - size_bytes)
            ):
                running.update(data)
                size_bytes += len(data)
                read(len(data))
        finally:
            os.close(descriptor)
        return running.hexdigest(), size_bytes

    def identity(self) -> tuple[int, int]:
        """A key of the directory, independent of its name.

        The key is valid until a mount or a restart.
        """
        status = os.fstat(self._root_fd)
        return status.st_dev, status.st_ino

    def device_of(self, path: str) -> int | None:
        """The device of a directory ("": of the root); None if there is no such directory."""
        try:
            parent, _ = self._parent_of(f"{path}/." if path else ".")
        except OSError:
            return None
        try:
            return os.fstat(parent).st_dev
        finally:
            os.close(parent)

    def open_file(self, path: str) -> int:
        """A descriptor for reading the file, which the caller closes; it may be a special file.

        Raises:
            OSError: it cannot be opened.
        """
        parent, leaf = self._parent_of(path)
        try:
            return os.open(leaf, _FILE, dir_fd=parent)
        finally:
            os.close(parent)

    def regular_files(self, leave_out: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result | None, str]]:
        """Yield path and status of each regular file, in no order; status None: left out, with the reason.

        Only a few names of a directory are in memory at a time. ``leave_out``: names in the root. Files that
        come or go meanwhile may be included or not.
        """
        root = os.dup(self._root_fd)
        stack = [(root, "", os.scandir(root))]
        try:
            while stack:
                descriptor, prefix, listed = stack[-1]
                for entry in listed:
                    path = prefix + entry.name
                    if not prefix and entry.name in leave_out:
                        continue
                    try:
                        if not entry.is_dir(follow_symlinks=False):
                            status = entry.stat(follow_symlinks=False)
                            regular = stat.S_ISREG(status.st_mode)
                            yield path, status if regular else None, "it is a symlink or a special file"
                            continue
                        below = os.open(entry.name, _DIRECTORY, dir_fd=descriptor)
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        yield path, None, f"it cannot be read: {error.strerror}"
                        continue
                    stack.append((below, f"{path}/", os.scandir(below)))
                    break
                else:
                    listed.close()
                    os.close(descriptor)
                    stack.pop()
        finally:
            for descriptor, _, listed in stack:
                listed.close()
                os.close(descriptor)

    def walk(self) -> Iterator[FoundFile]:
        """Yield everything except directories, in the order of names; cfetch's own state is left out.

        Raises:
            LocalFault: a directory cannot be read.
        """
        open_directories = [self._open_listing("", os.dup(self._root_fd))]
        try:
            while open_directories:
                descriptor, prefix, listed = open_directories[-1]
                name, is_directory, is_file = next(listed, ("", False, False))
                if not name:
                    os.close(open_directories.pop()[0])
                elif is_directory:
                    open_directories.append(
                        self._open_listing(f"{prefix}{name}/", self._below(descriptor, name, prefix))
                    )
                else:
                    yield FoundFile(prefix + name, is_file)
        finally:
            for descriptor, _, _ in open_directories:
                os.close(descriptor)

    def _below(self, descriptor: int, name: str, prefix: str) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=descriptor)
        except OSError as error:
            raise self._fault(error, prefix + name) from None

    def _open_listing(
        self, prefix: str, descriptor: int
    ) -> tuple[int, str, Iterator[tuple[str, bool, bool]]]:
        """An open directory, its path, and its names with whether they are directories or files."""
        try:
            with os.scandir(descriptor) as entries:
                listed = sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                    for entry in entries
                    if prefix or entry.name != STATE_NAME
                )
        except OSError as error:
            os.close(descriptor)
            raise self._fault(error, prefix) from None
        return descriptor, prefix, iter(listed)

    def _fault(self, error: OSError, path: str) -> LocalFault:
        return local_fault(error, f"cannot read {printable(path) or '.'} below {printable(str(self.root))}")

    def _parent_of(self, path: str) -> tuple[int, str]:
        """A descriptor of the directory that holds ``path``, which the caller closes, and the last name."""
        *above, leaf = path.split("/")
        current = os.dup(self._root_fd)
        try:
            for name in above:
                below = os.open(name, _DIRECTORY, dir_fd=current)
                os.close(current)
                current = below
        except BaseException:
            os.close(current)
            raise
        return current, leaf

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._root_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
