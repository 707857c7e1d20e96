"""The metrics file, written and read back."""

import errno
import gzip
import json
import os
import re
import stat
import threading

import pytest

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.events import HostPaused, RunExplained, RunFinished
from cfetch.base.records import EventRecord, RecordBlock
from cfetch.manifest.decompression import import_zstd
from cfetch.show import metrics as module
from cfetch.show.metrics import MetricsFile
from cfetch.show.metrics_reading import (
    Unfinished,
    expand_metrics,
    is_metrics,
    order_of_runs,
    read_metrics,
    read_unfinished,
)
from cfetch.show.summary import Tally
from tests.show.blocks import together
from tests.show.records import attempt, finished, progress, record, started

RECORDS = [record(0, 100, attempt(samples=[(0.5, 50), (1.0, 100)])), record(1, 7, status="skipped")]


def write(path, *events):
    with MetricsFile(path) as metrics:
        for event in events:
            metrics(event)
    return path


def read(path):
    return [(run.header.instant, list(run.files)) for run in read_metrics([path])]


@pytest.mark.parametrize("name", ["m.jsonl", "m.json", "m.jsonl.zst", "m.json.zst"])
def test_what_is_written_is_read_back(tmp_path, name):
    """All forms give back the header and every record."""
    path = write(tmp_path / name, started(2), *finished(*RECORDS))
    assert read(path) == [("i1", RECORDS)]
    assert path.read_bytes().startswith(b"\x28\xb5\x2f\xfd") == name.endswith(".zst")
    assert is_metrics(path)


@pytest.mark.parametrize("name", ["m.jsonl", "m.json", "m.jsonl.zst", "m.json.zst"])
@pytest.mark.parametrize("limit_s", [None, 60.0])
def test_lines_that_tasks_have_made_are_those_of_the_file(tmp_path, monkeypatch, name, limit_s):
    """Among records that are told one by one; nothing reads what is in them."""
    records = [record(number, 100, attempt()) for number in range(40)]
    monkeypatch.setattr(module, "BUFFER_BYTES", 3000)
    monkeypatch.setattr(RecordBlock, "read_records", None)
    with MetricsFile(tmp_path / name, limit_s=limit_s) as metrics:
        for event in (started(40), *finished(*records[:3]), together(*records[3:37])):
            metrics(event)
        for event in (together(records[37]), *finished(*records[38:])):
            metrics(event)
    assert read(tmp_path / name) == [("i1", records)]
    (tmp_path / "alone").mkdir()
    assert write(tmp_path / "alone" / name, started(40), *finished(*records)).read_bytes() == (
        tmp_path / name
    ).read_bytes() or name.endswith(".zst")


def test_the_compressed_metrics_of_a_killed_run_are_read_up_to_its_last_flush(tmp_path):
    """Each flush ends a block of its own; damage within the file is an error that names it."""
    path = tmp_path / "m.jsonl.zst"
    with MetricsFile(path) as metrics:
        for event in (started(2), *finished(RECORDS[0])):
            metrics(event)
        metrics.flush()
        assert read(path) == [("i1", RECORDS[:1])]
    data = path.read_bytes()
    path.write_bytes(data[:30] + b"\0" * 40 + data[70:])
    with pytest.raises(UsageError, match=r"m.jsonl.zst:1: .* the compressed data is broken"):
        read(path)
    assert not is_metrics(path)


def test_metrics_that_were_compressed_since_are_found_by_their_former_name(tmp_path):
    """A directory has them too; a copy beside the file that it is made from is no second run."""
    path = write(tmp_path / "20260101T000000000Z-abcd.2.jsonl", started(2), *finished(*RECORDS))
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(import_zstd().compress(path.read_bytes()))
    assert expand_metrics([tmp_path]) == [path]
    path.rename(tmp_path / "x")
    assert expand_metrics([tmp_path]) == [packed]
    assert read(path) == [("i1", RECORDS)]
    assert order_of_runs(packed) == order_of_runs(path)
    other = tmp_path / "20260101T000000000Z-abcd.jsonl.gz"
    other.write_bytes(gzip.compress((tmp_path / "x").read_bytes()))
    assert expand_metrics([tmp_path]) == [other, packed]
    assert read(other) == [("i1", RECORDS)]


@pytest.mark.parametrize(
    "damage", [b"", b"\0" * 99, b'{"schema":"cfetch.ru', b'{"schema": "cfetch.run/9"}\n', b"[1]"]
)
def test_a_damaged_file_of_a_directory_does_not_hide_the_others(tmp_path, damage):
    """It is left out with the reason; a directory with nothing else is refused, and so is the file itself."""
    path = write(tmp_path / "a.jsonl", started(2), *finished(*RECORDS))
    damaged = tmp_path / "b.jsonl"
    notes: list[str] = []
    damaged.write_bytes(damage)
    assert expand_metrics([tmp_path], notes.append) == [path]
    assert [note.startswith(f"left out: {damaged}:1: not cfetch metrics: ") for note in notes] == [True]
    path.unlink()
    for paths in ([tmp_path], [damaged]):
        with pytest.raises(UsageError, match=r"b\.jsonl:1: not cfetch metrics"):
            list(read_metrics(expand_metrics(paths, notes.append)))
    assert len(notes) == 1


def test_a_state_directory_that_cannot_be_read_is_not_said_to_have_no_metrics(tmp_path):
    """As the one of another user: the reason is the system's own."""
    (tmp_path / ".cfetch").symlink_to(".cfetch")
    with pytest.raises(UsageError, match=r"cannot read .*\.cfetch/metrics: Too many levels of sym"):
        expand_metrics([tmp_path])


def test_lines_follow_the_documented_order_of_schemas(tmp_path):
    """The header is the first line, then one line per entry, each naming its schema."""
    path = write(tmp_path / "m.jsonl", started(2), *finished(*RECORDS))
    schemas = [json.loads(line)["schema"] for line in path.read_text().splitlines()]
    assert schemas == ["cfetch.run/1", "cfetch.file/1", "cfetch.file/1"]


@pytest.mark.parametrize("name", ["m.jsonl", "m.json"])
def test_events_and_the_end_stand_beside_the_entries(tmp_path, name):
    """They are read back in their order, and readers that want entries only get these."""
    tally = Tally()
    pause = HostPaused(t_s=0.5, host="h", pause_s=2.0, reason="HTTP 429")
    events = [started(2), pause, *finished(*RECORDS)]
    for event in events:
        tally(event)
    end = tally.end(3.0)
    path = write(tmp_path / name, *events, RunExplained(t_s=3.0, record=end))
    noted = EventRecord(kind="pause", t_s=0.5, host="h", seconds=2.0, reason="HTTP 429")
    assert [line for run in read_metrics([path]) for line in run.records] == [noted, *RECORDS, end]
    assert read(path) == [("i1", RECORDS)]
    assert read_unfinished(path) == Unfinished(set(), None)


@pytest.mark.parametrize("events", [(), (started(0),), (started(1), *finished(RECORDS[0]))])
def test_the_array_document_is_valid_json_at_any_length(tmp_path, events):
    """A .json file is one JSON array, also when there was nothing to write."""
    path = write(tmp_path / "m.json", *events)
    assert len(json.loads(path.read_text())) == len(events)


def test_only_the_owner_may_read(tmp_path):
    """The file is 0600 even where an older one was open to all."""
    path = tmp_path / "m.jsonl"
    path.write_text("old")
    path.chmod(0o666)
    write(path, started())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "old" not in path.read_text()


def test_a_second_of_run_time_flushes(tmp_path):
    """What happened up to a second ago is on disk while the run goes on."""
    path = tmp_path / "m.jsonl"
    with MetricsFile(path) as metrics:
        metrics(started(2))
        metrics(finished(record(0, 100, attempt(end_s=0.5)))[0])
        before = len(path.read_text().splitlines())
        metrics(progress(1.25))
        after = len(path.read_text().splitlines())
    assert (before, after) == (1, 2)


def test_the_end_of_the_run_closes_the_file(tmp_path):
    """RunFinished completes the document; closing again is harmless."""
    metrics = MetricsFile(tmp_path / "m.json")
    metrics(started())
    metrics(RunFinished(t_s=1.0, summary=Tally().summary(1.0)))
    metrics.close()
    assert len(json.loads(metrics.path.read_text())) == 1


@pytest.mark.parametrize("name", ["m.jsonl", "m.json"])
@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_last_line_is_dropped(tmp_path, name, cut):
    """A file that a kill cut short reads up to its last whole line."""
    path = write(tmp_path / name, started(2), *finished(*RECORDS))
    whole = path.read_bytes().removesuffix(b"]\n").rstrip()
    path.write_bytes(whole[:-cut])
    assert read(path) == [("i1", RECORDS[:1])]


def test_a_torn_line_in_the_middle_is_refused(tmp_path):
    """Only the last line may be torn: elsewhere it is named with file and line."""
    path = write(tmp_path / "m.jsonl", started(2), *finished(*RECORDS))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:-20] + b"\n" + lines[2])
    with pytest.raises(UsageError, match=r"m\.jsonl:2: not cfetch metrics"):
        read(path)


@pytest.mark.parametrize(
    "text",
    ['{"schema": "other/1"}\n', '{"a": 1}\n', "hello\n", "[1, 2]", "", "[", '{"schema":"cfetch.file/1"}\n'],
)
def test_other_files_are_refused(tmp_path, text):
    """What is not a metrics file is a usage error that names the file."""
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"x\.json:1: not cfetch metrics"):
        read(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "there is no run"), ("hello", "JSON is malformed"), ('{"schema":"cfetch.run/1","ins', "truncated")],
)
def test_a_file_is_not_called_empty_when_it_is_something_else(tmp_path, text, why):
    """The reason fits what is in it, also where the first line is all there is and has no end."""
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"x\.jsonl:1: not cfetch metrics: .*{why}"):
        read(path)


@pytest.mark.parametrize(
    ("name", "why"), [("gone.jsonl", "No such file or directory"), ("", "Is a directory")]
)
def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path, name, why):
    """The path comes first, as in every refusal, then the reason."""
    with pytest.raises(UsageError, match=rf"{name}: cannot read the metrics: {why}"):
        read(tmp_path / name)


@pytest.mark.parametrize("indent", [None, 2])
def test_arrays_that_other_tools_rewrote_are_read(tmp_path, indent):
    """A document that went through another JSON tool still reads."""
    path = write(tmp_path / "m.json", started(2), *finished(*RECORDS))
    path.write_text(json.dumps(json.loads(path.read_text()), indent=indent))
    assert read(path) == [("i1", RECORDS)]


def test_one_file_may_hold_several_runs(tmp_path):
    """Files that were put one after the other read as so many runs."""
    text = write(tmp_path / "1.jsonl", started(1), *finished(RECORDS[0])).read_text()
    two = write(tmp_path / "2.jsonl", started(1, instant="i2"), *finished(RECORDS[1])).read_text()
    both = tmp_path / "both.jsonl"
    both.write_text(text + two)
    assert read(both) == [("i1", [RECORDS[0]]), ("i2", [RECORDS[1]])]


def test_runs_that_are_not_read_are_passed_over(tmp_path):
    """Asking for the next run skips what was not read of the last one."""
    path = write(tmp_path / "m.jsonl", started(2), *finished(*RECORDS))
    assert [run.header.files for run in read_metrics([path, path])] == [2, 2]


def test_a_full_disk_is_a_local_fault_told_once(tmp_path, monkeypatch):
    """A write that fails ends the record with one named error; later events and closing say no more."""
    metrics = MetricsFile(tmp_path / "m.jsonl")
    real = os.write

    def full(fd, data):
        if fd == metrics._fd:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LocalFault, match=r"m\.jsonl: No space left on device"):
        metrics(started())
    metrics(progress(5.0))
    metrics(finished(RECORDS[0])[0])
    metrics.close()


def test_a_file_that_cannot_be_made_is_a_local_fault(tmp_path):
    """The name and the reason are in the message."""
    with pytest.raises(LocalFault, match=r"no/m\.jsonl: No such file or directory"):
        MetricsFile(tmp_path / "no" / "m.jsonl")


def test_a_line_without_end(tmp_path, monkeypatch):
    """A line longer than any record is refused before it is held."""
    monkeypatch.setattr("cfetch.show.metrics_reading.MAX_LINE_BYTES", 1000)
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"{" * 5000)
    with pytest.raises(UsageError, match="longer than 1000 bytes"):
        list(read_metrics([path]))


@pytest.mark.parametrize("key", ["size_bytes", "bytes", "n", "from_byte"])
def test_a_number_of_hundreds_of_digits(tmp_path, key):
    """Such a number is damage: no arithmetic could take it."""
    path = tmp_path / "m.jsonl"
    write(path, started(), *finished(record(0, 100, attempt())))
    text = re.sub(rf'"{key}":[0-9]+', f'"{key}":1{"0" * 400}', path.read_text())
    path.write_text(text + "\n")
    with pytest.raises(UsageError, match="not cfetch metrics"):
        list(next(read_metrics([path])).records)


def test_a_disk_that_hangs_stops_no_event(tmp_path, monkeypatch):
    """Events are taken as before; at the end the metrics are complete, or the disk is named."""
    metrics = MetricsFile(tmp_path / "m.jsonl", limit_s=60.0)
    real, let_go = os.write, threading.Event()

    def hang(fd, data):
        if fd == metrics._fd:
            assert let_go.wait(60)
        return real(fd, data)

    monkeypatch.setattr(os, "write", hang)
    metrics(finished(RECORDS[0])[0])
    metrics(progress(5.0))  # begins to write
    metrics(progress(10.0))
    let_go.set()
    metrics.close()
    assert len((tmp_path / "m.jsonl").read_bytes().splitlines()) == 1


def test_a_disk_that_hangs_at_the_end_is_named(tmp_path, monkeypatch):
    """The run has its result all the same."""
    metrics = MetricsFile(tmp_path / "m.jsonl", limit_s=0.01)
    real, let_go = os.write, threading.Event()
    monkeypatch.setattr(os, "write", lambda *_: let_go.wait(60))
    metrics(finished(RECORDS[0])[0])
    with pytest.raises(LocalFault, match=r"has not answered for 0\.01 s"):
        metrics.flush()
    let_go.set()
    monkeypatch.setattr(os, "write", real)
    metrics.close()
