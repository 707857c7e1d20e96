"""Where a run's metrics go, and how many of them stay."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

import cfetch
from cfetch.base.config.settings import Settings
from cfetch.base.events import RunNoted
from cfetch.manifest.decompression import import_zstd
from cfetch.plugins.spark.tables.store import open_tables
from cfetch.run import result_files
from cfetch.run.metrics_rotation import rotate_metrics
from tests.conditions.runner import call
from tests.tasks.scene import files_of, served


def test_only_the_latest_metrics_stay(tmp_path):
    """A plan's later runs come after its first one; files of other names stay."""
    (tmp_path / "metrics").mkdir()
    instants = [f"2026010{day}T000000000Z-abcd" for day in range(1, 5)]
    names = [
        f"{instants[0]}.jsonl",
        *(f"{instants[1]}{run}.jsonl" for run in ("", ".2", ".10")),
        "mine.jsonl",
    ]
    for name in names:
        (tmp_path / "metrics" / name).touch()
    rotate_metrics(tmp_path, 2)
    left = {path.name for path in (tmp_path / "metrics").iterdir()}
    assert left == {f"{instants[1]}.2.jsonl", f"{instants[1]}.10.jsonl", "mine.jsonl"}
    rotate_metrics(tmp_path / "nowhere", 2)


def test_metrics_of_earlier_runs_are_compressed(tmp_path, monkeypatch):
    """If they have their end, if zstd is there, and never the latest; they count among those that stay."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    instants = [f"2026010{day}T000000000Z-abcd" for day in range(1, 5)]
    end = b'{"schema":"cfetch.run/1"}\n{"schema":"cfetch.end/1"}\n'
    for instant, text in zip(instants, (end, end, end[:-26], end), strict=True):
        (folder / f"{instant}.jsonl").write_bytes(text)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "compression", None)
        patch.setitem(sys.modules, "backports", None)
        rotate_metrics(tmp_path, 4)
    assert {path.suffix for path in folder.iterdir()} == {".jsonl"}
    for keep, left in ((4, [0, 1]), (3, [1])):
        rotate_metrics(tmp_path, keep)
        packed = sorted(folder.glob("*.zst"))
        assert packed == [folder / f"{instants[index]}.jsonl.zst" for index in left]
        assert len(list(folder.iterdir())) == keep
    assert import_zstd().decompress(packed[0].read_bytes()) == end


def test_a_run_keeps_as_many_as_it_is_told(tmp_path):
    """Its own metrics are one of them; without the option all stay."""
    with served(files_of(4)) as origin:
        urls = [f"{origin.url}d/{number:04}.bin" for number in range(4)]
        for url, keep in zip(urls, (None, None, None, 2), strict=True):
            summary = cfetch.download([url], to=tmp_path, settings=cfetch.Settings(keep_metrics=keep))
            metrics = sorted(map(str, (tmp_path / ".cfetch/metrics").iterdir()))
            assert (len(metrics), metrics[-1]) == (keep or 1 + urls.index(url), summary.metrics)


def test_compressed_metrics_without_the_library_are_refused_before_there_is_a_plan(tmp_path, monkeypatch):
    """What is refused later leaves a pending plan behind."""
    monkeypatch.setitem(sys.modules, "backports", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    (tmp_path / "list").write_text("http://127.0.0.1:9/a\n")
    found = call("download", tmp_path / "list", "--to", tmp_path, "--metrics", tmp_path / "m.jsonl.zst")
    assert (found.code, "cfetch[zstd]" in found.err) == (2, True), found.err
    assert not (tmp_path / ".cfetch/timeline").exists()


@pytest.mark.parametrize("processes", [None, 2])
def test_the_tables_have_a_run_when_it_ends(tmp_path, processes):
    """Whatever engine it has; failed files too. A second run of the plan is a run of its own."""
    tables = tmp_path / "tables"
    settings = Settings(metrics_tables=str(tables), processes=processes, max_failures=1)
    with served(files_of(4)) as origin:
        urls = [f"{origin.url}d/{number:04}.bin" for number in range(5)]
        cfetch.download(urls, to=tmp_path / "to", settings=settings)
        files = pq.read_table(tables / "files").to_pylist()
        assert sorted(row["status"] for row in files) == ["done"] * 4 + ["failed"]
        assert {row["task"] is None for row in files} == {processes is None}
        cfetch.download(urls, to=tmp_path / "to", settings=settings)
    assert sorted(pq.read_table(tables / "runs")["skipped"].to_pylist()) == [0, 4]


def test_runs_that_end_at_once_are_all_in_the_tables(tmp_path):
    """The second waits for the first."""
    tables = tmp_path / "tables"
    settings = Settings(metrics_tables=str(tables))
    with served(files_of(1)) as origin, ThreadPoolExecutor() as pool:
        with open_tables(tables):
            run = pool.submit(
                cfetch.download, [f"{origin.url}d/0000.bin"], to=tmp_path / "to", settings=settings
            )
            while not list(tmp_path.glob("to/.cfetch/timeline/*completed")):
                time.sleep(0.02)
            time.sleep(0.3)
        run.result()
    assert pq.read_table(tables / "runs").num_rows == 1


@pytest.mark.parametrize("option", ["to", "state", "metrics", "metrics_tables", "failures"])
def test_a_name_that_is_not_utf8_is_refused_at_the_start(tmp_path, option):
    """No record and no line of the metrics could hold it: the run would fail at its end."""
    name = str(tmp_path / "\udcff")
    with pytest.raises(cfetch.ConfigError, match="must be UTF-8"):
        Settings(**cast("Any", {option: (name,) if option == "to" else name}))


def test_a_run_counts_though_its_tables_cannot_be_written(tmp_path):
    """A line names the command that puts it there later."""
    tables = tmp_path / "my tables"
    tables.touch()
    notes = []
    with served(files_of(1)) as origin:
        cfetch.download(
            [f"{origin.url}d/0000.bin"],
            to=tmp_path / "to",
            settings=Settings(metrics_tables=str(tables)),
            on_event=lambda event: notes.append(event) if isinstance(event, RunNoted) else None,
        )
    (note,) = notes
    assert note.t_s > 0  # of the end
    assert "File exists" in note.note
    assert f"cfetch metrics load {tmp_path}/to/.cfetch/metrics/" in note.note
    assert f"--to '{tables}'" in note.note


@pytest.mark.parametrize(
    ("where", "reason"),
    [("mine", "holds something else"), ("to", "where the files go"), (".", "where the files go")],
)
def test_tables_where_something_else_is_are_refused_before_there_is_a_plan(tmp_path, where, reason):
    """At the end of a long run it is too late; the destination is empty at first."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").touch()
    settings = Settings(metrics_tables=str(tmp_path / where))
    with pytest.raises(cfetch.UsageError, match=reason):
        cfetch.download(["http://127.0.0.1:9/a"], to=tmp_path / "to", settings=settings)
    assert not (tmp_path / "to/.cfetch/timeline").exists()


def test_tables_without_the_library_are_refused_before_there_is_a_plan(tmp_path, monkeypatch):
    """The run is over when the tables are written."""
    monkeypatch.setattr(result_files, "find_spec", lambda _: None)
    settings = Settings(metrics_tables=str(tmp_path / "t"))
    with pytest.raises(cfetch.UsageError, match=r"cfetch\[parquet\]"):
        cfetch.download(["http://127.0.0.1:9/a"], to=tmp_path / "to", settings=settings)
    assert not (tmp_path / "to/.cfetch/timeline").exists()
