"""From events to summary and exit code."""

import msgspec
import pytest

from cfetch.base.errors import CfetchError, HeldBack, Interrupted, LocalFault, UsageError, VolumeFault
from cfetch.base.events import FallbackTriggered
from cfetch.show.live.closing_tables import volume_lines
from cfetch.show.summary import MAX_FAILURES, Tally, exit_code, status
from cfetch.show.wasted_bytes import wasted_by_attempt, wasted_bytes
from tests.show.blocks import together
from tests.show.records import (
    attempt,
    cancelled,
    committed,
    finished,
    paused,
    progress,
    record,
    retry,
    started,
)


class HeldError(CfetchError):
    exit_code = 4


@pytest.mark.parametrize(
    ("unfinished", "error", "code"),
    [
        (0, None, 0),
        (1, None, 1),
        (0, UsageError("x"), 2),
        (3, LocalFault("x"), 3),
        (3, HeldError("x"), 4),
        (3, Interrupted(2), 130),
        (0, Interrupted(15), 143),
        (3, ValueError("x"), 70),
    ],
)
def test_exit_codes(unfinished, error, code):
    """The exit code follows the documented list."""
    assert exit_code(unfinished, error) == code


@pytest.mark.parametrize(
    ("in_place", "unfinished", "error", "word"),
    [
        (0, 0, None, "completed"),
        (5, 0, None, "completed"),
        (5, 1, None, "partial"),
        (0, 1, None, "failed"),
        (5, 0, LocalFault("x"), "partial"),
        (0, 0, LocalFault("x"), "failed"),
        (5, 0, Interrupted(2), "interrupted"),
    ],
)
def test_status(in_place, unfinished, error, word):
    """One word for the run: an error is never called completed."""
    assert status(in_place, unfinished, error) == word


def tally(*events):
    counted = Tally()
    for event in events:
        counted(event)
    return counted


def test_a_clean_run():
    """All entries done or skipped: counts, bytes, rate, exit 0."""
    summary = tally(
        started(2, 150), *finished(record(0, 100, attempt()), record(1, 50, status="skipped"))
    ).summary(2.0, metrics="m.jsonl")
    assert (summary.status, summary.exit_code, summary.metrics) == ("completed", 0, "m.jsonl")
    assert (summary.files.total, summary.files.done, summary.files.skipped) == (2, 1, 1)
    assert (summary.bytes.total, summary.bytes.fetched, summary.bytes.wasted) == (150, 100, 0)
    assert summary.rate_bps == 50.0


def test_failures_are_named_and_capped():
    """Each failure has kind and message; the count goes on where the list ends."""
    many = [
        record(
            i, 9, attempt(size=0, outcome="error"), status="failed", error_kind="refused", error="HTTP 404"
        )
        for i in range(MAX_FAILURES + 5)
    ]
    summary = tally(started(len(many)), *finished(*many)).summary(1.0)
    assert (summary.status, summary.exit_code, summary.files.failed) == ("failed", 1, MAX_FAILURES + 5)
    assert len(summary.failures) == MAX_FAILURES
    assert summary.failures_left_out == 5
    assert (summary.failures[3].id, summary.failures[3].kind, summary.failures[3].message) == (
        3,
        "refused",
        "HTTP 404",
    )


def test_entries_that_never_ended_count_as_unfinished():
    """A plan of which nothing is heard is not completed."""
    assert tally(started(3)).summary(1.0).exit_code == 1


def test_mitigation_counters():
    """Cancelled stragglers come from events, the rest from the records; a race of older versions is none."""
    raced = record(1, 100, attempt(1, outcome="lost", size=40), attempt(2))
    slow = record(
        0,
        100,
        attempt(1, outcome="error", size=0),
        attempt(2, outcome="straggler", size=30),
        attempt(3, from_byte=30, size=70),
    )
    summary = tally(
        started(2), retry(), cancelled(), cancelled(completed=True), *finished(slow, raced)
    ).summary(1.0)
    assert summary.retries == 1
    assert (summary.stragglers.detected, summary.stragglers.cancelled, summary.stragglers.hedged) == (1, 1, 1)
    assert (summary.bytes.fetched, summary.bytes.wasted) == (240, 40)


def test_bytes_that_mitigation_lost_are_summed():
    """Of the attempts that bear a verdict; the others have none."""
    file = record(
        0,
        100,
        attempt(1, outcome="straggler", size=30, saved_s=8.5, wasted_bytes=30),
        attempt(2, outcome="lost", size=30, saved_s=-1.0, wasted_bytes=10),
        attempt(3),
    )
    shown = tally(started(2), *finished(file, record(1, 10, attempt()))).summary(1.0).stragglers
    assert shown.wasted_bytes == 40


def test_what_was_saved_is_the_runs_time_and_no_sum_over_files():
    """Ten slow files side by side: each came 58 s sooner, and so did the run."""

    def rescued(id_):
        slow = attempt(1, 0.0, 1.0, size=10, outcome="straggler", projected_s=60.0, saved_s=58.0)
        return record(id_, 100, slow, attempt(2, 1.0, 2.0, from_byte=10, size=90))

    assert tally(started(10), *finished(*map(rescued, range(10)))).summary(2.0).stragglers.saved_s == 58.0


def test_fallback_is_restored_when_progress_says_parallel_again():
    """The way back is seen in Progress, not assumed."""
    fell = [
        started(),
        FallbackTriggered(t_s=1.0, stragglers=10, threshold=10),
        progress(2.0, sequential=True),
    ]
    during, after = tally(*fell).summary(3.0), tally(*fell, progress(3.0)).summary(3.0)
    again = tally(*fell, progress(3.0), progress(4.0, sequential=True)).summary(4.0)
    assert (during.fallback.triggered, during.fallback.restored) == (True, False)
    assert (after.fallback.triggered, after.fallback.restored) == (True, True)
    assert again.fallback.restored is False
    assert tally(started(), progress(1.0)).summary(1.0).fallback.restored is False


@pytest.mark.parametrize(
    ("attempts", "on_disk", "wasted"),
    [
        ([attempt()], 100, [0]),
        ([attempt(size=30), attempt(from_byte=30, size=70)], 100, [0, 0]),
        ([attempt(size=30), attempt(from_byte=0, size=100)], 100, [30, 0]),
        ([attempt(size=60), attempt(from_byte=40, size=60)], 100, [20, 0]),
        (
            [attempt(size=30), attempt(from_byte=30, size=20), attempt(from_byte=0, size=100)],
            100,
            [30, 20, 0],
        ),
        ([attempt(from_byte=90, size=10)], 100, [0]),
        ([attempt(size=100, outcome="lost"), attempt(size=100)], 100, [100, 0]),
        ([attempt(size=100), attempt(size=80, outcome="lost")], 100, [0, 80]),
        ([attempt(size=40, outcome="error")], 40, [0]),
        ([attempt(size=40, outcome="moved")], 100, [0]),  # the new volume copied it
        ([attempt(size=40, outcome="moved"), attempt(size=100)], 100, [40, 0]),
        ([attempt(size=40, outcome="moved"), attempt(from_byte=30, size=70)], 100, [10, 0]),
        ([attempt(size=40, outcome="error")], 0, [40]),
        ([], 0, []),
    ],
)
def test_waste_is_what_stands_in_no_file(attempts, on_disk, wasted):
    """Resumed bytes are kept, overwritten and discarded ones wasted, whatever the order of attempts."""
    file = record(0, 100, *attempts, bytes_=on_disk)
    assert wasted_by_attempt(file) == wasted
    assert wasted_bytes(file) == sum(wasted)


def test_several_volumes_are_told_apart():
    """Files in place and their bytes, batches, the last reason for being out of use; in the order given."""
    summary = tally(
        started(4, 400, destinations=("/data1", "/data2", "/data3")),
        *finished(
            record(0, 100, attempt(), volume="/data2"),
            record(1, 50, volume="/data2", status="skipped"),
            record(2, 100, attempt(), volume="/data1", status="failed"),
            record(3, 100, attempt(), volume="/data1", status="cancelled"),
        ),
        committed(volume="/data2"),
        paused(volume="/data3", reason="first"),
        paused(volume="/data3", reason="disk gone"),
    ).summary(1.0)
    shown = [
        (volume.volume, volume.files, volume.bytes, volume.batches, volume.out_of_use)
        for volume in summary.volumes
    ]
    assert shown == [
        ("/data1", 0, 0, 0, None),
        ("/data2", 2, 150, 1, None),
        ("/data3", 0, 0, 0, "disk gone"),
    ]
    document = msgspec.json.decode(msgspec.json.encode(summary))
    assert document["volumes"][2] == {
        "volume": "/data3", "files": 0, "bytes": 0, "batches": 0, "out_of_use": "disk gone"
    }  # fmt: skip
    assert document["schema"] == "cfetch.summary/1"


WAYS = {  # in which a run hears of the same files: one stood on /a, the others came
    "one process": lambda old, new: finished(*old, *new),
    "tasks": lambda old, new: [together(*old, new[0], volume="/a"), together(*new[1:], volume="/b")],
    "tasks of which two have brought the same": lambda old, new: [
        together(*old, volume="/a"), *finished(*new)
    ],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [100, None])
def test_the_table_of_volumes_is_the_same_in_whichever_way_the_files_came(way, size):
    """Files and bytes are those of the list in place there, found or brought; batches are the new ones."""
    old = [record(0, volume="/a", status="skipped", size_bytes=size)]
    new = [
        record(n, 100, attempt(), volume=volume, size_bytes=size)
        for n, volume in enumerate(("/a", "/b", "/b"), 1)
    ]
    events = [*WAYS[way](old, new), committed(volume="/a"), committed(volume="/b")]
    summary = tally(started(4, 400, destinations=("/a", "/b")), *events).summary(1.0)
    assert volume_lines(summary) == [
        "  /a  2 files  200 B  1 new batch",
        "  /b  2 files  200 B  1 new batch",
    ]


@pytest.mark.parametrize(("left", "shown"), [(0, (0, 0, 0)), (1, (1, 100, 1)), (None, (2, 200, 2))])
def test_batches_that_have_gone_are_in_place_no_more_than_their_files(left, shown):
    """What was removed while the run was at work counts in none of the columns."""
    came = finished(*(record(n, 100, attempt(), volume="/a") for n in range(2)))
    gone = paused(volume="/a", reason="it was removed", left=left)
    events = [*came, committed(volume="/a"), committed(volume="/a"), gone]
    volume, _ = tally(started(2, 200, destinations=("/a", "/b")), *events).summary(1.0).volumes
    assert (volume.files, volume.bytes, volume.batches) == shown


def test_one_volume_is_not_told_apart():
    """The document is as it always was."""
    summary = tally(started(destinations=("/v",)), *finished(record()), committed(volume="/v")).summary(1.0)
    assert b"volumes" not in msgspec.json.encode(summary)


@pytest.mark.parametrize(
    ("error", "kind"), [(VolumeFault("full", no_room=True), "local"), (HeldBack("x"), "batch")]
)
def test_files_that_a_volume_or_a_batch_failed_are_among_the_failures(error, kind):
    """Each with its kind; the run goes on without them, so that the exit code is that of failed entries."""
    failed = record(status="failed", error_kind=error.kind, error=str(error))
    summary = tally(started(), *finished(failed)).summary(1.0)
    assert [(failure.kind, failure.message) for failure in summary.failures] == [(kind, str(error))]
    assert summary.exit_code == 1
    assert tally(started()).summary(1.0, error=error).exit_code == error.exit_code
