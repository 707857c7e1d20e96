"""Shares a destination and its state with a group (``--group``), as git shares a repository.

The mode of the state directory records the choice. If the directory is setgid, its group may write there, and
others may not enter, then the group may use everything that is made below it, whatever the umask, and also
new directories of the destination. If only the destination is a group's, its state is not.

When it fails: a state that was made without ``--group`` stays its user's, and others are told whose it is.
Links with signatures are part of a plan, so nobody joins a shared state without asking for it.
"""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cfetch.base.errors import ConfigError, LocalFault
from cfetch.storage.lacking import set_mode

OF_GROUP = stat.S_ISGID | stat.S_IRWXG
GROUP_FILE = stat.S_IRGRP | stat.S_IWGRP
_UMASK = threading.Lock()


def is_for_group(status: os.stat_result) -> bool:
    """Whether this is the status of a directory of a state that a group shares."""
    mode = status.st_mode
    return stat.S_ISDIR(mode) and mode & (OF_GROUP | stat.S_IRWXO) == OF_GROUP


def may_share(status: os.stat_result) -> bool:
    """Whether a directory of a shared state is this user's group's."""
    return is_for_group(status) and status.st_gid in {os.getegid(), *os.getgroups()}


@contextmanager
def for_group(*, is_shared: bool = True) -> Iterator[None]:
    """Let the group use files that are made in the block, from their first moment.

    If their mode were changed afterwards, another member could be refused meanwhile, and for ever after a
    kill. The umask belongs to the process, so files that other threads make meanwhile are the group's too.
    """
    if not is_shared:
        yield
        return
    with _UMASK:
        umask = os.umask(0o077)
        os.umask(umask & ~stat.S_IRWXG)
        try:
            yield
        finally:
            os.umask(umask)


def create_file(name: str | Path, flags: int, mode: int, *, dir_fd: int | None = None) -> int:
    """Open a file of the state, or a part; if it is made in a shared directory, the group may use it too.

    ``name`` is in the directory ``dir_fd``, or a path. Raises OSError.
    """
    is_shared = is_for_group(_stat_parent(name, dir_fd))
    with for_group(is_shared=is_shared):
        descriptor = os.open(name, flags, mode | GROUP_FILE if is_shared else mode, dir_fd=dir_fd)
    if is_shared:
        with suppress(PermissionError):  # it was there, and is another member's
            set_mode(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) | GROUP_FILE)
    return descriptor


def make_file(path: Path) -> None:
    """Make an empty file of the state if there is none; in a shared one for the group too. Raises OSError."""
    with suppress(FileNotFoundError):  # else it is not opened: to close it would end own locks on it
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            if is_for_group(path.parent.stat()):
                with suppress(PermissionError):  # it is another member's
                    path.chmod(stat.S_IMODE(mode) | GROUP_FILE)
            return
    os.close(create_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _stat_parent(name: str | bytes | Path, dir_fd: int | None) -> os.stat_result:
    return os.fstat(dir_fd) if dir_fd is not None else Path(os.fsdecode(name)).parent.stat()


def make_directory(name: str | bytes | Path, mode: int, *, dir_fd: int | None = None) -> None:
    """Make a directory in a state; in a shared one, for the group too. Raises OSError."""
    if is_for_group(_stat_parent(name, dir_fd)):
        make_for_group(name, mode, dir_fd=dir_fd)
    else:
        os.mkdir(name, mode, dir_fd=dir_fd)


def make_for_group(name: str | bytes | Path, mode: int, *, dir_fd: int | None = None) -> None:
    """Make a directory that the group may use. Raises OSError."""
    with for_group():
        os.mkdir(name, mode | stat.S_IRWXG, dir_fd=dir_fd)
    open_directory_to_group(name, dir_fd=dir_fd)  # the directory above may not pass its group on


def open_directory_to_group(name: str | bytes | Path, *, dir_fd: int | None = None) -> None:
    """Let the group of a directory use it, and what is made in it. Raises OSError."""
    status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    if status.st_mode & OF_GROUP != OF_GROUP:
        os.chmod(name, stat.S_IMODE(status.st_mode) | OF_GROUP, dir_fd=dir_fd)


def give_files_to_group(directory: Path) -> None:
    """Let the group use this user's files below a directory, if it is in a shared state. Raises OSError.

    Another member may put files there at the same time, which that member shares, or replace some of these.
    """
    if is_for_group(directory.stat()):
        for path in directory.iterdir():
            with suppress(FileNotFoundError, PermissionError):
                status = path.lstat()
                if stat.S_ISDIR(status.st_mode):
                    give_files_to_group(path)
                elif stat.S_ISREG(status.st_mode) and status.st_mode & GROUP_FILE != GROUP_FILE:
                    path.chmod(stat.S_IMODE(status.st_mode) | GROUP_FILE)


def refuse_foreign_state(state: Path, *, asks_for_group: bool | None = None) -> None:
    """Raise LocalFault if ``state`` belongs to another user who does not share it with this user.

    ``asks_for_group``: whether ``--group`` is given; None: nothing of this user's is put there.
    Raises ConfigError: it is shared, and the user has not asked for that.
    """
    try:
        status = state.lstat()
    except OSError:
        return
    if os.geteuid() in (0, status.st_uid):
        return
    if may_share(status):
        if asks_for_group is False:
            raise ConfigError(
                f"{state} belongs to {name_user(status.st_uid)}, who shares it with a group of yours, and "
                "all of the group could read the links of this run; if that is meant, give --group"
            )
    elif not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        raise LocalFault(tell_owner(state, status.st_uid))


def tell_owner(state: Path, uid: int) -> str:
    """Say whose the state is, and what to do."""
    who = name_user(uid)
    return (
        f"{state} belongs to {who}, and you may not write there; name another --to, or let {who} share it "
        "with a group of yours: chgrp it, and run the download with --group"
    )


def name_user(uid: int) -> str:
    """The user's name, for messages."""
    import pwd  # only for messages

    with suppress(KeyError):
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    return f"the user with uid {uid}"
