"""Counts the results of a run's entries, from records and events: the only tally in cfetch.

The numbers of a record are counted when its entry has ended, and not before. So the live view, the summary,
the report of a metrics file and the tables agree, whichever machine brought the entry. Pure.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from cfetch.base.events import (
    EntriesFinished,
    EntryFinished,
    Event,
    Progress,
    RetryScheduled,
    RunStarted,
    StragglerCancelled,
)
from cfetch.base.records import FileRecord, Sums
from cfetch.show.wasted_bytes import received_bytes, wasted_bytes


class Counts(Sums):
    """Sums that records and events are added to."""

    def note(self, event: Event) -> None:
        """Count an event, as a listener."""
        if isinstance(event, EntryFinished):
            self.add(event.record)
        elif isinstance(event, EntriesFinished):
            self.include(event.digest.sums)
        elif isinstance(event, StragglerCancelled):
            self.cancelled_attempts += not event.completed

    def add(self, record: FileRecord) -> None:
        """Count an entry that has come to its end."""
        if record.size_bytes is None:
            self.unstated.add(record)
        if not record.attempts and record.status == "skipped":  # fast path: a run may have only such entries
            self.skipped += 1
            self.skipped_bytes += record.bytes
            self.end_s = max(self.end_s, record.end_s)
            return
        if record.status == "done":
            self.done += 1
            self.done_bytes += record.bytes
        elif record.status == "skipped":
            self.skipped += 1
            self.skipped_bytes += record.bytes
        else:
            self.failed += record.status == "failed"
            self.cancelled += record.status == "cancelled"
            self.missing_bytes += record.size_bytes or 0
        self.fetched_bytes += received_bytes(record)
        self.wasted_bytes += wasted_bytes(record)
        self.stragglers += record.stragglers
        self.end_s = max(self.end_s, record.end_s)
        if len(record.attempts) > 1:  # few entries have more than one
            self.retries += retries(record)
            self.hedged += any(attempt.outcome == "lost" for attempt in record.attempts)
            self.mitigation_wasted_bytes += sum(attempt.wasted_bytes or 0 for attempt in record.attempts)

    def include(self, other: Sums) -> None:
        """Add the counts of ``other``, a part of the same run."""
        end_s = max(self.end_s, other.end_s)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.end_s = end_s

    @property
    def in_place(self) -> int:
        """Entries whose file is published."""
        return self.done + self.skipped

    @property
    def in_place_bytes(self) -> int:
        """Bytes of the published files."""
        return self.done_bytes + self.skipped_bytes

    @property
    def settled(self) -> int:
        """Entries that are in place or have failed."""
        return self.in_place + self.failed

    @property
    def ended(self) -> int:
        """Entries that have ended, including cancelled entries, which a later run has to bring."""
        return self.settled + self.cancelled


class LiveCounts:
    """The results of a run so far; a listener.

    ``ended`` counts the entries that have ended. ``adopted_bytes`` came for the parts of a dead run that this
    run continues. ``started`` has the totals of the plan.
    """

    def __init__(self) -> None:
        self.ended = Counts()
        self.started: RunStarted | None = None
        self.adopted_bytes = 0
        self._announced: Counter[int] = Counter()  # retries of entries that have not ended, by entry id

    @property
    def retries(self) -> int:
        """The number of retries that were made or are scheduled."""
        return self.ended.retries + self._announced.total()

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, EntryFinished):
            self.ended.add(event.record)
            if self._announced:
                self._announced.pop(event.record.id, None)
        elif isinstance(event, RetryScheduled):
            self._announced[event.id] += 1
        elif isinstance(event, RunStarted):
            self.started = event
        else:
            self.ended.note(event)
            if self._announced and isinstance(event, EntriesFinished):
                for number in event.ids:
                    self._announced.pop(number, None)


def add_totals(progress: Progress, counts: LiveCounts, stated: Mapping[int, int]) -> Progress:
    """Add the totals as they are known now; ``stated`` are sizes that replies have stated, by entry.

    They are of entries under way whose size the manifest does not state.
    """
    started, ended = counts.started, counts.ended
    if started is None:  # a task of a run, whose driver knows the totals
        return progress
    return replace(
        progress,
        files=started.files,
        bytes_known=started.bytes_known + ended.unstated.bytes + sum(stated.values()),
        sizes_unknown=max(0, started.sizes_unknown - ended.unstated.entries - len(stated)),
    )


def count_received(progress: Progress, skipped_bytes: int) -> int:
    """Bytes that the run has received so far, those of attempts under way included.

    ``skipped_bytes`` were in place before. Bytes of an entry that waits for its next try may be missing for a
    while, so a later number may be lower.
    """
    held_bytes = progress.bytes_done + progress.bytes_active + progress.bytes_wasted
    return held_bytes - skipped_bytes - progress.bytes_adopted


def retries(record: FileRecord) -> int:
    """Count the entry's attempts that follow a failed attempt.

    An attempt after a cancelled straggler is no retry, nor is an attempt for a further segment of the entry.
    """
    if len(record.attempts) < 2:
        return 0
    own = [attempt for attempt in record.attempts if not attempt.helper]
    return sum(attempt.outcome in _FAILED for attempt in own[:-1])


_FAILED = {"stalled", "error", "expired"}
