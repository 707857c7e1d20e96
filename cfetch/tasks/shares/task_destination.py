"""The destination to which a task brings its files: a directory, or an object store.

Both have a *fence*: the directory of the run's epoch, which a run that takes the plan over removes. In a
directory each task has its own directory for parts in there, so the kernel refuses its late parts. At an
object store a task looks whether the fence stands before it makes an object visible. It never deletes an
object: a copy of the task may have reported the same one.
"""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec

from cfetch.base.config.kinds import is_object_store
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.files import STATE_NAME, local_fault
from cfetch.storage.group_rights import make_directory
from cfetch.storage.hanging_calls import call_within
from cfetch.storage.volume import Volume
from cfetch.timeline.attempts import ATTEMPTS


class TaskDestination(msgspec.Struct, frozen=True):
    """``root``: the path of a directory, or a store's URL. ``fence``: the path of the epoch's directory."""

    root: str
    fence: str

    @property
    def is_store(self) -> bool:
        """Whether the files become objects."""
        return is_object_store(self.root)

    @property
    def fence_option(self) -> str:
        """The option that names the directory in which the fence is."""
        return "--state" if self.is_store else "--to"


def directory_destination(root: Path, instant: str, epoch: int) -> TaskDestination:
    """A destination in a directory, which holds its fence."""
    return TaskDestination(str(root), str(root / STATE_NAME / ATTEMPTS / instant / str(epoch)))


def store_destination(url: str, state: Path, instant: str, epoch: int) -> TaskDestination:
    """A destination in an object store, whose fence is in the run's state directory."""
    return TaskDestination(url, str(state / ATTEMPTS / instant / str(epoch)))


@asynccontextmanager
async def open_destination(
    destination: TaskDestination,
    settings: Settings,
    task: str,
    *,
    login: Mapping[str, str],
    monotonic: Callable[[], float],
    is_useless: Callable[[], bool],
    is_guarded: bool = False,
    grants: str = "",
) -> AsyncIterator[Volume]:
    """Open it for one ``task``, whose name no other copy has, and close it after the last file.

    ``login``: the driver's variables for a store. ``is_useless``: no part of this task is needed any more.
    ``is_guarded``: there are others too, so nobody waits for a directory that does not answer. ``grants`` as
    in ``RunSpec``, for such a destination.

    Raises:
        LocalFault: it cannot be used, or the plan is not this run's.
    """
    if destination.is_store:
        async with _open_store(destination, settings, task, login, monotonic) as volume:
            yield volume
    elif is_guarded:
        async with _open_guarded(destination, settings, task, monotonic, grants) as volume:
            yield volume
    else:
        with _open_directory(destination, settings, task, is_useless) as volume:
            yield volume


@asynccontextmanager
async def _open_store(
    destination: TaskDestination,
    settings: Settings,
    task: str,
    login: Mapping[str, str],
    monotonic: Callable[[], float],
) -> AsyncIterator[Volume]:
    from cfetch.storage.buckets.object_store import ObjectStore, pick_login
    from cfetch.storage.buckets.object_volume import ObjectStoreVolume

    def confirm() -> None:
        if not os.path.isdir(destination.fence):
            raise _missing_fence(destination)

    confirm()
    store = ObjectStore(
        destination.root,
        timeout_s=settings.write_timeout,
        is_only=True,
        config=pick_login(destination.root, login),
    )
    fence = Path(destination.fence)
    volume = ObjectStoreVolume(
        store,
        run_id=f"{fence.parent.name}.{fence.name}.{task}",
        confirm=confirm,
        monotonic=monotonic,
        existing=settings.existing,
        alone=False,
    )
    try:
        yield volume
    finally:
        await volume.close()


@contextmanager
def _open_directory(
    destination: TaskDestination, settings: Settings, task: str, is_useless: Callable[[], bool]
) -> Iterator[Volume]:
    parts, directory = _stage(destination, task)
    try:
        yield DirectoryVolume(
            directory,
            durable=settings.durability == "power",
            existing=settings.existing,
            keeps_time=settings.mtime,
        )
    finally:
        if is_useless():
            shutil.rmtree(parts, ignore_errors=True)
        _leave(parts, directory)


def _stage(destination: TaskDestination, task: str) -> tuple[Path, Directory]:
    """Make the task's directory of parts, and open the destination with it. Raises LocalFault."""
    parts = Path(destination.fence, task)
    try:
        make_directory(parts, 0o700)
    except FileNotFoundError:
        raise _missing_fence(destination) from None
    except OSError as error:
        raise local_fault(error, f"cannot write to {destination.root}") from None
    directory = Directory(Path(destination.root))
    try:
        directory.stage(str(parts.relative_to(Path(destination.root, STATE_NAME))))
    except BaseException:
        directory.close()
        raise
    return parts, directory


def _stage_if_possible(destination: TaskDestination, task: str) -> tuple[Path, Directory]:
    """The same at one of several: one that takes no parts, a full disk, still has files that stand there."""
    parts, directory = Path(destination.fence, task), Directory(Path(destination.root), sharers=2)
    with suppress(OSError, LocalFault):
        make_directory(parts, 0o700)
        directory.stage(str(parts.relative_to(Path(destination.root, STATE_NAME))))
    return parts, directory


@asynccontextmanager
async def _open_guarded(
    destination: TaskDestination, settings: Settings, task: str, monotonic: Callable[[], float], grants: str
) -> AsyncIterator[Volume]:
    """Open one of several directories. Raises VolumeFault: it refuses, or does not answer soon enough.

    Who takes a share back withdraws the grant, and then closes the task's directory of parts. So a task that
    sees its grant while its directory stands will be stopped with that directory, whenever it goes on.
    """
    from cfetch.storage.guarded_disk import LONGEST_END_S, GuardedDisk  # only for several volumes

    timeout_s = settings.write_timeout
    try:
        parts, directory = call_within(
            timeout_s, destination.root, lambda: _stage_if_possible(destination, task)
        )
    except TimeoutError as error:
        raise VolumeFault(str(error.strerror)) from None
    except VolumeFault:
        raise
    except LocalFault as fault:
        raise VolumeFault(str(fault)) from None
    if grants and not is_granted(grants, task):
        with suppress(OSError, LocalFault):
            call_within(timeout_s, destination.root, lambda: _leave(parts, directory))
        raise LocalFault(f"another task has the share of {task} by now")
    disk = GuardedDisk(destination.root, monotonic, longest_end_s=min(timeout_s, LONGEST_END_S))
    volume = DirectoryVolume(
        directory,
        durable=settings.durability == "power",
        disk=disk,
        existing=settings.existing,
        keeps_time=settings.mtime,
    )
    try:
        yield volume
    finally:
        await volume.close()
        with suppress(OSError, LocalFault):  # a directory that hangs is left to the end of the process
            call_within(timeout_s, destination.root, lambda: _leave(parts, directory))


def is_granted(grants: str | Path, task: str) -> bool:
    """Whether the task has its share: it is opened, as a network file system answers others from memory."""
    with suppress(OSError):
        os.close(os.open(Path(grants, task), os.O_RDONLY | os.O_CLOEXEC))
        return True
    return False


def _leave(parts: Path, directory: Directory) -> None:
    directory.unstage()
    with suppress(OSError):
        parts.rmdir()  # before the directory is closed, which would remove the fence too
    directory.close()


def _missing_fence(destination: TaskDestination) -> LocalFault:
    return LocalFault(
        f"{destination.fence} is not there on {os.uname().nodename}: all executors must see the directory of "
        f"{destination.fence_option} under the same name; or another run has taken the plan over"
    )
