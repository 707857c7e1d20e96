"""Attempts under way: the one place that knows which have started and ended, and what they have brought.

The fetcher and the segments report starts and ends only here; from here the policy, the host, the entry and
the listeners learn of them. The monitor and the volumes' health only read. Nothing here waits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.errors import SourceError, Throttled, Transient
from cfetch.base.events import HostPaused, Listener, RescueGivenUp
from cfetch.base.records import AttemptRecord, Outcome
from cfetch.engine.attempt import Attempt
from cfetch.engine.hosts import Hosts
from cfetch.engine.transfer import Transfer
from cfetch.straggler.ways_to_ask import WayToAsk

if TYPE_CHECKING:
    from cfetch.storage.held_ranges import HeldRanges
    from cfetch.straggler.policy import Policy


class AttemptUnderWay(NamedTuple):
    """An attempt under way, and the transfer to which it belongs."""

    attempt: Attempt
    transfer: Transfer


class StatedSizes(dict[int, int]):
    """Sizes by entry id that replies have stated of what has not ended, where the manifest states none."""

    def note(self, attempt: Attempt) -> None:
        """Note the size, if the attempt's reply has stated it and the manifest has not."""
        entry = attempt.assignment.entry
        if entry.size_bytes is None and attempt.size_bytes is not None:
            self[entry.id] = attempt.size_bytes

    def forget(self, entry_id: int) -> None:
        """Note that the entry has ended: its record has the size."""
        self.pop(entry_id, None)

    def with_those_of(self, attempts: Iterable[Attempt]) -> Mapping[int, int]:
        """All sizes, those that attempts under way have learned included."""
        for attempt in attempts:
            self.note(attempt)
        return self


class AttemptsUnderWay:
    """Attempts under way, by key in the order of their starts, and the held ranges of entries they share.

    ``jitter`` returns uniform numbers in [0, 1).
    """

    def __init__(
        self, policy: "Policy", hosts: Hosts, emit: Listener, *, jitter: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._hosts = hosts
        self._emit = emit
        self._jitter = jitter
        self._attempts: dict[int, Attempt] = {}
        self._transfers: dict[int, Transfer] = {}  # the same keys
        self._shared: dict[int, HeldRanges] = {}  # by entry id
        # by entry id: the bytes held while the entry waits for its next attempt, or to be published
        self._resting: dict[int, tuple[Transfer, int]] = {}
        self._landed: Counter[int] = Counter()  # bytes by volume, of attempts that have ended
        self._held_s: dict[int, float] = {}  # seconds by volume, of attempts that have ended
        self.sizes = StatedSizes()

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, key: int) -> bool:
        return key in self._attempts

    def __iter__(self) -> Iterator[AttemptUnderWay]:
        return map(AttemptUnderWay, self._attempts.values(), self._transfers.values())

    def attempts(self) -> list[Attempt]:
        """All attempts under way at this moment."""
        return list(self._attempts.values())

    def attempt(self, key: int) -> Attempt:
        """The attempt with this key, which has to be under way."""
        return self._attempts[key]

    def get(self, key: int) -> AttemptUnderWay | None:
        """The attempt with this key and its transfer, if it is under way."""
        return AttemptUnderWay(self._attempts[key], self._transfers[key]) if key in self._attempts else None

    def of_volume(self, index: int) -> Iterator[Attempt]:
        """The attempts that write to volume ``index``."""
        return (attempt for attempt in self._attempts.values() if attempt.assignment.volume_index == index)

    def start(self, attempt: Attempt, transfer: Transfer) -> WayToAsk:
        """Begin an attempt. No other has its key until it has ended. Returns how it should ask its host."""
        assignment, entry = attempt.assignment, attempt.assignment.entry
        self._attempts[attempt.key], self._transfers[attempt.key] = attempt, transfer
        self._resting.pop(entry.id, None)
        cure = self._policy.note_start(
            attempt.key,
            attempt.wanted_bytes,
            attempt.start_s,
            host=assignment.host,
            immune=assignment.is_immune,
            mitigations=transfer.tries.mitigations,
            asks=assignment.n,
        )
        if assignment.is_immune and transfer.tries.mitigations:
            self._emit(
                RescueGivenUp(
                    t_s=attempt.start_s,
                    id=entry.id,
                    path=entry.path,
                    host=assignment.host,
                    rescues=transfer.tries.mitigations,
                )
            )
        return cure

    def end(self, attempt: Attempt, outcome: Outcome, error: SourceError | None, now_s: float) -> None:
        """End an attempt: its entry keeps the record, its host and the policy learn from it."""
        transfer = self._remove(attempt, now_s)
        if transfer is None:
            return
        record = attempt.record(outcome, None if error is None else str(error), now_s)
        broke_again = bool(transfer.attempts) and _breaks_off_again(record, transfer.attempts)
        transfer.attempts.append(record)
        host = attempt.assignment.host
        pause = self._hosts.note_end(
            host,
            error,
            now_s,
            started_s=attempt.start_s,
            received=attempt.received,
            jitter=self._jitter(),
            file=attempt.key if attempt.key >= 0 else None,
            being_served=self._count_served(host) if isinstance(error, Throttled | Transient) else 0,
            broke_again=broke_again,
        )
        if outcome == "done":
            sample_bytes = None if attempt.is_tail else attempt.received
            self._policy.note_finish(
                attempt.key,
                sample_bytes,
                now_s,
                first_byte_s=attempt.first_byte_s,
                carried_bytes=attempt.carried_bytes,
            )
        elif outcome == "straggler":
            own_bytes = attempt.received if attempt.is_helper else transfer.part.position
            lost_bytes = 0 if transfer.may_resume() else own_bytes
            self._policy.note_cancellation(attempt.key, now_s, lost_bytes)
        else:
            self._policy.note_pause(attempt.key)
        if pause is not None:
            self._emit(HostPaused(t_s=now_s, **pause._asdict()))

    def end_unjudged(
        self, attempt: Attempt, reason: str | None, now_s: float, *, has_lost: bool = False
    ) -> None:
        """End an attempt for a reason that says nothing about its host; ``reason`` None: nothing is wrong.

        ``has_lost``: another request for the whole file has brought the file.
        """
        transfer = self._remove(attempt, now_s)
        if transfer is not None:
            self._policy.note_pause(attempt.key)
            outcome: Outcome = "lost" if has_lost else "error" if reason else "done"
            transfer.attempts.append(attempt.record(outcome, reason, now_s))

    def _remove(self, attempt: Attempt, now_s: float) -> Transfer | None:
        """Take an attempt out. Returns its transfer, or None if its end was reported before."""
        key = attempt.key
        if self._attempts.get(key) is not attempt:
            return None
        del self._attempts[key]
        self.sizes.note(attempt)
        volume_index = attempt.assignment.volume_index
        self._landed[volume_index] += attempt.received
        self._held_s[volume_index] = self._held_s.get(volume_index, 0.0) + attempt.held_s(now_s)
        transfer = self._transfers.pop(key)
        if key >= 0 and key not in self._shared:  # an owner's key is the id of its entry
            self._resting[key] = transfer, transfer.part.position
        return transfer

    def landed_bytes(self, volume_index: int) -> int:
        """Bytes that have come for a volume until now, kept or not."""
        return self._landed[volume_index] + sum(attempt.received for attempt in self.of_volume(volume_index))

    def held_s(self, volume_index: int, now_s: float) -> float:
        """Seconds for which a volume or a rate limit made attempts wait until now, added up over attempts."""
        under_way_s = sum(attempt.held_s(now_s) for attempt in self.of_volume(volume_index))
        return self._held_s.get(volume_index, 0.0) + under_way_s

    def received_by_host(self) -> Counter[str]:
        """Bytes that the attempts under way have brought."""
        received: Counter[str] = Counter()
        for attempt in self._attempts.values():
            received[attempt.assignment.host] += attempt.received
        return received

    def _count_served(self, host: str) -> int:
        return sum(
            attempt.assignment.host == host and attempt.reply.is_accepted
            for attempt in self._attempts.values()
        )

    def count_silent(self, since_s: float) -> Counter[str]:
        """Count by host the attempts that began before ``since_s`` and have not brought a byte."""
        attempts = self._attempts.values()
        return Counter(
            attempt.assignment.host
            for attempt in attempts
            if not attempt.received and attempt.start_s < since_s
        )

    def handshakes_by_host(self) -> dict[str, list[float]]:
        """Seconds that the connections of files under way took to be made, in the order of their starts.

        Where the kernel has measured the round trip, that counts. Helpers begin while others fill the link.
        """
        made: dict[str, list[float]] = {}
        for attempt in self._attempts.values():
            if attempt.key >= 0 and attempt.handshake_s:
                measured_s = attempt.reply.connecting and attempt.reply.connecting.round_trip_s
                made.setdefault(attempt.assignment.host, []).append(measured_s or attempt.handshake_s)
        return made

    def note_ranges(self, entry_id: int, ranges: "HeldRanges") -> None:
        """Note that several attempts bring the entry from now on; ``ranges`` says which bytes are held."""
        self._shared[entry_id] = ranges

    def unshare(self, transfer: Transfer) -> None:
        """Note that no worker has the entry in hand any more; harmless if it was not shared."""
        ranges = self._shared.pop(transfer.entry.id, None)
        if ranges is not None:
            self._resting[transfer.entry.id] = transfer, ranges.held_bytes

    def settle(self, entry_id: int) -> None:
        """Note that the entry has ended: its bytes are counted elsewhere from now on."""
        self._resting.pop(entry_id, None)
        self.sizes.forget(entry_id)

    def held_bytes(self, attempt: Attempt) -> int:
        """The bytes held of the attempt's file, whichever attempt has brought them."""
        ranges = self._shared.get(attempt.assignment.entry.id)
        return attempt.from_byte + attempt.received if ranges is None else ranges.held_bytes

    def count_whole(self) -> int:
        """Count the entries that have come whole and are verified; only their names are missing."""
        return sum(
            transfer.verified != "none" or self._has_ended(transfer, held_bytes)
            for transfer, held_bytes in self._resting.values()
        )

    def _has_ended(self, transfer: Transfer, held_bytes: int) -> bool:
        """Whether an entry that the manifest gives nothing to verify has come to its end."""
        entry = transfer.entry
        if entry.size_bytes is not None or entry.digest is not None:
            return False
        stated = self.sizes.get(entry.id)
        if stated is not None:
            return held_bytes == stated
        return bool(transfer.attempts) and transfer.attempts[-1].outcome == "done"

    def bytes_resting(self) -> int:
        """Bytes held of entries that have no attempt: they wait for the next one, or to be published."""
        return sum(held_bytes for _, held_bytes in self._resting.values())

    def is_shared(self, entry_id: int) -> bool:
        """Whether several attempts bring the entry."""
        return entry_id in self._shared

    def bytes_active(self) -> int:
        """Bytes held of entries under way, those of earlier attempts included; each counts once."""
        held = sum(ranges.held_bytes for ranges in self._shared.values())
        shared = self._shared
        # a second request for all of a file brings nothing new
        alone = (a for a in self._attempts.values() if a.key >= 0 and a.key not in shared)
        return held + sum(attempt.from_byte + attempt.received for attempt in alone)


def _breaks_off_again(last: AttemptRecord, earlier: list[AttemptRecord]) -> bool:
    """Whether an attempt has brought bytes, and ended at the same byte as an earlier failed one."""
    if last.helper:
        return False
    end = last.from_byte + last.bytes
    return any(
        min(last.bytes, other.bytes) > 0
        and other.from_byte + other.bytes == end
        and other.outcome == "error"
        and not other.helper
        for other in earlier
    )
