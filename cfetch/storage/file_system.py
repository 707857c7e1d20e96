"""Asks a file system what it can do, call by call, in a directory of its own that is removed afterwards.

The calls are those of a download, and what counts as "not here" is the table in ``lacking.py``.
"""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from cfetch.storage import lacking
from cfetch.storage.locks import take_lock
from cfetch.storage.name_folding import ask_folding
from cfetch.storage.source_records import set_source
from cfetch.storage.volume_values import SourceRecord

_PREFIX = ".cfetch-doctor-"
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
NO_ATTRIBUTES = "has no extended attributes: cfetch keeps in files of its own where files came from"
NO_LOCKS = "has no locks: two runs are kept apart by heartbeats alone, and follow and sync refuse to work"
FOLDS_CASE = "takes names that differ in case alone for one file"
FOLDS_FORMS = "takes composed and decomposed letters for one name"
DROPS_ENDS = "drops a dot or a space at the end of a name"
DROPS_LETTERS = "ignores some invisible letters in names"


class Capabilities(NamedTuple):
    """``lacks``: sentences without their subject, each of which says what is given up."""

    kind: str | None
    size_bytes: int | None
    free_bytes: int | None
    lacks: list[str]


def find_standing(directory: Path) -> Path:
    """The directory itself, or the nearest one above it that exists. Raises OSError: it cannot be asked."""
    for folder in (directory, *directory.parents):
        with suppress(FileNotFoundError):
            folder.stat()
            return folder
    return directory


def probe_file_system(directory: Path) -> Capabilities:
    """Ask the file system of a directory that exists. Raises OSError: nothing can be written there."""
    lacking.take_losses()  # of what this process did before
    with _open_scratch(directory) as (folder, file, name):
        usage = os.fstatvfs(file)
        size_bytes = usage.f_blocks * usage.f_frsize or None
        free_bytes = lacking.find_free_bytes(file)
        lacking.flush_file(file)
        lacking.flush_directory(folder)
        lacking.set_mode(file, 0o640)
        if stat.S_IMODE(os.fstat(file).st_mode) != 0o640:
            lacking.note_lack(lacking.MODE, PermissionError(1, ""))
        _attempt(lacking.LINKS, lambda: os.link(name, f"{name}-2", src_dir_fd=folder, dst_dir_fd=folder))
        os.replace(name, f"{name}-3", src_dir_fd=folder, dst_dir_fd=folder)
        lacks = [*lacking.take_losses(), *_ask_more(file, folder)]
    return Capabilities(find_kind(directory), size_bytes, free_bytes, lacks)


def _ask_more(file: int, folder: int) -> Iterator[str]:
    """What is lacking without which a run does something else, and of which it says nothing."""
    try:
        set_source(file, SourceRecord("0" * 32))
    except OSError as error:
        if error.errno not in lacking.ATTRIBUTES.errors:
            raise
        yield NO_ATTRIBUTES
    if not take_lock(file, ""):
        yield NO_LOCKS
    folding = ask_folding(folder)
    losses = {
        FOLDS_CASE: folding.case,
        FOLDS_FORMS: folding.forms,
        DROPS_ENDS: bool(folding.ends),
        DROPS_LETTERS: folding.ignores,
    }
    yield from (loss for loss, is_so in losses.items() if is_so)


def _attempt(lack: lacking.Lack, call: Callable[[], object]) -> None:
    try:
        call()
    except OSError as error:
        lacking.note_lack(lack, error)


@contextmanager
def _open_scratch(directory: Path) -> Iterator[tuple[int, int, str]]:
    """A new directory and a file in it, as descriptors; and the name of the file. Both are removed."""
    scratch = tempfile.mkdtemp(prefix=_PREFIX, dir=directory)
    try:
        folder = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with _closing(folder):
            file = os.open("probe", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
            with _closing(file):
                os.write(file, b"cfetch")
                yield folder, file, "probe"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def find_kind(directory: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of a directory's file system, such as ``ext4``; None: the system does not say."""
    with suppress(OSError, ValueError):
        device = directory.stat().st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        whole = directory.resolve()
        best: tuple[int, str] = (-1, "")
        for line in mounts.read_text(errors="replace").splitlines():
            fields, _, rest = line.partition(" - ")
            words = fields.split()
            point = Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), words[4]))
            kind = rest.split()[0]
            if words[2] == wanted:  # a device of its own is surer than a path
                return kind
            if whole.is_relative_to(point) and len(point.parts) >= best[0]:
                best = len(point.parts), kind
        return best[1] or None
    return None
