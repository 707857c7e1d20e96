"""The file operations that the timeline uses, beneath one held directory.

They are few, so that a simulation can replace them and crash at each. Paths are relative, with ``/``; no
component is followed if it is a symlink. ``OSError`` is not converted: ``FileNotFoundError`` and
``FileExistsError`` show the timeline that another process was faster.
"""

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from cfetch.base.errors import Held
from cfetch.storage.files import STATE_NAME, local_fault, make_private
from cfetch.storage.group_rights import create_file, make_directory
from cfetch.storage.lacking import flush_directory, flush_file, set_mode
from cfetch.storage.locks import take_lock
from cfetch.storage.state_format import refuse_newer_state

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
PRIVATE = 0o600  # a plan's manifest names the data's sources, so the umask must not widen this
_IN_USE = "{holder} is alive"
MAX_READ_BYTES = 8 << 20  # an archive file is under 1 MiB; a foreign file must not fill the memory


class Locked(NamedTuple):
    """A lock that ends with the process or the descriptor; ``device`` is its file system's."""

    descriptor: int
    device: int


class TimelineFiles(Protocol):
    """File operations beneath one directory."""

    def create(self, path: str, data: bytes, *, flush: bool = False) -> None:
        """Make a new file; ``flush``: its bytes survive a power cut (its name does by ``flush_names``)."""

    def read(self, path: str) -> bytes:
        """Read all of a file."""

    def rewrite(self, path: str, head: bytes, data: bytes) -> None:
        """Write ``data``, of the same length, over a file that begins with ``head``.

        It never makes a file, and never changes another file that has this name by now.

        Raises:
            FileNotFoundError: no file that begins with ``head`` is there.
        """

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file that has it is replaced."""

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, in one step; raises FileExistsError."""

    def copy(self, old: str, new: str) -> None:
        """Make a new file with the bytes of an old one."""

    def lock(self, path: str) -> "Locked | None":
        """Lock a file for as long as this process lives; None: files cannot be locked here."""

    def has_lost_lock(self, path: str, device: int) -> bool:
        """Whether it is proved that nobody holds the lock of a file that was locked on ``device``."""

    def unlink(self, path: str) -> None:
        """Remove a name."""

    def unlink_all(self, paths: Sequence[str]) -> None:
        """Remove names, those of them that are there."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; raises OSError if it is not."""

    def names(self, path: str) -> list[str]:
        """List the names in a directory, in no order; empty if there is no directory."""

    def flush_names(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""

    def modified_s(self, path: str) -> float:
        """When a file was last written: seconds since 1970, by the file system's clock."""


class LocalFiles:
    """A directory of this machine, held open: moving it away does not make cfetch write elsewhere."""

    def __init__(self, root: Path) -> None:
        """Make ``root`` if it is missing.

        Raises LocalFault: also if others could write in it; NewerRecord: a later version's state is there.
        """
        self.root = root
        refuse_newer_state(root)
        try:
            is_new = not root.exists()
            make_private(root)
            for directory in filter(Path.is_dir, root.iterdir()):
                make_private(directory, state=root)
            self._fd = os.open(root, _DIRECTORY)
            if is_new:
                _flush_name(root)
        except OSError as error:
            raise local_fault(error, f"cannot use {root} for the timeline") from None

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def create(self, path: str, data: bytes, *, flush: bool = False) -> None:
        """Make a new file; ``flush``: its bytes survive a power cut (its name does by ``flush_names``)."""
        with self._parent(path) as (parent, name):
            descriptor = create_file(name, _NEW, PRIVATE, dir_fd=parent)
            try:
                _write(descriptor, data)
                if flush:
                    flush_file(descriptor)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name, dir_fd=parent)
                raise
            finally:
                os.close(descriptor)

    def read(self, path: str) -> bytes:
        """Read all of a file."""
        with (
            self._open(path, os.O_RDONLY) as descriptor,
            os.fdopen(descriptor, "rb", closefd=False) as file,
        ):
            size_bytes = os.fstat(descriptor).st_size  # otherwise each read would allocate the whole maximum
            return file.read(min(size_bytes, MAX_READ_BYTES))

    def rewrite(self, path: str, head: bytes, data: bytes) -> None:
        """Write ``data``, of the same length, over a file that begins with ``head``."""
        with self._open(path, os.O_RDWR) as descriptor:
            if os.pread(descriptor, len(head), 0) != head:
                raise FileNotFoundError(path)
            os.pwrite(descriptor, data, 0)  # closing sends it to a network file system's server

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file that has it is replaced."""
        with self._parent(old) as (old_parent, old_name), self._parent(new) as (new_parent, new_name):
            os.rename(old_name, new_name, src_dir_fd=old_parent, dst_dir_fd=new_parent)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, in one step; raises FileExistsError."""
        with self._parent(old) as (old_parent, old_name), self._parent(new) as (new_parent, new_name):
            os.link(old_name, new_name, src_dir_fd=old_parent, dst_dir_fd=new_parent, follow_symlinks=False)

    def copy(self, old: str, new: str) -> None:
        """Make a new file with the bytes of an old one."""
        with self._open(old, os.O_RDONLY) as source, self._parent(new) as (parent, name):
            target = create_file(name, _NEW, PRIVATE, dir_fd=parent)
            with os.fdopen(source, "rb", closefd=False) as reader, os.fdopen(target, "wb") as writer:
                set_mode(target, stat.S_IMODE(os.fstat(source).st_mode))  # a part becomes the user's file
                while block := reader.read(1 << 20):
                    if block.count(0) < len(block):
                        writer.write(block)
                    else:  # a hole, as in a part that comes in segments, takes no room in the copy either
                        writer.seek(len(block), os.SEEK_CUR)
                writer.truncate()

    def lock(self, path: str) -> Locked | None:
        """Lock a file for as long as this process lives; None: files here cannot be locked."""
        with self._open(path, os.O_RDWR) as descriptor:
            try:
                is_locked = take_lock(descriptor, _IN_USE)
            except (Held, OSError):
                is_locked = False
            if not is_locked:
                return None
            # a duplicate has the same lock, which ends when the last of them is closed
            return Locked(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3), os.fstat(descriptor).st_dev)

    def has_lost_lock(self, path: str, device: int) -> bool:
        """Whether it is proved that nobody holds the lock of a file that was locked on ``device``."""
        with suppress(Held, OSError), self._open(path, os.O_RDONLY) as descriptor:
            if os.fstat(descriptor).st_dev == device:  # else it may be another mount, with locks of its own
                return take_lock(descriptor, _IN_USE, shared=True)
        return False

    def unlink(self, path: str) -> None:
        """Remove a name."""
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def unlink_all(self, paths: Sequence[str]) -> None:
        """Remove names, those of them that are there."""
        for path in paths:
            with suppress(FileNotFoundError):
                self.unlink(path)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing."""
        done = ""
        for component in path.split("/"):
            done = f"{done}/{component}" if done else component
            with self._parent(done) as (parent, name), suppress(FileExistsError):
                make_directory(name, 0o700, dir_fd=parent)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; raises OSError if it is not."""
        with self._parent(path) as (parent, name):
            os.rmdir(name, dir_fd=parent)

    def names(self, path: str) -> list[str]:
        """List the names in a directory, in no order; empty if there is no directory."""
        try:
            with self._open(path, _DIRECTORY) as descriptor, os.scandir(descriptor) as entries:
                return [entry.name for entry in entries]
        except FileNotFoundError:
            return []

    def flush_names(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        with self._open(path, _DIRECTORY) as descriptor:
            flush_directory(descriptor)

    def modified_s(self, path: str) -> float:
        """When a file was last written: seconds since 1970, by the file system's clock."""
        with self._parent(path) as (parent, name):
            return os.stat(name, dir_fd=parent, follow_symlinks=False).st_mtime

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that holds ``path``, opened component by component, and the last component."""
        *above, name = path.split("/")
        current = os.dup(self._fd)
        try:
            for component in above:
                below = os.open(component, _DIRECTORY, dir_fd=current)
                os.close(current)
                current = below
            yield current, name
        except OSError as error:  # it knows no more than the last name
            error.filename = f"{self.root}/{path}"
            raise
        finally:
            os.close(current)

    @contextmanager
    def _open(self, path: str, flags: int) -> Iterator[int]:
        with self._parent(path) as (parent, name):
            descriptor = os.open(name, flags | _OLD, dir_fd=parent)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def name_disk(state: Path) -> str:
    """The name of the disk that holds a state directory: its volume, if it is on one."""
    return str(state.parent if state.name == STATE_NAME else state)


def _flush_name(directory: Path) -> None:
    descriptor = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flush_directory(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
