"""The document of a page: pure functions of records."""

import io
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

from cfetch.base.records import EventRecord
from cfetch.show.analysis import analyse
from cfetch.show.page.document import Cell
from cfetch.show.page.html import render_html
from cfetch.show.page.runs_page import make_runs_page
from cfetch.show.page.time_bins import BINS, TimeBins
from cfetch.show.page.timeline import MOST_LANES, lay_out, merge_bars
from cfetch.show.tables import ReportTables
from tests.show.page.runs import header, played, recorded
from tests.show.records import attempt, record


def part_of(*records, **more):
    """The part of a single run."""
    return make_runs_page([recorded(records, **more)]).parts[1]


def section_of(part, kind):
    (section,) = [section for section in part.sections if section.__struct_config__.tag == kind]
    return section


def table_of(part, title):
    (table,) = [section for section in part.sections if section.title == title]
    return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows]


def test_a_lane_holds_one_attempt_at_a_time():
    """A span takes the lowest lane that is free; one that begins where another ends may follow it."""
    bars, lanes = lay_out([(0, 2, 0, -1), (1, 3, 0, -1), (2, 4, 0, -1), (2.5, 3, 0, -1)])
    assert [bar[2] for bar in bars] == [0, 1, 0, 2]
    assert lanes == 3


def test_bars_are_merged_only_within_a_lane_an_outcome_and_a_visible_width():
    """Every attempt is in exactly one bar; a bar with a story stays alone; no bar is much too wide."""
    spans = [(step / 64, (step + 1) / 64, step % 50 == 0, 7 if step == 30 else -1) for step in range(640)]
    bars, lanes = lay_out(spans)
    merged = merge_bars(bars, lanes, 10.0, most=50)
    assert len(merged) < 120
    assert sum(bar[4] for bar in merged) == 640
    assert [bar[4] for bar in merged if bar[5] == 7] == [1]
    assert sum(bar[4] for bar in merged if bar[3]) == 13
    assert max(bar[1] - bar[0] for bar in merged) <= 10.0 / 50 + 1e-9


def test_bins_keep_the_sum_and_place_it():
    """However far the time goes, nothing is lost, and an amount is where it was spread."""
    bins = TimeBins()
    bins.spread(0.0, 0.5, 100.0)
    bins.spread(7.0, 9.0, 30.0)
    bins.spread(100.0, 100.0, 5.0)
    assert bins.total == pytest.approx(135.0)
    assert bins.width_s * BINS >= 100
    by_time = bins.sums(bins.width_s, bins.used)
    assert by_time[: round(0.5 / bins.width_s) + 1].sum() == pytest.approx(100.0)
    assert bins.sums(bins.width_s * 8, BINS).sum() == pytest.approx(135.0)


def test_hosts_that_end_at_different_times_have_rates_of_one_length():
    """A host that was done at once is drawn beside one that took minutes, and beside many that are merged."""
    short = [record(n, 1000, attempt(end_s=0.01 * n, size=1000), host=f"h{n}") for n in range(1, 12)]
    slow = record(0, 10**7, attempt(end_s=170.0, size=10**7), host="slow")
    section = section_of(part_of(*short, slow), "throughput")
    assert {len(layer.rates_bps) for layer in section.layers} == {len(section.active)}
    (rates,) = [layer.rates_bps for layer in section.layers if layer.name == "slow"]
    assert sum(rates) * section.width_s == pytest.approx(10**7, rel=0.02)


def test_an_attempt_shorter_than_a_bin_is_one_attempt():
    """The mean of its bin is less than a half, and none is not what was under way."""
    first, last = attempt(end_s=0.001, size=1), attempt(start_s=100.0, end_s=100.001, size=1)
    section = section_of(part_of(record(0, 1, first), record(1, 1, last)), "throughput")
    assert max(section.active) < 0.5
    assert section.summary.endswith("with up to 1 attempt at a time.")


def test_an_attempt_beyond_the_end_of_the_run_needs_no_more_memory():
    """One wrong time, of thirty years, makes the bins of its host wide, and not those of the page many."""
    far = record(1, 100, attempt(end_s=1e9), host="far", end_s=2.0)
    section = section_of(part_of(record(0, 100, attempt()), far), "throughput")
    assert {len(layer.rates_bps) for layer in section.layers} == {len(section.active)} == {1}


def test_thousands_of_slots_share_lanes_and_the_page_stays_small():
    """Every attempt is in a bar, and a file with thousands of attempts does not get thousands of lines."""
    files = [record(id_, 9, attempt(start_s=id_ / 1e6, end_s=9.0)) for id_ in range(20_000)]
    tried = record(1, 9, *(attempt(n, 9.0, 9.5, size=0, outcome="error") for n in range(20_000)))
    page = part_of(*files, tried)
    timeline = section_of(page, "timeline")
    assert max(timeline.lane) < timeline.lanes <= MOST_LANES
    assert sum(timeline.files) == 40_000
    assert "a lane for every" in timeline.note
    assert len(msgspec.json.encode(page)) < 1 << 20


def test_throughput_has_the_bytes_at_the_time_of_their_samples():
    """A stall between two samples is a gap; the bytes of a mirror count for the mirror."""
    stalled = attempt(end_s=10.0, size=1000, samples=[(1.0, 500), (9.0, 500)])
    mirrored = attempt(end_s=10.0, size=100, mirror="m")
    section = section_of(part_of(record(0, 1000, stalled), record(1, 100, mirrored)), "throughput")
    layers = {layer.name: np.array(layer.rates_bps) for layer in section.layers}
    middle = slice(round(2 / section.width_s), round(8 / section.width_s))
    assert layers["h"][middle].max() == 0
    assert layers["h"].sum() * section.width_s == pytest.approx(1000, rel=0.05)
    assert layers["m"][middle].min() == pytest.approx(10)
    assert max(section.active) == pytest.approx(2.0)


def test_events_are_moments_of_the_throughput():
    """Each has its time and its words."""
    event = EventRecord(kind="pause", t_s=3.0, host="h", seconds=2.0, reason="HTTP 503")
    (moment,) = section_of(part_of(record(0, 9, attempt()), event), "throughput").moments
    assert (moment.t_s, moment.text) == (3.0, "pause: h; for 2.0s; HTTP 503")


def draw_lines(report):
    """The report as a terminal of 80 columns shows it."""
    out = io.StringIO()
    Console(file=out, width=80).print(report)
    return out.getvalue().splitlines()


def test_stragglers_that_saved_most_come_first_and_wrong_ones_are_marked():
    """Times count from the run's start, as in the terminal's table and in the charts."""

    def cut(id_, finish_s):
        slow = attempt(1, 5.0, 15.0, size=100, outcome="straggler", samples=[(10.0, 50), (15.0, 100)])
        return record(id_, 1000, slow, attempt(2, 15.0, finish_s, from_byte=100, size=900))

    rows = table_of(part_of(cut(0, 200.0), cut(1, 17.0)), "Stragglers")
    assert [row[0] for row in rows] == ["a/1", "a/0"]
    assert rows[0][2:5] == ["1m 45s", "17s", "+1m 28s"]
    report = ReportTables(analyse([recorded([cut(1, 17.0)])]))
    (row,) = [line for line in draw_lines(report) if line.startswith("a/1") and "+" in line]
    assert " ".join(rows[0][2:5]) in " ".join(row.split())
    assert rows[1][4].startswith("✗ wrong")


def test_failures_are_counted_by_cause_and_host():
    """Two causes of one kind are two rows; a host without a file that is done is among the hosts too."""
    failed = [
        record(id_, 9, attempt(), status="failed", error_kind="refused", error="HTTP 404", host=host)
        for id_, host in enumerate(["x", "y", "x"])
    ]
    other = record(9, 9, attempt(), status="failed", error_kind="refused", error="no length", host="x")
    part = part_of(*failed, other)
    assert table_of(part, "Failures") == [
        ["HTTP 404", "3", "2", "1", "refused", "a/0"],
        ["no length", "1", "1", "0", "refused", "a/9"],
    ]
    assert {row[0]: row[3] for row in table_of(part, "Hosts")} == {"x": "3", "y": "1"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"destination": "/d/my data"}, "--to '/d/my data'"),
        ({"destination": "/a, /b", "settings": {"to": ["/a", "/b"]}}, "--to /a --to /b"),
        ({"destination": "/d\n"}, None),
    ],
)
def test_failures_have_the_command_that_brings_what_is_left(fields, words):
    """For a shell, with the metrics' place; none if a name has control characters."""
    failed = record(0, 9, attempt(), status="failed", error_kind="refused", error="HTTP 404")
    (table,) = [section for section in part_of(failed, **fields).sections if section.title == "Failures"]
    wanted = f"cfetch download MANIFEST {words} --failed-from {Path('m.jsonl').absolute()}" if words else ""
    assert table.command == wanted


def test_left_alone_is_a_curve_of_its_own():
    """A mitigated file counts with its projection there."""
    slow = attempt(1, 0.0, 10.0, size=100, outcome="straggler", samples=[(5.0, 50), (10.0, 100)])
    mitigated = record(0, 1000, slow, attempt(2, 10.0, 12.0, from_byte=100, size=900))
    overview = make_runs_page([recorded([mitigated])]).parts[0]
    curves = {curve.name: curve.times_s for curve in section_of(overview, "file times").curves}
    assert curves == {"this run": [12.0], "without mitigation (estimate)": [100.0]}


def test_two_runs_stand_beside_each_other_with_their_difference():
    """The change is of the second against the first, and good or bad by its meaning."""
    first = recorded(
        [record(0, 100, attempt(end_s=4.0))], files=1, settings={"padding": 5.0, "limit_rate": 12 << 20}
    )
    second = recorded([record(0, 100, attempt(end_s=2.0))], files=1, settings={"padding": 1.0})
    page = make_runs_page([first, second])
    assert (
        section_of(page.parts[0], "verdict").text
        == "m (2) was 2.0 times faster than m (1): 2.0s against 4.0s."
    )
    rows = {row[0]: row[1:] for row in section_of(page.parts[0], "table").rows}
    assert rows["time"] == ["4.0s", "2.0s", Cell(text="−2.0s (-50%)", tone="good")]
    assert rows["files in place"][2] == Cell(text="the same", tone="dim")
    assert "retries" not in rows
    assert ["padding", "5.0", "1.0", "5.0"] in table_of(page.parts[-1], "Settings")
    assert ["limit_rate", "12.0 MiB/s", "–", "–"] in table_of(page.parts[-1], "Settings")


def test_a_run_that_had_nothing_to_do_has_no_charts_and_no_rate():
    """Its rate of 0 B/s is no news that a run was slower."""
    there = record(0, 1000, status="skipped")
    part = part_of(there, files=1)
    assert [section.lines for section in part.sections] == [["Nothing was downloaded: no file was missing."]]
    before = recorded([record(0, 1000, attempt(end_s=1.0, size=1000))], files=1)
    page = make_runs_page([before, recorded([there], files=1)])
    rows = {row[0]: row[2:] for row in table_of(page.parts[0], "At a glance")}
    assert rows["rate"] == ["–"]
    assert "had nothing to download" in section_of(page.parts[0], "verdict").text
    assert section_of(page.parts[1], "throughput")


def test_many_runs_are_a_table_and_only_the_latest_have_charts():
    """Every run has a row."""
    page = make_runs_page([recorded([record(0, 100, attempt())]) for _ in range(5)])
    assert len(table_of(page.parts[0], "Runs")) == 5
    assert [part.title for part in page.parts] == ["Overview", "m (3)", "m (4)", "m (5)", "Settings"]


def test_a_run_without_files_has_a_page():
    """Nothing was planned, or everything was there already."""
    skipped = record(0, 100, status="skipped")
    assert "At a glance" in render_html(make_runs_page([recorded([], files=0), recorded([skipped])]))


def test_the_page_is_small_and_does_not_grow_with_the_run():
    """Under 400 KiB without data; three times the files need the same document."""
    empty = render_html(make_runs_page([recorded([])]))
    assert len(empty.encode()) < 400 * 1024
    sizes = []
    for number in (7_000, 21_000):
        files = (record(id_, 9, attempt(start_s=id_ / 50, end_s=id_ / 50 + 0.3)) for id_ in range(number))
        sizes.append(len(msgspec.json.encode(make_runs_page([recorded(files)]))))
    assert sizes[1] < 1.2 * sizes[0]


def test_a_document_cannot_end_its_element():
    """No character of it is markup for a browser, and it reads back as it was."""
    page = make_runs_page([recorded([record(0, 1, attempt(), path="</script><!--&\u2028")])])
    text = render_html(page).rpartition('id="document">')[2].partition("</script>")[0]
    assert not {"<", ">", "&", "\u2028"} & {*text}
    assert msgspec.json.decode(text) == msgspec.json.decode(msgspec.json.encode(page))


def test_a_made_up_run_is_told_whole():
    """Every file that ended has a row, a bar or a number somewhere."""
    records = played()
    part = part_of(*records)
    timeline = section_of(part, "timeline")
    assert sum(timeline.files) == sum(len(each.attempts) for each in records)
    assert header().instant in part.note
