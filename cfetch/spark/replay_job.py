"""The replay of recorded runs in Spark's tasks.

Spark carries items to the tasks and scores back, but no rows of metrics: the tasks read the files themselves,
and call the same function that replays runs in one process.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from cfetch.errors import CfetchError, LocalFault, UsageError
from cfetch.tuning.choice import RunResult
from cfetch.tuning.replay import Setting
from cfetch.tuning.runs import Load, replay_runs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


CHUNK_BYTES = 8 << 20  # of metrics for a task, which are 10,000 files or more; a task itself costs 50 ms


def replay_on_spark(
    spark: "SparkSession", items: Sequence[tuple[str, int]], load: Load, settings: Sequence[Setting]
) -> list[RunResult]:
    """Every run of every item under every setting, in order; items come with their size in bytes.

    Raises:
        UsageError: a task cannot read its item.
        LocalFault: Spark could not carry the job out.
    """
    import pyarrow as pa
    from pyspark.errors import PySparkException

    chunks = _cut_chunks(items)
    texts = [msgspec.json.encode(chunk) for chunk in chunks]
    numbers = pa.array(range(len(chunks)), pa.int32())  # repartitionById takes no wider integers
    plan = pa.table({"number": numbers, "items": texts})
    try:
        rows = (
            spark.createDataFrame(plan)
            .repartitionById(len(chunks), "number")
            .mapInArrow(_make_task(load, tuple(settings)), "number int, results binary, error string")
            .collect()
        )
    except PySparkException as error:
        kind = error.getCondition() or type(error).__name__
        raise LocalFault(
            f"Spark could not replay the runs ({kind}); its log says why; --engine local does the same here"
        ) from None
    for row in sorted(rows):
        if row.error is not None:
            raise UsageError(row.error)
    decoder = msgspec.json.Decoder(list[RunResult])
    return [result for row in sorted(rows) for result in decoder.decode(bytes(row.results))]


def _cut_chunks(items: Sequence[tuple[str, int]]) -> list[list[str]]:
    """Group neighbours until there is enough for a task."""
    chunks: list[list[str]] = []
    room = 0
    for item, size in items:
        if room <= 0:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(item)
        room -= size
    return chunks


def _make_task(
    load: Load, settings: tuple[Setting, ...]
) -> "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def task(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for number, raw in ((row["number"], row["items"]) for batch in batches for row in batch.to_pylist()):
            error, results = None, b"[]"
            try:
                results = msgspec.json.encode(list(replay_runs(msgspec.json.decode(raw), load, settings)))
            except CfetchError as failure:  # returned as a row, as Spark would only repeat after an exception
                error = str(failure)
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int32()), pa.array([results]), pa.array([error], pa.string())],
                names=["number", "results", "error"],
            )

    return task
