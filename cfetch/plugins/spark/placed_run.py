"""A run on Spark with several volumes: the driver places batches and deals them out, tasks ask for them.

The stage has a task for each slot, which lasts as long as the run: it asks for one share after the other
(``claiming.py``), and ``dealer.py`` answers. Otherwise it is the run of ``cluster_run.py``.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.events import Event, VolumeView
from cfetch.manifest.plan import Plan
from cfetch.plugins.spark.claiming import bring_shares
from cfetch.plugins.spark.cluster_run import SparkJob, SparkTasks, find_source
from cfetch.plugins.spark.dealer import ShareDealer
from cfetch.plugins.spark.job import (
    find_driver_address,
    name_executor,
    name_job,
    note_missing_settings,
    start_thread,
)
from cfetch.plugins.spark.preflight import Look
from cfetch.plugins.spark.work import make_frame
from cfetch.run.volumes import Volumes
from cfetch.show.format import plural
from cfetch.storage.files import make_private, on_disk
from cfetch.storage.hanging_calls import call_within
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.placed_run import open_placed
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.salvage import bury_dead_task
from cfetch.tasks.shares.work import RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAVE_LOOKS = 20  # of the driver, after all is over: a task that has not ended by then stands still


class PlacedSparkTasks(SparkTasks):
    """Implements ``TaskRunner``."""

    sweeps = False  # the end of a task's connection tells its death, and its parts are kept at once

    def __init__(self, plan: Plan, volumes: Volumes, settings: Settings, clock: Clock) -> None:
        super().__init__(plan, settings)
        self.trusts_receipts = False  # what stands on the volumes is looked up when batches are placed
        self.roots = tuple(volume.root for volume in volumes.local)
        self._whole = plan
        self._volumes = volumes
        self._clock = clock
        self._orders = Path()
        self._placed: PlacedShares | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open a session; let go of the volumes when the run is over. Raises UsageError."""
        with super().open():
            assert self._spark is not None
            if find_driver_address(self._spark) is None:
                raise UsageError(
                    "with several --to, tasks ask this program which volume each batch goes to, and through "
                    "Spark Connect, or without spark.driver.host, they cannot reach it; use a session of "
                    "the program's own (--spark-master spark://..., or spark-submit), or give one --to"
                )
            try:
                yield
            finally:
                if self._placed is not None:
                    self._placed.close()

    def prepare(self, account: Account, directory: Path) -> list[str]:  # noqa: ARG002 - nothing is cut before
        """Make the directory of orders: batches are dealt out as volumes take them."""
        assert self._spark is not None
        self._orders = directory
        with on_disk(directory):
            make_private(directory)
        return note_missing_settings(self._spark)

    @property
    def tasks(self) -> int:
        """How many files there are, of which shares will be made."""
        return len(self._whole)

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> "_PlacedJob":
        """Open the dealer, and start a task for each slot."""
        assert self._spark is not None
        if hub is None:
            raise LocalFault(
                "this program cannot listen where executors would reach it, and with several --to they ask "
                "it which volume each batch goes to; see spark.driver.host and spark.driver.bindAddress"
            )
        spec = msgspec.structs.replace(spec, grants=str(self._orders))
        pace = ExpectedPace(concurrency=spec.settings.concurrency)
        self._placed = open_placed(
            self._whole, self._volumes, spec, account, hub, self._clock, slots=self.slots, pace=pace
        )
        dealer = ShareDealer(self._placed, self._orders, partial(bury_dead_task, self._placed, spec, hub))
        hub.deal_by(dealer)
        return _PlacedJob(self._spark, spec, self._whole, self._placed, dealer, self.slots)


class _PlacedJob(SparkJob):
    """A task for each slot, which asks for shares."""

    def __init__(
        self,
        spark: "SparkSession",
        spec: RunSpec,
        plan: Plan,
        placed: PlacedShares,
        dealer: ShareDealer,
        slots: int,
    ) -> None:
        super().__init__(spark, spec, slots, partial(_make_look, spec, plan))
        self._spec = spec
        self._placed = placed
        self._dealer = dealer
        self._looks_left = LEAVE_LOOKS
        self._future = start_thread(spark, self._run, self._tag, name_job(spec, plural(slots, "task")))

    def _run(self) -> None:
        """Run the tasks. Here a task lasts as long as the run, and a cluster may lose it often.

        Spark gives a job up when a task of it has failed a few times; that counts only if no share has been
        brought meanwhile.
        """
        if not self._may_begin():
            return
        spec = self._spec

        def bring(number: int) -> tuple[()]:  # noqa: ARG001 - all of them do the same
            bring_shares(spec, name_executor())
            return ()  # receipts tell all

        while True:
            before = self._dealer.ended
            try:
                make_frame(self._spark, range(self._slots), bring, "task int").collect()
            except Exception:
                if self._dealer.is_over or self._dealer.ended == before:
                    raise
            else:
                return

    def views(self) -> list[VolumeView]:
        """Implements ``Job.views``."""
        return self._placed.views()

    def take_notes(self) -> Sequence[str | Event]:
        """Implements ``Job.take_notes``."""
        return [*super().take_notes(), *self._placed.take_events()]

    @property
    def failure(self) -> BaseException | None:
        """The fault that ends the run, or the error of a job that ended before its shares were over."""
        if self._dealer.failure is not None or self._placed.is_over():
            return self._dealer.failure
        return super().failure

    def wait(self, timeout_s: float) -> bool:
        """Implements ``Job.wait``. A task that stands still when all is over is not waited for."""
        self._dealer.note_driver_turn()
        is_done = super().wait(timeout_s)
        if self._placed.is_over():
            self._looks_left -= 1
        if self._looks_left <= 0:
            self.cancel()
        elif is_done:
            self._dealer.stop()  # nobody waits for the driver's turns any more
        return is_done or self._looks_left <= 0

    def stop(self) -> None:
        """Give out no more shares."""
        super().stop()
        self._dealer.stop()

    def cancel(self) -> None:
        """Cancel the job."""
        self.stop()
        super().cancel()


def _make_look(spec: RunSpec, plan: Plan) -> Look:
    """The look at an executor: the state, the volumes that stand here, and the source of the first file."""
    standing = []
    for destination in spec.volumes:
        with suppress(TimeoutError):
            if call_within(
                spec.settings.write_timeout, destination.root, partial(os.path.isdir, destination.fence)
            ):
                standing.append((destination.root, destination.fence))
    source = find_source(spec, plan.entry(0).url)
    return Look((("--state", spec.receipts),), source, volumes=tuple(standing))
