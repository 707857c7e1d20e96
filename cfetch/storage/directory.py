"""A directory on a file system: parts are written in its state directory, and published by rename.

Everything is opened beneath one held directory descriptor, component by component and without following
symlinks, so no manifest, no symlink and no later move of the directory makes cfetch write elsewhere. Names
are UTF-8 in every locale.
"""

import errno
import os
import stat
from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.errors import Blocked, LocalFault, Vanished, VolumeFault
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry, SafePath
from cfetch.storage.descriptors import HeldDirectories
from cfetch.storage.files import STATE_NAME, volume_fault
from cfetch.storage.group_rights import is_for_group, refuse_foreign_state
from cfetch.storage.lacking import find_free_bytes, flush_file_system
from cfetch.storage.refusals import NameRefusals, means_no_file
from cfetch.storage.source_records import SUPERSEDED, SourceRecords
from cfetch.storage.staging import Leftover, Staging
from cfetch.storage.state_format import refuse_newer_state

if TYPE_CHECKING:
    from cfetch.storage.batch_records import BatchRecords

_LARGEST = (1 << 63) - 1


def _make(root: Path) -> None:
    """Make a destination unless it is there. Raises OSError, VolumeFault."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:  # the file system makes no directories, as /proc does
        raise VolumeFault(
            f"cannot use {root} as a destination: no directory can be made there; name another one"
        ) from None


def foreign_file(entry: Entry) -> Blocked:
    """The error of an entry that must not replace the file at its path, as somebody else has put it there.

    Its name comes from a server, a feed or ``--clash rename``, not from the user.
    """
    if entry.replaces is not None:
        return Blocked(
            f"a file is there that cfetch has not put there, or that was changed since "
            f"({printable(entry.path)}); move it away"
        )
    return Blocked(
        f"the server of {entry.url}, or --clash rename, chose the name {printable(entry.path)}, and a file "
        "of that name is there which cfetch has not put there; move that file away, or choose the name: "
        "state its path, --name-by last, or cfetch get -o FILE"
    )


class Identity(NamedTuple):
    """Identifies a file: it differs as soon as the file was replaced, changed or given other permissions.

    The number of the device is left out, as some file systems get another one at each mount.
    """

    inode: int
    size_bytes: int
    changed_ns: int
    status_ns: int

    @property
    def content(self) -> tuple[int, int, int]:
        """What stays the same when only permissions, owner or the number of hard links change."""
        return self.inode, self.size_bytes, self.changed_ns


def _identify_in(directory: int, leaf: bytes) -> Identity | None:
    return _make_identity(os.stat(leaf, dir_fd=directory, follow_symlinks=False))


def _make_identity(status: os.stat_result) -> Identity | None:
    if not stat.S_ISREG(status.st_mode):
        return None
    inode = status.st_ino & _LARGEST  # the catalogue keeps signed numbers
    return Identity(inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Directory:
    """The file system beneath one destination. Methods raise LocalFault if the system refuses a call.

    ``DirectoryVolume`` makes a volume of it. ``staging``: where this run writes its parts; ``sources``: where
    the published files came from.

    ``is_forsaken``: it hangs, so nobody may touch it any more, not even to close it.

    ``holds_files``: this run has published files here, or found files in place.

    ``lost_writes``: a flush has failed, so nothing that this run has written may be trusted. Even bytes that
    can be read again do not count, as the kernel forgets which pages it could not write.
    """

    def __init__(
        self, root: Path, staging: str | None = None, *, sharers: int = 1, keep_free: float = 0
    ) -> None:
        """``staging`` is created if it is missing, see ``stage``. ``sharers`` is as in ``HeldDirectories``.

        ``keep_free`` is not for this run: bytes (int), or a fraction of the file system (float).
        """
        refuse_foreign_state(root / STATE_NAME)
        refuse_newer_state(root / STATE_NAME)
        self.root = root
        self._keep_free = keep_free
        self.holds_files = self.lost_writes = self.is_forsaken = False
        self.staging = Staging(root)
        self.refusals = NameRefusals(spares_entries=sharers == 1)
        self._batches: set[str] = set()
        try:
            self._made_root = not root.exists()  # if a mount is dead, even this fails
            _make(root)
            self._held = HeldDirectories(root, sharers=sharers)
            self.sources = SourceRecords(root, self._held)
        except OSError as error:
            if os.path.exists(root) and not os.path.isdir(root):
                raise VolumeFault(
                    f"cannot use {root} as a destination: it is a file; name a directory"
                ) from None
            raise volume_fault(error, f"cannot use {root} as a destination") from None
        try:
            state = self._held.open_below(STATE_NAME, mode=0o700)
            self._held.is_shared = is_for_group(os.fstat(state))
            os.close(state)
            self._check_writable()
            if staging is not None:
                os.close(self._held.open_below(f"{STATE_NAME}/{staging}", mode=0o700))
                self.stage(staging)
        except OSError as error:
            self.close()
            where = root / STATE_NAME if error.errno in (errno.ENOTDIR, errno.ELOOP) else root
            raise volume_fault(error, f"cannot write to {where}") from None
        except LocalFault:
            self.close()
            raise

    @property
    def records(self) -> "BatchRecords":
        """The records of batches that are committed here."""
        from cfetch.storage.batch_records import BatchRecords  # most runs commit no batches

        return BatchRecords(self.root, self._held, self.staging, self._batches)

    def _check_writable(self) -> None:
        """Raise OSError unless files can be written: the file system may have become read-only."""
        if not os.access(STATE_NAME, os.W_OK | os.X_OK, dir_fd=self._held.root_fd):
            is_read_only = os.fstatvfs(self._held.root_fd).f_flag & os.ST_RDONLY
            number = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(number, os.strerror(number))

    def stage(self, path: str) -> None:
        """Write parts to ``attempts/<instant>/<epoch>`` below the state directory from now on."""
        probe = f"{STATE_NAME}/.probe"
        try:
            with suppress(FileExistsError):  # left by a killed run, or another run is testing now
                os.mkdir(probe, 0o700, dir_fd=self._held.root_fd)  # on a full disk this raises
            with suppress(FileNotFoundError):
                os.rmdir(probe, dir_fd=self._held.root_fd)
            self.staging.open(self._held, f"{STATE_NAME}/{path}")
        except OSError as error:
            what = f"cannot write to {self.root}"
            raise volume_fault(error, what, beneath=self._held.root_fd) from None

    def unstage(self) -> None:
        """Close the staging directory; after this nothing is written."""
        if not self.is_forsaken:
            self.staging.close()

    def confirm(self) -> None:
        """Raise Vanished if the files or batches of this run do not stand here any more.

        Then something has moved, unmounted or emptied the directory. If it has no files of this run, this
        does not matter.
        """
        if self.holds_files:
            try:
                self._held.confirm_root()
            except VolumeFault as fault:
                raise Vanished(str(fault)) from None
        if self._batches:
            self.records.confirm()

    def free_bytes(self) -> int | None:
        """Bytes that this run may still write; None: nobody knows. Raises VolumeFault."""
        try:
            return find_free_bytes(self._held.root_fd, self._keep_free)
        except OSError as error:
            raise volume_fault(error, f"cannot tell how much room {self.root} has") from None

    def flush(self) -> None:
        """Make every byte and name written so far survive a power cut; one flush of the whole file system.

        Raises:
            LocalFault: some could not be written; bytes written since the last flush must not be trusted.
        """
        try:
            flush_file_system(self._held.root_fd)
        except OSError as error:
            self.lost_writes = True
            raise volume_fault(error, f"cannot make what was written to {self.root} durable") from None

    def leftovers(self) -> list[Leftover]:
        """Parts of dead runs of the same plan that may be of use.

        A dead run may not have flushed its final names: they are flushed here before anything relies on them.
        Raises LocalFault.
        """
        if not self.staging.is_open:
            return []
        if self.staging.epoch not in ("0", "1"):
            self.flush()
        return self.staging.leftovers()

    def descriptor_of(self, parent: str) -> int:
        """The directory's descriptor, which is valid until the next call for a directory.

        Raises:
            LocalFault: the root is another directory now.
            OSError: the directory cannot be opened.
        """
        return self._held.directory(parent, create=False)

    def publish(self, name: str, path: SafePath) -> None:
        """Give a whole and verified part its final name, in one step; an older file there is replaced."""
        try:
            try:
                self._rename(name, path)
            except FileNotFoundError:  # the directory was removed at this moment: it is created again
                self._held.check_again()
                self._rename_again(name, path)
            self.holds_files = True
            self.refusals.note_success()
        except OSError as error:
            what = f"cannot put {printable(path)} in place"
            raise self.refusals.judge_name(error, path, what, beneath=self._held.root_fd) from None

    def unpublish(self, name: str, path: SafePath) -> None:
        """Undo ``publish``: the rest of the file's batch could not be published."""
        parent, _, leaf = path.rpartition("/")
        try:
            with self._held.lock:
                directory = self._held.directory(parent, create=False)
                os.rename(leaf.encode(), name, src_dir_fd=directory, dst_dir_fd=self.staging.descriptor)
        except OSError as error:
            raise volume_fault(error, f"cannot remove {printable(path)} again") from None

    def _rename_again(self, name: str, path: SafePath) -> None:
        """Rename; where the part is there and the name is not found again, the name is not taken here.

        The exFAT driver of FUSE refuses letters with this error, also in directories.
        """
        try:
            self._rename(name, path)
        except FileNotFoundError:
            os.stat(name, dir_fd=self.staging.descriptor, follow_symlinks=False)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None

    def _rename(self, name: str, path: SafePath) -> None:
        parent, _, leaf = path.rpartition("/")
        with self._held.lock:
            os.rename(
                name,
                leaf.encode(),
                src_dir_fd=self.staging.descriptor,
                dst_dir_fd=self._held.directory(parent),
            )

    def one_look(self) -> AbstractContextManager[None]:
        """Call ``HeldDirectories.one_look``, for files that are published together."""
        return self._held.one_look()

    def was_free(self, path: SafePath) -> bool:
        """Call ``HeldDirectories.was_free``: if it is true, the file itself need not be looked up."""
        parent, _, leaf = path.rpartition("/")
        return self._held.was_free(parent, leaf)

    def existing(self, path: SafePath) -> int | None:
        """The size of the regular file at ``path``; None if there is none. Directories are not created.

        A symlink counts as no file: it is not followed, and ``publish`` replaces it.
        """
        parent, _, leaf = path.rpartition("/")
        try:
            with self._held.lock:
                directory = self._held.directory(parent, create=False)
                status = os.stat(leaf.encode(), dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refusals.judge_name(error, path, f"cannot look at {printable(path)}") from None
        if stat.S_ISREG(status.st_mode):
            return status.st_size
        if stat.S_ISLNK(status.st_mode):
            return None
        kind = "directory" if stat.S_ISDIR(status.st_mode) else "special file"
        raise Blocked(f"a {kind} stands in its place; move it away")

    def remove(self, path: SafePath, only: Collection[tuple[int, int, int]] | None = None) -> None:
        """Remove the regular file at ``path``, if that can be done.

        ``only``: these files, each by inode, size and time of change; None: any file.
        """
        with suppress(OSError), self._held.lock:
            directory, leaf = self._open_parent(path)
            identity = _identify_in(directory, leaf)
            if identity is not None and (only is None or identity.content in only):
                os.unlink(leaf, dir_fd=directory)

    def identify(self, path: SafePath) -> Identity | None:
        """Identify the regular file at ``path``; None: there is none. No symlink is followed.

        Raises VolumeFault.
        """
        try:
            with self._held.lock:
                return _identify_in(*self._open_parent(path))
        except OSError as error:
            if means_no_file(error):
                return None
            raise volume_fault(error, f"cannot look at {printable(path)}") from None

    def has_odd_file(self, path: SafePath) -> bool:
        """Whether a symlink or a special file is at ``path``."""
        with suppress(OSError), self._held.lock:
            directory, leaf = self._open_parent(path)
            mode = os.stat(leaf, dir_fd=directory, follow_symlinks=False).st_mode
            return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
        return False

    def delete_exactly(self, path: SafePath, identity: Identity) -> bool:
        """Remove the file at ``path`` if it has this ``identity``, and the directories above that are empty.

        Return whether it was removed. Raises VolumeFault.
        """
        try:
            with self._held.lock:
                directory, leaf = self._open_parent(path)
                if _identify_in(directory, leaf) != identity:
                    return False
                os.unlink(leaf, dir_fd=directory)
        except OSError as error:
            if means_no_file(error):
                return False
            raise volume_fault(error, f"cannot delete {printable(path)}") from None
        self.remove_empty(path)
        return True

    def _open_parent(self, path: SafePath) -> tuple[int, bytes]:
        parent, _, leaf = path.rpartition("/")
        return self._held.directory(parent, create=False), leaf.encode()

    def move(self, path: SafePath, to: SafePath, identity: Identity) -> bool:
        """Give the file at ``path``, if it has this ``identity``, the name ``to``, if that is free.

        Return whether it has that name now; on a file system without hard links it never has. It is durable
        after ``flush``.
        """
        parent, _, leaf = to.rpartition("/")
        with suppress(OSError), self._held.lock:
            directory, own_leaf = self._open_parent(path)
            if _identify_in(directory, own_leaf) != identity:
                return False
            directory = os.dup(directory)  # it is valid only until the other directory is opened
            try:
                other = self._held.directory(parent)
                os.link(
                    own_leaf, leaf.encode(), src_dir_fd=directory, dst_dir_fd=other, follow_symlinks=False
                )
                os.unlink(own_leaf, dir_fd=directory)
            finally:
                os.close(directory)
            return True
        return False

    def remove_empty(self, path: SafePath) -> None:
        """Remove the directories above ``path`` that are empty."""
        parent = path.rpartition("/")[0]
        while parent:
            parent, _, leaf = parent.rpartition("/")
            try:
                with suppress(FileNotFoundError), self._held.lock:
                    os.rmdir(leaf.encode(), dir_fd=self._held.directory(parent, create=False))
            except OSError:
                break  # other files are in it

    def supersede(self, path: SafePath) -> None:
        """Note that the file at ``path`` is an older version, even if it has the right size."""
        with suppress(LocalFault, Blocked):
            descriptor = self.open_existing(path)
            if descriptor is not None:
                self.sources.note(descriptor, path, SUPERSEDED)
                os.close(descriptor)

    def open_existing(self, path: SafePath) -> int | None:
        """A descriptor for reading the file at ``path``; None if it is gone."""
        parent, _, leaf = path.rpartition("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with self._held.lock:
                return os.open(leaf.encode(), flags, dir_fd=self._held.directory(parent, create=False))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refusals.judge_name(error, path, f"cannot read {printable(path)}") from None

    def close(self) -> None:
        """Remove cfetch's own directories if they are empty, and close the descriptors."""
        if self.is_forsaken:
            return
        self.unstage()
        self.is_forsaken = True  # a signal may end this in the middle, and then it is called again
        self._held.close()
        path = self.staging.path or STATE_NAME
        while path:
            try:
                os.rmdir(path, dir_fd=self._held.root_fd)
            except OSError:
                break  # not empty: another run uses it, or a later run may continue its parts
            path = path.rpartition("/")[0]
        os.close(self._held.root_fd)
        if self._made_root:
            with suppress(OSError):  # not empty: it is needed
                self.root.rmdir()


def spare_foreign(directory: Directory, entry: Entry) -> None:
    """Check that the entry replaces no file of somebody else, if it ``spares_others``.

    If its name is not the user's choice, cfetch must have put the file there. A symlink is somebody else's
    too. Raises Blocked.
    """
    if not entry.spares_others:
        return
    parent, _, leaf = entry.path.rpartition("/")
    with suppress(OSError), directory.one_look():
        status = os.stat(leaf.encode(), dir_fd=directory.descriptor_of(parent), follow_symlinks=False)
        if entry.replaces is None:
            may_replace = directory.sources.find(entry.path) is not None
        else:
            identity = _make_identity(status)
            may_replace = identity is not None and identity.content in entry.replaces
        if not may_replace:
            raise foreign_file(entry)
