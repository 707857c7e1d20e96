"""Only one process at a time may delete below a directory the files that one source no longer has.

That holds whatever other directories and whichever state the processes have: an older list must not delete
files that a newer list has brought. ``locks.py`` says how long the system keeps such a lock.
"""

import hashlib
import os
from pathlib import Path

from cfetch.storage.files import STATE_NAME, make_private, volume_fault
from cfetch.storage.group_rights import create_file
from cfetch.storage.locks import take_lock
from cfetch.storage.occupancy import WAIT

GUARDS = "guards"  # below a directory's state: an empty file for each source, which is locked


def claim(root: Path, source: str) -> int:
    """Make this the only process that deletes below ``root`` the files that ``source`` no longer has.

    This lasts until the returned descriptor is closed. Raises Held, LocalFault.
    """
    guards = root / STATE_NAME / GUARDS
    try:
        make_private(guards)
        name = hashlib.sha256(source.encode()).hexdigest()[:32]
        descriptor = create_file(guards / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            take_lock(
                descriptor, f"another process brings {root} in step with the same source ({{holder}}); {WAIT}"
            )
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise volume_fault(error, f"cannot lock {root}") from None
    return descriptor


def end_claims(claims: dict[Path, int]) -> None:
    """Let others delete below the directories: close the descriptors of ``claim``."""
    while claims:
        os.close(claims.popitem()[1])
