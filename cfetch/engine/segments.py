"""Helpers of entries under way: idle workers bring a segment of the range that another attempt has left.

The worker that has an entry in hand is its owner: it alone retries, verifies and publishes, and takes missing
bytes until the file is whole. A helper tries once. However it ends, the bytes that it has not brought are
missing again. So help never makes an entry fail, and there are no helpers while no worker is idle.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.backoff import double
from cfetch.base.clock import RunClock
from cfetch.base.errors import LocalFault
from cfetch.engine.attempt import BreakOff
from cfetch.engine.attempts_under_way import AttemptsUnderWay, AttemptUnderWay
from cfetch.engine.hosts import Hosts
from cfetch.engine.schedule import Schedule
from cfetch.engine.transfer import Transfer
from cfetch.straggler.attempt_limits import MIN_SEGMENT_BYTES

if TYPE_CHECKING:
    from cfetch.engine.link_looks import LinkLooks
    from cfetch.engine.segment_split import Candidate, Split
    from cfetch.storage.held_ranges import HeldRanges, Segment
    from cfetch.storage.volume import PartPort, Sink
    from cfetch.straggler.policy import Policy
    from cfetch.wire.rate import Limiter

MOST_FAILURES = 3  # helpers of one entry that failed; then no more are sent
PROBE_S = 2.0  # until one more is tried, as the server may have been busy or restarted; doubled each time
LONGEST_PROBE_S = 60.0
SERVED_BYTES = 256 << 10  # a helper that breaks later did not fail: a request more costs less than that
BEGUN_BYTES = 64 << 10  # a server that sends less must not take the range from one that sends all
MEASURED_S = 0.29  # time for an attempt to show its pace: three looks
YOUNG_S = 1.0  # an attempt that has brought nothing may still be connecting


class Helper(NamedTuple):
    """A further attempt at ``transfer``, for the bytes of ``segment``. It has a slot at ``host``.

    ``segment`` None: it brings the whole file into the part ``second``. ``is_trial``: it is ended if it is no
    faster. ``is_probe``: too many others have failed.
    """

    key: int
    transfer: Transfer
    segment: "Segment | None"
    host: str
    slot_bytes: int
    second: "PartPort | None" = None
    is_trial: bool = False
    is_probe: bool = False

    @property
    def has_little(self) -> bool:
        """Whether its segment is so small that it gets no help itself."""
        return self.slot_bytes < MIN_SEGMENT_BYTES

    @property
    def has_brought_some(self) -> bool:
        """Whether its server served it beside the others: that its connection broke later says nothing."""
        segment = self.segment
        return segment is not None and segment.position - segment.start >= SERVED_BYTES

    @property
    def is_needed(self) -> bool:
        """Whether its bytes are still missing, and its host is still the one that is asked."""
        if self.segment is None:
            return self.transfer.helpers.second == self.key
        return self.segment.left_bytes > 0 and self.host == self.transfer.host

    def open_sink(self) -> "Sink":
        """Open the receiver of its bytes."""
        if self.second is not None:
            return self.second
        assert self.segment is not None
        return self.transfer.part.open_segment(self.segment)


class Segments:
    """Sends idle workers to attempts that are worth a split, and ends helpers that are not needed."""

    def __init__(
        self,
        policy: "Policy",
        hosts: Hosts,
        in_flight: AttemptsUnderWay,
        schedule: Schedule[Transfer],
        clock: RunClock,
        *,
        most: int,
        limiter: "Limiter | None" = None,
    ) -> None:
        """``most``: how many connections one file may have; none more where ``limiter`` has no room."""
        self._policy = policy
        self._hosts = hosts
        self._in_flight = in_flight
        self._schedule = schedule
        self._clock = clock
        self._most = most
        self._limiter = limiter
        self.is_on = most > 1
        self._helpers: dict[int, Helper] = {}
        self._looks: LinkLooks | None = None
        self._keys = 0

    @property
    def helps_any(self) -> bool:
        """Whether an idle worker may have to help some attempt soon."""
        return self.is_on and len(self._in_flight) > 0

    def assign(self, idle: int) -> list[Helper]:
        """Choose work for ``idle`` workers; fewer get work if more would not help."""
        now_s = self._clock.now()
        self._note_served()
        helpers = self._take_up_missing(idle, now_s)
        idle -= len(helpers)
        candidates = [
            candidate._replace(
                attempts=max(candidate.attempts, self._most - self._free_slots(candidate.host))
            )
            for flight in self._in_flight
            if (candidate := self._candidate_of(flight, now_s)) is not None
        ]
        if candidates:
            if self._looks is None:
                from cfetch.engine.link_looks import LinkLooks  # most files are too small to be split

                self._looks = LinkLooks(self._in_flight, self._most)
            splits = self._looks.choose(candidates, self._policy.fresh_s, idle, now_s)
            helpers += [helper for split in splits for helper in self._carry_out(split)]
            idle -= sum(split.fresh_attempts for split in splits)
        return helpers + self._begin_seconds(idle, now_s)

    def _begin_seconds(self, idle: int, now_s: float) -> list[Helper]:
        """Ask a second time for files that cannot be split: at most once for a file, trials not counted."""
        begun: list[Helper] = []
        tried = {helper.host for helper in self._helpers.values() if helper.is_trial}
        for attempt, transfer in list(self._in_flight):
            if len(begun) >= idle or not self._free_slots(transfer.host):
                break
            is_alone = transfer.helpers.has_refusal and transfer.helpers.failures >= MOST_FAILURES
            can_split = attempt.resumable and attempt.size_bytes is not None and not is_alone
            is_open = not (attempt.is_helper or can_split or attempt.reason or attempt.is_held)
            if not (is_open and attempt.received) or transfer.helpers.second:
                continue
            if not self._is_open(transfer, now_s):
                continue
            seconds = self._policy.seconds
            if seconds is None:
                break
            is_trial = attempt.resumable or not seconds.is_sure(attempt.key)
            if is_trial and (transfer.host in tried or not seconds.is_trial(attempt.key)):
                continue
            part = transfer.part.open_second()
            if part is not None:
                begun.append(self._send_helper(transfer, None, part, is_trial=is_trial))
                transfer.helpers.second = begun[-1].key
                tried |= {transfer.host} if is_trial else set()
        return begun

    def end_trials(self) -> None:
        """End the second requests that were begun as trials and are no faster."""
        for helper in [helper for helper in self._helpers.values() if helper.is_trial]:
            seconds = self._policy.seconds
            if seconds is not None and not seconds.is_worth(helper.transfer.entry.id, helper.key):
                self._end(self._in_flight.get(helper.key), BreakOff.DISMISSED, has_lost=True)

    def win(self, helper: Helper) -> None:
        """Use the part of a second request, which has brought the verified file, instead of the first."""
        transfer, first = helper.transfer, helper.transfer.part
        assert helper.second is not None
        transfer.part, transfer.helpers.has_won = helper.second, True
        self._end(self._in_flight.get(transfer.entry.id), BreakOff.OVERTAKEN, has_lost=True)
        first.discard()

    def _take_up_missing(self, idle: int, now_s: float) -> list[Helper]:
        """Send helpers for the bytes that earlier helpers have left, while the owner brings other bytes."""
        helpers: list[Helper] = []
        for attempt, transfer in self._in_flight:
            is_shared = transfer.part.ranges is not None and not transfer.helpers.has_second
            if attempt.is_helper or not is_shared or not self._may_help(transfer, now_s):
                continue
            assert transfer.part.ranges is not None
            for start, end in transfer.part.ranges.missing:
                free = self._free_slots(transfer.host)
                is_crowd = not free or len(transfer.helpers.keys) + 1 >= self._most
                if len(helpers) == idle or is_crowd or not self._may_help(transfer, now_s):
                    break
                if end - start >= MIN_SEGMENT_BYTES:
                    helpers.append(self._send_helper(transfer, transfer.part.ranges.join(start, end)))
        return helpers

    def _may_help(self, transfer: Transfer, now_s: float) -> bool:
        """Whether the transfer's server may be asked for one more range at the same time."""
        helpers = transfer.helpers
        is_probe_due = not helpers.has_refusal and now_s >= helpers.opens_s
        return self._is_open(transfer, now_s) and (helpers.failures < MOST_FAILURES or is_probe_due)

    def _note_served(self) -> None:
        """Help again in full where a helper that was sent after the failures is served beside the others."""
        for helper in self._helpers.values():
            helpers = helper.transfer.helpers
            if helper.is_probe and helper.has_brought_some:
                helpers.failures = 0

    def _is_open(self, transfer: Transfer, now_s: float) -> bool:
        is_open = self._hosts.opens_s(transfer.host, now_s, helps=True) <= now_s
        has_room = self._limiter is None or self._limiter.has_room(transfer.host)
        return is_open and has_room and not transfer.moved

    async def take_missing(self, transfer: Transfer) -> bool:
        """Give the owner a missing range of its file; wait for the helpers if no range is free.

        Returns False when every byte is here. Raises LocalFault: a helper has met it.
        """
        ranges = transfer.part.ranges
        assert ranges is not None
        self._in_flight.note_ranges(transfer.entry.id, ranges)
        while not ranges.is_whole:
            if transfer.helpers.fault is not None:
                raise transfer.helpers.fault
            transfer.part.segment = ranges.take_first()
            if transfer.part.segment is not None:
                return True
            await transfer.helpers.wait_for_change()
        return False

    def end_helper(
        self, helper: Helper, fault: LocalFault | None, *, failed: bool, is_refusal: bool = False
    ) -> None:
        """Note that a helper has ended: the entry's owner may take the bytes that it has left."""
        transfer = helper.transfer
        now_s, helpers = self._clock.now(), transfer.helpers
        self._helpers.pop(helper.key, None)
        self._hosts.free_slot(helper.host, now_s, helper.slot_bytes)
        if failed:
            helpers.pause_s = helpers.pause_s or PROBE_S
            helpers.opens_s = max(helpers.opens_s, now_s + helpers.pause_s)
        if transfer.part.ranges is not None and helper.segment is not None:
            transfer.part.ranges.give_back(helper.segment)
        if helper.second is not None and not transfer.helpers.has_won:
            helper.second.discard()
            if helper.is_trial and transfer.helpers.second == helper.key:
                transfer.helpers.second = 0
        transfer.helpers.remove(helper.key, fault, has_failed=failed, is_refusal=is_refusal)

    def dismiss(self, transfer: Transfer) -> None:
        """End the helpers of an entry that its owner leaves, for now or for good; they write no more."""
        self._in_flight.unshare(transfer)
        for key in transfer.helpers.keys:
            helper = self._helpers[key]
            if transfer.part.ranges is not None and helper.segment is not None:
                transfer.part.ranges.give_back(helper.segment)
            has_lost = helper.second is not None
            if has_lost:
                transfer.helpers.end_second()
            self._end(self._in_flight.get(key), BreakOff.DISMISSED, has_lost=has_lost)

    def _end(self, flight: AttemptUnderWay | None, reason: BreakOff, *, has_lost: bool = False) -> None:
        """End an attempt at once, as its task may end after its entry."""
        if flight is not None:
            attempt, now_s = flight.attempt, self._clock.now()
            attempt.break_off(reason)
            if data := attempt.reply.unread():  # these bytes were received, although they are not needed
                attempt.note(now_s, len(data))
            self._in_flight.end_unjudged(attempt, "not needed any more", now_s, has_lost=has_lost)

    def _free_slots(self, host: str) -> int:
        """Free slots at ``host``, without those for entries that wait after a failed try."""
        running, borne = self._hosts.bears(host)
        return max(0, borne - running - self._schedule.put_back)

    def _candidate_of(self, flight: AttemptUnderWay, now_s: float) -> "Candidate | None":
        """The attempt as a candidate for help; None if it cannot be helped just now."""
        attempt, transfer = flight
        part, size_bytes = transfer.part, attempt.size_bytes
        if (
            attempt.reason is not None
            or attempt.is_held
            or not attempt.resumable
            or size_bytes is None
            or transfer.helpers.has_second
            or not self._may_help(transfer, now_s)
        ):
            return None
        if part.ranges is None and not part.can_split(size_bytes):
            return None
        remaining_s = self._policy.remaining_s(attempt.key)
        if remaining_s is None:
            return None
        age_s = now_s - attempt.start_s
        if math.isinf(remaining_s) and age_s < YOUNG_S:
            return None
        if attempt.received >= MIN_SEGMENT_BYTES and age_s < MEASURED_S:
            return None
        helper = self._helpers.get(attempt.key)
        if helper is not None and helper.has_little:
            return None  # if it crawls as well, the policy ends it
        segment = self._segment_of(flight)
        left_bytes = size_bytes - part.position if segment is None else segment.left_bytes
        planned_bytes = left_bytes
        if part.ranges is not None and segment is not None:
            start, end = part.ranges.find_untended(segment)
            planned_bytes = end - start
        if planned_bytes <= 0:
            return None
        from cfetch.engine.segment_split import Candidate, estimate_sure_bytes  # as in assign

        return Candidate(
            key=attempt.key,
            host=transfer.host,
            left_bytes=planned_bytes,
            remaining_s=remaining_s * planned_bytes / left_bytes,
            attempts=1 + len(transfer.helpers.keys),
            sure_bytes=estimate_sure_bytes(attempt, now_s),
        )

    def _segment_of(self, flight: AttemptUnderWay) -> "Segment | None":
        helper = self._helpers.get(flight.attempt.key)
        return flight.transfer.part.segment if helper is None else helper.segment

    def _carry_out(self, split: "Split") -> Iterator[Helper]:
        flight = self._in_flight.get(split.key)
        assert flight is not None  # no entry has begun to wait since it was chosen
        attempt, transfer = flight
        free = min(self._free_slots(transfer.host), self._most - 1 - len(transfer.helpers.keys))
        if free < 1 or not self._may_help(transfer, self._clock.now()):
            return  # others took the slots before it, or it is a probe's turn, which has just begun
        assert attempt.size_bytes is not None
        ranges = transfer.part.ranges or self._split(transfer, attempt.size_bytes)
        segment = self._segment_of(flight)
        assert segment is not None
        start, end = ranges.find_untended(segment)
        start += split.keeps_bytes
        if start >= end:  # the help for another attempt of this entry has taken these bytes already
            return
        most = 1 if transfer.helpers.failures >= MOST_FAILURES else min(split.fresh_attempts, free)
        piece = -(-(end - start) // most)
        for cut in range(start, end, piece):
            yield self._send_helper(transfer, ranges.join(cut, min(cut + piece, end)))

    def _split(self, transfer: Transfer, size_bytes: int) -> "HeldRanges":
        ranges = transfer.part.split_into_ranges(size_bytes)
        ranges.on_over = self._end_overtaken
        ranges.on_cut = self._shorten
        ranges.begun_bytes = BEGUN_BYTES
        self._in_flight.note_ranges(transfer.entry.id, ranges)
        return ranges

    def _end_overtaken(self, segment: "Segment") -> None:
        """End an attempt whose bytes another attempt has brought."""
        self._end(self._flight_of(segment), BreakOff.OVERTAKEN)

    def _shorten(self, segment: "Segment") -> None:
        """Shorten an attempt's range: others have begun to bring what lies beyond its new end."""
        if (flight := self._flight_of(segment)) is not None:
            attempt = flight.attempt
            attempt.to_byte = segment.end
            self._policy.note_size(attempt.key, segment.end - attempt.from_byte)

    def _flight_of(self, segment: "Segment") -> AttemptUnderWay | None:
        return next((flight for flight in self._in_flight if self._segment_of(flight) is segment), None)

    def _send_helper(
        self,
        transfer: Transfer,
        segment: "Segment | None",
        second: "PartPort | None" = None,
        *,
        is_trial: bool = False,
    ) -> Helper:
        self._keys -= 1
        helpers, now_s = transfer.helpers, self._clock.now()
        is_probe = helpers.failures >= MOST_FAILURES
        if is_probe:
            helpers.pause_s = double(helpers.pause_s, LONGEST_PROBE_S)
            helpers.opens_s = now_s + helpers.pause_s
        slot_bytes = transfer.wanted_bytes if segment is None else segment.left_bytes
        helper = Helper(self._keys, transfer, segment, transfer.host, slot_bytes, second, is_trial, is_probe)
        self._helpers[helper.key] = helper
        transfer.helpers.add(helper.key)
        self._hosts.take_slot(helper.host, helper.slot_bytes)
        return helper
