"""One execution of a plan as a job on Spark: the driver's side.

The driver freezes and guards the plan, cuts it into shares, and gives each to a task (``task``); Spark
carries neither bodies nor a row for each file. Receipts, one a share, report the events, which
the driver reads as they appear and emits as if they had happened here; so dashboard, metrics and summary are
those of a run on one machine. Only what has no receipt runs again: after a crash of an executor in the next
attempt of the task, after one of the driver in the next run.
"""

import os
import shutil
import threading
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from cfetch.clock import Clock, RunClock
from cfetch.config.settings import Settings
from cfetch.errors import CfetchError, LocalFault
from cfetch.events import (
    EntryFinished,
    Listener,
    RunFinished,
    RunNoted,
    RunStopping,
    fan_out,
)
from cfetch.hub.receipts import STOP_NAME, Account, ReceiptReader, is_in_place
from cfetch.hub.registry import EMPTY_VIEW, TaskRegistry
from cfetch.hub.server import Hub, open_hub
from cfetch.records import FileRecord, Summary
from cfetch.report.metrics import MetricsFile
from cfetch.report.summary import Tally
from cfetch.report.tracing import tracing_listener
from cfetch.run.fresh_links import ManifestRef
from cfetch.run.local_run import Guard, noted_signals, started
from cfetch.secret import printable
from cfetch.spark.job import (
    SETTINGS,
    call_off,
    count_slots,
    find_driver_address,
    find_task_fault,
    missing_settings,
    start_job,
)
from cfetch.spark.live_view import LiveView
from cfetch.spark.open_shares import ShareSource
from cfetch.spark.orphans import Orphans
from cfetch.spark.session import spark_session
from cfetch.spark.shares import Pace
from cfetch.spark.task import RunSpec, attempts_directory
from cfetch.storage.directory import Directory
from cfetch.storage.files import on_disk
from cfetch.wire.network import NETWORK_ENV

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ClusterGuard", "ClusterRun"]

POLL_S = 0.25  # receipts are looked for four times a second, as the dashboard is drawn
STOP_S = 60.0  # what tasks get to end in good order
READING_PAUSES = 9  # a run of many receipts spends no more than a tenth of the driver's time on them
SHORTEST_PART_S = 2.0  # a task reports so often the files that have ended
MOST_PARTS_A_S = 100  # and all tasks together no more often a second: each is a file
STATEMENT_ENV = ("DATABRICKS_HOST", "DATABRICKS_TOKEN")  # for fresh links of a statement


class ClusterGuard(Guard, Protocol):
    """The same, with the number of the execution: tasks need it."""

    @property
    def epoch(self) -> int:
        """The execution's."""


class ClusterRun:
    """``state`` and ``root`` are directories that the driver and all executors see. Used once."""

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
        self._shares = shares
        self._root = root
        self._state = state
        self._settings = settings
        self._origin = origin
        self._clock = clock
        self._lost = threading.Event()
        self._ended_by: list[CfetchError] = []
        self._account = Account()
        self._hub: Hub | None = None
        self._now = RunClock(clock).now  # from 0, once Spark is there
        self._view: LiveView | None = None

    def lose(self, why: str) -> None:  # noqa: ARG002 - the guard says it again when it is asked
        """The guard has lost the plan: stop. From any thread, at any time."""
        self._lost.set()

    def go(self, guard: ClusterGuard, metrics: MetricsFile, listener: Listener) -> Summary:
        """Download. Never raises for what happens to entries: the summary tells it, with the exit code.

        Raises:
            UsageError: Spark or Java is missing.
            LocalFault: the state cannot be written.
        """
        tally = Tally()
        tell = fan_out(*(one for one in (tally, metrics, tracing_listener(), listener) if one is not None))
        self._view = LiveView(len(self._shares.plan), tally.counts, self._account, self._now, tell)
        try:
            master = self._settings.spark_master
            noted = partial(
                noted_signals, self._ended_by
            )  # twice: Spark puts its own handler in the first's place
            with noted(), spark_session(master, settings=SETTINGS) as spark, noted():
                return self._go(spark, guard, tell, tally, metrics)
        finally:
            metrics.close()

    def _go(
        self, spark: "SparkSession", guard: ClusterGuard, tell: Listener, tally: Tally, metrics: MetricsFile
    ) -> Summary:
        slots = count_slots(spark)
        self._now = RunClock(self._clock).now
        tell(
            started(self._shares.plan, self._settings, [self._root], instant=guard.instant, clock=self._clock)
        )
        error: CfetchError | None = None
        orphans = Orphans(attempts_directory(self._root, guard.instant, guard.epoch), self._now)
        try:
            error = self._bring(spark, slots, guard, orphans, tell)
            self._settle(guard, error, tally, orphans)
        except CfetchError as fault:
            if str(fault) != str(error):
                tell(RunStopping(t_s=self._now(), reason=str(fault)))
            error = fault
        summary = tally.summary(self._now(), error=error, metrics=str(metrics.path))
        tell(RunFinished(t_s=self._now(), summary=summary))
        return summary

    def _bring(
        self, spark: "SparkSession", slots: int, guard: ClusterGuard, orphans: Orphans, tell: Listener
    ) -> CfetchError | None:
        """Run the job and tell what its tasks say; what ended it early."""
        directory = self._state / "plans" / guard.instant / "receipts"
        with on_disk(directory):
            directory.mkdir(0o700, parents=True, exist_ok=True)
            (directory / STOP_NAME).unlink(missing_ok=True)
        receipts = ReceiptReader(directory)
        self._tell_before(receipts, guard.epoch, tell)
        spec = self._make_spec(guard, directory, slots)
        own_shares = directory.parent / f"shares-{guard.epoch}"
        pace, per_host = Pace(concurrency=self._settings.concurrency), self._settings.per_host
        shares = self._shares.find_open_shares(
            self._account, own_shares, pace=pace, slots=slots, per_host=per_host
        )
        for note in shares.notes:
            tell(RunNoted(t_s=self._now(), note=note))
        if not shares.numbers:
            return None
        unset = missing_settings(spark)
        if unset:
            tell(
                RunNoted(
                    t_s=self._now(), note=f"the Spark session lacks {', '.join(unset)}; see docs/spark.md"
                )
            )
        tag = f"cfetch-{guard.instant}-{guard.epoch}"
        with ExitStack() as stack:
            self._hub = self._own_hub(spark, stack, tell)
            hub = self._hub and self._hub.address
            spec = msgspec.structs.replace(spec, hub=hub)
            future = start_job(spark, spec, shares.files, shares.numbers, tag)
            try:
                self._follow(future, receipts, guard.epoch, directory / STOP_NAME, orphans, tell)
            finally:
                if not future.done():
                    call_off(spark, tag)
                shutil.rmtree(own_shares, ignore_errors=True)
        self._read(receipts, guard.epoch, tell)
        for event in self._account.close():
            tell(event)
        if self._ended_by:
            return self._ended_by[0]
        if self._lost.is_set():
            guard.confirm()
        failure = future.exception() if future.done() else None
        if failure is None:
            return None
        fault = self._fault(directory, guard.epoch, failure)
        tell(RunStopping(t_s=self._now(), reason=str(fault)))
        return fault

    def _own_hub(self, spark: "SparkSession", stack: ExitStack, tell: Listener) -> Hub | None:
        """None where executors could not reach it; the run goes on by receipts and fixed shares."""
        at = find_driver_address(spark)
        if at is None:
            return None
        name, bind = at
        registry = TaskRegistry(self._settings.straggler, self._settings.per_host)
        try:
            return stack.enter_context(open_hub(registry, name, self._clock, bind=bind))
        except OSError as error:
            note = f"executors cannot be heard at {printable(name)} ({error.strerror}): no live view of them"
            tell(RunNoted(t_s=self._now(), note=note))
            return None

    def _make_spec(self, guard: ClusterGuard, receipts: Path, slots: int) -> RunSpec:
        asks = self._origin.statement_id or self._settings.statement_host
        names = NETWORK_ENV + (STATEMENT_ENV if asks else ())
        return RunSpec(
            settings=self._settings,
            headers=self._shares.plan.headers,
            env={name: os.environ[name] for name in names if name in os.environ},
            origin=self._origin,
            instant=guard.instant,
            epoch=guard.epoch,
            root=str(self._root),
            receipts=str(receipts),
            wall_start_s=self._clock.wall() - self._now(),
            part_s=max(SHORTEST_PART_S, slots / MOST_PARTS_A_S),
            at_a_time=slots,
        )

    def _follow(
        self,
        future: "Future[None]",
        receipts: ReceiptReader,
        epoch: int,
        stop: Path,
        orphans: Orphans,
        tell: Listener,
    ) -> None:
        """Until the job is over, or has been told to stop for long enough."""
        stop_s: float | None = None
        while not future.done():
            began_s = self._now()
            self._read(receipts, epoch, tell)
            orphans.look()
            if self._view is not None:
                self._view.show(self._hub.view() if self._hub is not None else EMPTY_VIEW)
            if stop_s is None and (self._ended_by or self._lost.is_set()):
                reason = "closing what is under way on all executors; once more to leave at once"
                tell(RunStopping(t_s=self._now(), reason=reason))
                if self._hub is not None:
                    self._hub.stop()
                with on_disk(stop):
                    stop.touch(0o600)
                stop_s = self._now() + STOP_S
            if stop_s is not None and self._now() > stop_s:
                return
            wait([future], max(POLL_S, READING_PAUSES * (self._now() - began_s)))

    def _fault(self, receipts: Path, epoch: int, failure: BaseException) -> LocalFault:
        for receipt in ReceiptReader(receipts).read_new(lambda name: name.startswith(f"fault-{epoch}-")):
            return LocalFault(f"an executor cannot work: {receipt.fault}")
        said = find_task_fault(failure)
        if said is not None:
            return LocalFault(f"an executor cannot work: {said}")
        kind = type(failure).__name__
        return LocalFault(
            f"the Spark job ended early ({kind}); the executors' logs say why, then run it again"
        )

    def _settle(self, guard: ClusterGuard, error: CfetchError | None, tally: Tally, orphans: Orphans) -> None:
        if isinstance(error, LocalFault):
            guard.confirm()
        elif error is None and not tally.unfinished:
            orphans.clear()
            guard.commit(files=len(self._shares.plan), size_bytes=self._shares.plan.total_bytes)

    def _tell_before(self, receipts: ReceiptReader, epoch: int, tell: Listener) -> None:
        """The entries that earlier runs of the plan have brought and that stand; told as skipped."""
        volume = Directory(self._root)
        try:
            for receipt in receipts.read_new(lambda name: name.startswith(("share-", "part-"))):
                for record in receipt.records if receipt.epoch < epoch else ():
                    if record.id not in self._account and is_in_place(volume, record):
                        self._account.add(record.id)
                        tell(self._finish_skipped(record))
        finally:
            volume.close()

    def _finish_skipped(self, record: FileRecord) -> EntryFinished:
        now_s = self._now()
        skipped = msgspec.structs.replace(
            record, status="skipped", attempts=[], stragglers=0, start_s=now_s, end_s=now_s
        )
        return EntryFinished(t_s=now_s, record=skipped)

    def _read(self, receipts: ReceiptReader, epoch: int, tell: Listener) -> None:
        """Tell what new receipts say."""
        kinds = (f"share-{epoch}-", f"part-{epoch}-")
        for receipt in receipts.read_new(lambda name: name.startswith(kinds)):
            for event in self._account.take_in(receipt):
                tell(event)
