"""Checks that the system allows the descriptors that a run needs, and holds the directories of a volume open.

Files are opened by name in a held directory, so that most of them need no walk from the root.
"""

import os
import resource
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cfetch.base.errors import ConfigError, VolumeFault
from cfetch.storage.group_rights import make_for_group

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

PER_DOWNLOAD = 2  # its connection and its part
# Standard streams, event loop (12 of uvloop), plan, metrics, staging, owner, a path being walked: 24 counted.
OTHERS = 26
PER_VOLUME = 6  # its root, its attempts, its staging, the timeline's hold of it, two paths being walked
MAX_DIRECTORIES = 64  # directories held open, of all volumes, so that their files need no walk from the root
MOST_NAMES = 64  # names in a directory that is listed; in a larger one, single look-ups cost less

notes: list[str] = []  # what a run of this process has to tell of its limits


def directories_for(limit: int) -> int:
    """How many directories to hold open if ``limit`` descriptors are allowed."""
    return max(1, min(MAX_DIRECTORIES, limit // 10))


def most_downloads(limit: int, volumes: int = 1, others: int = 0) -> int:
    """The number of downloads at a time for which ``limit`` descriptors are enough; may be 0."""
    limit -= others
    return max(0, (limit - OTHERS - PER_VOLUME * (volumes - 1) - directories_for(limit)) // PER_DOWNLOAD)


def reserve_descriptors(
    concurrency: int, *, most: int, volumes: int = 1, others: int = 0, can_lower: bool = False
) -> int:
    """Raise this process's limit as far as ``most`` downloads need and the system permits.

    Returns how many downloads at a time are permitted: from ``concurrency`` to ``most``, or fewer, with a
    note, if ``can_lower``: nobody has asked for so many. ``others``: what something else in this process may
    take at any time, as a server for its connections.

    Raises:
        ConfigError: fewer than ``concurrency`` are permitted. Here this costs nothing; in the middle of a
            run, files would fail.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or most_downloads(soft, volumes, others) >= most:
        return most
    wanted = others + OTHERS + PER_VOLUME * (volumes - 1) + MAX_DIRECTORIES + PER_DOWNLOAD * most
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    permitted = most_downloads(allowed, volumes, others)
    if can_lower and 0 < permitted < concurrency:
        notes.append(
            f"the system lets a process open {hard} files (ulimit -n), enough for {permitted} downloads at a "
            f"time, not {concurrency}; raise that limit for more"
        )
    elif permitted < concurrency:
        raise ConfigError(
            f"concurrency is {concurrency}, and the system lets a process open {hard} files (ulimit -n), "
            f"enough for {permitted} downloads at a time; raise that limit"
            f"{f' or give --concurrency {permitted}' if permitted else ''}. Nothing was downloaded"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return min(permitted, most)


class _Held(NamedTuple):
    """An open directory, with the device and inode that must be found under its path."""

    descriptor: int
    number: tuple[int, int]


def _number(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class HeldDirectories:
    """The directories beneath ``root`` that are held open; the last used one is at the end.

    Everything is opened component by component, and no symlink is followed. Another thread may close a
    descriptor that ``directory`` has returned: hold ``lock`` while it is used.
    """

    def __init__(self, root: Path, *, sharers: int = 1) -> None:
        """``sharers``: the number of volumes that share the limit of directories. Raises OSError."""
        self.lock = threading.RLock()
        self.root_fd = os.open(root, DIRECTORY & ~os.O_NOFOLLOW)
        self.is_shared = False  # True: a group shares the volume, and may use new directories too
        self._root = root
        self._root_name = os.fsencode(root)
        self._root_number = _number(os.fstat(self.root_fd))
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._names: OrderedDict[str, frozenset[bytes] | None] = OrderedDict()  # None: more than MOST_NAMES
        self._checked: set[str] | None = None  # directories that are checked already, within ``one_look``
        self._most = max(1, directories_for(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) // sharers)

    def close(self) -> None:
        """Close all of them except the root."""
        while self._held:
            os.close(self._held.popitem()[1].descriptor)

    def confirm_root(self) -> None:
        """Raise VolumeFault if the root's name no longer leads to the directory that was opened."""
        if not self._is_at("", self._root_number):
            raise VolumeFault(
                f"{self._root} was moved, unmounted or removed while cfetch was running; "
                "put it back, or run the same command again"
            )

    def directory(self, path: str, *, create: bool = True) -> int:
        """A descriptor of the directory that is at ``path`` now; "" is the root itself.

        A held directory may have been moved or removed; a file put into it would be in the wrong place.

        Raises:
            VolumeFault: the root is another directory now.
            OSError: the directory cannot be opened.
        """
        held = self._held.get(path)
        if self._checked is not None and path in self._checked:
            return self.root_fd if held is None else held.descriptor
        if held is None or not self._is_at(path, held.number):
            self.confirm_root()
            if held is not None:
                os.close(self._held.pop(path).descriptor)
            if not path:
                if self._checked is not None:
                    self._checked.add(path)
                return self.root_fd
            descriptor = self.open_below(path, create=create)
            held = self._held[path] = _Held(descriptor, _number(os.fstat(descriptor)))
            if len(self._held) > self._most:
                oldest, closed = self._held.popitem(last=False)
                os.close(closed.descriptor)
                if self._checked is not None:
                    self._checked.discard(oldest)
        self._held.move_to_end(path)
        if self._checked is not None:
            self._checked.add(path)
        return held.descriptor

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Check only once in the ``with`` block, for each directory, that it is still at its place.

        The block must end within milliseconds: files that go into a directory that was moved meanwhile move
        with it, as if it had been moved a moment later.
        """
        with self.lock:
            self._checked = set()
            try:
                yield
            finally:
                self._checked = None

    def check_again(self) -> None:
        """Repeat the checks of ``one_look``: a directory is gone meanwhile."""
        if self._checked is not None:
            self._checked.clear()

    def was_free(self, parent: str, leaf: str) -> bool:
        """Whether there was nothing of this name when its directory was first listed, or now if it is large.

        False may also mean that the directory cannot be read. The answer may be out of date.
        """
        if parent not in self._names:
            self._names[parent] = self._list_names(parent)
            if len(self._names) > self._most:
                self._names.popitem(last=False)
        names = self._names[parent]
        return self._is_free(parent, leaf) if names is None else leaf.encode() not in names

    def _is_free(self, parent: str, leaf: str) -> bool:
        """Whether there is nothing of this name now; False also if that cannot be found out."""
        try:
            with self.lock:
                os.stat(leaf.encode(), dir_fd=self.directory(parent, create=False), follow_symlinks=False)
        except FileNotFoundError:
            return True
        except (OSError, VolumeFault):
            pass
        return False

    def _list_names(self, parent: str) -> frozenset[bytes] | None:
        """The names in a directory; empty if it does not exist; None if they are many or cannot be read."""
        try:
            with self.lock, os.scandir(self.directory(parent, create=False)) as entries:
                names = [os.fsencode(entry.name) for entry in islice(entries, MOST_NAMES + 1)]
        except FileNotFoundError:
            return frozenset()
        except (OSError, VolumeFault):
            return None
        return frozenset(names) if len(names) <= MOST_NAMES else None

    def _is_at(self, path: str, number: tuple[int, int]) -> bool:
        """Whether ``path`` beneath the root still leads to the directory, without a symlink."""
        name = self._root_name
        try:
            if not path:  # the path to the root is the user's, and may have symlinks
                return _number(os.stat(name)) == number  # noqa: PTH116 - bytes: UTF-8
            for component in path.encode().split(b"/"):
                name += b"/" + component
                status = os.stat(name, follow_symlinks=False)  # noqa: PTH116
                if not stat.S_ISDIR(status.st_mode):
                    return False
            return _number(status) == number
        except OSError:
            return False

    def open_below(self, path: str, *, mode: int = 0o777, create: bool = True) -> int:
        """A new descriptor of the directory at ``path``, which the caller closes. Raises OSError."""
        current = os.dup(self.root_fd)
        try:
            for component in path.split("/"):
                if create:
                    with suppress(FileExistsError):
                        make = make_for_group if self.is_shared else os.mkdir
                        make(component.encode(), mode, dir_fd=current)
                below = os.open(component.encode(), DIRECTORY, dir_fd=current)
                os.close(current)
                current = below
        except BaseException:
            os.close(current)
            raise
        return current
