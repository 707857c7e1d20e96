"""The baseline of hosts from earlier runs: ``baseline.json`` in the state, only host names and numbers.

The file only improves a run's first seconds, so a fault of the file is no fault of the run.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable
from cfetch.storage.files import remove_temporaries, replace_file
from cfetch.straggler.knowledge import NOTHING, Knowledge, is_sound, merge_knowledge

NAME = "baseline.json"
MOST_BYTES = 1 << 20  # ten times as much as cfetch writes


def read_baseline(state: Path) -> tuple[Knowledge, str | None]:
    """Read the knowledge that earlier runs have left; also return a note if the file cannot be used.

    Only a regular file of this user is read, because it influences which attempts are slow.
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
    """Merge ``learned`` into the file: a kill leaves the old file or the new one. Raises nothing.

    If two runs end at the same time, the file of one of them stays, without the other's new knowledge.
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
