"""The directories in which attempts write, and how a dead attempt is rolled back: the second fence.

An epoch writes only into ``attempts/<instant>/<epoch>/``, on each volume, and publishes by renaming out of
it. Where it is many processes, each has a directory ``t<number>`` of its own in there. Rolling an epoch back
empties that directory and removes it. After that its owner, should it wake up, can neither publish (the part
has gone) nor begin a part (the directory has gone): the kernel says no, per file, and no lock has to be taken
for each. No rollback ever looks at a final path.

What is worth keeping goes to ``attempts/<instant>/<new epoch>-<old epoch>/`` under its old name. A part of an
owner who is proved gone is moved. One of an owner who may only be stopped is copied: it might still hold the
file open, and write into what its successor goes on with. So are those of its tasks in any case, which are
other processes: that of a dead task is moved only by the owner who has reaped it.
"""

import errno
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from cfetch.errors import LocalFault
from cfetch.timeline.files import Files

ATTEMPTS = "attempts"
ELSEWHERE = "elsewhere"  # beside the epochs of an instant whose timeline lies in another directory
MAX_SWEEPS = 1000  # of one directory; a stopped owner that wakes up can add a part between two of them
_TASK = re.compile("t[0-9]{1,18}")
_DIRECTORY = re.compile(r"([1-9][0-9]{0,17})(?:-([1-9][0-9]{0,17}))?")


class DeadAttempt(NamedTuple):
    """A directory of a dead attempt.

    ``volume`` is its number, ``path`` is below that volume's state directory; ``read`` is for small files.
    """

    volume: int
    path: str
    names: list[str]
    read: Callable[[str], bytes]


Salvage = Callable[[DeadAttempt], Collection[str]]
"""Which of the names to keep for the next epoch."""


class Attempts:
    """The attempt directories on all volumes; each of ``volumes`` is a state directory. Raises OSError."""

    def __init__(self, volumes: Sequence[Files]) -> None:
        self._volumes = volumes

    def make(self, instant: str, epoch: int) -> None:
        """The directory to which ``epoch`` writes, on every volume."""
        for files in self._volumes:
            _make(files, f"{ATTEMPTS}/{instant}/{epoch}")

    def exist(self, instant: str, below: int) -> bool:
        """Whether epochs lower than ``below`` have left anything."""
        return any(_dead_directories(files, instant, below) for files in self._volumes)

    def are_elsewheres(self, instant: str) -> bool:
        """Whether they belong to a timeline in another state directory, which has marked them so."""
        return any(ELSEWHERE in files.names(f"{ATTEMPTS}/{instant}") for files in self._volumes)

    def instants(self) -> set[str]:
        """All instants that have directories."""
        return {name for files in self._volumes for name in files.names(ATTEMPTS)}

    def roll_back(
        self,
        instant: str,
        below: int,
        *,
        salvage: Salvage | None = None,
        gone_epoch: int | None = None,
    ) -> None:
        """Remove what epochs lower than ``below`` have left, but for what ``salvage`` wants to keep.

        ``gone_epoch``: its owner can write no more. May be done twice, and by two at a time.
        """
        for volume, files in enumerate(self._volumes):
            for name in _dead_directories(files, instant, below):
                path = f"{ATTEMPTS}/{instant}/{name}"
                owner, _, origin = name.partition("-")
                kept_in = f"{ATTEMPTS}/{instant}/{below}-{origin or owner}"
                for directory in (*_tasks(files, path), path):
                    keep: Collection[str] = ()
                    if salvage is not None:
                        keep = _choose_useful(salvage, files, volume, directory)
                    is_owners = directory == path  # a task is a process of its own, and may still be at work
                    _empty(files, directory, keep, kept_in, move=is_owners and int(owner) == gone_epoch)
            self._remove_if_empty(files, f"{ATTEMPTS}/{instant}")

    def end(self, instant: str, below: int) -> None:
        """Remove what epochs lower than ``below`` have left, and the mark of a run: the instant is over."""
        self.roll_back(instant, below)
        self.unmark(instant)

    def unmark(self, instant: str) -> None:
        """Take away what a killed run has marked as its own; for the owner of a timeline where it is over."""
        for files in self._volumes:
            with suppress(FileNotFoundError):
                files.unlink(f"{ATTEMPTS}/{instant}/{ELSEWHERE}")
            self._remove_if_empty(files, f"{ATTEMPTS}/{instant}")

    def keep_task(self, instant: str, epoch: int, task: int, salvage: Salvage) -> None:
        """Keep what a task has left that is dead for certain, for another one of the same, live epoch."""
        path = f"{ATTEMPTS}/{instant}/{epoch}"
        for volume, files in enumerate(self._volumes):
            if f"t{task}" in files.names(path):
                keep = _choose_useful(salvage, files, volume, f"{path}/t{task}")
                _empty(files, f"{path}/t{task}", keep, f"{path}-{epoch}", move=True)

    def remove(self, instant: str, epoch: int) -> None:
        """Take away an epoch's own directories where they are empty: it has ended in good order."""
        for files in self._volumes:
            for name in _dead_directories(files, instant, epoch + 1):
                for task in _tasks(files, f"{ATTEMPTS}/{instant}/{name}"):
                    self._remove_if_empty(files, task)
                self._remove_if_empty(files, f"{ATTEMPTS}/{instant}/{name}")
            self._remove_if_empty(files, f"{ATTEMPTS}/{instant}")

    @staticmethod
    def _remove_if_empty(files: Files, path: str) -> None:
        with suppress(OSError):
            files.remove_directory(path)


def _dead_directories(files: Files, instant: str, below: int) -> list[str]:
    """Directories of lower epochs: first those in which they wrote, so that a torn copy never wins."""
    ranked = [
        (match[2] is not None, int(match[1]), match[0])
        for match in map(_DIRECTORY.fullmatch, files.names(f"{ATTEMPTS}/{instant}"))
        if match is not None and int(match[1]) < below
    ]
    return [name for _, _, name in sorted(ranked)]


def _tasks(files: Files, path: str) -> list[str]:
    """The directories of tasks in an epoch's."""
    return [f"{path}/{name}" for name in files.names(path) if _TASK.fullmatch(name)]


def _choose_useful(salvage: Salvage, files: Files, volume: int, path: str) -> Collection[str]:
    names = files.names(path)
    return (
        salvage(DeadAttempt(volume, path, names, lambda name: files.read(f"{path}/{name}"))) if names else ()
    )


def _make(files: Files, path: str) -> None:
    with suppress(FileNotFoundError):
        files.make_directory(path)
        return
    files.make_directory(path)  # again: somebody has just tidied up the empty directory above it


def _empty(files: Files, path: str, keep: Collection[str], kept_in: str, *, move: bool) -> None:
    """Empty ``path`` and remove it; its owner may be at work in it, and is met with FileNotFoundError."""
    if keep:
        _make(files, kept_in)
    for _ in range(MAX_SWEEPS):
        for task in _tasks(files, path):  # its owner has begun another one meanwhile
            _empty(files, task, (), kept_in, move=move)
        kept = set(files.names(kept_in))  # from where it was written; one that was copied before may be torn
        for name in sorted(files.names(path)):
            with suppress(FileNotFoundError, FileExistsError):
                if name not in keep or name in kept:
                    pass
                elif move:
                    files.rename(f"{path}/{name}", f"{kept_in}/{name}")
                    continue
                else:
                    files.copy(f"{path}/{name}", f"{kept_in}/{name}")
            with suppress(FileNotFoundError):
                files.unlink(f"{path}/{name}")
        try:
            files.remove_directory(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
        else:
            return
    raise LocalFault(
        f"{path} of a dead run fills as fast as it is emptied; see who writes there, and stop it"
    )
