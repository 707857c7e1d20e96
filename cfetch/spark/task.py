"""A task: one batch through the same pool that a run on one machine has, and receipts for it.

Runs on an executor, and imports nothing of Spark. Files get their final names one by one, as they are
verified; the receipt of the batch is the last step. What happens to files is rows of receipts, never an
exception; an exception says that this executor cannot work.

Copies of a task help each other: a second one begins at the other end of the batch and passes over what
stands, and each of them ends when the batch's receipt is there.
"""

import asyncio
import os
import random
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.clock import RunClock, SystemClock
from cfetch.config.settings import Settings
from cfetch.engine.pool import Pool
from cfetch.errors import LocalFault
from cfetch.events import Event, Progress, StragglerCancelled, fan_out
from cfetch.hub.client import HubLine, leased_hosts
from cfetch.hub.messages import Beat, HubAt
from cfetch.hub.receipts import (
    STOP_NAME,
    TOLD,
    Live,
    Receipt,
    Told,
    batch_name,
    leave_receipt,
    live_name,
)
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.urls import host_of
from cfetch.report.counts import Counts
from cfetch.run.fresh_links import ManifestRef, Renewal, StatementApi
from cfetch.spark.prepare.parts import Parts
from cfetch.spark.work_file import Batch
from cfetch.storage.directory import STATE_NAME, Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.files import local_fault, replace_file
from cfetch.timeline.attempts import ATTEMPTS
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import network_of

__all__ = ["Copy", "Done", "Work", "attempts_of", "do_batch", "own_settings"]

IDLE_S = 15.0  # what an idle connection is kept for
LEASED_IDLE_S = 1.0  # where each counts: a lease that has gone elsewhere is used there after as long
SHOWN = 512  # attempts that the driver hears of from all tasks together
MOST_SHOWN = 32  # and from one: with the longest paths a beat holds twice as many
LOOK_S = 0.5  # for the stop and for another copy's receipt: what a stop may take longer
UNKNOWN = -1


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What every task is told. It holds secrets, as the plan does: it travels in the job and nowhere else.

    ``wall_start_s``: the run's, by the driver's clock; all times in receipts count from it. ``part_s``: so
    often a task tells what it has done. ``at_a_time``: how many tasks may run. ``parts``: the batches of a
    plan that Spark has prepared, of which ``numbers`` are to be brought; else all in ``work_file`` are.
    """

    settings: Settings
    headers: Headers
    env: dict[str, str]
    origin: ManifestRef
    instant: str
    epoch: int
    root: str
    receipts: str
    work_file: str
    parts: Parts | None = None
    numbers: Sequence[int] = ()
    wall_start_s: float
    part_s: float
    at_a_time: int
    hub: HubAt | None = None


class Copy(NamedTuple):
    """Which of the copies of a task this is. ``task`` is no other's, ``attempt`` counts from 0.

    ``executor`` is for people.
    """

    batch: int
    task: int
    attempt: int
    executor: str = ""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a task tells Spark of its batch: entries brought to their end, and failed ones of them."""

    batch: int
    files: int
    failed: int


class Listed:
    """The ``Entries`` of one batch, in memory."""

    batch_of = None

    def __init__(self, entries: Sequence[Entry], headers: Headers) -> None:
        self._entries = entries
        self.headers = headers
        numbers: dict[str, int] = {}
        self.host_of = [numbers.setdefault(host_of(one.url.value), len(numbers)) for one in entries]
        self.hosts = tuple(numbers)
        self.sizes = [UNKNOWN if one.size_bytes is None else one.size_bytes for one in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, index: int) -> Entry:
        """By its place in the list."""
        return self._entries[index]


def attempts_of(root: Path, instant: str, epoch: int) -> Path:
    """Where the tasks of a run have a directory each for their parts."""
    return root / STATE_NAME / ATTEMPTS / instant / str(epoch)


def own_settings(settings: Settings, sharers: int, at_a_time: int) -> Settings:
    """A task's part of the rates that are for the run as a whole; one of many searches for no more places."""
    return replace(
        settings,
        max_concurrency=None,
        limit_rate=settings.limit_rate and max(1, settings.limit_rate // at_a_time),
        limit_rate_per_host=settings.limit_rate_per_host and max(1, settings.limit_rate_per_host // sharers),
    )


def do_batch(work: Work, batch: Batch, copy: Copy) -> Done:
    """Bring all entries to their end and leave the receipt; nothing if another copy has.

    Raises:
        LocalFault: this executor cannot write there; there is a receipt that says so, which counts for
        nothing.
    """
    told = _Telling(work, copy)
    if told.is_over():
        return told.done()
    fault = asyncio.run(_pool(work, batch, copy, told))
    told.leave(len(batch.entries), fault)
    if fault is not None and not told.is_over():
        raise fault
    return told.done()


class _Telling:
    """What a task has to say, and its receipts."""

    def __init__(self, work: Work, copy: Copy) -> None:
        self._work = work
        self._copy = copy
        self._directory = Path(work.receipts)
        self._live = self._directory / live_name(work.epoch, copy.batch, copy.task)
        self._events: list[Told] = []
        self._parts: list[str] = []
        self._in_parts = 0
        self._beats = 0
        self._progress: Progress | None = None
        self._counts = Counts()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StragglerCancelled):
            event = msgspec.structs.replace(event, executor=self._copy.executor or None)
        if isinstance(event, TOLD):
            self._events.append(event)
        self._counts.of(event)
        if isinstance(event, Progress):
            self._progress = event

    def is_over(self) -> bool:
        """Whether a copy of this task has brought the batch to its end."""
        return (self._directory / batch_name(self._work.epoch, self._copy.batch)).exists()

    def is_stopping(self) -> bool:
        """Whether the driver wants an end."""
        return (self._directory / STOP_NAME).exists()

    def leave_part(self) -> None:
        """What has happened since the last time. Raises LocalFault."""
        if len(self._events) > self._in_parts:
            receipt = self._receipt(len(self._parts), self._in_parts)
            leave_receipt(self._directory, receipt)
            self._parts.append(receipt.name)
            self._in_parts = len(self._events)

    def show(self) -> None:
        """What is under way, for who watches; nobody relies on it."""
        if self._progress is None:
            return
        self._beats += 1
        batch, task = self._copy.batch, self._copy.task
        live = Live(batch=batch, task=task, beat=self._beats, active=self._progress.active)
        with suppress(LocalFault):
            replace_file(self._live, msgspec.json.encode(live), durable=False)

    def leave(self, entries: int, fault: LocalFault | None) -> None:
        """The last one. Raises LocalFault."""
        whole = fault is None and self._counts.settled == entries
        if whole and leave_receipt(self._directory, self._receipt(None, 0)):
            for name in self._parts:
                with suppress(OSError):
                    (self._directory / name).unlink()
        else:
            self.leave_part()
        if fault is not None:
            leave_receipt(self._directory, self._receipt(None, len(self._events), str(fault)))
        with suppress(OSError):
            self._live.unlink()

    def _receipt(self, number: int | None, first: int, fault: str | None = None) -> Receipt:
        return Receipt(
            instant=self._work.instant,
            epoch=self._work.epoch,
            batch=self._copy.batch,
            task=self._copy.task,
            attempt=self._copy.attempt,
            number=number,
            first=first,
            events=self._events[first:],
            fault=fault,
        )

    def done(self) -> Done:
        return Done(
            batch=self._copy.batch,
            files=self._counts.settled,
            failed=self._counts.failed,
        )


async def _pool(work: Work, batch: Batch, copy: Copy, told: _Telling) -> LocalFault | None:
    """Run the pool; what ended it early."""
    clock, settings = SystemClock(), own_settings(work.settings, batch.sharers, work.at_a_time)
    run_clock = RunClock(clock, elapsed_s=max(0.0, clock.wall() - work.wall_start_s))
    try:
        directory = _own_directory(work, copy.task)
        volume = Directory(Path(work.root))
    except LocalFault as fault:
        return fault
    network = network_of(settings.network, work.env)
    transport = HttpTransport(
        connect_timeout_s=settings.connect_timeout,
        idle_s=LEASED_IDLE_S if settings.per_host else IDLE_S,
        network=network,
    )
    line = _line(work, batch, copy)
    stack = ExitStack()
    renewal = Renewal(*work.origin, StatementApi(settings, work.env, network, clock), stack)
    try:
        volume.stage(str(directory.relative_to(Path(work.root, STATE_NAME))))
        pool = Pool(
            Listed(batch.entries, work.headers),
            settings,
            [DirectoryVolume(volume, durable=settings.durability == "power")],
            transport,
            instant=work.instant,
            clock=run_clock,
            jitter=random.random,
            emit=fan_out(told, line),
            refresher=renewal.refresher(settings, transport, clock),
            backwards=copy.attempt > 0,
        )
        line.begin(pool)
        beside = [asyncio.create_task(one) for one in (_watch(pool, told, line, work.part_s), line.keep())]
        try:
            await pool.run()
        finally:
            for task in beside:
                task.cancel()
            for ended in await asyncio.gather(*beside, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended
    except LocalFault as fault:
        return fault
    finally:
        stack.close()
        await transport.close()
        volume.unstage()
        if told.is_over():  # by another copy: what this one has begun is of no use
            shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):
            directory.rmdir()  # before the volume is closed, which would take the epoch's directory along
        volume.close()
    return pool.fault


def _line(work: Work, batch: Batch, copy: Copy) -> HubLine:
    per_host = work.settings.per_host
    return HubLine(
        work.hub,
        Beat(task=copy.task, batch=copy.batch, executor=copy.executor),
        hosts=leased_hosts(batch.entries) if per_host else (),
        share=per_host and max(1, per_host // batch.sharers),
        shown=min(MOST_SHOWN, max(2, SHOWN // work.at_a_time)),
    )


async def _watch(pool: Pool, told: _Telling, line: HubLine, part_s: float) -> None:
    """Tell early what has ended, and end the pool when it is to stop or has nothing more to do."""
    loop = asyncio.get_running_loop()
    left_s = loop.time()
    while True:
        await asyncio.sleep(LOOK_S)
        if loop.time() - left_s >= part_s:
            left_s = loop.time()
            try:
                told.leave_part()
            except LocalFault as fault:
                pool.fail(fault)
                return
            if not line.is_up:
                told.show()
        if await asyncio.to_thread(lambda: told.is_stopping() or told.is_over()):
            pool.stop("the run is stopping")
            return


def _own_directory(work: Work, task: int) -> Path:
    """Made within the epoch's: if that has gone, so has the plan. Raises LocalFault."""
    epoch = attempts_of(Path(work.root), work.instant, work.epoch)
    directory = epoch / f"t{task}"
    try:
        directory.mkdir(0o700)
    except FileNotFoundError:
        raise LocalFault(
            f"{epoch} is not there on {os.uname().nodename}: all executors must see the directory of --to "
            "under the same name; or another run has taken the plan over"
        ) from None
    except OSError as error:
        raise local_fault(error, f"cannot write to {work.root}") from None
    return directory
