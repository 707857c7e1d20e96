"""The metrics tables as Spark's DataFrames, and their common questions: percentiles, errors, verdicts.

Frames of the tables show each run as one load left it, without rows of a load that is under way or has died.
All functions work on Spark Connect too. docs/metrics-tables.md describes the columns.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

from cfetch.base.errors import UsageError
from cfetch.base.records import AttemptRecord, FileRecord
from cfetch.base.secret import printable
from cfetch.plugins.spark.schemas import arrow_schema, ddl
from cfetch.plugins.spark.tables.columns import DAY, TABLES, VERDICTS, types_of
from cfetch.show.slow_files import mitigations

By = Literal["host", "day", "size_class"]

# The inverse of the largest error of a rank; a thousandth made the p99 of long tails 6 % low.
ACCURACY = 100_000
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
SIZE_CLASSES = {
    "under 64 KiB": 1 << 16,
    "under 1 MiB": 1 << 20,
    "under 16 MiB": 1 << 24,
    "under 256 MiB": 1 << 28,
    "under 4 GiB": 1 << 32,
}


def read_files(spark: SparkSession, directory: str | Path) -> DataFrame:
    """One row for each entry of each run.

    Raises:
        UsageError: there are no tables in ``directory``; with Spark Connect Spark says so, at first use.
    """
    return _read_current(spark, directory, "files")


def read_attempts(spark: SparkSession, directory: str | Path) -> DataFrame:
    """One row for each attempt at an entry. Raises as ``read_files``."""
    return _read_current(spark, directory, "attempts")


def read_events(spark: SparkSession, directory: str | Path) -> DataFrame:
    """One row for each event that affected the speed of a run; runs of early versions have none.

    Raises as ``read_files``; also if the last load was by a version without events.
    """
    return _read_current(spark, directory, "events")


def read_runs(spark: SparkSession, directory: str | Path) -> DataFrame:
    """One row for each run. Raises as ``read_files``."""
    return _read(spark, directory, "runs")


def read_rejected(spark: SparkSession, directory: str | Path) -> DataFrame:
    """One row for each line that is no metrics, at most a thousand of a source. Raises as ``read_files``."""
    return _read(spark, directory, "rejected")


def _read_current(spark: SparkSession, directory: str | Path, table: str) -> DataFrame:
    current = _read(spark, directory, "runs").select("load")
    return _read(spark, directory, table).join(F.broadcast(current), "load", "left_semi")


def _read(spark: SparkSession, directory: str | Path, table: str) -> DataFrame:
    try:
        columns = TABLES[table] if table == "rejected" else (*TABLES[table], DAY)
        return spark.read.schema(ddl(types_of(columns))).parquet(f"{directory}/{table}")
    except AnalysisException:
        raise UsageError(
            f"{printable(str(directory), 1000)}: there are no metrics tables; "
            "make them with `cfetch metrics load METRICS... --to DIR`"
        ) from None


def percentiles(frame: DataFrame, by: By = "host") -> DataFrame:
    """Compute duration and speed of the rows that are done.

    ``frame`` has the rows of ``read_files`` or of ``read_attempts``.

    Columns: ``by``; ``count``, ``done``, ``failed``, ``error_rate`` (of those done or failed), ``bytes`` (of
    those done); ``elapsed_s_p50``, ``…_p90``, ``…_p99``, ``…_max``, and ``rate_bps_p50`` and so on. A
    percentile is a value that occurs; its rank is off by 1 in 100,000 at most (``percentile_approx``)

    Raises:
        UsageError: ``by`` is something else.
    """
    if by not in get_args(By):
        raise UsageError(f"percentiles are by {', '.join(get_args(By))}, not by {printable(str(by))}")
    outcome = "outcome" if "outcome" in frame.columns else "status"
    elapsed_s = F.col("end_s") - F.col("start_s")
    rate_bps = F.col("rate_bps") if outcome == "status" else F.col("bytes") / F.nullif(elapsed_s, F.lit(0.0))
    is_done, is_failed = (
        F.col(outcome) == "done",
        F.col(outcome).isin("failed", "error", "stalled", "expired"),
    )
    done, failed = F.count_if(is_done), F.count_if(is_failed)
    measured = {"elapsed_s": elapsed_s, "rate_bps": rate_bps}
    group = _classify_size() if by == "size_class" else F.col(by)
    groups = frame.groupBy(group.alias(by)).agg(
        F.count("*").alias("count"),
        done.alias("done"),
        failed.alias("failed"),
        (failed / F.nullif(done + failed, F.lit(0))).alias("error_rate"),
        F.sum(F.when(is_done, F.col("bytes"))).alias("bytes"),
        *(
            F.percentile_approx(F.when(is_done, value), [*QUANTILES.values()], ACCURACY).alias(name)
            for name, value in measured.items()
        ),
        F.min("size_bytes").alias("_smallest"),
    )
    order = F.col("_smallest").asc_nulls_last() if by == "size_class" else F.col(by)
    return groups.orderBy(order).select(
        by,
        *("count", "done", "failed", "error_rate", "bytes"),
        *(
            F.col(name)[index].alias(f"{name}_{quantile}")
            for name in measured
            for index, quantile in enumerate(QUANTILES)
        ),
    )


def _classify_size() -> Column:
    classes = F.lit("4 GiB and more")
    for name, below_bytes in reversed(SIZE_CLASSES.items()):
        classes = F.when(F.col("size_bytes") < below_bytes, F.lit(name)).otherwise(classes)
    return F.when(F.col("size_bytes").isNull(), F.lit("unknown")).otherwise(classes)


def errors(spark: SparkSession, directory: str | Path) -> DataFrame:
    """The reasons of failed entries, the most frequent first: ``error_kind``, ``host``, number of ``files``.

    Also ``first_day``, ``last_day``, and as an example the first ``path`` with its ``error``. Raises as
    ``read_files``.
    """
    failed = read_files(spark, directory).where(F.col("status") == "failed")
    return (
        failed.groupBy(F.coalesce("error_kind", F.lit("unknown")).alias("error_kind"), "host")
        .agg(
            F.count("*").alias("files"),
            F.min("day").alias("first_day"),
            F.max("day").alias("last_day"),
            F.min("path").alias("path"),
            F.min_by("error", "path").alias("error"),
        )
        .orderBy(F.desc("files"), "error_kind", "host")
    )


def verdicts(spark: SparkSession, directory: str | Path) -> DataFrame:
    """The seconds that cancelling each straggler saved (``saved_s``, below 0: cost), and its wasted bytes.

    Attempts that lost to a helper have a row too. The rules are those of ``cfetch report``; ``VERDICTS`` in
    ``columns.py`` lists the columns. Raises as ``read_files``.
    """
    key = ["load", "id"]
    # ``n``, the order of the tries, is the first field
    fields = [F.col(name) for name in AttemptRecord.__struct_fields__]
    tries = F.sort_array(F.collect_list(F.struct(*fields))).alias("tries")
    rescued = read_files(spark, directory).where(F.col("attempts") > 1)
    joined = rescued.join(read_attempts(spark, directory).groupBy(*key).agg(tries), key)
    return joined.mapInArrow(_judge_batches, ddl(types_of(VERDICTS)))


def _judge_batches(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    for batch in batches:
        rows = [verdict for row in batch.to_pylist() for verdict in _make_verdict_rows(row)]
        yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema(types_of(VERDICTS)))


def _make_verdict_rows(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    record = FileRecord(
        **{name: row[name] for name in _FIELDS}, attempts=[_make_attempt(attempt) for attempt in row["tries"]]
    )
    for verdict in mitigations(record):
        yield row | msgspec.structs.asdict(verdict)


def _make_attempt(row: dict[str, Any]) -> AttemptRecord:
    return AttemptRecord(
        **row | {"samples": [(sample["at_s"], sample["bytes"]) for sample in row["samples"]]}
    )


_NO_FIELDS = {"schema", "attempts", "url", "line", "columns", "executor"}
_FIELDS = tuple(name for name in FileRecord.__struct_fields__ if name not in _NO_FIELDS)
