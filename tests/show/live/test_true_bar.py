"""The bar tells the truth: of one file, of a list without sizes, and of how long it still takes."""

from typing import Any

import pytest

from cfetch.show.live.files_under_way import fold_segments
from cfetch.show.live.prediction import expect_bytes, predict
from cfetch.show.live.view import View
from tests.show.live.test_live import text
from tests.show.records import active, finished, progress, record, started

MIB = 1024 * 1024


def view(*events):
    shown = View()
    for event in events:
        shown.apply(event)
    return shown


def segment(n, **more):
    fields = {"n": n, "state": "segment", "size_bytes": MIB, "bytes": MIB // 2, "path": "film.mkv"}
    return active(0, **{**fields, "file_size_bytes": 60 * MIB, "file_bytes": 15 * MIB, **more})


def test_one_file_is_one_bar():
    """Its size counts once a reply has stated it; its segments are a number, unless one is in trouble."""
    segments = [segment(n) for n in range(1, 17)]
    one: dict[str, Any] = {"bytes_active": 15 * MIB, "files": 1, "bytes_known": 60 * MIB}
    shown = view(started(1, 0, sizes_unknown=1), progress(5.0, active=segments, **one))
    assert shown.fraction == 0.25
    words = text(shown, 80, 24)
    assert "film.mkv  15.0 MiB of 60.0 MiB" in words
    assert "16 connections" in words
    assert " 25 %" in words
    assert words.count("film.mkv") == 1
    slow = [*segments, segment(17, state="slow")]
    troubled = text(view(shown.run, progress(5.0, active=slow, **one)), 80, 24)
    assert "▲ slow" in troubled


def test_segments_are_folded_into_the_row_of_their_file():
    """It has the file's size, all its bytes and its whole rate; other files keep their rows."""
    folded = fold_segments([segment(1), segment(2, rate_bps=50.0, elapsed_s=7.0), active(3)])
    assert [(row.id, row.connections) for row in folded] == [(0, 2), (3, 1)]
    assert (folded[0].size_bytes, folded[0].bytes, folded[0].rate_bps) == (60 * MIB, 15 * MIB, 150.0)
    assert (folded[0].elapsed_s, folded[0].state) == (7.0, "ok")
    (last,) = fold_segments([segment(5)])
    assert (last.size_bytes, last.bytes, last.state) == (60 * MIB, 15 * MIB, "ok")
    (late,) = fold_segments([segment(5, state="slow")])
    assert (late.size_bytes, late.state) == (60 * MIB, "slow")
    twice = [segment(1, executor="a"), segment(1, executor="b")]
    assert len(fold_segments(twice)) == 2  # two machines bring it


def test_a_list_without_sizes_has_an_estimate_that_says_so():
    """Known sizes are a lower limit; ten of them make an estimate; in the end there is no doubt."""
    begin = started(20, 0, sizes_unknown=20)

    def frame(known, files=20, done=1):
        look = progress(9.0, done=done, files=20, bytes_known=known * MIB, sizes_unknown=files - known)
        return text(view(begin, look), 80, 24)

    assert " of over 9.0 MiB" in frame(9)
    assert " ? % " in frame(0, done=0).splitlines()[1]
    assert " of ~20.0 MiB" in frame(10)
    assert " of 20.0 MiB" in frame(20)
    assert " ~" in frame(10).splitlines()[1]
    assert "~" not in frame(20).splitlines()[1]


def test_entries_that_never_had_a_size_do_not_make_the_others_smaller():
    """A 404 states no size, so it has no part in the mean."""
    gone = finished(*(record(n, None, status="failed", rate_bps=0.0) for n in range(10)))
    look = progress(9.0, failed=10, files=40, bytes_known=10 * MIB, sizes_unknown=20)
    assert expect_bytes(view(started(40, 0, sizes_unknown=40), *gone, look)) == 30 * MIB


def test_a_file_under_way_counts_for_its_part():
    """With four files of which one has no size the bar moves before the first of them has ended."""
    half = active(1, file_size_bytes=1000, file_bytes=500)
    look = progress(
        5.0, active=[half, active(2, size_bytes=None)], files=4, sizes_unknown=1, bytes_known=3000
    )
    assert view(started(4, 0, sizes_unknown=4), look).fraction == 0.125


@pytest.mark.parametrize(
    ("t_s", "more", "is_predicted"),
    [
        (3.0, {"bytes_active": 400}, False),
        (3.0, {"bytes_active": 500}, True),
        (3.0, {"bytes_active": 450, "done": 10}, False),
        (6.0, {"bytes_active": 450, "done": 10}, True),
    ],
    ids=["4 %", "5 %", "ten at once", "ten files"],
)
def test_nothing_is_predicted_before_enough_has_come(t_s, more, is_predicted):
    """The first numbers of a run were up to twelve times too high."""
    shown = view(started(200, 10_000), progress(t_s, waiting=3, **more))
    assert (predict(shown) is not None) == is_predicted


@pytest.mark.parametrize(
    ("sizes", "under_way", "is_predicted"),
    [
        ([1000] * 20, active(30), True),
        ([1000] * 19 + [50_000], active(30), False),
        ([1000] * 20, active(30, size_bytes=None, bytes=9_000), True),
        ([1000] * 20, active(30, size_bytes=None, bytes=11_000), False),
    ],
    ids=["equal", "one is most of all bytes", "chunked", "chunked and far above the mean"],
)
def test_sizes_that_differ_too_much_allow_no_prediction(sizes, under_way, is_predicted):
    """A mean of twenty sizes foretells eighty others only if they are alike."""
    done = finished(*(record(n, size) for n, size in enumerate(sizes)))
    known: dict[str, Any] = {"bytes_known": sum(sizes), "bytes_done": sum(sizes), "sizes_unknown": 80}
    look = progress(9.0, done=20, waiting=79, active=[under_way], files=100, **known)
    assert (predict(view(started(100, 0, sizes_unknown=100), *done, look)) is not None) == is_predicted


def test_files_that_were_there_are_no_ground_for_a_prediction():
    """A twentieth of what this run has to bring counts."""
    there = finished(*(record(n, 1000, status="skipped") for n in range(9)))
    look = {"skipped": 9, "bytes_done": 9000, "waiting": 3}
    early = view(started(10, 10_000), *there, progress(3.0, **look, bytes_active=40))
    assert predict(early) is None
    assert predict(view(started(10, 10_000), *there, progress(3.0, **look, bytes_active=60))) is not None


def test_failed_files_are_not_in_place():
    """84 of 88 was said of 63 files in place and 21 that had failed."""
    look = progress(9.0, done=60, skipped=3, failed=21)
    words = text(view(started(88, 0, sizes_unknown=88), look), 80, 24)
    assert "63 of 88 files in place" in words
    assert "× 21 failed" in words


@pytest.mark.parametrize("mitigation", [True, False])
def test_nothing_is_said_that_cannot_happen(mitigation):
    """No ``0 of 0 needed``, and without mitigation no word about slow files."""
    run = started(9, 9000, settings={"mitigation": mitigation})
    baseline = progress(0.0).baseline
    words = text(
        view(run, progress(1.0, baseline=type(baseline)(median_bps=None, finished=0, required=0))), 80, 24
    )
    assert "0 needed" not in words
    assert ("called slow yet" in words) == mitigation
    assert ("mitigation  off" in words) != mitigation


def test_more_files_under_way_than_the_title_said():
    """``16 at a time`` stood beside ``41 active``."""
    look = progress(1.0, active=[active(n, host=f"h{n % 2}") for n in range(41)])
    assert "41 at a time" in text(view(started(99, 99, settings={"policy": "adaptive"}), look), 80, 24)


def test_a_limit_of_many_minutes_is_not_cut():
    """``12m 39s/15m 20s`` has its seconds."""
    long = active(1, elapsed_s=759.0, expected_s=920.0)
    assert "12m 39s/15m 20s" in text(view(started(2, 2000), progress(800.0, active=[long])), 80, 24)


@pytest.mark.parametrize("width", [80, 60, 44])
def test_numbers_that_do_not_fit_are_left_out_whole_and_failures_last(width):
    """There are no half words at the right edge, and what has failed is said on any terminal."""
    look = progress(9.0, done=60, skipped=300_000, failed=210_000, bytes_done=99 * MIB)
    line = text(view(started(888_000, 99 * MIB, settings={}), look), width, 24).splitlines()[2]
    assert line.rstrip().endswith("× 210,000 failed")
