"""Makes the tries of one entry: chooses source and link, and decides what follows when a try fails.

A worker calls ``go_on`` with an entry in hand. A try that can follow at once (another source, a fresh link, a
straggler's fresh connection) is made within this call; if a try has to wait, the entry goes back to the
schedule.
"""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from cfetch.base.config.settings import Settings
from cfetch.base.errors import Corrupt, LocalFault, RangeRefused, SourceError, Straggling, Transient
from cfetch.base.events import HostPaused
from cfetch.base.records import Outcome
from cfetch.engine.attempt import Assignment, Attempt, BreakOff, Unchanged, name_outcome
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.fetching import Fetching
from cfetch.engine.hosts import Hosts
from cfetch.engine.links import Links
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.segments import Helper, Segments
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entry import Entry
from cfetch.straggler.ways_to_ask import NO_CURE, WayToAsk
from cfetch.wire.judge import is_page_name
from cfetch.wire.retry import RetryBudget
from cfetch.wire.transport import Transport

if TYPE_CHECKING:
    from cfetch.engine.notes import Notes
    from cfetch.storage.volume import Sink
    from cfetch.straggler.policy import Policy
    from cfetch.wire.rate import Limiter

DOUBLINGS = 6  # of the time for a first byte, at most
NEEDS_FRESH = (None, 421)  # the connection failed, or its server does not serve this host


class Fetcher:
    """Makes the tries of all entries."""

    def __init__(
        self,
        settings: Settings,
        hosts: Hosts,
        policy: "Policy",
        in_flight: AttemptsUnderWay,
        segments: Segments,
        links: Links,
        transport: Transport,
        outside: PoolInputs,
        limiter: "Limiter | None",
    ) -> None:
        self._settings = settings
        self._limits = hosts.limits
        self._hosts = hosts
        self._policy = policy
        self._in_flight = in_flight
        self._segments = segments
        self._links = links
        self._clock = outside.clock
        self._jitter = outside.jitter
        self._emit = outside.emit
        self._budget = RetryBudget()
        self.limiter = limiter
        self._notes: Notes | None = None
        self._fetching = Fetching(
            transport,
            outside.clock,
            limiter,
            options=settings.replies,
            note=self._note,
            hold=self._hold,
        )

    def report(self) -> None:
        """Tell what is known of odd files only now that all have come."""
        self._fetching.report()
        if self._notes is not None:
            self._notes.report()

    def _note(self, path: str, text: str) -> None:
        if self._notes is None:
            from cfetch.engine.notes import Notes  # most runs meet no odd file

            self._notes = Notes(self._clock, self._emit)
        self._notes.add(path, text)

    async def go_on(self, transfer: Transfer) -> float | None:
        """Try until the part is whole and verified (returns None) or a try has to wait (returns until when).

        Raises SourceError (the file cannot be had) or LocalFault.
        """
        if transfer.sources.slot_bytes is None:
            now_s = self._clock.now()
            if not self.take_slot(transfer, now_s):
                given_up = self.given_up(transfer, now_s)
                if given_up is not None:
                    raise given_up
                return now_s  # another entry has taken the slot that was free for this one
        try:
            while True:
                if (
                    self._hosts.is_paced
                    and (paced_s := self._hosts.paced_s(transfer.host)) > self._clock.now()
                ):
                    return paced_s
                if not transfer.attempts:
                    self._budget.earn()
                error = await self._bring(transfer)
                if error is None:
                    return None
                delay_s = self._plan_retry(transfer, error)
                if transfer.has_helpers and delay_s > 0:  # the helpers continue meanwhile
                    await self._clock.sleep(delay_s)
                    if transfer.helpers.has_won:
                        return None
                    delay_s = 0.0
                now_s = self._clock.now()
                if delay_s > 0 or not self.take_slot(transfer, now_s):
                    return now_s + delay_s
        finally:
            if transfer.has_helpers or self._in_flight.is_shared(transfer.entry.id):
                self._segments.dismiss(transfer)

    async def _bring(self, transfer: Transfer) -> SourceError | None:
        """Bring all of the file that no helper brings; None when it is whole and verified."""
        part = transfer.part
        if self._settings.max_file_size is not None:
            from cfetch.engine.odd_bodies import refuse_too_large

            refuse_too_large(transfer.entry.size_bytes, self._settings.max_file_size)
        while part.ranges is None or await self._segments.take_missing(transfer):
            can_renew = self._links.can_renew(transfer)
            error = await self._links.renew(transfer) if can_renew else None
            if error is None:
                error = await self._try_once(transfer)
            if error is not None:
                return error
            if can_renew:
                self._links.note_served(transfer)
            if part.ranges is None:
                if not part.has_rest:
                    return None
                break
        try:
            await part.hash_rest()
            transfer.verified = part.verify(transfer.entry.size_bytes, transfer.entry.digest)
        except Corrupt as corrupt:
            return corrupt
        return None

    async def help(self, helper: Helper) -> None:
        """Make the one try of a helper; the entry's owner takes the bytes that it does not bring."""
        fault, error = None, None
        try:
            if helper.is_needed:
                error = await self._try_once(helper.transfer, helper)
        except LocalFault as met:
            fault = met
        finally:
            is_excused = helper.has_brought_some or (isinstance(error, Straggling) and not helper.has_little)
            failed, is_refusal = error is not None and not is_excused, isinstance(error, RangeRefused)
            self._segments.end_helper(helper, fault, failed=failed, is_refusal=is_refusal)

    def take_slot(self, transfer: Transfer, now_s: float) -> bool:
        """Take a slot at the best of the transfer's sources that bears one more. Returns False if none does.

        The transfer gives back the slot that it had before, in either case.
        """
        sources = transfer.sources
        if sources.slot_bytes is not None:
            self.leave(transfer, now_s)
        source = transfer.best_source(self._hosts, now_s, self._limits.max_attempts)
        if source is None:
            return False
        if source != sources.number:
            transfer.move(source)
        sources.slot_bytes = transfer.wanted_bytes
        self._hosts.take_slot(sources.host, sources.slot_bytes)
        return True

    def _hold(self, host: str, pause_s: float, reason: str) -> None:
        """Ask a host nothing that it says it would refuse, unless that lasts too long to be believed.

        An empty ``reason`` is no news: it follows.
        """
        now_s = self._clock.now()
        is_believed = pause_s <= self._limits.retry_budget_s
        if is_believed and self._hosts.join_pause(host, pause_s, now_s, cuts=False) and reason:
            self._emit(HostPaused(t_s=now_s, host=host, pause_s=pause_s, reason=reason, is_certain=True))

    def leave(self, transfer: Transfer, now_s: float) -> None:
        """Give the transfer's slot back, if it has one."""
        sources = transfer.sources
        if sources.slot_bytes is not None:
            self._hosts.free_slot(sources.host, now_s, sources.slot_bytes)
            sources.slot_bytes = None

    def opens_s(self, transfer: Transfer, now_s: float) -> float:
        """When the host of one of the sources for the transfer's next try bears one more attempt."""
        sources, tries_left = transfer.sources, self._limits.max_attempts - transfer.tries.errors
        eligible = sources.eligible(self._hosts, now_s, tries_left)
        return min(self._hosts.opens_s(sources.host_of(n), now_s) for n in eligible)

    def given_up(self, transfer: Transfer, now_s: float) -> SourceError | None:
        """The error of a transfer whose hosts have all been given up; None if it may wait for one of them."""
        sources = transfer.sources
        reasons = [self._hosts.given_up(sources.host_of(n), now_s) for n in sources.usable()]
        return Transient("; ".join(dict.fromkeys(filter(None, reasons)))) if all(reasons) else None

    def _plan_retry(self, transfer: Transfer, error: SourceError) -> float:
        """Seconds until the next try; raises the error if there is none."""
        from cfetch.engine.failed_tries import make_retry  # in most runs no try fails
        from cfetch.wire.next_step import Spent, next_step

        now_s = self._clock.now()
        transfer.note_progress(now_s)
        transfer.count(error)
        transfer.save_own_try(self._limits.max_attempts)
        sources, tries, access = transfer.sources, transfer.tries, transfer.access
        elapsed_s = now_s - tries.progress_s
        step = next_step(
            error,
            Spent(tries.errors, access.refreshes, elapsed_s, sources.corrupt),
            self._limits,
            jitter=self._jitter(),
            can_refresh=self._links.can_renew(transfer),
            others=sources.has_other(),
            untried=sources.has_untried(self._hosts, now_s),
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
            delay_s = max(delay_s, self._budget.spend_s(now_s))
        self._emit(make_retry(transfer, error, delay_s, now_s))
        return delay_s

    async def _try_once(self, transfer: Transfer, helper: Helper | None = None) -> SourceError | None:
        """Make one attempt; None when the segment is here, or the whole part, which is verified then."""
        entry, part = transfer.entry, transfer.part
        sink: Sink = part if helper is None else helper.open_sink()
        attempt, cure = self._start(transfer, sink, helper)
        try:
            await self._fetching.fetch(
                attempt,
                sink,
                url=transfer.access.url,
                secrets=transfer.access.secrets(self._links.plan_secrets, transfer.sources.number),
                fresh=transfer.access.is_fresh
                or cure.is_fresh
                or (helper is not None and not self._hosts.is_capped(transfer.host)),
                cure=cure,
                standing=None if helper is not None else transfer.standing,
                sources=transfer.sources,
            )
            if helper is None and part.ranges is None and not part.has_rest:
                transfer.verified = part.verify(entry.size_bytes, entry.digest)
            elif helper is not None and helper.second is not None:
                if (first := self._in_flight.get(entry.id)) is not None:
                    from cfetch.engine.second_replies import refuse_contradiction  # few files have two

                    refuse_contradiction(first.attempt, attempt)
                transfer.verified = helper.second.verify(entry.size_bytes, entry.digest)
                self._segments.win(helper)
            self._in_flight.end(attempt, "done", None, self._clock.now())
            return None
        except asyncio.CancelledError:
            if not attempt.was_broken_off():
                self._in_flight.end_unjudged(attempt, "interrupted", self._clock.now())
                raise
            return self._end_broken_off(transfer, attempt)
        except Unchanged:
            self._in_flight.end_unjudged(attempt, None, self._clock.now())
            assert transfer.access.standing is not None
            transfer.verified = transfer.access.standing.verified
            raise
        except SourceError as failure:
            error = self._excuse_if_whole(transfer, attempt, failure)
            self._in_flight.end(attempt, name_outcome(error), error, self._clock.now())
            access = transfer.access
            if failure.http_status == HTTPStatus.NOT_MODIFIED:
                access.standing = None  # the server has another version: ask for that one
            access.is_fresh = access.is_fresh or failure.http_status in NEEDS_FRESH
            return error
        except LocalFault as fault:
            self._in_flight.end_unjudged(attempt, str(fault), self._clock.now())
            raise

    def _start(self, transfer: Transfer, sink: "Sink", helper: Helper | None) -> tuple[Attempt, WayToAsk]:
        entry, now_s, segment, tries = transfer.entry, self._clock.now(), sink.segment, transfer.tries
        position = sink.position if segment is None else segment.position
        size_bytes = entry.size_bytes if segment is None else sink.total_bytes
        tries.begun += 1
        host = transfer.host
        assignment = Assignment(
            entry,
            tries.begun,
            host,
            transfer.sources.mirror,
            refuses_pages=self._refuses_pages(entry),
            patience_s=self._settings.first_byte_s
            * 2.0 ** min(tries.unheard if helper is None else 0, DOUBLINGS),
            volume_index=0 if transfer.staging is None else transfer.staging.volume_index,
            is_immune=helper is None
            and (
                tries.has_one_failure_left(self._limits.max_attempts)
                or (tries.mitigations > 0 and self._policy.must_spare(host, tries.mitigations))
            ),
        )
        attempt = Attempt(
            assignment,
            now_s,
            from_byte=position,
            size_bytes=size_bytes,
            to_byte=segment.end if segment is not None and segment.end != size_bytes else None,
            key=None if helper is None else helper.key,
            task=transfer.task if helper is None else None,
        )
        cure = self._in_flight.start(attempt, transfer)
        self._hosts.note_request(host, now_s)
        if cure is not NO_CURE and (tries.errors or self._hosts.is_capped(host) or self._hosts.is_paced):
            cure = NO_CURE  # it asks more than once
        return attempt, cure

    def _excuse_if_whole(
        self, transfer: Transfer, attempt: Attempt, failure: SourceError
    ) -> SourceError | None:
        """The error of a failed attempt: None if the last byte had come and the file is whole after all."""
        entry, part = transfer.entry, transfer.part
        if attempt.is_helper or part.position != attempt.size_bytes or not attempt.received:
            return failure
        if part.ranges is not None or part.has_rest:
            return None  # the owner of the entry verifies the file
        try:
            transfer.verified = part.verify(entry.size_bytes, entry.digest)
        except Corrupt as corrupt:
            return corrupt
        return None

    def _end_broken_off(self, transfer: Transfer, attempt: Attempt) -> SourceError | None:
        """End an attempt that was broken off. Returns the error; None if its bytes are here or not needed."""
        if attempt.reason in (BreakOff.OVERTAKEN, BreakOff.DISMISSED):
            return None
        is_straggler = attempt.reason is not BreakOff.STALLED
        cause: SourceError = Straggling("far slower than the other files")
        if attempt.reason is BreakOff.STALLED:
            cause = self._make_stall(transfer, attempt)
        elif attempt.reason is BreakOff.BELOW_MIN_RATE:
            cause = Straggling(f"below min_rate, {self._settings.min_rate:,} bytes per second")
        error = self._excuse_if_whole(transfer, attempt, cause)
        host, tries = attempt.assignment.host, transfer.tries
        was_silent = is_straggler and not attempt.received
        tries.silences = tries.silences + 1 if was_silent else 0
        hangs = tries.silences > 1
        transfer.access.is_fresh = not (hangs or (was_silent and self._hosts.is_capped(host)))
        outcome: Outcome = "straggler" if is_straggler else "stalled"
        now_s = self._clock.now()
        self._in_flight.end(attempt, outcome if error else "done", error, now_s)
        if hangs and attempt.connecting_since_s is None:  # else nobody has heard the request
            under_way = self._in_flight.attempts()
            served = sum(other.received > 0 and other.assignment.host == host for other in under_way)
            self._hosts.note_hanging(host, now_s, served)
        if is_straggler:
            if attempt.reason is BreakOff.BELOW_MIN_RATE:
                tries.below_min_rate += 1
            else:
                tries.mitigations += not attempt.is_helper
            from cfetch.engine.failed_tries import make_cancelled  # in most runs no try fails

            self._emit(make_cancelled(transfer, attempt, now_s, completed=error is None))
        return error

    def _refuses_pages(self, entry: Entry) -> bool:
        """Whether a web page is no answer for the entry, of which neither size nor hash is known."""
        if entry.size_bytes is not None or entry.digest is not None:
            return False
        settings = self._settings
        if settings.accept_html or settings.doubtful == "accept":
            return False
        return not is_page_name(entry.path, bare=settings.doubtful != "fail")

    def _make_stall(self, transfer: Transfer, attempt: Attempt) -> Transient:
        """Make the error of an attempt that was silent for too long; it names the option."""
        if attempt.received:
            return Transient(f"no byte for {self._settings.stall_timeout:g} s (--stall-timeout)")
        transfer.tries.unheard += not attempt.is_helper
        return Transient(f"no first byte within {attempt.assignment.patience_s:g} s (--first-byte-timeout)")
