"""Makes the tries of one entry: chooses source and link, and decides what follows when a try fails.

A worker calls ``go_on`` with an entry in hand. What can follow at once (another source, a fresh link, a
straggler's fresh connection) happens within; where a try has to wait, the entry goes back to the schedule.
"""

import asyncio
from collections.abc import Callable

from cfetch.clock import RunClock
from cfetch.config.settings import Settings
from cfetch.engine.attempt import Assignment, Attempt, BreakOff, fetch, outcome_of
from cfetch.engine.flights import Flights
from cfetch.engine.hosts import Hosts
from cfetch.engine.links import Links
from cfetch.engine.live_counts import LiveCounts
from cfetch.engine.segments import Helper, Segments
from cfetch.engine.transfer import Transfer
from cfetch.errors import Corrupt, LocalFault, SourceError, Straggling, Transient
from cfetch.events import (
    AttemptStarted,
    HostPaused,
    Listener,
    RetryScheduled,
    StragglerCancelled,
)
from cfetch.manifest.fields import Headers
from cfetch.records import Outcome
from cfetch.storage.volume import Sink
from cfetch.straggler.policy import Policy
from cfetch.wire.http import Transport
from cfetch.wire.rate import make_limiter
from cfetch.wire.refresh import UrlRefresher
from cfetch.wire.retry import Limits, RetryBudget, Spent, next_step

NEEDS_FRESH = (None, 421)  # the connection failed, or its server does not serve this host
MIN_TAIL_BYTES = 64 << 10  # a shorter rest of a resumed file tells the server's latency, not its speed


class Fetcher:
    """What all entries' tries share. ``headers`` are the manifest's."""

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        hosts: Hosts,
        policy: Policy,
        flights: Flights,
        counts: LiveCounts,
        transport: Transport,
        *,
        put_back: Callable[[], int],
        headers: Headers,
        refresher: UrlRefresher | None,
        clock: RunClock,
        jitter: Callable[[], float],
        emit: Listener,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._hosts = hosts
        self._policy = policy
        self._flights = flights
        self._counts = counts
        self.segments = Segments(
            policy,
            hosts,
            flights,
            most=settings.most_segments,
            put_back=put_back,
            clock=clock,
            on_end=self._end_early,
        )
        self._transport = transport
        self._plan_secrets = {name: value.reveal() for name, value in headers}
        self._links = Links(refresher, headers, clock, emit)
        self._clock = clock
        self._jitter = jitter
        self._emit = emit
        self._budget = RetryBudget()
        self._limiter = make_limiter(settings.rates, clock)

    async def go_on(self, transfer: Transfer) -> float | None:
        """Try until the part is whole and verified (None), or until a try has to wait: from then on.

        ``transfer`` has a place at its host. Raises SourceError (the file cannot be had) or LocalFault.
        """
        try:
            while True:
                if not transfer.attempts:
                    self._budget.earn()
                error = await self._bring(transfer)
                if error is None:
                    return None
                delay_s = self._plan_retry(transfer, error)
                if transfer.helpers.keys and delay_s > 0:  # the others go on meanwhile
                    await self._clock.sleep(delay_s)
                    delay_s = 0.0
                if delay_s > 0 or not self.place(transfer):
                    return self._clock.now() + delay_s
        finally:
            self.segments.dismiss(transfer)

    async def _bring(self, transfer: Transfer) -> SourceError | None:
        """Bring all of the file that no helper brings; None when it is whole and verified."""
        part = transfer.part
        while part.ranges is None or await self.segments.take_missing(transfer):
            error = await self._links.renew(transfer)
            if error is None:
                error = await self._try_once(transfer)
            if error is not None or part.ranges is None:
                return error
        try:
            await part.hash_rest()
            transfer.verified = part.verify(transfer.entry.size_bytes, transfer.entry.digest)
        except Corrupt as corrupt:
            return corrupt
        return None

    async def help(self, helper: Helper) -> None:
        """One try of a helper; the entry's owner takes what it does not bring."""
        fault, error = None, None
        try:
            if helper.segment.left_bytes and helper.host == helper.transfer.host:
                error = await self._try_once(helper.transfer, helper)
        except LocalFault as met:
            fault = met
        finally:
            self.segments.end_helper(
                helper, fault, failed=error is not None and not isinstance(error, Straggling)
            )

    def place(self, transfer: Transfer) -> bool:
        """Take a place at the best of the transfer's sources that bears one more; whether there is one.

        Without one it has none afterwards; with one, the place it had may have been changed for another.
        """
        now_s = self._clock.now()
        self.leave(transfer)
        source = transfer.best_source(self._hosts, now_s)
        if source is None:
            return False
        transfer.move(source)
        place_bytes = transfer.sources.place_bytes = transfer.wanted_bytes
        self._hosts.take_place(transfer.host, place_bytes)
        return True

    def leave(self, transfer: Transfer) -> None:
        """Give the transfer's place back, if it has one."""
        sources = transfer.sources
        if sources.place_bytes is not None:
            self._hosts.free_place(sources.host, self._clock.now(), sources.place_bytes)
            sources.place_bytes = None

    def given_up(self, transfer: Transfer) -> SourceError | None:
        """Why the transfer is not to wait for any of its hosts any longer."""
        now_s = self._clock.now()
        sources = transfer.sources
        reasons = [self._hosts.given_up(sources.host_of(n), now_s) for n in sources.usable()]
        return Transient("; ".join(dict.fromkeys(filter(None, reasons)))) if all(reasons) else None

    def _plan_retry(self, transfer: Transfer, error: SourceError) -> float:
        """Seconds until the next try; raises the error if there is none."""
        transfer.note_progress(self._clock.now())
        transfer.count(error)
        sources, tries, access = transfer.sources, transfer.tries, transfer.access
        elapsed_s = self._clock.now() - tries.progress_s
        step = next_step(
            error,
            Spent(tries.errors, access.refreshes, elapsed_s, sources.corrupt),
            self._limits,
            jitter=self._jitter(),
            can_refresh=self._links.can_renew(transfer),
            others=sources.has_other(),
            untried=sources.has_other(untried=True),
            joined=transfer.has_joined(),
        )
        if step.delay_s is None:
            tries.gave_up = step.reason
            raise error
        if step.leave:
            transfer.leave_source()
        elif not transfer.may_resume():
            transfer.part.restart()
        access.must_refresh = access.must_refresh or step.refresh
        if isinstance(error, Straggling):
            return 0.0
        delay_s = step.delay_s
        if not (step.refresh or step.leave):
            delay_s = max(delay_s, self._budget.spend_s(self._clock.now()))
        self._announce_retry(transfer, error, delay_s)
        return delay_s

    async def _try_once(self, transfer: Transfer, helper: Helper | None = None) -> SourceError | None:
        """One attempt; None when its segment is here, or all of the part, which is verified then."""
        entry, part = transfer.entry, transfer.part
        sink: Sink = part if helper is None else part.open_segment(helper.segment)
        attempt = self._start(transfer, sink, helper)
        try:
            await fetch(
                attempt,
                sink,
                url=transfer.access.url,
                secrets=transfer.access.secrets(self._plan_secrets, transfer.sources.number),
                digest=entry.digest,
                transport=self._transport,
                clock=self._clock,
                fresh=transfer.access.is_fresh or helper is not None,
                limiter=self._limiter,
            )
            if attempt.reply.fell_short and attempt.received < MIN_TAIL_BYTES:
                raise Transient(f"the server sent only {attempt.received} bytes of what it was asked for")
            if helper is None and part.ranges is None:
                transfer.verified = part.verify(entry.size_bytes, entry.digest)
            self._end(transfer, attempt, "done", None)
            return None
        except asyncio.CancelledError:
            if not attempt.was_broken_off():
                self._end_unjudged(transfer, attempt, "interrupted")
                raise
            return self._end_broken_off(transfer, attempt)
        except SourceError as failure:
            error = self._excuse_if_whole(transfer, attempt, failure)
            self._end(transfer, attempt, outcome_of(error), error)
            access = transfer.access
            access.is_fresh = access.is_fresh or failure.http_status in NEEDS_FRESH
            return error
        except LocalFault as fault:
            self._end_unjudged(transfer, attempt, str(fault))
            raise

    def _start(self, transfer: Transfer, sink: Sink, helper: Helper | None) -> Attempt:
        entry, now_s, segment, tries = transfer.entry, self._clock.now(), sink.segment, transfer.tries
        position = sink.position if segment is None else segment.position
        end = entry.size_bytes if segment is None else segment.end
        size_bytes = entry.size_bytes if segment is None else sink.total_bytes
        tries.begun += 1
        assignment = Assignment(
            entry,
            tries.begun,
            transfer.host,
            transfer.sources.mirror,
            volume_index=0 if transfer.staging is None else transfer.staging.volume_index,
            is_immune=helper is None
            and (
                tries.has_one_failure_left(self._limits.max_attempts)
                or self._policy.must_spare(transfer.host, tries.mitigations)
            ),
        )
        attempt = Attempt(
            assignment,
            now_s,
            from_byte=position,
            size_bytes=size_bytes,
            to_byte=segment.end if segment is not None and segment.end != size_bytes else None,
            key=None if helper is None else helper.key,
        )
        self._policy.note_start(
            attempt.key,
            None if end is None else end - position,
            now_s,
            host=assignment.host,
            immune=assignment.is_immune,
            mitigations=tries.mitigations,
        )
        self._flights.add(attempt, transfer)
        self._emit(
            AttemptStarted(
                t_s=now_s,
                id=entry.id,
                n=assignment.n,
                path=entry.path,
                host=assignment.host,
                size_bytes=entry.size_bytes,
                from_byte=position,
            )
        )
        return attempt

    def _end(self, transfer: Transfer, attempt: Attempt, outcome: Outcome, error: SourceError | None) -> None:
        """The attempt is over; its host and the policy learn from it."""
        now_s = self._clock.now()
        if not self._flights.remove(attempt):
            return
        if outcome == "done":
            tail = attempt.from_byte > 0 and attempt.received < MIN_TAIL_BYTES
            sample_bytes = None if tail else attempt.received
            self._policy.note_finish(attempt.key, sample_bytes, now_s, first_byte_s=attempt.first_byte_s)
        elif outcome == "straggler":
            lost_bytes = 0 if transfer.may_resume() else transfer.part.position
            self._policy.note_cancellation(attempt.key, now_s, lost_bytes)
        else:
            self._policy.note_pause(attempt.key)
        reason = None if error is None else str(error)
        transfer.attempts.append(attempt.record(outcome, reason, now_s))
        pause = self._hosts.note_end(
            attempt.assignment.host,
            error,
            now_s,
            started_s=attempt.start_s,
            received=attempt.received,
            jitter=self._jitter(),
        )
        if pause is not None:
            self._emit(HostPaused(t_s=now_s, host=pause.host, pause_s=pause.pause_s, reason=pause.reason))

    def _end_unjudged(self, transfer: Transfer, attempt: Attempt, error: str) -> None:
        """The attempt is over for a reason that says nothing about its host."""
        if not self._flights.remove(attempt):
            return
        self._policy.note_pause(attempt.key)
        transfer.attempts.append(attempt.record("error", error, self._clock.now()))

    def _end_early(self, attempt: Attempt, transfer: Transfer) -> None:
        """It was broken off for what other attempts have done, or for its entry's end."""
        if data := attempt.reply.unread():  # these bytes were received, although they are not needed
            attempt.note(self._clock.now(), len(data))
        self._end_unjudged(transfer, attempt, "not needed any more")

    def _excuse_if_whole(
        self, transfer: Transfer, attempt: Attempt, failure: SourceError
    ) -> SourceError | None:
        """What stays of ``failure``: None if the last byte had come, and the file is whole after all."""
        entry, part = transfer.entry, transfer.part
        if (
            attempt.is_helper
            or attempt.size_bytes is None
            or part.position != attempt.size_bytes
            or not attempt.received
        ):
            return failure
        if part.ranges is not None:
            return None  # the owner of the entry verifies the file
        try:
            transfer.verified = part.verify(entry.size_bytes, entry.digest)
        except Corrupt as corrupt:
            return corrupt
        return None

    def _end_broken_off(self, transfer: Transfer, attempt: Attempt) -> SourceError | None:
        """The monitor ended the attempt."""
        entry, part = transfer.entry, transfer.part
        if attempt.reason in (BreakOff.OVERTAKEN, BreakOff.DISMISSED):
            return None
        straggler = attempt.reason is not BreakOff.STALLED
        cause: SourceError = Straggling("far slower than the other files")
        if attempt.reason is BreakOff.STALLED:
            cause = Transient(f"no byte for {self._settings.stall_timeout:g} s")
        elif attempt.reason is BreakOff.BELOW_MIN_RATE:
            cause = Straggling(f"below min_rate, {self._settings.min_rate:,} bytes per second")
        error = self._excuse_if_whole(transfer, attempt, cause)
        transfer.access.is_fresh = True
        word: Outcome = "straggler" if straggler else "stalled"
        self._end(transfer, attempt, word if error else "done", error)
        if straggler:
            if attempt.reason is BreakOff.BELOW_MIN_RATE:
                transfer.tries.below_min_rate += 1
            else:
                transfer.tries.mitigations += not attempt.is_helper
            self._emit(
                StragglerCancelled(
                    t_s=self._clock.now(),
                    id=entry.id,
                    offset=entry.position,
                    path=entry.path,
                    size_bytes=entry.size_bytes,
                    elapsed_s=self._clock.now() - attempt.start_s,
                    attempt=attempt.assignment.n,
                    kept_bytes=part.position if transfer.may_resume() else 0,
                    completed=error is None,
                )
            )
        return error

    def _announce_retry(self, transfer: Transfer, error: SourceError, delay_s: float) -> None:
        self._counts.announce_retry(transfer.entry.id)
        self._emit(
            RetryScheduled(
                t_s=self._clock.now(),
                id=transfer.entry.id,
                path=transfer.entry.path,
                n=len(transfer.attempts) + 1,
                delay_s=delay_s,
                error_kind=error.kind,
                error=str(error),
            )
        )
