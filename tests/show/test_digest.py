"""A run told by sums of its records has the numbers of one told by each record."""

import random

import msgspec
import pytest

from cfetch.base import records as module
from cfetch.base.events import EntriesFinished, EntryFinished, Event, tell_each
from cfetch.base.records import FileRecord, RecordList
from cfetch.show.digest import make_digest, make_skipped_digest
from cfetch.show.live.view import View
from cfetch.show.makespan import FEW
from cfetch.show.summary import Tally
from tests.show.blocks import together
from tests.show.records import attempt, finished, progress, record, retry, segments, started


def some(count, *, seed=1):
    """Files of 2 hosts on 4 slots, some of them in place already, retried or rescued."""
    dice, made = random.Random(seed), []
    for number in range(count):
        start_s = round(number / 4 + dice.random() / 8, 6)
        end_s = round(start_s + 0.2 + dice.random(), 6)
        host = f"h{number % 2}"
        if number % 17 == 3:
            made.append(record(number, 100, status="skipped", host=host))
        elif number % 13 == 5:
            first = attempt(1, start_s, end_s, size=40, outcome="error")
            made.append(record(number, 100, first, attempt(2, end_s, end_s + 0.5), host=host))
        elif number % 19 == 7:
            slow = attempt(1, start_s, end_s, size=10, outcome="straggler", projected_s=end_s + 9.0)
            made.append(record(number, 100, slow, attempt(2, end_s, end_s + 0.5, from_byte=10, size=90)))
        else:
            made.append(record(number, 100, attempt(1, start_s, end_s, samples=[(0.1, 9)]), host=host))
    return made


def numbers_of(*events):
    tally = Tally()
    for event in (started(sum(isinstance(event, EntryFinished) for event in events)), *events):
        tally(event)
    end = tally.end(200.0)
    return tally.counts, end


@pytest.mark.parametrize("each", [1, 7, 50, 400])
def test_sums_and_records_tell_the_same(each):
    """Counts, bytes, what mitigation saved, and what decided the end."""
    records = [*some(399), segments("done", "lost", "done")]
    parts = [together(*records[first : first + each], slots=400) for first in range(0, len(records), each)]
    (counts, end), (alone, told) = numbers_of(*parts), numbers_of(*finished(*records))
    assert counts == alone
    assert end.saved_s == pytest.approx(told.saved_s, abs=0.002)
    assert end.tail == told.tail
    assert told.saved_s > 1


def test_a_large_report_is_short():
    """The replay sees fewer jobs and the end fewer records; the numbers hardly change."""
    records = some(4000)
    event = together(*records)
    assert len(event.digest.latest) == 8
    assert not any(attempt.samples for record in event.digest.latest for attempt in record.attempts)
    assert len(event.digest.merged_jobs) <= FEW
    assert len(event.digest.jobs) < 8 + 4000 / 19 + 1
    (counts, end), (alone, told) = numbers_of(event), numbers_of(*finished(*records))
    assert counts == alone
    assert end.saved_s == pytest.approx(told.saved_s, rel=0.05)
    assert end.tail.bound == told.tail.bound


def test_a_listener_that_wants_each_file_is_told_each():
    """In their order, and as often as it is asked for; other events pass."""
    told: list[Event] = []
    records = some(40)
    event = together(*records)
    for _ in range(2):
        told.clear()
        tell = tell_each(told.append)
        tell(event)
        tell(progress(3.0))
        assert told == [*finished(*records), progress(3.0)]


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_a_block_is_read_by_whole_lines(monkeypatch, size):
    """Some at a time, and nothing before or after it."""
    monkeypatch.setattr(module, "_CHUNK_BYTES", size)
    records = some(9)
    block = together(*records).block
    texts = list(block.read_lines())
    assert all(text.endswith(b"\n") for text in texts)
    assert len(texts) == {1: 9, 1 << 20: 1}.get(size, len(texts))
    assert list(block.read_records()) == records


def test_announced_retries_are_over_when_their_files_are():
    """Live retries are those that were made or will be."""
    records = [record(0, 100, attempt(1, outcome="error"), attempt(2)), record(1, 100, attempt(1))]
    tally = Tally()
    for event in (started(3), retry(id=0), retry(id=2)):
        tally(event)
    assert tally.live.retries == 2
    tally(together(*records))
    assert tally.live.retries == 2  # one was made, one is to come


def test_the_view_counts_files_of_hosts_and_what_was_there():
    """Whether it is told of each or of all together."""
    views = [View(), View()]
    records = some(60)
    for view, events in zip(views, (finished(*records), [together(*records)]), strict=True):
        for event in events:
            view.apply(event)
    one, other = ((view.pace.list_hosts([]), view.counts.skipped_bytes) for view in views)
    assert one == other
    assert isinstance(together(*records), EntriesFinished)


def test_files_that_stood_in_place_are_added_up_at_once():
    """As record by record; their lines are those of the metrics."""
    skipped = [
        msgspec.structs.replace(record(number, 100 + number), status="skipped", end_s=7.0, attempts=[])
        for number in range(5)
    ]
    assert make_skipped_digest(skipped, 7.0) == make_digest(skipped, slots=1)
    block = RecordList(skipped)
    assert list(block.read_records()) == skipped
    decode = msgspec.json.Decoder(FileRecord).decode
    assert [decode(line) for text in block.read_lines() for line in text.splitlines()] == skipped
