"""Asks a file system what it does with names, by one empty file that is then looked for under others."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.storage.directory import Directory
from cfetch.storage.files import STATE_NAME

_ENDS = ". "
_IGNORED = (
    "\ufe0f",
    "\u034f",
    "\u200d",
)  # a few of those that vfat, SMB, APFS and ext4's case folding ignore


def probe_folding(volume: Directory) -> Folding:
    """Ask the file system of a destination. If nothing can be written there, nothing is known to be folded.

    Raises LocalFault: it is another directory now.
    """
    with volume.one_look(), suppress(OSError):
        return ask_folding(volume.descriptor_of(STATE_NAME))
    return KEEPS_NAMES


def ask_folding(directory: int) -> Folding:
    """Ask in an open directory. Raises OSError: nothing can be written there."""
    name = f"probe-{secrets.token_hex(8)}"
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory))
    try:
        ends = "".join(end for end in _ENDS if _is_there(directory, name + end))
        ignores = any(_is_there(directory, name + letter) for letter in _IGNORED)
        case = _is_there(directory, name.upper())
        forms = _is_one(directory, f"{name}\u00e9", f"{name}e\u0301")  # as on APFS and HFS+
        by_letter = case and not _is_one(directory, f"{name}\u00df", f"{name}ss")
        return Folding(ends, ignores, case, forms, by_letter)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


def read_folding(root: Path) -> Folding:
    """What a file system does with names, as far as the name of cfetch's own directory there shows it.

    Nothing is written. One that passes over letters takes case and forms as Unicode does; others go letter by
    letter.
    """
    try:
        directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return KEEPS_NAMES
    try:
        if not _is_there(directory, STATE_NAME):
            return KEEPS_NAMES
        ends = "".join(end for end in _ENDS if _is_there(directory, STATE_NAME + end))
        ignores = any(_is_there(directory, STATE_NAME + letter) for letter in _IGNORED)
        case = _is_there(directory, STATE_NAME.upper())
        return Folding(ends, ignores, case, forms=case and ignores, by_letter=case and not ignores)
    finally:
        os.close(directory)


def _is_one(directory: int, name: str, other: str) -> bool:
    """Whether a file that gets one name is found by the other."""
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory))
    except OSError:  # it takes no such letter, so no two names differ in it
        return False
    try:
        return _is_there(directory, other)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


def _is_there(directory: int, name: str) -> bool:
    """Whether a file is found; a name that the file system refuses is not."""
    with suppress(OSError):
        os.stat(name, dir_fd=directory, follow_symlinks=False)
        return True
    return False
