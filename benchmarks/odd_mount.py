# ruff: noqa: D102, PTH101, PTH102, PTH104, PTH106, PTH108, PTH118, PTH208 - as the calls of ``os`` that they carry out
"""A directory mounted by FUSE as a file system that changes or refuses names. Needs fusepy and libfuse 2.

Usage, until the place is unmounted::

    python benchmarks/odd_mount.py vfat|folding|short REAL PLACE

``vfat``: folds case, drops dots and blanks at the end of a name, refuses ``?*<>|":`` (EINVAL), and has no
modes and no links. ``folding``: case, Unicode forms and letters that nobody sees make no other name.
``short``: names have at most 143 bytes, as on eCryptfs.
"""

import errno
import os
import sys
import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

from fuse import FUSE, FuseOSError, Operations

SHORT_BYTES = 143
_STATISTICS = ("atime", "ctime", "gid", "mode", "mtime", "nlink", "size", "uid", "blocks", "ino")
_ROOM = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "flag", "frsize", "namemax")
_UNSEEN = "\u034f\u200c\u200d\ufe0f"


class Rules(NamedTuple):
    """``fold`` gives names that are one the same key; ``refused`` letters and longer names are errors."""

    fold: Callable[[str], str]
    refused: str = ""
    longest_bytes: int = 255
    has_modes: bool = True
    ends: str = ""


def _lower_letters(name: str) -> str:
    """Letter by letter, without letters that become two."""
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in name)


KINDS = {
    "vfat": Rules(_lower_letters, '?*<>|":', has_modes=False, ends=". "),
    "folding": Rules(
        lambda name: unicodedata.normalize("NFC", "".join(c for c in name if c not in _UNSEEN).casefold())
    ),
    "short": Rules(str, longest_bytes=SHORT_BYTES),
}


class Mounted(Operations):  # type: ignore[misc] # fusepy has no types
    """The calls, each on the file of the real directory whose name is one with the name asked for."""

    def __init__(self, real: str, rules: Rules) -> None:
        self._root = real
        self._rules = rules

    def __call__(self, op: str, path: str, *args: object) -> object:
        """Carry out a call. Raises FuseOSError."""
        try:
            return super().__call__(op, path, *args)
        except FuseOSError:
            raise
        except OSError as error:
            raise FuseOSError(error.errno) from None

    def _find(self, path: str) -> str:
        rules, place = self._rules, self._root
        for part in filter(None, path.split("/")):
            name = part.rstrip(rules.ends) if rules.ends else part
            if not name or any(letter in rules.refused for letter in name):
                raise OSError(errno.EINVAL, "no such names")
            if len(name.encode()) > rules.longest_bytes:
                raise OSError(errno.ENAMETOOLONG, "a name is too long")
            key = rules.fold(name)
            try:
                known = next((other for other in os.listdir(place) if rules.fold(other) == key), name)
            except (FileNotFoundError, NotADirectoryError):
                known = name
            place = os.path.join(place, known)
        return place

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        stat = os.lstat(self._find(path)) if fh is None else os.fstat(fh)
        return {f"st_{name}": getattr(stat, f"st_{name}") for name in _STATISTICS}

    def readdir(self, path: str, fh: int) -> list[str]:  # noqa: ARG002 - fusepy's parameters
        return [".", "..", *os.listdir(self._find(path))]

    def statfs(self, path: str) -> dict[str, int]:  # noqa: ARG002
        usage = os.statvfs(self._root)
        return {f"f_{name}": getattr(usage, f"f_{name}") for name in _ROOM}

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._find(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._find(path))

    def unlink(self, path: str) -> None:
        os.unlink(self._find(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._find(old), self._find(new))

    def link(self, target: str, source: str) -> None:
        self._refuse_modes()
        os.link(self._find(source), self._find(target))

    def chmod(self, path: str, mode: int) -> None:
        self._refuse_modes()
        os.chmod(self._find(path), mode)

    def _refuse_modes(self) -> None:
        if not self._rules.has_modes:
            raise OSError(errno.EPERM, "no modes and no links here")

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> None:
        os.utime(self._find(path), times)

    def open(self, path: str, flags: int) -> int:
        return os.open(self._find(path), flags & ~(os.O_EXCL | os.O_CREAT))

    def create(self, path: str, mode: int, fi: object = None) -> int:  # noqa: ARG002
        return os.open(self._find(path), os.O_RDWR | os.O_CREAT, mode | 0o600)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:  # noqa: ARG002
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:  # noqa: ARG002
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(self._find(path) if fh is None else fh, length)

    def fsync(self, path: str, datasync: int, fh: int) -> None:  # noqa: ARG002
        os.fsync(fh)

    def release(self, path: str, fh: int) -> None:  # noqa: ARG002
        os.close(fh)


if __name__ == "__main__":
    kind, real, place = sys.argv[1:]
    # no cache in the kernel: a name would go on after the other name of its file has gone
    never = {"entry_timeout": 0, "attr_timeout": 0, "negative_timeout": 0}
    FUSE(
        Mounted(real, KINDS[kind]),
        place,
        foreground=True,
        nothreads=True,
        hard_remove=True,
        use_ino=True,
        **never,
    )
