"""Facts as lines: plain, JSON, quiet; and the choice between them and the live view."""

import io
import json

import pytest
from msgspec.structs import replace

from cfetch.base.errors import DeadlinePassed, Interrupted, LocalFault
from cfetch.base.events import (
    BreakerClosed,
    FallbackTriggered,
    HostPaused,
    MinRateWaived,
    RunFinished,
    RunStopping,
    SlowdownSeen,
    StragglerCancelled,
    WidthChanged,
)
from cfetch.base.records import EndRecord, Summary, Tail
from cfetch.show.causes import group_by_cause
from cfetch.show.live.closing import closing_line, closing_lines
from cfetch.show.live.closing_tables import SHOWN_CAUSES, SHOWN_VOLUMES
from cfetch.show.live.event_facts import AT_ONCE, EXPLAINED, PACED
from cfetch.show.live.facts import MAX_LINES, NAMED, STATED
from cfetch.show.live.lines import json_lines, plain_lines, quiet_lines
from cfetch.show.live.open import choose_mode, open_dashboard
from cfetch.show.summary import Tally
from tests.show.live.replay import HOSTILE, stream
from tests.show.records import (
    attempt,
    cancelled,
    committed,
    finished,
    paused,
    placed,
    progress,
    record,
    retry,
    started,
    volume,
)


def write_events(lines, *events, **options):
    stream_ = io.StringIO()
    emit = lines(stream_, **options)
    for event in events:
        emit(event)
    return stream_.getvalue().splitlines()


def failures(number, kind="refused"):
    return finished(
        *(
            record(i, 9, attempt(http_status=404), status="failed", error_kind=kind, error="HTTP 404")
            for i in range(number)
        )
    )


def finish_run(*events, error=None, metrics="m.jsonl"):
    tally = Tally()
    for event in events:
        tally(event)
    return RunFinished(t_s=5.0, summary=tally.summary(5.0, error=error, metrics=metrics))


def test_progress_comes_first_after_two_seconds_then_every_ten():
    """Four events a second become a line now and then."""
    lines = write_events(plain_lines, *(progress(t / 4) for t in range(1, 100)))
    assert [line.split("]")[0] for line in lines] == ["[   2.0s", "[  12.0s", "[  22.0s"]


def test_a_plain_progress_line():
    """It has share, files, bytes, rate, active attempts, time left, and trouble only where there is some."""
    events = [
        started(10, 10_240),
        *(progress(float(t), done=t, bytes_done=1024 * t, waiting=9) for t in (1, 2)),
    ]
    assert (
        write_events(plain_lines, *events)[1]
        == "[   2.0s] 20 %, 2 of 10 files in place, 2.0 KiB of 10.0 KiB, 1.0 KiB/s, 0 active, about 8.0s left"
    )
    assert "0 of 1 file in place," in write_events(plain_lines, started(1, 10), progress(2.0))[1]
    trouble = progress(2.0, failed=1, retries=2, sequential=True)
    assert write_events(plain_lines, started(10, 10), cancelled(), trouble)[-1].endswith(
        ", 1 failed, 2 retries, 1 straggler, one at a time"
    )


@pytest.mark.parametrize("lines", [plain_lines, quiet_lines])
def test_failures_are_told_at_once_but_never_as_a_flood(lines):
    """After five of one cause, and twenty in all, they are counted only, and a line says so."""
    output = write_events(lines, *failures(100))
    assert len(output) == NAMED + 1
    assert output[0] == "[   1.0s] failed: a/0: HTTP 404 (there is no such file; check the link)"
    assert "the metrics name all" in output[-1]
    different = [replace(event.record, error=f"cause {'x' * event.record.id}") for event in failures(100)]
    output = write_events(lines, *finished(*different))
    assert len(output) == MAX_LINES + 1
    assert "counted only" in output[-1]


def test_scripts_get_each_failure_up_to_the_limit_of_lines():
    """They group failures themselves."""
    assert len(write_events(json_lines, *failures(100))) == MAX_LINES + 1


def full(number):
    """A disk that is full fails them all, each under its path."""
    error = "cannot write {}: No space left on device"
    failed = [record(i, 9, attempt(), status="failed", error_kind="local", error="") for i in range(number)]
    return finished(*(replace(one, error=error.format(one.path)) for one in failed))


def test_failures_of_one_cause_of_this_machine_are_told_once_and_counted():
    """A full disk is no news with each file; scripts get them all."""
    end = [started(9), *full(9)]
    end.append(finish_run(*end, error=LocalFault("full")))
    output = [line for line in write_events(plain_lines, *end) if "file" in line or "a/" in line]
    output = output[1:]  # without the run's start
    assert output[0].endswith("failed: a/0: cannot write a/0: No space left on device (local)")
    assert output[1:3] == [
        "  9 files failed:",
        "    9 files: cannot write a/0: No space left on device (local)",
    ]
    assert output[-1] == "failed: 0 of 9 files in place, 900 B in 5.0s (180 B/s)"
    quiet = write_events(quiet_lines, *end)
    assert (len(quiet), "9 of 9 files failed" in quiet[1]) == (2, True)
    machine = [json.loads(line) for line in write_events(json_lines, *end)]
    assert [fact["event"] for fact in machine].count("failed") == 9


def test_a_fault_that_stops_the_run_is_said_with_its_file_and_at_the_end():
    """A full disk was said three times, and the next step four times."""
    error = "cannot write a/0: No space left on device (free some space and run the same command again)"
    (failed,) = finished(record(0, 9, attempt(), status="failed", error_kind="local", error=error))
    events = [started(9), failed, RunStopping(t_s=1.0, reason=error)]
    events.append(finish_run(*events, error=LocalFault(error)))
    output = write_events(plain_lines, *events)
    assert output[2] == "[   1.0s] stopping: this failure concerns every file"
    assert sum("No space left" in line for line in output) == 2 + 1  # with its file, by cause, at the end
    assert not [line for line in output if "next:" in line]
    other = write_events(plain_lines, started(9), RunStopping(t_s=1.0, reason="SIGINT"))
    assert other[1] == "[   1.0s] stopping: SIGINT"


def test_stragglers_have_a_limit_of_their_own():
    """A flood of stragglers does not silence failures."""
    output = write_events(plain_lines, *(cancelled(float(i)) for i in range(100)), *failures(1))
    assert len(output) == MAX_LINES + 2
    assert output[-1].endswith("failed: a/0: HTTP 404 (there is no such file; check the link)")


def test_a_host_that_goes_on_failing_is_told_while_its_pauses_grow():
    """An outage of minutes is a few lines; a new outage is told anew."""
    pauses = [
        HostPaused(t_s=float(t), host="h", pause_s=s, reason=f"failed {t}", is_failing=True)
        for t, s in enumerate([0.5, 1.0, 2.0, 4.0, *[5.0001] * 50])
    ]
    again = BreakerClosed(t_s=60.0, host="h")
    lines = write_events(plain_lines, *pauses, again, pauses[0])
    assert [line.split("; ")[-1] for line in lines[:5]] == [
        f"no request there for {text}" for text in ("0.5s", "1.0s", "2.0s", "4.0s", "5.0s")
    ]
    assert [line[10:] for line in lines[5:]] == [
        "h: in use again",
        "h: failed 0; no request there for 0.5s",
    ]


def test_a_host_that_is_left_alone_is_named():
    """Who, why and for how long; a hostile name stays harmless."""
    paused = HostPaused(t_s=3.0, host="h.test\x1b[2J", pause_s=30.0, reason="HTTP 503")
    assert write_events(plain_lines, paused) == [
        "[   3.0s] h.test\\x1b[2J: HTTP 503; no request there for 30s"
    ]
    (line,) = write_events(json_lines, paused)
    assert json.loads(line) == {
        "t_s": 3.0,
        "event": "host_paused",
        "level": "warning",
        "host": "h.test\\x1b[2J",
        "pause_s": 30.0,
        "reason": "HTTP 503",
    }


def test_a_change_of_width_is_told_with_its_reason():
    """More or fewer at a time, and why; not for ever."""
    narrower = WidthChanged(t_s=3.0, host="h\x1b", slots=8, before=16, reason="9 of 10 were stragglers")
    assert write_events(plain_lines, narrower) == [
        "[   3.0s] h\\x1b: 8 downloads at a time instead of 16: 9 of 10 were stragglers"
    ]
    assert json.loads(write_events(json_lines, narrower)[0])["places"] == 8
    assert len(write_events(plain_lines, *[narrower] * 100)) == MAX_LINES + 1


def test_a_slowdown_that_is_nobodys_fault_is_told():
    """And that nothing is done about it."""
    seen = SlowdownSeen(t_s=3.0, active=16, reason="7 of 16 downloads are slow at once")
    assert write_events(plain_lines, seen) == [
        "[   3.0s] slow: 7 of 16 downloads are slow at once; no download is cancelled for it"
    ]
    assert json.loads(write_events(json_lines, seen)[0])["active"] == 16


def test_a_stated_rate_that_no_connection_reaches_is_told():
    """Of one file, or of a whole host."""
    waived = MinRateWaived(t_s=3.0, host="h", path="a\x1b", connections=3, min_rate_bps=10 << 10)
    assert write_events(plain_lines, waived, replace(waived, path=None, connections=8)) == [
        "[   3.0s] min-rate: a\\x1b goes on below 10.0 KiB/s: 3 fresh connections were no faster",
        "[   3.0s] min-rate: all files of h go on below 10.0 KiB/s: 8 fresh connections were no faster",
    ]
    assert json.loads(write_events(json_lines, waived)[0])["min_rate_bps"] == 10_240


def test_a_volume_out_of_use_is_named():
    """Who, for how long and why; for good it is an error, which quiet mode tells too."""
    for_good = paused(4.0, pause_s=None, volume="/d\x1b[2J")
    assert write_events(plain_lines, paused(3.0), for_good) == [
        "[   3.0s] /data3: out of use for 30s: disk gone",
        "[   4.0s] /d\\x1b[2J: out of use for the rest of the run: disk gone",
    ]
    assert write_events(quiet_lines, paused(3.0), for_good) == [
        "[   4.0s] /d\\x1b[2J: out of use for the rest of the run: disk gone"
    ]
    (line,) = write_events(json_lines, paused(3.0))
    assert json.loads(line) == {
        "t_s": 3.0, "event": "volume_paused", "level": "warning", "volume": "/data3", "pause_s": 30.0,
        "reason": "disk gone",
    }  # fmt: skip
    assert len(write_events(plain_lines, *(paused(float(i)) for i in range(100)))) == MAX_LINES + 1


def test_a_batch_of_unknown_size_claims_none():
    """Its guessed bytes are no size."""
    events = [placed(1.0, sizes_unknown=12, size_bytes=0), placed(2.0, sizes_unknown=2)]
    assert [line.partition(" to ")[0] for line in write_events(plain_lines, *events, explain=True)] == [
        "[   1.0s] batch shard-7 (12 files, sizes unknown)",
        "[   2.0s] batch shard-7 (12 files, 3.0 MiB and 2 of unknown size)",
    ]


def test_batches_are_explained_when_asked():
    """Where, why there and from where; that it is in place. Without --explain nothing of it."""
    events = [placed(1.0), placed(2.0, moved_from="/data3", why="/data2: the only one left"), committed(3.0)]
    assert write_events(plain_lines, *events, explain=True) == [
        "[   1.0s] batch shard-7 (12 files, 3.0 MiB) to /data2: done in 3 s",
        "[   2.0s] batch shard-7 (12 files, 3.0 MiB) to /data2, from /data3: the only one left",
        "[   3.0s] batch shard-7 (12 files, 3.0 MiB) is in place on /data2",
    ]
    assert write_events(plain_lines, *events) == write_events(json_lines, *events) == []
    batch = {"batch": "shard-7", "files": 12, "size_bytes": 3 << 20, "volume": "/data2"}
    first, second, third = map(json.loads, write_events(json_lines, *events, explain=True))
    head = {"t_s": 1.0, "event": "batch_placed", "level": "info"}
    assert first == {**head, **batch, "why": "done in 3 s", "moved_from": None, "sizes_unknown": 0}
    assert (second["moved_from"], second["why"]) == ("/data3", "/data2: the only one left")
    assert third == {"t_s": 3.0, "event": "batch_committed", "level": "info", **batch}


def test_with_one_volume_there_is_one_line_for_all_batches():
    """Fifty said "1 file there", "2 files there", … of the only directory; programs get them all."""
    events = [
        started(destinations=["/data2"]),
        *(placed(float(number)) for number in range(1, 50)),
        committed(50.0),
    ]
    assert write_events(plain_lines, *events, explain=True)[1:] == [
        "[   1.0s] every batch goes to /data2, the only volume",
        "[  50.0s] batch shard-7 (12 files, 3.0 MiB) is in place on /data2",
    ]
    assert len(write_events(json_lines, *events, explain=True)) == 51


def test_every_batch_is_explained():
    """Who asks for it gets it: no flood is held back."""
    assert (
        len(write_events(plain_lines, *(placed(1.0) for _ in range(5 * MAX_LINES)), explain=True))
        == 5 * MAX_LINES
    )


def test_progress_tells_of_volumes():
    """Lines count those out of use, JSON has each with its numbers; nothing where there is one."""
    broken = volume("/b\x1b", breaker="open", reason="gone\x1b", free_bytes=None)
    shown = progress(2.0, volumes=[volume(), broken])
    assert write_events(plain_lines, started(), shown)[1].endswith(", 1 of 2 volumes out of use")
    (_, line) = write_events(json_lines, started(), shown)
    first, second = json.loads(line)["volumes"]
    assert first == {
        "name": "/data1", "load_bytes": 100, "load_files": 4, "running": 1, "queued": 2, "speed_bps": 1000.0,
        "breaker": "closed", "reason": None, "free_bytes": 1 << 40, "batches_done": 3, "bytes_done": 300,
    }  # fmt: skip
    assert (second["name"], second["reason"], second["free_bytes"]) == ("/b\\x1b", "gone\\x1b", None)
    assert "volumes" not in write_events(plain_lines, started(), progress(2.0))[1]
    assert "volumes" not in json.loads(write_events(json_lines, started(), progress(2.0))[1])


def test_json_names_every_destination():
    """The joined words are for people: a path may hold a comma."""
    (line,) = write_events(json_lines, started(destination="/a, b, /c", destinations=("/a, b", "/c")))
    assert json.loads(line)["destinations"] == ["/a, b", "/c"]
    (line,) = write_events(json_lines, started(destinations=("/data",)))
    assert "destinations" not in json.loads(line)


def test_quiet_is_silent_when_all_goes_well():
    """Start, progress, stragglers, fallback and a good end leave no line."""
    done = finished(record(0, 100, attempt()))
    events = [
        started(),
        progress(5.0),
        cancelled(),
        FallbackTriggered(t_s=2.0, stragglers=1, threshold=1),
        *done,
    ]
    assert write_events(quiet_lines, *events, finish_run(started(), *done)) == []


def test_quiet_names_failures_once_and_ends_with_one_line():
    """Each failure as it happens, then how many there were and where all is told."""
    events = [started(20), *failures(2)]
    output = write_events(quiet_lines, *events, finish_run(*events))
    assert [line.split("] ")[-1] for line in output] == [
        "failed: a/0: HTTP 404 (there is no such file; check the link)",
        "failed: a/1: HTTP 404 (there is no such file; check the link)",
        "2 of 20 files failed; metrics: m.jsonl",
    ]


def test_quiet_names_what_ended_the_run():
    """The cause is an error of its own, whether or not an entry failed by it."""
    stop = RunStopping(t_s=1.0, reason="disk full")
    output = write_events(quiet_lines, started(20), stop, finish_run(started(20), error=LocalFault("x")))
    assert output == ["stopped: disk full; 0 of 20 files in place; metrics: m.jsonl"]
    assert closing_line(
        finish_run(started(20), error=Interrupted(15), metrics=None).summary, "SIGTERM: x"
    ) == ("stopped by SIGTERM; 0 of 20 files in place")


@pytest.mark.parametrize("number", [2, 30])
def test_plain_lines_name_a_failure_once(number):
    """The closing words only count, by cause, what was told as it happened."""
    events = [started(30), *failures(number)]
    output = write_events(plain_lines, *events, finish_run(*events))
    assert sum("a/1: HTTP 404" in line for line in output) == 1
    first = output.index(f"  {number} files failed:")
    assert output[first + 1] == f"    {number} files: HTTP 404 (there is no such file; check the link)"
    assert not any("such as" in line for line in output)


def test_json_lines_are_one_object_each():
    """Every line is an object with time, event and level; the same facts as plain lines, pace included."""
    events = [*stream(files=60, straggling=0.2)]
    output = [json.loads(line) for line in write_events(json_lines, *events)]
    assert [entry["event"] for entry in output][:2] == ["started", "progress"]
    assert output[-1]["event"] == "finished"
    assert all({"t_s", "event", "level"} <= set(entry) for entry in output)
    assert output[-1]["files"]["done"] == 60
    assert len(output) == sum("[" in line for line in write_events(plain_lines, *events)) + 1


@pytest.mark.parametrize("lines", [plain_lines, json_lines, quiet_lines])
def test_hostile_names_come_out_printable(lines):
    """No control, escape or bidi character of a name or a message reaches the log."""
    failed = record(1, 9, attempt(), status="failed", error_kind="refused", error=HOSTILE, path=HOSTILE)
    events = [
        *stream(files=60, straggling=0.2, hostile=HOSTILE, volumes=3),
        *finished(failed),
        RunStopping(t_s=1.0, reason=HOSTILE),
    ]
    text = "\n".join(write_events(lines, *events, finish_run(started(), *finished(failed), metrics=HOSTILE)))
    assert not set(text) & set("\x1b\x07\x9b\u202e\r")
    assert "owned" in text


def test_plain_lines_are_ascii():
    """A log in any encoding can take them."""
    assert "\n".join(write_events(plain_lines, *stream(files=60, straggling=0.2))).isascii()


def test_a_closed_pipe_does_not_end_the_run():
    """When nobody reads the log any more, the listener goes silent."""

    class Closed(io.StringIO):
        writes = 0

        def write(self, text):
            self.writes += 1
            raise BrokenPipeError

    stream_ = Closed()
    emit = plain_lines(stream_)
    emit(started())
    emit(RunStopping(t_s=1.0, reason="x"))
    assert stream_.writes == 1


TTY = {"terminal": True, "environ": {"TERM": "xterm"}, "quiet": False, "progress": "auto"}


@pytest.mark.parametrize(
    ("change", "mode"),
    [
        ({}, "live"),
        ({"environ": {"TERM": "xterm", "NO_COLOR": "1"}}, "live"),
        ({"environ": {"TERM": "xterm", "CI": "false"}}, "live"),
        ({"environ": {"TERM": "xterm", "CI": "true"}}, "plain"),
        ({"environ": {"TERM": "dumb"}}, "plain"),
        ({"environ": {}}, "plain"),
        ({"terminal": False}, "plain"),
        ({"progress": "json"}, "json"),
        ({"progress": "json", "quiet": True}, "quiet"),
        ({"progress": "plain"}, "plain"),
        ({"progress": "bar", "environ": {"TERM": "xterm", "CI": "true"}}, "live"),
        ({"progress": "bar", "environ": {"TERM": "dumb"}}, "plain"),
        ({"progress": "bar", "terminal": False}, "plain"),
        ({"quiet": True}, "quiet"),
    ],
)
def test_the_choice(change, mode):
    """A live view only on a terminal that a person watches; what was asked for comes first."""
    assert choose_mode(**{**TTY, **change}) == mode


def test_a_stream_that_is_no_terminal_gets_plain_lines():
    """Opening on a file writes lines to it and nothing else."""
    stream_ = io.StringIO()
    with open_dashboard(stream=stream_, environ={"TERM": "xterm"}) as emit:
        emit(started())
        emit(replace(started(), settings={"policy": "adaptive"}))
    assert stream_.getvalue().splitlines() == [
        "[   0.0s] 1 file (100 B) to /data, 4 at a time",
        "[   0.0s] 1 file (100 B) to /data, adaptive, 4 at a time",
    ]


def test_a_bar_that_cannot_be_shown_is_said_once():
    """Who asks for a bar, and gives no terminal, gets lines and the reason."""
    stream_ = io.StringIO()
    with open_dashboard(stream=stream_, environ={"TERM": "xterm"}, progress="bar") as emit:
        emit(started())
    first, second = stream_.getvalue().splitlines()
    assert first == "--progress bar: there is no terminal here to show a bar on; here are lines"
    assert second.startswith("[   0.0s] 1 file")


def test_closing_words_of_a_good_run():
    """Verdict, what happened on the way, metrics, next command."""
    events = [
        started(2),
        retry(),
        cancelled(),
        *finished(
            record(0, 2048, attempt(size=100, outcome="error"), attempt(2, size=2048)),
            record(1, status="skipped"),
        ),
    ]
    assert closing_lines(finish_run(*events).summary) == [
        "  1 already there, 1 retry, 100 B wasted (4.7 %)",
        "  metrics: m.jsonl",
        "  next: cfetch report m.jsonl",
        "done: 2 of 2 files in place, 2.1 KiB in 5.0s (430 B/s)",
    ]


def fail(number, *errors):
    """Failures of several causes, ``number`` of each, in turn."""
    failed = []
    for id_ in range(number * len(errors)):
        kind, error = errors[id_ % len(errors)]
        text = error.format(path=f"a/{id_}", n=id_)
        failed.append(
            record(id_, 9, status="failed", error_kind=kind, error=text, url=f"http://h/{id_}", line=id_)
        )
    return finished(*failed)


def test_failures_are_grouped_by_cause_and_the_headline_is_the_last_of_24_lines():
    """Each has a count and one example, those of most files first; a number or a path makes no cause."""
    gone, refused = ("refused", "HTTP 404"), ("refused", "states no length; name it with size: {n}")
    moved = ("corrupt", "{path} has 0{n}123456789abcdef, not what the list states")
    events = [started(30), *fail(7, gone, refused, moved), *fail(2, ("transient", "HTTP 500"))]
    *lines, head = closing_lines(finish_run(*events).summary)
    assert head.startswith("failed: 0 of 30 files in place")
    assert lines[:8] == [
        "  23 files failed:",
        "    7 files: HTTP 404 (refused)",
        "      such as a/0 from http://h/0",
        "    7 files: states no length; name it with size: 1 (refused)",
        "      such as a/1 from http://h/1, line 1",
        "    7 files: a/2 has 02123456789abcdef, not what the list states (corrupt)",
        "      such as a/2 from http://h/2, line 2",
        "    2 files: HTTP 500 (transient)",
    ]
    assert len(lines) < 23


def test_statuses_are_causes_of_their_own():
    """404 and 410 differ in a number that matters."""
    failed = [
        Summary.Failure(id=n, path="a", kind="refused", message="no", http_status=n) for n in (404, 410)
    ]
    assert [cause.files for cause in group_by_cause(failed)] == [1, 1]


def test_a_short_path_is_no_part_of_a_word():
    """A file named ``k`` fails for the same cause as one that is named otherwise."""
    failed = [
        Summary.Failure(id=n, path=path, kind="batch", message="held back, as it failed")
        for n, path in enumerate(("k", "d/e"))
    ]
    assert [cause.files for cause in group_by_cause(failed)] == [2]


def test_many_causes_fit_a_screen():
    """The rest is counted."""
    errors = [("refused", f"because of {'abcdefghij'[n] * 3}") for n in range(10)]
    lines = closing_lines(finish_run(started(30), *fail(2, *errors)).summary)
    assert f"    and {20 - 2 * SHOWN_CAUSES} more files" in lines
    assert len(lines) < 24


def test_a_single_file_that_is_not_there_takes_two_lines():
    """No metrics, no advice that cannot help; the log has named it, or the first line does."""
    events = [started(1), *fail(1, ("refused", "HTTP 404"))]
    named, head = closing_lines(finish_run(*events).summary)
    assert named == "a/0: HTTP 404 (refused) from http://h/0"
    assert head == "failed: 0 of 1 file in place, nothing received in 5.0s"
    assert closing_lines(finish_run(*events).summary, failures_named=1) == [head]
    login = [
        started(1),
        *finished(record(0, 9, attempt(http_status=403, size=0), status="failed", error_kind="refused")),
    ]
    assert "log in" in closing_lines(finish_run(*login).summary)[1]


def test_closing_words_name_the_list_of_what_failed():
    """Who asked for it need not remember its name; without a failure there is nothing in it."""
    begin = started(2, settings={"failures": "dead.jsonl"})
    for number in (0, 1):
        failed = failures(number)
        lines = write_events(plain_lines, begin, *failed, finish_run(begin, *failed))
        assert lines.count("  failures: dead.jsonl") == number


@pytest.mark.parametrize(
    ("error", "head"),
    [(DeadlinePassed("the deadline of 2s is over"), "out of time"), (LocalFault("full"), "failed")],
    ids=["deadline", "fault"],
)
def test_a_run_whose_time_was_over_is_not_headed_as_failed(error, head):
    """Nothing is in place, and nothing went wrong; a fault of the machine is headed as before."""
    events = [started(1), *finished(record(0, status="cancelled"))]
    lines = closing_lines(finish_run(*events, error=error).summary, str(error))
    assert lines[-1].startswith(f"{head}: 0 of 1 file in place")
    assert lines[-2] == f"  stopped: {error}"


@pytest.mark.parametrize(
    ("projected_s", "wasted_bytes", "words"),
    [
        (742.0, 20, "1 straggler (1 cancelled), 12m 20s shorter by mitigation, 20 B wasted (2.0 %)"),
        (0.5, 0, "1 straggler (1 cancelled), 1.5s longer by mitigation"),
        (2.0, 0, "1 straggler (1 cancelled)"),
    ],
)
def test_closing_words_tell_what_mitigation_was_worth(projected_s, wasted_bytes, words):
    """The run's seconds, and the price in bytes."""
    slow = attempt(1, size=20, outcome="straggler", projected_s=projected_s, wasted_bytes=wasted_bytes)
    entry = record(0, 1000, slow, attempt(2, 1.0, 2.0, from_byte=20 - wasted_bytes, size=980))
    lines = closing_lines(finish_run(started(1), cancelled(), *finished(entry)).summary)
    assert lines[0].startswith(f"  {words}")


@pytest.mark.parametrize(("files", "advice", "number"), [(1, 0, 0), (2, 0, 2), (1, 8, 3)])
def test_closing_words_about_the_only_file_are_in_the_verdict(files, advice, number):
    """Its time and rate were said twice; what would have made it faster is still said."""
    tail = Tail(bound="large file", seconds=2.0, path="a", files=1, size_bytes=20 << 20, rate_bps=1e7)
    tail = replace(tail, idle_places=8.0, segments=8, at_once=advice)
    counted = dict.fromkeys(("skipped", "failed", "cancelled", "wasted_bytes", "retries", "stragglers"), 0)
    end = EndRecord(
        instant="i", t_s=2.0, status="completed", exit_code=0, done=1, bytes=1, saved_s=0.0,
        policy="adaptive", places=16, widths={}, tail=tail, **counted,
    )  # fmt: skip
    summary = finish_run(started(files), *finished(*(record(n, 1000) for n in range(files)))).summary
    lines = [line for line in closing_lines(summary, end=end) if "m.jsonl" not in line]
    assert len(lines) == number + 1


VOLUMES = ("/data1", "/data2", "s3://bucket/x")


def test_closing_words_over_several_volumes():
    """What is in place on each, in columns, and what was out of use."""
    events = [
        started(3, 3072, destinations=VOLUMES),
        *finished(
            record(0, 1024, attempt(size=1024), volume="/data1"),
            record(1, 1024, attempt(size=1024), volume="/data1"),
            record(2, 1024, volume="s3://bucket/x", status="skipped"),
        ),
        *(committed(volume="/data1") for _ in range(2)),
        paused(volume="/data2", reason="first"),
        paused(volume="/data2", reason="disk gone\x1b"),
    ]
    assert closing_lines(finish_run(*events).summary)[:3] == [
        "  /data1         2 files  2.0 KiB  2 new batches",
        "  /data2         0 files  0 B      0 new batches  was out of use: disk gone\\x1b",
        "  s3://bucket/x  1 file   1.0 KiB  0 new batches",
    ]


def test_closing_words_over_many_volumes():
    """Those that were out of use are named whatever their number's place; the rest is counted."""
    names = tuple(f"/data{i}" for i in range(SHOWN_VOLUMES + 4))
    events = [started(1, destinations=names), paused(volume=names[-1])]
    lines = closing_lines(finish_run(*events).summary)
    assert lines[0].endswith("was out of use: disk gone")
    assert lines[SHOWN_VOLUMES] == "  and 4 more volumes"
    assert len([line for line in lines if "/data" in line]) == SHOWN_VOLUMES


@pytest.mark.parametrize(("number", "name"), [(2, "SIGINT"), (15, "SIGTERM")])
def test_closing_words_of_an_interrupted_run(number, name):
    """Which signal stopped it, not what was said meanwhile; and that the same command goes on."""
    summary = finish_run(started(3), error=Interrupted(number), metrics="m m.jsonl").summary
    lines = closing_lines(summary, f"{name}: closing what is under way; once more to leave at once")
    assert lines == [
        "  metrics: m m.jsonl",
        "  next: run the same command again: files in place are skipped",
        f"  stopped by {name}",
        "interrupted: 0 of 3 files in place, nothing received in 5.0s",
    ]


def test_closing_words_after_a_local_fault():
    """The cause, and that it must go before the same command can go on."""
    lines = closing_lines(finish_run(started(3), error=LocalFault("x")).summary, "disk full")
    assert lines[-2] == "  stopped: disk full"
    assert (
        lines[-3] == "  next: once the cause is gone, run the same command again: files in place are skipped"
    )


@pytest.mark.parametrize("stopping", ["disk full", None])
def test_a_fault_after_all_files_are_in_place_is_the_verdict(stopping):
    """It is not "partly done: 1 of 1 files", and the line above names the fault, also if no line had."""
    run = finish_run(started(1), *finished(record(0, 9, attempt(size=9))), error=LocalFault("disk full"))
    lines = closing_lines(run.summary, stopping)
    assert lines[-2] == "  stopped: disk full"
    assert lines[-1].startswith("ended by a fault: 1 of 1 file in place, 9 B in ")


@pytest.mark.parametrize("metrics", ["m.jsonl", None])
@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("transient", ""),
        ("refused", "correct the links of what is not there; then "),  # a 404
        ("blocked", "move away what stands in the way; then "),
    ],
)
def test_the_way_on_names_no_option(metrics, kind, first):
    """After failures the same command is all it takes, once what no repetition mends has been corrected."""
    lines = closing_lines(finish_run(started(2), *failures(1, kind), metrics=metrics).summary)
    assert lines[-2] == f"  next: {first}run the same command again: files in place are skipped"


def test_the_way_on_after_a_run_that_fetched_all_again():
    """The same command would fetch it all once more."""
    summary = finish_run(started(2), *failures(1)).summary
    assert "run the same command without --existing refetch:" in closing_lines(summary, refetches=True)[-2]


def test_closing_words_of_an_empty_plan():
    """Nothing was done, so there is no rate to tell and no report to look at."""
    assert closing_lines(finish_run(started(0, 0)).summary) == ["done: there was nothing to download"]


@pytest.mark.parametrize(
    ("known", "unknown", "words"),
    [
        (2048, 0, "20 files (2.0 KiB)"),
        (2048, 3, "20 files (2.0 KiB and 3 of unknown size)"),
        (0, 20, "20 files (sizes unknown)"),
    ],
)
def test_the_first_line_tells_sizes_as_far_as_they_are_known(known, unknown, words):
    """A sum of nothing is not told as 0 bytes."""
    (line,) = write_events(plain_lines, started(20, known, sizes_unknown=unknown))
    assert f" {words} to /data" in line


def test_verbose_has_a_line_for_each_file_and_each_retry():
    """Without a limit on their number; the usual lines stay."""
    events = [
        started(40),
        retry(path="a/0", error="HTTP 500"),
        *finished(record(0, 2048, attempt(size=2048)), record(1, 9, status="skipped")),
        *finished(*(record(n, 9, attempt(size=9)) for n in range(2, 40))),
    ]

    def plain(stream):
        return plain_lines(stream, verbose=True)

    lines = write_events(plain, *events)
    assert lines[1] == "[   1.0s] try 2 of a/0 in 1.0s: HTTP 500 (transient)"
    assert lines[2] == "[   1.0s] done: a/0: 2.0 KiB in 1.0s (2.0 KiB/s) from h"
    assert lines[3] == "[   0.0s] already there: a/1"
    assert len(lines) == 42
    assert len(write_events(plain_lines, *events)) == 1


def test_each_event_of_the_tables_is_stated():
    """The log asks the tables only for these, as a plain run has none of them."""
    assert {*AT_ONCE, *EXPLAINED, *PACED} | {StragglerCancelled} == set(STATED)
