"""A task: one batch through the same pool that a run on one machine has, and one receipt for it.

Runs on an executor, and imports nothing of Spark. Files get their final names one by one, as they are
verified; the receipt is the last step, made under a name of its own and linked into place: the first of two
copies of a task wins. What happens to files is rows of the receipt, never an exception; an exception says
that this executor cannot work.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from cfetch.clock import SystemClock
from cfetch.config.settings import Settings
from cfetch.errors import LocalFault
from cfetch.events import (
    EntryFinished,
    FallbackTriggered,
    HostPaused,
    RetryScheduled,
    StragglerCancelled,
    UrlRefreshed,
)
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.plan import Plan
from cfetch.manifest.urls import host_of
from cfetch.placement.local import STATE_NAME, LocalVolume, local_fault
from cfetch.timeline.attempts import ATTEMPTS
from cfetch.transfer.http import HttpTransport
from cfetch.transfer.local_lane import LocalLane
from cfetch.transfer.network import network_of
from cfetch.transfer.pool import Pool
from cfetch.transfer.refresh import CommandRefresher

__all__ = ["STOP_NAME", "Done", "Receipt", "Told", "Work", "do_batch"]

STOP_NAME = "stop"  # in the directory of receipts: all tasks end in good order
LOOK_S = 0.5
Told = EntryFinished | FallbackTriggered | HostPaused | RetryScheduled | StragglerCancelled | UrlRefreshed
TOLD = (EntryFinished, FallbackTriggered, HostPaused, RetryScheduled, StragglerCancelled, UrlRefreshed)


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What every task is told. It holds secrets, as the plan does: it travels in the job and nowhere else.

    ``wall_start_s``: the run's, by the driver's clock; all times in receipts count from it.
    """

    settings: Settings
    headers: Headers
    env: dict[str, str]
    instant: str
    epoch: int
    root: str
    receipts: str
    wall_start_s: float


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a task tells Spark of its batch."""

    batch: int
    files: int
    failed: int
    receipt: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is over (``cfetch.receipt/1``): what happened, in order. ``fault``: what ended it early."""

    schema: str = "cfetch.receipt/1"
    instant: str
    epoch: int
    batch: int
    task: int
    attempt: int
    events: list[Told]
    is_whole: bool
    fault: str | None = None


class Listed:
    """Entries in memory, as the pool wants a plan."""

    batch_of = None

    def __init__(self, entries: Sequence[Entry], headers: Headers) -> None:
        self._entries = entries
        self.headers = headers
        numbers: dict[str, int] = {}
        self.host_of = [numbers.setdefault(host_of(one.url.value), len(numbers)) for one in entries]
        self.hosts = tuple(numbers)
        self.sizes = [-1 if one.size_bytes is None else one.size_bytes for one in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, index: int) -> Entry:
        """By its place in the list."""
        return self._entries[index]


def do_batch(work: Work, batch: int, entries: Sequence[Entry], *, task: int, attempt: int) -> Done:
    """Bring all entries to their end and leave a receipt.

    Raises:
        LocalFault: this executor cannot write there; there is a receipt that says so, which counts for
        nothing.
    """
    told: list[Told] = []
    fault, is_whole = asyncio.run(_pool(work, entries, task, told, Path(work.receipts, STOP_NAME)))
    receipt = Receipt(
        instant=work.instant,
        epoch=work.epoch,
        batch=batch,
        task=task,
        attempt=attempt,
        events=told,
        is_whole=is_whole,
        fault=None if fault is None else str(fault),
    )
    name = _leave_receipt(Path(work.receipts), receipt)
    if fault is not None:
        raise fault
    records = [one.record for one in told if isinstance(one, EntryFinished)]
    failed = sum(record.status == "failed" for record in records)
    return Done(batch=batch, files=len(records), failed=failed, receipt=name)


def _leave_receipt(directory: Path, receipt: Receipt) -> str:
    kind = "fault" if receipt.fault else "batch" if receipt.is_whole else "part"
    name = f"{kind}-{receipt.epoch}-{receipt.batch:06d}"
    if kind != "batch":
        name += f"-{receipt.task}"
    temporary = directory / f".{name}-{receipt.task}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(receipt))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # the other copy of this task was faster
            os.link(temporary, directory / name)
        temporary.unlink()
    except OSError as error:
        raise local_fault(error, f"cannot leave a receipt in {directory}") from None
    return name


async def _pool(
    work: Work, entries: Sequence[Entry], task: int, told: list[Told], stop: Path
) -> tuple[LocalFault | None, bool]:
    """Run the pool; what ended it early, and whether every entry has come to its end."""
    clock, settings = SystemClock(), work.settings
    began_s = clock.monotonic() - max(0.0, clock.wall() - work.wall_start_s)
    volume = LocalVolume(Path(work.root))
    transport = HttpTransport(
        connect_timeout_s=settings.connect_timeout, network=network_of(settings, work.env)
    )
    try:
        _stage(volume, work, task)
        pool = Pool(
            cast("Plan", Listed(entries, work.headers)),
            settings,
            [LocalLane(volume, durable=settings.durability == "power")],
            transport,
            instant=work.instant,
            clock=clock,
            jitter=random.random,
            emit=lambda event: told.append(event) if isinstance(event, TOLD) else None,
            refresher=CommandRefresher(settings.refresh_command) if settings.refresh_command else None,
            origin_s=began_s,
        )
        watching = asyncio.create_task(_heed(stop, pool))
        try:
            await pool.run()
        finally:
            watching.cancel()
    finally:
        await transport.close()
        volume.unstage()
        with suppress(OSError):
            _task_directory(work, task).rmdir()
        volume.close()
    stopped = stop.exists()
    return pool.fault, not stopped and pool.fault is None


async def _heed(stop: Path, pool: Pool) -> None:
    while not await asyncio.to_thread(stop.exists):
        await asyncio.sleep(LOOK_S)
    pool.stop("the run is stopping")


def _task_directory(work: Work, task: int) -> Path:
    return Path(work.root, STATE_NAME, ATTEMPTS, work.instant, str(work.epoch), f"t{task}")


def _stage(volume: LocalVolume, work: Work, task: int) -> None:
    """A directory of this task's own within the epoch's: if that has gone, so has the plan."""
    directory = _task_directory(work, task)
    try:
        directory.mkdir(0o700)
    except OSError as error:
        raise local_fault(error, f"cannot write to {work.root}") from None
    volume.stage(str(directory.relative_to(Path(work.root, STATE_NAME))))
