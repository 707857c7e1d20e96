"""The directories of a run: its destinations, cfetch's own directory, and the timeline in it."""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple, TypeVar

from cfetch.base.config.kinds import is_object_store
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, LocalFault
from cfetch.base.secret import printable
from cfetch.storage.files import STATE_NAME, local_fault, make_private
from cfetch.storage.group_rights import refuse_foreign_state
from cfetch.storage.hanging_calls import call_within
from cfetch.storage.state_format import refuse_newer_state
from cfetch.timeline.files import name_disk
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import sign
from cfetch.timeline.store import TIMELINE

T = TypeVar("T")
REMOVE_S = 30.0  # for a directory of five files; the run is over, so its user waits


class Destinations(NamedTuple):
    """The destinations in the order given, as absolute paths or URLs of object stores; and the state.

    ``bucket``: the store that has the timeline; ``state`` is this machine's own directory then.
    """

    roots: tuple[str | Path, ...]
    state: Path
    bucket: str | None = None

    @property
    def directories(self) -> tuple[Path, ...]:
        """The destinations that are directories."""
        return tuple(root for root in self.roots if isinstance(root, Path))


def find_destinations(settings: Settings) -> Destinations:
    """Return where the files go by ``settings``, and where cfetch keeps its own.

    Raises:
        ConfigError: two destinations are the same or one lies in the other, or none can hold the state.
        NewerRecord: a later version of cfetch keeps its state there.
    """
    where = _choose_destinations(settings)
    limit_s = settings.write_timeout if len(where.roots) > 1 else None
    _ask(name_disk(where.state), partial(refuse_newer_state, where.state), limit_s)
    return where


def _choose_destinations(settings: Settings) -> Destinations:
    destinations = find_roots(settings.to, limit_s=settings.write_timeout)
    directories = [root for root in destinations if isinstance(root, Path)]
    if settings.state and is_object_store(settings.state):
        if directories:
            raise ConfigError(
                f"state is {settings.state}, and {directories[0]} is a directory: only plans for object "
                "stores (--to s3://bucket/prefix) are kept in one"
            )
        return _at_store(destinations, settings)
    if settings.state:
        return Destinations(destinations, _make_absolute(settings.state))
    if not directories:
        raise ConfigError(
            f"--to is {', '.join(settings.to)}, and cfetch keeps its own files elsewhere, with the links of "
            "pending plans: name a directory with --state, or an object store that nobody else reads"
        )
    states = [directory / STATE_NAME for directory in directories]
    # the order of the destinations does not matter
    limit_s = settings.write_timeout if len(directories) > 1 else None
    for state in states:
        if _ask(state.parent, partial(os.path.isdir, state / TIMELINE), limit_s):
            return Destinations(destinations, state)
    return Destinations(destinations, states[0])


def _at_store(destinations: tuple[str | Path, ...], settings: Settings) -> Destinations:
    """Destinations with the timeline in the store that is the state."""
    if settings.engine != "local":
        raise ConfigError(
            f"state is {settings.state}, and the engine {settings.engine} keeps cfetch's own files in a "
            "directory that all machines see: name one with --state"
        )
    from cfetch.base.home import find_home  # few runs have their timeline in a store

    user = find_home(os.environ) or Path()
    home = Path(os.environ.get("XDG_STATE_HOME") or user / ".local/state")
    if not home.is_absolute():
        raise ConfigError(
            f"state is {settings.state}, and this user has no home directory for what is this machine's own: "
            "name a directory with --state"
        )
    assert settings.state is not None
    url = settings.state.rstrip("/")
    own = sha256("\n".join([url, os.environ.get("AWS_ENDPOINT_URL", "")]).encode()).hexdigest()[:32]
    return Destinations(destinations, home / "cfetch" / "stores" / own, url)


def require_directory(settings: Settings, verb: str) -> Destinations:
    """Return the destinations of ``verb``, which keeps its own files in a directory. Raises ConfigError."""
    if settings.state and is_object_store(settings.state):
        raise ConfigError(
            f"state is {settings.state}, and cfetch {verb} keeps its own files in a directory: name one "
            "with --state"
        )
    return find_destinations(settings)


def open_to_group(where: Destinations, settings: Settings) -> None:
    """Share the directories with their group (``--group``); without that, refuse a state that others share.

    If one of several destinations cannot be shared, opening it reports the fault later.

    Raises ConfigError, LocalFault.
    """
    limit_s = settings.write_timeout if len(where.roots) > 1 else None
    if not settings.group:
        _ask(where.state, partial(refuse_foreign_state, where.state, asks_for_group=False), limit_s)
        return
    from cfetch.storage.group_sharing import give_destination_to_group, give_state_to_group

    for root in where.directories:
        state = root / STATE_NAME
        try:
            _ask(root, partial(give_destination_to_group, root), limit_s)
            _ask(root, partial(give_state_to_group, state), limit_s)
        except LocalFault:
            if state == where.state or len(where.roots) == 1:
                raise
        except OSError as error:
            if state == where.state or len(where.roots) == 1:
                raise local_fault(error, f"cannot share {root} with its group") from None
    if where.state.parent not in where.directories:
        try:
            _ask(where.state, partial(give_state_to_group, where.state), limit_s)
        except OSError as error:
            raise local_fault(error, f"cannot share {where.state} with its group") from None


def find_roots(to: Sequence[str], *, limit_s: float | None = None) -> tuple[str | Path, ...]:
    """The destinations: directories as absolute paths, object stores as URLs without a slash at the end.

    ``limit_s``: how long one of several may take to answer; after that, its symlinks are not resolved.

    Raises:
        ConfigError: two are the same or one lies in the other, symlinks resolved; or the working directory
            cannot be used.
    """
    destinations = tuple(name.rstrip("/") if is_object_store(name) else _make_absolute(name) for name in to)
    limit_s = limit_s if len(destinations) > 1 else None
    real = [
        (_ask(root, partial(_real, root), limit_s) if isinstance(root, Path) else None) or PurePosixPath(root)
        for root in destinations
    ]
    for (first, here), (second, there) in combinations(zip(to, real, strict=True), 2):
        if here == there or _ask(f"{first} or {second}", partial(_is_same, here, there), limit_s):
            raise ConfigError(
                f"to names {first} and {second}, which are the same; give each destination once"
            )
        for inner, outer, within in ((first, second, (here, there)), (second, first, (there, here))):
            if within[0].is_relative_to(within[1]):
                raise ConfigError(f"to names {inner}, which lies in {outer}; give each a place of its own")
    return destinations


def _make_absolute(name: str) -> Path:
    """Complete a relative name by the working directory, whose own name no option has checked."""
    try:
        path = Path(name).absolute()
        str(path).encode()
    except FileNotFoundError:
        raise ConfigError(f"{name} is relative, and the working directory has been removed") from None
    except UnicodeEncodeError:
        reason = "the working directory's name must be UTF-8; rename it, or work in another"
        raise ConfigError(f"{printable(str(path), 1000)}: {reason}") from None
    return path


def _ask(place: str | Path, step: Callable[[], T], limit_s: float | None) -> T | None:
    """Return the answer of a call on a place; None if it hangs."""
    if limit_s is None:
        return step()
    with suppress(TimeoutError):
        return call_within(limit_s, str(place), step)
    return None


def _real(root: Path) -> PurePath:
    return Path(os.path.realpath(root))


def _is_same(here: PurePath, there: PurePath) -> bool:
    try:
        return isinstance(here, Path) and isinstance(there, Path) and here.samefile(there)
    except OSError:  # one of them is not there yet
        return False


def make_heartbeats(settings: Settings) -> Heartbeats:
    """Make the rules by which a run shows that it is alive."""
    return Heartbeats(interval_s=settings.heartbeat_interval, misses=settings.heartbeat_misses)


def find_timeline(settings: Settings) -> tuple[Path, list[Path], Heartbeats, str | None]:
    """Return the arguments for ``open_table`` and ``open_existing``. Raises ConfigError."""
    destinations = find_destinations(settings)
    _ask(destinations.state, partial(refuse_foreign_state, destinations.state), settings.write_timeout)
    on_volumes = [root / STATE_NAME for root in destinations.directories]
    volumes = on_volumes or [destinations.state]
    return destinations.state, volumes, make_heartbeats(settings), destinations.bucket


def is_shared(settings: Settings) -> bool:
    """Whether plans of other destinations may stand on the same timeline. Raises ConfigError."""
    destinations = find_destinations(settings)
    return destinations.state not in (root / STATE_NAME for root in destinations.directories)


def make_own_directory(stack: ExitStack, state: Path, instant: str) -> Path:
    """Make this run's own directory for the frozen manifest, until ``stack`` ends. Raises LocalFault."""
    directory = state / "plans" / f".{instant}"
    try:
        make_private(directory, state=state)
    except FileNotFoundError:  # it is missing even just after it was made, as below /proc
        raise LocalFault(
            f"cannot keep cfetch's own files in {state}: no directory can be made there; name another one "
            "with --state"
        ) from None
    except OSError as error:
        raise local_fault(error, f"cannot write to {state}") from None
    stack.callback(_remove, directory, state)
    sign(directory)
    return directory


def _remove(directory: Path, state: Path) -> None:
    """Remove a directory of this run, and the directories above it that are empty then; unless it hangs."""

    def remove() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        for above in (directory.parent, state):
            with suppress(OSError):
                above.rmdir()

    with suppress(TimeoutError):
        call_within(REMOVE_S, name_disk(state), remove)
