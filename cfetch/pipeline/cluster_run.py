"""One execution of a plan as a job on Spark: the driver's side.

The driver freezes and guards the plan, cuts it into batches, and gives each to a task (``work``); Spark
carries neither bodies nor a row for each file. What happened is told by receipts, one a batch, which the
driver reads as they appear and tells on as if it had happened here; so dashboard, metrics and summary are
those of a run on one machine. Only what has no receipt runs again: after a crash of an executor in the next
attempt of the task, after one of the driver in the next run.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from cfetch import __version__
from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.errors import CfetchError, Interrupted, LocalFault
from cfetch.events import (
    BaselineView,
    EntryFinished,
    Event,
    Listener,
    Progress,
    RunFinished,
    RunStarted,
    RunStopping,
    Summary,
    fan_out,
)
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.pipeline.session import spark_session
from cfetch.pipeline.shares import Pace, shares
from cfetch.pipeline.work import STOP_NAME, Receipt, Work, do_batch
from cfetch.placement.local import local_fault
from cfetch.report.metrics import MetricsFile
from cfetch.report.summary import Tally
from cfetch.report.tracing import tracing_listener

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["ClusterGuard", "ClusterRun"]

POLL_S = 0.25  # receipts are looked for four times a second, as the dashboard is drawn
STOP_S = 60.0  # what tasks get to end in good order
WRITTEN_AT_ONCE = 10_000  # entries in the driver's memory while they are written for the tasks
NETWORK_ENV = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "NETRC")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ClusterGuard(Protocol):
    """What keeps other runs off the plan; ``timeline.execution.Execution`` is one."""

    @property
    def instant(self) -> str:
        """The plan's."""

    @property
    def epoch(self) -> int:
        """The execution's."""

    def confirm(self) -> None:
        """Raises Held or LocalFault if the plan is not this run's any more."""

    def commit(self, *, files: int, size_bytes: int) -> None:
        """Everything is in place and durable. Raises Held, LocalFault."""


class ClusterRun:
    """``state`` and ``root`` are directories that the driver and all executors see. Used once."""

    def __init__(self, plan: Plan, root: Path, state: Path, settings: Settings, *, clock: Clock) -> None:
        self._plan = plan
        self._root = root
        self._state = state
        self._settings = settings
        self._clock = clock
        self._lost = threading.Event()
        self._ended_by: list[CfetchError] = []
        self._seen: set[str] = set()
        self._start_s = 0.0
        self._ended = {"done": 0, "skipped": 0, "failed": 0, "cancelled": 0}
        self._bytes_done = 0
        self._retries = 0
        self._stragglers = 0

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
        told = fan_out(*(one for one in (tally, metrics, tracing_listener(), listener) if one is not None))
        try:
            with spark_session(self._settings.spark_master) as spark:
                return self._go(spark, guard, self._counting(told), tally, metrics)
        finally:
            metrics.close()

    def _go(
        self, spark: "SparkSession", guard: ClusterGuard, tell: Listener, tally: Tally, metrics: MetricsFile
    ) -> Summary:
        self._start_s = self._clock.monotonic()
        tell(self._started(guard.instant))
        receipts = self._state / "plans" / guard.instant / "receipts"
        error: CfetchError | None = None
        try:
            with _on_disk(receipts):
                receipts.mkdir(0o700, parents=True, exist_ok=True)
                (receipts / STOP_NAME).unlink(missing_ok=True)
            done = self._told_before(receipts, guard.epoch, tell)
            error = self._bring(spark, guard, receipts, done, tell)
            self._settle(guard, error, tally)
        except CfetchError as fault:
            if str(fault) != str(error):
                tell(RunStopping(t_s=self._now(), reason=str(fault)))
            error = fault
        summary = tally.summary(self._now(), error=error, metrics=str(metrics.path))
        tell(RunFinished(t_s=self._now(), summary=summary))
        return summary

    def _bring(
        self, spark: "SparkSession", guard: ClusterGuard, receipts: Path, done: set[int], tell: Listener
    ) -> CfetchError | None:
        """Run the job and tell what its tasks say; what ended it early."""
        work = Work(
            settings=self._settings,
            headers=self._plan.headers,
            env={name: os.environ[name] for name in NETWORK_ENV if name in os.environ},
            instant=guard.instant,
            epoch=guard.epoch,
            root=str(self._root),
            receipts=str(receipts),
            wall_start_s=self._clock.wall() - self._now(),
        )
        path = receipts.parent / f"work-{guard.epoch}.parquet"
        batches = self._write_work(path, done, slots_of(spark))
        if not batches:
            return None
        tag = f"cfetch-{guard.instant}-{guard.epoch}"
        future: Future[None] = Future()
        threading.Thread(
            target=_run_job, args=(spark, path, work, batches, tag, future), name="spark job", daemon=True
        ).start()
        with self._signals():
            self._follow(future, receipts, guard.epoch, tell)
        if future.running() or not future.done():
            spark.interruptTag(tag)
        self._read(receipts, guard.epoch, tell)
        with suppress(OSError):
            path.unlink()
        if self._ended_by:
            return self._ended_by[0]
        if self._lost.is_set():
            guard.confirm()
        failure = future.exception() if future.done() else None
        return None if failure is None else self._fault(receipts, guard.epoch, failure)

    def _follow(self, future: "Future[None]", receipts: Path, epoch: int, tell: Listener) -> None:
        """Until the job is over, or has been told to stop for long enough."""
        stop_s: float | None = None
        while not future.done():
            self._read(receipts, epoch, tell)
            tell(self._progress())
            if stop_s is None and (self._ended_by or self._lost.is_set()):
                reason = "closing what is under way on all executors; once more to leave at once"
                tell(RunStopping(t_s=self._now(), reason=reason))
                with _on_disk(receipts):
                    (receipts / STOP_NAME).touch(0o600)
                stop_s = self._now() + STOP_S
            if stop_s is not None and self._now() > stop_s:
                return
            time.sleep(POLL_S)

    def _fault(self, receipts: Path, epoch: int, failure: BaseException) -> LocalFault:
        for name in sorted(os.listdir(receipts)):
            if name.startswith(f"fault-{epoch}-"):
                with suppress(OSError, msgspec.MsgspecError):
                    receipt = msgspec.json.decode((receipts / name).read_bytes(), type=Receipt)
                    return LocalFault(f"an executor cannot work: {receipt.fault}")
        kind = type(failure).__name__
        return LocalFault(
            f"the Spark job ended early ({kind}); the executors' logs say why, then run it again"
        )

    def _settle(self, guard: ClusterGuard, error: CfetchError | None, tally: Tally) -> None:
        if isinstance(error, LocalFault):
            guard.confirm()
        elif error is None and not tally.unfinished:
            guard.commit(files=len(self._plan), size_bytes=self._plan.total_bytes)

    def _write_work(self, path: Path, done: set[int], slots: int) -> int:
        """Write what the tasks are to do; the number of batches."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        left = [
            index for index in range(len(self._plan)) if not done or self._plan.entry(index).id not in done
        ]
        sizes, hosts = self._plan.sizes, self._plan.host_of
        pace = Pace(concurrency=self._settings.concurrency)
        cut = shares([sizes[i] for i in left], [hosts[i] for i in left], pace=pace, slots=slots)
        schema = pa.schema([("batch", pa.int32()), ("entry", pa.binary())])
        encode = msgspec.msgpack.Encoder().encode
        with _on_disk(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file, pq.ParquetWriter(file, schema) as writer:
                for start in range(0, len(left), WRITTEN_AT_ONCE):
                    part = left[start : start + WRITTEN_AT_ONCE]
                    entries = [encode(self._plan.entry(index)) for index in part]
                    numbers = cut.batch_of[start : start + WRITTEN_AT_ONCE]
                    writer.write_batch(pa.record_batch([pa.array(numbers, pa.int32()), entries], schema))
        return len(cut.cost_s)

    def _told_before(self, receipts: Path, epoch: int, tell: Listener) -> set[int]:
        """The entries that earlier runs of the plan have brought in place; told as skipped."""
        done: set[int] = set()
        for receipt in _receipts(receipts, lambda name: name.startswith("batch-"), self._seen):
            if receipt.epoch >= epoch:
                continue
            for event in receipt.events:
                if not isinstance(event, EntryFinished) or event.record.status not in ("done", "skipped"):
                    continue
                if event.record.id not in done:
                    done.add(event.record.id)
                    now_s = self._now()
                    record = msgspec.structs.replace(
                        event.record, status="skipped", attempts=[], stragglers=0, start_s=now_s, end_s=now_s
                    )
                    tell(EntryFinished(t_s=now_s, record=record))
        return done

    def _read(self, receipts: Path, epoch: int, tell: Listener) -> None:
        """Tell what new receipts say."""
        kinds = (f"batch-{epoch}-", f"part-{epoch}-")
        for receipt in _receipts(receipts, lambda name: name.startswith(kinds), self._seen):
            for event in receipt.events:
                tell(event)

    def _counting(self, tell: Listener) -> Listener:
        def count(event: Event) -> None:
            if isinstance(event, EntryFinished):
                self._ended[event.record.status] += 1
                self._stragglers += event.record.stragglers
                if event.record.status in ("done", "skipped"):
                    self._bytes_done += event.record.bytes
                self._retries += max(0, len(event.record.attempts) - 1)
            tell(event)

        return count

    def _progress(self) -> Progress:
        return Progress(
            t_s=self._now(),
            done=self._ended["done"],
            skipped=self._ended["skipped"],
            failed=self._ended["failed"],
            retries=self._retries,
            bytes_done=self._bytes_done,
            bytes_active=0,
            bytes_wasted=0,
            active=[],
            waiting=len(self._plan) - sum(self._ended.values()),
            baseline=BaselineView(median_bps=None, finished=0, required=0),
            stragglers=self._stragglers,
            sequential=False,
        )

    def _started(self, instant: str) -> RunStarted:
        return RunStarted(
            t_s=0.0,
            instant=instant,
            wall_start=datetime.fromtimestamp(self._clock.wall(), UTC).isoformat(timespec="milliseconds"),
            version=__version__,
            host=socket.gethostname(),
            files=len(self._plan),
            bytes_known=self._plan.total_bytes,
            sizes_unknown=self._plan.sizes_unknown,
            concurrency=self._settings.concurrency,
            destination=str(self._root),
            destinations=(str(self._root),),
            settings=self._settings.public(),
        )

    def _now(self) -> float:
        return self._clock.monotonic() - self._start_s

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first ends the run in good order; the second ends the process at once."""

        def on_signal(number: int, _frame: object) -> None:
            if self._ended_by:
                os._exit(128 + number)
            self._ended_by.append(Interrupted(number))

        mine = threading.current_thread() is threading.main_thread()
        before = {one: signal.getsignal(one) for one in SIGNALS} if mine else {}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def slots_of(spark: "SparkSession") -> int:
    """How many tasks run at a time, as far as that is known now."""
    with suppress(Exception):  # Connect does not tell
        return max(1, spark.sparkContext.defaultParallelism)
    return 2


def _receipts(directory: Path, wanted: Callable[[str], bool], seen: set[str]) -> Iterator[Receipt]:
    """Those that were not read before."""
    with _on_disk(directory):
        names = sorted(name for name in os.listdir(directory) if wanted(name) and name not in seen)
    for name in names:
        seen.add(name)
        with _on_disk(directory):
            data = (directory / name).read_bytes()
        try:
            yield msgspec.json.decode(data, type=Receipt)
        except msgspec.MsgspecError:
            raise LocalFault(
                f"{directory / name} is damaged; remove it and run the same command again"
            ) from None


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise local_fault(error, f"cannot use {path}") from None


def _run_job(
    spark: "SparkSession", path: Path, work: Work, batches: int, tag: str, future: "Future[None]"
) -> None:
    """In a thread: one action, which ends when all tasks have. No RDD and no context, so Connect will do."""
    try:
        from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents have it

        spark.addTag(tag)
        frame = spark.read.parquet(str(path)).repartitionById(batches, F.col("batch"))
        frame.mapInArrow(_task_of(work), "batch int, files int, failed int").collect()
    except BaseException as error:  # noqa: BLE001 - it is the follower's
        future.set_exception(error)
    else:
        future.set_result(None)


def _task_of(work: Work) -> Any:  # noqa: ANN401 - what mapInArrow takes
    def task(rows: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark import TaskContext

        decode = msgspec.msgpack.Decoder(Entry).decode
        found: dict[int, list[Entry]] = {}
        for part in rows:
            for batch, entry in zip(part.column(0).to_pylist(), part.column(1).to_pylist(), strict=True):
                found.setdefault(batch, []).append(decode(entry))
        context = TaskContext.get()
        assert context is not None
        number, attempt = context.taskAttemptId(), context.attemptNumber()
        for batch, entries in found.items():
            done = do_batch(work, batch, entries, task=number, attempt=attempt)
            yield pa.RecordBatch.from_pylist(
                [{"batch": done.batch, "files": done.files, "failed": done.failed}],
                schema=pa.schema([("batch", pa.int32()), ("files", pa.int32()), ("failed", pa.int32())]),
            )

    return task
