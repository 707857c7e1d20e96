"""Watches the attempts under way: breaks off stragglers and silent ones, and reports how the run goes.

``straggler/`` makes the decisions; this task asks at each tick and carries the answers out.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from cfetch.base.config.settings import Settings
from cfetch.base.events import (
    ActiveAttempt,
    BaselineView,
    FallbackTriggered,
    Progress,
    SlowdownOver,
    SlowdownSeen,
    State,
    StragglerCancelling,
    StragglerCheck,
)
from cfetch.engine.attempt import Attempt, BreakOff, Grounds
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.hosts import FAIR_BYTES
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.show.counts import add_totals
from cfetch.straggler.attempt_figures import WATCHED_S
from cfetch.straggler.check import Check
from cfetch.straggler.slowdown import Begin, End, Slowdown
from cfetch.straggler.stall import find_stalled

if TYPE_CHECKING:
    from cfetch.engine.commitment import Commitment
    from cfetch.engine.rate_floor import RateFloor
    from cfetch.straggler.policy import Policy

PROGRESS_S = 0.25  # four times a second reads as live
EVIDENCE = "cfetch.straggler.evidence"  # it imports numpy, which takes 0.1 s


class Monitor:
    """Reads ``in_flight``, which others keep, and tells the commitment which volumes bring stragglers.

    ``on_life`` gets each host that has begun to bring bytes. ``on_check`` is called after each look.
    """

    def __init__(
        self,
        policy: "Policy",
        in_flight: AttemptsUnderWay,
        commitment: "Commitment",
        settings: Settings,
        outside: PoolInputs,
        *,
        on_life: Callable[[str], None],
        on_check: Callable[[], None],
    ) -> None:
        self._commitment = commitment
        self._rate_floor = _make_rate_floor(settings, in_flight, outside)
        self._policy = policy
        self._in_flight = in_flight
        self._counts = outside.counts
        self._settings = settings
        self._clock = outside.clock
        self._emit = outside.emit
        self._speeds: dict[int, tuple[int, float, int, float]] = {}  # by key: number, look, bytes, rate
        self._on_life = on_life
        self._on_check = on_check
        self._checked_s = 0.0
        self._slowdown = Slowdown()

    @property
    def slow_until_s(self) -> float:
        """The time until which the policy takes the network or a host to be slow, at least."""
        return self._slowdown.until_s

    async def watch(self) -> None:
        """Judge the attempts under way, tick after tick, until cancelled."""
        if self._policy.sequential:
            self._emit(FallbackTriggered(t_s=self._clock.now(), stragglers=0, threshold=0))
        straggler = self._settings.straggler
        is_loaded = self._settings.policy != "adaptive" or not straggler.enabled or EVIDENCE in sys.modules
        while True:
            await self._clock.sleep(self._policy.tick_s)
            since_s = self._clock.now() - WATCHED_S
            if not is_loaded and any(attempt.start_s <= since_s for attempt in self._in_flight.attempts()):
                is_loaded = True  # in a thread: meanwhile the loop goes on reading
                await asyncio.to_thread(import_module, EVIDENCE)
            self.check()
            self._on_check()

    def check(self) -> None:
        """Look once at all attempts under way."""
        now_s = self._clock.now()
        attempts = self._in_flight.attempts()
        for attempt in attempts:
            if attempt.received >= FAIR_BYTES and not attempt.reported.life:
                attempt.reported.life = True
                self._on_life(attempt.assignment.host)
            if attempt.reply.has_news_of_size and attempt.size_bytes is not None:
                attempt.reply.has_news_of_size = False
                self._policy.note_size(attempt.key, attempt.size_bytes - attempt.from_byte)
        check = self._policy.check(now_s, attempts)
        for key in check.lame:
            response = self._in_flight.attempt(key).reply.response
            if response is not None:
                response.retire()
        if self._commitment.judges_volumes:
            self._report_slow_volumes(attempts, now_s)
        if check.gap_s or self._came_late(now_s):  # this process stood still, not the servers
            self._forgive(attempts, now_s)
        elif check.stragglers:
            self._break_off(check, now_s)
        timeout_s = self._settings.stall_timeout
        for attempt in attempts:
            patience_s = attempt.assignment.patience_s
            if find_stalled([attempt], now_s, stall_timeout_s=timeout_s, reply_timeout_s=patience_s):
                attempt.break_off(BreakOff.STALLED)
        if self._rate_floor is not None:
            self._rate_floor.break_off_slow(now_s)
        self._report_slowdown(check, now_s)
        if check.fell_back:
            threshold = self._settings.max_stragglers
            self._emit(
                FallbackTriggered(t_s=now_s, stragglers=self._policy.total_stragglers, threshold=threshold)
            )

    def _report_slowdown(self, check: Check, now_s: float) -> None:
        cancelled = any(not flagged.is_probe for flagged in check.stragglers)
        is_clear = check.is_general and not cancelled
        news = self._slowdown.note_check(now_s, check.held_back, is_clear=is_clear)
        if isinstance(news, Begin):
            self._emit(SlowdownSeen(t_s=now_s, active=check.active, reason=news.reason))
        elif isinstance(news, End):
            self._emit(SlowdownOver(t_s=now_s, lasted_s=round(news.lasted_s, 3)))

    def _report_slow_volumes(self, attempts: Sequence[Attempt], now_s: float) -> None:
        """Report the volume of each file that takes far longer than expected, for whatever reason."""
        for attempt in attempts:
            limit_s = self._policy.expected_s(attempt.key)
            if limit_s is not None and not attempt.reported.slowness and now_s - attempt.start_s > limit_s:
                attempt.reported.slowness = True
                self._commitment.note_straggler(attempt.assignment.volume_index)

    def _came_late(self, now_s: float) -> bool:
        """Whether this look comes so late, against the stall time-out, that silence proves nothing."""
        late_s, self._checked_s = now_s - self._checked_s, now_s
        return late_s > max(self._settings.stall_timeout / 2, 2 * self._policy.tick_s)

    def _break_off(self, check: Check, now_s: float) -> None:
        self._emit(
            StragglerCheck(
                t_s=now_s,
                active_downloads=check.active,
                completed_downloads=check.finished,
                stragglers=[self._in_flight.attempt(flagged.id).id for flagged in check.stragglers],
                median_bps=check.median_bps,
            )
        )
        for flagged in check.stragglers:
            attempt = self._in_flight.attempt(flagged.id)
            if attempt.is_refused:  # the pause that the refusal states must count
                continue
            entry = attempt.assignment.entry
            self._emit(
                StragglerCancelling(
                    t_s=now_s,
                    id=entry.id,
                    offset=entry.position,
                    path=entry.path,
                    elapsed_s=flagged.elapsed_s,
                    expected_s=flagged.expected_s,
                    host=attempt.assignment.host,
                    is_probe=flagged.is_probe,
                )
            )
            projected_s = None if flagged.projected_s is None else round(flagged.projected_s, 4)
            grounds = Grounds(round(flagged.expected_s, 4), projected_s, check.median_bps)
            attempt.break_off(BreakOff.STRAGGLER, grounds)

    async def tick(self) -> None:
        """Report the run's numbers, a few times a second, until cancelled."""
        while True:
            self.report()
            await self._clock.sleep(PROGRESS_S)

    def report(self) -> None:
        """Report the run's numbers as they are now."""
        now_s = self._clock.now()
        active = [self._view(attempt, now_s) for attempt in self._in_flight.attempts()]
        self._speeds = {key: speed for key, speed in self._speeds.items() if key in self._in_flight}
        policy, counts, ended = self._policy, self._counts, self._counts.ended
        self._emit(
            add_totals(
                Progress(
                    t_s=now_s,
                    done=ended.done,
                    skipped=ended.skipped,
                    failed=ended.failed,
                    retries=counts.retries,
                    bytes_done=ended.in_place_bytes,
                    bytes_active=self._in_flight.bytes_active() + self._in_flight.bytes_resting(),
                    bytes_wasted=ended.wasted_bytes,
                    bytes_adopted=counts.adopted_bytes,
                    whole=self._in_flight.count_whole(),
                    active=active,
                    waiting=self._commitment.schedule.waiting,
                    baseline=BaselineView(
                        median_bps=policy.median_bps,
                        finished=policy.total_finished,
                        required=policy.required,
                    ),
                    stragglers=policy.total_stragglers,
                    sequential=policy.sequential,
                    volumes=self._commitment.views(),
                ),
                counts,
                self._in_flight.sizes.with_those_of(self._in_flight.attempts()),
            )
        )

    def _view(self, attempt: Attempt, now_s: float) -> ActiveAttempt:
        assignment = attempt.assignment
        elapsed_s = now_s - attempt.start_s
        expected_s = self._policy.expected_s(attempt.key)
        in_ranges = self._in_flight.is_shared(attempt.id)
        size_bytes = attempt.size_bytes or self._in_flight.sizes.get(attempt.id)  # or of its reply before
        end = size_bytes if attempt.to_byte is None else attempt.to_byte
        return ActiveAttempt(
            id=attempt.id,
            path=assignment.entry.path,
            host=assignment.host,
            size_bytes=None if end is None else end - attempt.from_byte * in_ranges,
            bytes=attempt.from_byte * (not in_ranges) + attempt.received,
            rate_bps=self._speed(attempt, now_s),
            elapsed_s=elapsed_s,
            expected_s=expected_s,
            n=assignment.n,
            state=_state(attempt, elapsed_s, expected_s, end),
            is_spared=assignment.is_immune,
            from_byte=attempt.from_byte * (not in_ranges),
            file_size_bytes=size_bytes,
            file_bytes=self._in_flight.held_bytes(attempt),
            is_size_learned=assignment.entry.size_bytes is None and size_bytes is not None,
        )

    def _forgive(self, attempts: Sequence[Attempt], now_s: float) -> None:
        """Let no attempt suffer for the time in which this process stood still."""
        for attempt in attempts:
            attempt.forgive(now_s)
        if self._rate_floor is not None:
            self._rate_floor.forgive()

    def _speed(self, attempt: Attempt, now_s: float) -> float:
        """Bytes per second, smoothed over about a second of reports."""
        before, then_s, then_bytes, rate_bps = self._speeds.get(attempt.key, (0, 0.0, 0, 0.0))
        n = attempt.assignment.n
        if n != before:
            then_s, then_bytes, rate_bps = attempt.start_s, 0, 0.0
        if now_s > then_s:
            latest_bps = (attempt.received - then_bytes) / (now_s - then_s)
            rate_bps = latest_bps if n != before else 0.7 * rate_bps + 0.3 * latest_bps
        self._speeds[attempt.key] = (n, now_s, attempt.received, rate_bps)
        return rate_bps


def _make_rate_floor(
    settings: Settings, in_flight: AttemptsUnderWay, outside: PoolInputs
) -> "RateFloor | None":
    if settings.min_rate is None:
        return None
    from cfetch.engine.rate_floor import RateFloor  # only --min-rate asks for it

    return RateFloor(settings.min_rate, settings.max_attempts, in_flight, outside.emit)


def _state(attempt: Attempt, elapsed_s: float, expected_s: float | None, end: int | None) -> State:
    if attempt.reason is not None:
        return "straggler"
    if expected_s is not None and end:
        wanted = end - attempt.from_byte
        if elapsed_s * wanted > expected_s * max(attempt.received, 1) and elapsed_s > expected_s / 4:
            return "slow"  # at this pace it will exceed its limit
    if attempt.assignment.is_immune:
        return "last try"
    if attempt.to_byte is not None or attempt.is_helper:
        return "segment"
    return "retrying" if attempt.assignment.n > 1 else "ok"
