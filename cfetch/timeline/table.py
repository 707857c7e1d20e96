"""One state directory as one process sees it: joins the parts of this room, and answers all verbs."""

import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.storage.files import local_fault
from cfetch.storage.hanging_calls import call_within
from cfetch.storage.state_format import FORMAT_NAME, MARKER
from cfetch.timeline.attempts import Attempts
from cfetch.timeline.files import LocalFiles, TimelineFiles, name_disk
from cfetch.timeline.full_disk_reserve import leave_ballast
from cfetch.timeline.heartbeat import (
    HEARTBEATS,
    BeatThread,
    Heartbeats,
    Observer,
    OwnerVerdict,
    Pulse,
    find_beat,
)
from cfetch.timeline.lock import TableLock
from cfetch.timeline.owner import Owner, has_restarted, is_gone, is_of_this_boot, this_owner
from cfetch.timeline.records import Completion, RollbackRecord
from cfetch.timeline.states import Action, InstantFile, State, instant_wall_s, new_instant
from cfetch.timeline.store import TIMELINE, InstantStore

if TYPE_CHECKING:
    from cfetch.timeline.bucket_files import BucketFiles

T = TypeVar("T")
POLL_S = 5.0  # between looks at a heartbeat that may be dead; such a wait takes minutes
STALE_S = 1.0  # a look at a bucket is a request, and a run that publishes would make thousands
MAX_RACES = 1000  # so many races lost one after the other mean a bug or a sick file system


class Node(NamedTuple):
    """A process and its access to the machine. Times are seconds; ``tail`` gives random hex digits."""

    owner: Owner
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], None]
    tail: Callable[[], str]
    is_gone: Callable[[Owner], bool]
    has_restarted: Callable[[Owner], bool]
    is_of_this_boot: Callable[[Owner], bool] = is_of_this_boot

    def begin_pulse(self, files: TimelineFiles, name: str, epoch: int, heartbeats: Heartbeats) -> Pulse:
        """Write the first beat of this process under a name. Raises OSError."""
        pulse = Pulse(files, name, epoch, self.owner, expiry_s=heartbeats.expiry_s, monotonic=self.monotonic)
        pulse.first()
        return pulse


def this_node() -> Node:
    """The running process on this machine."""
    return Node(
        owner=this_owner(secrets.token_hex(8)),
        monotonic=time.monotonic,
        wall=time.time,
        sleep=time.sleep,
        tail=lambda: secrets.token_hex(2),
        is_gone=is_gone,
        has_restarted=has_restarted,
    )


class Beating(Protocol):
    """A pulse that keeps beating until it is stopped."""

    def stop(self) -> None:
        """Begin no further beats."""


def ignore_note(text: str) -> None:
    """Tell nobody."""


KeepBeating = Callable[[Pulse, float, Callable[[str], None]], Beating]


class Table:
    """``files`` is the state directory; ``volumes`` hold the attempts. Raises LocalFault."""

    def __init__(
        self,
        files: TimelineFiles,
        volumes: Sequence[TimelineFiles],
        node: Node,
        heartbeats: Heartbeats,
        *,
        keep_beating: KeepBeating = BeatThread,
        scratch: TimelineFiles | None = None,
        bucket: "BucketFiles | None" = None,
        is_view: bool = False,
        note: Callable[[str], None] = ignore_note,
    ) -> None:
        """``bucket``: these are the ``files``, and ``scratch`` is this machine's own directory.

        ``is_view``: nothing is written to the bucket, whose login may permit only to read. ``note`` tells the
        user what is waited for.
        """
        self.files = files
        self.scratch = scratch
        self.bucket = bucket
        self._is_view = is_view
        self.look_every_s = 0.0 if bucket is None else STALE_S
        self.node = node
        self.heartbeats = heartbeats
        self.attempts = Attempts(volumes)
        with on_this_machine("cannot write the timeline"):
            self.store = InstantStore(files, node.owner.token)
        self.lock = TableLock(
            files,
            node.owner,
            monotonic=node.monotonic,
            sleep=node.sleep,
            is_gone=node.is_gone,
            note=note,
        )
        self._observer = Observer(
            monotonic=node.monotonic, is_gone=node.is_gone, has_restarted=node.has_restarted
        )
        self._keep_beating = keep_beating

    @contextmanager
    def hold_moment(self) -> Iterator[float]:
        """Look at the timeline at one moment; yields that moment by the files' clock.

        Under the lock. A view takes none: of a bucket it is one version of the index; of a directory a
        name that changes while it is listed may be missing (readdir(3)). Its clock is this machine's, as
        only who writes learns the files' own. Raises OSError, LocalFault.
        """
        if not self._is_view:
            with self.lock.hold() as now_s:
                yield now_s
        elif self.bucket is not None:
            yield max(self.bucket.index.read().changed_s, self.node.wall())
        else:
            yield self.node.wall()

    def read_once(self) -> AbstractContextManager[None]:
        """Let reads that belong together cost one request in a bucket, until this process changes something.

        Between them nothing may have to become true: what is read later may be as old as what was read first.
        """
        return nullcontext() if self.bucket is None else self.bucket.index.read_once()

    def pause(self, pause_s: float) -> None:
        """Wait, and look anew afterwards."""
        self.node.sleep(pause_s)
        if self.bucket is not None:
            self.bucket.index.forget_look()

    def new_instant(self) -> str:
        """An id for an instant that is about to be scheduled."""
        return new_instant(self.node.wall(), self.node.tail())

    def age_s(self, entry: InstantFile) -> float:
        """Seconds since an instant was made, by its maker's wall clock and this machine's."""
        return self.node.wall() - instant_wall_s(entry.instant)

    def pending_s(self, entry: InstantFile, now_s: float) -> float:
        """Seconds since a pending instant was put on the timeline; ``now_s`` is by the file system's clock.

        So a cleaner whose clock is ahead does not take a new plan for an old one. Raises FileNotFoundError:
        its state has changed.
        """
        return now_s - self.files.modified_s(f"{TIMELINE}/{entry.name}")

    def verdict(self, entry: InstantFile, now_s: float) -> OwnerVerdict:
        """Whether an instant's owner lives; ``now_s`` by the file system's clock."""
        beat, age_s = find_beat(self.files, entry.instant, now_s)
        has_died = (
            beat is not None
            and bool(beat.lock_device)
            and self.node.is_of_this_boot(beat.owner)
            and self.files.has_lost_lock(f"{HEARTBEATS}/{entry.instant}.json", beat.lock_device)
        )
        return self._observer.judge(entry.instant, entry.epoch, beat, age_s, has_died=has_died)

    def rollbacks_of(
        self, target: str, entries: Sequence[InstantFile]
    ) -> list[tuple[InstantFile, RollbackRecord]]:
        """The pending rollbacks that name ``target``: none or one, or more if the lock was lost."""
        pending = []
        for entry in entries:
            if entry.action is Action.ROLLBACK and entry.state is not State.COMPLETED:
                with suppress(FileNotFoundError):
                    record = self.store.read_rollback(entry)
                    if record is not None and record.target == target:
                        pending.append((entry, record))
        return pending

    def first_beat(self, entry: InstantFile) -> Pulse:
        """Write the first beat of the claimed ``entry``. Raises OSError."""
        return self.node.begin_pulse(self.files, entry.instant, entry.epoch, self.heartbeats)

    def keep_beating(self, pulse: Pulse, on_lost: Callable[[str], None]) -> Beating:
        """Begin to beat, until the returned object is stopped."""
        return self._keep_beating(pulse, self.heartbeats.pause_s, on_lost)

    def completion(self, epoch: int, *, files: int = 0, size_bytes: int = 0) -> Completion:
        """Make the record of a completion by this process, now."""
        return Completion(
            epoch=epoch, owner=self.node.owner, wall_s=self.node.wall(), files=files, bytes=size_bytes
        )

    def make_held_error(self, instant: str, verdict: OwnerVerdict) -> Held:
        """Make the error that says who holds the instant."""
        beat, age_s = verdict.beat, verdict.age_s
        assert beat is not None
        last = "which is alive" if age_s is None or age_s < 0 else f"last heartbeat {age_s:.0f} s ago"
        left_s = beat.expiry_s - (age_s if age_s is not None and 0 <= age_s <= beat.expiry_s else 0.0)
        return Held(
            f"another run is at it: plan {instant} is held by {beat.owner.shown} ({last}); wait until it has "
            f"ended (--wait does), or end it, and run the same command again. If it is dead, its hold ends "
            f"within {math.ceil(left_s)} s",
            host=beat.owner.host,
            pid=beat.owner.pid,
            age_s=age_s,
            is_certain=verdict.is_certain,
        )


def find(
    entries: Sequence[InstantFile], instant: str, action: Action = Action.DOWNLOAD
) -> InstantFile | None:
    """One instant of a listing."""
    return next((entry for entry in entries if (entry.instant, entry.action) == (instant, action)), None)


def existing(table: Table, entries: Sequence[InstantFile], instant: str) -> InstantFile:
    """The download of an instant, even if its state changed during the listing. Raises UsageError."""
    entry = find(entries, instant) or table.store.entry(instant)
    if entry is None:
        raise UsageError(
            f"there is no plan {instant} on this timeline; `cfetch plan list` shows what there is"
        )
    return entry


Pause = Callable[[Held, float], None]
"""Waits so many seconds for the run that may hold the plan; raises Held if that run is not waited for."""


def when_free(table: Table, ask: Callable[[], T], pause: Pause | None = None) -> T:
    """Ask until the answer is certain: an owner that may be dead is watched until it moves or expires.

    ``pause``: how to wait; it may wait for an owner that is alive too. FileNotFoundError from ``ask`` means
    that another process was faster. Raises Held, and other errors of ``ask`` and ``pause``.
    """
    races = 0
    while races < MAX_RACES:
        try:
            return ask()
        except FileNotFoundError:
            races += 1
        except Held as held:
            pause_s = min(POLL_S, table.heartbeats.interval_s / 2)
            if pause is not None:
                pause(held, pause_s)
            elif held.is_certain:
                raise
            else:
                table.node.sleep(pause_s)
    raise LocalFault("the timeline changes faster than it can be read; see what else uses it, and try again")


@contextmanager
def on_this_machine(what: str) -> Iterator[None]:
    """Convert OSError to LocalFault, except FileNotFoundError, which the caller handles."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise local_fault(error, what) from None


@contextmanager
def open_table(
    state: Path,
    volumes: Sequence[Path],
    heartbeats: Heartbeats,
    node: Node | None = None,
    *,
    limit_s: float | None = None,
    bucket: str | None = None,
    is_view: bool = False,
    note: Callable[[str], None] = ignore_note,
) -> Iterator[Table]:
    """Open the timeline in the directory ``state``; attempts are in ``volumes``, also state directories.

    ``limit_s``: for how long a call may hang. Then a volume counts as empty; None: it is waited for.
    ``bucket``: the object store that has the timeline; ``state`` is this machine's own directory then.
    ``is_view``: it is only read, also where nothing can be written. ``note`` tells what is waited for.

    Raises LocalFault; ConfigError: the store cannot keep a timeline; UsageError: a library is missing.
    """
    with ExitStack() as stack:
        files = _open_files(stack, state, limit_s, as_absent=False)
        home = None
        if bucket is not None:
            home = reach_bucket(bucket)
            home.prove()
        attempts: list[TimelineFiles] = []
        for path in volumes:
            if path == state and limit_s is None:
                attempts.append(files)
                continue
            try:
                attempts.append(_open_files(stack, path, limit_s, as_absent=True))
            except FileNotFoundError:
                continue
        if not is_view:
            leave_ballast(files)
            # A single volume keeps nothing if the state is elsewhere; of several, each keeps its label.
            for each in (files, *(attempts if len(volumes) > 1 else ())):
                _mark_format(each)
        node = node or this_node()
        place = printable(bucket or str(state), 1000)

        def note_with_place(text: str) -> None:
            note(f"{place}: {text}")

        if home is None:
            yield Table(files, attempts, node, heartbeats, is_view=is_view, note=note_with_place)
        else:
            yield Table(home, attempts, node, heartbeats, scratch=files, bucket=home, note=note_with_place)


def _mark_format(files: TimelineFiles) -> None:
    """Leave the number of the format that this version writes, for later versions."""
    with suppress(OSError):  # it is there, or nothing can be written: no marker means the first format
        files.create(FORMAT_NAME, MARKER, flush=True)


def reach_bucket(url: str) -> "BucketFiles":
    """Open the state directory that is in a bucket. Raises as ``open_table``."""
    from cfetch.timeline.bucket_files import BucketFiles  # with all of the object stores' code

    return BucketFiles(url)


def _open_files(stack: ExitStack, path: Path, limit_s: float | None, *, as_absent: bool) -> TimelineFiles:
    """Raises LocalFault, and FileNotFoundError if a volume ``as_absent`` does not answer."""
    if limit_s is None:
        files = LocalFiles(path)
        stack.callback(files.close)
        return files
    from cfetch.timeline.patient_files import PatientFiles  # a plain run has one disk, and waits for it

    place = name_disk(path)
    try:
        files = call_within(limit_s, place, lambda: LocalFiles(path))
    except TimeoutError as error:
        if as_absent:
            raise FileNotFoundError(*error.args) from None
        raise local_fault(error, f"cannot use {path} for the timeline") from None
    stack.callback(_close_files, files, place, limit_s)
    return PatientFiles(files, path, limit_s, as_absent=as_absent)


def _close_files(files: LocalFiles, place: str, limit_s: float) -> None:
    with suppress(TimeoutError):  # the end of the process closes it
        call_within(limit_s, place, files.close)
