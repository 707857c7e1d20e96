"""Facts as lines: plain, JSON, quiet; and the choice between them and the live view."""

import io
import json

import pytest

from cfetch.dashboard.closing import SHOWN_FAILURES, closing_lines
from cfetch.dashboard.facts import MAX_LINES
from cfetch.dashboard.lines import json_lines, plain_lines, quiet_lines
from cfetch.dashboard.open import choose, open_dashboard
from cfetch.errors import Interrupted
from cfetch.events import FallbackTriggered, RunFinished, RunStopping
from cfetch.report.summary import Tally
from tests.dashboard.replay import HOSTILE, stream
from tests.report.records import attempt, cancelled, finished, progress, record, retry, started


def written(lines, *events):
    stream_ = io.StringIO()
    with lines(stream_) as tell:
        for event in events:
            tell(event)
    return stream_.getvalue().splitlines()


def failures(number):
    return finished(
        *(
            record(i, 9, attempt(), status="failed", error_kind="refused", error="HTTP 404")
            for i in range(number)
        )
    )


def ended(*events, error=None, metrics="m.jsonl"):
    tally = Tally()
    for event in events:
        tally(event)
    return RunFinished(t_s=5.0, summary=tally.summary(5.0, error=error, metrics=metrics))


def test_progress_comes_first_after_two_seconds_then_every_ten():
    """Four events a second become a line now and then."""
    lines = written(plain_lines, *(progress(t / 4) for t in range(1, 100)))
    assert [line.split("]")[0] for line in lines] == ["[   2.0s", "[  12.0s", "[  22.0s"]


def test_a_plain_progress_line():
    """It has share, files, bytes, rate, active attempts, time left, and trouble only where there is some."""
    events = [
        started(10, 10_240),
        *(progress(float(t), done=t, bytes_done=1024 * t, waiting=9) for t in (1, 2)),
    ]
    assert (
        written(plain_lines, *events)[1]
        == "[   2.0s] 20 %, 2 of 10 files, 2.0 KiB, 1.0 KiB/s, 0 active, about 8.0s left"
    )
    trouble = progress(2.0, failed=1, retries=2, sequential=True)
    assert written(plain_lines, started(10, 10), cancelled(), trouble)[-1].endswith(
        ", 1 failed, 2 retries, 1 straggler, one at a time"
    )


@pytest.mark.parametrize("lines", [plain_lines, quiet_lines])
def test_failures_are_told_at_once_but_never_as_a_flood(lines):
    """After so many of one kind they are counted only, and a line says so."""
    told = written(lines, *failures(1000))
    assert len(told) == MAX_LINES + 1
    assert told[0] == "[   1.0s] failed: a/0: HTTP 404 (refused)"
    assert "counted only" in told[-1]


def test_stragglers_have_a_limit_of_their_own():
    """A flood of stragglers does not silence failures."""
    told = written(plain_lines, *(cancelled(float(i)) for i in range(100)), *failures(1))
    assert len(told) == MAX_LINES + 2
    assert told[-1].endswith("failed: a/0: HTTP 404 (refused)")


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
    assert written(quiet_lines, *events, ended(started(), *done)) == []


def test_quiet_names_failures_and_the_way_on():
    """Each failure, then the closing words with the command that tries again."""
    events = [started(), *failures(1)]
    told = written(quiet_lines, *events, ended(*events))
    assert told[0].endswith("failed: a/0: HTTP 404 (refused)")
    assert told[-1] == "  next: the same command with --failed-from m.jsonl tries only what failed"


def test_json_lines_are_one_object_each():
    """Every line is an object with time, event and level; the same facts as plain lines, pace included."""
    events = [*stream(files=60, straggling=0.2)]
    told = [json.loads(line) for line in written(json_lines, *events)]
    assert [one["event"] for one in told][:2] == ["started", "progress"]
    assert told[-1]["event"] == "finished"
    assert all({"t_s", "event", "level"} <= set(one) for one in told)
    assert told[-1]["files"]["done"] == 60
    assert len(told) == sum("[" in line for line in written(plain_lines, *events)) + 1


@pytest.mark.parametrize("lines", [plain_lines, json_lines, quiet_lines])
def test_hostile_names_come_out_printable(lines):
    """No control, escape or bidi character of a name or a message reaches the log."""
    failed = record(1, 9, attempt(), status="failed", error_kind="refused", error=HOSTILE, path=HOSTILE)
    events = [
        *stream(files=60, straggling=0.2, hostile=HOSTILE),
        *finished(failed),
        RunStopping(t_s=1.0, reason=HOSTILE),
    ]
    text = "\n".join(written(lines, *events, ended(started(), *finished(failed), metrics=HOSTILE)))
    assert not set(text) & set("\x1b\x07\x9b\u202e\r")
    assert "owned" in text


def test_plain_lines_are_ascii():
    """A log in any encoding can take them."""
    assert "\n".join(written(plain_lines, *stream(files=60, straggling=0.2))).isascii()


def test_a_closed_pipe_does_not_end_the_run():
    """When nobody reads the log any more, the listener goes silent."""

    class Closed(io.StringIO):
        writes = 0

        def write(self, text):
            self.writes += 1
            raise BrokenPipeError

    stream_ = Closed()
    with plain_lines(stream_) as tell:
        tell(started())
        tell(RunStopping(t_s=1.0, reason="x"))
    assert stream_.writes == 1


TTY = {"terminal": True, "environ": {"TERM": "xterm"}, "quiet": False, "log_format": "text"}


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
        ({"log_format": "json"}, "json"),
        ({"log_format": "json", "quiet": True}, "quiet"),
        ({"quiet": True}, "quiet"),
    ],
)
def test_the_choice(change, mode):
    """A live view only on a terminal that a person watches; what was asked for comes first."""
    assert choose(**{**TTY, **change}) == mode


def test_a_stream_that_is_no_terminal_gets_plain_lines():
    """Opening on a file writes lines to it and nothing else."""
    stream_ = io.StringIO()
    with open_dashboard(stream=stream_, environ={"TERM": "xterm"}) as tell:
        tell(started())
    assert stream_.getvalue() == "[   0.0s] 1 file (100 B) to /data, 4 at a time\n"


def test_closing_words_of_a_good_run():
    """Verdict, what happened on the way, metrics, next command."""
    events = [
        started(2),
        retry(),
        cancelled(),
        *finished(record(0, 2048, attempt(size=2148)), record(1, status="skipped")),
    ]
    assert closing_lines(ended(*events).summary) == [
        "done: 2 of 2 files in place, 2.1 KiB in 5.0s (430 B/s)",
        "  1 already there, 1 retry, 100 B received in vain",
        "  metrics: m.jsonl",
        "  next: cfetch report m.jsonl",
    ]


def test_closing_words_of_a_bad_run():
    """Failures are named with their reasons, up to a limit; the rest is counted."""
    events = [started(30), *failures(30)]
    lines = closing_lines(ended(*events).summary)
    assert lines[0].startswith("failed: 0 of 30 files in place")
    assert lines[2:4] == ["  30 files failed:", "    a/0: HTTP 404 (refused)"]
    assert f"    and {30 - SHOWN_FAILURES} more" in lines


def test_closing_words_of_an_interrupted_run():
    """Why it stopped and that the same command goes on."""
    lines = closing_lines(ended(started(3), error=Interrupted(2), metrics="m m.jsonl").summary, "SIGINT")
    assert lines[0].startswith("interrupted: 0 of 3 files")
    assert lines[1:] == [
        "  stopped: SIGINT",
        "  metrics: m m.jsonl",
        "  next: the same command goes on where this run stopped",
    ]
