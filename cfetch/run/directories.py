"""The directories of a run: its destinations, cfetch's own directory, and the timeline in it."""

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import combinations
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from cfetch.config.kinds import is_object_store
from cfetch.config.settings import Settings
from cfetch.errors import ConfigError
from cfetch.storage.files import STATE_NAME, local_fault, make_private
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import sign
from cfetch.timeline.store import TIMELINE


class Places(NamedTuple):
    """The destinations in the order given, as absolute paths or URLs of object stores; and the state."""

    roots: tuple[str | Path, ...]
    state: Path

    @property
    def directories(self) -> tuple[Path, ...]:
        """The destinations that are directories."""
        return tuple(root for root in self.roots if isinstance(root, Path))


def places(settings: Settings) -> Places:
    """Return where the files go by ``settings``, and where cfetch keeps its own.

    Raises:
        ConfigError: two destinations are the same or one lies in the other, or none can hold the state.
    """
    destinations = roots(settings.to)
    if settings.state:
        return Places(destinations, Path(settings.state).absolute())
    directories = [root for root in destinations if isinstance(root, Path)]
    if not directories:
        raise ConfigError(
            f"to is {', '.join(settings.to)}, and cfetch keeps its own files in a directory: name one with "
            "--state"
        )
    states = [directory / STATE_NAME for directory in directories]
    # The order of the destinations does not matter. Path.is_dir would raise where the mount is dead.
    there = (state for state in states if os.path.isdir(state / TIMELINE))  # noqa: PTH112
    return Places(destinations, next(there, states[0]))


def roots(to: Sequence[str]) -> tuple[str | Path, ...]:
    """The destinations: directories as absolute paths, object stores as URLs without a slash at the end.

    Raises:
        ConfigError: two are the same or one lies in the other, symlinks resolved.
    """
    destinations = tuple(name.rstrip("/") if is_object_store(name) else Path(name).absolute() for name in to)
    real = [_real(root) for root in destinations]
    for (first, here), (second, there) in combinations(zip(to, real, strict=True), 2):
        if here == there or _is_same(here, there):
            raise ConfigError(
                f"to names {first} and {second}, which are the same; give each destination once"
            )
        for inner, outer, within in ((first, second, (here, there)), (second, first, (there, here))):
            if within[0].is_relative_to(within[1]):
                raise ConfigError(f"to names {inner}, which lies in {outer}; give each a place of its own")
    return destinations


def _real(root: str | Path) -> PurePath:
    return Path(os.path.realpath(root)) if isinstance(root, Path) else PurePosixPath(root)


def _is_same(here: PurePath, there: PurePath) -> bool:
    try:
        return isinstance(here, Path) and isinstance(there, Path) and here.samefile(there)
    except OSError:  # one of them is not there yet
        return False


def timeline(settings: Settings) -> tuple[Path, list[Path], Heartbeats]:
    """Return the arguments for ``open_table`` and ``open_existing``. Raises ConfigError."""
    destinations = places(settings)
    heartbeats = Heartbeats(interval_s=settings.heartbeat_interval, misses=settings.heartbeat_misses)
    return destinations.state, [root / STATE_NAME for root in destinations.directories], heartbeats


def is_shared(settings: Settings) -> bool:
    """Whether plans of other destinations may stand on the same timeline. Raises ConfigError."""
    destinations = places(settings)
    return destinations.state not in (root / STATE_NAME for root in destinations.directories)


def own_directory(stack: ExitStack, state: Path, instant: str) -> Path:
    """Make this run's own directory for the frozen manifest, until ``stack`` ends. Raises LocalFault."""
    directory = state / "plans" / f".{instant}"
    try:
        make_private(directory, state=state)
    except OSError as error:
        raise local_fault(error, f"cannot write to {state}") from None
    stack.callback(_remove, directory, state)
    sign(directory)
    return directory


def _remove(directory: Path, state: Path) -> None:
    """Remove a directory of this run, and the directories above it that are empty then."""
    shutil.rmtree(directory, ignore_errors=True)
    for above in (directory.parent, state):
        with suppress(OSError):
            above.rmdir()
