"""Opens the destinations of a run, stages parts in them, and makes the volumes that the pool writes to."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cfetch.base.clock import RunClock
from cfetch.base.errors import Blocked, LocalFault, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entry import Entry, SafePath
from cfetch.manifest.folding import Folding, join_foldings
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.files import MOVES, PAUSED, STATE_NAME, on_disk, replace_file
from cfetch.storage.hanging_calls import call_within
from cfetch.storage.name_folding import probe_folding
from cfetch.storage.occupancy import leave, register_run
from cfetch.storage.standing_files import StandingFiles
from cfetch.timeline.attempts import ATTEMPTS, ELSEWHERE
from cfetch.timeline.files import name_disk
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import Owner, is_alive, make_same_plan_error, this_owner

if TYPE_CHECKING:
    from cfetch.engine.placement.chooser import Earlier
    from cfetch.run.store_marks import StoreMarks
    from cfetch.storage.buckets.object_store import ObjectStore
    from cfetch.storage.volume import Volume


T = TypeVar("T")
OBJECTS = "objects"  # below the state directory: records of objects, a file for each store
STANDARD_BEATS = Heartbeats()
BLOCK = 512  # entries that are looked up together


class Volumes:
    """Directories and object stores, in the order in which they were given. Must be closed.

    A destination that cannot be opened is left out if there are others; ``refused`` says which, and why.

    Raises:
        UsageError: an object store needs a library that is not installed.
        LocalFault: none can be opened.
    """

    def __init__(
        self,
        roots: Sequence[str | Path],
        *,
        state: Path,
        write_timeout_s: float,
        mounted: bool = False,
        keep_free: float = 0,
        heartbeats: Heartbeats = STANDARD_BEATS,
    ) -> None:
        """``state`` knows the labels of several directories; ``heartbeats``: of this run's marks at stores.

        ``write_timeout_s``: how long a disk or an object store may take to answer. ``mounted``: all
        destinations must be the volumes that they were, and a single one gets a label too. ``keep_free``: of
        each directory's space, bytes (int) or a fraction (float), which parts do not take.
        """
        self._has_labels = mounted or len(roots) > 1
        self.roots = tuple(roots)
        self._state = state
        self.local: list[Directory] = []
        self.stores: list[str] = []
        self.refused: list[tuple[str, LocalFault]] = []
        self._paused: list[Path] = []
        self._folding: Folding | None = None
        self._timeout_s = write_timeout_s
        self._keep_free = keep_free
        if self._has_labels:
            from cfetch.run.labels import Labels  # a single directory has none

            self._labels = self._ask(name_disk(state), lambda: Labels(state))
        self._heartbeats = heartbeats
        self._store_marks: list[StoreMarks] = []
        self._order: list[Directory | ObjectStore] = []
        try:
            for root in roots:
                self._open(root, sharers=len(roots))
        except BaseException:
            self.close()
            raise
        if self.refused and (mounted or not self._order):
            self.close()
            raise self.refused[0][1]

    def _open(self, root: str | Path, *, sharers: int) -> None:
        try:
            if isinstance(root, str):
                from cfetch.storage.buckets.object_store import ObjectStore

                self._order.append(ObjectStore(root, timeout_s=self._timeout_s, is_only=sharers == 1))
                self.stores.append(root)
            else:
                volume = self._ask(root, lambda: self._open_directory(root, sharers))
                self.local.append(volume)
                self._order.append(volume)
        except LocalFault as fault:
            self.refused.append((str(root), fault))

    def _open_directory(self, root: Path, sharers: int) -> Directory:
        volume = Directory(root, sharers=sharers, keep_free=self._keep_free)
        try:
            if self._has_labels:
                self._labels.check(root)
        except LocalFault:
            volume.close()
            raise
        return volume

    def _ask(self, place: Path | str, step: Callable[[], T]) -> T:
        """Return the answer of a call on a place; do not wait for ever if there are other places.

        Raises VolumeFault.
        """
        if len(self.roots) == 1:
            return step()
        try:
            return call_within(self._timeout_s, str(place), step)
        except TimeoutError as error:
            raise VolumeFault(str(error.strerror)) from None

    def note_left_out(self) -> list[str]:
        """Notes about the directories that earlier runs have filled too, and this run does not have."""
        if not os.path.lexists(self._state / "volumes.json"):  # most states have known one directory only
            return []
        from cfetch.run.labels import note_left_out

        return note_left_out(self._state, self.roots)

    @property
    def states(self) -> list[Path]:
        """The state directories on the volumes, which hold the parts of attempts.

        With object stores alone the run's own: the directory of an epoch shows whose the plan is.
        """
        return [volume.root / STATE_NAME for volume in self.local] or [self._state]

    @property
    def have_state(self) -> bool:
        """Whether the run's own state is on one of the directories."""
        return any(map(self._is_with_state, self.local))

    def _is_with_state(self, volume: Directory) -> bool:
        return volume.root / STATE_NAME == self._state

    def free_bytes(self) -> int | None:
        """The free space of all of them together; None: one of them has no known limit.

        Directories on one file system share its space. Raises LocalFault.
        """
        if self.stores:
            return None
        by_device: dict[int, int | None] = {}
        for volume in self.local:
            with on_disk(volume.root):
                device = self._ask(volume.root, volume.root.stat).st_dev
                by_device[device] = self._ask(volume.root, volume.free_bytes)
        free = [size_bytes for size_bytes in by_device.values() if size_bytes is not None]
        return sum(free) if len(free) == len(by_device) else None

    def kept_bytes(self) -> int:
        """The room that parts take, most of which dead runs of the same plan have left."""
        return sum(
            self._ask(volume.root, partial(_disk_bytes, volume.root / STATE_NAME / ATTEMPTS))
            for volume in self.local
        )

    def disks(self) -> list[tuple[str, int]] | None:
        """The file systems of the directories, by their names, with the room for files on each.

        The one with the state comes first.
        Parts count as room, since the run continues them. None: a store, or a file
        system that does not say it, has no known limit. Raises LocalFault.
        """
        if self.stores:
            return None
        names: dict[int, list[str]] = {}
        rooms: dict[int, int] = {}
        for volume in sorted(self.local, key=self._is_with_state, reverse=True):
            with on_disk(volume.root):
                device = self._ask(volume.root, volume.root.stat).st_dev
                kept = self._ask(volume.root, partial(_disk_bytes, volume.root / STATE_NAME / ATTEMPTS))
                if device not in rooms:
                    free_bytes = self._ask(volume.root, volume.free_bytes)
                    if free_bytes is None:
                        return None
                    rooms[device] = free_bytes
                rooms[device] += kept
                names.setdefault(device, []).append(str(volume.root))
        return [(" and ".join(names[device]), room) for device, room in rooms.items()]

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
            unseen = block = [entry for entry in block if entry.clash is None]
            for volume in self.local:
                vouched = StandingFiles(volume).find(unseen)
                unseen = [
                    entry
                    for entry, by in zip(unseen, vouched, strict=True)
                    if by is None and not (entry.digest and _has_size(volume, entry))
                ]
            in_place += len(block) - len(unseen)
        return in_place

    def find_wanted_name(self, path: Path) -> SafePath | None:
        """The name under which a manifest could want the file at ``path``; None if there is none."""
        for volume in self.local:
            if path.is_relative_to(volume.root):
                return SafePath(str(path.relative_to(volume.root)))
        return None

    def find_folding(self) -> Folding:
        """What the directories together do with names; a directory that cannot be asked is left out.

        They are asked once: each question makes a file, and both freezing and the check of a plan need it.
        """
        if self._folding is None:
            self._folding = self._ask_for_folding()
        return self._folding

    def _ask_for_folding(self) -> Folding:
        all_of_them: list[Folding] = []
        for volume in self.local:
            with suppress(LocalFault):
                all_of_them.append(self._ask(volume.root, partial(probe_folding, volume)))
        return join_foldings(all_of_them)

    def claim(self, source: str, claims: dict[Path, int]) -> None:
        """Keep others from moving batches here, and from deleting files here for the same ``source``.

        ``claims`` gets the descriptors that guard the source until they are closed, even after this object is
        closed. A full disk that has no guard file for the source is left out: no other process can hold it
        there, and a follower tries again.

        Raises Held, LocalFault.
        """
        from cfetch.storage.claims import claim  # only syncs and followers delete what a source no longer has

        for volume in self.local:
            self._ask(volume.root, partial(register_run, volume))
            if volume.root not in claims:
                try:
                    claims[volume.root] = self._ask(volume.root, partial(claim, volume.root, source))
                except VolumeFault as fault:
                    if not fault.no_room:
                        raise

    def refuse_same_plan(self, plan: str) -> None:
        """Raise Held if another run, with another state, brings the same plan to one of them.

        At a directory only processes of this machine are seen. Held is also raised while batches of one of
        the directories are being moved.
        """
        for volume in self.local:
            self._ask(volume.root, partial(register_run, volume))
            self._ask(volume.root, partial(_refuse_same_plan, volume.root / STATE_NAME / ATTEMPTS, plan))
        for marks in self._marks(plan):
            marks.refuse_same_plan()

    def _marks(self, plan: str) -> "list[StoreMarks]":
        """The runs' marks at the stores, with the memory of this run's earlier looks."""
        if self.stores and not self._store_marks:
            from cfetch.run.store_marks import StoreMarks

            self._store_marks = [StoreMarks(url, plan, self._heartbeats) for url in self.stores]
        return self._store_marks

    @contextmanager
    def stage_parts(self, staging: str, instant: str, epoch: int, state: Path, plan: str) -> Iterator[None]:
        """Have parts written to ``staging`` below each state directory, and this run's mark at each store.

        Parts in another state directory than the run's are marked with the digest of the ``plan``, so that a
        run that tidies up there leaves them alone, and a run of the same plan with another state is refused.
        One of several volumes that takes no parts, a full disk, is still searched for files in place;
        ``refused`` names it, and also a volume that `cfetch volume pause` has paused.

        Raises:
            LocalFault: the only volume takes no parts, or all are paused.
            Held: another run brings the same plan to one of them, as ``refuse_same_plan`` says.
        """
        self._undo_killed_moves()
        self._find_paused()
        with ExitStack() as stack:
            for volume in self.local:
                stack.callback(self._leave, volume.root, partial(leave, volume))
                stack.callback(self._leave, volume.root, volume.unstage)
                try:
                    self._ask(volume.root, partial(register_run, volume))
                    self._ask(volume.root, partial(volume.stage, staging))
                    if self._has_labels:
                        self._ask(volume.root, partial(self._labels.put, volume.root))
                    if volume.root / STATE_NAME != state:
                        mark = volume.root / STATE_NAME / ATTEMPTS / instant / ELSEWHERE
                        stack.callback(self._leave, volume.root, partial(_unmark_parts, mark))
                        self._ask(volume.root, partial(_mark_parts, mark, plan))
                except LocalFault as fault:
                    if len(self._order) == 1:
                        raise
                    self.refused.append((str(volume.root), fault))
            for marks in self._marks(plan):
                stack.enter_context(marks.stay(instant, epoch))
            yield

    def _undo_killed_moves(self) -> None:
        """Undo killed moves, unless a volume hangs: then a later run that sees all of them does."""
        with suppress(VolumeFault):
            moves = [(volume.root, volume.root / STATE_NAME / MOVES) for volume in self.local]
            have_some = [self._ask(root, partial(os.path.isdir, path)) for root, path in moves]
            if any(have_some):
                from cfetch.storage.moves import undo_killed_moves  # a rest of a killed move is rare

                undo_killed_moves(self.local)

    def _find_paused(self) -> None:
        """Name the volumes that are paused. Raises VolumeFault: all are."""
        for volume in self.local:
            with suppress(LocalFault):  # a volume that does not answer will fail when it is used
                if self._ask(volume.root, partial(os.path.lexists, volume.root / STATE_NAME / PAUSED)):
                    self._paused.append(volume.root)
        if self._paused:
            from cfetch.run.earlier_placements import explain_pauses  # it is rare

            self.refused += explain_pauses(self._paused, all_of_them=len(self._paused) == len(self._order))

    def find_earlier(self) -> "Earlier | None":
        """Find what earlier runs have left on several volumes; None: only one was given."""
        if len(self.roots) == 1:
            return None
        from cfetch.run.earlier_placements import find_earlier  # only several volumes are compared

        return find_earlier(self._order, self._paused, self._state, self._ask)

    def volumes(
        self,
        *,
        durable: bool,
        existing: str,
        keeps_time: bool,
        clock: RunClock,
        run_id: str,
        confirm: Callable[[], None],
    ) -> "list[Volume]":
        """Make the volumes, in the event loop. The loop writes the only destination, threads write others."""
        volumes: list[Volume] = []
        make = partial(DirectoryVolume, durable=durable, existing=existing, keeps_time=keeps_time)
        for place in self._order:
            if not isinstance(place, Directory):
                from cfetch.storage.buckets.object_volume import ObjectStoreVolume

                volumes.append(
                    ObjectStoreVolume(
                        place,
                        run_id=run_id,
                        confirm=confirm,
                        monotonic=clock.now,
                        existing=existing,
                        records=self._state / OBJECTS,
                    )
                )
            elif len(self.roots) == 1:
                volumes.append(make(place))
            else:
                from cfetch.storage.guarded_disk import (  # a thread for each of several
                    LONGEST_END_S,
                    GuardedDisk,
                )

                end_s = min(self._timeout_s, LONGEST_END_S)
                disk = GuardedDisk(str(place.root), clock.now, longest_end_s=end_s)
                volumes.append(make(place, disk=disk))
        return volumes

    def close(self) -> None:
        """Remove cfetch's own directories that are empty, and close the descriptors."""
        for volume in self.local:
            self._leave(volume.root, volume.close)

    def _leave(self, root: Path, step: Callable[[], None]) -> None:
        """Carry out a last step, unless the volume hangs: the end of the process closes its files."""
        with suppress(VolumeFault):
            self._ask(root, step)


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the mark at a run's parts: the digest of its plan, and its process."""

    plan: str
    owner: Owner


def _refuse_same_plan(attempts: Path, plan: str, own: Path | None = None) -> None:
    for mark in attempts.glob(f"*/{ELSEWHERE}"):
        if mark == own:
            continue
        with suppress(OSError, *NOT_DECODED):  # it is gone, or of a version that wrote nothing into it
            other = msgspec.json.decode(mark.read_bytes(), type=_Mark)
            if other.plan == plan and is_alive(other.owner):
                raise make_same_plan_error(other.owner, str(attempts.parents[1]))


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


def _mark_parts(mark: Path, plan: str) -> None:
    """Mark this run's parts, see ``Volumes.stage_parts``. Raises LocalFault, Held."""
    replace_file(mark, msgspec.json.encode(_Mark(plan=plan, owner=this_owner(""))), durable=False)
    _refuse_same_plan(mark.parents[1], plan, own=mark)  # of two runs that begin together, one sees the other


def _unmark_parts(mark: Path) -> None:
    with suppress(OSError):
        mark.unlink()
        mark.parent.rmdir()
