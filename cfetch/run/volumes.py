"""Opens the destinations of a run, stages parts in them, and makes the volumes that the pool writes to."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.clock import RunClock
from cfetch.errors import Blocked, LocalFault
from cfetch.manifest.entry import Entry, SafePath
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.disk import LONGEST_END_S, GuardedDisk
from cfetch.storage.files import STATE_NAME, local_fault
from cfetch.storage.standing import StandingFiles
from cfetch.storage.volume import Volume
from cfetch.timeline.attempts import ATTEMPTS, ELSEWHERE

if TYPE_CHECKING:
    from cfetch.storage.object_store import ObjectStore


BLOCK = 512  # entries that are looked up together


class Volumes:
    """Directories and object stores, in the order in which they were given. Must be closed.

    A destination that cannot be opened is left out if there are others; ``refused`` says which, and why.

    Raises:
        UsageError: an object store needs a library that is not installed.
        LocalFault: none can be opened.
    """

    def __init__(self, roots: Sequence[str | Path], *, write_timeout_s: float) -> None:
        """``write_timeout_s``: how long a disk or an object store may take to answer."""
        self.roots = tuple(roots)
        self.local: list[Directory] = []
        self.stores: list[str] = []
        self.refused: list[tuple[str, LocalFault]] = []
        self._timeout_s = write_timeout_s
        self._order: list[Directory | ObjectStore] = []
        try:
            for root in roots:
                self._open(root, share=len(roots))
        except BaseException:
            self.close()
            raise
        if not self._order:
            raise self.refused[0][1]

    def _open(self, root: str | Path, *, share: int) -> None:
        try:
            if isinstance(root, str):
                from cfetch.storage.object_store import ObjectStore

                self._order.append(ObjectStore(root, timeout_s=self._timeout_s))
                self.stores.append(root)
            else:
                volume = Directory(root, share=share)
                self.local.append(volume)
                self._order.append(volume)
        except LocalFault as fault:
            self.refused.append((str(root), fault))

    @property
    def states(self) -> list[Path]:
        """The state directories on the volumes; they hold the parts of attempts."""
        return [volume.root / STATE_NAME for volume in self.local]

    def confirm(self, names: Collection[str]) -> None:
        """Raise VolumeFault if a directory of these names was moved, unmounted or removed during the run."""
        for volume in self.local:
            if str(volume.root) in names and not volume.is_forsaken:  # one that hangs would be waited for
                volume.confirm_root()

    def free_bytes(self) -> int | None:
        """The free space of all of them together; None: one of them has no known limit."""
        return None if self.stores else sum(volume.free_bytes() for volume in self.local)

    def kept_bytes(self) -> int:
        """The room that parts take, most of which dead runs of the same plan have left."""
        return sum(_disk_bytes(state / ATTEMPTS) for state in self.states)

    def rooms(self) -> dict[str, int | None]:
        """The free space by volume; None: no known limit."""
        return {str(place.root): place.free_bytes() for place in self.local} | dict.fromkeys(self.stores)

    def existing(self, path: SafePath) -> int | None:
        """The size of the file at ``path`` in the first directory that has one; None if none has.

        Something else in a file's place counts as no file. Raises LocalFault.
        """
        sizes = (_size_on(volume, path) for volume in self.local)
        return next((size_bytes for size_bytes in sizes if size_bytes is not None), None)

    def count_in_place(self, entries: Iterable[Entry]) -> int:
        """Count the files in place, as far as metadata tell: hashes are not computed."""
        rest = iter(entries)
        in_place = 0
        while block := list(islice(rest, BLOCK)):
            unseen = block
            for volume in self.local:
                vouched = StandingFiles(volume).find(unseen)
                unseen = [
                    entry
                    for entry, by in zip(unseen, vouched, strict=True)
                    if by is None and not (entry.digest and _has_size(volume, entry))
                ]
            in_place += len(block) - len(unseen)
        return in_place

    def place_of(self, path: Path) -> SafePath | None:
        """The name under which a manifest could want the file at ``path``; None if there is none."""
        for volume in self.local:
            if path.is_relative_to(volume.root):
                return SafePath(str(path.relative_to(volume.root)))
        return None

    @contextmanager
    def stage_parts(self, staging: str, instant: str, state: Path) -> Iterator[None]:
        """Have parts written to ``staging`` below each state directory. Raises LocalFault.

        Parts in another state directory than the run's are marked, so that a run that tidies up there leaves
        them alone.
        """
        with ExitStack() as stack:
            for volume in self.local:
                stack.callback(volume.unstage)
                if volume.root / STATE_NAME != state:
                    stack.enter_context(_mark_parts(volume.root / STATE_NAME, instant))
                volume.stage(staging)
            yield

    def volumes(
        self,
        *,
        durable: bool,
        existing: str,
        keeps_time: bool,
        clock: RunClock,
        run_id: str,
        confirm: Callable[[], None],
    ) -> list[Volume]:
        """Make the volumes, in the event loop. The loop writes a single directory, threads write several."""
        volumes: list[Volume] = []
        make = partial(DirectoryVolume, durable=durable, existing=existing, keeps_time=keeps_time)
        for place in self._order:
            if not isinstance(place, Directory):
                from cfetch.storage.object_volume import ObjectStoreVolume

                volumes.append(
                    ObjectStoreVolume(
                        place, run_id=run_id, confirm=confirm, monotonic=clock.now, existing=existing
                    )
                )
            elif len(self._order) == 1:
                volumes.append(make(place))
            else:
                end_s = min(self._timeout_s, LONGEST_END_S)
                disk = GuardedDisk(str(place.root), clock.now, longest_end_s=end_s)
                volumes.append(make(place, disk=disk))
        return volumes

    def close(self) -> None:
        """Remove cfetch's own directories that are empty, and close the descriptors."""
        for volume in self.local:
            volume.close()


def _has_size(volume: Directory, entry: Entry) -> bool:
    is_file = entry.size_bytes is not None and entry.piece is None
    return is_file and _size_on(volume, entry.path) == entry.size_bytes


def _size_on(volume: Directory, path: SafePath) -> int | None:
    with suppress(Blocked):  # the run reports that, file by file
        return volume.existing(path)
    return None


def _disk_bytes(directory: Path) -> int:
    """The room that the files below a directory take, as far as it can be read."""
    disk_bytes = 0
    for beneath, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                disk_bytes += (Path(beneath) / name).lstat().st_blocks * 512
    return disk_bytes


@contextmanager
def _mark_parts(state: Path, instant: str) -> Iterator[None]:
    """Mark this run's parts in ``state``, so that a run that tidies up a timeline there leaves them alone."""
    mark = state / ATTEMPTS / instant / ELSEWHERE
    try:
        mark.touch(0o600)
    except OSError as error:
        raise local_fault(error, f"cannot write to {state}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            mark.unlink()
            mark.parent.rmdir()
