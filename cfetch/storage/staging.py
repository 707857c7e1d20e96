"""The directory in which a run writes its parts, below the state directory of a volume.

The directory is ``attempts/<instant>/<epoch>``; the timeline makes it for this run only. Beside it are the
parts that the timeline has kept of dead runs of the same plan; a rename takes such a part over.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cfetch.storage.descriptors import DIRECTORY, HeldDirectories
from cfetch.storage.files import volume_fault
from cfetch.storage.group_rights import create_file
from cfetch.storage.resume import NOTE_SUFFIX, PART_NAME

MAX_FILE_BYTES = 16 << 10
NO_BOOT = "unknown"  # begins the id of a boot where the system tells none
_KEPT = re.compile(r"[0-9]+-[0-9]+")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Leftover(NamedTuple):
    """A part that may be of use. ``run`` is its directory below ``attempts``; ``note`` is raw, or empty."""

    run: str
    name: str
    size_bytes: int
    note: bytes


@cache
def boot_id() -> str:
    """The id of this boot, which changes when the machine restarts."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"{NO_BOOT} {os.getpid()}"  # counts as another boot: no file counts as flushed


def start_ticks(pid: int) -> int | None:
    """The start of the process in clock ticks (proc(5), field 22); None if it has ended and is not reaped.

    Raises OSError: there is no such process, or it cannot be seen.
    """
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])


def _leftovers_in(attempts: int, instant: str) -> Iterator[Leftover]:
    """The parts that were kept of dead runs of ``instant``, below the held directory ``attempts``.

    A part that cannot be read is left out, and fetched again.
    """
    for kept in filter(_KEPT.fullmatch, _subdirectories(attempts, instant)):
        yield from _parts(attempts, f"{instant}/{kept}")


def _subdirectories(parent: int, name: str) -> list[str]:
    with suppress(OSError):
        descriptor = os.open(name, DIRECTORY, dir_fd=parent)
        try:
            with os.scandir(descriptor) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        finally:
            os.close(descriptor)
    return []


def _parts(attempts: int, run: str) -> Iterator[Leftover]:
    descriptor = os.open(run, DIRECTORY, dir_fd=attempts)
    try:
        with os.scandir(descriptor) as entries:
            names = {entry.name for entry in entries}
        for name in sorted(filter(PART_NAME.fullmatch, names)):
            with suppress(OSError):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                note = _read(descriptor, name + NOTE_SUFFIX) if name + NOTE_SUFFIX in names else b""
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    yield Leftover(run, name, status.st_size, note)
    finally:
        os.close(descriptor)


def _read(directory: int, name: str) -> bytes:
    descriptor = os.open(name, _FILE, dir_fd=directory)
    try:
        return os.read(descriptor, MAX_FILE_BYTES)
    finally:
        os.close(descriptor)


class Staging:
    """The staging directory, closed at first; ``descriptor`` when open. Methods raise LocalFault."""

    def __init__(self, root: Path) -> None:
        """``root`` is the volume's directory, for messages."""
        self._root = root
        self._attempts_fd = self.descriptor = -1
        self._create: Callable[..., int] = os.open
        self.path = ""

    def open(self, directories: HeldDirectories, path: str) -> None:
        """Write parts to ``path``, the directory of this run below the root, from now on. Raises OSError.

        The directory is never created again: if it is gone, another run has taken the plan over.
        """
        self.path = path
        if directories.is_shared:  # asked once: for each part it would take 2 % of a small file's time
            self._create = create_file
        self._attempts_fd = directories.open_below("/".join(path.split("/")[:2]), create=False)
        self.descriptor = directories.open_below(path, create=False)

    def close(self) -> None:
        """Close the directory; after this nothing is written."""
        descriptors = (self.descriptor, self._attempts_fd)
        self.descriptor = self._attempts_fd = -1  # first, as a signal may interrupt the loop
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def is_open(self) -> bool:
        """Whether parts can be written."""
        return self.descriptor >= 0

    @property
    def epoch(self) -> str:
        """The epoch of this execution, from the path; a Spark task's directory is one level deeper."""
        return self.path.split("/")[3]

    @property
    def run(self) -> str:
        """The directory of this run below ``attempts``."""
        return self.path.split("/", 2)[2]

    def find_leftover(self, name: str) -> Leftover:
        """A part of this run that is closed, as a leftover. Raises OSError."""
        status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        note = b""
        with suppress(FileNotFoundError):
            note = _read(self.descriptor, name + NOTE_SUFFIX)
        return Leftover(self.run, name, status.st_size, note)

    def read_leftover(self, leftover: Leftover, offset: int, size_bytes: int) -> bytes:
        """Read bytes of a leftover; fewer at its end. Raises OSError."""
        descriptor = os.open(f"{leftover.run}/{leftover.name}", _FILE, dir_fd=self._attempts_fd)
        try:
            return os.pread(descriptor, size_bytes, offset)
        finally:
            os.close(descriptor)

    def changed_s(self, leftover: Leftover) -> float:
        """The time of a leftover's last change. Raises OSError."""
        path = f"{leftover.run}/{leftover.name}"
        return os.stat(path, dir_fd=self._attempts_fd, follow_symlinks=False).st_mtime

    def leftovers(self) -> list[Leftover]:
        """Parts of dead runs of the same plan that may be of use."""
        return list(_leftovers_in(self._attempts_fd, self.path.split("/")[2]))

    def adopt_part(self, leftover: Leftover, name: str) -> int | None:
        """Take over a dead run's part, with its note; return its descriptor, for reading and writing.

        None: another run was faster. A kill between any two steps leaves the part with its note.
        """
        source = f"{leftover.run}/{leftover.name}"
        is_here = (leftover.run, leftover.name) == (self.run, name)  # its batch has come back to this volume
        if leftover.note and not is_here:
            self.note_part(name, leftover.note)
        try:
            if not is_here:
                os.rename(source, name, src_dir_fd=self._attempts_fd, dst_dir_fd=self.descriptor)
                if leftover.note:
                    with suppress(FileNotFoundError):
                        os.unlink(source + NOTE_SUFFIX, dir_fd=self._attempts_fd)
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(name, flags, dir_fd=self.descriptor)
        except FileNotFoundError:
            self.forget_note(name)
            return None
        except OSError as error:
            raise volume_fault(error, f"cannot go on with a part file in {self._root}") from None

    def remove_leftover(self, leftover: Leftover) -> None:
        """Remove a dead run's part that is of no use."""
        for suffix in (NOTE_SUFFIX, ""):
            with suppress(OSError):
                os.unlink(f"{leftover.run}/{leftover.name}{suffix}", dir_fd=self._attempts_fd)

    def note_part(self, name: str, note: bytes, *, renews: bool = False) -> None:
        """Write a note beside a part; ``renews``: replace an older note, if there is one, in one step."""
        draft = name + NOTE_SUFFIX + (".next" if renews else "")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_TRUNC if renews else os.O_EXCL
        try:
            descriptor = create_file(draft, flags, 0o600, dir_fd=self.descriptor)
            try:
                if os.write(descriptor, note) < len(note):  # a torn note makes its part useless
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
            if renews:
                self.rename_part(draft, name + NOTE_SUFFIX)
        except OSError as error:
            raise volume_fault(error, f"cannot note a part file in {self._root}") from None

    def forget_note(self, name: str) -> None:
        """Remove the note, as it is no longer true."""
        try:
            os.unlink(name + NOTE_SUFFIX, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise volume_fault(error, f"cannot remove a note of a part file in {self._root}") from None

    def create_part(self, name: str) -> int:
        """Create an empty file in the staging directory; return its descriptor, for writing and reading."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return self._create(name, flags, 0o666, dir_fd=self.descriptor)  # the mode of the final file
        except OSError as error:
            raise volume_fault(
                error, f"cannot create a part file in {self._root}", beneath=self.descriptor
            ) from None

    def reopen_part(self, name: str, *, in_place: bool = False) -> int:
        """A descriptor for further writes to a closed part: at its end, or anywhere if ``in_place``."""
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if in_place else os.O_APPEND)
            return os.open(name, flags, dir_fd=self.descriptor)
        except OSError as error:
            raise volume_fault(error, f"cannot go on with a part file in {self._root}") from None

    def rename_part(self, name: str, to: str) -> None:
        """Give a part another name in the same directory."""
        try:
            os.rename(name, to, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except OSError as error:
            raise volume_fault(error, f"cannot go on with a part file in {self._root}") from None

    def mark(self, name: str) -> None:
        """Create an empty file in the staging directory, where a later run finds it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            os.close(create_file(name, flags, 0o600, dir_fd=self.descriptor))

    def unmark(self, name: str) -> None:
        """Remove a mark. If that fails, a later run does it."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self.descriptor)

    def discard_part(self, name: str) -> None:
        """Remove a part, if it is there."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise volume_fault(error, f"cannot remove a part file in {self._root}") from None
