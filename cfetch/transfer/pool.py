"""The worker pool: a fixed number of workers take entries in turn and bring each to its end.

A worker holds one entry at a time: it tries, waits, tries again, publishes, reports, and takes the next, so
memory and descriptors are bounded by ``--concurrency``. All workers, the monitor and the ticker live in one
task group: when ``run`` returns nothing of it is left, whatever happened.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.errors import Blocked, CfetchError, Corrupt, LocalFault, SourceError, Straggling, Transient
from cfetch.events import (
    AttemptStarted,
    EntryFinished,
    Listener,
    Outcome,
    RetryScheduled,
    RunStopping,
    Status,
    StragglerCancelled,
    UrlRefreshed,
)
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.placement.leftovers import Leftover, boot_id
from cfetch.placement.local import LocalVolume
from cfetch.straggler.detector import Detector
from cfetch.transfer.attempt import BreakOff, Running, fetch, outcome_of
from cfetch.transfer.committer import Committer
from cfetch.transfer.http import Transport
from cfetch.transfer.job import Job
from cfetch.transfer.monitor import Monitor
from cfetch.transfer.part import Part, hash_and_close
from cfetch.transfer.refresh import Link, UrlRefresher
from cfetch.transfer.resume import Note, fits, read_note
from cfetch.transfer.retry import Limits, Spent, next_step
from cfetch.transfer.schedule import Schedule

__all__ = ["Pool"]

EXPIRY_MARGIN_S = 60.0  # a link is renewed this long before its end; a request must not outlive it on the way
NEEDS_FRESH = (None, 421)  # the connection failed, or leads to a server that does not serve this host
MIN_TAIL_BYTES = 64 << 10  # a shorter rest of a resumed file tells the server's latency, not its speed


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
        self._transport = transport
        self._instant = instant
        self._clock = clock
        self._jitter = jitter
        self._emit = emit
        self._refresher = refresher
        self._committer = Committer(volume, durable=settings.durability == "power")
        self._leftovers = _noted(volume.leftovers())
        self._limits = Limits(settings.max_attempts, settings.retry_budget)
        self._schedule = Schedule(plan.sizes, plan.host_of, settings.per_host)
        self._detector = Detector(settings.straggler)
        self._idle: deque[asyncio.Future[None]] = deque()  # workers that wait for a host to have a place
        self._one_at_a_time = asyncio.Lock()
        self._workers: list[asyncio.Task[None]] = []
        self._plan_headers = {name: value.reveal() for name, value in plan.headers}
        self._origin_s = clock.monotonic()
        self._stopping = False
        self.fault: LocalFault | None = None
        self._monitor = Monitor(self._detector, self._schedule, settings, clock, self._origin_s, emit)

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

    def stop(self, reason: str) -> None:
        """Start nothing new and close what is under way; ``run`` returns soon after."""
        if self._stopping:
            return
        self._stopping = True
        self._emit(RunStopping(t_s=self._now(), reason=reason))
        for worker in self._workers:
            worker.cancel()

    def _now(self) -> float:
        return self._clock.monotonic() - self._origin_s

    async def _work(self) -> None:
        while not self._stopping and (index := await self._next()) is not None:
            try:
                if self._detector.sequential:
                    async with self._one_at_a_time:
                        await self._bring(index)
                else:
                    await self._bring(index)
            except LocalFault as fault:
                self.fail(fault)
            finally:
                self._schedule.release(index)
                self._wake_one()

    async def _next(self) -> int | None:
        while True:
            index = self._schedule.take()
            if index is not None:
                return index
            if not self._schedule.waiting:
                self._wake_one()  # each tells the next that it is over
                return None
            waiter = asyncio.get_running_loop().create_future()  # every host with entries is at its cap
            self._idle.append(waiter)
            await waiter

    def _wake_one(self) -> None:
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _bring(self, index: int) -> None:
        entry = self._plan.entry(index)
        now_s = self._now()
        part = Part(self._volume, entry)
        job = Job(entry, part, host=self._plan.hosts[self._plan.host_of[index]], now_s=now_s, queued_s=0.0)
        try:
            size_bytes = self._volume.existing(entry.path)
            found = None if size_bytes is None else await self._vouched_for(entry, size_bytes)
            if found is not None:
                job.verified = found
                self._finish(job, "skipped", kept_bytes=entry.size_bytes or 0)
                return
            is_whole = bool(self._leftovers) and await self._go_on_with_leftover(job)
            error = None if is_whole else await self._try_until_done(job)
            if error is None:
                self._committer.add(part, partial(self._committed, job))
            else:
                self._finish(job, "failed", kept_bytes=part.leave(), error=error)
        except asyncio.CancelledError:
            self._finish(job, "cancelled", kept_bytes=part.leave())
            raise
        except Blocked as blocked:
            self._finish(job, "failed", kept_bytes=part.leave(), error=blocked)
        except LocalFault as fault:
            self._finish(job, "failed", kept_bytes=part.leave(), error=fault)
            raise
        except BaseException:
            part.discard()
            raise
        if self._committer.is_full:
            await self._committer.room()

    def _committed(self, job: Job, error: CfetchError | None) -> None:
        """The part has its final name, or cannot get it."""
        if error is None:
            self._finish(job, "done", kept_bytes=job.part.position)
            return
        self._finish(job, "failed", error=error)
        if isinstance(error, LocalFault):
            self.fail(error)

    async def _go_on_with_leftover(self, job: Job) -> bool:
        """Take over what a dead run has left of this entry, if it fits; whether that is the whole of it."""
        entry, part = job.entry, job.part
        leftover, note = self._leftovers.pop(entry.path, (None, None))
        if leftover is None or note is None or not fits(note, entry, leftover.size_bytes, boot_id()):
            return False
        await part.adopt(leftover, note)
        if part.position != entry.size_bytes:
            return False
        with suppress(Corrupt):  # then it is empty now, and fetched anew
            job.verified = part.verify(entry.size_bytes, entry.digest)
            return True
        return False

    async def _vouched_for(self, entry: Entry, size_bytes: int) -> str | None:
        """What vouches for the file that stands under the entry's name already; None if nothing does."""
        if entry.size_bytes is None and entry.digest is None:
            return None
        if entry.size_bytes is not None and size_bytes != entry.size_bytes:
            return None
        await self._clock.sleep(0)  # a plan that is wholly there must not block signals and the dashboard
        if entry.digest is None:
            return "size"
        algorithm = entry.digest.algorithm
        descriptor = self._volume.open_existing(entry.path)
        if descriptor is None:
            return None
        found = await hash_and_close(descriptor, algorithm, entry.path)
        return algorithm if found == entry.digest.hex else None

    async def _try_until_done(self, job: Job) -> SourceError | None:
        """None when the part is whole and verified, else why it cannot be had."""
        must_refresh = False
        while True:
            error = None
            if must_refresh or self._is_due(job):
                error = await self._refresh(job, must=must_refresh)
            if error is None:
                must_refresh = False
                error = await self._try_once(job)
            if error is None:
                return None
            job.note_progress(self._now())
            job.count(error)
            step = next_step(
                error,
                Spent(job.errors, job.refreshes, self._now() - job.progress_s, job.corrupt),
                self._limits,
                jitter=self._jitter(),
                can_refresh=self._refresher is not None,
            )
            if step.delay_s is None:
                job.gave_up = step.reason
                return error
            if not job.may_resume():
                job.part.restart()
            must_refresh = must_refresh or step.refresh
            if not isinstance(error, Straggling):
                self._announce_retry(job, error, step.delay_s)
                await self._clock.sleep(step.delay_s)

    def _is_due(self, job: Job) -> bool:
        """Whether the job's link is about to end."""
        return job.expires_at is not None and self._clock.wall() + EXPIRY_MARGIN_S >= job.expires_at

    async def _refresh(self, job: Job, *, must: bool) -> SourceError | None:
        """Get a fresh link where one can be had; without ``must``, failing to is no error."""
        if self._refresher is None:
            return None
        try:
            headers = tuple((dict(self._plan.headers) | dict(job.headers)).items())
            stale = Link(job.url, job.expires_at, headers)
            link = await self._refresher.refresh(job.entry, stale)
        except SourceError as error:
            return error if must else None  # the old link may still do: clocks differ
        job.take(link, counts=must)
        self._emit(
            UrlRefreshed(
                t_s=self._now(),
                id=job.entry.id,
                offset=job.entry.position,
                url=str(link.url),
                reason="straggler" if job.attempts and job.attempts[-1].outcome == "straggler" else "expired",
            )
        )
        return None

    async def _try_once(self, job: Job) -> SourceError | None:
        """One attempt; None when the part is whole and verified."""
        entry, part = job.entry, job.part
        run = self._start(job)
        try:
            await fetch(
                run,
                part,
                url=job.url,
                secrets=self._secrets(job),
                digest=entry.digest,
                transport=self._transport,
                clock=self._clock,
                origin_s=self._origin_s,
                fresh=job.fresh,
            )
            job.verified = part.verify(entry.size_bytes, entry.digest)
            self._end(job, run, "done", None)
            return None
        except asyncio.CancelledError:
            if not run.was_broken_off():
                self._end(job, run, "error", "interrupted")
                raise
            return self._broken_off(job, run)
        except SourceError as failure:
            error = self._unless_whole(job, run, failure)
            self._end(job, run, outcome_of(error), None if error is None else str(error))
            job.fresh = job.fresh or failure.http_status in NEEDS_FRESH
            return error
        except LocalFault as fault:
            self._end(job, run, "error", str(fault))
            raise

    def _start(self, job: Job) -> Running:
        entry, position, now_s = job.entry, job.part.position, self._now()
        immune = job.is_last_try(self._settings.max_attempts)
        n = len(job.attempts) + 1
        run = Running(entry.id, n, now_s, from_byte=position, size_bytes=entry.size_bytes, immune=immune)
        wanted = None if entry.size_bytes is None else entry.size_bytes - position
        self._detector.started(entry.id, wanted, now_s, immune=immune, mitigations=job.mitigations)
        self._monitor.active[entry.id] = (run, entry, job.host)
        self._emit(
            AttemptStarted(
                t_s=now_s,
                id=entry.id,
                n=n,
                path=entry.path,
                host=job.host,
                size_bytes=entry.size_bytes,
                from_byte=position,
            )
        )
        return run

    def _end(self, job: Job, run: Running, outcome: Outcome, error: str | None) -> None:
        now_s = self._now()
        del self._monitor.active[run.id]
        if outcome == "done":
            tail = run.from_byte > 0 and run.received < MIN_TAIL_BYTES
            self._detector.finished(run.id, None if tail else run.received, now_s)
        else:
            self._detector.paused(run.id)
        job.attempts.append(run.record(outcome, error, now_s))

    def _unless_whole(self, job: Job, run: Running, failure: SourceError) -> SourceError | None:
        """What stays of ``failure``: None if the last byte had come, and the file is whole after all."""
        entry, part = job.entry, job.part
        if run.size_bytes is None or part.position != run.size_bytes or not run.received:
            return failure
        try:
            job.verified = part.verify(entry.size_bytes, entry.digest)
        except Corrupt as corrupt:
            return corrupt
        return None

    def _broken_off(self, job: Job, run: Running) -> SourceError | None:
        """The monitor ended the attempt."""
        entry, part = job.entry, job.part
        straggler = run.reason is BreakOff.STRAGGLER
        silent = Transient(f"no byte for {self._settings.stall_timeout:g} s")
        slow = Straggling("far slower than the other files")
        error = self._unless_whole(job, run, slow if straggler else silent)
        job.fresh = True
        word: Outcome = "straggler" if straggler else "stalled"
        self._end(job, run, word if error else "done", None if error is None else str(error))
        if straggler:
            job.mitigations += 1
            self._emit(
                StragglerCancelled(
                    t_s=self._now(),
                    id=entry.id,
                    offset=entry.position,
                    path=entry.path,
                    size_bytes=entry.size_bytes,
                    elapsed_s=self._now() - run.start_s,
                    attempt=run.n,
                    kept_bytes=part.position if job.may_resume() else 0,
                    completed=error is None,
                )
            )
        return error

    def _secrets(self, job: Job) -> dict[str, str]:
        if not job.headers:
            return self._plan_headers
        return self._plan_headers | {name: value.reveal() for name, value in job.headers}

    def _announce_retry(self, job: Job, error: SourceError, delay_s: float) -> None:
        self._monitor.retries += 1
        self._emit(
            RetryScheduled(
                t_s=self._now(),
                id=job.entry.id,
                path=job.entry.path,
                n=len(job.attempts) + 1,
                delay_s=delay_s,
                error_kind=error.kind,
                error=str(error),
            )
        )

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


def _noted(leftovers: Iterable[Leftover]) -> dict[str, tuple[Leftover, Note]]:
    """By path, those parts whose notes can be read; of several for one path the longest."""
    found: dict[str, tuple[Leftover, Note]] = {}
    for leftover in sorted(leftovers, key=lambda one: one.size_bytes):
        note = read_note(leftover.note)
        if note is not None:
            found[note.path] = (leftover, note)
    return found
