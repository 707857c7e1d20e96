"""The metrics tables' columns: one list for writers, readers and docs/metrics-tables.md. Pure.

Types are Spark's names. Seconds ``…_s`` count from the run's start; sizes are bytes, rates bytes per second.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from cfetch.plugins.spark.schemas import arrow_schema
from cfetch.show.ending import BOUNDS
from cfetch.show.event_records import KINDS


class Column(NamedTuple):
    """One column."""

    name: str
    type: str
    meaning: str


RUN = (
    Column("instant", "string", "of the plan"),
    Column("wall_start", "timestamp", "start of the run"),
    Column("load", "string", "load that wrote the row"),
)
ENTRY = (
    Column("id", "bigint", "index in the manifest"),
    Column("path", "string", "of the entry"),
    Column("host", "string", "of the entry"),
    Column("size_bytes", "bigint", "by the manifest; null: unknown"),
)
_LOADED = Column("loaded_at", "timestamp", "time of the load")

TABLES: dict[str, tuple[Column, ...]] = {
    "files": (
        *RUN,
        *ENTRY,
        Column("offset", "bigint", "in the result"),
        Column("batch", "string", "null: none"),
        Column("volume", "string", "destination of the file"),
        Column("status", "string", "done, skipped, failed or cancelled"),
        Column("verified", "string", "by which hash (`server-…`: the server's own), `size` or `none`"),
        Column("bytes", "bigint", "on disk"),
        Column("received_bytes", "bigint", "received"),
        Column("wasted_bytes", "bigint", "received and thrown away"),
        Column("queued_s", "double", "time of queueing"),
        Column("start_s", "double", "of the first attempt"),
        Column("end_s", "double", "end of the transfer"),
        Column("rate_bps", "double", "over all attempts"),
        Column("attempts", "int", "number of attempts"),
        Column("retries", "int", "attempts after a failed one"),
        Column("stragglers", "int", "cancelled as stragglers"),
        Column("error_kind", "string", "why it failed, in a word"),
        Column("error", "string", "why it failed, in a sentence"),
        Column("executor", "string", "that brought it; null: of a run of one machine"),
        Column("task", "bigint", "that brought it, as Spark numbers tasks; null: of a run without tasks"),
    ),
    "attempts": (
        *RUN,
        *ENTRY,
        Column("mirror", "string", "host asked, if another"),
        Column("n", "int", "counts from 1"),
        Column(
            "outcome",
            "string",
            "done, straggler, stalled, error, expired, moved; "
            "lost: another request for the whole file ended first",
        ),
        Column("http_status", "int", "null: no reply"),
        Column("error", "string", "what went wrong"),
        Column("peer", "string", "address and port"),
        Column("start_s", "double", "start of the attempt"),
        Column("first_byte_s", "double", "null: none came"),
        Column("end_s", "double", "end of the attempt"),
        Column("from_byte", "bigint", "first byte of its range"),
        Column("bytes", "bigint", "received"),
        Column("wasted_bytes", "bigint", "received and thrown away"),
        Column("median_bps", "double", "baseline when it was judged"),
        Column("expected_s", "double", "limit; beyond it a straggler"),
        Column("samples", "array<struct<at_s:double,bytes:bigint>>", "up to 32 points of progress"),
        Column("projected_s", "double", "projected end; null: unknown"),
        Column("to_byte", "bigint", "end of its range; null: of the file"),
        Column("helper", "boolean", "brought a further segment"),
        Column("held_s", "double", "held by a rate limit or the volume; null: never"),
        Column("saved_s", "double", "saved by cancelling; below 0: cost; null: unknown"),
        Column("content_type", "string", "as the server has stated it"),
        Column("connect_s", "double", "to make its connections; null: used one that was there"),
        Column("unanswered", "boolean", "broken off while its handshake had no answer"),
        Column("full_link", "boolean", "helped or was cancelled while the link of its host was full"),
    ),
    "events": (
        *RUN,
        Column("t_s", "double", "when"),
        Column("kind", "string", ", ".join(KINDS)),
        Column("host", "string", "null: of no host"),
        Column("volume", "string", "null: of no volume"),
        Column("id", "bigint", "of the entry; null: of none"),
        Column("path", "string", "of the entry; null: of none"),
        Column("places", "int", "width: the host's slots from now on"),
        Column("before", "int", "width: until then"),
        Column("seconds", "double", "of a pause or slowdown; null: for good, or unknown"),
        Column("reason", "string", "for a person"),
    ),
    "runs": (
        *RUN,
        Column("source", "string", "metrics file"),
        Column("version", "string", "of cfetch"),
        Column("host", "string", "machine of the run"),
        Column("destination", "string", "for a person"),
        Column("settings", "string", "JSON; without secrets"),
        Column("concurrency", "int", "downloads at a time"),
        Column("planned", "bigint", "entries of the manifest"),
        Column("bytes_known", "bigint", "of entries of known size"),
        Column("sizes_unknown", "bigint", "entries of unknown size"),
        Column("complete", "boolean", "every entry has its record"),
        Column("done", "bigint", "entries"),
        Column("skipped", "bigint", "already there"),
        Column("failed", "bigint", "entries"),
        Column("cancelled", "bigint", "entries cut short by the run's end"),
        Column("rejected", "bigint", "lines that are no metrics"),
        Column("bytes", "bigint", "received"),
        Column("wasted_bytes", "bigint", "received and thrown away"),
        Column("retries", "bigint", "attempts after a failed one"),
        Column("stragglers", "bigint", "cancelled as stragglers"),
        Column("elapsed_s", "double", "until the last entry's end"),
        Column("rate_bps", "double", "bytes / elapsed_s"),
        Column("policy", "string", "adaptive, cloudfetch or none; null: killed, or an older version"),
        Column("exit_code", "int", "of the run"),
        Column("saved_s", "double", "saved by mitigation; below 0: cost"),
        Column("set_by", "string", f"what set the end: {', '.join(BOUNDS)}"),
        Column("set_s", "double", "for how long before the end it did"),
        Column("set_path", "string", "entry that set the end; null: none"),
        Column("set_host", "string", "host that set the end; null: none"),
        _LOADED,
    ),
    "rejected": (
        Column("source", "string", "metrics file"),
        Column("line", "bigint", "counts from 1"),
        Column("instant", "string", "of its run; null: none"),
        Column("reason", "string", "why it is no metrics"),
        _LOADED,
    ),
}


DAY = Column("day", "date", "of wall_start, in UTC")

VERDICTS = (
    *RUN[:2],
    DAY,
    Column("id", "bigint", "index in the manifest"),
    Column("host", "string", "of the entry"),
    Column("path", "string", "of the entry"),
    Column("attempt", "int", "counts from 1"),
    Column("rate_bps", "double", "when it was cancelled"),
    Column("elapsed_s", "double", "until it was cancelled"),
    Column("cancelled_s", "double", "time of cancelling"),
    Column("projected_s", "double", "projected end; null: unknown"),
    Column("finish_s", "double", "of the file; null: never"),
    Column("saved_s", "double", "saved by cancelling; below 0: cost; null: unknown"),
    Column("wasted_bytes", "bigint", "received and thrown away"),
)


def types_of(columns: Iterable[Column]) -> dict[str, str]:
    """The type of each column, by its name."""
    return {column.name: column.type for column in columns}


@cache
def table_schema(table: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
    """A table's columns as pyarrow's schema."""
    return arrow_schema(types_of(TABLES[table]))
