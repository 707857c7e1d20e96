"""The live view: what frames look like, that they fit, and that no name can drive the terminal."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console, Group

from cfetch.base.events import Progress, RunFinished, RunNoted, RunStopping
from cfetch.show.format import cells
from cfetch.show.live.live import MAX_WAITING, live_view
from cfetch.show.live.paint import frame
from cfetch.show.live.terminal import Terminal
from cfetch.show.live.view import View
from cfetch.show.summary import Tally
from tests.show.live.replay import HOSTILE, stream
from tests.show.records import (
    active,
    attempt,
    finished,
    paused,
    placed,
    progress,
    record,
    retry,
    started,
    volume,
)

FRAMES = Path(__file__).parent / "frames"
SIZES = [(80, 24), (120, 40), (60, 15), (40, 15)]


def view(until_s=float("inf"), **options):
    shown = View()
    for event in stream(**options):
        shown.apply(event)
        if isinstance(event, Progress) and event.t_s >= until_s:
            break
    return shown


def text(shown, width, height):
    """What the terminal shows, cut at its right edge as it does."""
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False)
    console.print(Group(*frame(shown, width, height)))
    return out.getvalue()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(("name", "until_s"), [("warming-up", 3.0), ("midway", 16.0)])
def test_frames_look_as_agreed(name, until_s, width, height):
    """The picture of a known run is the one on file; set CFETCH_WRITE_FRAMES=1 to agree on a new one."""
    shown = text(view(until_s, straggling=0.1), width, height)
    path = FRAMES / f"{name}-{width}x{height}.txt"
    if os.environ.get("CFETCH_WRITE_FRAMES"):
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(("name", "number", "until_s"), [("eight-volumes", 8, 12.0), ("on-trial", 3, 15.0)])
def test_frames_of_several_volumes_look_as_agreed(name, number, until_s, width, height):
    """With one of them out of use, and with one on trial; in a small terminal one line tells it."""
    shown = text(view(until_s, straggling=0.1, volumes=number), width, height)
    path = FRAMES / f"{name}-{width}x{height}.txt"
    if os.environ.get("CFETCH_WRITE_FRAMES"):
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(("name", "number"), [("one-executor", 1), ("ten-executors", 10)])
def test_frames_of_a_cluster_look_as_agreed(name, number, width, height):
    """With slow executors before the others, and stragglers with theirs; one executor is a line."""
    shown = text(view(16.0, straggling=0.1, executors=number), width, height)
    path = FRAMES / f"{name}-{width}x{height}.txt"
    if os.environ.get("CFETCH_WRITE_FRAMES"):
        path.write_text(shown)
    assert shown == path.read_text()


def shown_after(*events):
    shown = View()
    for event in events:
        shown.apply(event)
    return shown


def test_a_narrow_terminal_has_whole_headings_and_the_states_of_attempts():
    """Bars and limits give way: "0 w" and "time/limit" stood above rows whose state was cut off."""
    slow = [active(id_, state="straggler", path=f"long/name-{id_}.bin") for id_ in range(12)]
    look = progress(9.0, active=slow, waiting=7, sequential=True, bytes_wasted=9)
    lines = text(shown_after(started(20, 9000), look), 40, 15).splitlines()
    (place,) = [index for index, line in enumerate(lines) if "12 active" in line]
    assert lines[place].split() == ["12", "active", "rate", "time", "state"]
    assert all(line.endswith("× straggler") for line in lines[place + 1 :])
    assert lines[place - 1].startswith("FALLBACK: one at a time, 0 stragglers, ")


def test_a_narrow_terminal_has_whole_headings_of_hosts_too():
    """The number of those that wait is left out whole, and "older than" is not cut in its middle."""
    done = finished(*(record(id_, 9, attempt(end_s=0.01)) for id_ in range(400)))
    look = progress(3.0, done=400, waiting=7, active=[active(1, elapsed_s=9.0, state="slow"), active(2)])
    lines = text(shown_after(started(500, 9000), *done, look), 40, 15).splitlines()
    heads = [line.split() for line in lines if line.endswith(("active", "state"))]
    assert heads == [["2", "active", "done", "failed", "active"], ["1", "older", "rate", "time", "state"]]
    wide = text(shown_after(started(500, 9000), *done, look), 60, 15)
    assert "2 active, 7 waiting" in wide


@pytest.mark.parametrize("hostile", ["", HOSTILE, "日本語のとても長いファイル名" * 5])
@pytest.mark.parametrize(("width", "height", "unknown"), [(80, 24, False), (40, 8, True)])
def test_every_frame_fits(width, height, unknown, hostile):
    """Never more lines than the terminal has, nor wider; the last line stays free for the cursor."""
    shown = View()
    for event in stream(files=60, straggling=0.1, unknown=unknown, hostile=hostile):
        shown.apply(event)
        if isinstance(event, Progress):
            lines = text(shown, width, height).splitlines()
            assert len(lines) < height
            assert max(cells(line) for line in lines) <= width


@pytest.mark.parametrize("hostile", ["", HOSTILE, "日本語のとても長いファイル名" * 5])
@pytest.mark.parametrize("many", [2, 70])
@pytest.mark.parametrize("what", ["volumes", "executors"])
@pytest.mark.parametrize(("width", "height"), [(80, 18), (40, 8)])
def test_every_frame_with_a_panel_fits(width, height, what, many, hostile):
    """The same with several volumes or executors: all is well, one is out of use or slow, one is on trial."""
    for until_s in (7.0, 12.0, 15.0):
        lines = text(view(until_s, hostile=hostile, **{what: many}), width, height).splitlines()
        assert len(lines) < height
        assert max(cells(line) for line in lines) <= width


def test_all_that_matters_is_in_the_frame():
    """Totals, baseline, mitigation, fallback, stop, states in words, and the last trouble."""
    shown = View()
    states = ["ok", "slow", "straggler", "retrying", "last try", "segment"]
    failed = record(9, 9, attempt(), status="failed", error="HTTP 404")
    attempts = [active(i, state=state) for i, state in enumerate(states)]
    last = progress(
        9.0, failed=1, skipped=1, retries=1, stragglers=4, sequential=True, active=attempts, waiting=7
    )
    for event in (started(20, 9000), *finished(failed), retry(), RunStopping(t_s=8.0, reason="SIGINT"), last):
        shown.apply(event)
    words = text(shown, 120, 40)
    for state in states[:-1]:
        assert f" {state}" in words
    assert " segment" not in words  # a segment is shown as its whole file
    for fact in (
        "stopping",
        "1 of 20 files in place",
        "× 1 failed",
        "1 already there",
        "4 stragglers",
        "1 retry",
    ):
        assert fact in words
    for fact in (
        "FALLBACK: one at a time",
        "warming up: 0 of 6 needed",
        "6 active, 7 waiting",
        "HTTP 404",
        "HTTP 500",
    ):
        assert fact in words


def test_the_only_file_is_in_the_singular():
    """As `cfetch get` has it."""
    shown = View()
    for event in (started(1, 100), progress(1.0)):
        shown.apply(event)
    assert "0 of 1 file in place" in text(shown, 80, 24)


def test_a_narrow_title_keeps_the_elapsed_time():
    """The policy is the least useful word of the title."""
    shown = View()
    for event in (started(settings={"policy": "adaptive"}, concurrency=16), progress(9.0)):
        shown.apply(event)
    assert text(shown, 40, 24).splitlines()[0].endswith(" 9.0s")
    assert "adaptive, 16 at a time" in text(shown, 80, 24).splitlines()[0]


def panel(*volumes, width=80, height=24):
    shown = View()
    for event in (started(), progress(1.0, volumes=[*volumes])):
        shown.apply(event)
    return text(shown, width, height).splitlines()


def test_volumes_that_do_not_fit_are_counted_and_those_in_trouble_come_first():
    """Nothing that is wrong is folded away while there is room for it; what is folded says how it is."""
    well = [volume(f"/data{i}") for i in range(6)]
    out, trial = volume("/out", breaker="open", reason="disk gone"), volume("/trial", breaker="half-open")
    lines = panel(*well, trial, out)
    index = next(i for i, line in enumerate(lines) if line.startswith("volumes, 7 of 8 in use"))
    assert [line.split()[0] for line in lines[index + 1 : index + 5]] == [
        "/out",
        "/trial",
        "/data0",
        "/data1",
    ]
    assert lines[index + 5] == "and 4 more, all well"
    assert any(line.startswith("/data4 ") for line in panel(*well[:5]))
    assert "and 2 more, all well" in panel(*well)
    gone = [volume(f"/out{i}", breaker="open", reason="disk gone") for i in range(6)]
    assert "and 4 more, 2 of them out of use" in panel(*well[:2], *gone)


def test_a_volume_in_one_row():
    """Its bytes that are done, room, speed, batches under way and waiting; out of use, the reason in full."""
    lines = panel(volume("/d", bytes_done=300, load_bytes=100), volume("s3://b/x", free_bytes=None))
    assert "/d                        300 B  1.0 TiB   1000 B/s      1/2 ● in use" in lines
    assert any(line.startswith("s3://b/x ") and line.split()[3] == "-" for line in lines)
    long = "cannot write part-00042: Input/output error"
    assert f"/d                     × out of use: {long}" in panel(
        volume("/d", breaker="open", reason=long), volume()
    )


def test_long_names_of_volumes_are_cut_on_the_left():
    """Disks of one machine differ at the end of their names."""
    names = [f"/a/very/long/way/to/the/mounted/disk{i}" for i in (1, 2)]
    lines = panel(*map(volume, names))
    assert [line.split()[0] for line in lines if "in use" in line][1:] == [
        "…ong/way/to/the/mounted/disk1",
        "…ong/way/to/the/mounted/disk2",
    ]


def test_a_small_terminal_has_one_line_for_all_volumes():
    """How many are in use, and what is wrong with the first that is not."""
    out = volume("/data3", breaker="open", reason="disk gone")
    assert "volumes     2 of 3 in use; /data3: disk gone" in panel(volume(), volume("/b"), out, height=15)
    assert "volumes     2 of 2 in use" in panel(volume(), volume("/b", breaker="half-open"), height=15)


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (("/data1", "/data2"), "cfetch to /data1, /data2"),
        (
            tuple(f"/mnt/a/long/name/of/disk{i}" for i in range(8)),
            "cfetch to /mnt/a/long/name/of/disk0 and 7 more",
        ),
    ],
)
def test_the_title_names_the_first_of_many_destinations(names, title):
    """All of them where they fit, else the first one and a number."""
    shown = View()
    for event in (started(destination=", ".join(names), destinations=names), progress(1.0)):
        shown.apply(event)
    assert text(shown, 80, 24).splitlines()[0].startswith(title + "  ")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_hostile_message_is_printable_in_the_frame(width, height):
    """A server's words beside a failed file are shown with their controls spelled out."""
    shown = View()
    failed = record(9, 9, attempt(), status="failed", error=HOSTILE, path=HOSTILE)
    for event in (started(destination=HOSTILE), *finished(failed), RunStopping(t_s=1.0, reason=HOSTILE)):
        shown.apply(event)
    shown.apply(paused(1.5, volume=HOSTILE, reason=HOSTILE))
    broken = volume(HOSTILE, breaker="open", reason=HOSTILE)
    shown.apply(progress(2.0, active=[active(path=HOSTILE, host=HOSTILE)], volumes=[broken, volume(HOSTILE)]))
    words = "".join(line.plain for line in frame(shown, width, height))
    assert not set(words) & set("\x1b\x07\x9b\u202e\n")
    assert "\\x1b" in words


def test_before_the_first_progress_there_is_a_line():
    """An empty screen would look like a hang."""
    assert text(View(), 80, 24) == "connecting …\n"


def test_while_spark_starts_the_frame_says_so():
    """It takes up to half a minute, in which "? %" says nothing; a task's first sign of life ends it."""
    shown = View()
    shown.apply(RunNoted(t_s=0.0, note="column link is read as url"))
    shown.apply(RunNoted(t_s=0.0, note="starting Spark"))
    shown.apply(started(9, 0, sizes_unknown=9, settings={"engine": "spark"}))
    shown.apply(progress(1.0, waiting=9))
    lines = text(shown, 80, 24).splitlines()
    assert lines[1].endswith(" starting Spark")
    assert "link" in lines[-1]
    shown.apply(progress(9.0, active=[active(0)]))
    assert "starting" not in text(shown, 80, 24)


def test_that_spark_starts_is_said_before_there_is_a_frame(terminal):
    """In a line of its own: Spark's Java writes to the terminal too."""
    master, stream_ = terminal
    with live_view(stream_, no_color=True) as tell:
        tell(RunNoted(t_s=0.0, note="starting Spark"))
        assert "starting Spark …\r\n" in read_until(master, b"\n").decode()


REPLAY = [
    sys.executable,
    "-m",
    "tests.show.live.replay",
    "--files",
    "60",
    "--speed",
    "1000",
    "--straggling",
    "0.3",
]
SEQUENCE = re.compile(
    rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b.|[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]"
)


def on_a_terminal(*arguments, width=80, height=24, **environ):
    """What the replay writes to a terminal of that size."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    env = {
        k: v for k, v in os.environ.items() if k not in {"CI", "NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR"}
    }
    env |= {"TERM": "xterm-256color", "PYTHONUTF8": "1", **environ}
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [*REPLAY, *arguments], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=root
    ) as child:
        os.close(slave)
        written = bytearray()
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # the child has closed its side
                break
            if not data:
                break
            written += data
    os.close(master)
    assert child.returncode == 0
    return bytes(written)


def sequences(written):
    """The kinds of control sequences; colours are one: a busy machine leaves out frames that have some."""
    return {re.sub(rb"^\x1b\[[0-9;]*m$", b"colour", sequence) for sequence in SEQUENCE.findall(written)}


def test_hostile_names_bring_no_escape_sequence_of_their_own():
    """On a real terminal, hostile names cause no control sequence that harmless names do not cause."""
    volumes = ("--volumes", "8", "--explain")
    harmless, hostile = on_a_terminal(*volumes), on_a_terminal("--hostile", *volumes)
    assert b"owned" in hostile or b"smile" in hostile
    assert sequences(hostile) <= sequences(harmless)


def test_the_view_gives_way_to_the_summary():
    """The cursor is hidden meanwhile and back at the end; the last words are the closing lines."""
    written = on_a_terminal()
    assert written.index(b"\x1b[?25l") < written.rindex(b"\x1b[?25h")
    assert b"60 of 60 files in place" in written[written.rindex(b"\x1b[?25h") :]


def test_the_last_lines_break_between_words_and_end_with_the_headline(terminal):
    """A command is not broken; the terminal's own last line is the verdict."""
    master, stream_ = terminal
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    why = "the link was refused, and there is no way to get a fresh one; its host may ask for a login"
    failed = [record(n, 9, status="failed", error_kind="refused", error=why) for n in range(2)]
    tally = Tally()
    with live_view(stream_, no_color=True) as tell:
        for event in (
            started(2, settings={"failures": "dead.jsonl"}),
            *finished(*failed),
            progress(1.0, failed=2),
        ):
            tally(event)
            tell(event)
        tell(RunFinished(t_s=1.0, summary=tally.summary(1.0, metrics="m.jsonl")))
    shown = read_until(master, b"0 of 2 files in place, nothing").decode()
    lines = SEQUENCE.sub(b"", shown[shown.rindex("2 files failed") :].encode()).decode().splitlines()
    assert lines[1:3] == [
        "    2 files: the link was refused, and there is no way to get a fresh one; its",
        "      host may ask for a login (refused)",
    ]
    assert lines[-1].startswith("failed: 0 of 2 files in place")


def test_explanations_stay_above_the_view():
    """A line for each batch is left on the screen when the view has gone; without --explain there is none."""
    written = on_a_terminal("--volumes", "2", "--explain", width=200)
    after = SEQUENCE.sub(b"", written[written.rindex(b"\x1b[?25h") :])
    before = SEQUENCE.sub(b"", written[: written.rindex(b"\x1b[?25h")])
    expected = (
        b"batch b007 (12 files, 180 MiB) to /mnt/nvme/disk2/lake: done in 3.7 s; /mnt/nvme/disk1/lake 5.2 s"
    )
    assert before.count(expected) == 1
    assert expected not in after
    assert b"batch b0" not in on_a_terminal("--volumes", "2", width=200)


def test_without_colours_the_layout_stays():
    """NO_COLOR drops the colours; cursor movement and words stay."""
    written = on_a_terminal(NO_COLOR="1")
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", written)
    assert b"\x1b[2K" in written


@pytest.fixture
def terminal():
    """Both ends of a terminal: the one that shows, and the one that a program writes to."""
    master, slave = pty.openpty()
    with open(slave, "w") as stream_:
        yield master, stream_
    with suppress(OSError):
        os.close(master)


def test_a_terminal_that_goes_away_does_not_end_the_run(terminal):
    """A write error stops the picture, not the download; the end raises nothing either."""
    master, stream_ = terminal
    with live_view(stream_, no_color=False) as tell:
        tell(started())
        tell(progress(0.25))
        os.close(master)
        for event in stream(files=3):
            tell(event)


def test_the_picture_is_taken_away_before_ctrl_z_and_drawn_anew_afterwards(terminal, monkeypatch):
    """What the shell writes meanwhile neither cuts the picture nor is cut by it."""
    master, stream_ = terminal
    suspended = []

    def suspend():
        read_until(master, b"\x1b[?25h")  # the cursor is back, and the picture is erased
        stream_.write("the shell was here")
        stream_.flush()
        suspended.append(read_until(master, b"shell was here"))

    monkeypatch.setattr("cfetch.show.live.live.suspend", suspend)
    with live_view(stream_, no_color=True) as tell:
        tell(started(9000))
        tell(progress(0.25))
        signal.raise_signal(signal.SIGTSTP)
        again = read_until(master, b"of 9,000 files")
        assert len(suspended) == 1
        assert b"\x1b[1A" not in again.partition(b"of 9,000 files")[0]  # nothing above it is touched
    assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL


def test_a_terminal_that_is_gone_at_the_start_is_no_error_either(terminal):
    """The run goes on without a picture."""
    master, stream_ = terminal
    os.close(master)
    with live_view(stream_, no_color=False) as tell:
        tell(started())
        tell(progress(0.25))


def test_a_terminal_that_is_not_read_holds_up_nobody():
    """Far more frames than it has room for: the run ends all the same."""
    master, slave = pty.openpty()
    env = os.environ | {"TERM": "xterm", "CI": "", "PYTHONUTF8": "1"}
    command = [*REPLAY, "--files", "400"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=root) as child:
        try:
            assert child.wait(60) == 0
        finally:
            child.kill()
            os.close(slave)
            os.close(master)


def test_a_terminal_that_was_stopped_goes_on_where_it_was(terminal):
    """After Ctrl-S nothing is lost of what was begun, and no frame is due; after Ctrl-Q it comes out."""
    master, stream_ = terminal
    screen = Terminal(stream_)
    termios.tcflow(stream_.fileno(), termios.TCOOFF)
    screen.write("begun")
    assert not screen.ready()
    termios.tcflow(stream_.fileno(), termios.TCOON)
    assert screen.ready()
    assert os.read(master, 100) == b"begun"
    screen.close()


def read_until(master, needle):
    """A terminal gives what was written in pieces, and when it pleases."""
    shown = b""
    while needle not in shown:
        assert select.select([master], [], [], 60.0)[0], shown
        shown += os.read(master, 65536)
    return shown


def test_a_stopped_terminal_misses_frames_not_the_last_words(terminal):
    """While it is stopped frames are left out, so that what follows is the present, not the past."""
    master, stream_ = terminal
    with live_view(stream_, no_color=False) as tell:
        tell(started(9000))
        termios.tcflow(stream_.fileno(), termios.TCOOFF)
        for done in range(1000, 9000):
            tell(progress(done / 4, done=done))
        termios.tcflow(stream_.fileno(), termios.TCOON)
        tell(progress(9999.0, done=8999))
    shown = read_until(master, b"8,999")
    assert b"5,000" not in shown


def test_the_last_line_has_room_for_an_echo(terminal):
    """The ^C of an interrupt stands behind it; if it wrapped, the view could not be taken away whole."""
    master, stream_ = terminal
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    failed = record(9, 9, attempt(), status="failed", error="x" * 200)
    with live_view(stream_, no_color=False) as tell:
        for event in (started(), *finished(failed), progress(2.0)):
            tell(event)
        shown = read_until(master, b"xxx").decode()
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.splitlines()[-1])
    assert "xxx" in last
    assert cells(last) <= 77


def test_a_stopped_terminal_gets_the_latest_explanations(terminal):
    """What is said meanwhile is kept for it, up to a limit, and is not a picture's affair alone."""
    master, stream_ = terminal
    with live_view(stream_, no_color=False, explain=True) as tell:
        tell(started(9000))
        tell(progress(0.25))
        termios.tcflow(stream_.fileno(), termios.TCOOFF)
        for number in range(MAX_WAITING + 10):
            tell(placed(1.0, batch=f"b{number:05d}"))
            tell(progress(1.0))
        termios.tcflow(stream_.fileno(), termios.TCOON)
        shown = b""
        while f"b{MAX_WAITING + 9:05d}".encode() not in shown:
            tell(progress(2.0))
            shown += os.read(master, 65536) if select.select([master], [], [], 0.0)[0] else b""
        assert b"b00009 " not in shown
        assert b"b00010 " in shown


def test_the_only_volume_is_explained_once(terminal):
    """Above the view as in lines."""
    master, stream_ = terminal
    with live_view(stream_, no_color=False, explain=True) as tell:
        for event in (started(destinations=["/data2"]), placed(1.0), placed(2.0), progress(3.0)):
            tell(event)
    shown = read_until(master, b"\x1b[?25h")
    assert (shown.count(b"the only volume"), shown.count(b"batch shard-7")) == (1, 0)


def test_what_was_explained_last_is_shown_too(terminal):
    """A batch may be placed after the last frame."""
    master, stream_ = terminal
    with live_view(stream_, no_color=False, explain=True) as tell:
        tell(started())
        tell(progress(0.25))
        tell(placed(1.0))
    assert b"batch shard-7" in read_until(master, b"done in 3 s")
