"""A nameless file for a list that comes as a stream: on disk, or in memory where no directory takes one."""

import os
import tempfile
from typing import BinaryIO, cast


def open_spool() -> BinaryIO:
    """Open an empty file for reading and writing, which is gone as soon as it is closed.

    In a container with a read-only root there may be no directory for temporary files at all. Then it is in
    memory: the list has to fit there.
    """
    try:
        return cast("BinaryIO", tempfile.TemporaryFile())
    except OSError:
        return os.fdopen(os.memfd_create("cfetch-list", os.MFD_CLOEXEC), "w+b")
