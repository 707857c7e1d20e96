"""Attempts under way: the one place that knows which have started and ended, and what they have brought.

The fetcher and the segments report starts and ends here; the monitor, the pool and the volumes' health read.
Nothing here decides and nothing waits.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from cfetch.engine.attempt import Attempt
from cfetch.engine.transfer import Transfer
from cfetch.storage.held_ranges import HeldRanges


class Flight(NamedTuple):
    """An attempt under way, and the transfer that it is a part of."""

    attempt: Attempt
    transfer: Transfer


class Flights:
    """Attempts under way, by key in the order of their starts, and what is held of entries they share."""

    def __init__(self) -> None:
        self._attempts: dict[int, Attempt] = {}
        self._transfers: dict[int, Transfer] = {}  # the same keys
        self._shared: dict[int, HeldRanges] = {}  # by entry id
        self._landed: Counter[int] = Counter()  # by volume, of attempts that have ended

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, key: int) -> bool:
        return key in self._attempts

    def __iter__(self) -> Iterator[Flight]:
        return map(Flight, self._attempts.values(), self._transfers.values())

    def attempts(self) -> list[Attempt]:
        """All attempts under way at this moment."""
        return list(self._attempts.values())

    def attempt(self, key: int) -> Attempt:
        """The attempt with this key, which has to be under way."""
        return self._attempts[key]

    def get(self, key: int) -> Flight | None:
        """The attempt with this key and its transfer, if it is under way."""
        return Flight(self._attempts[key], self._transfers[key]) if key in self._attempts else None

    def of_volume(self, index: int) -> Iterator[Attempt]:
        """The attempts that write to volume ``index``."""
        return (attempt for attempt in self._attempts.values() if attempt.assignment.volume_index == index)

    def add(self, attempt: Attempt, transfer: Transfer) -> None:
        """Note that an attempt is under way. No other attempt has its key until it has ended."""
        self._attempts[attempt.key], self._transfers[attempt.key] = attempt, transfer

    def remove(self, attempt: Attempt) -> bool:
        """Note that an attempt is over; False if that was noted before."""
        if self._attempts.get(attempt.key) is not attempt:
            return False
        del self._attempts[attempt.key], self._transfers[attempt.key]
        self._landed[attempt.assignment.volume_index] += attempt.received
        return True

    def landed_bytes(self, volume_index: int) -> int:
        """Bytes that have come for a volume until now, kept or not."""
        return self._landed[volume_index] + sum(attempt.received for attempt in self.of_volume(volume_index))

    def received_by_host(self) -> Counter[str]:
        """Bytes that the attempts under way have brought."""
        received: Counter[str] = Counter()
        for attempt in self._attempts.values():
            received[attempt.assignment.host] += attempt.received
        return received

    def share(self, entry_id: int, ranges: HeldRanges) -> None:
        """Note that several attempts bring the entry from now on; ``ranges`` says which bytes are held."""
        self._shared[entry_id] = ranges

    def unshare(self, entry_id: int) -> None:
        """Note that no worker has the entry in hand any more; harmless if it was not shared."""
        self._shared.pop(entry_id, None)

    def is_shared(self, entry_id: int) -> bool:
        """Whether several attempts bring the entry."""
        return entry_id in self._shared

    def bytes_active(self) -> int:
        """Bytes held of entries under way, those of earlier attempts included; each counts once."""
        held = sum(ranges.held_bytes for ranges in self._shared.values())
        alone = (attempt for attempt in self._attempts.values() if attempt.id not in self._shared)
        return held + sum(attempt.from_byte + attempt.received for attempt in alone)
