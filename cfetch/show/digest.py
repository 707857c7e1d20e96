"""Adds up records where they are made, so that the driver of many tasks need not read each of them. Pure.

A ``Tally`` that includes the digests of all parts of a run has the same numbers as a ``Tally`` that has added
all of its records; only the replay of ``report.makespan`` sees fewer, longer jobs.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from cfetch.base.records import Digest, FileRecord
from cfetch.show.counts import Counts
from cfetch.show.ending import Ending
from cfetch.show.makespan import Makespan


def make_digest(records: Sequence[FileRecord], *, slots: int) -> Digest:
    """Add up records of a task that brings up to ``slots`` entries at a time."""
    counts, ending, makespan = Counts(), Ending(), Makespan()
    for record in records:
        counts.add(record)
        ending.add(record)
        makespan.add(record)
    jobs, merged = makespan.divide(2 * slots)
    return Digest(
        sums=counts,
        done=Counter(record.host for record in records if record.status == "done"),
        busy_s=ending.busy_s,
        bytes=ending.bytes,
        requests=ending.requests,
        held_s=ending.held_s,
        last_byte_s=ending.last_byte_s,
        latest=[_without_samples(record) for record in ending.latest[-2 * slots :]],
        jobs=[*jobs],
        merged_jobs=[*merged],
        peak=makespan.peak,
        is_mitigated=makespan.has_mitigated,
        fades_s=makespan.fades_s,
    )


def make_skipped_digest(records: Sequence[FileRecord], end_s: float) -> Digest:
    """Add up records of files that stood in place without an attempt: as ``make_digest``, in no time."""
    sums = Counts(skipped=len(records), skipped_bytes=sum(record.bytes for record in records), end_s=end_s)
    for record in records:
        if record.size_bytes is None:
            sums.unstated.add(record)
    return msgspec.structs.replace(_NOTHING, sums=sums)


def _without_samples(record: FileRecord) -> FileRecord:
    attempts = [msgspec.structs.replace(attempt, samples=[]) for attempt in record.attempts]
    return msgspec.structs.replace(record, attempts=attempts)


_NOTHING = make_digest([], slots=1)
