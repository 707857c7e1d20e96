"""Makes and emits the record of each entry that has ended."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from cfetch.base.errors import CfetchError
from cfetch.base.events import EntriesFinished, EntryFinished
from cfetch.base.records import CANCELLED, FileRecord, RecordList, Status
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entry import Entry
from cfetch.show.digest import make_skipped_digest

if TYPE_CHECKING:
    from cfetch.straggler.policy import Policy


def make_skipped_record(
    entry: Entry, instant: str, *, host: str, verified: str, volume: str, now_s: float
) -> FileRecord:
    """Make the record of an entry whose file stands in place without an attempt of this run."""
    return _fill(_make_blank(instant, volume, now_s), entry, host, verified)


def _make_blank(instant: str, volume: str, now_s: float) -> FileRecord:
    """A record of no entry yet: a copy of it takes a fifth of the time of a record made anew."""
    now_s = round(now_s, 6)
    return FileRecord(
        instant=instant,
        id=0,
        offset=0,
        path="",
        host="",
        size_bytes=None,
        bytes=0,
        status="skipped",
        verified="",
        volume=volume,
        queued_s=0.0,
        start_s=now_s,
        end_s=now_s,
        rate_bps=0.0,
        stragglers=0,
        attempts=[],
    )


def _fill(blank: FileRecord, entry: Entry, host: str, verified: str) -> FileRecord:
    return replace(
        blank,
        id=entry.id,
        offset=entry.position,
        path=entry.path,
        host=host,
        size_bytes=entry.size_bytes,
        bytes=entry.size_bytes or 0,
        verified=verified,
        columns=dict(entry.kept) if entry.kept else UNSET,
    )


class EntryRecords:
    """Records the end of each entry, once; the listeners count the records."""

    def __init__(self, policy: "Policy", in_flight: AttemptsUnderWay, outside: PoolInputs) -> None:
        self._policy = policy
        self._in_flight = in_flight
        self._clock = outside.clock
        self._instant = outside.instant
        self._emit = outside.emit

    def skip(self, standing: Sequence[tuple[Entry, str, str]], *, volume: str, now_s: float) -> None:
        """Record entries that were in place before a worker took them in hand: entry, host, proof of each."""
        blank = _make_blank(self._instant, volume, now_s)
        records = [_fill(blank, entry, host, verified) for entry, host, verified in standing]
        ids = [record.id for record in records]
        digest = make_skipped_digest(records, blank.end_s)
        self._emit(EntriesFinished(t_s=digest.sums.end_s, ids=ids, digest=digest, block=RecordList(records)))

    def finish(
        self,
        transfer: Transfer,
        status: Status,
        *,
        volume: str,
        kept_bytes: int = 0,
        error: CfetchError | None = None,
    ) -> None:
        """Record that an entry has come to its end; ``kept_bytes`` of it stay on ``volume``."""
        record = transfer.record(
            status,
            instant=self._instant,
            volume=volume,
            now_s=self._clock.now(),
            kept_bytes=kept_bytes,
            error=error,
        )
        if not CANCELLED.isdisjoint([attempt.outcome for attempt in record.attempts]):
            from cfetch.show.saved_time import add_verdicts  # most runs cancel no attempt

            record = add_verdicts(record)
        if status in ("failed", "cancelled"):
            self._policy.note_failure(transfer.entry.id)
        self._in_flight.settle(transfer.entry.id)
        self._emit(EntryFinished(t_s=record.end_s, record=record))
