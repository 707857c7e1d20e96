"""A directory as a volume: parts are written beside the files they become, and published by rename.

Everything is opened beneath one held directory descriptor, component by component and without following
symlinks, so no manifest, no symlink and no later move of the directory makes cfetch write elsewhere. Names
are UTF-8 whatever the locale says.
"""

import errno
import os
import stat
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from cfetch.errors import Blocked, LocalFault
from cfetch.manifest.entry import SafePath
from cfetch.placement.flush import flush_file_system
from cfetch.placement.leftovers import (
    NOTE_SUFFIX,
    Leftover,
    dead_runs,
    forget_owner,
    sweep,
    write_owner,
)
from cfetch.secret import printable

__all__ = ["LocalVolume", "local_fault"]

STATE_NAME = ".cfetch"
MAX_OPEN_DIRECTORIES = 64  # descriptors kept for directories; well below the usual limit of 1024 in all
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_OBSTACLES = {
    errno.EISDIR: "a directory stands in its place",
    errno.EEXIST: "a directory stands in its place",
    errno.ENOTEMPTY: "a directory stands in its place",
    errno.ENOTDIR: "a file or a symlink stands where one of its directories should be",
    errno.ELOOP: "a symlink stands where one of its directories should be",
}


def _obstacle(error: OSError, path: SafePath) -> Blocked | None:
    """What stands in the way of this one path; None where the machine as a whole says no."""
    what = _OBSTACLES.get(error.errno or 0)
    return Blocked(f"{what} ({printable(path)}); move it away") if what else None


def local_fault(error: OSError, what: str) -> LocalFault:
    """The error tree's form of an ``OSError``: names the cause, what was being done, and a remedy."""
    remedy = {
        errno.ENOSPC: "free some space and run the same command again",
        errno.EDQUOT: "raise the quota and run the same command again",
        errno.EACCES: "check the permissions",
        errno.EROFS: "the file system is mounted read-only",
        errno.ELOOP: "a symlink stands where a directory should be",
        errno.ENOTDIR: "a file or a symlink stands where a directory should be",
        errno.EMFILE: "raise the limit of open files (ulimit -n) or lower --concurrency",
    }.get(error.errno or 0)
    cause = error.strerror or type(error).__name__
    return LocalFault(f"{what}: {cause}{f' ({remedy})' if remedy else ''}")


class LocalVolume:
    """Raises LocalFault wherever the machine says no."""

    def __init__(self, root: Path, staging: str) -> None:
        """``staging`` is ``attempts/<instant>/<epoch>``: this run alone writes there."""
        self.root = root
        self._directories: OrderedDict[str, int] = OrderedDict()
        self._made_root = not root.exists()
        self.dead_instants: set[str] = set()  # runs whose process is gone, once ``leftovers`` has looked
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._root_fd = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
        except OSError as error:
            raise local_fault(error, f"cannot use {root} as a destination") from None
        self._staging_path = f"{STATE_NAME}/{staging}"
        attempts, self._instant, _ = staging.split("/")
        try:
            self._staging_fd = self._open_below(self._staging_path, mode=0o700)
            self._attempts_fd = self._open_below(f"{STATE_NAME}/{attempts}", mode=0o700)
            self._owner_fd = write_owner(self._attempts_fd, self._instant)
        except OSError as error:
            os.close(self._root_fd)
            raise local_fault(error, f"cannot write to {root}") from None

    def free_bytes(self) -> int:
        """Bytes that an unprivileged user may still write."""
        usage = os.fstatvfs(self._root_fd)
        return usage.f_bavail * usage.f_frsize

    def flush(self) -> None:
        """Make every byte and name written so far survive a power cut; one flush of the whole file system.

        Raises:
            LocalFault: some could not be written; what was written since the last flush must not be trusted.
        """
        try:
            flush_file_system(self._root_fd)
        except OSError as error:
            raise local_fault(error, f"cannot make what was written to {self.root} durable") from None

    def leftovers(self) -> list[Leftover]:
        """Parts of dead runs that have notes; everything else that those left is removed."""
        found: list[Leftover] = []
        for run, parts in dead_runs(self._attempts_fd, self._instant):
            found += parts
            sweep(self._attempts_fd, run, {part.name for part in parts})
            self.dead_instants.add(run.partition("/")[0])
        return found

    def adopt_part(self, leftover: Leftover, name: str) -> int | None:
        """Take a dead run's part, with its note, into this run; its descriptor, for reading and writing.

        None: another run was faster.
        """
        try:
            for suffix in ("", NOTE_SUFFIX):
                source = f"{leftover.run}/{leftover.name}{suffix}"
                os.rename(source, name + suffix, src_dir_fd=self._attempts_fd, dst_dir_fd=self._staging_fd)
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(name, flags, dir_fd=self._staging_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise local_fault(error, f"cannot go on with a part file in {self.root}") from None

    def note_part(self, name: str, note: bytes) -> None:
        """Put a note beside a part."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name + NOTE_SUFFIX, flags, 0o600, dir_fd=self._staging_fd)
            try:
                os.write(
                    descriptor, note
                )  # torn by a full disk or a crash it is no note, and the part debris
            finally:
                os.close(descriptor)
        except OSError as error:
            raise local_fault(error, f"cannot note a part file in {self.root}") from None

    def forget_note(self, name: str) -> None:
        """Take the note away: the part has been given up or published."""
        with suppress(FileNotFoundError):
            os.unlink(name + NOTE_SUFFIX, dir_fd=self._staging_fd)

    def create_part(self, name: str) -> int:
        """A new, empty file in the staging directory; its descriptor, for writing and reading."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(name, flags, 0o644, dir_fd=self._staging_fd)
        except OSError as error:
            raise local_fault(error, f"cannot create a part file in {self.root}") from None

    def discard_part(self, name: str) -> None:
        """Remove a part, if it is there."""
        try:
            os.unlink(name, dir_fd=self._staging_fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise local_fault(error, f"cannot remove a part file in {self.root}") from None

    def publish(self, name: str, path: SafePath) -> None:
        """Give a whole and verified part its final name, in one step; an older file there is replaced."""
        parent, _, leaf = path.rpartition("/")
        try:
            os.rename(name, leaf.encode(), src_dir_fd=self._staging_fd, dst_dir_fd=self._directory(parent))
        except OSError as error:
            raise _obstacle(error, path) or local_fault(
                error, f"cannot put {printable(path)} in place"
            ) from None

    def existing(self, path: SafePath) -> int | None:
        """The size of the regular file at ``path``; None if there is none. Directories are not created.

        A symlink counts as none: it is not followed, and ``publish`` replaces it.
        """
        parent, _, leaf = path.rpartition("/")
        try:
            found = os.stat(
                leaf.encode(), dir_fd=self._directory(parent, create=False), follow_symlinks=False
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _obstacle(error, path) or local_fault(error, f"cannot look at {printable(path)}") from None
        if stat.S_ISREG(found.st_mode):
            return found.st_size
        if stat.S_ISLNK(found.st_mode):
            return None
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "special file"
        raise Blocked(f"a {kind} stands in its place; move it away")

    def open_existing(self, path: SafePath) -> int | None:
        """A descriptor for reading the file at ``path``; None if it has gone."""
        parent, _, leaf = path.rpartition("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(leaf.encode(), flags, dir_fd=self._directory(parent, create=False))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _obstacle(error, path) or local_fault(error, f"cannot read {printable(path)}") from None

    def close(self) -> None:
        """Remove our directories where nothing else lives in them, and give the descriptors back."""
        while self._directories:
            os.close(self._directories.popitem()[1])
        with os.scandir(self._staging_fd) as left:
            is_empty = not any(left)
        if is_empty:  # else parts are left that a later run may use, and need their owner's name
            forget_owner(self._attempts_fd, self._instant)
        os.close(self._staging_fd)
        if self.dead_instants:
            self.leftovers()  # their directories, where this run has taken over the last part
        os.close(self._owner_fd)
        os.close(self._attempts_fd)
        path = self._staging_path
        while path:
            try:
                os.rmdir(path, dir_fd=self._root_fd)
            except OSError:
                break  # not empty: another run, or parts that could not be removed
            path = path.rpartition("/")[0]
        os.close(self._root_fd)
        if self._made_root:
            with suppress(OSError):  # not empty: it was worth making
                self.root.rmdir()

    def _directory(self, path: str, *, create: bool = True) -> int:
        if not path:
            return self._root_fd
        held = self._directories.get(path)
        if held is None:
            held = self._open_below(path, mode=0o777, create=create)
            self._directories[path] = held
            if len(self._directories) > MAX_OPEN_DIRECTORIES:
                os.close(self._directories.popitem(last=False)[1])
        else:
            self._directories.move_to_end(path)
        return held

    def _open_below(self, path: str, *, mode: int, create: bool = True) -> int:
        current = os.dup(self._root_fd)
        try:
            for component in path.split("/"):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(component.encode(), mode, dir_fd=current)
                below = os.open(component.encode(), _DIRECTORY, dir_fd=current)
                os.close(current)
                current = below
        except BaseException:
            os.close(current)
            raise
        return current
