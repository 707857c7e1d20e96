"""The sentence with which the page of a run begins, and the ideal that it names."""

import random
from typing import Any

import pytest

from cfetch.base.records import EndRecord, Tail
from cfetch.show.page.ideal import IdealBuilder
from cfetch.show.page.run_names import name_runs
from cfetch.show.page.runs_page import make_runs_page
from tests.show.page.runs import header, recorded
from tests.show.records import attempt, record

MIB = 1 << 20


def ideal_of(records, elapsed_s):
    builder = IdealBuilder()
    for each in records:
        builder.add(each)
    return builder.ideal_s(elapsed_s)


def one(id_, start_s, end_s, size=MIB, **more):
    """A file of one attempt, whose first byte came at once."""
    tried = attempt(start_s=start_s, end_s=end_s, size=size, first_byte_s=start_s)
    return record(id_, size, tried, **more)


def first_of(page):
    """The section with which a page begins."""
    return page.parts[0].sections[0]


def verdict_of(records, **more):
    return first_of(make_runs_page([recorded(records, **more)]))


def end_of(tail, **more):
    fields: dict[str, Any] = dict.fromkeys(
        ("skipped", "failed", "cancelled", "wasted_bytes", "retries", "stragglers"), 0
    )
    fields |= {"instant": "i", "t_s": 20.0, "status": "completed", "exit_code": 0, "done": 20, "bytes": 1}
    fields |= {"saved_s": 0.0, "policy": "adaptive", "places": 16, "widths": {}, "tail": tail}
    return EndRecord(**fields | more)


def slow_run():
    """Two places; nineteen files of a second each, the last one crawls until the twentieth second."""
    files = [one(number, number // 2, number // 2 + 1.0) for number in range(19)]
    return [*files, one(19, 9.0, 20.0)]


def test_the_ideal_has_every_file_at_the_usual_rate_and_no_idle_place():
    """Twenty files of a second in two places take ten seconds."""
    assert ideal_of(slow_run(), 20.0) == pytest.approx(10.0, rel=0.02)


def test_a_run_whose_link_was_full_is_its_own_ideal():
    """Its places were half idle at the start, but no more bytes per second have ever come."""
    files = [one(0, 0.0, 5.0, 5 * MIB), one(1, 5.0, 10.0, 5 * MIB // 2), one(2, 5.0, 10.0, 5 * MIB // 2)]
    assert ideal_of(files, 10.0) == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_no_run_is_better_than_its_ideal(seed):
    """Whatever its sizes, hosts, waits, failures and cancelled attempts are."""
    rng = random.Random(seed)
    files, end_s = [], 0.0
    for number in range(40):
        start_s, took_s, size = rng.uniform(0, 20), rng.uniform(0.01, 9), rng.randrange(1, 64 * MIB)
        cut_s, half = start_s + took_s / 2, size // 2
        first = attempt(1, start_s, cut_s, size=half, outcome="straggler", first_byte_s=start_s)
        second = attempt(2, cut_s, start_s + took_s, from_byte=half, size=size - half)
        host, status = f"h{number % 3}", rng.choice(["done", "done", "failed"])
        files.append(record(number, size, first, second, host=host, status=status))
        end_s = max(end_s, start_s + took_s)
    assert 0 < ideal_of(files, end_s) <= end_s


def test_the_verdict_names_time_ideal_cause_and_change_in_one_sentence():
    """The last file was slow, and the policy did nothing about it."""
    tail = Tail(bound="slow file", seconds=11.0, files=1, path="a/19", host="h", rate_bps=1e5, usual_bps=1e6)
    verdict = verdict_of([*slow_run(), end_of(tail, policy="none")], files=20, settings={"policy": "none"})
    assert verdict.text == (
        "All 20 files are in place after 20s, 2.0 times the ideal of 10s, because the last 11s "
        "went to one file at 97.7 KiB/s: a/19 (977 KiB/s is usual there: h); to change that: --mitigation "
        "tries a fresh "
        "connection for such a file."
    )
    assert verdict.tone == ""


@pytest.mark.parametrize(
    ("more", "records", "words", "tone"),
    [
        (
            {"files": 20},
            [one(number, 0.0, 1.0) for number in range(20)],
            "close to the ideal of 1.0s",
            "good",
        ),
        ({"files": 9}, [one(0, 0.0, 1.0)], "The run was stopped or still goes on: 1 of 9 files", "bad"),
        ({"files": 1}, [record(0, 9, status="skipped")], "was in place before: nothing had to be", "good"),
        (
            {"files": 2},
            [one(0, 0.0, 1.0), one(1, 0.0, 1.0, status="failed", error_kind="refused", error="HTTP 404")],
            "1 of 2 files failed; the run took 1.0s",
            "bad",
        ),
    ],
)
def test_the_verdict_says_first_what_is_wrong(more, records, words, tone):
    """And its edge has the colour of that."""
    verdict = verdict_of(records, **more)
    assert words in verdict.text
    assert verdict.tone == tone


def test_runs_of_different_amounts_are_compared_by_their_rates():
    """Four times the bytes in twice the time are twice as fast."""
    runs = [recorded([one(0, 0.0, end_s, size)], files=1) for end_s, size in ((2.0, MIB), (4.0, 4 * MIB))]
    text = first_of(make_runs_page(runs)).text
    assert text == (
        "m (2) was 2.0 times faster than m (1): 1.0 MiB/s against 512 KiB/s, of different amounts."
    )


@pytest.mark.parametrize(
    ("ids", "more", "words"),
    [
        ((0, 1), {}, "The two runs cannot be compared: they had not the same files to download."),
        ((0, 0), {"files": 2}, "cannot be compared: m (2) was stopped before its end, or still goes on."),
        ((0, 0), {"host": "w2"}, "3.0 times faster than m (1): 3.0s against 9.0s, on w2, not on worker."),
        ((0, 0), {"settings": {"engine": "spark"}}, ": 3.0s against 9.0s, by engine spark, not local."),
    ],
)
def test_two_unlike_runs_are_not_compared_as_if_they_were_alike(ids, more, words):
    """Other files were "3.0 times faster"; then there is no column of changes either."""
    first, second = ([one(id_, 0.0, end_s)] for id_, end_s in zip(ids, (9.0, 3.0), strict=True))
    page = make_runs_page([recorded(first, files=1), recorded(second, **{"files": 1, **more})])
    assert words in first_of(page).text
    figures: Any = page.parts[0].sections[1]
    assert ("cannot" in words) == (figures.columns[-1] != ">change")


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ((0, 0, 1), "the latest, m (3), took 6.0s; no other had the same to download, by"),
        ((1, 0, 0), "2 had the same to download, by the same engine, on the same machine; of these the"),
    ],
)
def test_of_many_runs_only_those_like_the_latest_are_compared(ids, words):
    """The fastest of all had other files."""
    runs = [recorded([one(id_, 0.0, s)], files=1) for id_, s in zip(ids, (1.0, 3.0, 6.0), strict=True)]
    text = first_of(make_runs_page(runs)).text
    assert text.startswith(f"Of 3 runs {words}")
    assert ("m (1)" in text, "m (2)" in text) == (False, ids[1] == ids[2])
    idle = recorded([record(0, 9, status="skipped")], files=1)
    again = recorded([one(1, 0.0, 1.0), record(0, 9, status="skipped")], files=2)
    text = first_of(make_runs_page([again, recorded([one(0, 0.0, 6.0), one(1, 0.0, 6.0)], files=2)])).text
    assert "they had not the same files to download" in text
    text = first_of(make_runs_page([*(recorded([one(0, 0.0, 1.0)], files=1) for _ in range(2)), idle])).text
    assert text == "The latest of 3 runs, m (3), had nothing to download."


@pytest.mark.parametrize(
    ("ends_s", "words"),
    [
        ((9.0, 3.0, 6.0), "Of 3 runs the latest, m (3), took 6.0s; the fastest, m (2), took 3.0s."),
        ((9.0, 6.1, 6.0), "Of 3 runs the latest, m (3), took 6.0s, and none was clearly faster."),
    ],
)
def test_of_many_runs_the_latest_is_compared_with_the_fastest(ends_s, words):
    """By their times, as they brought the same bytes."""
    runs = [recorded([one(0, 0.0, end_s)], files=1) for end_s in ends_s]
    assert first_of(make_runs_page(runs)).text == words


def test_runs_have_the_names_of_their_files_or_of_their_times():
    """A file that cfetch has named by itself says nothing; equal names have numbers."""
    headers = [header(instant="i1"), header(instant="i2", wall_start="2026-02-03T04:05:06+00:00"), header()]
    sources = ["/m/before.jsonl", "/m/i2.jsonl.zst", "/x/before.jsonl"]
    assert name_runs(headers, sources) == ["before (1)", "2026-02-03 04:05 UTC", "before (2)"]
    assert name_runs(headers[:1], sources[:1]) == ["this run"]


def test_runs_to_different_places_are_named_by_them_and_others_by_what_differs():
    """A date and a time were the names of runs to two directories, and cut the table on a phone."""
    here, there = header(instant="i1", destination="/d/here"), header(instant="i2", destination="/d/there/")
    assert name_runs([here, there], ["/m/i1.jsonl", "/m/i2.jsonl"]) == ["here", "there"]
    assert name_runs([here, there, here], ["/m/i1.jsonl", "/m/i2.jsonl", "/m/mine.jsonl"])[2] == "mine"
    begun = header().wall_start.replace("T00:", "T07:")
    later = header(instant="i2", wall_start=begun, destination="/d/here")
    assert name_runs([here, later], ["/m/i1.jsonl", "/m/i2.jsonl"]) == ["00:00 UTC", "07:00 UTC"]
