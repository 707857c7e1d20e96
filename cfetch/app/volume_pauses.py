"""Keeps new batches from a volume, and lets it take them again, by a mark on the volume itself.

The mark is not in the state: so it holds for every run, whatever its state is, and goes where the disk goes.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cfetch.base.config.kinds import is_object_store
from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.show.volume_view import PausedVolume, VolumePauses
from cfetch.storage.files import PAUSED, STATE_NAME, make_private, on_disk, replace_file
from cfetch.storage.state_format import refuse_newer_state


def set_paused(roots: Sequence[str], *, paused: bool) -> VolumePauses:
    """Pause the volumes, or let them take batches again. Raises UsageError, LocalFault."""
    for root in roots:
        if is_object_store(root):
            raise UsageError(f"{printable(root)} is an object store, and only directories can be paused")
        if not Path(root).is_dir():
            raise UsageError(f"there is no directory {printable(root)}; is it mounted?")
    return VolumePauses(volumes=[_set_one(Path(root).absolute(), paused=paused) for root in roots])


def _set_one(root: Path, *, paused: bool) -> PausedVolume:
    mark = root / STATE_NAME / PAUSED
    refuse_newer_state(mark.parent)
    with on_disk(root):
        was_paused = mark.exists()
        if paused and not was_paused:
            make_private(mark.parent)
            since = datetime.now(UTC).isoformat(timespec="seconds")
            replace_file(mark, json.dumps({"schema": "cfetch.pause/1", "since": since}).encode())
        elif not paused:
            mark.unlink(missing_ok=True)
    return PausedVolume(volume=str(root), paused=paused, changed=was_paused != paused)
