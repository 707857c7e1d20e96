"""The worker pool: a fixed number of workers take entries in turn and bring each to its end.

A worker holds one entry at a time: it tries, publishes, reports, and takes the next; an entry whose next
try has to wait goes back to the schedule, its file closed. So memory and descriptors are bounded by
``--concurrency``. All workers, the monitor and the ticker live in one task group: when ``run`` returns
nothing of it is left, whatever happened.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from cfetch.clock import RunClock
from cfetch.config.settings import Settings
from cfetch.engine.batches.placing import Placing
from cfetch.engine.batches.staging import let_pass, was_the_move
from cfetch.engine.fetcher import Fetcher
from cfetch.engine.flights import Flights
from cfetch.engine.live_counts import LiveCounts
from cfetch.engine.monitor import Monitor
from cfetch.engine.schedule import NEVER, Schedule
from cfetch.engine.segments import Helper
from cfetch.engine.transfer import Transfer
from cfetch.engine.widths import hosts_of, look_at_widths, workers_of
from cfetch.errors import Blocked, CfetchError, Corrupt, LocalFault, SourceError, VolumeFault
from cfetch.events import EntryFinished, Listener, RunStopping
from cfetch.manifest.entries import Entries
from cfetch.records import Status
from cfetch.report.saved_time import add_verdicts
from cfetch.storage.volume import Volume
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.straggler.policy import Policy, policy_of
from cfetch.wire.http import Transport
from cfetch.wire.refresh import UrlRefresher
from cfetch.wire.retry import Limits

__all__ = ["Pool"]

MOST_PUT_BACK = 16  # entries per worker that may wait for their next try; beyond, nothing new is begun
SHORTEST_WAIT_S = 0.001  # the loop's clock may be a hair behind the time that was asked for


class Pool:
    """One run over one plan. ``jitter`` returns uniform numbers in [0, 1); ``emit`` gets every event.

    ``policy``: None is the settings' own.
    ``backwards``: the other end of the plan comes first.
    """

    def __init__(
        self,
        entries: Entries,
        settings: Settings,
        volumes: Sequence[Volume],
        transport: Transport,
        *,
        instant: str,
        clock: RunClock,
        jitter: Callable[[], float],
        emit: Listener,
        refresher: UrlRefresher | None = None,
        confirm: Callable[[], None] = lambda: None,
        knowledge: Knowledge = NOTHING,
        policy: Policy | None = None,
        backwards: bool = False,
    ) -> None:
        self._entries = entries
        self._settings = settings
        self._volumes = volumes
        self._instant = instant
        self._clock = clock
        self._emit = emit
        limits = Limits(settings.max_attempts, settings.retry_budget)
        self._hosts = hosts_of(settings, limits)
        self._placing: Placing | None = None
        if len(volumes) > 1 or entries.batch_of is not None:
            self._placing = Placing(
                entries, settings, volumes, self, instant=instant, clock=clock, emit=emit, confirm=confirm
            )
        self.schedule = self._new_schedule(backwards=backwards)
        self._policy = policy or self._own_policy(knowledge)
        self._flights = Flights()
        self._counts = LiveCounts()
        self._monitor = self._new_monitor()
        self._fetcher = Fetcher(
            settings,
            limits,
            self._hosts,
            self._policy,
            self._flights,
            self._counts,
            transport,
            put_back=lambda: self.schedule.put_back,
            headers=entries.headers,
            refresher=refresher,
            clock=clock,
            jitter=jitter,
            emit=emit,
        )
        self._idle: deque[asyncio.Future[None]] = deque()  # workers that wait for something to start
        self._helpers: deque[Helper] = deque()  # further streams that wait for a worker
        self._in_hand = 0  # entries
        self._one_at_a_time = asyncio.Lock()
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = self._has_mirrors = False  # the latter until an entry with mirrors is met
        self.fault: LocalFault | None = None

    def _own_policy(self, knowledge: Knowledge) -> Policy:
        settings = self._settings
        return policy_of(
            settings.policy,
            settings.straggler,
            tick_s=settings.check_interval,
            concurrency=settings.concurrency,
            knowledge=knowledge,
            wall_s=self._clock.wall(),
        )

    def _new_monitor(self) -> Monitor:
        return Monitor(
            self._policy,
            self._flights,
            self._counts,
            self.schedule,
            self._settings,
            self._clock,
            self._emit,
            self._host_lives,
            on_check=self._share_out,
            placing=self._placing,
        )

    def _new_schedule(self, *, backwards: bool) -> Schedule[Transfer]:
        entries, queues = self._entries, self._placing and self._placing.arrivals.queues
        return Schedule(
            entries.sizes,
            queues.of if queues else entries.host_of,
            len(queues) if queues else len(entries.hosts),
            opens_s=self._opens_s,
            most_put_back=MOST_PUT_BACK * self._settings.concurrency,
            released=queues is None,
            backwards=backwards,
        )

    async def run(self) -> None:
        """Work until every entry has ended, or ``stop``. A local fault is left in ``fault``."""
        count = workers_of(self._settings)
        if not self._fetcher.segments.is_on:
            count = min(count, len(self._entries))
        async with asyncio.TaskGroup() as group:
            if self._placing is None:
                await self._open()
            placing = [group.create_task(self._placing.run())] if self._placing else []
            self._workers = [group.create_task(self._work(), name=f"worker {n}") for n in range(count)]
            watching = [group.create_task(self._monitor.watch()), group.create_task(self._monitor.tick())]
            committing = [group.create_task(self._commit(volume)) for volume in self._volumes]
            if self._workers:
                await asyncio.wait(self._workers)
            for volume in self._volumes:
                volume.drain()
            await asyncio.wait(committing)
            if self._placing is not None:
                self._placing.committed()
                await asyncio.wait(placing)
            for task in watching:
                task.cancel()
        for transfer in self.schedule.drain():
            self.finish(transfer, "cancelled", kept_bytes=transfer.part.keep_leftover())
        if self._placing is not None:
            self._placing.end()
        self._monitor.report()

    async def _open(self) -> None:
        try:
            await self._volumes[0].open()
        except LocalFault as fault:
            self.fail(fault)

    async def _commit(self, volume: Volume) -> None:
        try:
            await volume.run()
        except LocalFault as fault:  # the last names could not be made durable
            self.fail(fault)

    def fail(self, fault: LocalFault) -> None:
        """End the run: the machine cannot go on. The first fault is the run's."""
        self.fault = self.fault or fault
        self.stop(str(fault))

    def lease(self, leases: Mapping[str, int], others: int | None) -> None:
        """See ``Hosts.lease``; for a pool that is one of several on the same hosts."""
        self._hosts.lease(leases, others)
        self.wake()

    def demands(self, hosts: Collection[str]) -> dict[str, tuple[int, int]]:
        """See ``Hosts.demand``; of a pool with one volume, whose queues are its hosts."""
        left = {
            host: self.schedule.left(queue) for queue, host in enumerate(self._entries.hosts) if host in hosts
        }
        return {host: self._hosts.demand(host, left.get(host, 0)) for host in hosts}

    def judge_by(self, median_bps: float | None) -> None:
        """See ``Policy.judge_by``."""
        self._policy.judge_by(median_bps)

    def learned(self) -> Knowledge:
        """See ``Policy.learned``."""
        return self._policy.learned(self._clock.wall())

    def blame(self, fault: LocalFault) -> None:
        """The run goes on with what it can, and ends with this fault."""
        self.fault = self.fault or fault

    def landed(self, at: int) -> int:
        """Bytes that have come for volume ``at`` until now."""
        return self._flights.landed_bytes(at)

    def stop(self, reason: str, *, again: bool = False) -> None:
        """Start nothing new and close what is under way; ``run`` returns soon after.

        ``again``: the reason is told even if the run is stopping for another, as it is the true one.
        """
        if self._stopping and not again:
            return
        self._emit(RunStopping(t_s=self.now(), reason=reason))
        if self._stopping:
            return
        self._stopping = True
        if self._placing is not None:
            self._placing.stop()
        for worker in self._workers:
            worker.cancel()

    def now(self) -> float:
        """Seconds since the run's start."""
        return self._clock.now()

    async def _work(self) -> None:
        while not self._stopping and (transfer := await self._next()) is not None:
            if isinstance(transfer, Helper):
                await self._fetcher.help(transfer)
                self.schedule.reopen_shut()
                self._wake_one()
                continue
            self._in_hand += 1
            try:
                await self._bring(transfer)
            except LocalFault as fault:
                self.fail(fault)
            finally:
                self._in_hand -= 1
                self._leave(transfer)
            if transfer.moved:
                await let_pass()

    async def _next(self) -> Transfer | Helper | None:
        """The next entry to work on, with a place at its host where it is not to fail; None at the end."""
        while True:
            if self._helpers:
                return self._helpers.popleft()
            found = self.schedule.take(self.now())
            if isinstance(found, int) and self._placing is not None and self._placing.passes(found):
                continue
            if found is not None:
                return self._taken(found)
            if self._is_over:
                self._wake_one()  # each tells the next that it is over
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            wait_s = self.schedule.next_s() - self.now()
            await asyncio.wait([waiter], timeout=None if wait_s == NEVER else max(wait_s, SHORTEST_WAIT_S))
            waiter.cancel()

    @property
    def _is_over(self) -> bool:
        """Nothing is left to start, and nobody whom an idle worker could help."""
        if self._fetcher.segments.is_on and self._in_hand:
            return False
        return self._placing.is_over if self._placing is not None else not self.schedule.waiting

    def _share_out(self) -> None:
        """Hosts get other widths; idle workers help those that have much left."""
        now_s = self.now()
        is_calm = now_s >= self._monitor.slow_until_s
        if look_at_widths(self._hosts, self._flights, self._emit, now_s, is_calm=is_calm):
            self.wake()
        idle = sum(not waiter.done() for waiter in self._idle) - len(self._helpers)
        if idle > 0 and self._fetcher.segments.helps_any and not self._stopping:
            try:
                self._helpers.extend(self._fetcher.segments.assign(idle))
            except LocalFault as fault:  # a part could not be opened up
                self.fail(fault)
            for _ in range(len(self._helpers)):
                self._wake_one()

    def _taken(self, found: int | Transfer) -> Transfer:
        now_s = self.now()
        if isinstance(found, Transfer):
            transfer = found
            transfer.take_again(now_s)
        else:
            transfer = self._new_transfer(found, now_s)
            self._has_mirrors = self._has_mirrors or bool(transfer.entry.mirrors)
        if self._placing is not None:
            self._placing.taken(transfer)
        self._fetcher.place(transfer)
        return transfer

    def _new_transfer(self, index: int, now_s: float) -> Transfer:
        if self._placing is not None:
            return self._placing.transfer(index, now_s)
        entry, queue = self._entries.entry(index), self._entries.host_of[index]
        part, host = self._volumes[0].new_part(entry), self._entries.hosts[queue]
        return Transfer(entry, part, index=index, queue=queue, host=host, now_s=now_s)

    def _opens_s(self, queue: int, found: int | Transfer, now_s: float) -> float:
        """When an entry may start at one of its sources, or is not to wait for any of them."""
        host = queue
        if self._placing is not None:
            volume_s = self._placing.opens_s(queue, now_s)
            if volume_s > now_s:
                return volume_s
            host = self._placing.arrivals.queues.host[queue]
        if isinstance(found, Transfer):
            transfer = found
        else:
            own_s = self._hosts.opens_s(self._entries.hosts[host], now_s)
            if own_s <= now_s:
                return own_s
            transfer = self._new_transfer(found, now_s)
        sources = transfer.sources
        opens_s = min(self._hosts.opens_s(sources.host_of(n), now_s) for n in sources.usable())
        return now_s if opens_s > now_s and self._fetcher.given_up(transfer) is not None else opens_s

    def _leave(self, transfer: Transfer) -> None:
        """A worker is done with the entry, for now or for good: its host has a place again."""
        self._fetcher.leave(transfer)
        if self._placing is not None:
            self._placing.left(transfer)
        self.schedule.reopen(transfer.queue)
        if self._has_mirrors or self._placing is not None:
            self.schedule.reopen_shut()
        self._wake_one()

    def _host_lives(self, host: str) -> None:
        """A host brings bytes: if it was in trouble, it may have more of its places at once."""
        if self._hosts.lives(host):
            self.schedule.reopen_shut()
            self._wake_all()

    def wake(self) -> None:
        """Something may start that could not before, or all is over."""
        self.schedule.reopen_shut()
        self._wake_all()

    def _wake_all(self) -> None:
        for _ in range(len(self._idle)):
            self._wake_one()

    def _wake_one(self) -> None:
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _bring(self, transfer: Transfer) -> None:
        """Bring the entry to its end, or back to the schedule, or to where its batch waits for it."""
        part = transfer.part
        try:
            async with self._turn(transfer):
                if transfer.is_new and await self._is_there(transfer):
                    self._stands(transfer)
                    return
                again_s = None if transfer.verified != "none" else await self._try(transfer)
        except (SourceError, Blocked) as error:
            self._cannot_be_had(transfer, error)
            return
        except asyncio.CancelledError:
            if self._is_moved(transfer):
                return
            raise
        except VolumeFault as fault:
            if self._placing is not None and len(self._volumes) > 1:
                self._placing.volume_failed(transfer, fault)
                return
            self.finish(transfer, "failed", kept_bytes=part.keep_leftover(), error=fault)
            raise
        except LocalFault as fault:
            self.finish(transfer, "failed", kept_bytes=part.keep_leftover(), error=fault)
            raise
        except BaseException:
            part.discard()
            raise
        if self._placing is not None and transfer.moved:
            self._placing.drop(transfer)
            return
        if again_s is not None:
            transfer.put_back(self.now(), again_s)
            self.schedule.put(transfer.queue, transfer, again_s)
            return
        if self._placing is not None:
            self._placing.staged(transfer)
            return
        self._volumes[0].publish([part], partial(self._committed, transfer))
        if self._volumes[0].is_full:
            await self._volumes[0].wait_for_room()

    def _is_moved(self, transfer: Transfer) -> bool:
        """A cancellation has come: whether only because its batch moved, and then it is told of elsewhere."""
        if self._placing is None or not transfer.moved:
            self.finish(transfer, "cancelled", kept_bytes=transfer.part.keep_leftover())
            return False
        self._placing.drop(transfer)
        return was_the_move()

    def _stands(self, transfer: Transfer) -> None:
        if self._placing is not None:
            self._placing.stands(transfer)
        else:
            self.finish(transfer, "skipped", kept_bytes=transfer.entry.size_bytes or 0)

    def _cannot_be_had(self, transfer: Transfer, error: CfetchError) -> None:
        if self._placing is not None:
            self._placing.cannot_be_had(transfer, error)
        else:
            self.finish(transfer, "failed", kept_bytes=transfer.part.keep_leftover(), error=error)

    @asynccontextmanager
    async def _turn(self, transfer: Transfer) -> AsyncIterator[None]:
        """One entry at a time, once the fallback says so; waiting for it is not the entry's time."""
        if not self._policy.sequential:
            yield
            return
        began_s = self.now()
        async with self._one_at_a_time:
            transfer.tries.progress_s += self.now() - began_s
            yield

    def _committed(self, transfer: Transfer, error: CfetchError | None) -> None:
        """The part has its final name, or cannot get it."""
        if error is None:
            self.finish(transfer, "done", kept_bytes=transfer.part.position)
            return
        self.finish(transfer, "failed", error=error)
        if isinstance(error, LocalFault):
            self.fail(error)

    async def _is_there(self, transfer: Transfer) -> bool:
        """Whether the file stands at its place already, or what a dead run has left is the whole of it.

        Then ``transfer.verified`` says what vouches for it; some bytes of it may have been taken over anyhow.
        """
        entry, part = transfer.entry, transfer.part
        transfer.adopted_bytes = 0
        if self._placing is not None:
            found = await self._placing.vouched_for(transfer)
        else:
            found = await self._volumes[0].verify_existing(entry)
        if found is not None:
            await self._clock.sleep(0)  # a plan that is wholly there must not block signals and the dashboard
            self._volumes[0 if transfer.staging is None else transfer.staging.at].remove_leftovers(entry)
            transfer.verified = found
            return True
        if self._placing is not None:
            await self._placing.adopt(transfer)
        else:
            await self._volumes[0].adopt_leftover(entry, part)
        transfer.adopted_bytes = part.position
        self._counts.adopt(part.position)
        if part.position and part.position == entry.size_bytes:
            with suppress(Corrupt):  # then it is empty now, and fetched anew
                transfer.verified = part.verify(entry.size_bytes, entry.digest)
        return False

    async def _try(self, transfer: Transfer) -> float | None:
        """See ``Fetcher.go_on``; raises SourceError too where no source is to be waited for."""
        if transfer.sources.place_bytes is None and not self._fetcher.place(transfer):
            error = self._fetcher.given_up(transfer)
            if error is not None:
                raise error
            transfer.part.close()
            return self.now()  # it was handed out for a place that another has taken meanwhile
        again_s = await self._fetcher.go_on(transfer)
        if again_s is not None:
            transfer.part.close()
        return again_s

    def finish(
        self, transfer: Transfer, status: Status, *, kept_bytes: int = 0, error: CfetchError | None = None
    ) -> None:
        """An entry has come to its end: tell its whole story."""
        record = transfer.record(
            status,
            instant=self._instant,
            volume=self._volumes[0].name if self._placing is None else self._placing.volume_of(transfer),
            now_s=self.now(),
            kept_bytes=kept_bytes,
            error=error,
        )
        record = add_verdicts(record, stall_timeout_s=self._settings.stall_timeout)
        if status in ("failed", "cancelled"):
            self._policy.failed(transfer.entry.id)
        self._counts.end(record)
        self._emit(EntryFinished(t_s=record.end_s, record=record))
