"""A report on a terminal."""

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from cfetch.show.analysis import analyse
from cfetch.show.format import cells
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MetricsRun
from cfetch.show.tables import ReportTables, show
from tests.show.live.replay import HOSTILE, stream
from tests.show.records import attempt, record

HEADER = RunHeader(
    instant="i1", wall_start="2026-01-01", version="0", host="w", settings={}, files=400, concurrency=16
)


def render_report(width=80, header=HEADER, records=None):
    files = records if records is not None else play_records()
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False)
    console.print(ReportTables(analyse([MetricsRun(Path("m.jsonl"), header, iter(files))])))
    return out.getvalue()


def play_records(**options):
    return [event.record for event in stream(straggling=0.08, **options) if hasattr(event, "record")]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    """Every table fits; long names give way."""
    lines = render_report(width).splitlines()
    assert max(cells(line) for line in lines) <= width
    assert len(lines) > 40


def test_every_part_is_there():
    """Headline, slowest, hosts, throughput, mitigations and failures each have their heading."""
    text = render_report()
    failed = record(1, 9, attempt(), status="failed", error_kind="refused", error="HTTP 404")
    text += render_report(records=[failed])
    for heading in ("run i1", "slowest files", "hosts", "throughput", "mitigations", "failures"):
        assert f"\n{heading}" in f"\n{text}"
    assert "a/1: HTTP 404" in text


def test_a_mitigation_shows_what_it_saved():
    """The row of a cancelled attempt has its projected and its real finish and the difference."""
    slow = attempt(1, 0.0, 10.0, size=100, outcome="straggler", samples=[(5.0, 50), (10.0, 100)])
    text = render_report(records=[record(0, 1000, slow, attempt(2, 10.0, 12.0, from_byte=100, size=900))])
    (row,) = [line for line in text.splitlines() if line.startswith("a/0") and "+" in line]
    assert row.split() == ["a/0", "1", "10s", "10", "B/s", "1m", "40s", "12s", "+1m", "28s", "0", "B"]


def test_parts_without_content_are_left_out():
    """An empty run shows its headline and nothing else."""
    text = render_report(header=msgspec.structs.replace(HEADER, files=0), records=[])
    assert text.startswith("run i1")
    assert len(text.splitlines()) == 2


def test_files_that_were_in_place_count_as_such():
    """A run that found everything in place did not do nothing of it."""
    text = render_report(records=[record(i, status="skipped") for i in range(400)])
    assert "400 of 400 files in place, nothing received in 0.0s, 16 at a time" in text
    assert "400 already there" in text
    assert "incomplete" not in text


def test_a_run_that_was_killed_is_incomplete():
    """Fewer records than planned files: said in the headline."""
    text = render_report(
        records=[record(0, 9, attempt()), record(1, status="failed"), record(2, status="cancelled")]
    )
    assert "  incomplete: 397 files without a record; the run was stopped or still goes on\n" in text


@pytest.mark.parametrize("width", [60, 80])
def test_of_several_runs_the_slowest_files_name_theirs(width):
    """Runs have numbers in the headline, and each slow file has its run's."""
    runs = [
        MetricsRun(
            Path("m"),
            msgspec.structs.replace(HEADER, instant=f"i{i}"),
            iter([record(i, 9, tried, instant=f"i{i}")]),
        )
        for i, tried in ((1, attempt(end_s=2.0)), (2, attempt(end_s=9.0)))
    ]
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(ReportTables(analyse(runs)))
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines if line.startswith("run ")] == ["run 1: i1", "run 2: i2"]
    column = next(i for i, line in enumerate(lines) if line.startswith("slowest"))
    assert lines[column + 1].split()[:2] == ["file", "run"]
    assert [line.split()[:2] for line in lines[column + 2 : column + 4]] == [["a/2", "2"], ["a/1", "1"]]


def test_hostile_names_are_printed_harmless():
    """Escapes, controls and markup in names, hosts and messages do not reach the terminal as such."""
    hostile = play_records(hostile=HOSTILE, files=80)
    failed = record(
        1, 9, attempt(), status="failed", error_kind=HOSTILE, error=HOSTILE, host=HOSTILE, path=HOSTILE
    )
    done = record(2, 9, attempt(), host=HOSTILE)
    header = RunHeader(instant=HOSTILE, wall_start=HOSTILE, version="0", host=HOSTILE, settings={})
    text = render_report(200, header, [*hostile, failed, done])
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert "[bold]x[/bold]:smile:" in text


def test_show_prints_on_stdout(capsys):
    """The tables are the command's result, so they go to stdout; markup in them is text."""
    show("done [bold]x[/bold]")
    assert capsys.readouterr() == ("done [bold]x[/bold]\n", "")
