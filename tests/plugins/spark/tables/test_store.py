"""The directory of tables, on a real disk: whole rows, one writer, nothing half after kill -9."""

import errno
import fcntl
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.base.events import RunExplained, WidthChanged
from cfetch.plugins.spark import session
from cfetch.plugins.spark.tables import writing
from cfetch.plugins.spark.tables.columns import TABLES
from cfetch.plugins.spark.tables.load import find_sources, load_by, write_sources
from cfetch.plugins.spark.tables.writing import SourceWork, write_source
from cfetch.plugins.spark.verb_metrics import load as load_verb
from cfetch.show.metrics import MetricsFile
from cfetch.show.summary import Tally
from tests.plugins.lab.tuning.records import FIRST, MORE, metrics_file
from tests.plugins.spark.without_spark import debris, loaded, rows
from tests.show.records import attempt, finished, record, started

PROJECT = Path(__file__).parents[4]
NO_TIMES = ("", "noon", "2026-03-01T10:00:00", "0001-01-01T00:00:00+23:59")


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
    same += ["queued_s", "start_s", "end_s", "rate_bps", "stragglers", "error_kind", "error"]
    same += ["executor", "task"]
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
    names = ("planned", "done", "complete", "retries", "bytes", "wasted_bytes", "elapsed_s", "rejected")
    assert [run[name] for name in names] == [1, 1, True, 1, 130, 30, 4.0, 0]


def test_events_and_the_end_of_a_run(tmp_path):
    """Events are rows of their own, and the end is in its run's row."""
    to, path = tmp_path / "t", tmp_path / "m.jsonl"
    slow = record(1, 9000, attempt(1, 0.0, 30.0, size=9000))
    tally = Tally()
    events = [started(4, settings={"policy": "adaptive"}), *finished(slow, *sized(9000, files=3))]
    with MetricsFile(path) as metrics:
        events.insert(1, WidthChanged(t_s=3.0, host="h", slots=2, before=4, reason="r"))
        for event in events:
            tally(event)
            metrics(event)
        metrics(RunExplained(t_s=30.0, record=tally.end(30.0)))
    loaded(to, path)
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
    found = loaded(to, path)
    told = [(row["line"], row["instant"], row["reason"]) for row in rows(to, "rejected")]
    assert told == [
        (1, None, "no run header (schema cfetch.run/1) comes before it"),
        (5, "i1", "Object missing required field `schema`"),
        (6, "i1", "Expected `int` <= 9223372036854775807 - at `$.bytes`"),
        (7, "i1", "its instant is not the one of its run's header"),
    ]
    (run,) = found.runs
    assert (found.rejected, found.files, run.rejected, run.complete) == (4, 2, 3, False)
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
        [sys.executable, "-m", "tests.plugins.spark.without_spark", tmp_path, new, old],
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


def test_a_task_of_a_dead_load_that_still_writes(tmp_path):
    """Its folder is gone, so it adds nothing, and says why."""
    path = metrics_file(tmp_path / "m.jsonl")
    report = write_source(SourceWork(str(path), "dead-0", str(tmp_path / "dead"), datetime.now(UTC)))
    assert "No such file or directory" in str(report.fault)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        *(({"wall_start": wall_start}, "wall_start is no time") for wall_start in NO_TIMES),
        ({"planned": 1 << 63}, "`int` <= 9223372036854775807 - at `$.files`"),
    ],
)
def test_a_header_that_no_table_takes_is_none(tmp_path, more, reason):
    """A run whose day is not known, or with numbers that do not fit, has no place in the tables."""
    found = loaded(tmp_path / "t", metrics_file(tmp_path / "m.jsonl", **more))
    assert reason in found.first_rejected[0].reason
    assert (found.runs, found.rejected) == ([], 6)


@pytest.mark.parametrize(
    ("field", "number"), [("n", 1 << 31), ("http_status", -1 << 40), ("stragglers", 1 << 31)]
)
def test_a_number_that_no_column_takes_is_rejected(tmp_path, field, number):
    """The reason names it, and all other lines are loaded."""
    path = metrics_file(tmp_path / "m.jsonl")
    path.write_text(re.sub(rf'"{field}":\w+', f'"{field}":{number}', path.read_text(), count=1))
    found = loaded(tmp_path / "t", path)
    assert (found.files, found.rejected) == (4, 1)
    assert field in found.first_rejected[0].reason


def test_sums_that_no_column_takes_are_the_largest_number(tmp_path):
    """Two attempts of a damaged file may have received more bytes than there are."""
    most = (1 << 63) - 1
    tries = (attempt(1, size=most, outcome="error"), attempt(2, size=most))
    loaded(tmp_path / "t", metrics_file(tmp_path / "m.jsonl", records=[record(0, 1, *tries)]))
    (file,), (run,) = rows(tmp_path / "t", "files"), rows(tmp_path / "t", "runs")
    assert file["received_bytes"] == file["wasted_bytes"] == run["bytes"] == run["wasted_bytes"] == most


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
    with pytest.raises(UsageError, match="of this version"):
        loaded(tmp_path / "t", path)


def test_a_task_that_cannot_write(tmp_path, monkeypatch):
    """The load fails with what and where, and the run stays as it was."""
    to, path = tmp_path / "t", metrics_file(tmp_path / "m.jsonl")
    loaded(to, path)
    before = rows(to, "files")

    def fail(path, **_):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(writing, "open_replacement", fail)
    with pytest.raises(LocalFault, match=r"No space left on device .*; the tables are as they were"):
        loaded(to, path)
    assert (rows(to, "files"), debris(to)) == (before, [])


@pytest.mark.parametrize("table", ["files", "attempts", "events", "runs"])
def test_rows_that_the_driver_does_not_see(tmp_path, table):
    """No run is made current without them, as on a disk that is not the executors' own."""
    to, path = tmp_path / "t", metrics_file(tmp_path / "m.jsonl")
    path.write_bytes(path.read_bytes() + b'{"schema":"cfetch.event/1","kind":"probe","t_s":1.0}\n')
    loaded(to, path)
    before = rows(to, "runs")

    def lose(works):
        reports = write_sources(works)
        next(Path(works[0].folder).glob(f"*.{table}")).unlink()
        return reports

    with pytest.raises(LocalFault, match="No such file"):
        load_by(lose, [path], to)
    assert rows(to, "runs") == before


@pytest.mark.parametrize(
    ("quiet", "settings"), [(False, {"spark.ui.showConsoleProgress": "true"}), (True, {})]
)
def test_a_terminal_shows_the_bar_of_spark(tmp_path, monkeypatch, quiet, settings):
    """Unless it is to be quiet."""
    opened = []

    def open_session(*_, settings):
        opened.append(settings)
        raise LocalFault("enough")

    monkeypatch.setattr(session, "spark_session", open_session)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(LocalFault, match="enough"):
        load_verb(metrics=[str(metrics_file(tmp_path / "m.jsonl"))], to=str(tmp_path / "t"), quiet=quiet)
    assert opened == [settings]


def test_names_stand_for_files(tmp_path):
    """Files, directories, patterns, each file once; what stands for none is an error."""
    for name in (
        "a.jsonl",
        "b.json",
        "c.jsonl.gz",
        "d.txt",
        "x/e.jsonl",
        "x/.f.jsonl",
        "y/.cfetch/metrics/g.jsonl",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()

    def names(*given):
        sources = find_sources([str(tmp_path / name) for name in given])
        return [str(path.relative_to(tmp_path)) for path in sources]

    assert names(".") == ["a.jsonl", "b.json", "c.jsonl.gz"]
    assert names("d.txt", "*.js*", "**/e*") == ["d.txt", "a.jsonl", "b.json", "c.jsonl.gz", "x/e.jsonl"]
    assert names("x", "y") == ["x/.f.jsonl", "x/e.jsonl", "y/.cfetch/metrics/g.jsonl"]
    for missing, reason in (("gone", "No such file"), ("*.csv", "No such file"), ("y/.cfetch", "no metrics")):
        with pytest.raises(UsageError, match=reason):
            names("a.jsonl", missing)
    (tmp_path / "\udcff.jsonl").touch()
    with pytest.raises(UsageError, match="not UTF-8"):
        names(".")
