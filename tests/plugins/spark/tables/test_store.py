"""The directory of tables, on a real disk: whole rows, one writer, nothing half after kill -9."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.base.events import RunExplained, WidthChanged
from cfetch.plugins.spark.tables.columns import TABLES
from cfetch.plugins.spark.tables.load import find_sources
from cfetch.show.metrics import MetricsFile
from cfetch.show.summary import Tally
from tests.plugins.lab.tuning.records import FIRST, MORE, metrics_file
from tests.plugins.spark.without_spark import current, debris, loaded, rows
from tests.show.records import attempt, finished, record, started

PROJECT = Path(__file__).parents[4]


def sized(size, instant="i1", files=8):
    """Records of files that all have one size."""
    return [record(n, size, attempt(size=size), instant=instant) for n in range(files)]


def test_every_column_has_its_value(tmp_path):
    """Each field of the records stands in the column of its name."""
    judged = {"median_bps": 7.5, "expected_s": 9.0, "mirror": "m", "samples": [(3.0, 5)]}
    tries = (
        attempt(1, 0.5, 2.0, size=40, outcome="error", http_status=503, error="HTTP 503", peer="h:1"),
        attempt(2, 2.5, 4.0, from_byte=10, size=90, **judged),
    )
    more = {"batch": "b", "volume": "/v2", "verified": "sha256", "queued_s": 0.25, "executor": "x", "task": 7}
    told = record(3, 100, *tries, offset=77, error_kind="k", error="e", **more)
    to = tmp_path / "t"
    loaded(to, metrics_file(tmp_path / "m.jsonl", records=[told]))
    (file,), first, (run,) = rows(to, "files"), rows(to, "attempts"), rows(to, "runs")
    for row, table in ((file, "files"), (first[0], "attempts"), (run, "runs")):
        assert list(row) == [column.name for column in TABLES[table]]
    same = ["id", "path", "host", "size_bytes", "offset", "batch", "volume", "status", "verified", "bytes"]
    same += [
        "queued_s",
        "start_s",
        "end_s",
        "rate_bps",
        "stragglers",
        "error_kind",
        "error",
        "executor",
        "task",
    ]
    assert {name: file[name] for name in same} == {name: getattr(told, name) for name in same}
    assert (file["attempts"], file["retries"]) == (2, 1)
    assert (file["received_bytes"], file["wasted_bytes"]) == (130, 30)
    for row, one in zip(first, tries, strict=True):
        same = [name for name in one.__struct_fields__ if name not in {"samples", "wasted_bytes"}]
        assert {name: row[name] for name in same} == {name: getattr(one, name) for name in same}
        assert [(at["at_s"], at["bytes"]) for at in row["samples"]] == one.samples
        assert (row["id"], row["path"], row["size_bytes"], row["instant"]) == (3, "a/3", 100, "i1")
    assert [row["wasted_bytes"] for row in first] == [30, 0]
    assert file["wall_start"].isoformat() == FIRST
    assert json.loads(run["settings"]) == {"multiplier": 1.5}
    assert (run["planned"], run["done"], run["complete"], run["retries"], run["bytes"]) == (
        1,
        1,
        True,
        1,
        130,
    )
    assert (run["wasted_bytes"], run["elapsed_s"], run["rejected"]) == (30, 4.0, 0)


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 200])
def test_events_and_the_end_of_a_run(tmp_path, chunk_bytes):
    """Events are rows of their own, and the end is in its run's row, wherever the file was cut."""
    to, path = tmp_path / "t", tmp_path / "m.jsonl"
    slow = record(1, 9000, attempt(1, 0.0, 30.0, size=9000))
    tally = Tally()
    events = [started(4, settings={"policy": "adaptive"}), *finished(slow, *sized(9000, files=3))]
    with MetricsFile(path) as metrics:
        for event in [
            events[0],
            WidthChanged(t_s=3.0, host="h", slots=2, before=4, reason="r"),
            *events[1:],
        ]:
            tally(event)
            metrics(event)
        metrics(RunExplained(t_s=30.0, record=tally.end(30.0)))
    loaded(to, path, chunk_bytes=chunk_bytes)
    (event,), (run,) = rows(to, "events"), rows(to, "runs")
    names = ("instant", "t_s", "kind", "host", "places", "before", "reason", "volume")
    assert [event[name] for name in names] == ["i1", 3.0, "width", "h", 2, 4, "r", None]
    names = ("policy", "exit_code", "saved_s", "set_by", "set_s", "set_path", "set_host", "rejected")
    assert [run[name] for name in names] == ["adaptive", 0, 0.0, "slow file", 29.0, "a/1", "h", 0]


def test_a_run_of_an_older_version_has_no_end(tmp_path):
    """Its columns are null, and it is loaded all the same."""
    loaded(tmp_path / "t", metrics_file(tmp_path / "m.jsonl"))
    (run,) = rows(tmp_path / "t", "runs")
    assert (run["policy"], run["exit_code"], run["saved_s"], run["set_by"]) == (None, None, None, None)
    assert rows(tmp_path / "t", "events") == []


def test_a_run_is_replaced_and_no_other(tmp_path):
    """Another run of that day, and another of the same plan, stay as they are."""
    to = tmp_path / "t"
    first = loaded(
        to,
        metrics_file(tmp_path / "1.jsonl", "i1", FIRST, sized(1)),
        metrics_file(tmp_path / "2.jsonl", "i1", MORE, sized(2)),
        metrics_file(tmp_path / "3.jsonl", "i2", MORE, sized(3, "i2")),
    )
    assert [run.replaced for run in first.runs] == [False] * 3
    before = {row["load"]: row for row in rows(to, "runs") if row["wall_start"].isoformat() != FIRST}
    again = loaded(to, metrics_file(tmp_path / "1.jsonl", "i1", FIRST, sized(4, files=5)))
    assert [(run.instant, run.files, run.replaced) for run in again.runs] == [("i1", 5, True)]
    assert before.items() <= {row["load"]: row for row in rows(to, "runs")}.items()
    for table in ("files", "attempts"):
        assert sorted(row["size_bytes"] for row in rows(to, table)) == [2] * 8 + [3] * 8 + [4] * 5
    assert {path.name for path in to.glob("*/day=*")} == {"day=2026-03-01"}
    assert debris(to) == []


def test_of_copies_of_a_run_the_fullest_is_taken(tmp_path):
    """A part of a run, given before and after the whole, adds no row."""
    to = tmp_path / "t"
    whole = metrics_file(tmp_path / "m.jsonl")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:3]))
    found = loaded(to, cut, whole, metrics_file(tmp_path / "m.json"))
    assert ([run.source for run in found.runs], found.doubles, found.files) == ([str(whole)], 2, 5)
    assert [row["id"] for row in rows(to, "files")] == [0, 1, 2, 3, 4]
    assert debris(to) == []


def test_bad_lines_are_told_with_their_reasons(tmp_path):
    """Each with source, line and run; the rest is loaded; they go when the source has been mended."""
    to = tmp_path / "t"
    lines = metrics_file(tmp_path / "good.jsonl").read_bytes().splitlines(keepends=True)
    huge = lines[3].replace(b'"bytes":100', b'"bytes":9223372036854775808', 1)
    other = lines[4].replace(b'"instant":"i1"', b'"instant":"i9"')
    early, torn = b'{"schema":"cfetch.file/1"', lines[5][:50]
    path = tmp_path / "m.jsonl"
    path.write_bytes(lines[1] + b"".join(lines[:3]) + b"{}\n" + huge + other + torn)
    assert huge != lines[3]
    assert early in torn
    for chunk_bytes in (100, 1 << 20):
        found = loaded(to, path, chunk_bytes=chunk_bytes)
        told = [(row["line"], row["instant"], row["reason"]) for row in rows(to, "rejected")]
        assert told == [
            (1, None, "no run header (schema cfetch.run/1) comes before it"),
            (5, "i1", "Object missing required field `schema`"),
            (6, "i1", "Expected `int` <= 9223372036854775807 - at `$.bytes`"),
            (7, "i1", "its instant is not the one of its run's header"),
        ]
        assert (found.rejected, found.files, found.runs[0].rejected, found.runs[0].complete) == (
            4,
            2,
            3,
            False,
        )
        assert [(line.line, line.source) for line in found.first_rejected] == [
            (n, str(path)) for n in (1, 5, 6, 7)
        ]
        assert [row["id"] for row in rows(to, "files")] == [0, 1]
    path.write_bytes(b"".join(lines))
    assert loaded(to, path).rejected == 0
    assert rows(to, "rejected") == []


def test_a_load_that_is_killed_at_any_moment(tmp_path):
    """The tables hold each run as it was or as it is now; the next load leaves nothing of the dead one.

    One of the runs has an old load, and one has none.
    """
    old = metrics_file(tmp_path / "old.jsonl", "i1", FIRST, sized(1, files=6))
    new = metrics_file(tmp_path / "new.jsonl", "i1", FIRST, sized(2))
    more = metrics_file(tmp_path / "more.jsonl", "i2", MORE, sized(3, "i2")).read_bytes()
    new.write_bytes(new.read_bytes() + more + b"no metrics\n")
    told = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.plugins.spark.without_spark",
            tmp_path,
            new,
            old,
        ],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    before = {"i1": {"files": [1] * 6, "attempts": [1] * 6, "planned": 6}}
    middle = before | {"i2": {"files": [3] * 8, "attempts": [3] * 8, "planned": 8}}  # it began earlier
    after = middle | {"i1": {"files": [2] * 8, "attempts": [2] * 8, "planned": 8}}
    seen = json.loads(told.stdout)
    crashed = [found for found, _, _ in seen]
    assert len(seen) > 20
    assert crashed == sorted(crashed, key=[before, middle, after].index)
    assert [one for one in (before, middle, after) if one not in crashed] == []
    assert [rest for _, *rest in seen] == [[after, []]] * len(seen)


def test_rows_of_an_unfinished_load_are_there_and_do_not_count(tmp_path):
    """A task that still writes when its load has failed adds nothing; the next load removes it."""
    to, path = tmp_path / "t", metrics_file(tmp_path / "m.jsonl")
    loaded(to, path)
    (file,) = to.glob("files/day=*/*-0.parquet")
    zombie = file.with_name(file.name.replace(file.name.split("-")[1], "dead00000000"))
    zombie.write_bytes(file.read_bytes())
    (to / "_loading/dead00000000").mkdir(parents=True)
    loaded(to, path)
    assert not zombie.exists()
    assert len(current(to, "files")) == 5


def test_two_loads_at_a_time(tmp_path):
    """The second is refused with the exit code of a plan that is held, and changes nothing."""
    to, path = tmp_path / "t", metrics_file(tmp_path / "m.jsonl")
    loaded(to, path)
    with (to / "_lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Held, match="another load") as refusal:
            loaded(to, path)
    assert refusal.value.exit_code == 4
    assert loaded(to, path).files == 5


def test_a_directory_that_is_none_of_ours(tmp_path):
    """Neither somebody's files nor tables of a later version are written to."""
    path = metrics_file(tmp_path / "m.jsonl")
    with pytest.raises(UsageError, match="something else"):
        loaded(tmp_path, path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m.jsonl"]
    loaded(tmp_path / "t", path)
    (tmp_path / "t/_tables.json").write_text('{"schema":"cfetch.tables/2"}')
    with pytest.raises(UsageError, match="another format"):
        loaded(tmp_path / "t", path)


def test_a_task_that_cannot_write(tmp_path):
    """The load fails with what and where, and the run stays as it was."""
    to, path = tmp_path / "t", metrics_file(tmp_path / "m.jsonl")
    loaded(to, path)
    before = rows(to, "files")
    elsewhere = metrics_file(tmp_path / "2.jsonl", wall_start="2026-04-01T00:00:00Z")
    (to / "attempts/day=2026-04-01").write_text("in the way")
    with pytest.raises(LocalFault, match=r"File exists .*day=2026-04-01"):
        loaded(to, path, elsewhere)
    assert rows(to, "files") == before
    assert not list(to.glob("files/day=*/.*"))


def test_names_stand_for_files(tmp_path):
    """Files, directories, patterns, each file once; what stands for none is an error."""
    for name in ("a.jsonl", "b.json", "c.jsonl.gz", "d.txt", "x/e.jsonl", "x/.f.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def names(*given):
        return [
            str(path.relative_to(tmp_path)) for path in find_sources([str(tmp_path / one) for one in given])
        ]

    assert names(".") == ["a.jsonl", "b.json", "c.jsonl.gz"]
    assert names("d.txt", "*.js*", "**/e*") == ["d.txt", "a.jsonl", "b.json", "c.jsonl.gz", "x/e.jsonl"]
    assert names("*") == ["a.jsonl", "b.json", "c.jsonl.gz", "d.txt", "x/.f.jsonl", "x/e.jsonl"]
    for none in ("gone", "*.csv"):
        with pytest.raises(UsageError, match="there are no metrics"):
            names("a.jsonl", none)
