"""One execution of a plan as a job on Spark: the driver's side.

The driver freezes and guards the plan, cuts it into batches, and gives each to a task (``work``); Spark
carries neither bodies nor a row for each file. What happened is told by receipts, one a batch, which the
driver reads as they appear and tells on as if it had happened here; so dashboard, metrics and summary are
those of a run on one machine. Only what has no receipt runs again: after a crash of an executor in the next
attempt of the task, after one of the driver in the next run.
"""

import os
import stat
import threading
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
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
from cfetch.hub.book import NOBODY, Book
from cfetch.hub.receipts import STOP_NAME, Account, Living, Receipts
from cfetch.hub.server import Hub, open_hub
from cfetch.records import FileRecord, Summary
from cfetch.report.metrics import MetricsFile
from cfetch.report.summary import Tally
from cfetch.report.tracing import tracing_listener
from cfetch.run.fresh_links import ManifestRef
from cfetch.run.local_run import Guard, noted_signals, started
from cfetch.secret import printable
from cfetch.spark.job import SETTINGS, call_off, driver_at, own_words, slots_of, start_job, unlike
from cfetch.spark.live_view import LiveView
from cfetch.spark.orphans import Orphans
from cfetch.spark.session import spark_session
from cfetch.spark.shares import Pace
from cfetch.spark.task import Work, attempts_of
from cfetch.spark.to_do import TaskSource
from cfetch.storage.files import on_disk
from cfetch.wire.network import NETWORK_ENV

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ClusterGuard", "ClusterRun"]

POLL_S = 0.25  # receipts are looked for four times a second, as the dashboard is drawn
STOP_S = 60.0  # what tasks get to end in good order
READING_PAUSES = 9  # a run of many receipts spends no more than a tenth of the driver's time on them
SHORTEST_PART_S = 2.0  # a task tells so often what it has done
MOST_PARTS_A_S = 100  # and all tasks together no more often a second: each is a file
SILENT_PARTS = 5  # a task that has not been heard for so many of its turns is not shown
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
        tasks: TaskSource,
        root: Path,
        state: Path,
        settings: Settings,
        *,
        origin: ManifestRef,
        clock: Clock,
    ) -> None:
        self._tasks = tasks
        self._root = root
        self._state = state
        self._settings = settings
        self._origin = origin
        self._clock = clock
        self._lost = threading.Event()
        self._ended_by: list[CfetchError] = []
        self._account = Account()
        self._living: Living | None = None
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
        self._view = LiveView(len(self._tasks.plan), tally.counts, self._account, self._now, tell)
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
        slots = slots_of(spark)
        self._now = RunClock(self._clock).now
        tell(
            started(self._tasks.plan, self._settings, [self._root], instant=guard.instant, clock=self._clock)
        )
        error: CfetchError | None = None
        orphans = Orphans(attempts_of(self._root, guard.instant, guard.epoch), self._now)
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
        receipts = Receipts(directory)
        self._tell_before(receipts, guard.epoch, tell)
        work = self._work(guard, directory, slots)
        path = Path(work.work_file)
        pace, per_host = Pace(concurrency=self._settings.concurrency), self._settings.per_host
        todo = self._tasks.to_do(self._account, path, pace=pace, slots=slots, per_host=per_host)
        for note in todo.notes:
            tell(RunNoted(t_s=self._now(), note=note))
        if not todo.batches:
            return None
        work = msgspec.structs.replace(work, parts=todo.parts, numbers=todo.numbers)
        unset = unlike(spark)
        if unset:
            tell(
                RunNoted(
                    t_s=self._now(), note=f"the Spark session lacks {', '.join(unset)}; see docs/spark.md"
                )
            )
        silent_s = SILENT_PARTS * work.part_s
        self._living = Living(directory, guard.epoch, self._now, silent_s=silent_s)
        tag = f"cfetch-{guard.instant}-{guard.epoch}"
        with ExitStack() as stack:
            self._hub = self._own_hub(spark, stack, tell)
            hub_at = self._hub and self._hub.at
            future = start_job(spark, msgspec.structs.replace(work, hub=hub_at), todo.batches, tag)
            try:
                self._follow(future, receipts, guard.epoch, directory / STOP_NAME, orphans, tell)
            finally:
                if not future.done():
                    call_off(spark, tag)
                with suppress(OSError):
                    path.unlink()
        self._read(receipts, guard.epoch, tell)
        for event in self._account.left():
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
        at = driver_at(spark)
        if at is None:
            return None
        name, bind = at
        book = Book(self._settings.straggler, self._settings.per_host)
        try:
            return stack.enter_context(open_hub(book, name, self._clock, bind=bind))
        except OSError as error:
            note = f"executors cannot be heard at {printable(name)} ({error.strerror}): no live view of them"
            tell(RunNoted(t_s=self._now(), note=note))
            return None

    def _work(self, guard: ClusterGuard, receipts: Path, slots: int) -> Work:
        asks = self._origin.statement_id or self._settings.statement_host
        names = NETWORK_ENV + (STATEMENT_ENV if asks else ())
        return Work(
            settings=self._settings,
            headers=self._tasks.plan.headers,
            env={name: os.environ[name] for name in names if name in os.environ},
            origin=self._origin,
            instant=guard.instant,
            epoch=guard.epoch,
            root=str(self._root),
            receipts=str(receipts),
            work_file=str(receipts.parent / f"work-{guard.epoch}.parquet"),
            wall_start_s=self._clock.wall() - self._now(),
            part_s=max(SHORTEST_PART_S, slots / MOST_PARTS_A_S),
            at_a_time=slots,
        )

    def _follow(
        self,
        future: "Future[None]",
        receipts: Receipts,
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
                seen = self._hub.look() if self._hub is not None else NOBODY
                self._view.show(seen, self._living.look() if self._living is not None else [])
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
        for receipt in Receipts(receipts).new(lambda name: name.startswith(f"fault-{epoch}-")):
            return LocalFault(f"an executor cannot work: {receipt.fault}")
        said = own_words(failure)
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
            guard.commit(files=len(self._tasks.plan), size_bytes=self._tasks.plan.total_bytes)

    def _tell_before(self, receipts: Receipts, epoch: int, tell: Listener) -> None:
        """The entries that earlier runs of the plan have brought and that stand; told as skipped."""
        for receipt in receipts.new(lambda name: name.startswith(("batch-", "part-"))):
            for event in receipt.events if receipt.epoch < epoch else ():
                if not isinstance(event, EntryFinished):
                    continue
                record = event.record
                is_new = record.is_in_place and record.id not in self._account
                if is_new and self._stands(record):
                    self._account.add(record.id)
                    now_s = self._now()
                    record = msgspec.structs.replace(
                        record, status="skipped", attempts=[], stragglers=0, start_s=now_s, end_s=now_s
                    )
                    tell(EntryFinished(t_s=now_s, record=record))

    def _stands(self, record: FileRecord) -> bool:
        with suppress(OSError):
            found = (self._root / record.path).lstat()
            return stat.S_ISREG(found.st_mode) and found.st_size == record.bytes
        return False

    def _read(self, receipts: Receipts, epoch: int, tell: Listener) -> None:
        """Tell what new receipts say."""
        kinds = (f"batch-{epoch}-", f"part-{epoch}-")
        for receipt in receipts.new(lambda name: name.startswith(kinds)):
            for event in self._account.news(receipt):
                tell(event)
