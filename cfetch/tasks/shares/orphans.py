"""Removes the parts of tasks that died, as a killed Python worker does not remove them itself."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

STILL_S = 600.0  # a live attempt writes or ends sooner: its longest waits are shorter
LOOK_S = 60.0  # between two looks


class Orphans:
    """The directories ``t<number>`` of one run. A task that is alive after all ends with a LocalFault.

    ``now_s`` is the driver's monotonic clock: the clocks of other machines and of file servers are not
    compared.
    """

    def __init__(self, directory: Path, now_s: Callable[[], float]) -> None:
        self.directory = directory
        self._now_s = now_s
        self._looked_s = now_s()
        self._seen: dict[str, tuple[object, float]] = {}

    def remove_if_due(self) -> None:
        """Once a minute, remove the directories in which nothing has changed for ten minutes."""
        now_s = self._now_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        seen = {}
        for task in self._list_tasks():
            sight = _observe(task)
            before = self._seen.get(task.name)
            since_s = before[1] if before is not None and before[0] == sight else now_s
            if now_s - since_s >= STILL_S:
                shutil.rmtree(task, ignore_errors=True)  # a later look takes what was added meanwhile
            else:
                seen[task.name] = (sight, since_s)
        self._seen = seen

    def clear(self) -> None:
        """Remove all directories, as the run is complete and needs no part any more."""
        with suppress(OSError):  # a volume that has died keeps its own
            kept = self.directory.parent.glob("*-*")  # from earlier runs, for entries now in place
            for directory in (*self._list_tasks(), *kept):
                shutil.rmtree(directory, ignore_errors=True)

    def _list_tasks(self) -> list[Path]:
        with suppress(OSError):
            return [
                path for path in self.directory.iterdir() if path.name[:1] == "t" and path.name[1:].isdigit()
            ]
        return []


def _observe(task: Path) -> object:
    with suppress(OSError), os.scandir(task) as entries:
        return sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in entries)
    return None
