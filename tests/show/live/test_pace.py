"""Many small files: files per second, hosts and kinds of failures in place of rows that nobody can read."""

import io

from rich.console import Console, Group

from cfetch.show.live.paint import frame
from cfetch.show.live.view import View
from tests.show.records import active, attempt, finished, progress, record, started


def shown(files_each_second, *, attempts=(), failures=()):
    """The view after ten seconds."""
    view = View()
    view.apply(started(100_000, 10**9))
    for second in range(1, 11):
        done = [record(second, 100, attempt(), host=f"h{second % 3}")]
        for event in (*finished(*done), progress(float(second), done=second * files_each_second)):
            view.apply(event)
    broken = [
        record(n, 9, attempt(), status="failed", error_kind=kind, error="?", host="x")
        for n, kind in enumerate(failures)
    ]
    last = progress(10.5, done=int(10.5 * files_each_second), failed=len(failures), active=[*attempts])
    for event in (*finished(*broken), last):
        view.apply(event)
    return view


def text(view, width=80, height=24):
    out = io.StringIO()
    Console(file=out, width=width, height=height).print(Group(*frame(view, width, height)))
    return out.getvalue()


def test_rows_that_last_are_shown():
    """Sixteen downloads that end at ten a second are read in time."""
    words = text(shown(10, attempts=[active(n) for n in range(16)]))
    assert "a/14" in words
    assert "files/s" not in words


def test_rows_that_flicker_give_way_to_hosts_and_failures():
    """No row of a young attempt; files per second, failures by kind, and each host with its files."""
    young = [active(n, host="h1", elapsed_s=0.1, rate_bps=100.0) for n in range(16)]
    words = text(shown(800, attempts=young, failures=["refused", "corrupt", "refused"]))
    assert "800 files/s" in words
    assert "failures    2 refused, 1 corrupt" in words
    assert [line.split() for line in words.splitlines() if line.startswith(("h", "x"))] == [
        ["h1", "4", "0", "16"],
        ["h2", "3", "0", "0"],
        ["h0", "3", "0", "0"],
        ["x", "0", "3", "0"],
    ]
    assert "a/1 " not in words


def test_an_old_attempt_keeps_its_row():
    """It may be the one for which the run waits in the end."""
    attempts = [active(1, elapsed_s=0.1), active(2, elapsed_s=9.0, path="old/file")]
    words = text(shown(800, attempts=attempts))
    assert "1 older than 2.0s" in words
    assert "old/file" in words
    assert "a/1 " not in words


def test_it_fits_a_small_terminal():
    """With many hosts too: the rest is one line."""
    young = [active(n, host=f"host-{n}", elapsed_s=0.1) for n in range(60)]
    for height in (24, 15, 8):
        words = text(shown(800, attempts=young, failures=["refused"]), 60, height)
        assert len(words.splitlines()) < height
        assert "more hosts" in words


def test_headings_are_whole_on_a_narrow_terminal():
    """Columns become narrower before a heading is cut."""
    young = [active(n, host=f"host-{n}", elapsed_s=0.1) for n in range(3)]
    for width in (40, 60, 80):
        lines = text(shown(800, attempts=young), width).splitlines()
        (heading,) = [line for line in lines if line.endswith("active")]
        assert heading.split()[-3:] == ["done", "failed", "active"]
