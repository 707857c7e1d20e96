"""Writes all files of cfetch's own: after a crash the old file is there, or the new one.

No file that others may read is ever written in place. The bytes go to a temporary file beside it, whose
random name no other writer on any machine has. It is newly created, so no symlink leads elsewhere, and only
its owner may read it. If the file is to be durable, its bytes are flushed. Then it gets its name in one step:
a rename replaces an older file, a link does not. Finally the directory is flushed, as a rename too may be
lost in a power cut. A writer that dies leaves at most its temporary file: see ``remove_temporaries``.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cfetch.base.errors import LocalFault, UsageError, VolumeFault
from cfetch.base.secret import printable
from cfetch.storage.group_rights import create_file, is_for_group, make_directory, may_share
from cfetch.storage.lacking import LINKS, flush_directory, flush_file, note_lack

STATE_NAME = ".cfetch"
MOVES = "moves"  # below the state directory: one directory for each batch that is being moved here
PAUSED = "paused"  # below the state directory: a person keeps new batches from this volume
PRIVATE = 0o600
USERS = 0o666  # less the umask: for a file of the user, not of cfetch
LONGEST_NAME = 255  # bytes, on all file systems in use
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TOKEN_BYTES = 8


# errors


def local_fault(error: OSError, what: str) -> LocalFault:
    """Make a LocalFault of an ``OSError``: it names the action ``what``, the cause, a remedy and the path."""
    remedy = {
        errno.ENOSPC: "free some space and run the same command again",
        errno.EDQUOT: "raise the quota and run the same command again",
        errno.EFBIG: "the file system or a limit, ulimit -f, allows no file so large",
        errno.EIO: "the disk reports an error; see the system's log",
        errno.ENOENT: "something removed it while cfetch was running; run the same command again",
        errno.EACCES: "check the permissions",
        errno.EPERM: "its owner, or an attribute such as append-only, forbids it; see lsattr -d",
        errno.EROFS: "the file system is mounted read-only; name another place, or mount it for writing",
        errno.ELOOP: "a symlink is where a directory should be; move it, or name another --to",
        errno.ENOTDIR: "a file or a symlink is where a directory should be; move it, or name another --to",
        errno.EMFILE: "raise the limit of open files (ulimit -n) or lower --concurrency",
    }.get(error.errno or 0)
    cause = error.strerror or type(error).__name__
    path = printable(os.fspath(error.filename)) if isinstance(error.filename, str | os.PathLike) else ""
    place = f": {path}" if path.startswith("/") and path not in what else ""
    return LocalFault(f"{what}: {cause}{f' ({remedy})' if remedy else ''}{place}")


_WRONG_NAME = {
    errno.ENOENT,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EPERM,
}


def input_fault(error: OSError, what: str) -> LocalFault | UsageError:
    """Make an error of an ``OSError`` that stopped the action ``what``, which reads a file of the user.

    It is the user's fault if the name is wrong or the user may not read the file, else this machine's.
    """
    if error.errno in _WRONG_NAME:
        remedy = "; is the name right?" if error.errno == errno.ENOENT else ""
        return UsageError(f"{what}: {error.strerror}{remedy}")
    return local_fault(error, what)


_THIS_PROCESS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # the call would fail on every volume
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def volume_fault(error: OSError, what: str, *, beneath: int | None = None) -> LocalFault:
    """Like ``local_fault``, for a fault of one volume that another volume may not have.

    ``beneath``: an open directory of the volume, by which "no space" and "no inodes" are distinguished.
    """
    fault = local_fault(error, what)
    if error.errno in _THIS_PROCESS:
        return fault
    if error.errno == errno.ENOSPC and beneath is not None:
        with suppress(OSError):
            usage = os.fstatvfs(beneath)
            if usage.f_bavail and usage.f_files and not usage.f_favail:
                return VolumeFault(
                    f"{what}: the file system can hold no more files (all {usage.f_files:,} inodes are in "
                    "use); remove some and run the same command again",
                    no_room=True,
                )
    return VolumeFault(str(fault), no_room=error.errno in _NO_ROOM)


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Turn OSErrors of the ``with`` block into LocalFaults that name ``path``."""
    try:
        yield
    except OSError as error:
        raise local_fault(error, f"cannot use {path}") from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of writing ``path`` into LocalFault."""
    try:
        yield
    except OSError as error:
        raise local_fault(error, f"cannot write {printable(str(path), 1000)}") from None


# writing


def make_private(directory: Path, *, state: Path | None = None) -> None:
    """Make a directory of the state. Missing directories are made for their owner only, with any umask.

    ``state`` is the top directory of the state; without it, ``.cfetch`` or ``directory`` itself. Directories
    above it are the user's, and are made by the umask. If others may write to existing directories of the
    state, that permission is removed.

    Raises OSError: also if a directory from the state down to ``directory`` is a symlink, or belongs to
    another user than this one or root. Root may use the directories of all users, as in containers.
    """
    chain = [directory, *directory.parents]
    names = [folder.name for folder in chain]
    top = state or (chain[names.index(STATE_NAME)] if STATE_NAME in names else directory)
    own = chain[: chain.index(top) + 1]
    for folder in own:
        with suppress(FileNotFoundError):
            _make_own(folder, is_named=folder == top and folder.name != STATE_NAME)
    for is_last in (False, False, True):
        try:
            for folder in reversed([folder for folder in chain if not folder.exists()]):
                with suppress(FileExistsError):
                    if folder in own and folder != top:
                        make_directory(folder, 0o700)
                    else:
                        folder.mkdir(mode=0o700 if folder == top else 0o777)
            return
        except FileNotFoundError:  # another run has just removed an empty directory above
            if is_last:
                raise


def _make_own(folder: Path, *, is_named: bool) -> None:
    """Let nobody else write to ``folder``, unless it is a state that the user has named.

    Raises OSError: it is a symlink, or belongs to another user.
    """
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
    is_foreign = os.geteuid() not in (0, status.st_uid)
    if may_share(status):
        return
    if is_foreign and status.st_uid != 0 and _keeps_owners(folder, status.st_uid):
        cause = f"{folder} belongs to another user (uid {status.st_uid}), who could change what is downloaded"
        raise OSError(errno.EPERM, f"{cause}; remove it, or name a directory of your own with --state")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (is_named or is_for_group(status)):
        try:
            folder.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        except OSError:
            if is_foreign and _keeps_owners(folder, status.st_uid):  # else modes are not kept, or read-only
                raise


def _keeps_owners(folder: Path, owner: int) -> bool:
    """Whether the file system keeps owners: on sshfs, CIFS, some NFS, a new file belongs to ``owner`` too."""
    probe = folder / f".{secrets.token_hex(_TOKEN_BYTES)}"
    try:
        descriptor = os.open(probe, _NEW, PRIVATE)
    except OSError:
        return True
    try:
        return os.fstat(descriptor).st_uid != owner
    finally:
        os.close(descriptor)
        probe.unlink()


@contextmanager
def open_replacement(path: Path, *, durable: bool = True, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Write a file that replaces ``path`` when the ``with`` block ends without error.

    After an error in the block, the older file stays. ``durable``: the new file survives a power cut.
    ``mode`` is for a file of the user; a private file in a shared state is for its group too.

    Raises OSError, as the caller knows which of its errors are about this file.
    """
    temporary = _temporary_of(path)
    with _discarding(temporary):
        with os.fdopen(create_file(temporary, _NEW, mode), "wb") as file:
            yield file
            file.flush()
            if durable:
                flush_file(file.fileno())
        os.rename(temporary, path)  # noqa: PTH104 - a test takes the place of os
    if durable:
        flush_names(path.parent)


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file with these bytes to ``path``, in place of an older file. Raises LocalFault."""
    with writing(path), open_replacement(path, durable=durable) as file:
        file.write(data)


def publish_once(path: Path, data: bytes, *, durable: bool = True) -> bool:
    """Write a file with these bytes to ``path``, unless there is one already; then return False.

    Raises LocalFault.
    """
    with writing(path):
        temporary = _temporary_of(path)
        with _discarding(temporary):
            with os.fdopen(create_file(temporary, _NEW, PRIVATE), "wb") as file:
                file.write(data)
                file.flush()
                if durable:
                    flush_file(file.fileno())
            try:
                os.link(temporary, path, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                note_lack(LINKS, error)
                if os.path.lexists(path):
                    return False
                os.rename(temporary, path)  # noqa: PTH104 - a test takes the place of os
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)  # noqa: PTH108
        if durable:
            flush_names(path.parent)
    return True


def remove_temporaries(path: Path) -> None:
    """Remove temporary files that dead writers of ``path`` have left; only if no other writer is alive."""
    with suppress(OSError):
        length = len(path.name) + 2 + 2 * _TOKEN_BYTES
        for temporary in path.parent.glob(f".{path.name}.*"):
            if len(temporary.name) == length:
                temporary.unlink()


def _temporary_of(path: Path) -> Path:
    token = secrets.token_hex(_TOKEN_BYTES)
    name = f".{path.name}.{token}"
    return path.with_name(name if len(os.fsencode(name)) <= LONGEST_NAME else f".{token}")


@contextmanager
def _discarding(temporary: Path) -> Iterator[None]:
    """Remove the temporary file if an error ends the ``with`` block."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


# flushing


def flush_names(path: Path) -> None:
    """Make the names in a directory survive a power cut, if its file system can do that."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flush_directory(descriptor)
    finally:
        os.close(descriptor)
