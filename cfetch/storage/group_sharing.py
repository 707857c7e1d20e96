"""Gives a destination and its state to a group: what ``--group`` does before a run."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from cfetch.base.errors import LocalFault
from cfetch.storage.group_rights import (
    GROUP_FILE,
    OF_GROUP,
    is_for_group,
    make_for_group,
    name_user,
    open_directory_to_group,
    tell_owner,
)


def give_destination_to_group(root: Path) -> None:
    """Let the directory's group put files there; make it if it is missing. Raises LocalFault, OSError."""
    root.mkdir(parents=True, exist_ok=True)
    status = root.stat()
    if status.st_mode & OF_GROUP == OF_GROUP:
        return
    if os.geteuid() not in (0, status.st_uid):
        who = name_user(status.st_uid)
        raise LocalFault(f"{root} belongs to {who}, who can share it with its group: chmod g+rwxs {root}")
    open_directory_to_group(root)


def give_state_to_group(state: Path) -> None:
    """Share the state, and what is in it, with the group of its directory. Raises LocalFault, OSError."""
    state.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        make_for_group(state, 0o700)
    status = state.lstat()
    if is_for_group(status):
        return
    if os.geteuid() not in (0, status.st_uid) or stat.S_ISLNK(status.st_mode):
        raise LocalFault(tell_owner(state, status.st_uid))
    for beneath, names, files in os.walk(state, topdown=False):
        for name in files:
            path = Path(beneath, name)
            if stat.S_ISREG(path.lstat().st_mode):
                path.chmod(stat.S_IMODE(path.lstat().st_mode) | GROUP_FILE)
        for name in names:
            path = Path(beneath, name)
            if not path.is_symlink():
                path.chmod(OF_GROUP | stat.S_IRWXU)
                os.chown(path, -1, status.st_gid)
    state.chmod(OF_GROUP | stat.S_IRWXU)  # last: a killed run begins anew
