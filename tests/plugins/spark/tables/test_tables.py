"""The tables as Spark shows them, made from a real download and from metrics with known answers."""

import json
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from cfetch.base.errors import UsageError
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark.tables import tables
from cfetch.plugins.spark.tables.columns import TABLES, VERDICTS
from cfetch.plugins.spark.tables.load import load
from cfetch.plugins.spark.verb_metrics import load as load_verb
from cfetch.show.metrics_reading import read_metrics
from cfetch.show.slow_files import mitigations
from tests.plugins.lab.tuning.records import FIRST, MORE, metrics_file
from tests.show.records import attempt, record
from tests.tasks.scene import download, files_of, served, write_manifest

CLASSES = {1000: "under 64 KiB", 2 << 20: "under 16 MiB", None: "unknown"}


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory):
    """The metrics of a real run with a straggler, a failed file and a reset connection."""
    folder = tmp_path_factory.mktemp("downloaded")
    files = files_of(12, 64 * 1024)
    slow, gone, reset, *_ = files
    faults = {
        slow: Fault(kind="slow", rate_bps=16_000),
        gone: Fault(kind="status", status=404, first=0),
        reset: Fault(kind="reset", after_bytes=100),
    }
    with served(files, faults) as origin:
        manifest = write_manifest(folder / "m.json", origin, files)
        summary = download(manifest, folder / "to", policy="cloudfetch", padding=0.2, check_interval=0.05)
    assert summary.stragglers.cancelled
    assert summary.files.failed == 1
    return Path(summary.metrics)


@pytest.fixture(scope="module")
def real(spark, downloaded, tmp_path_factory):
    """Its tables, and its records."""
    to = tmp_path_factory.mktemp("real") / "tables"
    loaded = load([downloaded], to, spark)
    records = list(next(read_metrics([downloaded])).files)
    assert (loaded.files, loaded.rejected) == (len(records), 0) == (12, 0)
    return to, records


def known_records():
    """Three hundred files on two hosts with sizes of three classes; every tenth failed."""
    made = []
    for n in range(300):
        seconds, failed = 1.0 + n / 10, n % 10 == 0
        more = {"host": f"h{n % 2}", "rate_bps": 100 * n / seconds, "size_bytes": [*CLASSES][n % 3]}
        tried = attempt(end_s=seconds, size=100 * n, outcome="error" if failed else "done")
        made.append(record(n, 1, tried, status="failed" if failed else "done", bytes_=100 * n, **more))
    return made


@pytest.fixture(scope="module")
def known(spark, tmp_path_factory):
    """Their tables; rows that a dead load has left are among the files."""
    folder = tmp_path_factory.mktemp("known")
    to = folder / "tables"
    path = metrics_file(folder / "m.jsonl", records=known_records())
    load([path], to, spark)
    (file,) = to.glob("files/day=*/*.parquet")
    rows = pq.read_table(file, partitioning=None)
    dead = rows.set_column(rows.schema.get_field_index("load"), "load", pa.array(["dead-0-1"] * len(rows)))
    pq.write_table(dead, file.with_name("run-dead-0-1.parquet"))
    return to


def test_frames_have_the_documented_columns(spark, real):
    """Names and types are those of the list that writers and docs go by; the day is one more."""
    to, _ = real
    for name in TABLES:
        frame = getattr(tables, f"read_{name}")(spark, to)
        wanted = [(column.name, column.type) for column in TABLES[name]]
        assert sorted(frame.dtypes) == sorted(wanted + ([] if name == "rejected" else [("day", "date")]))
    assert tables.verdicts(spark, to).dtypes == [(column.name, column.type) for column in VERDICTS]


def test_a_real_download_comes_back(spark, real):
    """Every file and attempt of the run, and the run's own row."""
    to, records = real
    rows = {row.id: row for row in tables.read_files(spark, to).collect()}
    assert {
        n: (row.path, row.status, row.bytes, row.stragglers, row.attempts) for n, row in rows.items()
    } == {one.id: (one.path, one.status, one.bytes, one.stragglers, len(one.attempts)) for one in records}
    tried = tables.read_attempts(spark, to).select("id", "n", "outcome", "end_s", "samples").collect()
    assert sorted(
        (row.id, row.n, row.outcome, row.end_s, [tuple(at) for at in row.samples]) for row in tried
    ) == sorted((one.id, a.n, a.outcome, a.end_s, a.samples) for one in records for a in one.attempts)
    (run,) = tables.read_runs(spark, to).collect()
    assert (run.planned, run.done, run.failed, run.complete) == (12, 11, 1, True)
    assert run.stragglers == sum(one.stragglers for one in records)
    assert run.day == date.fromisoformat(f"{run.instant[:4]}-{run.instant[4:6]}-{run.instant[6:8]}")


def test_verdicts_are_the_reports(spark, real):
    """What each mitigation saved is what ``cfetch report`` says."""
    to, records = real
    rows = tables.verdicts(spark, to).collect()
    wanted = [verdict for one in records for verdict in mitigations(one)]
    names = ("path", "attempt", "rate_bps", "elapsed_s", "projected_s", "finish_s", "saved_s", "wasted_bytes")
    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(
        tuple(getattr(one, name) for name in names) for one in wanted
    )
    assert rows


def test_errors_by_kind_and_host(spark, real):
    """The failed file, with the message it failed with."""
    to, records = real
    (failed,) = [one for one in records if one.status == "failed"]
    (row,) = tables.errors(spark, to).collect()
    assert (row.error_kind, row.host, row.files, row.path) == ("refused", failed.host, 1, failed.path)
    assert (row.error, row.first_day) == (failed.error, row.last_day)


@pytest.mark.parametrize("by", ["host", "day", "size_class"])
def test_percentiles(spark, known, by):
    """Of what is done, within a thousandth of the rank; failures count in the error rate alone."""
    groups = {
        "host": lambda one: one.host,
        "day": lambda _: date(2026, 3, 1),
        "size_class": lambda one: CLASSES[one.size_bytes],
    }
    found = tables.percentiles(tables.read_files(spark, known), by).collect()
    names = list(dict.fromkeys(map(groups[by], known_records())))
    assert [row[by] for row in found] == names
    for row in found:
        of = [one for one in known_records() if groups[by](one) == row[by]]
        done = [one for one in of if one.status == "done"]
        assert (row["count"], row["done"], row["failed"]) == (len(of), len(done), len(of) - len(done))
        assert row.error_rate == pytest.approx((len(of) - len(done)) / len(of))
        assert row.bytes == sum(one.bytes for one in done)
        for column, values in (
            ("elapsed_s", [one.end_s - one.start_s for one in done]),
            ("rate_bps", [one.rate_bps for one in done]),
        ):
            told = [row[f"{column}_{quantile}"] for quantile in ("p50", "p90", "p99", "max")]
            exact = np.percentile(values, [50, 90, 99, 100], method="inverted_cdf")
            assert told == pytest.approx(list(exact))


def test_percentiles_of_attempts(spark, known):
    """Attempts have outcomes and no rate of their own; the figures are those of their files here."""
    of_files = tables.percentiles(tables.read_files(spark, known)).collect()
    of_attempts = tables.percentiles(tables.read_attempts(spark, known)).collect()
    assert [row.asDict() for row in of_attempts] == [pytest.approx(row.asDict()) for row in of_files]
    with pytest.raises(UsageError, match="not by colour"):
        tables.percentiles(tables.read_files(spark, known), "colour")  # type: ignore[arg-type]


def test_where_there_are_no_tables(spark, tmp_path):
    """An error that says how they are made."""
    with pytest.raises(UsageError, match="cfetch metrics load"):
        tables.read_files(spark, tmp_path / "none")


def test_the_verb_loads_again_and_tells_of_bad_lines(spark, tmp_path, capsys):
    """One JSON document; exit code 1 where lines were rejected; a run that is there is replaced."""
    verb = partial(load_verb, spark_master="local[*]", to=str(tmp_path / "t"), quiet=True, json=True)
    metrics_file(tmp_path / "1.jsonl", "i1", FIRST)
    two = metrics_file(tmp_path / "2.jsonl", "i2", MORE, [record(n, instant="i2") for n in range(3)])
    verb(metrics=[str(tmp_path)])
    first = json.loads(capsys.readouterr().out)
    two.write_bytes(two.read_bytes() + b"oops\n")
    with pytest.raises(typer.Exit) as ended:
        verb(metrics=[str(two)])
    told, words = capsys.readouterr()
    assert (ended.value.exit_code, words) == (1, "")
    second = json.loads(told)
    assert first["schema"] == second["schema"] == "cfetch.metrics_load/1"
    assert [(run["instant"], run["replaced"]) for run in first["runs"]] == [("i2", False), ("i1", False)]
    assert [(run["instant"], run["replaced"], run["rejected"]) for run in second["runs"]] == [("i2", True, 1)]
    assert second["first_rejected"][0]["line"] == 5
    frame = tables.read_files(spark, tmp_path / "t")
    assert {row.instant: row["count"] for row in frame.groupBy("instant").count().collect()} == {
        "i1": 5,
        "i2": 3,
    }


def test_the_p99_of_a_long_tail_is_right(spark):
    """One file in a hundred takes 100 s or longer: a rank beside it is another time."""
    rows = spark.range(100_000, numPartitions=2).selectExpr(
        *("'h' AS host", "'done' AS status", "0.0D AS start_s"),
        "100000D / (pmod(id * 48271L, 100000L) + 1) AS end_s",  # in no order
        *("1.0D AS rate_bps", "1L AS bytes", "1L AS size_bytes"),
    )
    (row,) = tables.percentiles(rows).collect()
    assert row.elapsed_s_p99 == pytest.approx(100.0, rel=0.01)
