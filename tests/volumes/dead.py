"""``python -m tests.volumes.dead DIR``: a mount whose server has gone, as of sshfs or a network file system.

Every call on DIR fails with ENOTCONN afterwards. Call it in a mount name space of your own.
"""

import ctypes
import os
import sys

_libc = ctypes.CDLL(None, use_errno=True)


def mount_dead(root: str) -> None:
    """Mount a FUSE file system whose server ends before it has answered anything."""
    descriptor = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0"
    if _libc.mount(b"dead", os.fsencode(root), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount", root)
    os.close(descriptor)


if __name__ == "__main__":
    mount_dead(sys.argv[1])
