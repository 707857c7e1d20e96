"""A directory as a volume: parts are written beside the files they become, and published by rename.

Everything is opened beneath one held directory descriptor, component by component and without following
symlinks, so no manifest, no symlink and no later move of the directory makes cfetch write elsewhere. Names
are UTF-8 whatever the locale says.
"""

import errno
import os
import stat
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import NamedTuple

from cfetch.errors import Blocked, LocalFault, VolumeFault
from cfetch.manifest.entry import SafePath
from cfetch.secret import printable
from cfetch.storage.batch_record import BATCHES
from cfetch.storage.descriptors import directories_for
from cfetch.storage.files import flush_file_system, volume_fault
from cfetch.storage.leftovers import NOTE_SUFFIX, Leftover, leftovers_in
from cfetch.storage.source_note import Source, set_source, source_of

__all__ = ["STATE_NAME", "Directory"]

STATE_NAME = ".cfetch"
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


def _number(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


class _Held(NamedTuple):
    """An open directory, and what it must be found to be under its path: device and inode."""

    descriptor: int
    number: tuple[int, int]


class Directory:
    """Raises LocalFault wherever the machine says no.

    ``lost_writes``: a flush has failed, so nothing that this run has written may be trusted; not even what
    can be read again, as the kernel forgets which pages it could not write.
    """

    def __init__(self, root: Path, staging: str | None = None, *, share: int = 1) -> None:
        """``staging`` is made where it is missing: see ``stage``. ``share``: of so many volumes."""
        self.root = root
        self._root_name = os.fsencode(root)
        self._directories: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.RLock()  # while one of these is used: another thread may close it
        self._most_directories = max(1, directories_for(getrlimit(RLIMIT_NOFILE)[0]) // share)
        self._made_root = not root.exists()
        self.lost_writes = self._is_forsaken = False
        self._attempts_fd = self._staging_fd = -1
        self._staging_path = ""
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._root_fd = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
        except OSError as error:
            raise volume_fault(error, f"cannot use {root} as a destination") from None
        self._root_number = _number(os.fstat(self._root_fd))
        try:
            os.close(self._open_below(STATE_NAME, mode=0o700))
            self._look_whether_writable()
            if staging is not None:
                os.close(self._open_below(f"{STATE_NAME}/{staging}", mode=0o700))
                self.stage(staging)
        except OSError as error:
            self.close()
            raise volume_fault(error, f"cannot write to {root}") from None
        except LocalFault:
            self.close()
            raise

    def _look_whether_writable(self) -> None:
        """Raises OSError. What is there already tells nothing of a file system that has turned read-only."""
        if not os.access(STATE_NAME, os.W_OK | os.X_OK, dir_fd=self._root_fd):
            is_read_only = os.fstatvfs(self._root_fd).f_flag & os.ST_RDONLY
            number = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(number, os.strerror(number))

    def stage(self, path: str) -> None:
        """Write parts to ``attempts/<instant>/<epoch>`` from now on, which is there and this run's alone.

        It is never made anew: that it is gone is how a run learns that its plan was taken over.
        """
        self._staging_path = f"{STATE_NAME}/{path}"
        try:
            attempts = f"{STATE_NAME}/{path.partition('/')[0]}"
            self._attempts_fd = self._open_below(attempts, mode=0, create=False)
            self._staging_fd = self._open_below(self._staging_path, mode=0, create=False)
        except OSError as error:
            raise volume_fault(error, f"cannot write to {self.root}") from None

    def unstage(self) -> None:
        """Nothing is written any more."""
        if self._is_forsaken:
            return
        for descriptor in (self._staging_fd, self._attempts_fd):
            if descriptor >= 0:
                os.close(descriptor)
        self._staging_fd = self._attempts_fd = -1

    def forsake(self) -> None:
        """It hangs: from now on it is not touched, not even to be closed."""
        self._is_forsaken = True

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
            self.lost_writes = True
            raise volume_fault(error, f"cannot make what was written to {self.root} durable") from None

    def leftovers(self) -> list[Leftover]:
        """Parts of dead attempts at the same plan that may be of use.

        Whether a dead attempt had flushed the names it gave is not known: they are flushed before anybody
        relies on them. Raises LocalFault.
        """
        _, _, instant, epoch = self._staging_path.split("/")[:4]  # a task's directory lies deeper
        if epoch not in ("0", "1"):
            self.flush()
        return list(leftovers_in(self._attempts_fd, instant))

    def adopt_part(self, leftover: Leftover, name: str) -> int | None:
        """Take a dead run's part, with its note, into this run; its descriptor, for reading and writing.

        None: another run was faster. Killed between any two steps, it leaves the part with a note.
        """
        source = f"{leftover.run}/{leftover.name}"
        if leftover.note:
            self.note_part(name, leftover.note)
        try:
            os.rename(source, name, src_dir_fd=self._attempts_fd, dst_dir_fd=self._staging_fd)
            if leftover.note:
                with suppress(FileNotFoundError):
                    os.unlink(source + NOTE_SUFFIX, dir_fd=self._attempts_fd)
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(name, flags, dir_fd=self._staging_fd)
        except FileNotFoundError:
            self.forget_note(name)
            return None
        except OSError as error:
            raise volume_fault(error, f"cannot go on with a part file in {self.root}") from None

    def drop_leftover(self, leftover: Leftover) -> None:
        """Remove a dead run's part that is of no use."""
        for suffix in (NOTE_SUFFIX, ""):
            with suppress(OSError):
                os.unlink(f"{leftover.run}/{leftover.name}{suffix}", dir_fd=self._attempts_fd)

    def note_part(self, name: str, note: bytes, *, renews: bool = False) -> None:
        """Put a note beside a part; ``renews``: in an older one's place, if there is one, and in one step."""
        draft = name + NOTE_SUFFIX + (".next" if renews else "")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_TRUNC if renews else os.O_EXCL
        try:
            descriptor = os.open(draft, flags, 0o600, dir_fd=self._staging_fd)
            try:
                if os.write(descriptor, note) < len(note):  # what is torn is no note, and its part debris
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
            if renews:
                self.rename_part(draft, name + NOTE_SUFFIX)
        except OSError as error:
            raise volume_fault(error, f"cannot note a part file in {self.root}") from None

    def forget_note(self, name: str) -> None:
        """Take the note away: what it says is true no more."""
        try:
            os.unlink(name + NOTE_SUFFIX, dir_fd=self._staging_fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise volume_fault(error, f"cannot remove a note of a part file in {self.root}") from None

    def create_part(self, name: str) -> int:
        """A new, empty file in the staging directory; its descriptor, for writing and reading."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(name, flags, 0o666, dir_fd=self._staging_fd)  # its mode as a final file
        except OSError as error:
            raise self._fault(error, f"cannot create a part file in {self.root}") from None

    def reopen_part(self, name: str, *, in_place: bool = False) -> int:
        """A descriptor for going on with a part that was closed: at its end, or anywhere if ``in_place``."""
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if in_place else os.O_APPEND)
            return os.open(name, flags, dir_fd=self._staging_fd)
        except OSError as error:
            raise volume_fault(error, f"cannot go on with a part file in {self.root}") from None

    def rename_part(self, name: str, to: str) -> None:
        """Another name in the staging directory: see ``leftovers``."""
        try:
            os.rename(name, to, src_dir_fd=self._staging_fd, dst_dir_fd=self._staging_fd)
        except OSError as error:
            raise volume_fault(error, f"cannot go on with a part file in {self.root}") from None

    def mark(self, name: str) -> None:
        """Put an empty file into the staging directory, where a later run finds it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            os.close(os.open(name, flags, 0o600, dir_fd=self._staging_fd))

    def unmark(self, name: str) -> None:
        """Take it away. What cannot be done is done by a later run."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._staging_fd)

    def has_record(self, batch: str) -> bool:
        """Whether a batch stands here, by its id."""
        try:
            os.stat(f"{STATE_NAME}/{BATCHES}/{batch}.json", dir_fd=self._root_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise volume_fault(error, f"cannot read {self.root}") from None
        return True

    def remove_record(self, batch: str) -> None:
        """The batch does not stand here any more."""
        with suppress(OSError):
            os.unlink(f"{STATE_NAME}/{BATCHES}/{batch}.json", dir_fd=self._root_fd)

    def put_record(self, batch: str, text: bytes) -> None:
        """Write a batch's record, in one step; an older one is replaced."""
        draft = f"{batch}.json"  # among the parts, where it is tidied up after a run that dies now
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            directory = self._open_below(f"{STATE_NAME}/{BATCHES}", mode=0o700)
            try:
                with os.fdopen(os.open(draft, flags, 0o600, dir_fd=self._staging_fd), "wb") as file:
                    file.write(text)
                os.rename(draft, f"{batch}.json", src_dir_fd=self._staging_fd, dst_dir_fd=directory)
            finally:
                os.close(directory)
        except OSError as error:
            self.unmark(draft)
            raise self._fault(error, f"cannot write the record of a batch to {self.root}") from None

    def discard_part(self, name: str) -> None:
        """Remove a part, if it is there."""
        try:
            os.unlink(name, dir_fd=self._staging_fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise volume_fault(error, f"cannot remove a part file in {self.root}") from None

    def record(self, descriptor: int, source: Source) -> None:
        """Write on an open part which link its bytes came from, where the file system can hold that."""
        set_source(descriptor, source)

    def recorded(self, path: SafePath) -> Source | None:
        """Which link the file at ``path`` came from, as far as ``record`` told; None if that is not known."""
        with suppress(OSError), self._lock:
            parent, _, leaf = path.rpartition("/")
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(leaf.encode(), flags, dir_fd=self._directory(parent, create=False))
            try:
                return source_of(descriptor)
            finally:
                os.close(descriptor)
        return None

    def publish(self, name: str, path: SafePath) -> None:
        """Give a whole and verified part its final name, in one step; an older file there is replaced."""
        try:
            try:
                self._rename(name, path)
            except FileNotFoundError:  # somebody removed the directory at this moment: it is made again
                self._rename(name, path)
        except OSError as error:
            raise _obstacle(error, path) or self._fault(
                error, f"cannot put {printable(path)} in place"
            ) from None

    def unpublish(self, name: str, path: SafePath) -> None:
        """Take a file's final name away again: the rest of its batch could not be published."""
        parent, _, leaf = path.rpartition("/")
        try:
            with self._lock:
                directory = self._directory(parent, create=False)
                os.rename(leaf.encode(), name, src_dir_fd=directory, dst_dir_fd=self._staging_fd)
        except OSError as error:
            raise volume_fault(error, f"cannot take {printable(path)} back") from None

    def _fault(self, error: OSError, what: str) -> LocalFault:
        """``local_fault``, but "no space" is said only where space is what lacks."""
        if error.errno == errno.ENOSPC:
            with suppress(OSError):
                found = os.fstatvfs(self._root_fd)
                if found.f_bavail and found.f_files and not found.f_favail:
                    return VolumeFault(
                        f"{what}: the file system can hold no more files (all {found.f_files:,} inodes are "
                        "in use); remove some and run the same command again",
                        no_room=True,
                    )
        return volume_fault(error, what)

    def _rename(self, name: str, path: SafePath) -> None:
        parent, _, leaf = path.rpartition("/")
        with self._lock:
            os.rename(name, leaf.encode(), src_dir_fd=self._staging_fd, dst_dir_fd=self._directory(parent))

    def existing(self, path: SafePath) -> int | None:
        """The size of the regular file at ``path``; None if there is none. Directories are not created.

        A symlink counts as none: it is not followed, and ``publish`` replaces it.
        """
        parent, _, leaf = path.rpartition("/")
        try:
            with self._lock:
                directory = self._directory(parent, create=False)
                found = os.stat(leaf.encode(), dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _obstacle(error, path) or volume_fault(error, f"cannot look at {printable(path)}") from None
        if stat.S_ISREG(found.st_mode):
            return found.st_size
        if stat.S_ISLNK(found.st_mode):
            return None
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "special file"
        raise Blocked(f"a {kind} stands in its place; move it away")

    def remove(self, path: SafePath) -> None:
        """Remove the regular file at ``path``, if that can be done."""
        parent, _, leaf = path.rpartition("/")
        with suppress(OSError), self._lock:
            directory = self._directory(parent, create=False)
            if stat.S_ISREG(os.stat(leaf.encode(), dir_fd=directory, follow_symlinks=False).st_mode):
                os.unlink(leaf.encode(), dir_fd=directory)

    def delete(self, path: SafePath) -> None:
        """Remove the file or symlink at ``path``, if there is one, and the directories above that are empty.

        Raises Blocked: a directory stands there; VolumeFault.
        """
        parent, _, leaf = path.rpartition("/")
        try:
            with suppress(FileNotFoundError), self._lock:
                os.unlink(leaf.encode(), dir_fd=self._directory(parent, create=False))
        except OSError as error:
            raise _obstacle(error, path) or volume_fault(error, f"cannot delete {printable(path)}") from None
        while parent:  # also where the file has gone before: a follower may have died in between
            parent, _, leaf = parent.rpartition("/")
            try:
                with suppress(FileNotFoundError), self._lock:
                    os.rmdir(leaf.encode(), dir_fd=self._directory(parent, create=False))
            except OSError:
                break  # others live there

    def supersede(self, path: SafePath) -> None:
        """What stands at ``path`` is an older version, whatever its size: see ``recorded``."""
        with suppress(LocalFault, Blocked):
            descriptor = self.open_existing(path)
            if descriptor is not None:
                set_source(descriptor, Source("superseded", None))
                os.close(descriptor)

    def open_existing(self, path: SafePath) -> int | None:
        """A descriptor for reading the file at ``path``; None if it has gone."""
        parent, _, leaf = path.rpartition("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with self._lock:
                return os.open(leaf.encode(), flags, dir_fd=self._directory(parent, create=False))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _obstacle(error, path) or volume_fault(error, f"cannot read {printable(path)}") from None

    def close(self) -> None:
        """Remove our directories where nothing else lives in them, and give the descriptors back."""
        if self._is_forsaken:
            return
        while self._directories:
            os.close(self._directories.popitem()[1].descriptor)
        self.unstage()
        path = self._staging_path or STATE_NAME
        while path:
            try:
                os.rmdir(path, dir_fd=self._root_fd)
            except OSError:
                break  # not empty: another run's, or parts that a later one may go on with
            path = path.rpartition("/")[0]
        os.close(self._root_fd)
        if self._made_root:
            with suppress(OSError):  # not empty: it was worth making
                self.root.rmdir()

    def _directory(self, path: str, *, create: bool = True) -> int:
        """A descriptor of the directory that stands under ``path`` now; "" is the destination itself.

        A held one may have been moved or removed; a file put into it would not be where it was asked for.
        """
        held = self._directories.get(path)
        if held is None or not self._is_at(path, held.number):
            if not self._is_at("", self._root_number):
                raise VolumeFault(
                    f"{self.root} was moved or removed while cfetch was running; "
                    "put it back, or run the same command again"
                )
            if held is not None:
                os.close(self._directories.pop(path).descriptor)
            if not path:
                return self._root_fd
            descriptor = self._open_below(path, mode=0o777, create=create)
            held = self._directories[path] = _Held(descriptor, _number(os.fstat(descriptor)))
            if len(self._directories) > self._most_directories:
                os.close(self._directories.popitem(last=False)[1].descriptor)
        self._directories.move_to_end(path)
        return held.descriptor

    def _is_at(self, path: str, number: tuple[int, int]) -> bool:
        try:
            name = self._root_name + b"/" + path.encode()
            return _number(os.stat(name, follow_symlinks=not path)) == number  # noqa: PTH116 - bytes: UTF-8
        except OSError:
            return False

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
