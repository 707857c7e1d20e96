"""Makes the run's summary and exit code from its events, as a pure function.

``bytes.total`` is the sum of the plan's known sizes, ``bytes.fetched`` are all bytes that came over the wire,
and ``bytes.wasted`` those of them that are in no file at the end (see ``cfetch.show.wasted_bytes``).
"""

from typing import TYPE_CHECKING, Literal

from msgspec import UNSET
from msgspec.structs import replace

from cfetch.base.errors import CfetchError, Held, Interrupted
from cfetch.base.events import (
    BatchCommitted,
    EntriesFinished,
    EntryFinished,
    Event,
    FallbackTriggered,
    Progress,
    RunStarted,
    VolumePaused,
)
from cfetch.base.records import EndRecord, FileRecord, Summary
from cfetch.show.counts import Counts, LiveCounts
from cfetch.show.ending import Ending, RunLimits
from cfetch.show.event_records import make_event_record
from cfetch.show.makespan import Makespan

if TYPE_CHECKING:
    from cfetch.show.volume_tally import VolumeTally

MAX_FAILURES = 1000  # scripts read a summary as a whole; the metrics file has every failure

RunStatus = Literal["completed", "partial", "failed", "interrupted"]


def _count_allowed(most: float | None, files: int) -> int:
    """Count how many of ``files`` may fail: ``most`` is a number of files, or a share of them (float)."""
    return int(most * files) if isinstance(most, float) else most or 0


def exit_code(unfinished: int, error: BaseException | None) -> int:
    """The exit code of a run that left ``unfinished`` entries without their file and ended by ``error``.

    0: all are in place; 1: some are not; 2, 3 or 4: the code of the error that ended the run; 128 + signal:
    a signal ended it; 70: an error that is no ``CfetchError``.
    """
    if isinstance(error, Interrupted):
        return 128 + error.signal_number
    if isinstance(error, CfetchError):
        return error.exit_code
    if error is not None:
        return 70
    return 1 if unfinished else 0


def status(in_place: int, unfinished: int, error: BaseException | None) -> RunStatus:
    """One word for the run: ``completed``: all entries are in place, without error; ``failed``: none is."""
    if isinstance(error, Interrupted):
        return "interrupted"
    if not unfinished and error is None:
        return "completed"
    return "partial" if in_place else "failed"


def summary_of(
    counts: Counts,
    *,
    instant: str,
    status: RunStatus,
    exit_code: int,
    total: int,
    total_bytes: int,
    elapsed_s: float,
    fallback: Summary.Fallback,
    failures: list[Summary.Failure],
    metrics: str | None,
    saved_s: float = 0.0,
) -> Summary:
    """The document for ``--json``; ``total`` entries have ``total_bytes``, as far as sizes are known.

    ``saved_s``: how much shorter mitigation has made the run (``report.makespan``).
    """
    return Summary(
        instant=instant,
        status=status,
        exit_code=exit_code,
        files=Summary.Files(total=total, done=counts.done, skipped=counts.skipped, failed=counts.failed),
        bytes=Summary.Bytes(total=total_bytes, fetched=counts.fetched_bytes, wasted=counts.wasted_bytes),
        elapsed_s=elapsed_s,
        rate_bps=counts.fetched_bytes / elapsed_s if elapsed_s > 0 else 0.0,
        retries=counts.retries,
        stragglers=Summary.Stragglers(
            detected=counts.stragglers,
            cancelled=counts.cancelled_attempts,
            hedged=counts.hedged,
            saved_s=round(saved_s, 3),
            wasted_bytes=counts.mitigation_wasted_bytes,
        ),
        fallback=fallback,
        failures=failures,
        metrics=metrics,
    )


class Tally:
    """A listener that counts; ``summary`` may be asked at any time."""

    def __init__(self) -> None:
        self.live = LiveCounts()
        self.counts = self.live.ended
        self._instant = ""
        self._files = 0
        self._bytes_known = 0
        self._triggered = False
        self._sequential = False
        self._restored = False
        self._failures: list[Summary.Failure] = []
        self._allowed = 0  # failures that are no error
        self.failed_bytes = 0  # the stated sizes of entries that failed
        self._makespan = Makespan()
        self._ending = Ending()
        self._limits = RunLimits("", 1, None, None, None)
        self._volumes: dict[str, VolumeTally] = {}  # if there are several

    def __call__(self, event: Event) -> None:
        """Count the event."""
        self.live(event)
        if isinstance(event, EntryFinished):
            self._note_entry(event.record)
            return
        if isinstance(event, EntriesFinished):
            if event.volume in self._volumes:
                self._volumes[event.volume].counts.include(event.digest.sums)
            self._makespan.include(event.digest)
            self._ending.include(event.digest)
            return
        kept = make_event_record(event)
        if kept is not None:
            self._ending.note(kept)
        if isinstance(event, Progress):
            self._restored = self._triggered and (self._restored or self._sequential) and not event.sequential
            self._sequential = event.sequential
        elif isinstance(event, FallbackTriggered):
            self._triggered, self._sequential, self._restored = True, True, False
        elif isinstance(event, RunStarted):
            self._instant, self._files, self._bytes_known = event.instant, event.files, event.bytes_known
            most = event.settings.get("max_failures")
            self._allowed = _count_allowed(most if isinstance(most, int | float) else None, event.files)
            self._limits = RunLimits.of(event.settings, event.concurrency)
            if len(event.destinations) > 1:
                from cfetch.show.volume_tally import VolumeTally  # most runs have one volume

                self._volumes = {name: VolumeTally() for name in event.destinations}
        elif isinstance(event, BatchCommitted) and event.volume in self._volumes:
            self._volumes[event.volume].batches += 1
        elif isinstance(event, VolumePaused):
            volume = self._volumes.get(event.volume)
            if volume is not None:
                volume.out_of_use = event.reason
            if event.left is not None:
                from cfetch.show.volume_tally import take_back  # it is rare

                take_back(self.counts, volume, event.left)

    def _note_entry(self, record: FileRecord) -> None:
        self._makespan.add(record)
        self._ending.add(record)
        if record.is_in_place:
            if record.volume in self._volumes:
                self._volumes[record.volume].counts.add(record)
            return
        if record.status != "failed":
            return
        self.failed_bytes += record.size_bytes or 0
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(
                Summary.Failure(
                    id=record.id,
                    path=record.path,
                    kind=record.error_kind or "unknown",
                    message=record.error or "no reason was recorded",
                    url=record.url or None,
                    http_status=record.http_status,
                    line=record.line or None,
                )
            )

    def end(self, elapsed_s: float, *, error: BaseException | None = None) -> EndRecord:
        """Make the record of how the run ended, and of the cause. ``error`` ended it early."""
        counts, limits = self.counts, self._limits
        return EndRecord(
            instant=self._instant,
            t_s=round(elapsed_s, 3),
            status=status(counts.in_place, self.unfinished, error),
            exit_code=exit_code(0 if self.is_enough else self.unfinished, error),
            done=counts.done,
            skipped=counts.skipped,
            failed=counts.failed,
            cancelled=counts.cancelled,
            bytes=counts.fetched_bytes,
            wasted_bytes=counts.wasted_bytes,
            retries=counts.retries,
            stragglers=counts.stragglers,
            saved_s=round(self._makespan.saved_s(), 3),
            policy=limits.policy,
            places=limits.slots,
            most=limits.most,
            widths=self._ending.widths,
            tail=self._ending.tail(limits, elapsed_s, stopped=None if error is None else str(error)),
        )

    @property
    def unfinished(self) -> int:
        """Entries that are not in place."""
        return self._files - self.counts.in_place

    @property
    def is_enough(self) -> bool:
        """Whether all entries are in place, except for as many failures as are allowed."""
        return self.unfinished == self.counts.failed <= self._allowed

    def summary(
        self,
        elapsed_s: float,
        *,
        error: BaseException | None = None,
        metrics: str | None = None,
        end: EndRecord | None = None,
    ) -> Summary:
        """The document for ``--json``. ``error`` ended the run early; ``metrics`` is the file's path.

        ``end``: the record of the end, if it exists already; then the replay is not repeated.
        """
        unfinished = self.unfinished
        others = error.in_place if isinstance(error, Held) else None
        summary = summary_of(
            self.counts,
            instant=self._instant,
            status=status(self.counts.in_place, unfinished, error),
            exit_code=exit_code(0 if self.is_enough else unfinished, error),
            total=self._files,
            total_bytes=self._bytes_known,
            elapsed_s=elapsed_s,
            fallback=Summary.Fallback(triggered=self._triggered, restored=self._restored),
            failures=list(self._failures),
            metrics=metrics,
            saved_s=self._makespan.saved_s() if end is None else end.saved_s,
        )
        return replace(
            summary,
            volumes=[volume.describe(name) for name, volume in self._volumes.items()] or UNSET,
            failures_left_out=self.counts.failed - len(self._failures),
            failures_allowed=self._allowed,
            reason=UNSET if error is None else str(error),
            completed_by_other=UNSET if others is None else others,
        )
