"""The worker pool: a fixed number of workers take entries in turn and bring each to its end.

A worker holds one entry at a time: it tries, publishes, reports, and takes the next; an entry whose next
try has to wait goes back to the schedule, its file closed. So memory and descriptors are bounded by
``--concurrency``. All workers, the monitor and the ticker live in one task group: when ``run`` returns
nothing of it is left, whatever happened.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.errors import Blocked, CfetchError, Corrupt, LocalFault, SourceError
from cfetch.events import EntryFinished, Listener, RunStopping, Status
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.placement.local import LocalVolume
from cfetch.straggler.detector import Detector
from cfetch.transfer.committer import Committer
from cfetch.transfer.hosts import Hosts
from cfetch.transfer.http import Transport
from cfetch.transfer.job import Job
from cfetch.transfer.kept import Kept
from cfetch.transfer.monitor import Monitor
from cfetch.transfer.part import Part, hash_and_close
from cfetch.transfer.refresh import UrlRefresher
from cfetch.transfer.resume import identity
from cfetch.transfer.retry import Limits
from cfetch.transfer.schedule import NEVER, Schedule
from cfetch.transfer.tries import Tries

__all__ = ["Pool"]

MOST_PUT_BACK = 16  # entries per worker that may wait for their next try; beyond, nothing new is begun
SHORTEST_WAIT_S = 0.001  # the loop's clock may be a hair behind the time that was asked for


class Pool:
    """One run over one plan. ``jitter`` returns uniform numbers in [0, 1); ``emit`` gets every event."""

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        volume: LocalVolume,
        transport: Transport,
        *,
        instant: str,
        clock: Clock,
        jitter: Callable[[], float],
        emit: Listener,
        refresher: UrlRefresher | None = None,
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._volume = volume
        self._instant = instant
        self._clock = clock
        self._emit = emit
        self._committer = Committer(volume, durable=settings.durability == "power")
        self._kept = Kept(volume)
        self._origin_s = clock.monotonic()
        limits = Limits(settings.max_attempts, settings.retry_budget)
        self._hosts = Hosts(min(settings.concurrency, settings.per_host or settings.concurrency), limits)
        self._schedule: Schedule[Job] = Schedule(
            plan.sizes,
            plan.host_of,
            len(plan.hosts),
            opens_s=self._opens_s,
            most_put_back=MOST_PUT_BACK * settings.concurrency,
        )
        self._has_mirrors = False  # until an entry with mirrors is met
        self._detector = Detector(settings.straggler)
        self._monitor = Monitor(
            self._detector, self._schedule, settings, clock, self._origin_s, emit, self._host_lives
        )
        self._tries = Tries(
            settings,
            limits,
            self._hosts,
            self._detector,
            self._monitor,
            transport,
            headers=plan.headers,
            refresher=refresher,
            clock=clock,
            origin_s=self._origin_s,
            jitter=jitter,
            emit=emit,
        )
        self._idle: deque[asyncio.Future[None]] = deque()  # workers that wait for something to start
        self._one_at_a_time = asyncio.Lock()
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False
        self.fault: LocalFault | None = None

    async def run(self) -> None:
        """Work until every entry has ended, or ``stop``. A local fault is left in ``fault``."""
        count = min(self._settings.concurrency, len(self._plan))
        async with asyncio.TaskGroup() as group:
            self._workers = [group.create_task(self._work(), name=f"worker {n}") for n in range(count)]
            watching = [group.create_task(self._monitor.watch()), group.create_task(self._monitor.tick())]
            committing = group.create_task(self._commit())
            if self._workers:
                await asyncio.wait(self._workers)
            self._committer.drain()
            await asyncio.wait([committing])
            for task in watching:
                task.cancel()
        for job in self._schedule.drain():
            self._finish(job, "cancelled", kept_bytes=job.part.leave())
        self._monitor.report()

    async def _commit(self) -> None:
        try:
            await self._committer.run()
        except LocalFault as fault:  # the last names could not be made durable
            self.fail(fault)

    def fail(self, fault: LocalFault) -> None:
        """End the run: the machine cannot go on. The first fault is the run's."""
        self.fault = self.fault or fault
        self.stop(str(fault))

    def stop(self, reason: str, *, again: bool = False) -> None:
        """Start nothing new and close what is under way; ``run`` returns soon after.

        ``again``: the reason is told even if the run is stopping for another, as it is the true one.
        """
        if self._stopping and not again:
            return
        self._emit(RunStopping(t_s=self._now(), reason=reason))
        if self._stopping:
            return
        self._stopping = True
        for worker in self._workers:
            worker.cancel()

    def _now(self) -> float:
        return self._clock.monotonic() - self._origin_s

    async def _work(self) -> None:
        while not self._stopping and (job := await self._next()) is not None:
            try:
                await self._bring(job)
            except LocalFault as fault:
                self.fail(fault)
            finally:
                self._leave(job)

    async def _next(self) -> Job | None:
        """The next entry to work on, with a place at its host where it is not to fail; None at the end."""
        while True:
            found = self._schedule.take(self._now())
            if found is not None:
                return self._taken(found)
            if not self._schedule.waiting:
                self._wake_one()  # each tells the next that it is over
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            wait_s = self._schedule.next_s() - self._now()
            await asyncio.wait([waiter], timeout=None if wait_s == NEVER else max(wait_s, SHORTEST_WAIT_S))
            waiter.cancel()

    def _taken(self, found: int | Job) -> Job:
        now_s = self._now()
        if isinstance(found, Job):
            job = found
            job.queued_s += now_s - job.put_s
            job.progress_s += max(0.0, now_s - job.due_s)  # it was the host's time, not the entry's
        else:
            job = self._new_job(found, now_s)
            self._has_mirrors = self._has_mirrors or bool(job.entry.mirrors)
        self._tries.place(job)
        return job

    def _new_job(self, index: int, now_s: float) -> Job:
        entry, lane = self._plan.entry(index), self._plan.host_of[index]
        return Job(entry, Part(self._volume, entry), lane=lane, host=self._plan.hosts[lane], now_s=now_s)

    def _opens_s(self, lane: int, found: int | Job, now_s: float) -> float:
        """When an entry may start at one of its sources, or is not to wait for any of them."""
        if isinstance(found, Job):
            job = found
        else:
            own_s = self._hosts.opens_s(self._plan.hosts[lane], now_s)
            if own_s <= now_s:
                return own_s
            job = self._new_job(found, now_s)
        opens_s = min(self._hosts.opens_s(job.host_of(n), now_s) for n in job.usable_sources())
        return now_s if opens_s > now_s and self._tries.given_up(job) is not None else opens_s

    def _leave(self, job: Job) -> None:
        """A worker is done with the entry, for now or for good: its host has a place again."""
        self._tries.leave(job)
        self._schedule.reopen(job.lane)
        if self._has_mirrors:
            self._schedule.reopen_shut()
        self._wake_one()

    def _host_lives(self, host: str) -> None:
        """A host brings bytes: if it was in trouble, it may have more of its places at once."""
        if self._hosts.lives(host):
            self._schedule.reopen_shut()
            for _ in range(len(self._idle)):
                self._wake_one()

    def _wake_one(self) -> None:
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _bring(self, job: Job) -> None:
        """Bring the entry to its end, or back to the schedule."""
        part = job.part
        try:
            async with self._turn(job):
                if not job.attempts and await self._is_there(job):
                    self._finish(job, "skipped", kept_bytes=job.entry.size_bytes or 0)
                    return
                again_s = None if job.verified != "none" else await self._try(job)
        except (SourceError, Blocked) as error:
            self._finish(job, "failed", kept_bytes=part.leave(), error=error)
            return
        except asyncio.CancelledError:
            self._finish(job, "cancelled", kept_bytes=part.leave())
            raise
        except LocalFault as fault:
            self._finish(job, "failed", kept_bytes=part.leave(), error=fault)
            raise
        except BaseException:
            part.discard()
            raise
        if again_s is not None:
            job.put_s, job.due_s = self._now(), again_s
            self._schedule.put(job.lane, job, again_s)
            return
        self._committer.add(part, partial(self._committed, job))
        if self._committer.is_full:
            await self._committer.room()

    @asynccontextmanager
    async def _turn(self, job: Job) -> AsyncIterator[None]:
        """One entry at a time, once the fallback says so; waiting for it is not the entry's time."""
        if not self._detector.sequential:
            yield
            return
        began_s = self._now()
        async with self._one_at_a_time:
            job.progress_s += self._now() - began_s
            yield

    def _committed(self, job: Job, error: CfetchError | None) -> None:
        """The part has its final name, or cannot get it."""
        if error is None:
            self._finish(job, "done", kept_bytes=job.part.position)
            return
        self._finish(job, "failed", error=error)
        if isinstance(error, LocalFault):
            self.fail(error)

    async def _is_there(self, job: Job) -> bool:
        """Whether the file stands at its place already, or what a dead run has left is the whole of it.

        Then ``job.verified`` says what vouches for it; a part of it may have been taken over in any case.
        """
        entry, part = job.entry, job.part
        size_bytes = self._volume.existing(entry.path)
        found = None if size_bytes is None else await self._vouched_for(entry, size_bytes)
        if found is not None:
            self._kept.drop(entry)
            job.verified = found
            return True
        await self._kept.give(entry, part)
        job.adopted_bytes = part.position
        self._monitor.bytes_adopted += part.position
        if part.position and part.position == entry.size_bytes:
            with suppress(Corrupt):  # then it is empty now, and fetched anew
                job.verified = part.verify(entry.size_bytes, entry.digest)
        return False

    async def _try(self, job: Job) -> float | None:
        """See ``Tries.go_on``; raises SourceError too where no source is to be waited for."""
        if not job.placed and not self._tries.place(job):
            error = self._tries.given_up(job)
            if error is not None:
                raise error
            job.part.close()
            return self._now()  # it was handed out for a place that another has taken meanwhile
        again_s = await self._tries.go_on(job)
        if again_s is not None:
            job.part.close()
        return again_s

    async def _vouched_for(self, entry: Entry, size_bytes: int) -> str | None:
        """What vouches for the file that stands under the entry's name already; None if nothing does."""
        if entry.size_bytes is None and entry.digest is None:
            return None
        if entry.size_bytes is not None and size_bytes != entry.size_bytes:
            return None
        await self._clock.sleep(0)  # a plan that is wholly there must not block signals and the dashboard
        if entry.digest is None:
            source = self._volume.recorded(entry.path)
            links = (entry.url, *entry.mirrors)
            return "size" if source is None or source.identity in map(identity, links) else None
        algorithm = entry.digest.algorithm
        descriptor = self._volume.open_existing(entry.path)
        if descriptor is None:
            return None
        found = await hash_and_close(descriptor, algorithm, entry.path)
        return algorithm if found == entry.digest.hex else None

    def _finish(
        self, job: Job, status: Status, *, kept_bytes: int = 0, error: CfetchError | None = None
    ) -> None:
        record = job.record(
            status,
            instant=self._instant,
            volume=str(self._volume.root),
            now_s=self._now(),
            kept_bytes=kept_bytes,
            error=error,
        )
        if status in ("failed", "cancelled"):
            self._detector.failed(job.entry.id)
        self._monitor.ended_with(record)
        self._emit(EntryFinished(t_s=record.end_s, record=record))
