"""One execution of a plan as a job on Spark: the driver's side.

The driver freezes and guards the plan, cuts it into shares, and gives each to a task (``task``); Spark
carries neither bodies nor a row for each file. Receipts, one a share, report the events, which
the driver reads as they appear and emits as if they had happened here; so dashboard, metrics and summary are
those of a run on one machine. Only what has no receipt runs again: after a crash of an executor in the next
attempt of the task, after one of the driver in the next run.
"""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.errors import CfetchError, LocalFault
from cfetch.events import EntryFinished, RunNoted, RunStopping
from cfetch.hub.receipts import STOP_NAME, Account, ReceiptReader, is_in_place
from cfetch.hub.registry import EMPTY_VIEW, TaskRegistry
from cfetch.hub.server import Hub, open_hub
from cfetch.records import FileRecord
from cfetch.run.frame import Run
from cfetch.run.fresh_links import ManifestRef
from cfetch.run.signals import keep_handlers
from cfetch.secret import printable
from cfetch.spark.job import (
    SETTINGS,
    cancel_jobs,
    count_slots,
    find_driver_address,
    find_task_fault,
    list_missing_settings,
    start_job,
)
from cfetch.spark.live_view import LiveView
from cfetch.spark.open_shares import ShareSource
from cfetch.spark.orphans import Orphans
from cfetch.spark.session import spark_session
from cfetch.spark.shares import Pace
from cfetch.spark.task import RunSpec, attempts_directory
from cfetch.storage.directory import Directory
from cfetch.storage.files import make_private, on_disk
from cfetch.straggler.knowledge import NOTHING
from cfetch.wire.network import NETWORK_ENV

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POLL_S = 0.25  # receipts are looked for four times a second, as the dashboard is drawn
STOP_S = 60.0  # what tasks get to end in good order
READING_PAUSES = 9  # a run of many receipts spends no more than a tenth of the driver's time on them
SHORTEST_PART_S = 2.0  # a task reports so often the files that have ended
MOST_PARTS_A_S = 100  # and all tasks together no more often a second: each is a file
STATEMENT_ENV = ("DATABRICKS_HOST", "DATABRICKS_TOKEN")  # for fresh links of a statement


class SparkEngine:
    """``state`` and ``root`` are directories that the driver and all executors see. Used once."""

    learned = NOTHING  # each share learns by itself, and the hub while the run lasts

    def __init__(
        self,
        shares: ShareSource,
        root: Path,
        state: Path,
        settings: Settings,
        *,
        origin: ManifestRef,
        clock: Clock,
    ) -> None:
        self._setup = _Setup(shares, root, state, settings, origin, clock)
        self._ending = _Ending()
        self._spark: SparkSession | None = None
        self._slots = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """A session, once its executors are there. Raises UsageError: Spark or Java is missing."""
        with ExitStack() as stack:
            with keep_handlers():  # Spark puts its own one in the place of a run's
                master = self._setup.settings.spark_master
                self._spark = stack.enter_context(spark_session(master, settings=SETTINGS))
            self._slots = count_slots(self._spark)
            yield

    def bring(self, run: Run) -> CfetchError | None:
        """Implements ``Engine.bring``."""
        assert self._spark is not None
        return _Driver(self._setup, self._spark, self._slots, run, self._ending).bring()

    def stop(self, reason: str) -> None:
        """Implements ``Engine.stop``."""
        self._ending.reason = self._ending.reason or reason

    def lose(self, why: str) -> None:  # noqa: ARG002 - the guard says it again when it is asked
        """Implements ``Engine.lose``."""
        self._ending.is_lost = True


class _Setup(NamedTuple):
    shares: ShareSource
    root: Path
    state: Path
    settings: Settings
    origin: ManifestRef
    clock: Clock


class _Ending:
    """Whether the job is to end early; set by other threads and signal handlers, looked at by the driver."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.is_lost = False  # says the guard, and is asked again


class _Driver:
    """One job: its receipts read as they come, its tasks shown, its end."""

    def __init__(self, setup: _Setup, spark: "SparkSession", slots: int, run: Run, ending: _Ending) -> None:
        self._setup = setup
        self._spark = spark
        self._slots = slots
        self._run = run
        self._ending = ending
        self._emit = run.emit
        self._now = run.clock.now
        self._epoch = run.guard.epoch
        self._directory = setup.state / "plans" / run.guard.instant / "receipts"
        self._receipts = ReceiptReader(self._directory)
        self._account = Account()
        self._lost_by: CfetchError | None = None
        self._orphans = Orphans(attempts_directory(setup.root, run.guard.instant, self._epoch), self._now)
        self._view = LiveView(len(setup.shares.plan), run.counts.ended, self._account, self._now, run.emit)

    def bring(self) -> CfetchError | None:
        """Run the job and emit the events of its tasks. See ``Engine.bring``."""
        with on_disk(self._directory):
            make_private(self._directory)
            (self._directory / STOP_NAME).unlink(missing_ok=True)
        self._emit_earlier()
        failure = self._run_job()
        if failure is not None and not self._is_ending():
            raise self._fault(failure)
        if self._run.counts.ended.in_place == len(self._setup.shares.plan):
            self._orphans.clear()
        return self._lost_by

    def _run_job(self) -> BaseException | None:
        """Start a task for each open share, and follow them; the error that ended the job early."""
        spec, settings = self._make_spec(), self._setup.settings
        own_shares = self._directory.parent / f"shares-{self._epoch}"
        shares = self._setup.shares.find_open_shares(
            self._account,
            own_shares,
            pace=Pace(concurrency=settings.concurrency),
            slots=self._slots,
            per_host=settings.per_host,
        )
        for note in shares.notes:
            self._note(note)
        if not shares.numbers:
            return None
        unset = list_missing_settings(self._spark)
        if unset:
            self._note(f"the Spark session lacks {', '.join(unset)}; see docs/spark.md")
        tag = f"cfetch-{spec.instant}-{self._epoch}"
        with ExitStack() as stack:
            hub = self._own_hub(stack)
            spec = msgspec.structs.replace(spec, hub=hub and hub.address)
            future = start_job(self._spark, spec, shares.files, shares.numbers, tag)
            try:
                self._follow(future, hub)
            finally:
                if not future.done():
                    cancel_jobs(self._spark, tag)
                shutil.rmtree(own_shares, ignore_errors=True)
        self._read()
        for event in self._account.close():
            self._emit(event)
        return future.exception() if future.done() else None

    def _own_hub(self, stack: ExitStack) -> Hub | None:
        """None where executors could not reach it; the run goes on by receipts and fixed limits."""
        address = find_driver_address(self._spark)
        if address is None:
            return None
        name, bind = address
        registry = TaskRegistry(self._setup.settings.straggler, self._setup.settings.per_host)
        try:
            return stack.enter_context(open_hub(registry, name, self._setup.clock, bind=bind))
        except OSError as error:
            self._note(
                f"executors cannot be heard at {printable(name)} ({error.strerror}): no live view of them"
            )
            return None

    def _make_spec(self) -> RunSpec:
        shares, root, _, settings, origin, _ = self._setup
        asks = origin.statement_id or settings.statement_host
        names = NETWORK_ENV + (STATEMENT_ENV if asks else ())
        return RunSpec(
            settings=settings,
            headers=shares.plan.headers,
            env={name: os.environ[name] for name in names if name in os.environ},
            origin=origin,
            instant=self._run.guard.instant,
            epoch=self._epoch,
            root=str(root),
            receipts=str(self._directory),
            wall_start_s=self._run.clock.wall() - self._now(),
            part_s=max(SHORTEST_PART_S, self._slots / MOST_PARTS_A_S),
            at_a_time=self._slots,
        )

    def _follow(self, future: "Future[None]", hub: Hub | None) -> None:
        """Wait until the job is over, or until it has had enough time to stop."""
        stop_s: float | None = None
        while not future.done():
            began_s = self._now()
            self._read()
            self._orphans.look()
            self._view.show(hub.view() if hub is not None else EMPTY_VIEW)
            if stop_s is None and self._is_ending():
                self._stop(hub)
                stop_s = self._now() + STOP_S
            if stop_s is not None and self._now() > stop_s:
                return
            wait([future], max(POLL_S, READING_PAUSES * (self._now() - began_s)))

    def _is_ending(self) -> bool:
        """Whether somebody wants an end, or the plan is not this run's any more."""
        if self._ending.is_lost:
            self._ending.is_lost = False
            try:
                self._run.guard.confirm()
            except CfetchError as error:
                self._lost_by = error
        return self._ending.reason is not None or self._lost_by is not None

    def _stop(self, hub: Hub | None) -> None:
        """Ask all tasks to end in good order."""
        reason = str(self._lost_by) if self._lost_by is not None else str(self._ending.reason)
        self._emit(RunStopping(t_s=self._now(), reason=reason))
        if hub is not None:
            hub.stop()
        stop = self._directory / STOP_NAME
        with on_disk(stop):
            stop.touch(0o600)

    def _fault(self, failure: BaseException) -> LocalFault:
        for receipt in self._receipts.read_new(lambda name: name.startswith(f"fault-{self._epoch}-")):
            return LocalFault(f"an executor cannot work: {receipt.fault}")
        said = find_task_fault(failure)
        if said is not None:
            return LocalFault(f"an executor cannot work: {said}")
        kind = type(failure).__name__
        return LocalFault(
            f"the Spark job ended early ({kind}); the executors' logs say why, then run it again"
        )

    def _emit_earlier(self) -> None:
        """The entries that earlier runs of the plan have brought and that are in place, as skipped."""
        with closing(Directory(self._setup.root)) as volume:
            for receipt in self._receipts.read_new(lambda name: name.startswith(("share-", "part-"))):
                for record in receipt.records if receipt.epoch < self._epoch else ():
                    if record.id not in self._account and is_in_place(volume, record):
                        self._account.add(record.id)
                        self._emit(self._finish_skipped(record))

    def _finish_skipped(self, record: FileRecord) -> EntryFinished:
        now_s = self._now()
        skipped = msgspec.structs.replace(
            record, status="skipped", attempts=[], stragglers=0, start_s=now_s, end_s=now_s
        )
        return EntryFinished(t_s=now_s, record=skipped)

    def _read(self) -> None:
        """Emit what new receipts say."""
        kinds = (f"share-{self._epoch}-", f"part-{self._epoch}-")
        for receipt in self._receipts.read_new(lambda name: name.startswith(kinds)):
            for event in self._account.take_in(receipt):
                self._emit(event)

    def _note(self, note: str) -> None:
        self._emit(RunNoted(t_s=self._now(), note=note))
