"""The directories in which attempts write, and how a dead attempt is rolled back: the second fence.

An epoch writes only into ``attempts/<instant>/<epoch>/``, on each volume, and publishes by a rename out of
it. If an epoch has many processes, each has its own directory ``t<number>`` in there. A rollback of an epoch
empties that directory and removes it. If its owner wakes up later, it can neither publish (the part has gone)
nor begin a part (the directory has gone): the kernel refuses it, file by file, without a lock for each. No
rollback ever looks at a final path.

Useful parts go to ``attempts/<instant>/<new epoch>-<old epoch>/`` under their old names. A part of an owner
that is proved gone is moved. A part of an owner that may only be stopped is copied: that owner might still
hold the file open, and write into the file that its successor continues. Parts of tasks are copied, as tasks
are other processes, unless the owner has reaped the dead task, or a node of a living run has ended with it.
"""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from cfetch.timeline.files import TimelineFiles

ATTEMPTS = "attempts"
ELSEWHERE = "elsewhere"  # marks the attempts of an instant whose timeline is in another directory
_TASK = re.compile("t[0-9]{1,18}")
_DIRECTORY = re.compile(r"([1-9][0-9]{0,17})(?:-([1-9][0-9]{0,17}))?")


class DeadAttempt(NamedTuple):
    """A directory of a dead attempt.

    ``volume`` is the volume's number, ``path`` is below its state directory; ``read`` is for small files.
    """

    volume: int
    path: str
    names: list[str]
    read: Callable[[str], bytes]


Salvage = Callable[[DeadAttempt], Collection[str]]
"""Which of the names to keep for the next epoch."""


class Attempts:
    """The attempt directories on all volumes; each of ``volumes`` is a state directory. Raises OSError.

    What is removed is removed on each volume that lets it be: one that refuses keeps its own, until a later
    run finds it there, and does not keep the others from being emptied.
    """

    def __init__(self, volumes: Sequence[TimelineFiles]) -> None:
        self._volumes = volumes

    def make(self, instant: str, epoch: int) -> None:
        """Make the directory to which ``epoch`` writes, on every volume that can take one.

        Nothing can be written to a volume without it: a full one. Raises OSError if no volume can.
        """
        self._on_each(lambda _, files: _make(files, f"{ATTEMPTS}/{instant}/{epoch}"), needs_all=False)

    def exist(self, instant: str, below: int) -> bool:
        """Whether epochs lower than ``below`` have left anything."""
        return any(_dead_directories(files, instant, below) for files in self._volumes)

    def marked_s(self, instant: str) -> float | None:
        """When another state directory, whose timeline has the instant, has last marked the attempts.

        Seconds since 1970, by the file system's clock. None: they belong to no other timeline.
        """
        times: list[float] = []
        for files in self._volumes:
            with suppress(FileNotFoundError):
                times.append(files.modified_s(f"{ATTEMPTS}/{instant}/{ELSEWHERE}"))
        return max(times, default=None)

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
        needs_all: bool = True,
    ) -> None:
        """Remove all that epochs lower than ``below`` have left, except the parts that ``salvage`` keeps.

        ``gone_epoch``: the epoch whose owner can write no more. It may run twice, and twice at a time.
        Without ``needs_all`` one of several volumes may refuse: a dead owner cannot write there either.
        """

        def empty_volume(volume: int, files: TimelineFiles) -> None:
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

        self._on_each(empty_volume, needs_all=needs_all)

    def end(self, instant: str, below: int) -> None:
        """Remove all that epochs lower than ``below`` have left, and the mark, as the instant is over."""
        try:
            self.roll_back(instant, below)
        finally:
            self.unmark(instant)

    def unmark(self, instant: str) -> None:
        """Remove the mark of a killed run; for the owner of a timeline in which the instant is over."""

        def unmark_volume(_: int, files: TimelineFiles) -> None:
            with suppress(FileNotFoundError):
                files.unlink(f"{ATTEMPTS}/{instant}/{ELSEWHERE}")
            self._remove_if_empty(files, f"{ATTEMPTS}/{instant}")

        self._on_each(unmark_volume)

    def _on_each(self, step: Callable[[int, TimelineFiles], None], *, needs_all: bool = True) -> None:
        """Take a step on every volume, also after one that refuses; raise the first refusal afterwards.

        Without ``needs_all`` only if all refuse.
        """
        refusals: list[OSError] = []
        for volume, files in enumerate(self._volumes):
            try:
                step(volume, files)
            except OSError as error:
                refusals.append(error)
        if refusals and (needs_all or len(refusals) == len(self._volumes)):
            raise refusals[0]

    def keep_task(self, instant: str, epoch: int, task: int, salvage: Salvage, *, move: bool = True) -> None:
        """Keep the parts of a dead task for another task of the same, live epoch.

        ``move``: it is certainly dead, and not only silent.
        """
        path = f"{ATTEMPTS}/{instant}/{epoch}"
        for volume, files in enumerate(self._volumes):
            if f"t{task}" in files.names(path):
                keep = _choose_useful(salvage, files, volume, f"{path}/t{task}")
                _empty(files, f"{path}/t{task}", keep, f"{path}-{epoch}", move=move)

    def remove(self, instant: str, epoch: int) -> None:
        """Remove an epoch's own directories if they are empty, as it has ended in good order."""
        for files in self._volumes:
            for name in _dead_directories(files, instant, epoch + 1):
                for task in _tasks(files, f"{ATTEMPTS}/{instant}/{name}"):
                    self._remove_if_empty(files, task)
                self._remove_if_empty(files, f"{ATTEMPTS}/{instant}/{name}")
            self._remove_if_empty(files, f"{ATTEMPTS}/{instant}")

    @staticmethod
    def _remove_if_empty(files: TimelineFiles, path: str) -> None:
        with suppress(OSError):
            files.remove_directory(path)


def _dead_directories(files: TimelineFiles, instant: str, below: int) -> list[str]:
    """Directories of lower epochs: first those in which they wrote, so that a torn copy never wins."""
    ranked = [
        (match[2] is not None, int(match[1]), match[0])
        for match in map(_DIRECTORY.fullmatch, files.names(f"{ATTEMPTS}/{instant}"))
        if match is not None and int(match[1]) < below
    ]
    return [name for _, _, name in sorted(ranked)]


def _tasks(files: TimelineFiles, path: str) -> list[str]:
    """The directories of tasks in the directory of an epoch."""
    return [f"{path}/{name}" for name in files.names(path) if _TASK.fullmatch(name)]


def _choose_useful(salvage: Salvage, files: TimelineFiles, volume: int, path: str) -> Collection[str]:
    names = files.names(path)
    return (
        salvage(DeadAttempt(volume, path, names, lambda name: files.read(f"{path}/{name}"))) if names else ()
    )


def _make(files: TimelineFiles, path: str) -> None:
    with suppress(FileNotFoundError):
        files.make_directory(path)
        return
    files.make_directory(path)  # again, as another process has just removed the empty directory above it


def _empty(files: TimelineFiles, path: str, keep: Collection[str], kept_in: str, *, move: bool) -> None:
    """Empty ``path`` and remove it; an owner that still works in it then gets FileNotFoundError."""
    from cfetch.timeline.emptying import empty  # most runs end in good order

    if keep:
        _make(files, kept_in)
    empty(files, path, keep, kept_in, _tasks, move=move)
