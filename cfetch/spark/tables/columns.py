"""The metrics tables' columns: one list that writers, readers and docs/metrics-tables.md go by. Pure.

Types are Spark's names. Seconds ``…_s`` count from the run's start; sizes are bytes, rates bytes per second.
"""

from functools import cache
from typing import Any, NamedTuple

__all__ = ["DAY", "TABLES", "VERDICTS", "Column", "arrow_schema", "ddl"]


class Column(NamedTuple):
    """One column."""

    name: str
    type: str
    meaning: str


_RUN = (
    Column("instant", "string", "the plan's"),
    Column("wall_start", "timestamp", "when the run started; with the instant it names the run"),
    Column("load", "string", "which load wrote the row; the current one of a run stands in `runs`"),
)
_ENTRY = (
    Column("id", "bigint", "the entry's index in its manifest"),
    Column("path", "string", "the entry's"),
    Column("host", "string", "the entry's own"),
    Column("size_bytes", "bigint", "by the manifest; null: unknown"),
)
_LOADED = Column("loaded_at", "timestamp", "when it was loaded")

TABLES: dict[str, tuple[Column, ...]] = {
    "files": (
        *_RUN,
        *_ENTRY,
        Column("offset", "bigint", "the entry's position in the result"),
        Column("batch", "string", "null: none"),
        Column("volume", "string", "where it was put"),
        Column("status", "string", "done, skipped, failed or cancelled"),
        Column("verified", "string", "by which hash, `size` or `none`"),
        Column("bytes", "bigint", "that stand on disk"),
        Column("received_bytes", "bigint", "that came over the wire"),
        Column("wasted_bytes", "bigint", "of them, those that are in no file"),
        Column("queued_s", "double", "when it was put in the queue"),
        Column("start_s", "double", "when its first attempt started"),
        Column("end_s", "double", "when it was over"),
        Column("rate_bps", "double", "over all of its attempts"),
        Column("attempts", "int", "how many there were"),
        Column("retries", "int", "attempts after a failed one"),
        Column("stragglers", "int", "attempts that were cancelled as stragglers"),
        Column("error_kind", "string", "why it failed, in a word"),
        Column("error", "string", "why it failed, in a sentence"),
    ),
    "attempts": (
        *_RUN,
        *_ENTRY,
        Column("mirror", "string", "the host that was asked, where it was not the entry's own"),
        Column("n", "int", "counts from 1"),
        Column("outcome", "string", "done, straggler, stalled, error, expired or lost"),
        Column("http_status", "int", "null: no reply"),
        Column("error", "string", "what went wrong"),
        Column("peer", "string", "address and port"),
        Column("start_s", "double", "when it started"),
        Column("first_byte_s", "double", "null: none came"),
        Column("end_s", "double", "when it ended"),
        Column("from_byte", "bigint", "where it went on in the file"),
        Column("bytes", "bigint", "that it received"),
        Column("wasted_bytes", "bigint", "of them, those that are in no file"),
        Column("median_bps", "double", "the baseline when it was judged"),
        Column("expected_s", "double", "after which it counted as a straggler"),
        Column("samples", "array<struct<at_s:double,bytes:bigint>>", "bytes so far, now and then"),
        Column("projected_s", "double", "when it would have ended if left alone; null: not known"),
        Column("to_byte", "bigint", "where its range ended; null: with the file"),
        Column("helper", "boolean", "a second stream of an entry that had one already"),
        Column("saved_s", "double", "what cancelling it saved; below 0: what it cost; null: not known"),
    ),
    "runs": (
        *_RUN,
        Column("source", "string", "the metrics file"),
        Column("version", "string", "of cfetch"),
        Column("host", "string", "that downloaded"),
        Column("destination", "string", "for a person to read"),
        Column("settings", "string", "JSON; without secrets"),
        Column("concurrency", "int", "downloads at a time"),
        Column("planned", "bigint", "entries of the manifest"),
        Column("bytes_known", "bigint", "of all entries of known size"),
        Column("sizes_unknown", "bigint", "entries of unknown size"),
        Column("complete", "boolean", "every entry has its record; false: the run was stopped, or goes on"),
        Column("done", "bigint", "entries"),
        Column("skipped", "bigint", "entries that were there before"),
        Column("failed", "bigint", "entries"),
        Column("cancelled", "bigint", "entries that the end of the run cut short"),
        Column("rejected", "bigint", "lines that are no metrics"),
        Column("bytes", "bigint", "that came over the wire"),
        Column("wasted_bytes", "bigint", "of them, those that are in no file"),
        Column("retries", "bigint", "attempts after a failed one"),
        Column("stragglers", "bigint", "attempts that were cancelled as stragglers"),
        Column("elapsed_s", "double", "until the last entry was over"),
        Column("rate_bps", "double", "bytes by elapsed_s"),
        _LOADED,
    ),
    "rejected": (
        Column("source", "string", "the metrics file"),
        Column("line", "bigint", "counts from 1"),
        Column("instant", "string", "of the run that the line stands in; null: in none"),
        Column("reason", "string", "why it is no metrics"),
        _LOADED,
    ),
}


DAY = Column("day", "date", "of wall_start, in UTC; the name of the folder")

VERDICTS = (
    *_RUN[:2],
    DAY,
    Column("id", "bigint", "the entry's index in its manifest"),
    Column("host", "string", "the entry's own"),
    Column("path", "string", "the entry's"),
    Column("attempt", "int", "counts from 1"),
    Column("rate_bps", "double", "at which it was running when it was cancelled"),
    Column("elapsed_s", "double", "how long it had taken until then"),
    Column("cancelled_s", "double", "when it was cancelled"),
    Column(
        "projected_s", "double", "when it would have ended; null: it did not move, or the size is unknown"
    ),
    Column("finish_s", "double", "when the file was there; null: it never came"),
    Column("saved_s", "double", "what cancelling it saved; below 0: what it cost; null: not known"),
    Column("wasted_bytes", "bigint", "that it had received, and are in no file"),
)


def ddl(columns: tuple[Column, ...]) -> str:
    """The columns as a schema for Spark."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


@cache
def arrow_schema(columns: tuple[Column, ...]) -> Any:  # noqa: ANN401 - pyarrow is not typed
    """The columns as pyarrow's schema."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<struct<at_s:double,bytes:bigint>>": pa.list_(
            pa.struct([("at_s", pa.float64()), ("bytes", pa.int64())])
        ),
    }
    return pa.schema([(column.name, types[column.type]) for column in columns])
