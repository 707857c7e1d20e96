"""The one tally: what each entry adds, and that parts add up."""

import msgspec
import pytest

from cfetch.base.records import Unstated
from cfetch.show.counts import Counts, retries
from tests.show.records import attempt, cancelled, finished, record, retry, segments, started


def count_records(*records):
    counts = Counts()
    for item in records:
        counts.add(item)
    return counts


def nonzero(counts):
    """What has been counted, by name."""
    return {name: value for name, value in msgspec.structs.asdict(counts).items() if value}


def test_nothing_is_counted_before_anything_has_ended():
    """A new tally is all zeros."""
    assert nonzero(Counts()) == {}


@pytest.mark.parametrize(
    ("entry", "numbers"),
    [
        (record(0, 100, attempt()), {"done": 1, "done_bytes": 100, "fetched_bytes": 100, "end_s": 1.0}),
        (record(0, 100, status="skipped"), {"skipped": 1, "skipped_bytes": 100}),
        (
            record(0, 100, attempt(size=40, outcome="error"), status="failed"),
            {"failed": 1, "missing_bytes": 100, "fetched_bytes": 40, "wasted_bytes": 40, "end_s": 1.0},
        ),
        (record(0, None, status="failed", rate_bps=0.0), {"failed": 1, "unstated": Unstated(1, 0, 1)}),
        (
            record(0, None, bytes_=9, rate_bps=0.0),
            {"done": 1, "done_bytes": 9, "unstated": Unstated(1, 9)},
        ),
        (
            record(0, 100, attempt(size=40, outcome="error"), status="cancelled", bytes_=40),
            {"cancelled": 1, "missing_bytes": 100, "fetched_bytes": 40, "end_s": 1.0},
        ),
        (
            record(0, 100, attempt(size=40, outcome="error"), attempt(2, end_s=3.0)),
            {
                "done": 1,
                "done_bytes": 100,
                "fetched_bytes": 140,
                "wasted_bytes": 40,
                "retries": 1,
                "end_s": 3.0,
            },
        ),
        (
            record(
                0,
                100,
                attempt(1, outcome="straggler", size=30, saved_s=8.5, wasted_bytes=30),
                attempt(2, outcome="lost", size=100, saved_s=-1.0, wasted_bytes=100),
                attempt(3, end_s=2.0),
            ),
            {
                "done": 1,
                "done_bytes": 100,
                "fetched_bytes": 230,
                "wasted_bytes": 130,
                "stragglers": 1,
                "mitigation_wasted_bytes": 130,
                "hedged": 1,
                "end_s": 2.0,
            },
        ),
    ],
    ids=[
        "done",
        "skipped",
        "failed",
        "failed without a size",
        "done without a size",
        "cancelled",
        "retried",
        "rescued",
    ],
)
def test_what_an_entry_adds(entry, numbers):
    """Its status, its bytes on disk and over the wire, and what its attempts went through."""
    assert nonzero(count_records(entry)) == numbers


ENTRIES = [
    record(0, 100, attempt(size=40, outcome="stalled"), attempt(2, end_s=9.0)),
    record(1, 50, status="skipped"),
    record(2, 30, attempt(outcome="straggler", size=3, saved_s=1.5, wasted_bytes=3), attempt(2, size=30)),
    record(3, 20, attempt(size=0, outcome="error"), status="failed"),
    record(4, 10, attempt(size=5, outcome="error"), status="cancelled", bytes_=5),
]


def test_sums_of_entries():
    """In place are those done and skipped; settled are those and the failed; ended are all."""
    counts = count_records(*ENTRIES)
    assert (counts.in_place, counts.in_place_bytes) == (3, 180)
    assert (counts.settled, counts.ended) == (4, 5)


@pytest.mark.parametrize("cut", range(len(ENTRIES) + 1))
def test_parts_of_a_run_add_up_to_it(cut):
    """Wherever it was cut, and in whichever order the parts come; the last end is the latest of both."""
    first, other = count_records(*ENTRIES[:cut]), count_records(*ENTRIES[cut:])
    again = count_records(*ENTRIES[:cut])
    first.include(other)
    other.include(again)
    assert first == other == count_records(*ENTRIES)


def test_events_count_as_the_records_in_them():
    """Of a cancelled straggler only where its last byte had not come; other events count for nothing."""
    counts = Counts()
    for event in (started(5), retry(), cancelled(), cancelled(completed=True), *finished(*ENTRIES)):
        counts.note(event)
    assert counts == msgspec.structs.replace(count_records(*ENTRIES), cancelled_attempts=1)


@pytest.mark.parametrize(
    ("entry", "number"),
    [
        (record(0, 100), 0),
        (record(0, 100, attempt(outcome="error"), status="failed"), 0),
        (record(0, 100, attempt(outcome="error"), attempt(2)), 1),
        (record(0, 100, attempt(outcome="stalled"), attempt(2, outcome="expired"), attempt(3)), 2),
        (record(0, 100, attempt(outcome="straggler"), attempt(2)), 0),
        (record(0, 100, attempt(outcome="moved"), attempt(2)), 0),
        (segments("done", "done", "done"), 0),
        (segments("done", "error", "stalled"), 0),
    ],
    ids=["none", "failed", "one", "two", "straggler", "moved", "segments", "segments that failed"],
)
def test_a_retry_is_a_further_attempt_after_a_failed_one(entry, number):
    """Neither what follows a cancelled straggler or a move is one, nor a further segment's attempt."""
    assert retries(entry) == count_records(entry).retries == number
