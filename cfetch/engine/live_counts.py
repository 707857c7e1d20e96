"""Counts how far a run is: entries that have ended, and what is known of the others. Pure."""

from collections import Counter

from cfetch.records import FileRecord
from cfetch.report.counts import Counts


class LiveCounts:
    """``ended``: of records alone. ``adopted_bytes`` were there of a dead run."""

    def __init__(self) -> None:
        self.ended = Counts()
        self.adopted_bytes = 0
        self._announced: Counter[int] = Counter()  # retries of entries that have not ended, by entry id

    @property
    def retries(self) -> int:
        """The number of retries that were made or are about to follow."""
        return self.ended.retries + self._announced.total()

    def end(self, record: FileRecord) -> None:
        """Count an entry that has come to its end: its record says how many retries were made."""
        self.ended.add(record)
        self._announced.pop(record.id, None)

    def announce_retry(self, entry_id: int) -> None:
        """Count a retry that is about to follow."""
        self._announced[entry_id] += 1

    def adopt(self, size_bytes: int) -> None:
        """Count bytes of a dead run's that are gone on with."""
        self.adopted_bytes += size_bytes
