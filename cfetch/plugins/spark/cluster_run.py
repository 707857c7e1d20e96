"""Runs tasks on Spark, for the driver of ``cfetch/tasks/shares/``.

Spark carries neither bodies nor a row for each file: a task gets the number of its share and reads it from
disk. After a crash of an executor, the next attempt of its task continues; after a crash of the driver, the
next run does.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, LocalFault
from cfetch.base.events import Event, VolumeView
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entries import Frozen
from cfetch.plugins.spark.job import (
    SETTINGS,
    cancel_jobs,
    count_slots_to_come,
    find_driver_address,
    is_one_machine,
    name_executor,
    name_job,
    note_missing_settings,
    start_thread,
)
from cfetch.plugins.spark.open_shares import OpenShares, find_open_shares
from cfetch.plugins.spark.preflight import Look, check_executors
from cfetch.plugins.spark.session import spark_session
from cfetch.plugins.spark.work import current_task, explain_failure, make_frame
from cfetch.run.signals import keep_handlers
from cfetch.show.format import plural
from cfetch.storage.buckets.object_store import pick_login
from cfetch.straggler.knowledge import NOTHING
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub, HubPlace
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.driver import Job
from cfetch.tasks.shares.task import bring_share
from cfetch.tasks.shares.work import RunSpec, Turn
from cfetch.wire.network import make_network

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkTasks:
    """Implements ``TaskRunner``."""

    longest_pause_s = float("inf")
    leads = True
    sweeps = True  # a killed Python worker removes nothing
    roots: tuple[Path, ...] = ()
    learned = NOTHING  # each share learns by itself, and the hub only while the run lasts

    def __init__(self, plan: Frozen, settings: Settings) -> None:
        self._plan = plan
        self._settings = settings
        # A cluster's plans are large, and a look at each file takes long. A batch is there if all of it is:
        # its task looks, by the batch's record.
        self.trusts_receipts = not plan.names_batches
        self._spark: SparkSession | None = None
        self._open: OpenShares | None = None
        self.slots = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open a session and wait for its executors. Raises UsageError: Spark or Java is missing."""
        with ExitStack() as stack:
            with keep_handlers():  # Spark replaces the run's signal handler
                master = self._settings.spark_master
                session = spark_session(master, settings=SETTINGS, is_light=True)
                self._spark = stack.enter_context(session)
            self.slots = count_slots_to_come(self._spark, waits=True)
            yield

    def prepare(self, account: Account, directory: Path) -> list[str]:
        """Find the open shares. Raises LocalFault."""
        assert self._spark is not None
        self._open = find_open_shares(
            self._plan,
            account,
            directory,
            pace=ExpectedPace(concurrency=self._settings.concurrency),
            slots=self.slots,
            per_host=self._settings.per_host,
        )
        return self._open.notes + (note_missing_settings(self._spark) if self._open.numbers else [])

    @property
    def tasks(self) -> int:
        """How many shares are open."""
        return 0 if self._open is None else len(self._open.numbers)

    def find_hub_place(self) -> HubPlace | None:
        """The driver's address, from the session."""
        assert self._spark is not None
        return find_driver_address(self._spark)

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> Job:  # noqa: ARG002
        """Start one job for all open shares."""
        assert self._spark is not None
        assert self._open is not None
        return CutJob(self._spark, spec, self._open, self.slots)

    def explain(self, failure: BaseException, receipt: str | None) -> CfetchError:
        """The executor's message, without Spark's own text."""
        if isinstance(failure, CfetchError):
            return failure
        if receipt is not None:
            return LocalFault(f"an executor cannot work: {receipt}")
        return explain_failure(failure, "finish the job", "then run the same command again")


class SparkJob:
    """Implements ``Job``, but for its start: a look at all executors of a cluster, then tasks of Spark."""

    _future: Future[None]

    def __init__(
        self, spark: "SparkSession", spec: RunSpec, slots: int, make_look: Callable[[], Look]
    ) -> None:
        self._spark = spark
        self._tag = f"cfetch-{spec.instant}-{spec.epoch}"
        self._slots = slots
        self._make_look = make_look
        self._notes: deque[str] = deque()
        self._is_stopping = False

    def _may_begin(self) -> bool:
        return is_one_machine(self._spark) or check_executors(
            self._spark,
            self._make_look(),
            self._slots,
            self._tag,
            tell=self._notes.append,
            is_stopping=lambda: self._is_stopping,
        )

    def views(self) -> list[VolumeView]:
        """None: there is one destination."""
        return []

    def take_notes(self) -> Sequence[str | Event]:
        """Implements ``Job.take_notes``."""
        return [self._notes.popleft() for _ in range(len(self._notes))]

    @property
    def failure(self) -> BaseException | None:
        """The error of a job that is over."""
        return self._future.exception() if self._future.done() else None

    def wait(self, timeout_s: float) -> bool:
        """Implements ``Job.wait``."""
        wait([self._future], timeout_s)
        return self._future.done()

    def stop(self) -> None:
        """End the look at executors. Later Spark begins all tasks, and they see the stop and end."""
        self._is_stopping = True

    def cancel(self) -> None:
        """Cancel the job."""
        cancel_jobs(self._spark, self._tag)


class CutJob(SparkJob):
    """A task for each open share: one action without a shuffle."""

    def __init__(self, spark: "SparkSession", spec: RunSpec, shares: OpenShares, slots: int) -> None:
        super().__init__(spark, spec, slots, partial(_make_look, spec, shares))
        files = shares.files

        def bring(number: int) -> tuple[()]:
            context = current_task()
            turn = Turn(number, context.taskAttemptId(), context.attemptNumber(), name_executor())
            share = files.read_share(number)
            bring_share(spec, share._replace(sharers=min(share.sharers, spec.at_a_time)), turn)
            return ()  # its receipt tells all

        def run() -> None:
            if self._may_begin():
                make_frame(spark, shares.numbers, bring, "share int").collect()

        what = name_job(spec, plural(len(shares.numbers), "share"))
        self._future = start_thread(spark, run, self._tag, what)


def _make_look(spec: RunSpec, shares: OpenShares) -> Look:
    """The look at an executor of this run: its directories, its store, and the source of its first file."""
    destination = spec.destination
    directories = ((destination.fence_option, destination.fence), ("--state", spec.receipts))
    store = (destination.root, pick_login(destination.root, spec.env)) if destination.is_store else None
    url = shares.files.read_share(shares.numbers[0]).entries[0].url
    return Look(directories, find_source(spec, url), store)


def find_source(spec: RunSpec, url: SecretUrl) -> tuple[str, int] | None:
    """The host and port of a URL; None: nobody knows them, or a proxy stands before them."""
    origin = urlsplit(url.origin())
    by_proxy = make_network(spec.settings.network, spec.env).proxy_for(url) is not None
    return (origin.hostname, origin.port) if origin.hostname and origin.port and not by_proxy else None
