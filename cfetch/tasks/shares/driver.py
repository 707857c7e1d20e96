"""The driver's side of a plan's execution by tasks, each of which brings one share.

The driver guards the plan and cuts it into shares; a ``TaskRunner`` lets a task (``task.py``) bring each
share. The receipt of a share reports its events. The driver reads the receipts as they appear and emits the
events as if they had happened here, so dashboard, metrics and summary are those of a run in one process. All
files in place of one report become one event: the driver knows their numbers and sums, and reads none of
their records. The hub shows the tasks' present work. Only shares without a receipt run again.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, LocalFault, VolumeFault
from cfetch.base.events import EntryFinished, Event, RunNoted, RunStopping, VolumeView
from cfetch.base.records import NOT_DECODED, FileRecord
from cfetch.base.secret import printable
from cfetch.engine.entry_records import make_skipped_record
from cfetch.manifest.entries import Frozen
from cfetch.manifest.entry import Entry
from cfetch.manifest.urls import host_of
from cfetch.run.frame import Run
from cfetch.run.fresh_links import ManifestRef
from cfetch.storage.directory import Directory
from cfetch.storage.files import local_fault, make_private, on_disk
from cfetch.storage.hanging_calls import call_within
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.receipts import STOP_NAME, Receipt, ReceiptReader, is_in_place
from cfetch.tasks.hub.registry import EMPTY_VIEW, TaskRegistry
from cfetch.tasks.hub.server import Hub, HubPlace, open_hub
from cfetch.tasks.shares.live_view import LiveView
from cfetch.tasks.shares.orphans import Orphans
from cfetch.tasks.shares.task_destination import TaskDestination, directory_destination, store_destination
from cfetch.tasks.shares.work import RunSpec
from cfetch.wire.network import NETWORK_ENV

T = TypeVar("T")
BLOCK = 512  # entries that one call on a volume looks up
POLL_S = 0.25  # receipts are looked for four times a second, as the dashboard is drawn
STOP_S = 60.0  # the time in which tasks have to end in good order
READING_PAUSES = 9  # times the reading time: many receipts take at most a tenth of the driver's time
SHORTEST_PART_S = 2.0  # the least time between two parts of a task
MOST_PARTS_A_S = 100  # parts of all tasks together in a second, as each is a file
STATEMENT_ENV = ("DATABRICKS_HOST", "DATABRICKS_TOKEN")  # for fresh links of a statement


class Job(Protocol):
    """The tasks of a run, once they have been started."""

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the job early, or is about to."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of all tasks. Returns whether they have ended."""

    def take_notes(self) -> Sequence[str | Event]:
        """Notes for a person, and events of the driver's own, that have come up since the last call."""

    def views(self) -> list[VolumeView]:
        """The volumes at this moment, if there are several."""

    def stop(self) -> None:
        """Begin no further task, if the runner can do that; running tasks learn of the stop by themselves."""

    def cancel(self) -> None:
        """End the tasks that have not ended."""


class TaskRunner(Protocol):
    """Runs the tasks of a plan, on Spark or in processes of this machine. Used once.

    ``longest_pause_s``: the longest pause between two looks at receipts.
    ``trusts_receipts``: receipts of earlier runs of the plan count, if their files have not changed since;
    otherwise each task checks by itself. ``sweeps``: parts that do not change may belong to dead tasks.
    ``leads``: False if another machine leads the run: then only that machine prepares, stops and tidies up.
    ``roots``: the directories of a run with several volumes.
    """

    longest_pause_s: float
    leads: bool
    trusts_receipts: bool
    sweeps: bool
    roots: tuple[Path, ...]

    def open(self) -> AbstractContextManager[None]:
        """Open the resources that the run needs, for as long as it lasts. Raises UsageError, LocalFault."""

    @property
    def slots(self) -> int:
        """How many tasks run at a time, once it is open."""

    def prepare(self, account: Account, directory: Path) -> list[str]:
        """Cut the entries that are not in the account into shares, which may be written to ``directory``.

        Returns notes for a person. Raises LocalFault.
        """

    @property
    def tasks(self) -> int:
        """How many shares there are to bring, once they are prepared."""

    def find_hub_place(self) -> HubPlace | None:
        """Find where the hub listens. None: tasks cannot reach this machine. Raises UsageError."""

    @property
    def learned(self) -> Knowledge:
        """The knowledge about hosts, once the tasks are over; nothing if each task learns alone."""

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> Job:
        """Begin the tasks. The account knows which entries have ended meanwhile. Raises LocalFault."""

    def explain(self, failure: BaseException, receipt: str | None) -> CfetchError:
        """Explain the failure to a person; ``receipt``: the text that a task has left about it."""


class DriverSetup(NamedTuple):
    """The facts of a run by tasks. ``state`` is a directory that all tasks see.

    ``root`` is one too, or the URL of an object store; with several volumes, it is the first of them.

    ``settings`` are for one task; ``per_host`` and the rates are for all tasks together.
    """

    plan: Frozen
    root: Path | str
    state: Path
    settings: Settings
    origin: ManifestRef
    clock: Clock
    knowledge: Knowledge = NOTHING

    def destination(self, instant: str, epoch: int) -> TaskDestination:
        """The destination of an execution of the plan."""
        if isinstance(self.root, str):
            return store_destination(self.root, self.state, instant, epoch)
        return directory_destination(self.root, instant, epoch)


class ShareEngine:
    """Implements ``Engine`` by tasks. Used once."""

    def __init__(self, runner: TaskRunner, setup: DriverSetup) -> None:
        self._runner = runner
        self._setup = setup
        self._ending = _Ending()

    @property
    def learned(self) -> Knowledge:
        """Implements ``Engine.learned``."""
        return self._runner.learned

    def open(self) -> AbstractContextManager[None]:
        """Implements ``Engine.open``."""
        return self._runner.open()

    def bring(self, run: Run) -> CfetchError | None:
        """Implements ``Engine.bring``."""
        return self.drive(run).bring()

    def drive(self, run: Run) -> "Driver":
        """Make the driver of the run."""
        return Driver(self._setup, self._runner, run, self._ending)

    def stop(self, reason: str) -> None:
        """Implements ``Engine.stop``."""
        self._ending.reason = self._ending.reason or reason

    def lose(self, why: str) -> None:  # noqa: ARG002 - the guard says it again when it is asked
        """Implements ``Engine.lose``."""
        self._ending.is_lost = True


class _Ending:
    """Whether the run has to end early; other threads and signal handlers set it, the driver reads it."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.is_lost = False  # the guard has said so; the driver asks it again


class Driver:
    """One run: it reads receipts as they come, shows the tasks, and ends the run."""

    def __init__(self, setup: DriverSetup, runner: TaskRunner, run: Run, ending: _Ending) -> None:
        self._setup = setup
        self._runner = runner
        self._run = run
        self._ending = ending
        self._emit = run.emit
        self._now = run.clock.now
        self._epoch = run.guard.epoch
        self._directory = setup.state / "plans" / run.guard.instant / "receipts"
        self._receipts = ReceiptReader(self._directory, run.guard.instant)
        self._account = Account()
        self._lost_by: CfetchError | None = None
        self._destination = setup.destination(run.guard.instant, self._epoch)
        self._volumes = tuple(
            directory_destination(root, run.guard.instant, self._epoch) for root in runner.roots
        )
        fences = [Path(destination.fence) for destination in self._volumes or (self._destination,)]
        self._orphans = [Orphans(fence, self._now) for fence in fences]
        self._view = LiveView(
            len(setup.plan),
            run.counts,
            self._account,
            self._now,
            run.emit,
            slots=setup.settings.per_host or setup.settings.concurrency,
        )

    def bring(self) -> CfetchError | None:
        """Run the tasks and emit their events, as ``Engine.bring`` says."""
        if self._runner.leads:
            self._make_way()
        root = self._setup.root
        if isinstance(root, Path) and not self._volumes:  # objects are looked up by the tasks, many at a time
            self._emit_earlier(root)
        failure = self._run_tasks()
        roots = self._runner.roots or (root,)
        if failure is not None and not self._is_ending():
            for volume in roots:
                with suppress(LocalFault):  # one of several may have died, or hang
                    if isinstance(volume, Path):
                        self.emit_unreported(volume)
            raise self._explain(failure)
        if self._runner.leads and self._run.counts.ended.in_place == len(self._setup.plan):
            for volume, orphans in zip(roots, self._orphans, strict=True):
                with suppress(LocalFault):
                    self._ask(volume, orphans.clear)
        return self._lost_by

    def _ask(self, volume: Path | str, step: Callable[[], T]) -> T:
        """Return what a step at a destination returns, and do not wait for ever for one of several.

        Raises VolumeFault.
        """
        limit_s = self._setup.settings.write_timeout if self._volumes else None
        try:
            return call_within(limit_s, str(volume), step)
        except TimeoutError as error:
            raise VolumeFault(str(error.strerror)) from None

    def _make_way(self) -> None:
        """Prepare the directory of receipts."""
        if not self._runner.trusts_receipts:
            shutil.rmtree(self._directory, ignore_errors=True)
        with on_disk(self._directory):
            make_private(self._directory)
            (self._directory / STOP_NAME).unlink(missing_ok=True)

    def _run_tasks(self) -> BaseException | None:
        """Start a task for each open share, and follow them. Returns the error that ended them early."""
        own_shares = locate_shares(self._directory.parent, self._epoch)
        for note in self._runner.prepare(self._account, own_shares):
            self._note(note)
        if not self._runner.tasks:
            return None
        with ExitStack() as stack:
            if self._runner.leads:
                stack.callback(shutil.rmtree, own_shares, ignore_errors=True)
            hub = self._own_hub(stack)
            job = self._runner.start(self._make_spec(hub), self._account, hub)
            try:
                is_over = self._follow(job, hub)
            except BaseException:
                job.cancel()
                raise
            if not is_over:
                job.cancel()
        self._read()
        self._take_notes(job)
        if self._runner.leads:  # otherwise other machines go on with the entries that this one did not bring
            for event in self._account.close():
                self._emit(event)
        return job.failure

    def _own_hub(self, stack: ExitStack) -> Hub | None:
        """Open a hub; None if tasks could not reach it: the run then uses receipts and fixed limits."""
        place = self._runner.find_hub_place()
        if place is None:
            return None
        settings = self._setup.settings
        registry = TaskRegistry(settings.straggler, settings.per_host, settings.rates)
        try:
            return stack.enter_context(open_hub(registry, place, self._setup.clock))
        except OSError as error:
            self._note(
                f"executors cannot be heard at {printable(place.name)} ({error.strerror}): "
                "no live view of them"
            )
            return None

    def _make_spec(self, hub: Hub | None) -> RunSpec:
        setup = self._setup
        asks = setup.origin.statement_id or setup.settings.statement_host
        names = NETWORK_ENV + (STATEMENT_ENV if asks else ())
        if setup.settings.bearer_env is not None:
            names += (setup.settings.bearer_env,)
        if self._destination.is_store:
            from cfetch.storage.buckets.object_store import pick_login

            names += tuple(pick_login(self._destination.root, os.environ))
        return RunSpec(
            settings=setup.settings,
            headers=setup.plan.headers,
            env={name: os.environ[name] for name in names if name in os.environ},
            origin=setup.origin,
            instant=self._run.guard.instant,
            epoch=self._epoch,
            destination=self._destination,
            volumes=self._volumes,
            receipts=str(self._directory),
            wall_start_s=self._run.clock.wall() - self._now(),
            part_s=max(SHORTEST_PART_S, self._runner.slots / MOST_PARTS_A_S),
            at_a_time=self._runner.slots,
            knowledge=setup.knowledge,
            hub=None if hub is None else hub.address,
        )

    def _follow(self, job: Job, hub: Hub | None) -> bool:
        """Wait until all tasks have ended, or had enough time to stop. Returns whether they have ended."""
        stop_s: float | None = None
        pause_s = 0.0
        while not job.wait(pause_s):
            began_s = self._now()
            # older than the receipts, so that no file counts twice
            seen = hub.view() if hub is not None else EMPTY_VIEW
            self._read()
            if self._runner.sweeps:
                for orphans in self._orphans:
                    orphans.remove_if_due()
            self._take_notes(job)
            self._view.show(seen, job.views())
            if stop_s is None and (self._is_ending() or job.failure is not None):
                self._stop(job, hub)
                stop_s = self._now() + STOP_S
            if stop_s is not None and self._now() > stop_s:
                return False
            pause_s = max(POLL_S, READING_PAUSES * (self._now() - began_s))
            pause_s = min(pause_s, self._runner.longest_pause_s)
        return True

    def _is_ending(self) -> bool:
        """Whether an end was requested, or the plan is not this run's any more."""
        if self._ending.is_lost:
            self._ending.is_lost = False
            try:
                self._run.guard.confirm()
            except CfetchError as error:
                self._lost_by = error
        return self._ending.reason is not None or self._lost_by is not None

    def _stop(self, job: Job, hub: Hub | None) -> None:
        """Ask all tasks to end in good order. Their failures are emitted by the code that gets them."""
        reason = str(self._lost_by) if self._lost_by is not None else self._ending.reason
        if reason is not None:
            self._emit(RunStopping(t_s=self._now(), reason=reason))
        job.stop()
        if not self._runner.leads:
            job.cancel()
            return
        if hub is not None:
            hub.stop()
        stop = self._directory / STOP_NAME
        with on_disk(stop):
            stop.touch(0o600)

    def _explain(self, failure: BaseException) -> CfetchError:
        receipts = self._receipts.read_new(lambda name: name.startswith(f"fault-{self._epoch}-"))
        return self._runner.explain(failure, next((receipt.reports[0].fault for receipt in receipts), None))

    def _emit_earlier(self, root: Path) -> None:
        """Emit as skipped the entries that earlier runs of the plan have brought and that are in place.

        Tasks check a file that has changed since then like any other.
        """
        with closing(Directory(root)) as volume:
            for receipt in self._receipts.read_new(self._is_earlier, needs_all=False):
                written_ns = self._receipts.find_written_ns(receipt)
                for record in _read_records(receipt):
                    if record.id not in self._account and is_in_place(volume, record, written_ns=written_ns):
                        now_s = self._now()
                        skipped = msgspec.structs.replace(
                            record, status="skipped", attempts=[], stragglers=0, start_s=now_s, end_s=now_s
                        )
                        self._account.add(record.id)
                        self._emit(EntryFinished(t_s=now_s, record=skipped))

    def _is_earlier(self, name: str) -> bool:
        """Whether this is a receipt of an earlier run of the plan."""
        kind, _, rest = name.partition("-")
        epoch = rest.partition("-")[0]
        return kind in ("share", "part") and epoch.isdecimal() and int(epoch) < self._epoch

    def emit_unreported(self, root: Path, *, looks: bool = True) -> None:
        """Emit as skipped the files that stand without a report: a full disk refuses receipts too.

        A file gets its final name only when it is verified; the next run checks those that it did not bring.
        Without ``looks`` all others stand there for certain. Raises LocalFault.
        """
        entries = (
            entry
            for entry in self._setup.plan.entries()
            if entry.id not in self._account and entry.clash is None
        )
        volume = self._ask(root, partial(Directory, root)) if looks else None
        try:
            while block := list(islice(entries, BLOCK)):
                step = partial(self._list_standing, str(root), volume, block)
                # an abandoned call emits nothing, as it may return when the run has ended
                for record in self._ask(root, step) if looks else step():
                    self._account.add(record.id)
                    self._emit(EntryFinished(t_s=record.end_s, record=record))
        finally:
            if volume is not None:
                with suppress(VolumeFault):
                    self._ask(root, volume.close)

    def _list_standing(
        self, root: str, volume: Directory | None, entries: Sequence[Entry]
    ) -> list[FileRecord]:
        """The records of those entries that stand on the volume; None: all do."""
        records = (
            make_skipped_record(
                entry,
                self._run.guard.instant,
                host=host_of(entry.url.value),
                verified="none",
                volume=root,
                now_s=self._now(),
            )
            for entry in entries
        )
        return [record for record in records if volume is None or is_in_place(volume, record)]

    def _read(self) -> None:
        """Emit the events of new receipts."""
        kinds = (f"share-{self._epoch}-", f"part-{self._epoch}-")
        for receipt in self._receipts.read_new(lambda name: name.startswith(kinds)):
            try:
                for event in self._account.take_in(receipt):
                    self._emit(event)
            except OSError as error:
                raise local_fault(error, f"cannot read {self._directory / receipt.name}") from None
            except NOT_DECODED:
                if not receipt.is_over:  # a power cut has torn it, on the machine of a task
                    continue
                raise LocalFault(
                    f"{self._directory / receipt.name} is damaged; run the same command again"
                ) from None

    def _take_notes(self, job: Job) -> None:
        for note in job.take_notes():
            if isinstance(note, str):
                self._note(note)
            elif not isinstance(note, EntryFinished):
                self._emit(note)
            elif note.record.id not in self._account:
                self._account.add(note.record.id)
                self._emit(note)

    def _note(self, note: str) -> None:
        self._emit(RunNoted(t_s=self._now(), note=note))


def locate_shares(directory: Path, epoch: int) -> Path:
    """What a run may write about its shares, in the directory of its plan."""
    return directory / f"shares-{epoch}"


def _read_records(receipt: Receipt) -> list[FileRecord]:
    """The records of an earlier run's receipt; none if it cannot be read, as the tasks look at all files."""
    with suppress(OSError, *NOT_DECODED):
        return receipt.read_records()
    return []
