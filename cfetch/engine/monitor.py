"""Watches the attempts under way: breaks off stragglers and silent ones, and tells how the run goes.

The decisions are the straggler room's; this task asks at each tick and carries the answers out.
"""

from collections import Counter
from collections.abc import Callable

from cfetch.clock import RunClock
from cfetch.config.settings import Settings
from cfetch.engine.attempt import Attempt, BreakOff
from cfetch.engine.batches.placing import Placing
from cfetch.engine.hosts import FAIR_BYTES
from cfetch.engine.schedule import Schedule
from cfetch.engine.transfer import Transfer
from cfetch.events import (
    ActiveAttempt,
    BaselineView,
    FallbackTriggered,
    Listener,
    Progress,
    SlowdownSeen,
    State,
    StragglerCancelling,
    StragglerCheck,
)
from cfetch.manifest.entry import Entry
from cfetch.records import FileRecord
from cfetch.report.counts import Counts
from cfetch.storage.held_ranges import HeldRanges
from cfetch.straggler.policy import Check, Policy
from cfetch.straggler.stall import stalled

__all__ = ["Monitor"]

PROGRESS_S = 0.25  # four times a second reads as live
EPISODE_S = 10.0  # without a download that is far too slow, and a slowdown is over


class Monitor:
    """``active`` maps entry ids to the attempts under way; the pool keeps it, and reports each record."""

    def __init__(
        self,
        policy: Policy,
        schedule: Schedule[Transfer],
        settings: Settings,
        clock: RunClock,
        emit: Listener,
        on_life: Callable[[str], None],
        *,
        on_check: Callable[[], None] = lambda: None,
        placing: Placing | None = None,
    ) -> None:
        self._placing = placing
        self._landed: Counter[int] = Counter()
        self._policy = policy
        self._schedule = schedule
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._speeds: dict[int, tuple[int, float, int, float]] = {}  # id -> (n, t, bytes, rate)
        self.active: dict[int, tuple[Attempt, Entry]] = {}
        self.opened: dict[int, HeldRanges] = {}  # of entries that several streams bring
        self._counts = Counts()
        self._announced: Counter[int] = Counter()  # retries of entries that have not ended, by entry id
        self._on_life = on_life
        self._on_check = on_check
        self._checked_s = 0.0
        self.slow_until_s = 0.0  # the network or a host is slow, by the policy, at least until then
        self.bytes_adopted = 0

    @property
    def put_back(self) -> int:
        """Entries that wait for another try."""
        return self._schedule.put_back

    def ended_with(self, record: FileRecord) -> None:
        """Count an entry that has come to its end: its record says how many retries were made."""
        self._counts.add(record)
        self._announced.pop(record.id, None)

    def announce_retry(self, entry_id: int) -> None:
        """Count a retry that is about to follow."""
        self._announced[entry_id] += 1

    def attempt_ended(self, attempt: Attempt) -> None:
        """It is not under way any more."""
        del self.active[attempt.key]
        self._landed[attempt.at] += attempt.received

    def landed(self, at: int) -> int:
        """Bytes that have come for volume ``at`` until now."""
        return self._landed[at] + sum(
            attempt.received for attempt, _ in self.active.values() if attempt.at == at
        )

    async def watch(self) -> None:
        """Judge the attempts under way, tick after tick, until cancelled."""
        if self._policy.sequential:
            self._emit(FallbackTriggered(t_s=self._clock.now(), stragglers=0, threshold=0))
        while True:
            await self._clock.sleep(self._policy.tick_s)
            self.check()
            self._on_check()

    def check(self) -> None:
        """One look at all attempts under way."""
        now_s = self._clock.now()
        for attempt, _ in self.active.values():
            if attempt.received >= FAIR_BYTES and not attempt.has_shown_life:
                attempt.has_shown_life = True
                self._on_life(attempt.host)
            if attempt.learned_size and attempt.size_bytes is not None:
                attempt.learned_size = False
                self._policy.sized(attempt.key, attempt.size_bytes - attempt.from_byte)
        attempts = [attempt for attempt, _ in self.active.values()]
        check = self._policy.check(now_s, attempts)
        if self._placing is not None:
            self._look_at_volumes(self._placing, now_s)
        if check.gap_s or self._came_late(now_s):  # this process stood still, the servers did not
            for attempt in attempts:
                attempt.forgive(now_s)
        elif check.stragglers:
            self._break_off(check, now_s)
        timeout_s = self._settings.stall_timeout
        for key in stalled(attempts, now_s, stall_timeout_s=timeout_s, reply_timeout_s=timeout_s):
            self.active[key][0].break_off(BreakOff.STALLED)
        if check.held_back is not None:
            if now_s >= self.slow_until_s:
                self._emit(SlowdownSeen(t_s=now_s, active=check.active, reason=check.held_back))
            self.slow_until_s = now_s + EPISODE_S
        if check.fell_back:
            threshold = self._settings.max_stragglers
            self._emit(
                FallbackTriggered(t_s=now_s, stragglers=self._policy.total_stragglers, threshold=threshold)
            )

    def _look_at_volumes(self, placing: Placing, now_s: float) -> None:
        """A file that takes far longer than the rest, for whatever reason, speaks against its volume."""
        for attempt, _ in self.active.values():
            limit_s = self._policy.expected_s(attempt.key)
            if limit_s is not None and not attempt.told_slow and now_s - attempt.start_s > limit_s:
                attempt.told_slow = True
                placing.straggled(attempt.at)

    def _came_late(self, now_s: float) -> bool:
        """Whether so much of the stall time-out has gone by unwatched that silence proves nothing."""
        late_s, self._checked_s = now_s - self._checked_s, now_s
        return late_s > max(self._settings.stall_timeout / 2, 2 * self._policy.tick_s)

    def _break_off(self, check: Check, now_s: float) -> None:
        self._emit(
            StragglerCheck(
                t_s=now_s,
                active_downloads=check.active,
                completed_downloads=check.finished,
                stragglers=[self.active[flagged.id][0].id for flagged in check.stragglers],
                median_bps=check.median_bps,
            )
        )
        for flagged in check.stragglers:
            attempt, entry = self.active[flagged.id]
            attempt.expected_s = round(flagged.expected_s, 4)
            attempt.projected_s = None if flagged.projected_s is None else round(flagged.projected_s, 4)
            attempt.median_bps = check.median_bps
            self._emit(
                StragglerCancelling(
                    t_s=now_s,
                    id=entry.id,
                    offset=entry.position,
                    path=entry.path,
                    elapsed_s=flagged.elapsed_s,
                    expected_s=flagged.expected_s,
                )
            )
            attempt.break_off(BreakOff.STRAGGLER)

    async def tick(self) -> None:
        """Report the run's numbers, a few times a second, until cancelled."""
        while True:
            self.report()
            await self._clock.sleep(PROGRESS_S)

    def report(self) -> None:
        """Report the run's numbers as they are now."""
        now_s = self._clock.now()
        active = [self._view(attempt, entry, now_s) for attempt, entry in self.active.values()]
        self._speeds = {id_: speed for id_, speed in self._speeds.items() if id_ in self.active}
        policy, counts = self._policy, self._counts
        self._emit(
            Progress(
                t_s=now_s,
                done=counts.done,
                skipped=counts.skipped,
                failed=counts.failed,
                retries=counts.retries + self._announced.total(),
                bytes_done=counts.in_place_bytes,
                bytes_active=self._bytes_active(),
                bytes_wasted=counts.wasted_bytes,
                bytes_adopted=self.bytes_adopted,
                active=active,
                waiting=self._schedule.waiting,
                baseline=BaselineView(
                    median_bps=policy.median_bps,
                    finished=policy.total_finished,
                    required=policy.required,
                ),
                stragglers=policy.total_stragglers,
                sequential=policy.sequential,
                volumes=self._placing.views() if self._placing is not None else [],
            )
        )

    def _bytes_active(self) -> int:
        alone = (attempt for attempt, _ in self.active.values() if attempt.id not in self.opened)
        held = sum(ranges.held_bytes for ranges in self.opened.values())
        return held + sum(attempt.from_byte + attempt.received for attempt in alone)

    def _view(self, attempt: Attempt, entry: Entry, now_s: float) -> ActiveAttempt:
        elapsed_s = now_s - attempt.start_s
        expected_s = self._policy.expected_s(attempt.key)
        in_ranges = attempt.id in self.opened
        end = attempt.size_bytes if attempt.to_byte is None else attempt.to_byte
        return ActiveAttempt(
            id=attempt.id,
            path=entry.path,
            host=attempt.host,
            size_bytes=None if end is None else end - attempt.from_byte * in_ranges,
            bytes=attempt.from_byte * (not in_ranges) + attempt.received,
            rate_bps=self._speed(attempt, now_s),
            elapsed_s=elapsed_s,
            expected_s=expected_s,
            n=attempt.n,
            state=_state(attempt, elapsed_s, expected_s, end),
        )

    def _speed(self, attempt: Attempt, now_s: float) -> float:
        """Bytes per second, smoothed over about a second of reports."""
        n, then_s, then_bytes, rate_bps = self._speeds.get(attempt.key, (0, 0.0, 0, 0.0))
        if n != attempt.n:
            then_s, then_bytes, rate_bps = attempt.start_s, 0, 0.0
        if now_s > then_s:
            latest_bps = (attempt.received - then_bytes) / (now_s - then_s)
            rate_bps = latest_bps if n != attempt.n else 0.7 * rate_bps + 0.3 * latest_bps
        self._speeds[attempt.key] = (attempt.n, now_s, attempt.received, rate_bps)
        return rate_bps


def _state(attempt: Attempt, elapsed_s: float, expected_s: float | None, end: int | None) -> State:
    if attempt.reason is not None:
        return "straggler"
    if expected_s is not None and end:
        wanted = end - attempt.from_byte
        if elapsed_s * wanted > expected_s * max(attempt.received, 1) and elapsed_s > expected_s / 4:
            return "slow"  # at this pace it will exceed its limit
    if attempt.immune:
        return "last try"
    if attempt.to_byte is not None or attempt.key < 0:
        return "segment"
    return "retrying" if attempt.n > 1 else "ok"
