"""One entry's tries: from which source, over which link, and what follows when one fails.

A worker calls ``go_on`` with an entry in hand. What can follow at once (another source, a fresh link, a
straggler's fresh connection) happens within; where a try has to wait, the entry goes back to the schedule.
"""

import asyncio
from collections.abc import Callable

from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.engine.attempt import BreakOff, Running, fetch, outcome_of, unread
from cfetch.engine.hosts import Hosts
from cfetch.engine.monitor import Monitor
from cfetch.engine.segments import Extra, Streams
from cfetch.engine.transfer import Job
from cfetch.errors import Corrupt, LocalFault, SourceError, Straggling, Transient
from cfetch.events import (
    AttemptStarted,
    HostPaused,
    Listener,
    Outcome,
    RetryScheduled,
    StragglerCancelled,
    UrlRefreshed,
)
from cfetch.manifest.fields import Headers
from cfetch.storage.volume import Sink
from cfetch.straggler.policy import Policy
from cfetch.wire.http import Transport
from cfetch.wire.rate import limiter_of
from cfetch.wire.refresh import Link, UrlRefresher
from cfetch.wire.retry import Limits, RetryBudget, Spent, next_step

__all__ = ["Tries"]

EXPIRY_MARGIN_S = 60.0  # a link is renewed this long before its end; a request must not outlive it on the way
NEEDS_FRESH = (None, 421)  # the connection failed, or leads to a server that does not serve this host
MIN_TAIL_BYTES = 64 << 10  # a shorter rest of a resumed file tells the server's latency, not its speed


class Tries:
    """What all entries' tries share.

    ``headers`` are the manifest's, ``total_bytes`` the plan's; ``origin_s`` is the run's start.
    """

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        hosts: Hosts,
        policy: Policy,
        monitor: Monitor,
        transport: Transport,
        *,
        headers: Headers,
        total_bytes: int,
        refresher: UrlRefresher | None,
        clock: Clock,
        origin_s: float,
        jitter: Callable[[], float],
        emit: Listener,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._hosts = hosts
        self._policy = policy
        self._monitor = monitor
        self.streams = Streams(
            settings,
            policy,
            hosts,
            monitor,
            total_bytes=total_bytes,
            clock=clock,
            origin_s=origin_s,
            on_end=self._end_early,
        )
        self._transport = transport
        self._plan_headers = headers
        self._plan_secrets = {name: value.reveal() for name, value in headers}
        self._refresher = refresher
        self._clock = clock
        self._origin_s = origin_s
        self._jitter = jitter
        self._emit = emit
        self._budget = RetryBudget()
        self._limiter = limiter_of(settings, clock)

    async def go_on(self, job: Job) -> float | None:
        """Try until the part is whole and verified (None), or until a try has to wait: from then on.

        ``job`` has a place at its host. Raises SourceError (the file cannot be had) or LocalFault.
        """
        try:
            while True:
                if not job.attempts:
                    self._budget.earn()
                error = await self._bring(job)
                if error is None:
                    return None
                delay_s = self._after(job, error)
                if job.extras and delay_s > 0:  # the others go on meanwhile
                    await self._clock.sleep(delay_s)
                    delay_s = 0.0
                if delay_s > 0 or not self.place(job):
                    return self._now() + delay_s
        finally:
            self.streams.dismiss(job)

    async def _bring(self, job: Job) -> SourceError | None:
        """Bring all of the file that no other stream brings; None when it is whole and verified."""
        part = job.part
        while part.ranges is None or await self.streams.more(job):
            error = await self._renewed(job)
            if error is None:
                error = await self._try_once(job)
            if error is not None or part.ranges is None:
                return error
        try:
            await part.catch_up()
            job.verified = part.verify(job.entry.size_bytes, job.entry.digest)
        except Corrupt as corrupt:
            return corrupt
        return None

    async def help(self, extra: Extra) -> None:
        """One try of a further stream; its entry's owner takes what it does not bring."""
        fault, error = None, None
        try:
            if extra.stretch.left_bytes and extra.host == extra.job.host:
                error = await self._try_once(extra.job, extra)
        except LocalFault as met:
            fault = met
        finally:
            self.streams.over(extra, fault, failed=error is not None and not isinstance(error, Straggling))

    def place(self, job: Job) -> bool:
        """Take a place at the best of the job's sources that bears one more; whether there is one.

        Without one it has none afterwards; with one, the place it had may have been changed for another.
        """
        now_s = self._now()
        self.leave(job)
        source = job.best_source(self._hosts, now_s)
        if source is None:
            return False
        job.move(source)
        job.placed_bytes = job.wanted_bytes
        self._hosts.started(job.host, job.placed_bytes)
        job.placed = True
        return True

    def leave(self, job: Job) -> None:
        """Give the job's place back, if it has one."""
        if job.placed:
            self._hosts.left(job.host, self._now(), job.placed_bytes)
            job.placed = False

    def given_up(self, job: Job) -> SourceError | None:
        """Why the job is not to wait for any of its hosts any longer."""
        reasons = [self._hosts.given_up(job.host_of(n), self._now()) for n in job.usable_sources()]
        return Transient("; ".join(dict.fromkeys(filter(None, reasons)))) if all(reasons) else None

    def _after(self, job: Job, error: SourceError) -> float:
        """Seconds until the next try; raises the error if there is none."""
        job.note_progress(self._now())
        job.count(error)
        elapsed_s = self._now() - job.progress_s
        step = next_step(
            error,
            Spent(job.errors, job.refreshes, elapsed_s, job.corrupt),
            self._limits,
            jitter=self._jitter(),
            can_refresh=self._refresher is not None and job.source == 0,
            others=job.has_other_source(),
            untried=job.has_other_source(untried=True),
            joined=job.has_joined(),
        )
        if step.delay_s is None:
            job.gave_up = step.reason
            raise error
        if step.leave:
            job.leave_source()
        elif not job.may_resume():
            job.part.restart()
        job.must_refresh = job.must_refresh or step.refresh
        if isinstance(error, Straggling):
            return 0.0
        delay_s = step.delay_s
        if not (step.refresh or step.leave):
            delay_s = max(delay_s, self._budget.spend_s(self._now()))
        self._announce_retry(job, error, delay_s)
        return delay_s

    async def _renewed(self, job: Job) -> SourceError | None:
        """Get a fresh link if the job needs one; what went wrong, if that matters."""
        is_due = job.expires_at is not None and self._clock.wall() + EXPIRY_MARGIN_S >= job.expires_at
        must = job.must_refresh
        if self._refresher is None or job.source != 0 or not (must or is_due):
            return None
        try:
            headers = tuple((dict(self._plan_headers) | dict(job.headers)).items())
            link = await self._refresher.refresh(job.entry, Link(job.url, job.expires_at, headers))
        except SourceError as error:
            return error if must else None  # the old link may still do: clocks differ
        job.take(link, counts=must)
        job.must_refresh = False
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

    async def _try_once(self, job: Job, extra: Extra | None = None) -> SourceError | None:
        """One attempt; None when its stretch is here, or all of the part, which is verified then."""
        entry, part = job.entry, job.part
        sink: Sink = part if extra is None else part.writer(extra.stretch)
        run = self._start(job, sink, extra)
        try:
            await fetch(
                run,
                sink,
                url=job.url,
                secrets=job.secrets(self._plan_secrets),
                digest=entry.digest,
                transport=self._transport,
                clock=self._clock,
                origin_s=self._origin_s,
                fresh=job.fresh or extra is not None,
                limiter=self._limiter,
            )
            if run.fell_short and run.received < MIN_TAIL_BYTES:
                raise Transient(f"the server sent only {run.received} bytes of what it was asked for")
            if extra is None and part.ranges is None:
                job.verified = part.verify(entry.size_bytes, entry.digest)
            self._end(job, run, "done", None)
            return None
        except asyncio.CancelledError:
            if not run.was_broken_off():
                self._end_untold(job, run, "interrupted")
                raise
            return self._broken_off(job, run)
        except SourceError as failure:
            error = self._unless_whole(job, run, failure)
            self._end(job, run, outcome_of(error), error)
            job.fresh = job.fresh or failure.http_status in NEEDS_FRESH
            return error
        except LocalFault as fault:
            self._end_untold(job, run, str(fault))
            raise

    def _start(self, job: Job, sink: Sink, extra: Extra | None) -> Running:
        entry, now_s, stretch = job.entry, self._now(), sink.stretch
        position = sink.position if stretch is None else stretch.position
        end = entry.size_bytes if stretch is None else stretch.end
        immune = extra is None and job.is_last_try(self._settings.max_attempts)
        job.begun += 1
        n = job.begun
        run = Running(
            entry.id,
            n,
            now_s,
            from_byte=position,
            size_bytes=entry.size_bytes if stretch is None else sink.total_bytes,
            immune=immune,
            at=0 if job.staging is None else job.staging.at,
            key=None if extra is None else extra.key,
        )
        run.host, run.mirror = job.host, job.mirror
        run.hedged = extra is not None and extra.is_hedge
        if stretch is not None and stretch.end != run.size_bytes:
            run.to_byte = stretch.end
        wanted = None if end is None else end - position
        self._policy.started(
            run.key, wanted, now_s, host=job.host, immune=immune, mitigations=job.mitigations
        )
        self._monitor.active[run.key] = (run, entry)
        self.streams.began(run, job)
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

    def _end(self, job: Job, run: Running, outcome: Outcome, error: SourceError | None) -> None:
        """The attempt is over; its host is told."""
        now_s = self._now()
        if not self._is_over(run):
            return
        if outcome == "done":
            tail = run.from_byte > 0 and run.received < MIN_TAIL_BYTES
            told_bytes = None if tail else run.received
            self._policy.finished(run.key, told_bytes, now_s, first_byte_s=run.first_byte_s)
        elif outcome == "straggler":
            lost_bytes = 0 if job.may_resume() else job.part.position
            self._policy.cancelled(run.key, now_s, lost_bytes)
        else:
            self._policy.paused(run.key)
        told = None if error is None else str(error)
        job.attempts.append(run.record(outcome, told, now_s))
        pause = self._hosts.ended(
            run.host,
            error,
            now_s,
            started_s=run.start_s,
            received=run.received,
            jitter=self._jitter(),
        )
        if pause is not None:
            self._emit(HostPaused(t_s=now_s, host=pause.host, pause_s=pause.pause_s, reason=pause.reason))

    def _end_untold(self, job: Job, run: Running, error: str, outcome: Outcome = "error") -> None:
        """The attempt is over for a reason that tells nothing about its host."""
        if not self._is_over(run):
            return
        self._policy.paused(run.key)
        job.attempts.append(run.record(outcome, error, self._now()))

    def _end_early(self, run: Running, job: Job) -> None:
        """It was broken off for what other streams have done, or for its entry's end."""
        if data := unread(run):  # nobody needs them, but they have come
            run.note(self._now(), len(data))
        told = "another stream was ahead" if run.hedged else "not needed any more"
        self._end_untold(job, run, told, "lost" if run.hedged else "error")

    def _is_over(self, run: Running) -> bool:
        """It is under way no more; False: that was told before."""
        if self._monitor.active.get(run.key, (None,))[0] is not run:
            return False
        self._monitor.attempt_ended(run)
        self.streams.ended(run)
        return True

    def _unless_whole(self, job: Job, run: Running, failure: SourceError) -> SourceError | None:
        """What stays of ``failure``: None if the last byte had come, and the file is whole after all."""
        entry, part = job.entry, job.part
        if run.key < 0 or run.size_bytes is None or part.position != run.size_bytes or not run.received:
            return failure
        if part.ranges is not None:
            return None  # whoever owns it proves it
        try:
            job.verified = part.verify(entry.size_bytes, entry.digest)
        except Corrupt as corrupt:
            return corrupt
        return None

    def _broken_off(self, job: Job, run: Running) -> SourceError | None:
        """The monitor ended the attempt."""
        entry, part = job.entry, job.part
        if run.reason in (BreakOff.OVERTAKEN, BreakOff.DISMISSED):
            return None
        straggler = run.reason is BreakOff.STRAGGLER
        silent = Transient(f"no byte for {self._settings.stall_timeout:g} s")
        slow = Straggling("far slower than the other files")
        error = self._unless_whole(job, run, slow if straggler else silent)
        job.fresh = True
        word: Outcome = "straggler" if straggler else "stalled"
        self._end(job, run, word if error else "done", error)
        if straggler:
            job.mitigations += run.key == run.id
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

    def _now(self) -> float:
        return self._clock.monotonic() - self._origin_s
