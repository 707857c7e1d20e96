"""A task: one share goes through the same pool that a run on one machine has, and leaves receipts.

This runs on an executor, and imports nothing of Spark. Files get their final names one by one, as they are
verified; the receipt of the share is the last step. A file's failure is a row of a receipt, never an
exception; an exception means that this executor cannot work.

Copies of a task help each other: a second copy begins at the other end of the share and skips the files that
are in place, and all copies end when the receipt of the share is there.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cfetch.base.clock import RunClock, SystemClock
from cfetch.base.config.option_table import SLOWEST_PER_S
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.base.events import (
    BatchPlaced,
    EntryFinished,
    Event,
    Listener,
    StragglerCancelled,
    fan_out,
    tell_each,
)
from cfetch.base.records import FileRecord
from cfetch.engine.committing import make_commitment
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.plan_file import NO_BATCH
from cfetch.manifest.urls import host_of
from cfetch.run.collector import collect_seldom
from cfetch.run.fresh_links import Renewal, StatementApi
from cfetch.show.counts import LiveCounts
from cfetch.show.digest import make_digest
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.tasks.hub.client import BeatMaker, HubLine, LeasedPool, choose_leased_hosts
from cfetch.tasks.hub.messages import SharedRun, TaskBeat
from cfetch.tasks.hub.receipts import (
    REPORTED,
    STOP_NAME,
    ReportedEvent,
    TaskReport,
    encode_report,
    leave_receipt,
    share_receipt_name,
)
from cfetch.tasks.shares.task_destination import open_destination
from cfetch.tasks.shares.work import RunSpec, Share, ShareOutcome, Turn
from cfetch.wire.fresh_link import UrlRefresher
from cfetch.wire.loop import make_loop
from cfetch.wire.network import make_network
from cfetch.wire.transport import RunTransport

if TYPE_CHECKING:
    from cfetch.engine.commitment import Commitment
    from cfetch.storage.volume import Volume

IDLE_S = 15.0  # for which an idle connection is kept
LEASED_IDLE_S = 1.0  # the same at leased hosts: another task uses the lease no sooner than that
SHOWN = 512  # attempts that all tasks together report to the driver
MOST_SHOWN = 32  # attempts that one task reports; even with the longest paths a beat holds twice as many
LOOK_S = 0.5  # between looks for the stop and another copy's receipt, so a stop may take this longer
STILL_S = 180.0  # work may stand still for so long while a slow disk flushes; heartbeats expire then, too
UNKNOWN = -1
OpenLinks = Callable[[ExitStack], UrlRefresher]  # the stack closes it
LEAST_FIRST = 2  # slots with which a task begins at a host, however many others do
SLOWEST_BPS = 1 << 10  # the least that a rate may be set to


class Beside(NamedTuple):
    """What a caller of ``bring_share`` adds to a task.

    ``open_links``: where fresh links come from, opened in the task's event loop; None: from what the spec
    names. ``listener`` gets all events.
    """

    open_links: OpenLinks | None
    listener: Listener | None


NOTHING_BESIDE = Beside(None, None)


class Apart(NamedTuple):
    """A volume of the caller's own, and the commitment to it, as ``Pool`` takes them: shards, on Spark."""

    volume: "Volume"
    commit_by: "Callable[..., Commitment]"


class EntryList:
    """The ``Entries`` of one share, in memory; ``batch_of``: the number of each entry's named batch."""

    def __init__(self, entries: Sequence[Entry], headers: Headers, batches: Sequence[int] = ()) -> None:
        self._entries = entries
        self.headers = headers
        numbers: dict[str, int] = {}
        self.host_of = [numbers.setdefault(host_of(entry.url.value), len(numbers)) for entry in entries]
        self.hosts = tuple(numbers)
        self.names_mirrors = any(entry.mirrors for entry in entries)
        self.batch_of = _number_batches(entries, batches)
        self.sizes = [UNKNOWN if entry.size_bytes is None else entry.size_bytes for entry in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, index: int) -> Entry:
        """The entry at a place in the list."""
        return self._entries[index]

    def block(self, first: int, end: int) -> Sequence[Entry]:
        """The entries of a part of the list."""
        return self._entries[first:end]


def _number_batches(entries: Sequence[Entry], batches: Sequence[int]) -> Sequence[int] | None:
    """The number of each entry's batch, -1 for none; None: no entry has one. ``batches`` as in ``Share``."""
    if batches:
        return [number for number, files in enumerate(batches) for _ in range(files)]
    if all(entry.batch is None for entry in entries):
        return None
    numbers: dict[str | None, int] = {None: NO_BATCH}
    return [numbers.setdefault(entry.batch, len(numbers) - 1) for entry in entries]


def _divide(limit: int | str | None, tasks: int) -> int | str | None:
    if not isinstance(limit, str):
        return limit and max(SLOWEST_BPS, limit // tasks)
    from cfetch.base.config.timetable import MAX_BPS, parse_timetable  # few runs have one

    return str(parse_timetable(limit, SLOWEST_BPS, MAX_BPS).divide(tasks, SLOWEST_BPS))


def divide_limits(settings: Settings, sharers: int, at_a_time: int, *, searches: bool = False) -> Settings:
    """A task's settings, with its part of the rates of the whole run; ``searches`` as in ``RunSpec``."""
    return replace(
        settings,
        max_concurrency=settings.max_concurrency if searches else settings.concurrency,
        limit_rate=_divide(settings.limit_rate, at_a_time),
        limit_rate_per_host=settings.limit_rate_per_host
        and max(SLOWEST_BPS, settings.limit_rate_per_host // sharers),
        rate=settings.rate and max(SLOWEST_PER_S, settings.rate / sharers),
    )


def bring_share(
    spec: RunSpec,
    share: Share,
    turn: Turn,
    *,
    on_life: Callable[[], None] = lambda: None,
    beside: Beside = NOTHING_BESIDE,
) -> ShareOutcome:
    """Bring all entries to their end and leave the receipt; do nothing if another copy has done so.

    ``on_life`` is called again and again while the work moves.

    Raises:
        LocalFault: this executor cannot write there; a receipt says so, but it does not end the share.
    """
    if share.volume is not None:
        spec = msgspec.structs.replace(spec, destination=spec.volumes[share.volume])
    reporter = Reporter(spec, turn)
    if reporter.is_over():
        return reporter.outcome()
    with collect_seldom(for_good=True), asyncio.Runner(loop_factory=make_loop) as runner:
        fault, learned = runner.run(_run_pool(spec, share, turn, reporter, on_life, beside))
    reporter.leave_last(len(share.entries), fault)
    if fault is not None and not reporter.is_over():
        raise fault
    return reporter.outcome()._replace(learned=learned)


def bring_apart(spec: RunSpec, share: Share, turn: Turn, beside: Beside, apart: Apart) -> None:
    """Bring all entries to their end on a volume of the caller's own, who hears of each by ``beside``.

    There are no receipts, and nobody stops it: no copy of the task has the same volume, and Spark ends the
    process. Raises LocalFault.
    """
    with collect_seldom(for_good=True), asyncio.Runner(loop_factory=make_loop) as runner:
        fault, _ = runner.run(_run_pool(spec, share, turn, apart, lambda: None, beside))
    if fault is not None:
        raise fault


class Reporter:
    """Listens to the pool of a task, and leaves its receipts."""

    def __init__(self, spec: RunSpec, turn: Turn) -> None:
        self._spec = spec
        self._turn = turn
        self._directory = Path(spec.receipts)
        self._events: list[ReportedEvent] = []  # since the last report, as are the records
        self._records: list[FileRecord] = []
        self._reports: list[bytes] = []
        self._parts: list[str] = []
        self.counts = LiveCounts()

    def __call__(self, event: Event) -> None:
        """Keep the records and events that belong into the next report."""
        if isinstance(event, EntryFinished):
            executor = self._turn.executor or msgspec.UNSET
            record = msgspec.structs.replace(event.record, executor=executor, task=self._turn.task)
            self._records.append(record)
        elif isinstance(event, BatchPlaced) and self._spec.volumes:
            pass  # the driver has placed it
        elif isinstance(event, REPORTED):
            if isinstance(event, StragglerCancelled):
                event = msgspec.structs.replace(event, executor=self._turn.executor or None)
            self._events.append(event)
        self.counts(event)

    def is_over(self) -> bool:
        """Whether a copy of this task has brought the share to its end."""
        return (self._directory / share_receipt_name(self._spec.epoch, self._turn.share)).exists()

    def is_stopping(self) -> bool:
        """Whether the driver wants all tasks to end."""
        return (self._directory / STOP_NAME).exists()

    def leave_part(self) -> None:
        """Report what has happened since the last report. Raises LocalFault."""
        if self._events or self._records:
            report = self._begin_report()
            data = encode_report(report, self._records)
            leave_receipt(self._directory, report.part_name, data)
            self._parts.append(report.part_name)
            self._reports.append(data)
            self._events, self._records = [], []

    def leave_last(self, entries: int, fault: LocalFault | None) -> None:
        """Leave the receipt of the share, or, if the task ends early, the last part. Raises LocalFault."""
        whole = fault is None and self.counts.ended.settled == entries
        if whole and self._leave_share():
            for name in self._parts:
                with suppress(OSError):
                    (self._directory / name).unlink()
        else:
            self.leave_part()
        if fault is not None:
            report = msgspec.structs.replace(self._begin_report(), fault=str(fault))
            leave_receipt(self._directory, report.fault_name, encode_report(report))

    def _leave_share(self) -> bool:
        name = share_receipt_name(self._spec.epoch, self._turn.share)
        last = encode_report(self._begin_report(), self._records)
        return leave_receipt(self._directory, name, *self._reports, last)

    def outcome(self) -> ShareOutcome:
        """The result of the task so far."""
        return ShareOutcome(self.counts.ended.settled, self.counts.ended.failed)

    def _begin_report(self) -> TaskReport:
        settings = self._spec.settings
        slots = settings.most_at_once if self._spec.searches else settings.concurrency
        return TaskReport(
            instant=self._spec.instant,
            epoch=self._spec.epoch,
            share=self._turn.share,
            task=self._turn.task,
            number=len(self._reports),
            executor=self._turn.executor,
            volume=self._spec.destination.root if self._spec.volumes else "",
            events=self._events,
            digest=make_digest([record for record in self._records if record.is_in_place], slots=slots),
        )


async def _run_pool(
    spec: RunSpec,
    share: Share,
    turn: Turn,
    way: Reporter | Apart,
    on_life: Callable[[], None],
    beside: Beside,
) -> tuple[LocalFault | None, Knowledge]:
    """Run the pool over the share, to the run's destination with receipts, or to a volume apart.

    Returns the fault that ended it early, and its knowledge about hosts.
    """
    clock = SystemClock()
    settings = divide_limits(spec.settings, share.sharers, spec.at_a_time, searches=spec.searches)
    run_clock = RunClock(clock, elapsed_s=max(0.0, clock.wall() - spec.wall_start_s))
    network = make_network(settings.network, spec.env)
    try:
        async with AsyncExitStack() as stack:
            if isinstance(way, Apart):
                volume, commit_by, counts = way.volume, way.commit_by, LiveCounts()
                listeners: list[Listener] = [counts]
            else:
                opened = open_destination(
                    spec.destination,
                    settings,
                    f"t{turn.task}",
                    login=spec.env,
                    monotonic=run_clock.now,
                    is_useless=way.is_over,
                    is_guarded=bool(spec.volumes),
                    grants=spec.grants,
                )
                volume, commit_by = await stack.enter_async_context(opened), make_commitment
                counts, listeners = way.counts, [way]
            transport = RunTransport(
                connect_timeout_s=settings.connect_timeout,
                idle_s=LEASED_IDLE_S if settings.per_host else IDLE_S,
                network=network,
            )
            stack.push_async_callback(transport.close)
            links = stack.enter_context(ExitStack())
            api = StatementApi(settings.statement_host, spec.env, network, clock)
            renewal = Renewal(spec.origin, api, links)
            beats = _make_beat_maker(spec, turn, run_clock.now)
            listeners += [beats, *filter(None, [beside.listener])]
            pool = Pool(
                EntryList(share.entries, spec.headers, share.batches),
                settings,
                [volume],
                transport,
                PoolInputs(
                    instant=spec.instant,
                    clock=run_clock,
                    jitter=random.random,
                    emit=tell_each(fan_out(*listeners)),
                    counts=counts,
                ),
                refresher=renewal.refresher(settings.refresh_command, transport, clock)
                if beside.open_links is None
                else beside.open_links(links),
                knowledge=spec.knowledge,
                backwards=turn.attempt > 0,
                commit_by=commit_by,
            )
            line = HubLine(spec.hub, beats, _limit_pool(pool, share, settings))
            line.begin()
            work = [line.keep()]
            if isinstance(way, Reporter):
                work.append(_watch_pool(pool, way, spec.part_s, on_life))
            await _run_watched(pool, *work)
    except LocalFault as fault:
        return fault, NOTHING
    return pool.fault, pool.collect_knowledge()


def _limit_pool(pool: Pool, share: Share, settings: Settings) -> LeasedPool:
    """Let the pool begin with few slots, and have the task's part of each limit without the hub."""
    if share.sharers > 1:
        pool.begin_with(max(LEAST_FIRST, settings.concurrency // share.sharers))
    limit = settings.per_host and max(1, settings.per_host // share.sharers)
    return LeasedPool(pool, choose_leased_hosts(share.entries), limit, settings.rates)


async def _run_watched(pool: Pool, *work: Coroutine[Any, Any, None]) -> None:
    """Run the pool, with ``work`` beside it until it ends. Raises what the work raises."""
    beside = [asyncio.create_task(step) for step in work]
    try:
        await pool.run()
    finally:
        for task in beside:
            task.cancel()
        for result in await asyncio.gather(*beside, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


def _make_beat_maker(spec: RunSpec, turn: Turn, now_s: Callable[[], float]) -> BeatMaker:
    limits = None
    if spec.hub is not None and spec.hub.is_shared:
        settings = spec.settings
        limits = SharedRun(
            run=spec.instant,
            config=settings.straggler,
            per_host=settings.per_host,
            rates=settings.rates,
        )
    who = TaskBeat(task=turn.task, executor=turn.executor, limits=limits)
    return BeatMaker(who, shown=min(MOST_SHOWN, max(2, SHOWN // spec.at_a_time)), now_s=now_s)


async def _watch_pool(pool: Pool, reporter: Reporter, part_s: float, on_life: Callable[[], None]) -> None:
    """Report ended files early; end the pool when it has to stop, or another copy has brought the share."""
    loop = asyncio.get_running_loop()
    left_s = loop.time()
    while True:
        await asyncio.sleep(LOOK_S)
        on_life()
        if loop.time() - left_s >= part_s:
            left_s = loop.time()
            try:
                reporter.leave_part()
            except LocalFault as fault:
                pool.fail(fault)
                return
        if await asyncio.to_thread(lambda: reporter.is_stopping() or reporter.is_over()):
            pool.stop("the run is stopping")
            return
