"""What earlier runs have learned about hosts: ``baseline.json`` in the state, host names and numbers only.

It makes a run's first seconds better and nothing else, so no fault of it is a fault of the run.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.errors import LocalFault
from cfetch.secret import printable
from cfetch.storage.files import remove_temporaries, replace_file
from cfetch.straggler.knowledge import NOTHING, Knowledge, is_sound, merge_knowledge

NAME = "baseline.json"
MOST_BYTES = 1 << 20  # ten times what we write


def read_baseline(state: Path) -> tuple[Knowledge, str | None]:
    """What earlier runs have left, and why it is nothing where that is for a person to know.

    Only a regular file of this user counts: what is slow is decided by it.
    """
    path = state / NAME
    try:
        return _read(path), None
    except FileNotFoundError:
        return NOTHING, None
    except (OSError, ValueError, RecursionError, OverflowError) as error:  # nested thousands deep; 1e400
        why = (error.strerror if isinstance(error, OSError) else None) or _NOT_OURS
        return NOTHING, f"{printable(str(path), 1000)} is not used: {why}. This run learns anew"


def keep_baseline(state: Path, learned: Knowledge, wall_s: float) -> None:
    """Add ``learned`` to what stands there: a kill leaves the old file or the new one. Raises nothing.

    Of two runs that end at once one file stays, without what the other has just added.
    """
    remove_temporaries(state / NAME)
    if not learned.hosts:
        return
    before, _ = read_baseline(state)
    with suppress(LocalFault):
        replace_file(state / NAME, msgspec.json.encode(merge_knowledge(before, learned, wall_s)))


_NOT_OURS = "it is no baseline of this version of cfetch"


def _read(path: Path) -> Knowledge:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError("not a file of this user")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError("too large")
    knowledge = msgspec.json.decode(data, type=Knowledge)  # its errors are ValueErrors
    if knowledge.schema != NOTHING.schema:
        raise ValueError("of another version")
    return Knowledge(hosts={name: host for name, host in knowledge.hosts.items() if is_sound(host)})
