"""Further streams of entries that are on their way: idle workers bring a part of what another has left.

The worker that has an entry in hand is its owner: it alone retries, verifies and publishes, and takes what is
missing until the file is whole. A further stream tries once. Whatever ends it, what it has not brought is
missing again. So an entry never fails by being helped, and while no slot is idle nothing of this happens.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cfetch.clock import RunClock
from cfetch.config.settings import Settings
from cfetch.engine.attempt import Attempt, BreakOff
from cfetch.engine.hosts import Hosts
from cfetch.engine.monitor import Monitor
from cfetch.engine.segment_split import Candidate, Split, choose
from cfetch.engine.transfer import Transfer
from cfetch.errors import LocalFault
from cfetch.storage.held_ranges import HeldRanges, Segment
from cfetch.straggler.policy import Policy

__all__ = ["Helper", "Segments"]

MOST_FAILURES = 3  # of further streams of one entry: then its server wants one at a time
BEGUN_BYTES = 64 << 10  # a server that sends crumbs of a range must not take the rest from one that sends all
YOUNG_S = 1.0  # an attempt that has brought nothing may still be connecting


class Helper(NamedTuple):
    """A further stream of ``transfer`` for the bytes of ``segment``. It has a place at ``host``."""

    key: int
    transfer: Transfer
    segment: Segment
    host: str
    place_bytes: int


class Segments:
    """Who splits whom."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        hosts: Hosts,
        monitor: Monitor,
        *,
        clock: RunClock,
        on_end: Callable[[Attempt, Transfer], None],
    ) -> None:
        """``on_end`` is told of an attempt that is ended here, at once: its task may end after its entry."""
        self._policy = policy
        self._hosts = hosts
        self._monitor = monitor
        self._clock = clock
        self._on_end = on_end
        self._most = settings.segments
        is_limited = settings.limit_rate is not None or settings.limit_rate_per_host is not None
        self.is_on = (
            settings.is_adaptive
            and not is_limited  # then one stream is as fast as many
            and self._most > 1
        )
        self._leads: dict[int, tuple[Attempt, Transfer]] = {}
        self._helpers: dict[int, Helper] = {}
        self._keys = 0

    def began(self, attempt: Attempt, transfer: Transfer) -> None:
        """An attempt is under way that may be helped."""
        if self.is_on:
            self._leads[attempt.key] = attempt, transfer

    def ended(self, attempt: Attempt) -> None:
        """It is over."""
        self._leads.pop(attempt.key, None)

    @property
    def helps_any(self) -> bool:
        """Whether there is anyone whom an idle worker may have to help soon."""
        return bool(self._leads)

    def assign(self, idle: int) -> list[Helper]:
        """What so many idle workers are to do; less than that, where it would not help."""
        now_s = self._clock.now()
        found = (self._candidate(attempt, transfer, now_s) for attempt, transfer in self._leads.values())
        streams = [
            one._replace(streams=max(one.streams, self._most - self._free(one.host))) for one in found if one
        ]
        if not streams:
            return []
        splits = choose(
            streams,
            idle=idle,
            fresh_s=self._policy.fresh_s,
            most_streams=self._most,
        )
        return [helper for split in splits for helper in self._carry_out(split)]

    async def more(self, transfer: Transfer) -> bool:
        """Take what is missing of a file in ranges, for its owner; wait for the others where nothing is.

        False: every byte is here. Raises LocalFault: a further stream has met it.
        """
        ranges = transfer.part.ranges
        assert ranges is not None
        self._monitor.opened[transfer.entry.id] = ranges
        while not ranges.is_whole:
            if transfer.fault is not None:
                raise transfer.fault
            transfer.part.segment = ranges.take_first()
            if transfer.part.segment is not None:
                return True
            transfer.changed = asyncio.get_running_loop().create_future()
            await transfer.changed
        return False

    def over(self, helper: Helper, fault: LocalFault | None = None, *, failed: bool = False) -> None:
        """A further stream has ended: its owner may take what it has left."""
        transfer = helper.transfer
        self._helpers.pop(helper.key, None)
        transfer.helpers -= {helper.key}
        transfer.fault = transfer.fault or fault
        transfer.failed_helpers += failed
        self._hosts.left(helper.host, self._clock.now(), helper.place_bytes)
        if transfer.part.ranges is not None:
            transfer.part.ranges.give_back(helper.segment)
        if transfer.changed is not None and not transfer.changed.done():
            transfer.changed.set_result(None)

    def dismiss(self, transfer: Transfer) -> None:
        """The owner leaves the entry, for now or for good: the further streams end and write no more."""
        self._monitor.opened.pop(transfer.entry.id, None)
        for key in transfer.helpers:
            helper = self._helpers[key]
            if transfer.part.ranges is not None:
                transfer.part.ranges.give_back(helper.segment)
            if key in self._leads:
                self._end(*self._leads[key], BreakOff.DISMISSED)

    def _end(self, attempt: Attempt, transfer: Transfer, reason: BreakOff) -> None:
        attempt.break_off(reason)
        self._on_end(attempt, transfer)

    def _free(self, host: str) -> int:
        """Places at ``host`` that no entry is waiting for after a failed try."""
        return max(0, self._hosts.free(host) - self._monitor.put_back)

    def _candidate(self, attempt: Attempt, transfer: Transfer, now_s: float) -> Candidate | None:
        """The attempt as the choice sees it; None if it cannot be helped just now."""
        part, size_bytes = transfer.part, attempt.size_bytes
        if (
            attempt.reason is not None
            or attempt.is_held
            or not attempt.resumable
            or size_bytes is None
            or transfer.moved
        ):
            return None
        if transfer.failed_helpers >= MOST_FAILURES or self._hosts.opens_s(transfer.host, now_s) > now_s:
            return None
        if part.ranges is None and not part.can_open_up(size_bytes):
            return None
        remaining_s = self._policy.remaining_s(attempt.key)
        if remaining_s is None:
            return None
        if math.isinf(remaining_s) and now_s - attempt.start_s < YOUNG_S:
            return None
        segment = self._segment_of(attempt, transfer)
        if segment is None:
            left_bytes = planned_bytes = size_bytes - part.position
        else:
            left_bytes, planned_bytes = (
                segment.left_bytes,
                self._planned_end(segment, transfer) - segment.position,
            )
        if left_bytes <= 0:
            return None
        return Candidate(
            key=attempt.key,
            host=transfer.host,
            left_bytes=planned_bytes,
            remaining_s=remaining_s * planned_bytes / left_bytes,
            streams=1 + len(transfer.helpers),
        )

    def _segment_of(self, attempt: Attempt, transfer: Transfer) -> Segment | None:
        helper = self._helpers.get(attempt.key)
        return transfer.part.segment if helper is None else helper.segment

    def _planned_end(self, segment: Segment, transfer: Transfer) -> int:
        """Where ``segment`` will end when all who were sent for a part of it have begun."""
        starts = (self._helpers[key].segment.start for key in transfer.helpers)
        return min((at for at in starts if segment.position < at < segment.end), default=segment.end)

    def _carry_out(self, split: Split) -> Iterator[Helper]:
        attempt, transfer = self._leads[split.key]
        free = self._free(transfer.host)
        if not free:  # those that were helped before it took them
            return
        assert attempt.size_bytes is not None
        ranges = transfer.part.ranges or self._open(transfer, attempt.size_bytes)
        segment = self._segment_of(attempt, transfer)
        assert segment is not None
        at, end = segment.position + split.keeps_bytes, self._planned_end(segment, transfer)
        if at >= end:  # another of its entry's streams was helped by that already
            return
        piece = -(-(end - at) // min(split.fresh_streams, free))
        for cut in range(at, end, piece):
            yield self._helper(transfer, ranges.join(cut, min(cut + piece, end)))

    def _open(self, transfer: Transfer, size_bytes: int) -> HeldRanges:
        ranges = transfer.part.open_up(size_bytes)
        ranges.on_over = self._is_over
        ranges.on_cut = self._is_cut
        ranges.begun_bytes = BEGUN_BYTES
        self._monitor.opened[transfer.entry.id] = ranges
        return ranges

    def _is_over(self, segment: Segment) -> None:
        """Another stream has brought all that this one was to bring."""
        if (lead := self._lead_of(segment)) is not None:
            self._end(*lead, BreakOff.OVERTAKEN)

    def _is_cut(self, segment: Segment) -> None:
        """Others have begun to bring what comes after its end."""
        if (lead := self._lead_of(segment)) is not None:
            attempt, _ = lead
            attempt.to_byte = segment.end
            self._policy.sized(attempt.key, segment.end - attempt.from_byte)

    def _lead_of(self, segment: Segment) -> tuple[Attempt, Transfer] | None:
        return next((lead for lead in self._leads.values() if self._segment_of(*lead) is segment), None)

    def _helper(self, transfer: Transfer, segment: Segment) -> Helper:
        self._keys -= 1
        helper = Helper(self._keys, transfer, segment, transfer.host, segment.left_bytes)
        self._helpers[helper.key] = helper
        transfer.helpers |= {helper.key}
        self._hosts.started(helper.host, helper.place_bytes)
        return helper
